//! Azure Files' REST interface ("File service REST API"): an account's shares, directories and files by HTTP, for its SDKs and tools.
//!
//! Whoever asks proves to be allowed that, by a key of the account ([`auth`]). Files are reached by an SMB session of the account on the same server
//! ([`sessions`]): what SMB clients have open, locked and cached counts here, and the other way round. It runs on threads of its own, never on a shard.

mod answer;
mod auth;
mod cors;
mod failure;
mod head;
mod inside;
mod listener;
mod management;
mod operations;
mod parts;
mod query;
mod sessions;
mod target;
mod tls;
mod tokens;
mod turns;

pub use listener::{Listening, Rest, Source};
pub use management::GROUP;
pub use tls::{Certificate, Made, NoCertificate};
pub use tokens::TENANT;

/// Reads what the signature of a URL says, whoever signed it, for who tests what reads it. `None` where it allows nothing at this second.
#[doc(hidden)]
pub fn read_signature(path: &str, query: &str, second: i64) -> Option<()> {
    auth::read_signature(path, query, second)
}

/// The names that a URL leads to from a share's root on, for who tests that they lead nowhere else. `None` where the request is refused.
#[doc(hidden)]
pub fn names(host: &str, path: &str, query: &str) -> Option<Vec<String>> {
    query::Query::parse(query).ok()?.canonical();
    let dots = if path.ends_with('.') { target::Dots::Kept } else { target::Dots::LeftOut };
    target::Target::parse(host, path, dots).ok().map(|target| target.names)
}

/// What the head of a request says, whoever asks.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// It is taken for one of an account, where there is none.
    pub is_proven: bool,
    /// Names from a share's root on of what is copied or renamed.
    pub source: Option<Vec<String>>,
    /// The first byte and the last.
    pub range: Option<(u64, Option<u64>)>,
    /// Bytes of metadata.
    pub metadata_bytes: usize,
}

/// Reads all that the head of a request says, for who tests what reads it. `None` where it is no HTTP, or its URL is refused.
#[doc(hidden)]
pub fn read_head(method: &str, url: &str, headers: &[(&str, &str)]) -> Option<Head> {
    let mut request = hyper::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).ok()?.into_parts();
    let host = parts.uri.host().unwrap_or_default();
    let query = query::Query::parse(parts.uri.query().unwrap_or_default()).ok()?;
    let target = target::Target::parse(host, parts.uri.path(), target::Dots::of_target(&parts.headers)).ok()?;
    let _ = query.snapshot("sharesnapshot");
    let _ = cors::preflight(&[cors::Rule::default()], &parts.headers);
    let _ = answer::check_version(parts.headers.get("x-ms-version"));
    let (is_proven, source) = auth::read_head(&parts, &query, &target);
    let operations::Said { range, metadata_bytes, .. } = operations::read_head(&parts.headers, &query);
    Some(Head { is_proven, source, range, metadata_bytes })
}

/// Reads a body in JSON, whatever it is meant for, or what is kept of a file. False where what is kept changes by being read and written.
#[doc(hidden)]
pub fn read_body(body: &[u8]) -> bool {
    management::read_body(body);
    operations::read_body(body)
}

/// True of a path that is for the management interface and names something there, for who tests what reads it.
#[doc(hidden)]
pub fn is_managed(method: &str, host: &str, path: &str) -> bool {
    let called = method.parse().is_ok_and(|method| management::Call::of(&method, path, GROUP).is_ok());
    called && management::is_for(host, path, Some("api-version=2026-09-01"))
}

/// Reads a form that asks for a token, for who tests what reads it. `None` where it is none.
#[doc(hidden)]
pub fn read_form(body: &[u8]) -> Option<()> {
    management::Form::parse(body).map(drop)
}

/// True of what may be a filter of resources, likewise.
#[doc(hidden)]
pub fn is_resource_filter(text: &str) -> bool {
    management::Filter::parse(text).is_some()
}

/// True of what has the form of a token, likewise.
#[doc(hidden)]
pub fn is_token(text: &str) -> bool {
    tokens::is_readable(text)
}

/// The CORS rules, and the stored access policies, that a body sets, counted, for who tests that they are never more than there can be.
#[doc(hidden)]
pub fn counts(body: &[u8]) -> (Option<usize>, Option<usize>) {
    (operations::rules(body), operations::policies(body).ok().map(|policies| policies.len()))
}
