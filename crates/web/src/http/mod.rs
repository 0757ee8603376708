//! HTTP/1.1 on a thread of its own: listening, and bounds for those who connect. A connection asks for one thing and ends.

mod accept;
mod host;
mod limits;
mod visitors;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

use axum::Router;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

pub(crate) use self::host::is_local;
use self::limits::Limits;

/// How much later than a shard the thread gets a core, as nice(1) has it: who asks without end takes none from clients.
pub(crate) const NICENESS: i32 = 10;

/// An address that is listened on, with nobody there yet.
pub(crate) struct Listening {
    socket: TcpListener,
    address: SocketAddr,
}

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Listens. Port 0 takes a free one.
    pub(crate) fn on(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Listening { socket, address })
    }

    /// The address, which is for this machine alone where it is a loopback address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Server {
    /// Answers who connects by `pages`, and tells `not_accepted` of who could not.
    pub(crate) fn start(
        name: &str,
        listening: Listening,
        pages: Router,
        not_accepted: fn(&io::Error),
    ) -> io::Result<Self> {
        let Listening { socket, address } = listening;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Where that is not allowed it is a thread like others.
            let _ = rustix::process::nice(NICENESS);
            runtime.block_on(async {
                tokio::select! {
                    () = accept::serve(socket, pages, Limits::of_this_process(), not_accepted) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Server { address, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Nothing there waits for anything but sockets. One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}
