//! What is done: the operations of the service ("File service REST API"), found by method, `restype` and `comp`.

mod directory;
mod file;
mod range;
mod service;
mod share;

use std::sync::Arc;

use bytes::Bytes;
use client::Tree;
use control::{KnownCatalog, Operations, ShareRecord};
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::{Answer, empty};
use crate::failure::{Code, Failure};
use crate::query::Query;
use crate::sessions::Sessions;
use crate::shared_key::Proven;
use crate::target::Target;

pub(crate) use self::file::PUT_MAX;

/// What operations work with.
pub(crate) struct Service {
    pub(crate) catalog: KnownCatalog,
    pub(crate) operations: Operations,
    pub(crate) sessions: Sessions,
}

/// A request that somebody has proved to be allowed.
pub(crate) struct Ask {
    pub(crate) by: Proven,
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The service's own address as the client named it, without a `/` at its end.
    pub(crate) endpoint: String,
    /// What its body takes, as long as somebody works with it.
    pub(crate) _held: Option<OwnedSemaphorePermit>,
}

impl Ask {
    /// A header's value.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A header's value as a number.
    fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let number = |value: &str| value.parse().map_err(|_| Failure::header(name, "a number"));
        self.header(name).map(number).transpose()
    }

    /// How many entries a listing may have.
    fn results_max(&self, most: usize) -> Result<usize, Failure> {
        let Some(text) = self.query.get("maxresults") else { return Ok(most) };
        match text.parse::<usize>() {
            Ok(0) | Err(_) => {
                Err(Failure::new(Code::OutOfRangeInput, format!("maxresults is {text:?}; allowed: 1 to {most}.")))
            }
            Ok(number) => Ok(number.min(most)),
        }
    }
}

impl Service {
    /// Does what is asked.
    pub(crate) async fn perform(self: Arc<Self>, ask: Ask) -> Result<Answer, Failure> {
        let (restype, comp) = (ask.query.get("restype"), ask.query.get("comp"));
        let done = match (&ask.target.share, ask.target.names.is_empty()) {
            (None, _) => match (ask.method.as_str(), restype, comp) {
                ("GET", _, Some("list")) => service::list_shares(&self, &ask),
                ("GET", Some("service"), Some("properties")) => service::properties(&self, &ask),
                ("PUT", Some("service"), Some("properties")) => service::set_properties(&self, &ask).await,
                _ => Err(unknown(&ask)),
            },
            (Some(_), true) => match (ask.method.as_str(), restype, comp) {
                ("GET" | "HEAD", Some("share"), None) => share::properties(&self, &ask),
                ("GET", Some("directory"), Some("list")) => directory::list(&self, &ask).await,
                ("GET" | "HEAD", Some("directory"), None) => directory::properties(&self, &ask).await,
                _ => Err(unknown(&ask)),
            },
            (Some(_), false) => match (ask.method.as_str(), restype, comp) {
                ("PUT", Some("directory"), None) => directory::create(&self, &ask).await,
                ("GET" | "HEAD", Some("directory"), None) => directory::properties(&self, &ask).await,
                ("GET", Some("directory"), Some("list")) => directory::list(&self, &ask).await,
                ("DELETE", Some("directory"), None) => directory::delete(&self, &ask).await,
                ("PUT", Some("directory") | None, Some("rename")) => file::rename(&self, &ask).await,
                ("PUT", None, Some("range")) => file::put_range(&self, &ask).await,
                ("PUT", None, Some("properties")) => file::set_properties(&self, &ask).await,
                ("PUT", None, None) => file::create(&self, &ask).await,
                ("GET", None, None) => file::get(&self, &ask).await,
                ("HEAD", None, None) => file::properties(&self, &ask).await,
                ("DELETE", None, None) => file::delete(&self, &ask).await,
                _ => Err(unknown(&ask)),
            },
        };
        if done.as_ref().is_err_and(|failure| failure.code == Code::ServerBusy) {
            self.sessions.forget(&ask.by).await;
        }
        done
    }

    /// The share that is asked for, if it is one of the account's.
    fn record(&self, ask: &Ask) -> Result<ShareRecord, Failure> {
        let name = ask.target.share.as_deref().unwrap_or_default();
        self.catalog.share_of(ask.by.account(), name).ok_or_else(|| Failure::no_share(name))
    }

    /// The same, to work with its files.
    async fn tree(&self, ask: &Ask) -> Result<Tree, Failure> {
        let record = self.record(ask)?;
        self.sessions.share(&ask.by, &record.name).await
    }
}

fn unknown(ask: &Ask) -> Failure {
    let [restype, comp] = ["restype", "comp"].map(|name| ask.query.get(name).unwrap_or_default());
    Failure::new(
        Code::UnsupportedQueryParameter,
        format!("{} with restype={restype:?} and comp={comp:?} is not served here.", ask.method),
    )
}

/// Done, with nothing to tell.
fn accepted() -> Answer {
    empty(StatusCode::ACCEPTED)
}
