//! What is answered: headers that every answer has, XML, and failures.

use std::task::{Context, Poll};

use bytes::Bytes;
use client::{Facts, FileAttributes};
use hyper::header::{CONTENT_TYPE, DATE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Response, StatusCode};
use jiff::Timestamp;
use jiff::civil::{Date, date};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;

use crate::failure::{Code, Failure};
use crate::parts::Part;

/// The version that is spoken to who names none.
pub(crate) const VERSION: &str = "2026-10-06";

/// The first version that is spoken: each is named by its day.
const VERSION_FIRST: Date = date(2019, 2, 2);

/// When to come again, for whom the server has no room.
const RETRY_SECONDS: &str = "1";

/// An answer on its way.
pub(crate) type Answer = Response<Piecewise>;

/// A body: what is there at once, and perhaps what comes piece by piece.
pub(crate) enum Piecewise {
    /// All of it.
    Whole(Option<Bytes>),
    /// So many bytes, which somebody sends. Who stops before breaks the connection off, so that nobody takes a part for the whole.
    Sent { left: u64, pieces: Receiver<Piece> },
}

/// A piece of a body.
pub(crate) enum Piece {
    Bytes(Bytes),
    /// It is sent from where it is.
    File(Part),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File(part) => part.length() as u64,
        }
    }
}

/// A file that ended before what was told of its length.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the file could not be read to the end that was told")]
pub(crate) struct Broken;

impl Piecewise {
    /// What comes next.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Piece, Broken>>> {
        match self {
            Piecewise::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Piece::Bytes(bytes)))),
            Piecewise::Sent { left: 0, .. } => Poll::Ready(None),
            Piecewise::Sent { left, pieces } => pieces.poll_recv(context).map(|piece| {
                let piece = piece.filter(|piece| piece.length() <= *left).ok_or(Broken);
                Some(piece.inspect(|piece| *left -= piece.length()))
            }),
        }
    }

    /// True where nothing comes.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Piecewise::Whole(bytes) => bytes.is_none(),
            Piecewise::Sent { left, .. } => *left == 0,
        }
    }

    /// Bytes that come.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Piecewise::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Piecewise::Sent { left, .. } => *left,
        }
    }
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    with_body(status, Bytes::new())
}

/// An answer with this body.
pub(crate) fn with_body(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Piecewise::Whole(Some(body).filter(|body| !body.is_empty())));
    *answer.status_mut() = status;
    answer
}

/// An answer in XML.
pub(crate) fn xml<T: Serialize>(root: &str, value: &T) -> Result<Answer, Failure> {
    let text = quick_xml::se::to_string_with_root(root, value)
        .map_err(|_| Failure::new(Code::InternalError, "The answer could not be written."))?;
    let text: String = text.chars().map(|one| if is_xml(one) { one } else { char::REPLACEMENT_CHARACTER }).collect();
    let mut answer = with_body(StatusCode::OK, format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>{text}").into());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    Ok(answer)
}

/// The characters that XML 1.0 can have (2.2); others it has in no spelling.
fn is_xml(character: char) -> bool {
    !matches!(character, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}')
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(rename = "AuthenticationErrorDetail", skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

/// The answer to what is not done.
pub(crate) fn failed(failure: &Failure) -> Answer {
    let code = failure.code.name();
    let body = ErrorBody { code: &code, message: &failure.message, detail: failure.detail.as_deref() };
    let mut answer = xml("Error", &body).unwrap_or_else(|_| empty(StatusCode::INTERNAL_SERVER_ERROR));
    *answer.status_mut() = failure.status();
    set(&mut answer, "x-ms-error-code", &code);
    if let Some(code) = failure.of_source {
        set(&mut answer, "x-ms-copy-source-status-code", code.status().as_str());
        set(&mut answer, "x-ms-copy-source-error-code", &code.name());
    }
    if failure.code == Code::InvalidAuthenticationInfo {
        set(&mut answer, WWW_AUTHENTICATE.as_str(), "Bearer");
    }
    if failure.code == Code::ServerBusy {
        set(&mut answer, RETRY_AFTER.as_str(), RETRY_SECONDS);
    }
    answer
}

/// What every answer has. `asked` are the request's own id and version.
pub(crate) fn finish(answer: &mut Answer, id: &str, client_id: Option<&HeaderValue>, version: Option<&HeaderValue>) {
    set(answer, "x-ms-request-id", id);
    set(answer, DATE.as_str(), &http_date(Timestamp::now()));
    let version = version.filter(|version| is_version(version)).cloned();
    let version = version.unwrap_or(HeaderValue::from_static(VERSION));
    answer.headers_mut().insert("x-ms-version", version);
    if let Some(id) = client_id {
        answer.headers_mut().insert("x-ms-client-request-id", id.clone());
    }
}

/// Refuses a version that is not spoken here.
pub(crate) fn check_version(asked: Option<&HeaderValue>) -> Result<(), Failure> {
    if asked.is_none_or(is_version) {
        return Ok(());
    }
    Err(Failure::header("x-ms-version", &format!("the day of a version, from {VERSION_FIRST} on")))
}

fn is_version(asked: &HeaderValue) -> bool {
    let text = asked.to_str().unwrap_or_default();
    text.len() == "YYYY-MM-DD".len() && text.parse::<Date>().is_ok_and(|day| day >= VERSION_FIRST)
}

/// Sets a header; a value that no header can have is left out.
pub(crate) fn set(answer: &mut Answer, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
        answer.headers_mut().insert(name, value);
    }
}

/// An answer without a body that tells of a file or directory.
pub(crate) fn of_facts(status: StatusCode, facts: &Facts) -> Answer {
    let mut answer = empty(status);
    set_facts(&mut answer, facts);
    answer
}

/// The headers that tell of a file or directory.
pub(crate) fn set_facts(answer: &mut Answer, facts: &Facts) {
    set(answer, LAST_MODIFIED.as_str(), &http_date(timestamp(facts.changed)));
    set(answer, ETAG.as_str(), &etag(facts));
    set(answer, "x-ms-server-encrypted", "false");
    set(answer, "x-ms-request-server-encrypted", "false");
    set(answer, "x-ms-file-attributes", &attributes(facts.attributes));
    for (name, time) in [
        ("x-ms-file-creation-time", facts.created),
        ("x-ms-file-last-write-time", facts.written),
        ("x-ms-file-change-time", facts.changed),
    ] {
        set(answer, name, &precise(time));
    }
}

/// Changes whenever anything of the file does.
pub(crate) fn etag(facts: &Facts) -> String {
    format!("\"0x{:X}\"", facts.changed.0)
}

/// A time as HTTP has it.
pub(crate) fn http_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A time with all seven digits that a file's has.
pub(crate) fn precise(time: client::FileTime) -> String {
    let time = timestamp(time);
    format!("{}.{:07}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), time.subsec_nanosecond() / 100)
}

/// A file's time.
pub(crate) fn timestamp(time: client::FileTime) -> Timestamp {
    let (seconds, nanoseconds) = time.to_unix();
    Timestamp::new(seconds, nanoseconds as i32).unwrap_or_default()
}

/// Attributes by their names, with `|` between them.
pub(crate) fn attributes(attributes: FileAttributes) -> String {
    const NAMES: [(FileAttributes, &str); 8] = [
        (FileAttributes::READONLY, "ReadOnly"),
        (FileAttributes::HIDDEN, "Hidden"),
        (FileAttributes::SYSTEM, "System"),
        (FileAttributes::DIRECTORY, "Directory"),
        (FileAttributes::ARCHIVE, "Archive"),
        (FileAttributes::TEMPORARY, "Temporary"),
        (FileAttributes::OFFLINE, "Offline"),
        (FileAttributes::NOT_CONTENT_INDEXED, "NotContentIndexed"),
    ];
    let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| attributes.contains(*bit)).map(|(_, name)| *name).collect();
    if names.is_empty() { "None".to_owned() } else { names.join(" | ") }
}

/// Where a request that only wants the headers is answered: the length is told, and nothing is sent.
pub(crate) fn without_body(method: &Method, answer: Answer) -> Answer {
    if method != Method::HEAD {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let length = body.length();
    let mut answer = Response::from_parts(parts, Piecewise::Whole(None));
    set(&mut answer, "content-length", &length.to_string());
    answer
}

#[cfg(test)]
mod tests {
    use client::FileTime;

    use super::*;

    #[test]
    fn times_are_the_services() {
        let time = FileTime::from_unix(1_764_478_800, 123_456_700);
        assert_eq!(precise(time), "2025-11-30T05:00:00.1234567Z");
        assert_eq!(http_date(timestamp(time)), "Sun, 30 Nov 2025 05:00:00 GMT");
    }

    #[test]
    fn attributes_have_their_names() {
        assert_eq!(attributes(FileAttributes::NORMAL), "None");
        assert_eq!(attributes(FileAttributes::DIRECTORY | FileAttributes::HIDDEN), "Hidden | Directory");
    }

    #[test]
    fn a_version_is_a_day_and_others_are_not_told_again() {
        let told = |version: &str| {
            let (mut answer, version) = (empty(StatusCode::OK), version.parse().unwrap());
            finish(&mut answer, "1", None, Some(&version));
            (answer.headers()["x-ms-version"].to_str().unwrap().to_owned(), check_version(Some(&version)).is_ok())
        };
        assert_eq!(check_version(None), Ok(()));
        for spoken in ["2019-02-02", "2026-10-06", "2027-03-07"] {
            assert_eq!(told(spoken), (spoken.to_owned(), true));
        }
        for other in ["", "2019-02-01", "2019-2-2", "2026-13-06", "2026-10-06T00:00:00", "x"] {
            assert_eq!(told(other), (VERSION.to_owned(), false), "{other}");
        }
    }

    #[test]
    fn what_xml_cannot_have_is_replaced() {
        let answer = failed(&Failure::new(Code::ShareNotFound, "There is no share \0\u{2}\u{FFFF} \u{1F600}\t."));
        let Piecewise::Whole(Some(body)) = answer.into_body() else { panic!("no body") };
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains("no share \u{FFFD}\u{FFFD}\u{FFFD} \u{1F600}\t."), "{text}");
    }

    #[test]
    fn a_failure_is_told_in_xml_and_in_a_header() {
        let answer = failed(&Failure::new(Code::ShareNotFound, "There is no share <a>."));
        assert_eq!(answer.status(), 404);
        assert_eq!(answer.headers()["x-ms-error-code"], "ShareNotFound");
        let Piecewise::Whole(Some(body)) = answer.into_body() else { panic!("no body") };
        let wanted = "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>ShareNotFound</Code>\
                      <Message>There is no share &lt;a&gt;.</Message></Error>";
        assert_eq!(body, wanted.as_bytes());
    }

    #[test]
    fn why_a_source_may_not_be_read_is_told_beside() {
        let answer = failed(&Failure::source(Code::NoAuthenticationInformation, "It has no signature."));
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.headers()["x-ms-error-code"], "CannotVerifyCopySource");
        assert_eq!(answer.headers()["x-ms-copy-source-status-code"], "401");
        assert_eq!(answer.headers()["x-ms-copy-source-error-code"], "NoAuthenticationInformation");
    }

    #[test]
    fn what_was_wrong_with_a_proof_is_an_element_of_its_own() {
        let answer = failed(&Failure::unauthenticated("sr is neither s nor f"));
        let Piecewise::Whole(Some(body)) = answer.into_body() else { panic!("no body") };
        let body = String::from_utf8(body.to_vec()).unwrap();
        let wanted = "<AuthenticationErrorDetail>sr is neither s nor f</AuthenticationErrorDetail></Error>";
        assert!(body.ends_with(wanted), "{body}");
    }
}
