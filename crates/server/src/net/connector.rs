//! How the process that runs the server connects to it without a socket.

use std::io;
use std::net::SocketAddr;

use tokio::sync::watch;

use crate::command::connection::Ending;
use crate::net::inside::{ClientEnd, Spare, connection};
use crate::net::line::Line;
use crate::net::shard::Dispatcher;

/// Connects to the server from inside its process. A connection counts as one from `address`, and is bounded, listed and ended like others.
#[derive(Clone)]
pub struct Connector {
    dispatcher: Dispatcher,
    stopped: watch::Receiver<Option<Ending>>,
    spare: Spare,
    address: SocketAddr,
}

impl Connector {
    pub(crate) fn new(dispatcher: Dispatcher, stopped: watch::Receiver<Option<Ending>>, address: SocketAddr) -> Self {
        Connector { dispatcher, stopped, spare: Spare::default(), address }
    }

    /// The address of the server that connections are told to be to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects. Refused where there are too many connections, or the server ends.
    pub async fn connect(&self) -> io::Result<ClientEnd> {
        let server = self.dispatcher.server();
        server.strangers.ready().await;
        if self.stopped.borrow().is_some() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (client_end, server_end) = connection(&self.spare, &server.pool);
        // It has no port: no other connection has it either.
        let peer = SocketAddr::new(self.address.ip(), 0);
        let is_placed = self.dispatcher.place(Line::Inside(Box::new(server_end)), Some(peer), Some(self.address));
        if is_placed { Ok(client_end) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
    }
}
