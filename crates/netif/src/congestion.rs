//! Pacing, and connections that do without.
//!
//! A congestion control that paces (BBR) sends each 64 KiB when a timer of the connection says so, to keep the queues on the way short.
//! Within a machine there is no way: the timers only cost, more than the data where the machine is virtual. A connection that never
//! leaves the machine is therefore not paced; every other one is as the machine's administrator has it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::net::{SocketAddrAny, getpeername, getsockname};

/// Does not pace; every kernel has it and lets everybody choose it.
const UNPACED: &str = "reno";

/// What paced a socket before that was lifted.
#[derive(Debug)]
pub struct Pacing {
    usual: Option<String>,
}

impl Pacing {
    /// Lifts it from a socket that is to listen or to connect, and with it from all that it accepts: a connection that was paced once has
    /// its timers for good. [`Pacing::restore`] is owed to each connection that comes of it.
    pub fn lift(socket: impl AsFd) -> Pacing {
        Pacing::lift_where(socket, |name| name.starts_with("bbr"))
    }

    fn lift_where(socket: impl AsFd, paces: impl Fn(&str) -> bool) -> Pacing {
        let usual = tcp_congestion(&socket).ok().filter(|name| paces(name));
        let lifted = usual.is_some() && set(&socket, UNPACED);
        Pacing { usual: usual.filter(|_| lifted) }
    }

    /// Has a connection paced as usual that leaves the machine. To be called before anything is sent.
    pub fn restore(&self, connection: impl AsFd) {
        if let Some(usual) = &self.usual {
            let (local, peer) = (getsockname(&connection), getpeername(&connection));
            restore(usual, connection, local.ok().and_then(address), peer.ok().flatten().and_then(address));
        }
    }
}

fn restore(usual: &str, connection: impl AsFd, local: Option<IpAddr>, peer: Option<IpAddr>) {
    let stays = local.zip(peer).is_some_and(|(local, peer)| is_within_machine(local, peer));
    // A route may have brought a congestion control of its own.
    let is_lifted = || tcp_congestion(&connection).is_ok_and(|name| name == UNPACED);
    if !stays && is_lifted() {
        set(&connection, usual);
    }
}

fn set(socket: impl AsFd, name: &str) -> bool {
    set_tcp_congestion(socket, name)
        .inspect_err(|error| tracing::debug!(%error, name, "TCP_CONGESTION was not set"))
        .is_ok()
}

fn address(told: SocketAddrAny) -> Option<IpAddr> {
    SocketAddr::try_from(told).ok().map(|told| told.ip())
}

/// True for the two addresses of a connection that never leaves the machine.
pub fn is_within_machine(local: IpAddr, peer: IpAddr) -> bool {
    // A dual-stack listener sees IPv4 clients behind an IPv6 prefix.
    local == peer || peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection over loopback, as its server has it when what paces the listener was lifted.
    fn accepted(paces: impl Fn(&str) -> bool) -> (String, Pacing, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let usual = tcp_congestion(&listener).unwrap();
        let pacing = Pacing::lift_where(&listener, paces);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (usual, pacing, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_within_the_machine_is_not_paced() {
        let (_, pacing, stream) = accepted(|_| true);
        pacing.restore(&stream);
        assert_eq!(tcp_congestion(&stream).unwrap(), UNPACED);
    }

    #[test]
    fn a_connection_that_leaves_the_machine_is_paced_as_usual() {
        let (usual, pacing, stream) = accepted(|_| true);
        restore(pacing.usual.as_deref().unwrap(), &stream, "192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        assert_eq!(tcp_congestion(&stream).unwrap(), usual);
    }

    #[test]
    fn where_nothing_paces_nothing_is_changed() {
        let (usual, pacing, stream) = accepted(|_| false);
        assert_eq!(tcp_congestion(&stream).unwrap(), usual);
        assert!(pacing.usual.is_none());
    }

    #[test]
    fn an_address_of_the_machine_s_own_is_within_it() {
        let within = |local: &str, peer: &str| is_within_machine(local.parse().unwrap(), peer.parse().unwrap());
        assert!(within("127.0.0.1", "127.0.0.2") && within("::1", "::1") && within("192.0.2.1", "192.0.2.1"));
        assert!(within("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
        assert!(!within("192.0.2.1", "192.0.2.2") && !within("2001:db8::1", "2001:db8::2"));
    }
}
