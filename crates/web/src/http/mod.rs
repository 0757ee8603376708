//! HTTP/1.1 on a thread of its own: listening, and bounds for those who connect. A connection asks for one thing and ends.

mod accept;
mod host;
mod limits;
mod visitors;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

pub(crate) use self::host::is_local;
use self::limits::Limits;

/// How much later than a shard the thread gets a core, as nice(1) has it: who asks without end takes none from clients.
pub(crate) const NICENESS: i32 = 10;

/// Ports that are tried where any will do that is free at two addresses.
const FREE_PORTS_TRIED: usize = 16;

/// Addresses that are listened on, with nobody there yet; at least one.
pub(crate) struct Listening {
    sockets: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct NotListening {
    /// Which one.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// What a server has for who connects.
pub(crate) struct Pages {
    /// For those it has a place for,
    pub(crate) pages: Router,
    /// and for those it has none for: by what they hear when to come again.
    pub(crate) come_again: Router,
}

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    addresses: Vec<SocketAddr>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Listens. Port 0 takes a free one.
    pub(crate) fn on(address: SocketAddr) -> Result<Self, NotListening> {
        let listen = || {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Listening { sockets: vec![socket], addresses: vec![address] })
        };
        listen().map_err(|cause| NotListening { address, cause })
    }

    /// Listens on this port of both loopback addresses, so that nobody else answers for `localhost` at the other one: browsers try ::1 first. Where the
    /// machine has no ::1, on that of 127.0.0.1.
    pub(crate) fn on_loopback(port: u16) -> Result<Self, NotListening> {
        let mut tried = 1;
        loop {
            let mut listening = Listening::on((Ipv4Addr::LOCALHOST, port).into())?;
            match Listening::on((Ipv6Addr::LOCALHOST, listening.address().port()).into()) {
                Ok(other) => {
                    listening.sockets.extend(other.sockets);
                    listening.addresses.extend(other.addresses);
                    return Ok(listening);
                }
                Err(missing) if is_missing(&missing.cause) => return Ok(listening),
                Err(_) if port == 0 && tried < FREE_PORTS_TRIED => tried += 1,
                Err(taken) => return Err(taken),
            }
        }
    }

    /// The address, the first where there are two, which is for this machine alone where it is a loopback address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }
}

/// True where the machine has no such address.
fn is_missing(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::AddrNotAvailable
        || cause.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

impl Pages {
    /// With a line of text for those it has no place for.
    pub(crate) fn of(pages: Router) -> Self {
        Pages { pages, come_again: Router::new().fallback(come_again) }
    }
}

async fn come_again() -> (StatusCode, [(HeaderName, HeaderValue); 1], &'static str) {
    let second = [(RETRY_AFTER, HeaderValue::from_static("1"))];
    (StatusCode::SERVICE_UNAVAILABLE, second, "too many ask at once; come again in a second\n")
}

impl Server {
    /// Answers who connects by `pages`, and tells `not_accepted` of who could not.
    pub(crate) fn start(
        name: &str,
        listening: Listening,
        pages: Pages,
        not_accepted: fn(&io::Error),
    ) -> io::Result<Self> {
        let Listening { sockets, addresses } = listening;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Where that is not allowed it is a thread like others.
            let _ = rustix::process::nice(NICENESS);
            runtime.block_on(async {
                tokio::select! {
                    () = accept::serve(sockets, pages, Limits::of_this_process(), not_accepted) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Server { addresses, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
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
