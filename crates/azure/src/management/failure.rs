//! What the management interface answers where something is not done: a status, a code and a sentence, in JSON.

use std::borrow::Cow;

use control::{Error, Fault, Reason};
use hyper::StatusCode;
use serde_json::json;

use super::answer::json as answered;
use crate::answer::{Answer, set};

/// A request that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(super) status: StatusCode,
    /// Its code, by Azure Resource Manager's names.
    pub(super) code: Cow<'static, str>,
    /// What happened, for people; nothing secret.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Failure { status, code: code.into(), message: message.into() }
    }

    /// What was asked for makes no sense.
    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Failure::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// What the data plane says of it.
    pub(super) fn of_data_plane(failure: crate::failure::Failure) -> Self {
        Failure { status: failure.status(), code: failure.code.name().into(), message: failure.message }
    }

    /// What is named is not there.
    pub(super) fn missing(code: &'static str, message: impl Into<String>) -> Self {
        Failure::new(StatusCode::NOT_FOUND, code, message)
    }

    /// A resource that is not there, by its type and name.
    pub(super) fn no_resource(kind: &str, name: &str) -> Self {
        Failure::missing("ResourceNotFound", format!("The Resource 'Microsoft.Storage/{kind}/{name}' was not found."))
    }

    /// Who asks has shown no token, or one that lets nobody in.
    pub(super) fn unauthenticated(code: &'static str, message: impl Into<String>) -> Self {
        Failure::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// As an answer. Where a token is missing it says where to get one.
    pub(super) fn answer(&self, origin: &str) -> Answer {
        let mut answer = answered(self.status, &json!({ "error": { "code": self.code, "message": self.message } }));
        set(&mut answer, "x-ms-failure-cause", "gateway");
        if self.status == StatusCode::UNAUTHORIZED {
            let authority = format!("{origin}/{}", crate::tokens::TENANT);
            let challenge = format!(
                "Bearer authorization=\"{authority}\", authorization_uri=\"{authority}\", error=\"invalid_token\", error_description=\"{}\"",
                self.message.replace(['"', '\\'], "'")
            );
            set(&mut answer, "www-authenticate", &challenge);
        }
        answer
    }
}

/// What the catalog refuses, with its own words; by the data plane's codes where it has some.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if error.reason() != Reason::Other {
            return Failure::of_data_plane(error.into());
        }
        let (status, code) = match error.fault() {
            Fault::Argument => (StatusCode::BAD_REQUEST, "InvalidRequestPropertyValue"),
            Fault::Missing => (StatusCode::NOT_FOUND, "ResourceNotFound"),
            Fault::Conflict => (StatusCode::CONFLICT, "Conflict"),
            Fault::Machine => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        };
        Failure::new(status, code, format!("{}: {}.", error.what(), error.remedy()))
    }
}
