//! One connection of a session, and how much it has to do.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::guard::Guard;
use crate::handshake::Identity;
use crate::loss::Loss;
use crate::message::{Answer, Request};

/// What a request costs beside the data it moves: small ones count, too.
const REQUEST_COST: u64 = 4 << 10;

/// A channel: a connection that has the session (MS-SMB2 3.2.1.8).
pub(crate) struct Channel {
    pub(crate) connection: Connection,
    /// Signs with the channel's own key.
    pub(crate) signed: Guard,
    /// `None` where the session has no cipher.
    pub(crate) sealed: Option<Guard>,
    pub(crate) local: IpAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) since: Instant,
    /// Bytes that requests in flight move, and their cost.
    work: AtomicU64,
    answered: AtomicU64,
    used: Mutex<Used>,
}

/// When a channel was last seen at work.
struct Used {
    at: Instant,
    answered: u64,
}

/// A channel as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// This end's address.
    pub local: IpAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Requests without an answer.
    pub outstanding: usize,
    /// Requests answered.
    pub requests: u64,
    /// Credits at hand and in use.
    pub credits: usize,
    /// Seconds since it is there.
    pub seconds_exists: u64,
}

impl Channel {
    pub(crate) fn new(connection: Connection, identity: &Identity, signed: Guard, at: (IpAddr, SocketAddr)) -> Self {
        let sealed = identity.seals.clone().map(Guard::Sealed);
        let (local, remote) = at;
        let now = Instant::now();
        Channel {
            connection,
            signed,
            sealed,
            local,
            remote,
            since: now,
            work: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            used: Mutex::new(Used { at: now, answered: 0 }),
        }
    }

    /// Sends a request that moves so many bytes, and waits for its answer.
    pub(crate) async fn ask(&self, request: &Request<'_>, bytes: usize) -> Result<Answer, Loss> {
        let _task = Task::begin(self, bytes);
        let answer = self.connection.ask(request).await?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }

    /// Bytes that it has yet to move.
    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// How long it has had nothing to do, as far as whoever asks this now and then can see.
    pub(crate) fn idle(&self) -> Duration {
        let mut used = self.used.lock();
        let (now, answered) = (Instant::now(), self.answered.load(Ordering::Relaxed));
        if self.work() > 0 || answered != used.answered {
            *used = Used { at: now, answered };
        }
        now.duration_since(used.at)
    }

    /// What users see of it.
    pub(crate) fn counters(&self) -> Counters {
        let (received_bytes, sent_bytes) = self.connection.bytes();
        Counters {
            local: self.local,
            remote: self.remote,
            received_bytes,
            sent_bytes,
            outstanding: self.connection.in_flight(),
            requests: self.answered.load(Ordering::Relaxed),
            credits: self.connection.credits(),
            seconds_exists: self.since.elapsed().as_secs(),
        }
    }
}

/// A request that counts as work until it is over, or given up.
struct Task<'a> {
    channel: &'a Channel,
    cost: u64,
}

impl<'a> Task<'a> {
    fn begin(channel: &'a Channel, bytes: usize) -> Self {
        let cost = bytes as u64 + REQUEST_COST;
        channel.work.fetch_add(cost, Ordering::Relaxed);
        Task { channel, cost }
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        self.channel.work.fetch_sub(self.cost, Ordering::Relaxed);
    }
}
