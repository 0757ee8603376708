//! What is known of one share or session, and what it is judged by.

use std::collections::BTreeMap;
use std::time::Duration;

use server::admin::{BreakView, ChannelView, Counts, Delayed, InterfaceView, SessionView, ShareView};

/// Whom it is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// A share.
    Share(String),
    /// A session.
    Session {
        /// Its number.
        id: u64,
        /// Who signed in.
        user: String,
    },
}

/// All that is known of a share or session and of what is around it, for the last minute.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Whom it is about.
    pub about: About,
    /// The time that it covers.
    pub covers: Duration,
    /// Of that, the time in which requests came.
    pub active: Duration,
    /// When it ends.
    pub ends: TimeOfDay,
    /// What was done.
    pub counts: Counts,
    /// What others have done meanwhile: other shares where it is about a share, else other sessions.
    pub neighbours: Vec<Neighbour>,
    /// The share, or those that the session is connected to.
    pub shares: Vec<ShareFacts>,
    /// The session, or those that are connected to the share, busy ones alone.
    pub sessions: Vec<SessionFacts>,
    /// Who keeps others waiting on these shares, or did.
    pub breaks: Vec<Holder>,
    /// What clients are told of the server's addresses.
    pub interfaces: Vec<InterfaceView>,
    /// What each shard did of the active time; empty where that is not known.
    pub shards: Vec<Shard>,
    /// What the other threads had of the cores meanwhile.
    pub cores: Cores,
    /// Nanoseconds that signing or sealing a byte takes, by the algorithm's name.
    pub protection: BTreeMap<String, f64>,
}

/// Who keeps others waiting, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// As it was seen last.
    pub view: BreakView,
    /// How long ago that was, of one that does no more.
    pub seen_ago: Option<Duration>,
}

/// What the threads that wait for stores had of the cores, in the time in which requests came.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cores {
    /// That time, in seconds.
    pub passed: f64,
    /// Seconds in which they ran, all together,
    pub pool_ran: f64,
    /// and in which they would have, and waited for a core.
    pub pool_waited: f64,
    /// The most of them that did something between two looks.
    pub pool_threads: usize,
    /// How often a limit of processor time has stopped the server,
    pub throttled_times: u64,
    /// and for how many seconds, of all cores together.
    pub throttled: f64,
}

/// What a shard did, as parts of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shard {
    /// It ran.
    pub ran: f64,
    /// It had work, and no core: other programs had them.
    pub waited: f64,
}

impl Shard {
    /// It had work.
    pub fn busy(&self) -> f64 {
        (self.ran + self.waited).min(1.0)
    }
}

/// Somebody else.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Who.
    pub who: About,
    /// What was done.
    pub counts: Counts,
}

/// A share, and how requests have met its limits in that time.
#[derive(Clone, Debug)]
pub struct ShareFacts {
    /// The share.
    pub view: ShareView,
    /// Requests that had to wait, by which limit.
    pub delayed: Vec<Delayed>,
    /// The same of the last ten to twenty seconds.
    pub delayed_lately: Vec<Delayed>,
    /// For how long there have been such without a pause, as far as it was looked at.
    pub throttled_for: Option<Duration>,
    /// What it has by the catalog.
    pub plan: Plan,
}

/// What a share has by the catalog, which says how its limits are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How it is provisioned, if it is.
    pub provisioned: Option<ProvisionedBy>,
    /// Its account has what is known of files kept in memory.
    pub caches_metadata: bool,
}

/// How a share is provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisionedBy {
    /// By its size alone, which the rest follows (v1).
    Size,
    /// Each by itself (v2).
    Parts,
}

/// A session, and what was done in it.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// The session.
    pub view: SessionView,
    /// What was done.
    pub counts: Counts,
    /// The time in which requests came.
    pub active: Duration,
    /// Its channels.
    pub channels: Vec<ChannelFacts>,
    /// The most channels it had in that time.
    pub channels_most: usize,
}

/// A channel, and how its connection is doing.
#[derive(Clone, Debug)]
pub struct ChannelFacts {
    /// The channel.
    pub view: ChannelView,
    /// The connection, where the system tells.
    pub path: Option<Path>,
}

/// How a connection is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// The time until something that was sent is acknowledged; where one request follows the other, the client's time to send it is part of it.
    pub round_trip: Duration,
    /// The shortest.
    pub round_trip_min: Duration,
    /// Which part of the active time something was on its way to the client.
    pub busy: f64,
    /// How often in a row the client's machine did not answer.
    pub unanswered: u32,
}

/// A connection whose other end has not answered so often is dead.
const UNANSWERED_MIN: u32 = 2;

impl Path {
    /// Whether its other end seems to be gone.
    pub fn is_dead(self) -> bool {
        self.unanswered >= UNANSWERED_MIN
    }
}

/// Seconds since midnight, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay(pub u32);

const DAY_SECONDS: u64 = 86_400;

impl TimeOfDay {
    /// That of a moment, in seconds since 1970.
    pub fn of(seconds: i64) -> Self {
        TimeOfDay(seconds.rem_euclid(DAY_SECONDS as i64) as u32)
    }

    /// So long before, as `10:02 UTC`.
    pub fn before(self, ago: Duration) -> String {
        let seconds = (u64::from(self.0) + DAY_SECONDS - ago.as_secs() % DAY_SECONDS) % DAY_SECONDS;
        format!("{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
    }
}

impl About {
    /// As a sentence names it.
    pub fn named(&self) -> String {
        match self {
            About::Share(name) => format!("the share {name}"),
            About::Session { id, user } => format!("session {id} of {user}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_midnight_are_of_the_day_before() {
        assert_eq!(TimeOfDay::of(-1), TimeOfDay(86_399));
        assert_eq!(TimeOfDay(36_120).before(Duration::ZERO), "10:02 UTC");
        assert_eq!(TimeOfDay(60).before(Duration::from_secs(120)), "23:59 UTC");
        assert_eq!(TimeOfDay(60).before(Duration::from_secs(86_400 * 3)), "00:01 UTC");
    }
}
