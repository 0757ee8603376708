//! Whether a server has gone.
//!
//! The client looks for a lost server for as long as its session's time-out says, so that what is open survives a restart. A load whose
//! server refuses every connection for longer than a restart takes is over before that.

use std::io::ErrorKind;
use std::time::Duration;

use client::{Session, Target};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::Failure;

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a connection may take: one that is refused is refused at once.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a server that has no channel left may refuse connections. A server that is started again takes less.
const REFUSED_MAX: Duration = Duration::from_secs(5);

/// Comes back when a session has no channel and its server has refused all connections for a while.
pub(super) async fn of(session: &Session, server: &Target) -> Failure {
    let mut refused = Refused::default();
    loop {
        sleep(LOOK_EVERY).await;
        let is_refused = session.connected().channels.is_empty() && refuses(server).await;
        if refused.for_too_long(is_refused, Instant::now()) {
            return Failure {
                what: format!(
                    "the server is gone: {}:{} has refused every connection for {} s",
                    server.host,
                    server.port,
                    REFUSED_MAX.as_secs()
                ),
                remedy: "start the server, see why it ended, and run again".to_owned(),
            };
        }
    }
}

async fn refuses(server: &Target) -> bool {
    let connected = timeout(CONNECT_MAX, TcpStream::connect((server.host.as_str(), server.port))).await;
    matches!(connected, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

/// Since when it goes on.
#[derive(Default)]
struct Refused {
    since: Option<Instant>,
}

impl Refused {
    fn for_too_long(&mut self, is_refused: bool, now: Instant) -> bool {
        self.since = is_refused.then(|| self.since.unwrap_or(now));
        self.since.is_some_and(|since| now - since >= REFUSED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_without_a_break_are_too_long() {
        let start = Instant::now();
        let mut refused = Refused::default();
        let mut look = |is_refused, seconds| refused.for_too_long(is_refused, start + Duration::from_secs(seconds));
        assert!(!look(true, 0) && !look(true, 4));
        assert!(!look(false, 5), "it is there again");
        assert!(!look(true, 6) && !look(true, 10));
        assert!(look(true, 11));
    }
}
