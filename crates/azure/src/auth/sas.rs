//! Shared access signatures: a URL that somebody with a key signed for others, for some operations and some time.
//!
//! One of an account says which levels it is for ("Create an account SAS"); one of a share or a file names that by what is signed ("Create a service SAS").

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderName};
use jiff::Timestamp;
use secure::hmac_sha256;
use server::admin::AuditProof;

use super::delegation::Delegation;
use super::rights::{Levels, Permissions, Rights};
use super::{Evidence, Known, Policy, Way, signed_with};
use crate::answer::{Answer, set};
use crate::failure::{Code, Failure};
use crate::query::Query;
use crate::target::Target;

/// Parameters that signatures have. One that is given twice might be signed with one value and looked at with the other.
const PARAMETERS: [&str; 25] = [
    "sv", "ss", "srt", "sr", "sp", "st", "se", "sip", "spr", "si", "sig", "ses", "rscc", "rscd", "rsce", "rscl",
    "rsct", "skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid",
];
/// The oldest version that signs as this does, and the first that has a line for the scope of an encryption, which files do not have.
const VERSION_MIN: &str = "2015-04-05";
const VERSION_WITH_SCOPE: &str = "2020-12-06";

/// Headers of an answer that a signature sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides(Vec<(HeaderName, String)>);

impl Overrides {
    /// Sets them.
    pub(crate) fn apply(&self, answer: &mut Answer) {
        self.0.iter().for_each(|(name, value)| set(answer, name.as_str(), value));
    }
}

/// What a signature is worth.
pub(super) struct Verified {
    pub(super) rights: Rights,
    pub(super) overrides: Overrides,
    pub(super) evidence: Evidence,
}

/// Verifies the signature of a URL. Gives what it allows.
pub(super) fn verify(query: &Query, target: &Target, way: Way, known: &impl Known) -> Result<Verified, Failure> {
    if let Some(name) = PARAMETERS.iter().find(|name| query.count(name) > 1) {
        return Err(Failure::unauthenticated(format!("{name} is given twice")));
    }
    let signed = Signed { query, target };
    let policy = |id: &str| known.policy(&target.account, target.share.as_deref().unwrap_or_default(), id);
    if let Some(delegation) = Delegation::of(query).filter(|_| !signed.is_of_account()) {
        let allowed = delegation.verify(query, &target.account, (&signed.with_delegation()?, way), known)?;
        let rights = signed.rights(way, policy)?.within(allowed);
        let (proof, requester) = (AuditProof::DelegatedAccess, delegation.principal);
        let evidence = Evidence { proof, requester, token: signed.told("key1") };
        return Ok(Verified { rights, overrides: signed.overrides(), evidence });
    }
    let text = signed.text()?;
    let key = signed_with(known.keys(&target.account).as_ref(), &text, signed.value("sig"))?;
    let (proof, requester) = (AuditProof::SharedAccess, target.account.clone());
    let evidence = Evidence { proof, requester, token: signed.told(key) };
    Ok(Verified { rights: signed.rights(way, policy)?, overrides: signed.overrides(), evidence })
}

/// The signature of a URL with these parameters, made with this key of the target's account.
pub(crate) fn signature(query: &Query, target: &Target, key: &str) -> Result<String, Failure> {
    let text = Signed { query, target }.text()?;
    let key = BASE64_STANDARD.decode(key).map_err(|_| Failure::unauthenticated("the account's key is none"))?;
    Ok(BASE64_STANDARD.encode(hmac_sha256(&key, text.as_bytes())))
}

/// Reads what a signature says, whoever signed it, with a policy for each id, which ends when the id says. For who tests what reads it.
pub(super) fn read(query: &Query, target: &Target, way: Way) -> Option<()> {
    let signed = Signed { query, target };
    signed.text().ok()?;
    let policy = |id: &str| Some(Policy { expiry: Some(id.to_owned()), ..Policy::default() });
    signed.rights(way, policy).ok().map(drop)
}

/// What is signed.
struct Signed<'a> {
    query: &'a Query,
    target: &'a Target,
}

/// Between when and when it counts, and for what.
struct Limits {
    start: Option<Timestamp>,
    expiry: Timestamp,
    permissions: Permissions,
}

impl Signed<'_> {
    fn value(&self, name: &str) -> &str {
        self.query.get(name).unwrap_or_default()
    }

    /// What the audit log tells of it, which was made with this key.
    fn told(&self, key: &str) -> String {
        format!("{key},SasSignature({})", Evidence::sum(self.value("sig")))
    }

    fn is_of_account(&self) -> bool {
        self.query.get("ss").is_some() || self.query.get("srt").is_some()
    }

    fn check_version(&self) -> Result<(), Failure> {
        if !is_version(self.value("sv")) {
            return Err(Failure::unauthenticated("sv is no version that signatures have here"));
        }
        Ok(())
    }

    fn text(&self) -> Result<String, Failure> {
        self.check_version()?;
        if self.is_of_account() { Ok(self.of_account()) } else { self.of_service(&["si"]) }
    }

    fn of_account(&self) -> String {
        let values = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map(|name| self.value(name));
        let mut text = format!("{}\n{}\n", self.target.account, values.join("\n"));
        if self.value("sv") >= VERSION_WITH_SCOPE {
            text.push_str(self.value("ses"));
            text.push('\n');
        }
        text
    }

    /// One of a share or a file, by these lines.
    fn of_service(&self, by: &[&str]) -> Result<String, Failure> {
        let Some(share) = &self.target.share else {
            return Err(Failure::unauthenticated("a signature of a share or a file is for these alone"));
        };
        let mut resource = format!("/file/{}/{share}", self.target.account);
        match self.value("sr") {
            "s" => {}
            "f" if !self.target.names.is_empty() => {
                resource.push('/');
                resource.push_str(&self.target.names.join("/"));
            }
            "f" => return Err(Failure::unauthenticated("the signature is one of a file, and no file is named")),
            _ => return Err(Failure::unauthenticated("sr is neither s nor f")),
        }
        let lines = |names: &[&str]| names.iter().map(|name| self.value(name)).collect::<Vec<_>>().join("\n");
        let start = lines(&["sp", "st", "se"]);
        let behind = lines(&["sip", "spr", "sv", "rscc", "rscd", "rsce", "rscl", "rsct"]);
        Ok(format!("{start}\n{resource}\n{}\n{behind}", lines(by)))
    }

    /// The same, signed with a user delegation key: as clients do that know of users of other tenants, who are not served here, and as others do.
    fn with_delegation(&self) -> Result<[String; 2], Failure> {
        if ["si", "skdutid", "sduoid"].iter().any(|name| !self.value(name).is_empty()) {
            return Err(Failure::unauthenticated("a user delegation key is for no policy, and for no other user"));
        }
        self.check_version()?;
        let all = ["skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid"];
        Ok([self.of_service(&all)?, self.of_service(&all[..6])?])
    }

    /// What is allowed to whom it was given, here and now.
    fn rights(&self, way: Way, policy: impl Fn(&str) -> Option<Policy>) -> Result<Rights, Failure> {
        let limits = self.limits(policy)?;
        limits.look_at_time(way.at)?;
        self.look_at_way(way)?;
        let permissions = limits.permissions;
        if !self.is_of_account() {
            // What is signed has the path, where it is not one of a share.
            return Ok(if self.value("sr") == "s" { Rights::Share(permissions) } else { Rights::File(permissions) });
        }
        if !self.value("ss").contains('f') {
            return Err(Failure::new(
                Code::AuthorizationServiceMismatch,
                "This request is not authorized to perform this operation using this service.",
            ));
        }
        Ok(Rights::Account { levels: Levels::of_letters(self.value("srt")), permissions })
    }

    /// What the signature and its policy say together. Neither may say what the other does.
    fn limits(&self, policy: impl Fn(&str) -> Option<Policy>) -> Result<Limits, Failure> {
        let policy = match self.query.get("si").filter(|id| !self.is_of_account() && !id.is_empty()) {
            Some(id) => policy(id).ok_or_else(|| Failure::unauthenticated("the stored access policy is not there"))?,
            None => Policy::default(),
        };
        let one = |name: &str, stored: Option<String>| match (self.query.get(name), stored) {
            (Some(_), Some(_)) => {
                Err(Failure::unauthenticated(format!("{name} is in the signature and in its stored access policy")))
            }
            (given, stored) => Ok(given.map(str::to_owned).or(stored).filter(|text| !text.is_empty())),
        };
        let (start, expiry) = (one("st", policy.start)?, one("se", policy.expiry)?);
        let time = |text: &str| time(text).ok_or_else(|| Failure::unauthenticated("st or se is no time"));
        let expiry = expiry.ok_or_else(|| Failure::unauthenticated("the signature has no end (se)"))?;
        let permissions = one("sp", policy.permissions)?
            .ok_or_else(|| Failure::unauthenticated("the signature permits nothing (sp)"))?;
        Ok(Limits {
            start: start.as_deref().map(time).transpose()?,
            expiry: time(&expiry)?,
            permissions: Permissions::of_letters(&permissions),
        })
    }

    fn look_at_way(&self, way: Way) -> Result<(), Failure> {
        let addresses = self.value("sip");
        if !addresses.is_empty() && !is_within(way.peer, addresses) {
            return Err(Failure::new(
                Code::AuthorizationSourceIPMismatch,
                "This request is not authorized to perform this operation using this source IP.",
            ));
        }
        let is_allowed = match self.value("spr") {
            "" | "https,http" | "http,https" => true,
            "https" => way.is_secure,
            _ => false,
        };
        if !is_allowed {
            return Err(Failure::new(
                Code::AuthorizationProtocolMismatch,
                "This request is not authorized to perform this operation using this protocol.",
            ));
        }
        Ok(())
    }

    fn overrides(&self) -> Overrides {
        let named = [
            ("rscc", CACHE_CONTROL),
            ("rscd", CONTENT_DISPOSITION),
            ("rsce", CONTENT_ENCODING),
            ("rscl", CONTENT_LANGUAGE),
            ("rsct", CONTENT_TYPE),
        ];
        let given = named.into_iter().map(|(name, header)| (header, self.value(name).to_owned()));
        Overrides(given.filter(|(_, value)| !value.is_empty()).collect())
    }
}

impl Limits {
    fn look_at_time(&self, now: Timestamp) -> Result<(), Failure> {
        if self.start.is_some_and(|start| now < start) || now >= self.expiry {
            return Err(Failure::unauthenticated(format!(
                "the signature is not valid at {now}: it is so from {} to {}",
                self.start.map_or("ever".to_owned(), |start| start.to_string()),
                self.expiry
            )));
        }
        Ok(())
    }
}

fn is_version(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok() && text >= VERSION_MIN
}

/// Reads a time as signatures have it: in UTC, to the minute or finer, or a day alone, which begins then. Who means never says the last second of the year
/// 9999, which is later than any time that is kept.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    let text = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    if !text.ends_with('Z') {
        return None;
    }
    // The year before has the same days, all of which are times.
    let is_last_year =
        || text.strip_prefix("9999-").is_some_and(|rest| format!("9998-{rest}").parse::<Timestamp>().is_ok());
    text.parse().ok().or_else(|| is_last_year().then_some(Timestamp::MAX))
}

/// Whether an address is this one, or within these two.
fn is_within(address: IpAddr, text: &str) -> bool {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let bounds = first.parse::<IpAddr>().ok().zip(last.parse::<IpAddr>().ok());
    let address = address.to_canonical();
    bounds.is_some_and(|(first, last)| {
        let is_same_kind = first.is_ipv4() == address.is_ipv4() && last.is_ipv4() == address.is_ipv4();
        is_same_kind && (first..=last).contains(&address)
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use control::Keys;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use secure::hmac_sha256;

    use super::*;
    use crate::operations::Operation;
    use crate::target::Dots;

    const KEY: [u8; 64] = [7; 64];
    const NOW: &str = "2026-11-30T05:00:00Z";

    struct Account(Option<Policy>);

    impl Known for Account {
        fn keys(&self, account: &str) -> Option<Keys> {
            let keys = Keys { key1: BASE64_STANDARD.encode(KEY), key2: BASE64_STANDARD.encode([8; 64]) };
            (account == "work").then_some(keys)
        }

        fn policy(&self, _: &str, share: &str, id: &str) -> Option<Policy> {
            self.0.clone().filter(|_| (share, id) == ("docs", "known"))
        }
    }

    fn target(path: &str) -> Target {
        Target::parse("h", path, Dots::LeftOut).unwrap()
    }

    fn way() -> Way {
        Way { peer: "192.0.2.7".parse().unwrap(), is_secure: false, at: NOW.parse().unwrap() }
    }

    /// A query with these parameters, signed for a path.
    fn signed(path: &str, parameters: &[(&str, &str)]) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let (parsed, target) = (Query::parse(&query).unwrap(), target(path));
        let signed = Signed { query: &parsed, target: &target };
        let text = if parsed.get("ss").is_some() { signed.of_account() } else { signed.of_service(&["si"]).unwrap() };
        format!("{query}&sig={}", encoded(&BASE64_STANDARD.encode(hmac_sha256(&KEY, text.as_bytes()))))
    }

    fn verified(query: &str, path: &str, way: Way, policy: Option<Policy>) -> Result<Rights, Code> {
        let verified = verify(&Query::parse(query).unwrap(), &target(path), way, &Account(policy));
        verified.map(|verified| verified.rights).map_err(|failure| failure.code)
    }

    const OF_ACCOUNT: [(&str, &str); 5] =
        [("sv", "2026-10-06"), ("ss", "f"), ("srt", "sco"), ("sp", "rl"), ("se", "2026-12-01T00:00Z")];
    const OF_SHARE: [(&str, &str); 4] =
        [("sv", "2026-10-06"), ("sr", "s"), ("sp", "rl"), ("se", "2026-12-01T00:00:00Z")];
    const OF_FILE: [(&str, &str); 4] = [("sv", "2026-10-06"), ("sr", "f"), ("sp", "r"), ("se", "2026-12-01")];

    /// Those of `before`, with one more or another value.
    fn with<'a>(before: &[(&'a str, &'a str)], name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
        let others = before.iter().filter(|(known, _)| *known != name).copied();
        others.chain([(name, value)]).filter(|(_, value)| !value.is_empty()).collect()
    }

    #[test]
    fn who_means_never_names_the_end_of_the_last_year() {
        for end in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59Z", "9999-12-31"] {
            let query = signed("/work/docs/a", &with(&OF_SHARE, "se", end));
            assert!(verified(&query, "/work/docs/a", way(), None).is_ok(), "{end}");
        }
        for end in ["9999-12-32T00:00:00Z", "9999-12-31T24:00:00Z", "9999-12-31T23:59:59", "9999-", "99999-01-01"] {
            let query = signed("/work/docs/a", &with(&OF_SHARE, "se", end));
            assert_eq!(verified(&query, "/work/docs/a", way(), None), Err(Code::AuthenticationFailed), "{end}");
        }
        let begins = signed("/work/docs/a", &with(&OF_SHARE, "st", "9999-12-31T23:59:59Z"));
        assert_eq!(verified(&begins, "/work/docs/a", way(), None), Err(Code::AuthenticationFailed));
    }

    #[test]
    fn the_text_is_that_of_the_services_clients() {
        let query = Query::parse("st=S&se=E&sp=r&si=I&sip=1.2.3.4&spr=https&sv=2026-10-06&sr=f&rscd=D").unwrap();
        let target = target("/work/docs/a%20b/c");
        let text = Signed { query: &query, target: &target }.of_service(&["si"]).unwrap();
        assert_eq!(text, "r\nS\nE\n/file/work/docs/a b/c\nI\n1.2.3.4\nhttps\n2026-10-06\n\nD\n\n\n");
        let query = Query::parse("st=S&se=E&sp=r&ss=bf&srt=o&sip=1.2.3.4&spr=https&sv=2026-10-06").unwrap();
        let text = Signed { query: &query, target: &target }.of_account();
        assert_eq!(text, "work\nr\nbf\no\nS\nE\n1.2.3.4\nhttps\n2026-10-06\n\n");
    }

    #[test]
    fn a_signature_counts_for_what_is_signed_alone() {
        for (path, parameters) in
            [("/work/docs/a/b", &OF_ACCOUNT[..]), ("/work/docs/a/b", &OF_SHARE[..]), ("/work/docs/a/b", &OF_FILE[..])]
        {
            let query = signed(path, parameters);
            assert!(verified(&query, path, way(), None).is_ok(), "{query}");
            for (name, value) in
                [("sp", "rwd"), ("se", "2027-01-01"), ("sv", "2026-06-06"), ("sip", "0.0.0.0-255.255.255.255")]
            {
                let (pairs, sig) = query.split_once("&sig=").unwrap();
                let others = pairs.split('&').filter(|pair| !pair.starts_with(&format!("{name}=")));
                let changed = format!("{}&{name}={value}&sig={sig}", others.collect::<Vec<_>>().join("&"));
                assert_eq!(verified(&changed, path, way(), None), Err(Code::AuthenticationFailed), "{changed}");
            }
            assert_eq!(verified(&query, "/other/docs/a/b", way(), None), Err(Code::AuthenticationFailed));
        }
        let (share, file) = (signed("/work/docs", &OF_SHARE), signed("/work/docs/a", &OF_FILE));
        assert!(verified(&share, "/work/docs/any/where", way(), None).is_ok());
        for (query, path) in [
            (&share, "/work/other/a"),
            (&share, "/work"),
            (&file, "/work/docs/b"),
            (&file, "/work/docs/a/b"),
            (&file, "/work/docs"),
            (&file, "/work/other/a"),
        ] {
            assert_eq!(verified(query, path, way(), None), Err(Code::AuthenticationFailed), "{query} {path}");
        }
    }

    #[test]
    fn one_of_a_file_is_not_taken_for_one_of_its_share() {
        let file = signed("/work/docs/a", &OF_FILE).replace("sr=f", "sr=s");
        assert_eq!(verified(&file, "/work/docs/a", way(), None), Err(Code::AuthenticationFailed));
        let share = signed("/work/docs", &OF_SHARE).replace("sr=s", "sr=f");
        assert_eq!(verified(&share, "/work/docs/a", way(), None), Err(Code::AuthenticationFailed));
    }

    #[test]
    fn it_begins_and_ends() {
        let at = |start: &str, end: &str| {
            let query = signed("/work/docs", &with(&with(&OF_SHARE, "st", start), "se", end));
            verified(&query, "/work/docs/a", way(), None).is_ok()
        };
        assert!(at("", "2026-11-30T05:00:01Z") && at("2026-11-30T05:00Z", "2026-11-30T05:01Z"));
        assert!(!at("", "2026-11-30T05:00:00Z") && !at("", "2026-11-30"));
        assert!(!at("2026-11-30T05:00:01Z", "2027-01-01"));
        assert!(!at("", ""), "one without an end");
        assert!(!at("", "soon") && !at("2026-11-30T04:00:00+01:00", "2027-01-01"));
    }

    #[test]
    fn it_is_for_the_addresses_and_the_protocol_that_it_names() {
        let by = |name: &str, value: &str, way: Way| {
            verified(&signed("/work", &with(&OF_ACCOUNT, name, value)), "/work", way, None).err()
        };
        let secure = Way { is_secure: true, ..way() };
        let mapped = Way { peer: "::ffff:192.0.2.7".parse().unwrap(), ..way() };
        for (addresses, way) in [("192.0.2.7", way()), ("192.0.2.1-192.0.2.9", way()), ("192.0.2.7", mapped)] {
            assert_eq!(by("sip", addresses, way), None, "{addresses}");
        }
        for addresses in ["192.0.2.8", "192.0.2.1-192.0.2.6", "192.0.2.9-192.0.2.1", "::/0", "::-ffff::", "x"] {
            assert_eq!(by("sip", addresses, way()), Some(Code::AuthorizationSourceIPMismatch), "{addresses}");
        }
        assert_eq!((by("spr", "https,http", way()), by("spr", "https", secure)), (None, None));
        assert_eq!(by("spr", "https", way()), Some(Code::AuthorizationProtocolMismatch));
        assert_eq!(by("spr", "http", way()), Some(Code::AuthorizationProtocolMismatch));
    }

    #[test]
    fn one_for_other_services_is_not_for_files() {
        let query = signed("/work", &with(&OF_ACCOUNT, "ss", "bqt"));
        assert_eq!(verified(&query, "/work", way(), None), Err(Code::AuthorizationServiceMismatch));
    }

    #[test]
    fn a_stored_policy_completes_it_and_contradicts_nothing() {
        let policy = |start: Option<&str>, expiry: Option<&str>, permissions: Option<&str>| {
            let [start, expiry, permissions] = [start, expiry, permissions].map(|text| text.map(str::to_owned));
            Some(Policy { start, expiry, permissions })
        };
        let by = |id: &str, parameters: &[(&str, &str)], policy: Option<Policy>| {
            verified(&signed("/work/docs", &with(parameters, "si", id)), "/work/docs/a", way(), policy)
        };
        let bare = with(&with(&OF_SHARE, "sp", ""), "se", "");
        let whole = policy(None, Some("2026-12-01"), Some("w"));
        let rights = by("known", &bare, whole.clone()).unwrap();
        assert!(rights.allow(Operation::PutRange).is_ok() && rights.allow(Operation::GetFile).is_err());
        let failed = Err(Code::AuthenticationFailed);
        assert_eq!(by("unknown", &bare, whole.clone()), failed);
        assert_eq!(by("known", &OF_SHARE, whole), failed, "both say it");
        assert_eq!(by("known", &bare, policy(None, Some("2026-12-01"), None)), failed, "neither permits");
        assert_eq!(by("known", &bare, policy(None, None, Some("r"))), failed, "neither ends");
        assert_eq!(by("known", &bare, policy(None, Some("2026-11-30"), Some("r"))), failed, "it has ended");
        assert!(by("known", &OF_SHARE, policy(Some("2026-11-01"), None, None)).is_ok());
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_refused() {
        let query = format!("{}&SP=rwdl", signed("/work/docs", &OF_SHARE));
        assert_eq!(verified(&query, "/work/docs/a", way(), None), Err(Code::AuthenticationFailed));
    }

    #[test]
    fn a_value_of_several_lines_is_refused() {
        // No query has one, whatever is signed with it.
        let query = signed("/work/docs", &with(&OF_SHARE, "sp", "r")).replace("sp=r", "sp=r%0A");
        assert_eq!(Query::parse(&query).unwrap_err().code, Code::InvalidQueryParameterValue);
    }

    /// An account, and a service principal that reads.
    struct WithPrincipal(Option<Permissions>);

    impl Known for WithPrincipal {
        fn keys(&self, account: &str) -> Option<Keys> {
            Account(None).keys(account)
        }

        fn policy(&self, _: &str, _: &str, _: &str) -> Option<Policy> {
            Some(Policy { permissions: Some("rwdl".into()), ..Policy::default() })
        }

        fn permissions_of(&self, principal: &str) -> Option<Permissions> {
            self.0.filter(|_| principal == "reader")
        }
    }

    /// What is allowed by a signature of the share that is made with a key of this principal, which begins and ends so, with these parameters more.
    fn delegated(
        (principal, start, expiry): (&str, &str, &str),
        more: &[(&str, &str)],
        known: &WithPrincipal,
    ) -> Result<Rights, Code> {
        let delegation = Delegation {
            principal: principal.into(),
            tenant: "t".into(),
            start: start.into(),
            expiry: expiry.into(),
            version: "2026-10-06".into(),
        };
        let of = [
            ("sv", "2026-10-06"),
            ("sr", "s"),
            ("sp", "rwdl"),
            ("se", "2026-12-01"),
            ("skoid", principal),
            ("sktid", "t"),
            ("skt", start),
            ("ske", expiry),
            ("sks", "f"),
            ("skv", "2026-10-06"),
        ];
        let parameters = more.iter().fold(of.to_vec(), |before, (name, value)| with(&before, name, value));
        let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = pairs.join("&");
        let (parsed, target) = (Query::parse(&query).unwrap(), target("/work/docs/a"));
        let all = ["skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid"];
        let text = Signed { query: &parsed, target: &target }.of_service(&all).unwrap();
        let key = delegation.key(&Account(None).keys("work").unwrap());
        let signature = BASE64_STANDARD.encode(hmac_sha256(&key, text.as_bytes()));
        let query = format!("{query}&sig={}", utf8_percent_encode(&signature, NON_ALPHANUMERIC));
        let verified = verify(&Query::parse(&query).unwrap(), &target, way(), known);
        verified.map(|verified| verified.rights).map_err(|failure| failure.code)
    }

    #[test]
    fn with_a_user_delegation_key_nobody_gives_more_than_it_may_do_itself() {
        let reads = WithPrincipal(Some(Permissions::OF_READER));
        let lasting = ("reader", "2026-11-30", "2026-12-02");
        let rights = delegated(lasting, &[], &reads).unwrap();
        assert!(rights.allow(Operation::GetFile).is_ok() && rights.allow(Operation::PutRange).is_err());
        let rights = delegated(lasting, &[], &WithPrincipal(Some(Permissions::OF_CONTRIBUTOR))).unwrap();
        assert!(rights.allow(Operation::PutRange).is_ok() && rights.allow(Operation::GetShareProperties).is_err());
    }

    #[test]
    fn a_user_delegation_key_ends_and_is_for_what_is_told_of_it_alone() {
        let reads = WithPrincipal(Some(Permissions::OF_READER));
        let lasting = ("reader", "2026-11-30", "2026-12-02");
        assert!(delegated(lasting, &[], &reads).is_ok());
        let failed = Err(Code::AuthenticationFailed);
        for of in [
            ("reader", "2026-11-28", "2026-11-30"),
            ("reader", "2026-12-01", "2026-12-02"),
            ("reader", "2026-11-24", "2026-12-02"),
            ("reader", "", "2026-12-02"),
            ("other", "2026-11-30", "2026-12-02"),
        ] {
            assert_eq!(delegated(of, &[], &reads), failed, "{of:?}");
        }
        // Each of these makes the key, or is for somebody who is not looked at.
        for (name, value) in [
            ("skoid", "other"),
            ("sktid", "u"),
            ("skt", "2026-11-29"),
            ("ske", "2026-12-03"),
            ("sks", "b"),
            ("skv", "2026-06-06"),
            ("si", "known"),
            ("sduoid", "somebody"),
            ("skdutid", "elsewhere"),
        ] {
            assert_eq!(delegated(lasting, &[(name, value)], &reads), failed, "{name}");
        }
        assert_eq!(delegated(lasting, &[], &WithPrincipal(None)), failed, "the principal is gone");
    }

    #[test]
    fn the_second_key_signs_too_and_one_that_was_replaced_does_not() {
        struct Rotated;
        impl Known for Rotated {
            fn keys(&self, _: &str) -> Option<Keys> {
                Some(Keys { key1: BASE64_STANDARD.encode([9; 64]), key2: BASE64_STANDARD.encode([8; 64]) })
            }
            fn policy(&self, _: &str, _: &str, _: &str) -> Option<Policy> {
                None
            }
        }
        let query = Query::parse(&signed("/work/docs", &OF_SHARE)).unwrap();
        assert!(verify(&query, &target("/work/docs/a"), way(), &Account(None)).is_ok());
        assert!(verify(&query, &target("/work/docs/a"), way(), &Rotated).is_err());
    }
}
