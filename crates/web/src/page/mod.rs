//! The page: how an operator watches and steers a running server in a browser. It is for this machine alone; what is asked of it is guarded here.

mod answer;
mod assets;
mod body;
mod counted;
mod guard;
mod list;
mod operations;
mod readings;
mod recent;
mod routes;
mod sessions;
mod shares;
mod sign_in;
mod slow;
mod source;
mod throttle;
mod worker;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use control::{KnownCatalog, is_for_machine};
use parking_lot::Mutex;
use tracing::warn;

use crate::flight::Flight;
use crate::http::{Listening, NotListening, Pages, Server};
use crate::page::readings::Readings;
use crate::page::recent::Recent;
use crate::page::sessions::Sessions;
use crate::page::sign_in::SignIn;
use crate::page::slow::Slow;
use crate::page::worker::{Priority, Worker};

pub use crate::page::source::{PageSource, PathOf};

/// The running page. It ends when this is dropped.
pub struct Page {
    /// There once the server serves.
    served: Arc<OnceLock<Served>>,
    server: Server,
}

/// A server that is shown, and who finds out, lets in and does things.
struct Served {
    source: Arc<PageSource>,
    readings: Flight<Readings>,
    slow: Flight<Slow>,
    /// Closing sessions and files, which waits for nothing,
    closing: Worker,
    /// and changes of the catalog, which may wait for other programs.
    changes: Worker,
    sign_in: SignIn,
    sessions: Arc<Mutex<Sessions>>,
}

/// Where a page is to be had: on this machine, and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAt {
    /// This port of 127.0.0.1 and, where the machine has it, of ::1. Port 0 takes one that is free at both.
    Loopback(u16),
    /// This address alone, which has to be a loopback address.
    Address(SocketAddr),
}

impl Page {
    /// Listens, and says that the server starts. Fails where the address is no loopback address, or one cannot be had.
    pub fn listen(place: PageAt) -> Result<Self, NotListening> {
        let listening = match place {
            PageAt::Loopback(port) => Listening::on_loopback(port)?,
            PageAt::Address(address) if is_for_machine(address) => Listening::on(address)?,
            PageAt::Address(address) => {
                let cause = io::Error::new(ErrorKind::InvalidInput, "the page is for this machine alone");
                return Err(NotListening { address, cause });
            }
        };
        let (served, address) = (Arc::<OnceLock<Served>>::default(), listening.address());
        let pages = Pages { pages: routes::all(&served, address.port()), come_again: routes::come_again() };
        let server = Server::start("page-http", listening, pages, not_accepted);
        let server = server.map_err(|cause| NotListening { address, cause })?;
        Ok(Page { served, server })
    }

    /// Where it listens: that which people are told is the first.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.server.addresses()
    }

    /// The server serves from now on, and is shown. Fails where there are no threads.
    pub fn serve(&self, source: PageSource) -> io::Result<()> {
        let served = Served::of(source)?;
        // There is one server.
        let _ = self.served.set(served);
        Ok(())
    }
}

impl Served {
    fn of(source: PageSource) -> io::Result<Self> {
        let (source, sessions) = (Arc::new(source), Arc::<Mutex<Sessions>>::default());
        let recent = Arc::new(Recent::start(Arc::clone(&source.admin))?);
        Ok(Served {
            readings: Flight::start("page-read", Readings { source: Arc::clone(&source), recent })?,
            slow: Flight::start("page-slow", Slow(Arc::clone(&source)))?,
            closing: Worker::start("page-close", Priority::Low)?,
            changes: Worker::start("page-change", Priority::Low)?,
            sign_in: SignIn::start(source.catalog.clone(), Arc::clone(&sessions))?,
            sessions,
            source,
        })
    }

    fn catalog(&self) -> &KnownCatalog {
        &self.source.catalog
    }
}

fn not_accepted(cause: &io::Error) {
    warn!(name: "page_accept_failed", error = %cause, "a connection for the page was not taken");
}
