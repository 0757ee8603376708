//! Answers in JSON.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, DATE};
use jiff::Timestamp;
use serde::Serialize;

use crate::answer::{Answer, http_date, set, with_body};

/// An answer with this body.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let text = serde_json::to_string(value).expect("what is told is JSON");
    let mut answer = with_body(status, text.into());
    set(&mut answer, CONTENT_TYPE.as_str(), "application/json; charset=utf-8");
    answer
}

/// What every answer has. `client_id` is the request's own id.
pub(super) fn finish(answer: &mut Answer, id: &str, client_id: Option<&str>) {
    // Azure's are UUIDs, and some clients read them so.
    let id = format!("00000000-0000-0000-{}-{}", id.get(..4).unwrap_or_default(), id.get(4..).unwrap_or_default());
    for name in ["x-ms-request-id", "x-ms-correlation-request-id"] {
        set(answer, name, &id);
    }
    if let Some(client_id) = client_id {
        set(answer, "x-ms-client-request-id", client_id);
    }
    set(answer, DATE.as_str(), &http_date(Timestamp::now()));
    set(answer, CACHE_CONTROL.as_str(), "no-cache, no-store");
}
