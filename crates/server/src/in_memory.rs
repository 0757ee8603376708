//! The server without sockets and threads, for tests of what speaks to it. Only with the feature `in-memory`. Nothing in it looks at the
//! machine's clock or waits for another thread: what happens follows from what comes in, and when.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use store::Node;
use tokio::io::{AsyncRead, DuplexStream, ReadBuf};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::admin::Admin;
use crate::command::migrated::MigratedConnection;
use crate::command::migrated::Origin;
use crate::net::connection::Endpoint;
use crate::net::transport::Transport;
use crate::resource::buffers::Buffers;
use crate::resource::capacity::Capacity;
use crate::resource::turns::Turns;
use crate::state::configuration::Configuration;
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;

/// A server whose connections all live on the thread that serves them.
pub struct InMemory {
    shared: Arc<Shared>,
    buffers: Rc<Buffers>,
    turns: Rc<Turns>,
    connections: Cell<u64>,
}

impl InMemory {
    /// A server of `configuration`. It tells clients of no address but those of [`Settings::advertise`](crate::state::configuration::Settings).
    pub fn new(configuration: Configuration) -> Self {
        let mut shared = Shared::new(configuration, Vec::new(), 1, Capacity::default());
        shared.work_by_hand();
        InMemory { shared: Arc::new(shared), buffers: Rc::default(), turns: Rc::default(), connections: Cell::new(1) }
    }

    /// The interface for operators.
    pub fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(Arc::clone(&self.shared))
    }

    /// Does what shards leave for later: work that may wait for a store, each piece after a time that `takes` gives, and the closing of
    /// opens whose client does not return. Never ends; without it what goes to the pool is never answered.
    pub fn work<T: FnMut() -> Duration>(&self, mut takes: T) -> impl Future<Output = ()> + use<T> {
        let (pool, scavenging) = (self.shared.pool.clone(), scavenge(Arc::clone(&self.shared)));
        let working = async move {
            loop {
                pool.called().await;
                loop {
                    sleep(takes()).await;
                    if !pool.work_once() {
                        break;
                    }
                }
            }
        };
        async {
            tokio::join!(working, scavenging);
        }
    }

    /// Serves a stream to its end. Must be polled within a [`LocalSet`](tokio::task::LocalSet).
    pub fn serve(&self, end: FarEnd, local: SocketAddr, peer: SocketAddr) -> impl Future<Output = ()> + use<> {
        let id = self.connections.get();
        self.connections.set(id + 1);
        let (peer, local, shard) = (peer.to_string(), local.to_string(), self.shared.placement.least());
        let migrated = MigratedConnection::of_new(Origin { id, peer, local, is_inside: false, shard });
        let connection = Endpoint::new(migrated, Arc::clone(&self.shared), Rc::clone(&self.buffers), &self.turns);
        async move {
            // There is one shard, so that no connection moves to another.
            connection.serve(end, Vec::new()).await;
        }
    }
}

/// The server's end of a connection.
pub struct FarEnd {
    stream: DuplexStream,
    patience: watch::Sender<Option<Duration>>,
}

impl FarEnd {
    /// The end behind `stream`, and how long what it sends may stay undelivered before whoever carries it has to end the connection; `None`
    /// for as long as it takes.
    pub fn new(stream: DuplexStream) -> (Self, watch::Receiver<Option<Duration>>) {
        let (patience, told) = watch::channel(None);
        (FarEnd { stream, patience }, told)
    }
}

impl AsyncRead for FarEnd {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, into)
    }
}

impl Transport for FarEnd {
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[io::IoSlice<'_>], more: bool) -> Poll<io::Result<usize>> {
        self.stream.poll_send(task, bytes, more)
    }

    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_send_file(task, node, offset, length)
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience.send_replace(patience);
    }
}

/// The bytes of a persistent open's record, read with whatever checksum they have and written again; `None` where they are malformed.
pub fn rewritten_record(bytes: &[u8]) -> Option<Vec<u8>> {
    crate::state::durable::rewritten(bytes)
}

/// A rule that the server can be made to break, so that a test of what holds can be seen to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// Changes are made however late they come (MS-SMB2 3.3.5.2.10).
    ChangesOutOfTurn,
    /// CREATEs are done however late they come.
    CreatesOutOfTurn,
    /// Breaks that a connection did not deliver are not sent again (MS-SMB2 3.3.4.6).
    BreaksSentOnce,
}

thread_local! {
    static LAPSE: Cell<Option<Lapse>> = const { Cell::new(None) };
}

/// What the servers of this thread do wrong from now on.
pub fn set_lapse(lapse: Option<Lapse>) {
    LAPSE.set(lapse);
}

/// True where the rule is to be broken.
pub(crate) fn lapses(lapse: Lapse) -> bool {
    LAPSE.get() == Some(lapse)
}
