//! Answers of the page's interface: JSON, or a sentence on what is wrong and one on what to do.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use control::{Error, Fault};
use serde::Serialize;
use serde_json::json;

use crate::flight::Unanswered;

/// Why something is not answered, or not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) what: String,
    pub(crate) remedy: String,
    /// Seconds after which it is worth to try again.
    pub(crate) again_after: Option<u64>,
}

/// A text of JSON, or why there is none.
pub(crate) type Answer = Result<Bytes, Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refusal { status, what: what.into(), remedy: remedy.into(), again_after: None }
    }

    pub(crate) fn again_after(self, seconds: u64) -> Self {
        Refusal { again_after: Some(seconds), ..self }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.fault() {
            Fault::Argument => StatusCode::BAD_REQUEST,
            Fault::Missing => StatusCode::NOT_FOUND,
            Fault::Conflict => StatusCode::CONFLICT,
            Fault::Machine => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal::new(status, error.what(), error.remedy())
    }
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Busy => {
                let what = "Too many ask at once.";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what, "Try again in a second.").again_after(1)
            }
            Unanswered::Ended => {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "Nobody can tell any more.", "See the server's log.")
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "what": self.what, "remedy": self.remedy, "again_after": self.again_after });
        let mut response = answered(self.status, body.to_string().into());
        if let Some(seconds) = self.again_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What is told, as JSON.
pub(crate) fn told<T: Serialize>(value: &T) -> Answer {
    serde_json::to_vec(value).map(Bytes::from).map_err(|cause| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("It cannot be written: {cause}."), "Please report it.")
    })
}

/// A response of this JSON.
pub(crate) fn answered(status: StatusCode, body: Bytes) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
