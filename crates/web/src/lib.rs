//! What is told by HTTP: metrics for Prometheus, whether the server lives and serves, and a page for operators.
//!
//! It runs on threads of its own and never on a shard: one for HTTP, one that reads the counters for all who wait for them, and one that asks the
//! shards whether they go on.

mod flight;
mod health;
mod http;
mod metrics;
mod page;
mod push;
mod source;
mod text;

use std::io;
use std::net::SocketAddr;

use crate::http::{Listening, Pages, Server};
use crate::metrics::Audience;
use crate::source::Stages;
use tracing::warn;

pub use crate::http::NotListening;
pub use crate::page::{Page, PageAt, PageSource, PathOf};
pub use crate::push::{Collector, NoCollector, Push};
pub use crate::source::Source;

/// The running endpoint. It ends when this is dropped.
pub struct Metrics {
    stages: Stages,
    server: Server,
}

impl Metrics {
    /// Listens, and says that the server starts. Port 0 takes a free one. Fails where the address cannot be had, or no thread.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let stages = Stages::default();
        let listening = Listening::on(address).map_err(|failed| failed.cause)?;
        let audience = if control::is_for_machine(listening.address()) { Audience::Machine } else { Audience::Network };
        let pages = Pages::of(metrics::pages(&stages, audience)?);
        let server = Server::start("metrics-http", listening, pages, not_accepted)?;
        Ok(Metrics { stages, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    /// The server serves from now on, and is told of.
    pub fn serve(&self, source: Source) {
        self.stages.serve(source);
    }

    /// The server was told to end. It is told of until this is dropped.
    pub fn end(&self) {
        self.stages.end();
    }
}

fn not_accepted(cause: &io::Error) {
    warn!(name: "metrics_accept_failed", error = %cause, "a connection for metrics was not taken");
}
