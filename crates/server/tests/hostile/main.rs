//! Clients that break the rules, over real sockets: each is answered with the right status or loses its connection, and nobody
//! else notices.

mod channels;
mod compound;
mod create;
mod credits;
mod data;
mod deaf;
mod failing;
mod framing;
#[allow(dead_code)]
#[path = "../../src/tests/kit/mod.rs"]
mod kit;
mod links;
mod negotiate;
mod peer;
mod random;
mod setup;
mod transform;
mod validate;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use server::admin::{self, Configuration};
use server::{Config, Server};
use store::RamStore;

use crate::peer::Peer;

/// Serves one RAM disk, lets `test` do its worst, and sees whether a client from before and a new one still work.
fn served(test: impl FnOnce(SocketAddr)) {
    let server = start(2, configuration());
    let address = server.addresses()[0];
    let mut bystander = Peer::signed_in(address);
    bystander.write_and_read_back("bystander");
    test(address);
    bystander.write_and_read_back("bystander");
    Peer::signed_in(address).write_and_read_back("new");
    drop(bystander);
    server.stop(Duration::ZERO);
}

/// A server on a free port.
fn start(shards: usize, configuration: Configuration) -> Server {
    let config = Config { listen: vec![([127, 0, 0, 1], 0).into()], shards, opens: None, metadata_cache_bytes: None };
    Server::start(&config, configuration).unwrap()
}

fn configuration() -> Configuration {
    kit::configuration::configuration(Arc::new(RamStore::new(64 << 20)))
}
