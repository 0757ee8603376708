//! Bearer tokens (RFC 6750): JWTs (RFC 7519) that this server gives service principals, signed with HMAC-SHA256 (RFC 7518 3.2).
//!
//! A token's key is made of what the catalog keeps of the principal's secret. So a token survives a restart of the server, and neither the principal nor its
//! secret. What its owner may do is not in the token: that is asked of the catalog each time.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use control::{KnownCatalog, ServicePrincipal};
use jiff::{SignedDuration, Timestamp};
use secure::{hmac_sha256, is_hmac_sha256};
use serde::{Deserialize, Serialize};

use crate::target::{account_of, without_secondary};

/// The tenant that every server's service principals are in.
pub const TENANT: &str = "00000000-0000-0000-0000-000000000002";

/// How long a token lasts, in seconds, as Microsoft Entra's do.
pub(crate) const LASTS_SECONDS: i64 = 3_599;
/// Bytes of a token.
const LENGTH_MAX: usize = 4_096;
/// How far the clock may go back between giving a token and seeing it.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Which interface a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Shares and files.
    Storage,
    /// The management interface.
    Management,
}

/// Why a token lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    /// It is no token of this server, or nobody's any more.
    #[error("the token is not one that this server has given, or its service principal is gone")]
    Unknown,
    /// Its time is over.
    #[error("the token has expired, or is not valid yet")]
    Expired,
    /// It is for something else.
    #[error("the token is for another audience")]
    Audience,
}

#[derive(Serialize, Deserialize)]
struct Header {
    typ: String,
    alg: String,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    aud: String,
    iss: String,
    iat: i64,
    nbf: i64,
    exp: i64,
    /// The service principal's application, by the name that tokens of version 1 have for it, and that of version 2.
    appid: String,
    azp: String,
    /// The service principal, which has one id for both here.
    oid: String,
    sub: String,
    tid: String,
    idtyp: String,
    ver: String,
}

/// What an audience names.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    /// All accounts.
    Accounts,
    /// One account, by the name of its host.
    Account(String),
    /// The management interface.
    Management,
    /// A host and port, and an account where the path has one.
    Host(String, Option<String>),
}

impl Named {
    /// Reads the URL of an audience. Its names are the same in any case.
    fn parse(url: &str) -> Option<Self> {
        let url = url.to_ascii_lowercase();
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if let Some(account) = account_of(host) {
            return Some(Named::Account(account.to_owned())).filter(|_| !account.is_empty());
        }
        match host.split(':').next().unwrap_or_default() {
            "" => None,
            "storage.azure.com" => Some(Named::Accounts),
            "management.azure.com" | "management.core.windows.net" => Some(Named::Management),
            _ => {
                let account = path.split('/').find(|name| !name.is_empty());
                Some(Named::Host(host.to_owned(), account.map(|account| without_secondary(account).to_owned())))
            }
        }
    }

    /// Whether it is for something else than this account.
    fn is_for_another(&self, account: &str) -> bool {
        match self {
            Named::Account(of) | Named::Host(_, Some(of)) => of != account,
            Named::Accounts | Named::Management | Named::Host(_, None) => false,
        }
    }

    /// The interface that it is, where `own` tells whether a host and port are this server's.
    fn audience(&self, own: impl Fn(&str) -> bool) -> Option<Audience> {
        match self {
            Named::Accounts | Named::Account(_) => Some(Audience::Storage),
            Named::Management => Some(Audience::Management),
            Named::Host(host, account) if own(host) => {
                Some(if account.is_some() { Audience::Storage } else { Audience::Management })
            }
            Named::Host(..) => None,
        }
    }
}

impl Audience {
    /// The interface that is at this URL; `None` where nothing of this server is. `own` tells whether a host and port, in small letters, are this server's.
    pub(crate) fn of(url: &str, own: impl Fn(&str) -> bool) -> Option<Self> {
        Named::parse(url)?.audience(own)
    }
}

/// A token for `principal`, signed with `key`, to be shown to `audience` from `now` on.
pub(crate) fn issue(
    (principal, key): &(ServicePrincipal, [u8; 32]),
    audience: &str,
    issuer: &str,
    now: Timestamp,
) -> String {
    let (now, id) = (now.as_second(), &principal.application_id);
    let header = Header { typ: "JWT".to_owned(), alg: "HS256".to_owned() };
    let claims = Claims {
        aud: audience.to_owned(),
        iss: issuer.to_owned(),
        iat: now,
        nbf: now,
        exp: now + LASTS_SECONDS,
        appid: id.clone(),
        azp: id.clone(),
        oid: id.clone(),
        sub: id.clone(),
        tid: TENANT.to_owned(),
        idtyp: "app".to_owned(),
        ver: "2.0".to_owned(),
    };
    let part = |json: Result<String, serde_json::Error>| {
        BASE64_URL_SAFE_NO_PAD.encode(json.expect("strings and numbers are JSON"))
    };
    let signed = format!("{}.{}", part(serde_json::to_string(&header)), part(serde_json::to_string(&claims)));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(hmac_sha256(key, signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Who shows this token, where it is one for `audience`, and for `account` where that is asked, at `now`. What it says is believed only where its signature is right.
pub(crate) fn verify(
    token: &str,
    (audience, account): (Audience, Option<&str>),
    catalog: &KnownCatalog,
    now: Timestamp,
) -> Result<ServicePrincipal, Wrong> {
    let (signed, claims, signature) = parse(token).ok_or(Wrong::Unknown)?;
    let (principal, key) = catalog.service_principal_and_key(&claims.appid).ok_or(Wrong::Unknown)?;
    if !is_hmac_sha256(&key, signed.as_bytes(), &signature) {
        return Err(Wrong::Unknown);
    }
    let earliest = Timestamp::from_second(claims.nbf).unwrap_or(Timestamp::MAX).saturating_sub(SKEW);
    if now.as_second() >= claims.exp || earliest.is_ok_and(|earliest| now < earliest) {
        return Err(Wrong::Expired);
    }
    // It was this server's own host when the token was given.
    let named = Named::parse(&claims.aud).ok_or(Wrong::Audience)?;
    let is_for_it = named.audience(|_| true) == Some(audience);
    let is_for_another = account.is_some_and(|account| named.is_for_another(account));
    if !is_for_it || is_for_another || claims.tid != TENANT {
        return Err(Wrong::Audience);
    }
    Ok(principal)
}

/// A token's signed text, what that says, and its signature; `None` where it is not of this form.
fn parse(token: &str) -> Option<(&str, Claims, Vec<u8>)> {
    if token.len() > LENGTH_MAX {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
    let header: Header = serde_json::from_slice(&decoded(header)?).ok()?;
    // Nothing else is signed here, and "none" least of all.
    if header.alg != "HS256" {
        return None;
    }
    Some((signed, serde_json::from_slice(&decoded(claims)?).ok()?, decoded(signature)?))
}

/// True of what has the form of a token, for who tests what reads it.
pub(crate) fn is_readable(token: &str) -> bool {
    parse(token).is_some()
}

#[cfg(test)]
mod tests {
    use control::{Catalog, Control, DataFolder, Overrides, Role, UserName};
    use serde_json::{Value, json};

    use super::*;

    const STORAGE: &str = "https://storage.azure.com/";
    const ISSUER: &str = "https://127.0.0.1:10004/00000000-0000-0000-0000-000000000002/v2.0";
    const ID: &str = "11111111-1111-4111-8111-111111111111";

    /// A catalog that knows one service principal.
    fn known() -> (tempfile::TempDir, KnownCatalog) {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        let name: UserName = "ci".parse().unwrap();
        catalog.add_service_principal(&name, ID, "secret", &[Role::FileReader]).unwrap();
        let mut control = Control::new(&folder, catalog, Overrides::default());
        let known = control.catalog();
        control.configuration().unwrap();
        (place, known)
    }

    fn now() -> Timestamp {
        "2026-11-30T09:00:00Z".parse().unwrap()
    }

    fn later(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    /// The token with one claim, or a field of its header, replaced, signed with `key` anew.
    fn changed(token: &str, part: usize, field: &str, value: &Value, key: &[u8]) -> String {
        let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
        let mut fields: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(&parts[part]).unwrap()).unwrap();
        fields[field] = value.clone();
        parts[part] = BASE64_URL_SAFE_NO_PAD.encode(fields.to_string());
        let signed = parts[..2].join(".");
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(hmac_sha256(key, signed.as_bytes())))
    }

    #[test]
    fn a_token_is_worth_something_for_its_time_and_audience() {
        let (_place, known) = known();
        let of = known.service_principal_and_key(ID).unwrap();
        let token = issue(&of, STORAGE, ISSUER, now());
        let seen = |audience, at| verify(&token, (audience, None), &known, at).map(|principal| principal.name);
        assert_eq!(seen(Audience::Storage, now()), Ok("ci".to_owned()));
        assert_eq!(seen(Audience::Storage, later(LASTS_SECONDS - 1)), Ok("ci".to_owned()));
        assert_eq!(seen(Audience::Storage, later(LASTS_SECONDS)), Err(Wrong::Expired));
        assert_eq!(seen(Audience::Storage, later(-299)), Ok("ci".to_owned()));
        assert_eq!(seen(Audience::Storage, later(-301)), Err(Wrong::Expired));
        assert_eq!(seen(Audience::Management, now()), Err(Wrong::Audience));
    }

    #[test]
    fn a_token_that_somebody_else_made_is_worth_nothing() {
        let (_place, known) = known();
        let of = known.service_principal_and_key(ID).unwrap();
        let token = issue(&of, STORAGE, ISSUER, now());
        let seen = |token: &str| verify(token, (Audience::Storage, None), &known, now());
        // With the right key, to show that what follows fails for its own reason.
        assert!(seen(&changed(&token, 1, "iss", &json!("other"), &of.1)).is_ok());
        for key in [&[0; 32][..], b"", b"secret"] {
            assert_eq!(seen(&changed(&token, 1, "iss", &json!("other"), key)), Err(Wrong::Unknown));
        }
        for alg in ["none", "None", "HS512", "RS256", ""] {
            assert_eq!(seen(&changed(&token, 0, "alg", &json!(alg), &of.1)), Err(Wrong::Unknown), "{alg}");
        }
        assert_eq!(seen(&changed(&token, 1, "appid", &json!("other"), &of.1)), Err(Wrong::Unknown));
        assert_eq!(seen(&changed(&token, 1, "tid", &json!("other"), &of.1)), Err(Wrong::Audience));
        assert_eq!(seen(&changed(&token, 1, "exp", &json!(0), &of.1)), Err(Wrong::Expired));
        assert_eq!(seen(&changed(&token, 1, "nbf", &json!(i64::MAX), &of.1)), Err(Wrong::Expired));
        let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
        for wrong in ["", ".", "..", "a.b.c", &unsigned, &token[..token.len() - 1], &"a".repeat(LENGTH_MAX + 1)] {
            assert_eq!(seen(wrong), Err(Wrong::Unknown), "{wrong}");
        }
    }

    #[test]
    fn a_token_for_one_account_is_for_no_other() {
        let (_place, known) = known();
        let of = known.service_principal_and_key(ID).unwrap();
        let seen = |audience: &str, account| {
            let token = issue(&of, audience, ISSUER, now());
            verify(&token, (Audience::Storage, Some(account)), &known, now()).map(drop)
        };
        for audience in [STORAGE, "https://storage.azure.com", "https://Storage.Azure.com/"] {
            assert_eq!((seen(audience, "work"), seen(audience, "other")), (Ok(()), Ok(())), "{audience}");
        }
        for audience in [
            "https://work.file.core.localhost:10004",
            "https://work.file.core.windows.net",
            "https://work.file.core.windows.net/",
            "https://Work.File.core.windows.net",
            "https://work-secondary.file.core.windows.net",
            "https://127.0.0.1:10004/work",
            "https://127.0.0.1:10004/work/",
            "https://127.0.0.1:10004/work-secondary",
        ] {
            let refused = Err(Wrong::Audience);
            assert_eq!((seen(audience, "work"), seen(audience, "other")), (Ok(()), refused), "{audience}");
        }
    }

    #[test]
    fn audiences_are_told_by_their_hosts() {
        let of = |url: &str| Audience::of(url, |host| host == "127.0.0.1:10004");
        for storage in [
            STORAGE,
            "https://storage.azure.com",
            "https://STORAGE.azure.com/",
            "https://work.file.core.localhost:10004/",
            "https://127.0.0.1:10004/work",
            "https://127.0.0.1:10004/work/",
        ] {
            assert_eq!(of(storage), Some(Audience::Storage), "{storage}");
        }
        for management in
            ["https://management.azure.com/", "https://Management.core.windows.net/", "https://127.0.0.1:10004//"]
        {
            assert_eq!(of(management), Some(Audience::Management), "{management}");
        }
        for other in [
            "",
            "https://",
            "https://graph.microsoft.com/",
            "storage.azure.com",
            "https://vault.azure.net",
            "https://127.0.0.1:1/",
            "https://127.0.0.1:1/work",
            "https://work.file",
            "https://work.file:10004/",
            "https://.file.core.windows.net",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
