//! Sockets that a service manager listens on and passes to the server: sd_listen_fds(3), systemd.socket(5).

use std::env;
use std::net::TcpListener;

use control::Error;
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

/// The first descriptor that is passed.
const FIRST: usize = 3;
/// The most sockets that a server takes: more than a machine has addresses worth naming one by one.
const SOCKETS_MAX: usize = 64;

/// The sockets that were passed to this process, which must all listen for TCP connections; none where nobody passed any. They are
/// taken once: no program that this one starts takes them for its own. To be called before threads begin.
pub(crate) fn passed() -> Result<Vec<TcpListener>, Error> {
    // Without the process's number they may have been meant for another one.
    let is_ours = env::var("LISTEN_PID").is_ok_and(|process| process == std::process::id().to_string());
    if !is_ours {
        return Ok(Vec::new());
    }
    let count = env::var("LISTEN_FDS").unwrap_or_default();
    if count.parse::<usize>().is_ok_and(|count| count > SOCKETS_MAX) {
        return Err(unfit(&format!("{count} sockets were passed to it, and it takes {SOCKETS_MAX}")));
    }
    let mut sockets = ListenFd::from_env();
    (0..sockets.len()).map(|index| listener(&mut sockets, index)).collect()
}

fn listener(sockets: &mut ListenFd, index: usize) -> Result<TcpListener, Error> {
    let socket = sockets.take_tcp_listener(index).ok().flatten();
    socket.filter(|socket| socket_acceptconn(socket).is_ok_and(|listens| listens)).ok_or_else(|| {
        unfit(&format!("descriptor {}, which was passed to it, is no socket that listens for TCP", FIRST + index))
    })
}

fn unfit(why: &str) -> Error {
    Error::machine(
        format!("the server did not start: {why}"),
        "have each ListenStream= of its socket unit name a port or an address and a port, with Accept=no, or leave the unit out \
         and use --listen ADDRESS:PORT",
    )
}
