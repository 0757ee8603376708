//! The server without sockets and threads, for tests of what speaks to it. Only with the feature `in-memory`.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::DuplexStream;

use crate::Shared;
use crate::admin::{Admin, Estate};
use crate::buffers::Buffers;
use crate::connection::{Connection, Origin};
use crate::migration::Luggage;

/// A server whose connections all live on the thread that serves them.
pub struct InMemory {
    shared: Arc<Shared>,
    buffers: Rc<Buffers>,
    connections: Cell<u64>,
}

impl InMemory {
    /// A server of `estate`. It tells clients of no address but those of [`Settings::advertise`](crate::admin::Settings).
    pub fn new(estate: Estate) -> Self {
        let shared = Arc::new(Shared::new(estate, Vec::new(), 1));
        InMemory { shared, buffers: Rc::default(), connections: Cell::new(1) }
    }

    /// The interface for operators.
    pub fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(Arc::clone(&self.shared))
    }

    /// Serves a stream to its end. Must be polled within a [`LocalSet`](tokio::task::LocalSet).
    pub fn serve(&self, stream: DuplexStream, local: SocketAddr, peer: SocketAddr) -> impl Future<Output = ()> + use<> {
        let id = self.connections.get();
        self.connections.set(id + 1);
        let (peer, local, shard) = (peer.to_string(), local.to_string(), self.shared.placement.least());
        let luggage = Luggage::of_new(Origin { id, peer, local, shard });
        let connection = Connection::new(luggage, Arc::clone(&self.shared), Rc::clone(&self.buffers));
        async move {
            // There is one shard, so that no connection moves to another.
            connection.serve(stream, Vec::new()).await;
        }
    }
}
