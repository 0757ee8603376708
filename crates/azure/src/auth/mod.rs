//! Who asks, and what that one may do: proved before anything of a body is read.
//!
//! A request is proved by a key of the account ([`shared_key`]), by a token ([`bearer`]), or by a signature in its URL that somebody who has one of these made
//! for others ([`sas`], [`delegation`]).

mod bearer;
mod delegation;
mod rights;
mod sas;
mod shared_key;
mod source;

use std::net::IpAddr;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use control::Keys;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;
use jiff::Timestamp;
use secure::{is_hmac_sha256, sha256};
use server::admin::AuditProof;

use crate::cors::Rule;
use crate::failure::{Code, Failure};
use crate::head::{RECURSIVE, is_true};
use crate::operations::Operation;
use crate::query::Query;
use crate::target::{Dots, Target};

pub(crate) use self::bearer::Principal;
pub(crate) use self::delegation::{Delegation, SERVICE as DELEGATION_SERVICE, lasts};
pub(crate) use self::rights::Permissions;
use self::rights::Rights;
use self::sas::Verified;
pub(crate) use self::sas::{Overrides, signature, time};
pub(crate) use self::source::{Source as CopySource, source};

/// What proofs are looked at against.
pub(crate) trait Known {
    /// The keys of an account, if there is one of that name.
    fn keys(&self, account: &str) -> Option<Keys>;
    /// A policy that is stored with a share.
    fn policy(&self, account: &str, share: &str, id: &str) -> Option<Policy>;
    /// Who shows this token to an account, or why that is nobody.
    fn principal_of(&self, _token: &str, _account: &str, _at: Timestamp) -> Result<Principal, String> {
        Err("no tokens are known".to_owned())
    }
    /// What a service principal may do with files, as long as there is one of this id.
    fn permissions_of(&self, _principal: &str) -> Option<Permissions> {
        None
    }
    /// Which pages a browser lets ask.
    fn cors(&self, _account: &str) -> Vec<Rule> {
        Vec::new()
    }
}

/// A stored access policy, as it was set: a signature names it and takes from it what it does not say itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) start: Option<String>,
    pub(crate) expiry: Option<String>,
    pub(crate) permissions: Option<String>,
}

/// How a request comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// From where.
    pub(crate) peer: IpAddr,
    /// By HTTPS.
    pub(crate) is_secure: bool,
    /// When.
    pub(crate) at: Timestamp,
}

/// Who proved to be allowed to ask this account. Nothing is done for anybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proven {
    account: String,
    rights: Rights,
    overrides: Overrides,
    /// The service principal that asks itself, with a token.
    principal: Option<String>,
    evidence: Evidence,
}

/// By what a request is proved, as the audit log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) proof: AuditProof,
    /// The account, or the service principal.
    pub(crate) requester: String,
    /// The key's name, and a sum of the signature or the token: it tells one apart that is known, and is none.
    pub(crate) token: String,
}

impl Evidence {
    /// By a token of a service principal.
    fn of_token(principal: &Principal, token: &str) -> Self {
        Evidence { proof: AuditProof::Token, requester: principal.id.clone(), token: Evidence::sum(token) }
    }

    /// A sum of a signature or a token.
    fn sum(secret: &str) -> String {
        sha256(secret.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Proven {
    /// The account.
    pub(crate) fn account(&self) -> &str {
        &self.account
    }

    /// Whether this may be done, where the request names it, with these headers.
    pub(crate) fn allows(&self, operation: Operation, headers: &HeaderMap) -> Result<(), Failure> {
        if self.principal.is_some() {
            bearer::look_at_intent(operation, headers)?;
        }
        self.rights.allow(operation)?;
        self.rights.allow_below(operation, is_true(headers, RECURSIVE))
    }

    /// Whether what is there already may be made anew by what is made, copied or renamed.
    pub(crate) fn may_overwrite(&self) -> bool {
        self.rights.allow_overwriting()
    }

    /// The service principal that asks itself, with a token.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// By what it is proved.
    pub(crate) fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The headers of a file that the answer has whatever the file's are.
    pub(crate) fn overrides(&self) -> &Overrides {
        &self.overrides
    }
}

#[cfg(test)]
impl Proven {
    /// Who has a key of an account.
    pub(crate) fn by_key(account: &str) -> Self {
        let evidence = Evidence { proof: AuditProof::AccountKey, requester: account.into(), token: "key1".into() };
        let (account, rights) = (account.to_owned(), Rights::Key);
        Proven { account, rights, overrides: Overrides::default(), principal: None, evidence }
    }
}

/// Finds out who asks. A header counts before a signature in the URL. Who is refused is told which account the request names: it may mean none.
pub(crate) fn prove(
    parts: &Parts,
    query: &Query,
    target: &Target,
    way: Way,
    known: &impl Known,
) -> Result<Proven, Failure> {
    proved(parts, query, target, way, known).map_err(|failure| match target.account_of_path() {
        Some(account) if failure.code == Code::AuthenticationFailed => {
            let named = if account.is_empty() { "it names none".to_owned() } else { format!("here {account:?}") };
            let hint = format!("The account is the first name of the path, as in /ACCOUNT/SHARE/FILE: {named}.");
            Failure { message: format!("{} {hint}", failure.message), ..failure }
        }
        _ => failure,
    })
}

fn proved(parts: &Parts, query: &Query, target: &Target, way: Way, known: &impl Known) -> Result<Proven, Failure> {
    let account = target.account.clone();
    if !parts.headers.contains_key(AUTHORIZATION) && query.get("sig").is_some() {
        let Verified { rights, overrides, evidence } = sas::verify(query, target, way, known)?;
        return Ok(Proven { account, rights, overrides, principal: None, evidence });
    }
    let overrides = Overrides::default();
    if let Some(token) = bearer::token(&parts.headers, AUTHORIZATION.as_str()) {
        let principal = bearer::verify(token, &account, way, known)?;
        known.keys(&account).ok_or_else(|| Failure::unauthenticated("there is no such account"))?;
        let rights = Rights::Principal(principal.permissions);
        let evidence = Evidence::of_token(&principal, token);
        return Ok(Proven { account, rights, overrides, principal: Some(principal.id), evidence });
    }
    let key = shared_key::verify(parts, query, &account, known.keys(&account).as_ref(), way.at)?;
    let evidence = Evidence { proof: AuditProof::AccountKey, requester: account.clone(), token: key.to_owned() };
    Ok(Proven { account, rights: Rights::Key, overrides, principal: None, evidence })
}

/// What [`crate::read_signature`] is.
pub(crate) fn read_signature(path: &str, query: &str, second: i64) -> Option<()> {
    let (query, target) = (Query::parse(query).ok()?, Target::parse("", path, Dots::LeftOut).ok()?);
    let way = Way { peer: [127, 0, 0, 1].into(), is_secure: false, at: Timestamp::from_second(second).ok()? };
    sas::read(&query, &target, way)
}

/// What [`crate::read_head`] finds of who asks: whether that is anybody, and the names of the source, if the operation has one.
pub(crate) fn read_head(parts: &Parts, query: &Query, target: &Target) -> (bool, Option<Vec<String>>) {
    let way = Way { peer: [127, 0, 0, 1].into(), is_secure: true, at: Timestamp::UNIX_EPOCH };
    let is_proven = prove(parts, query, target, way, &Nobody).is_ok();
    let evidence = Evidence { proof: AuditProof::AccountKey, requester: String::new(), token: String::new() };
    let (account, rights) = (target.account.clone(), Rights::Key);
    let proven = Proven { account, rights, overrides: Overrides::default(), principal: None, evidence };
    let source = Operation::of(&parts.method, target, query, &parts.headers)
        .and_then(|operation| source(&proven, operation, (target, &parts.headers), way, &Nobody));
    (is_proven, source.ok().flatten().map(|source| source.target.names))
}

/// A server without accounts.
struct Nobody;

impl Known for Nobody {
    fn keys(&self, _: &str) -> Option<Keys> {
        None
    }

    fn policy(&self, _: &str, _: &str, _: &str) -> Option<Policy> {
        None
    }
}

/// Keys that nobody has: what is signed for an account that does not exist is looked at with them, as long as with others.
static NOBODYS: LazyLock<Keys> = LazyLock::new(|| {
    let key = || BASE64_STANDARD.encode([0; 64]);
    Keys { key1: key(), key2: key() }
});

/// Which key of the account signed this text; who is refused is told the text. An account that does not exist has none, which nobody can tell from a wrong key.
fn signed_with(keys: Option<&Keys>, text: &str, signature: &str) -> Result<&'static str, Failure> {
    let signature = BASE64_STANDARD.decode(signature).unwrap_or_default();
    let is_of =
        |key: &String| BASE64_STANDARD.decode(key).is_ok_and(|key| is_hmac_sha256(&key, text.as_bytes(), &signature));
    let (keys, is_there) = (keys.unwrap_or(&NOBODYS), keys.is_some());
    let (is_first, is_second) = (is_of(&keys.key1) & is_there, is_of(&keys.key2) & is_there);
    let key = if is_first { Some("key1") } else { is_second.then_some("key2") };
    key.ok_or_else(|| Failure::unauthenticated(format!("the signature is not that of the string {text:?}")))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn who_is_refused_is_told_which_account_the_request_names() {
        let message = |host: &str, path: &str| {
            let parts = Request::get(path).body(()).unwrap().into_parts().0;
            let target = Target::parse(host, path, Dots::LeftOut).unwrap();
            let way = Way { peer: [127, 0, 0, 1].into(), is_secure: false, at: Timestamp::UNIX_EPOCH };
            let query = Query::parse("").unwrap();
            prove(&parts, &query, &target, way, &Nobody).map(drop).unwrap_err().message
        };
        let hint = "the first name of the path, as in /ACCOUNT/SHARE/FILE: ";
        assert!(message("127.0.0.1", "/share/hello.txt").ends_with(&format!("{hint}here \"share\".")));
        assert!(message("127.0.0.1", "/").ends_with(&format!("{hint}it names none.")));
        assert!(!message("local.file.core.localhost", "/share/hello.txt").contains("first name"));
    }
}
