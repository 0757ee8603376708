//! The clients of a turn: sessions of one connection each, spread over threads.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::client::{Channels, Error, Session, Settings, Signing, Tcp, Tree};
use futures_util::future::{join_all, try_join_all};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::super::servers::Server;
use crate::engine::Failure;

/// How long a request may stay without an answer, and a lost server be looked for.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long signing out may take.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// Clients of one server.
pub(super) struct Clients {
    server: String,
    workers: Vec<Worker>,
}

/// A thread's clients. Requests cost a client least on a runtime of one thread.
struct Worker {
    runtime: Runtime,
    clients: Vec<Client>,
}

/// One client.
pub(super) struct Client {
    /// From 0.
    pub(super) number: usize,
    pub(super) tree: Tree,
    session: Session,
}

impl Clients {
    /// Signs so many in.
    pub(super) fn sign_in(server: &Server, count: usize) -> Result<Self, Failure> {
        // The server has the other half of the machine.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = count.min(cores / 2).max(1);
        let mut workers = Vec::new();
        for first in 0..threads {
            let runtime = Builder::new_current_thread().enable_all().build().map_err(|cause| Failure {
                what: format!("cannot start a client: {cause}"),
                remedy: "see what this machine lacks".to_owned(),
            })?;
            let numbers = (first..count).step_by(threads);
            let clients = runtime.block_on(try_join_all(numbers.map(|number| Client::sign_in(server, number))));
            let clients = clients.map_err(|error| failure(&server.name, &error))?;
            workers.push(Worker { runtime, clients });
        }
        Ok(Clients { server: server.name.clone(), workers })
    }

    /// Has all of them do something at the same time; gives what came of it, of each.
    pub(super) fn all<T: Send>(
        &self,
        work: impl AsyncFn(&Client) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let work = &work;
        let done: Result<Vec<Vec<T>>, Error> = thread::scope(|scope| {
            let threads: Vec<_> = self.workers.iter().map(|worker| scope.spawn(move || worker.all(work))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Lost("a client's thread")))).collect()
        });
        done.map(|done| done.into_iter().flatten().collect()).map_err(|error| failure(&self.server, &error))
    }

    /// Bytes that all of them have sent and received so far, headers and all.
    pub(super) fn moved_bytes(&self) -> Moved {
        let clients = self.workers.iter().flat_map(|worker| &worker.clients);
        let channels = clients.flat_map(|client| client.session.connected().channels);
        channels.fold(Moved::default(), |moved, channel| Moved {
            sent_bytes: moved.sent_bytes + channel.sent_bytes,
            received_bytes: moved.received_bytes + channel.received_bytes,
        })
    }
}

impl Worker {
    fn all<T>(&self, work: &impl AsyncFn(&Client) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        self.runtime.block_on(try_join_all(self.clients.iter().map(|client| work(client))))
    }
}

/// What went over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Moved {
    pub(super) fn since(self, before: Moved) -> Moved {
        Moved {
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
        }
    }
}

impl Client {
    async fn sign_in(server: &Server, number: usize) -> Result<Self, Error> {
        let settings = Settings {
            channels: Channels::Exactly(1),
            session_timeout: SILENCE_MAX,
            signing: Signing::AsServerWants,
            ..server.mount.settings
        };
        let session = Session::connect(&server.mount.server, settings, Arc::new(Tcp)).await?;
        let tree = session.tree(&server.mount.share).await?;
        Ok(Client { number, tree, session })
    }
}

impl Drop for Clients {
    /// Signs them out, as far as the server is there.
    fn drop(&mut self) {
        for Worker { runtime, clients } in &mut self.workers {
            let closing = join_all(clients.drain(..).map(|client| client.session.close()));
            let _ = runtime.block_on(async { timeout(CLOSE_MAX, closing).await });
        }
    }
}

fn failure(server: &str, error: &Error) -> Failure {
    Failure { what: format!("{server}: {error}"), remedy: error.remedy().to_owned() }
}
