//! The largest packet on each path to the server: between two machines with several links each may differ.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use client::{Connected, LocalInterface};
use futures_util::future::join_all;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use tokio::net::UdpSocket;
use tokio::time::sleep;

use super::facts::{LOOPBACK, Path};
use super::{segments, server};

/// Paths that are looked at.
const PATHS_MAX: usize = 32;
/// Datagrams of full size that are sent to find the largest packet, and how long routers have to complain about each.
const PROBES: usize = 3;
const COMPLAINT_TIME: Duration = Duration::from_millis(100);
/// What IP and UDP take of a packet.
const HEADERS_V4: u32 = 28;
const HEADERS_V6: u32 = 48;

/// Looks at the paths that channels go outside of this machine, each once, all at the same time.
pub(super) async fn of(connected: &Connected, locals: &[LocalInterface]) -> Vec<Path> {
    let mut ends: Vec<(&str, IpAddr, SocketAddr)> = Vec::new();
    for channel in &connected.channels {
        let Some(interface) = server::leaves_by(channel, locals).filter(|name| *name != LOOPBACK) else { continue };
        let end = (interface, channel.local, channel.remote);
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    ends.truncate(PATHS_MAX);
    join_all(ends.into_iter().map(|(interface, from, to)| async move {
        let told = [path_mtu(from, to).await, segments::packet_bytes(from, to).await];
        Path { interface: interface.to_owned(), address: to.ip(), packet_bytes: told.into_iter().flatten().min() }
    }))
    .await
}

/// The largest packet that gets to an address whole, as far as routers tell: datagrams of full size that must not be cut are sent, and
/// who cannot pass them on complains.
async fn path_mtu(from: IpAddr, to: SocketAddr) -> Option<u32> {
    let socket = UdpSocket::bind((from, 0)).await.ok()?;
    socket.connect(to).await.ok()?;
    let (now, headers): (fn(&UdpSocket) -> Option<u32>, u32) = match to {
        SocketAddr::V4(_) => {
            set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).ok()?;
            (|socket| ip_mtu(socket).ok(), HEADERS_V4)
        }
        SocketAddr::V6(_) => {
            set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO).ok()?;
            (|socket| ipv6_mtu(socket).ok(), HEADERS_V6)
        }
    };
    for _ in 0..PROBES {
        let bytes = now(&socket)?.saturating_sub(headers).min(u32::from(u16::MAX) - headers);
        // That nobody listens there, and that it is too long for the way, are both answers.
        let _ = socket.send(&vec![0; bytes as usize]).await;
        sleep(COMPLAINT_TIME).await;
    }
    now(&socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_path_to_this_machine_takes_large_packets() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert!(path_mtu(address.ip(), address).await.unwrap() > 9000);
    }
}
