//! Who asks with a token, as a service principal ("Authorize with Microsoft Entra ID"): for files and directories of every share, whatever their descriptors
//! say, and for shares themselves.

use hyper::header::HeaderMap;

use super::rights::Permissions;
use super::{Known, Way};
use crate::failure::{Code, Failure};
use crate::operations::Operation;

const PREFIX: &str = "Bearer ";
/// Who asks with a token has to say that it means to pass descriptors by.
const INTENT: &str = "x-ms-file-request-intent";

/// A service principal that has proved itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Its id.
    pub(crate) id: String,
    /// What its roles give with shares and files.
    pub(crate) permissions: Permissions,
}

/// The token that a request shows in this header, if it does.
pub(super) fn token<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?;
    value.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX))?;
    Some(value[PREFIX.len()..].trim())
}

/// Verifies it.
pub(super) fn verify(token: &str, account: &str, way: Way, known: &impl Known) -> Result<Principal, Failure> {
    known.principal_of(token, account, way.at).map_err(|why| {
        Failure::new(Code::InvalidAuthenticationInfo, format!("Server failed to authenticate the request: {why}."))
    })
}

/// Whether who shows a token says that it means to. Clients do not where they ask for shares, which have none, or for a key, which opens nothing by itself.
pub(super) fn look_at_intent(operation: Operation, headers: &HeaderMap) -> Result<(), Failure> {
    match headers.get(INTENT).map(|value| value.to_str().unwrap_or_default()) {
        Some(intent) if intent.eq_ignore_ascii_case("backup") => Ok(()),
        None if !operation.is_of_files() => Ok(()),
        Some(_) => Err(Failure::header(INTENT, "backup")),
        None => Err(Failure::missing(INTENT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_a_token_says_that_it_passes_descriptors_by_where_there_are_any() {
        let looked_at = |operation, intent: Option<&str>| {
            let given = intent.map(|intent| (INTENT.parse().unwrap(), intent.parse().unwrap()));
            look_at_intent(operation, &given.into_iter().collect()).map_err(|failure| failure.code)
        };
        assert_eq!(looked_at(Operation::GetFile, Some("Backup")), Ok(()));
        assert_eq!(looked_at(Operation::GetFile, Some("restore")), Err(Code::InvalidHeaderValue));
        assert_eq!(looked_at(Operation::GetFile, None), Err(Code::MissingRequiredHeader));
        assert_eq!(looked_at(Operation::GetPermission, None), Err(Code::MissingRequiredHeader));
        for operation in [Operation::GetUserDelegationKey, Operation::CreateShare] {
            assert_eq!(looked_at(operation, None), Ok(()), "{operation:?}");
        }
    }

    #[test]
    fn a_token_is_what_follows_the_schemes_name() {
        let shown = |value: &'static str| {
            let headers = [("authorization".parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            token(&headers, "authorization").map(str::to_owned)
        };
        assert_eq!(shown("Bearer a.b.c").as_deref(), Some("a.b.c"));
        assert_eq!(shown("bearer a.b.c").as_deref(), Some("a.b.c"));
        for other in ["Bearer", "SharedKey a:b", "Bea", "B\u{e4}rer a"] {
            assert_eq!(shown(other), None, "{other}");
        }
    }
}
