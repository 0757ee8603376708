//! The place from which something is copied, or where it was before it is renamed: who asks has to be allowed that as well.

use control::SnapshotTime;
use hyper::Uri;
use hyper::header::HeaderMap;

use super::rights::Rights;
use super::{Evidence, Known, Proven, Way, bearer, sas};
use crate::failure::{Code, Failure};
use crate::operations::Operation;
use crate::query::{Query, decoded};
use crate::target::{Dots, Target};

const RENAMED: &str = "x-ms-file-rename-source";
const COPIED: &str = "x-ms-copy-source";
/// The token of who may read a source whose URL has no signature.
const SHOWN: &str = "x-ms-copy-source-authorization";

/// What is copied, or renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) target: Target,
    /// The snapshot of its share that is meant, where it is one.
    pub(crate) snapshot: Option<SnapshotTime>,
    /// What proves that it may be, where that is not what proves the request.
    pub(crate) evidence: Option<Evidence>,
}

/// The source that a request names in a header, where its operation has one. Its URL may have a signature of its own; without one, what proved the
/// request has to allow it, or, where a range is taken, a token that is shown for it.
pub(crate) fn source(
    proven: &Proven,
    operation: Operation,
    (target, headers): (&Target, &HeaderMap),
    way: Way,
    known: &impl Known,
) -> Result<Option<Source>, Failure> {
    let (header, needed) = match operation {
        // What is renamed is no longer where it was.
        Operation::RenameFile | Operation::RenameDirectory => (RENAMED, operation),
        Operation::CopyFile | Operation::PutRangeFromUrl => (COPIED, Operation::GetFile),
        _ => return Ok(None),
    };
    let text = headers.get(header).ok_or_else(|| Failure::missing(header))?;
    let wrong = || Failure::header(header, "the URL of a file or directory of an account here");
    let url: Uri = text.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
    let host = url.authority().map(ToString::to_string).unwrap_or_default();
    let source = Target::parse(&host, url.path(), Dots::of_source(headers))?;
    let query = Query::parse(url.query().unwrap_or_default())?;
    let snapshot = query.snapshot("sharesnapshot")?;
    // Who means a snapshot and says it otherwise is not given the file as it is now.
    let behind = decoded(url.query().unwrap_or_default())?.to_lowercase();
    let is_meant = behind.contains("sharesnapshot") || query.get("snapshot").is_some();
    if text.as_bytes().contains(&b'#') || snapshot.is_none() && is_meant {
        return Err(wrong());
    }
    if snapshot.is_some() && header == RENAMED {
        return Err(Failure::header(header, "one without sharesnapshot: snapshots do not change"));
    }
    if source.share.is_none() || source.names.is_empty() {
        return Err(wrong());
    }
    let (rights, evidence) = match query.get("sig") {
        Some(_) => {
            let verified = sas::verify(&query, &source, way, known)?;
            (verified.rights, Some(verified.evidence))
        }
        None if operation == Operation::PutRangeFromUrl => {
            let (rights, evidence) = shown(headers, &source.account, way, known)?;
            (rights, Some(evidence))
        }
        None if covers(proven.rights, target, &source) => (proven.rights, None),
        None => {
            return Err(Failure::new(Code::AuthorizationFailure, "This request is not authorized to read its source."));
        }
    };
    rights.allow(needed)?;
    Ok(Some(Source { target: source, snapshot, evidence }))
}

/// What the token allows that a request shows for its source alone: a range is taken from a place by who may read there, whoever asks.
fn shown(headers: &HeaderMap, account: &str, way: Way, known: &impl Known) -> Result<(Rights, Evidence), Failure> {
    let nothing = || {
        let message = format!("The source's URL has no signature, and {SHOWN} no token.");
        Failure::source(Code::NoAuthenticationInformation, message)
    };
    let token = bearer::token(headers, SHOWN).ok_or_else(nothing)?;
    let verified = bearer::verify(token, account, way, known);
    let principal = verified.map_err(|failure| Failure::source(failure.code, failure.message))?;
    let evidence = Evidence::of_token(&principal, token);
    Ok((Rights::Principal(principal.permissions), evidence))
}

/// Whether rights that hold for what a request names hold for its source.
fn covers(rights: Rights, target: &Target, source: &Target) -> bool {
    let is_same_account = source.account == target.account;
    match rights {
        Rights::Key | Rights::Account { .. } | Rights::Principal(_) => is_same_account,
        Rights::Share(_) => is_same_account && source.share == target.share,
        Rights::File(_) => source.is_place_of(target),
    }
}

#[cfg(test)]
mod tests {
    use control::Keys;
    use server::admin::AuditProof;

    use super::super::rights::{Levels, Permissions};
    use super::super::{Policy, Principal};
    use super::*;

    struct Accounts;

    impl Known for Accounts {
        fn keys(&self, account: &str) -> Option<Keys> {
            let keys = || Keys { key1: String::new(), key2: String::new() };
            ["work", "other"].contains(&account).then(keys)
        }

        fn policy(&self, _: &str, _: &str, _: &str) -> Option<Policy> {
            None
        }

        fn principal_of(&self, token: &str, _: &str, _: jiff::Timestamp) -> Result<Principal, String> {
            let permissions = match token {
                "reads" => Permissions::OF_READER,
                "manages" => Permissions::OF_MANAGER,
                _ => return Err("it is no token".into()),
            };
            Ok(Principal { id: token.into(), permissions })
        }
    }

    fn asked(rights: Rights, operation: Operation, header: &'static str, url: &str) -> Result<Option<Source>, Code> {
        let target = Target::parse("h", "/work/docs/new", Dots::LeftOut).unwrap();
        let proven = Proven { rights, ..Proven::by_key("work") };
        let way = Way { peer: [127, 0, 0, 1].into(), is_secure: false, at: "2026-11-30T05:00:00Z".parse().unwrap() };
        let headers = [(header, url)].map(|(name, url)| (name.parse().unwrap(), url.parse().unwrap()));
        let headers = headers.into_iter().collect();
        source(&proven, operation, (&target, &headers), way, &Accounts).map_err(|failure| failure.code)
    }

    #[test]
    fn a_source_is_read_by_who_may_read_there() {
        let letters = Permissions::of_letters;
        let copied = |rights, url| asked(rights, Operation::CopyFile, COPIED, url).map(|source| source.is_some());
        let refused = Err(Code::AuthorizationFailure);
        let (here, there) = ("http://h/work/docs/old", "http://h/work/more/old");
        for url in [here, there, "http://work.file.core.localhost/docs/old"] {
            assert_eq!(copied(Rights::Key, url), Ok(true), "{url}");
        }
        assert_eq!(copied(Rights::Key, "http://h/other/docs/old"), refused);
        let account = |permissions| Rights::Account { levels: Levels::of_letters("o"), permissions };
        assert_eq!(copied(account(letters("rw")), there), Ok(true));
        assert_eq!(copied(account(letters("w")), there), Err(Code::AuthorizationPermissionMismatch));
        assert_eq!(
            (copied(Rights::Share(letters("rw")), here), copied(Rights::Share(letters("rw")), there)),
            (Ok(true), refused)
        );
        assert_eq!(copied(Rights::File(letters("rw")), here), refused);
        assert_eq!(copied(Rights::File(letters("rw")), "http://h/work/docs/new"), Ok(true));
        let unsigned = format!("{here}?sv=2026-10-06&sr=f&sp=r&se=2027-01-01&sig=AAAA");
        assert_eq!(copied(Rights::Key, &unsigned), Err(Code::AuthenticationFailed), "its own signature is wrong");
    }

    #[test]
    fn a_range_is_taken_from_where_a_signature_or_a_token_allows_it() {
        let here = "http://h/work/docs/old";
        let taken = |headers: &[(&str, &str)]| {
            let target = Target::parse("h", "/work/docs/new", Dots::LeftOut).unwrap();
            let proven = Proven::by_key("work");
            let way = Way { peer: [127, 0, 0, 1].into(), is_secure: true, at: "2026-11-30T05:00:00Z".parse().unwrap() };
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            source(&proven, Operation::PutRangeFromUrl, (&target, &headers), way, &Accounts)
                .map(|source| source.unwrap().evidence.unwrap())
                .map_err(|failure| (failure.code, failure.of_source))
        };
        let refused = |code| Err((Code::CannotVerifyCopySource, Some(code)));
        assert_eq!(taken(&[(COPIED, here)]), refused(Code::NoAuthenticationInformation), "a key is none for it");
        let evidence = Evidence { proof: AuditProof::Token, requester: "reads".into(), token: Evidence::sum("reads") };
        assert_eq!(taken(&[(COPIED, here), (SHOWN, "Bearer reads")]), Ok(evidence));
        assert_eq!(taken(&[(COPIED, here), (SHOWN, "Bearer x")]), refused(Code::InvalidAuthenticationInfo));
        assert_eq!(taken(&[(COPIED, here), (SHOWN, "reads")]), refused(Code::NoAuthenticationInformation));
        let manages = Err((Code::AuthorizationPermissionMismatch, None));
        assert_eq!(taken(&[(COPIED, here), (SHOWN, "Bearer manages")]), manages);
    }

    #[test]
    fn a_source_with_a_signature_of_its_own_is_told_of_that() {
        let here = "http://h/work/docs/old";
        let given = "sv=2026-10-06&sr=f&sp=rw&se=2027-01-01";
        let target = Target::parse("h", "/work/docs/old", Dots::LeftOut).unwrap();
        let signature = sas::signature(&Query::parse(given).unwrap(), &target, "").unwrap();
        let escaped = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let signed = format!("{here}?{given}&sig={escaped}");
        let evidence = Evidence {
            proof: AuditProof::SharedAccess,
            requester: "work".into(),
            token: format!("key1,SasSignature({})", Evidence::sum(&signature)),
        };
        for (operation, header) in
            [(Operation::CopyFile, COPIED), (Operation::PutRangeFromUrl, COPIED), (Operation::RenameFile, RENAMED)]
        {
            let told = |url: &str| asked(Rights::Key, operation, header, url).map(|source| source.unwrap().evidence);
            assert_eq!(told(&signed), Ok(Some(evidence.clone())), "{operation:?}");
            if operation != Operation::PutRangeFromUrl {
                assert_eq!(told(here), Ok(None), "{operation:?}: it is what proves the request");
            }
        }
    }

    #[test]
    fn what_is_renamed_needs_to_be_written_where_it_was() {
        let renamed =
            |letters, url| asked(Rights::Share(Permissions::of_letters(letters)), Operation::RenameFile, RENAMED, url);
        let source = Target::parse("h", "/work/docs/a%20b", Dots::LeftOut).unwrap();
        let source = Source { target: source, snapshot: None, evidence: None };
        assert_eq!(renamed("w", "http://h/work/docs/a%20b"), Ok(Some(source)));
        assert_eq!(renamed("r", "http://h/work/docs/a"), Err(Code::AuthorizationPermissionMismatch));
        assert_eq!(renamed("w", "http://h/work/docs"), Err(Code::InvalidHeaderValue));
        assert_eq!(renamed("w", "nowhere"), Err(Code::InvalidHeaderValue));
        assert_eq!(renamed("w", "http://h/work/docs/../x"), Err(Code::InvalidResourceName));
    }

    #[test]
    fn a_copy_is_taken_from_the_snapshot_that_is_named_and_nothing_is_renamed_there() {
        const TIME: &str = "2026-11-30T20:14:15.1234567Z";
        let of = |operation, header, url: &str| {
            asked(Rights::Key, operation, header, url).map(|source| source.and_then(|source| source.snapshot))
        };
        let copied = |url: &str| of(Operation::CopyFile, COPIED, url);
        let named = format!("http://h/work/docs/old?ShareSnapshot={TIME}");
        assert_eq!((copied("http://h/work/docs/old"), copied(&named)), (Ok(None), Ok(TIME.parse().ok())));
        for wrong in ["http://h/work/docs/old?sharesnapshot=", &format!("{named}&sharesnapshot={TIME}")] {
            assert_eq!(copied(wrong), Err(Code::InvalidQueryParameterValue), "{wrong}");
        }
        for wrong in ["#?sharesnapshot=", "?snapshot=", "?a=b;sharesnapshot=", "?sharesnapshot%3D"] {
            let url = format!("http://h/work/docs/old{wrong}{TIME}");
            assert_eq!(copied(&url), Err(Code::InvalidHeaderValue), "{url}");
        }
        assert_eq!(copied("http://h/work/docs/sharesnapshot%23"), Ok(None), "a file may be called so");
        for operation in [Operation::RenameFile, Operation::RenameDirectory] {
            assert_eq!(of(operation, RENAMED, &named), Err(Code::InvalidHeaderValue));
        }
    }

    #[test]
    fn others_have_none() {
        assert_eq!(asked(Rights::Key, Operation::PutRange, COPIED, "x"), Ok(None));
        assert_eq!(asked(Rights::Key, Operation::CopyFile, RENAMED, "x"), Err(Code::MissingRequiredHeader));
    }
}
