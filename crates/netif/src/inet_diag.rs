//! What the kernel's table of TCP sockets tells of one of ours (sock_diag(7), inet_diag).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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
/// Where attributes follow the struct inet_diag_msg.
const ATTRIBUTES_AT: usize = HEADER_BYTES + 72;
/// INET_DIAG_INFO: an attribute with a struct tcp_info.
const INFO: u16 = 2;
/// What idiag_ext says that the attribute is wanted by.
const WANT_INFO: u8 = 1 << (INFO - 1);
/// The longest answer with what is asked for here.
const ANSWER_BYTES: usize = 1024;

/// How the connection of a socket is doing (struct tcp_info).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// The time from sending something until it is acknowledged, smoothed.
    pub round_trip: Duration,
    /// The shortest one of the last minutes; zero where none is known.
    pub round_trip_min: Duration,
    /// How long it has had something sent that was not acknowledged, since it began; zero before Linux 4.10.
    pub busy: Duration,
    /// How often in a row what is sent again, or whether the peer is still there, was not answered.
    pub unanswered: u32,
}

/// Bytes that the socket between `local` and `peer` has been given to send and that are not acknowledged, sent or not. Asked in the network
/// namespace of the calling thread; an error where the kernel was built without the table, or the socket is gone.
pub fn unacknowledged(local: SocketAddr, peer: SocketAddr) -> io::Result<u64> {
    read_unacknowledged(&ask(local, peer, 0)?)
}

/// How the connection between `local` and `peer` is doing, asked in the same way.
pub fn tcp_state(local: SocketAddr, peer: SocketAddr) -> io::Result<TcpState> {
    read_state(&ask(local, peer, WANT_INFO)?)
}

fn ask(local: SocketAddr, peer: SocketAddr, wanted: u8) -> io::Result<Vec<u8>> {
    let asked = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&asked, &request(local, peer, wanted), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = vec![0; ANSWER_BYTES];
    // The kernel has answered when it has taken the request.
    let (received, _) = recv(&asked, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(received);
    Ok(answer)
}

/// One exact socket: struct nlmsghdr, struct inet_diag_req_v2.
fn request(local: SocketAddr, peer: SocketAddr, wanted: u8) -> Vec<u8> {
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
    bytes.extend_from_slice(&[family.as_raw() as u8, TCP, wanted, 0]);
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

fn read_unacknowledged(answer: &[u8]) -> io::Result<u64> {
    check(answer)?;
    number(answer, UNACKNOWLEDGED_AT).map(u64::from).ok_or_else(malformed)
}

fn read_state(answer: &[u8]) -> io::Result<TcpState> {
    check(answer)?;
    let info = attribute(answer.get(ATTRIBUTES_AT..).ok_or_else(malformed)?, INFO).ok_or_else(malformed)?;
    let micros = |micros: Option<u64>| micros.map(Duration::from_micros);
    // tcpi_retransmits, tcpi_probes and tcpi_backoff.
    let unanswered = info.get(2..5).ok_or_else(malformed)?.iter().max().copied();
    Ok(TcpState {
        round_trip: micros(number(info, 68).map(u64::from)).ok_or_else(malformed)?,
        round_trip_min: micros(number(info, 148).filter(|micros| *micros != u32::MAX).map(u64::from))
            .unwrap_or_default(),
        busy: micros(long_number(info, 168)).unwrap_or_default(),
        unanswered: unanswered.map_or(0, u32::from),
    })
}

/// An error where the kernel says that there was one, or something else.
fn check(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_ne_bytes(*bytes));
    match kind {
        Some(BY_FAMILY) => Ok(()),
        Some(ERROR) => {
            let code = number(answer, HEADER_BYTES).map_or(0, |code| (code as i32).wrapping_neg());
            Err(io::Error::from_raw_os_error(code))
        }
        Some(_) | None => Err(malformed()),
    }
}

/// What an attribute holds, of those that follow each other in `attributes` (struct nlattr): its length with these four bytes, its type.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (head, _) = attributes.split_first_chunk::<4>()?;
        let [length, kind] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_ne_bytes);
        let value = attributes.get(4..usize::from(length))?;
        if kind == wanted {
            return Some(value);
        }
        // The next one begins at a multiple of four.
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_ne_bytes(*bytes))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_ne_bytes(*bytes))
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
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
        assert!(read_unacknowledged(&[]).is_err() && read_unacknowledged(&[0; 16]).is_err());
    }

    #[test]
    fn a_connection_that_moves_bytes_has_a_round_trip_and_was_busy() {
        let (mut ours, mut theirs) = pair("127.0.0.1");
        let state = || tcp_state(ours.local_addr().unwrap(), ours.peer_addr().unwrap()).unwrap();
        (&ours).write_all(&[1; 1000]).unwrap();
        theirs.read_exact(&mut [0; 1000]).unwrap();
        while told(&ours).unwrap() > 0 {
            std::thread::yield_now();
        }
        assert!(state().round_trip > Duration::ZERO && state().round_trip < Duration::from_secs(60), "{:?}", state());
        assert_eq!(state().unanswered, 0);
        ours.flush().unwrap();
    }

    #[test]
    fn attributes_are_found_by_their_type_and_malformed_ones_are_refused() {
        let bytes = [&[6u8, 0, 1, 0, 7, 7, 0, 0][..], &[8, 0, 2, 0, 1, 2, 3, 4]].concat();
        let bytes = if cfg!(target_endian = "little") { bytes } else { return };
        assert_eq!(attribute(&bytes, 2), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&bytes, 3), None);
        for length in 0..bytes.len() {
            assert_eq!(attribute(&bytes[..length], 2), None, "{length}");
        }
        // One that would end before it begins.
        assert_eq!(attribute(&[0, 0, 1, 0, 0, 0, 0, 0], 2), None);
        let mut answer = vec![0; ATTRIBUTES_AT];
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert!(read_state(&answer).is_err() && read_state(&answer[..20]).is_err());
    }
}
