//! What the kernel's table of TCP sockets tells of one of ours (sock_diag(7), inet_diag).

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// NLMSG_ERROR.
const ERROR: u16 = 2;
/// NLM_F_REQUEST.
const REQUEST: u16 = 1;
const TCP: u8 = 6;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// Where idiag_wqueue stands in an answer.
const UNACKNOWLEDGED_AT: usize = HEADER_BYTES + 60;

/// Bytes that the socket between `local` and `peer` has been given to send and that are not acknowledged, sent or not. Asked in the network
/// namespace of the calling thread; an error where the kernel was built without the table, or the socket is gone.
pub(crate) fn unacknowledged(local: SocketAddr, peer: SocketAddr) -> io::Result<u64> {
    let asked = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&asked, &request(local, peer), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 512];
    // The kernel has answered when it has taken the request.
    let (received, _) = recv(&asked, &mut answer[..], RecvFlags::DONTWAIT)?;
    read(answer.get(..received).unwrap_or_default())
}

/// One exact socket: struct nlmsghdr, struct inet_diag_req_v2.
fn request(local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let scope = match local {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[family.as_raw() as u8, TCP, 0, 0]);
    // In whatever state it is.
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&local.port().to_be_bytes());
    bytes.extend_from_slice(&peer.port().to_be_bytes());
    bytes.extend_from_slice(&sixteen(local.ip()));
    bytes.extend_from_slice(&sixteen(peer.ip()));
    bytes.extend_from_slice(&scope.to_ne_bytes());
    // INET_DIAG_NOCOOKIE: known by its addresses alone.
    bytes.extend_from_slice(&[0xFF; 8]);
    bytes
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn read(answer: &[u8]) -> io::Result<u64> {
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_ne_bytes(*bytes));
    let number =
        |at: usize| answer.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_ne_bytes(*bytes));
    match kind {
        Some(BY_FAMILY) => number(UNACKNOWLEDGED_AT).map(u64::from),
        Some(ERROR) => {
            let code = number(HEADER_BYTES).map_or(0, |code| (code as i32).wrapping_neg());
            return Err(io::Error::from_raw_os_error(code));
        }
        Some(_) | None => None,
    }
    .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a connection to `host`.
    fn pair(host: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let theirs = TcpStream::connect(("127.0.0.1", listener.local_addr().unwrap().port())).unwrap();
        (listener.accept().unwrap().0, theirs)
    }

    fn told(stream: &TcpStream) -> io::Result<u64> {
        unacknowledged(stream.local_addr()?, stream.peer_addr()?)
    }

    #[test]
    fn what_the_peer_has_no_room_for_is_unacknowledged() {
        // The second takes IPv4 connections too and gives their addresses as IPv6 ones.
        for host in ["127.0.0.1", "::"] {
            let (mut ours, mut theirs) = pair(host);
            assert_eq!(told(&ours).unwrap(), 0);
            ours.set_nonblocking(true).unwrap();
            let mut written = 0;
            while let Ok(count) = ours.write(&[0; 65_536]) {
                written += count;
            }
            let unacknowledged = told(&ours).unwrap();
            assert!((1..=written as u64).contains(&unacknowledged), "{unacknowledged} of {written}");
            theirs.read_exact(&mut vec![0; written]).unwrap();
            while told(&ours).unwrap() > 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn of_a_socket_that_is_not_there_nothing_is_told() {
        let (ours, theirs) = pair("127.0.0.1");
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(unacknowledged(ours.local_addr().unwrap(), nobody).is_err());
        drop(theirs);
        assert!(read(&[]).is_err() && read(&[0; 16]).is_err());
    }
}
