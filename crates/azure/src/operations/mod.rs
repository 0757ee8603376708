//! What is done: the operations of the service ("File service REST API").

mod delegation;
mod directory;
mod file;
mod operation;
mod range;
mod service;
mod share;

use std::sync::Arc;

use bytes::Bytes;
use client::Tree;
use control::{KnownCatalog, Operations, ShareRecord};
use hyper::StatusCode;
use hyper::header::HeaderMap;

use crate::answer::{Answer, empty};
use crate::auth::Proven;
use crate::failure::{Code, Failure};
use crate::listener::Held;
use crate::query::Query;
use crate::sessions::Sessions;
use crate::target::Target;

pub(crate) use self::file::PUT_MAX;
pub(crate) use self::operation::Operation;
pub(crate) use self::share::{etag as share_etag, quota_gib};

/// What operations work with.
pub(crate) struct Service {
    pub(crate) catalog: KnownCatalog,
    pub(crate) operations: Operations,
    pub(crate) sessions: Sessions,
}

/// A request that somebody has proved to be allowed.
pub(crate) struct Ask {
    pub(crate) by: Proven,
    pub(crate) operation: Operation,
    pub(crate) target: Target,
    /// What it is copied or renamed from, where the operation has that. Whoever asks is allowed to take it from there.
    pub(crate) source: Option<Target>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The service's own address as the client named it, without a `/` at its end.
    pub(crate) endpoint: String,
    /// What its body takes, as long as somebody works with it.
    pub(crate) _held: Held,
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
        let done = match ask.operation {
            Operation::ListShares => service::list_shares(&self, &ask),
            Operation::GetServiceProperties => service::properties(&self, &ask),
            Operation::SetServiceProperties => service::set_properties(&self, &ask).await,

            Operation::GetUserDelegationKey => delegation::key(&self, &ask),

            Operation::GetShareProperties => share::properties(&self, &ask),

            Operation::CreateDirectory => directory::create(&self, &ask).await,
            Operation::GetDirectoryProperties => directory::properties(&self, &ask).await,
            Operation::DeleteDirectory => directory::delete(&self, &ask).await,
            Operation::ListDirectory => directory::list(&self, &ask).await,

            Operation::CreateFile => file::create(&self, &ask).await,
            Operation::GetFile => file::get(&self, &ask).await,
            Operation::GetFileProperties => file::properties(&self, &ask).await,
            Operation::SetFileProperties => file::set_properties(&self, &ask).await,
            Operation::DeleteFile => file::delete(&self, &ask).await,
            Operation::RenameDirectory | Operation::RenameFile => file::rename(&self, &ask).await,
            Operation::PutRange => file::put_range(&self, &ask).await,
            other => Err(not_served(other)),
        };
        told(&ask, &done);
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

/// Tells who looks for a cause what was asked, by which client, and what it was answered.
fn told(ask: &Ask, done: &Result<Answer, Failure>) {
    let agent = ask.header("user-agent").unwrap_or_default();
    // Some operations are several, by one header.
    let part = ask.header("x-ms-lease-action").or_else(|| ask.header("x-ms-write")).unwrap_or_default();
    let status = done.as_ref().map_or_else(|failure| failure.code.status(), Answer::status).as_u16();
    tracing::debug!(operation = ?ask.operation, part, status, agent, "asked by REST");
}

/// An operation of the service that is not there.
fn not_served(operation: Operation) -> Failure {
    Failure::new(Code::UnsupportedQueryParameter, format!("{operation:?} is not served here."))
}

/// Done, with nothing to tell.
fn accepted() -> Answer {
    empty(StatusCode::ACCEPTED)
}
