//! Azure Files' REST interface ("File service REST API"): an account's shares, directories and files by HTTP, for its SDKs and tools.
//!
//! Whoever asks proves to be allowed that, by a key of the account ([`auth`]). Files are reached by an SMB session of the account on the same server
//! ([`sessions`]): what SMB clients have open, locked and cached counts here, and the other way round. It runs on a thread of its own, never on a shard.

mod answer;
mod auth;
mod failure;
mod listener;
mod operations;
mod query;
mod sessions;
mod target;

pub use listener::{Rest, Source};

/// The names that a URL leads to from a share's root on, for who tests that they lead nowhere else. `None` where the request is refused.
#[doc(hidden)]
pub fn names(host: &str, path: &str, query: &str) -> Option<Vec<String>> {
    query::Query::parse(query).ok()?.canonical();
    target::Target::parse(host, path, |name| name == "local").ok().map(|target| target.names)
}
