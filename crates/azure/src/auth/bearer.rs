//! Who asks with a token, as a service principal ("Authorize with Microsoft Entra ID"): for files and directories of every share, whatever their descriptors say.

use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;

use super::rights::Permissions;
use super::{Known, Way};
use crate::failure::{Code, Failure};

const PREFIX: &str = "Bearer ";
/// Who asks with a token has to say that it means to pass descriptors by.
const INTENT: &str = "x-ms-file-request-intent";

/// A service principal that has proved itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Its id.
    pub(crate) id: String,
    /// What its roles give with files.
    pub(crate) permissions: Permissions,
}

/// The token that a request shows, if it does.
pub(super) fn token(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX))?;
    Some(value[PREFIX.len()..].trim())
}

/// Verifies it.
pub(super) fn verify(parts: &Parts, token: &str, way: Way, known: &impl Known) -> Result<Principal, Failure> {
    let principal = known.principal_of(token, way.at).map_err(|why| {
        Failure::new(Code::InvalidAuthenticationInfo, format!("Server failed to authenticate the request: {why}."))
    })?;
    match parts.headers.get(INTENT).map(|value| value.to_str().unwrap_or_default()) {
        Some(intent) if intent.eq_ignore_ascii_case("backup") => Ok(principal),
        Some(_) => Err(Failure::header(INTENT, "backup")),
        None => Err(Failure::missing(INTENT)),
    }
}
