//! The raw limit: what plain TCP moves between the same two hosts when nothing is done with the bytes.
//!
//! One end, [`serve`], is a process of its own; the other, [`measure`], has a thread for each connection. They exchange messages of the
//! lengths that READ and WRITE have, and batch as the server does: all requests that one receive brought are answered with one send, and
//! all answers that one receive brought are followed by as many requests in one send. No SMB server on this machine can be faster.

mod far;
mod near;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

pub use self::far::serve;
pub use self::near::measure;

/// The most connections at once.
pub const CONNECTIONS_MAX: usize = 64;
/// The most requests in flight on one connection: so few that their smaller halves fit into a socket's buffer, and nobody waits for
/// somebody who waits.
pub const IN_FLIGHT_MAX: u32 = 1024;
/// The most bytes of a block, as in SMB.
pub const BLOCK_BYTES_MAX: u32 = 8 << 20;
/// What is received or sent at once, at most: as much as the caches hold.
const PIECE_BYTES: usize = 1 << 20;
/// The least that a receive has room for.
const PIECE_BYTES_MIN: usize = 64 << 10;

/// Lengths on the wire, with the 4 bytes before each message, without data: MS-SMB2 2.2.19 to 2.2.22.
const READ_REQUEST_BYTES: u32 = 4 + 64 + 49;
const READ_RESPONSE_BYTES: u32 = 4 + 64 + 16;
const WRITE_REQUEST_BYTES: u32 = 4 + 64 + 48;
const WRITE_RESPONSE_BYTES: u32 = 4 + 64 + 16;

/// Which way the blocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the near end.
    Read,
    /// To the far end.
    Write,
}

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which way.
    pub direction: Direction,
    /// Bytes of a block, at most [`BLOCK_BYTES_MAX`].
    pub block_bytes: u32,
    /// Requests in flight over all connections, shared out evenly; at least one each, at most [`IN_FLIGHT_MAX`].
    pub in_flight: u32,
    /// Connections, 1 to [`CONNECTIONS_MAX`].
    pub connections: usize,
}

/// What was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Blocks a second.
    pub iops: f64,
    /// MiB of blocks a second.
    pub mibps: f64,
}

impl Shape {
    /// Why it cannot be, in a sentence.
    fn refused(&self, far: &[SocketAddr]) -> Option<String> {
        if far.is_empty() {
            return Some("the far end needs an address".to_owned());
        }
        if !(1..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            return Some(format!("a block has 1 to {BLOCK_BYTES_MAX} bytes, not {}", self.block_bytes));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Some(format!("there may be 1 to {CONNECTIONS_MAX} connections, not {}", self.connections));
        }
        None
    }

    fn messages(&self) -> Messages {
        let block = self.block_bytes;
        let (request_bytes, answer_bytes) = match self.direction {
            Direction::Read => (READ_REQUEST_BYTES, READ_RESPONSE_BYTES + block),
            Direction::Write => (WRITE_REQUEST_BYTES + block, WRITE_RESPONSE_BYTES),
        };
        Messages { request_bytes, answer_bytes }
    }

    /// Of connection number `at`, from 0.
    fn in_flight_of(&self, at: usize) -> u32 {
        let (all, connections) = (self.in_flight, self.connections as u32);
        let share = all / connections + u32::from((at as u32) < all % connections);
        share.clamp(1, IN_FLIGHT_MAX)
    }
}

/// Lengths of what goes each way. The near end says them first, each as a big-endian `u32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Messages {
    request_bytes: u32,
    answer_bytes: u32,
}

impl Messages {
    const BYTES_MAX: u32 = BLOCK_BYTES_MAX + 1024;

    fn send(self, stream: &mut TcpStream) -> io::Result<()> {
        let mut bytes = [0; 8];
        let (request, answer) = bytes.split_at_mut(4);
        request.copy_from_slice(&self.request_bytes.to_be_bytes());
        answer.copy_from_slice(&self.answer_bytes.to_be_bytes());
        stream.write_all(&bytes)
    }

    fn receive(stream: &mut TcpStream) -> io::Result<Self> {
        let mut length = || -> io::Result<u32> {
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes)?;
            match u32::from_be_bytes(bytes) {
                length @ 1..=Self::BYTES_MAX => Ok(length),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        Ok(Messages { request_bytes: length()?, answer_bytes: length()? })
    }
}

/// Counts whole messages of one length in a stream of bytes.
#[derive(Debug)]
struct Counter {
    message_bytes: u64,
    /// Of the message that has begun.
    begun: u64,
}

impl Counter {
    fn new(message_bytes: u32) -> Self {
        Counter { message_bytes: u64::from(message_bytes), begun: 0 }
    }

    /// Messages that these bytes completed.
    fn take(&mut self, bytes: usize) -> u64 {
        let all = self.begun + bytes as u64;
        self.begun = all % self.message_bytes;
        all / self.message_bytes
    }
}

/// Sends `count` messages of a length. What is in them is what is in `piece`, over and over.
fn send(stream: &mut TcpStream, piece: &[u8], count: u64, message_bytes: u32) -> io::Result<()> {
    let mut left = count * u64::from(message_bytes);
    while left > 0 {
        let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stream.write_all(piece.get(..now).unwrap_or(piece))?;
        left -= now as u64;
    }
    Ok(())
}

/// Room to receive, or bytes to send, `in_flight` messages at once.
fn piece(message_bytes: u32, in_flight: u32) -> Vec<u8> {
    let wanted = (message_bytes as usize).saturating_mul(in_flight as usize);
    vec![0x5a; wanted.clamp(PIECE_BYTES_MIN, PIECE_BYTES)]
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn far_end() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        // It goes on until the process ends.
        thread::spawn(move || serve(&listener));
        address
    }

    #[test]
    fn blocks_go_both_ways_over_several_connections() {
        let far = far_end();
        for direction in [Direction::Read, Direction::Write] {
            for (block_bytes, in_flight, connections) in [(4096, 16, 1), (1 << 20, 3, 2), (512, 1, 4), (100, 5000, 2)] {
                let shape = Shape { direction, block_bytes, in_flight, connections };
                let reached = measure(far, shape, Duration::ZERO, Duration::from_millis(50)).unwrap();
                assert!(reached.iops > 0.0, "{shape:?}");
                let mibps = reached.iops * f64::from(block_bytes) / f64::from(1 << 20);
                assert!((reached.mibps - mibps).abs() < 1e-6 * mibps, "{reached:?}");
            }
        }
    }

    #[test]
    fn shapes_without_bounds_are_refused() {
        let shape = Shape { direction: Direction::Read, block_bytes: 4096, in_flight: 1, connections: 1 };
        let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
        for wrong in [
            Shape { block_bytes: 0, ..shape },
            Shape { block_bytes: BLOCK_BYTES_MAX + 1, ..shape },
            Shape { connections: 0, ..shape },
            Shape { connections: CONNECTIONS_MAX + 1, ..shape },
        ] {
            let error = measure(nowhere, wrong, Duration::ZERO, Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
        }
        let error = measure(&[][..], shape, Duration::ZERO, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_far_end_hangs_up_on_lengths_that_cannot_be() {
        let mut stream = TcpStream::connect(far_end()).unwrap();
        stream.write_all(&[0xff; 8]).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
    }

    #[test]
    fn requests_in_flight_are_shared_out() {
        let shape = Shape { direction: Direction::Read, block_bytes: 1, in_flight: 10, connections: 4 };
        let shares: Vec<u32> = (0..4).map(|at| shape.in_flight_of(at)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
        assert_eq!(Shape { in_flight: 0, ..shape }.in_flight_of(3), 1);
    }

    #[test]
    fn messages_are_counted_however_they_arrive() {
        let mut counter = Counter::new(10);
        let counted: Vec<u64> = [3, 7, 25, 0, 5].into_iter().map(|bytes| counter.take(bytes)).collect();
        assert_eq!(counted, [0, 1, 2, 0, 1]);
    }
}
