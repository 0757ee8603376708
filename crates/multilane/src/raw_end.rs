//! `multilane raw-end`: the far end of the raw TCP loop that a comparison measures beside servers. Users have no need of it.

use std::net::{SocketAddr, TcpListener};

use control::Error;
use serde::Serialize;

use crate::output;

/// Where it listens, as it prints on one line once it does.
#[derive(Serialize)]
struct Ready {
    listen: SocketAddr,
}

/// Serves until the process is ended.
pub(crate) fn run(listen: SocketAddr) -> Result<(), Error> {
    let unable = |cause: std::io::Error| {
        Error::machine(format!("cannot listen on {listen}: {cause}"), "name an address of this machine and a free port")
    };
    let listener = TcpListener::bind(listen).map_err(unable)?;
    output::line(&Ready { listen: listener.local_addr().map_err(unable)? })?;
    Err(unable(load::raw::serve(&listener)))
}
