//! Whether a server has gone.
//!
//! The client looks for a lost server for as long as its session's time-out says, so that what is open survives a restart. A load has no
//! use for that: what it measures while nobody answers is nothing. It is over once its server refuses every connection for longer than a
//! restart takes, or says nothing at all for longer than a cut on the way lasts.

use std::io::ErrorKind;
use std::time::Duration;

use client::{Connected, Session, Target};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::{Failure, Mount};

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a connection may take: one that is refused is refused at once.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a server that has no channel left may refuse connections. A server that is started again takes less.
const REFUSED_MAX: Duration = Duration::from_secs(5);
/// The part of a session's time-out that its server may say nothing in: 20 s of the usual 60. TCP sends again 12.6 s after a cut began, so
/// that one of ten seconds is survived.
const SILENT_PART: u32 = 3;
/// It is no less than this.
const SILENT_MIN: Duration = Duration::from_secs(10);

/// Comes back when a session has no channel and its server has refused all connections for a while, or when nothing was heard from the
/// server for a while although it was asked. The client asks a server that is slow to answer whether it is there, so that one that
/// works on a request for long is heard.
pub(super) async fn of(session: &Session, Mount { server, settings, .. }: &Mount) -> Failure {
    let silent_max = (settings.session_timeout / SILENT_PART).max(SILENT_MIN);
    let (mut refused, mut silent, mut heard) = (Spell::default(), Spell::default(), Heard::default());
    loop {
        sleep(LOOK_EVERY).await;
        let connected = session.connected();
        let is_silent = heard.nothing_new(&connected);
        let is_refused = connected.channels.is_empty() && refuses(server).await;
        let now = Instant::now();
        if refused.lasts(is_refused, now) >= REFUSED_MAX {
            return gone(server, &format!("has refused every connection for {} s", REFUSED_MAX.as_secs()));
        }
        if silent.lasts(is_silent, now) >= silent_max {
            return gone(server, &format!("has not said anything for {} s", silent_max.as_secs()));
        }
    }
}

fn gone(server: &Target, what: &str) -> Failure {
    Failure {
        what: format!("the server is gone: {}:{} {what}", server.host, server.port),
        remedy: "see that the server runs and can be reached, and run again".to_owned(),
    }
}

async fn refuses(server: &Target) -> bool {
    let connected = timeout(CONNECT_MAX, TcpStream::connect((server.host.as_str(), server.port))).await;
    matches!(connected, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

/// What was received by the last look.
#[derive(Default)]
struct Heard {
    bytes: u64,
}

impl Heard {
    /// True where the server owes answers, or a connection, and nothing has come since the last look.
    fn nothing_new(&mut self, connected: &Connected) -> bool {
        let bytes = connected.channels.iter().map(|channel| channel.received_bytes).sum();
        // Less is left where channels are lost: that is no news.
        let is_new = bytes > self.bytes;
        self.bytes = bytes;
        let is_owed = connected.channels.is_empty() || connected.channels.iter().any(|channel| channel.outstanding > 0);
        is_owed && !is_new
    }
}

/// Since when something goes on.
#[derive(Default)]
struct Spell {
    since: Option<Instant>,
}

impl Spell {
    /// How long it has gone on without a break.
    fn lasts(&mut self, goes_on: bool, now: Instant) -> Duration {
        self.since = goes_on.then(|| self.since.unwrap_or(now));
        self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use client::Counters;

    use super::*;

    #[test]
    fn only_what_goes_on_without_a_break_lasts() {
        let start = Instant::now();
        let mut spell = Spell::default();
        let mut look = |goes_on, seconds| spell.lasts(goes_on, start + Duration::from_secs(seconds)).as_secs();
        assert_eq!([look(true, 0), look(true, 4)], [0, 4]);
        assert_eq!(look(false, 5), 0, "it is there again");
        assert_eq!([look(true, 6), look(true, 11)], [0, 5]);
    }

    #[test]
    fn silence_is_an_answer_that_is_owed_and_does_not_come() {
        let channel = |received_bytes, outstanding| Counters {
            local: [10, 0, 0, 2].into(),
            remote: ([10, 0, 0, 1], 445).into(),
            received_bytes,
            sent_bytes: 0,
            outstanding,
            requests: 0,
            credits: 1,
            seconds_exists: 0,
        };
        let mut heard = Heard::default();
        let mut look = |channels: &[(u64, usize)]| {
            let channels = channels.iter().map(|(received, outstanding)| channel(*received, *outstanding)).collect();
            let server = "nas".to_owned();
            heard.nothing_new(&Connected { server, channels, pairs: Vec::new(), failure_count: 0, is_sealed: false })
        };
        assert!(!look(&[(500, 8), (100, 0)]), "the first answers");
        assert!(!look(&[(500, 0), (100, 0)]), "nothing was asked");
        assert!(look(&[(500, 8), (100, 0)]), "asked, and not answered");
        assert!(!look(&[(500, 8), (160, 0)]), "the other channel's ECHO was answered");
        assert!(look(&[(160, 8)]) && look(&[]), "channels that are lost are no answer");
        assert!(!look(&[(90, 8)]), "it is there again");
    }
}
