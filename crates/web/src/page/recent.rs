//! The last quarter of an hour, of which a thread takes down a point every two seconds; and the channels that were lost in it.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use insight::{Change, Figures};
use parking_lot::Mutex;
use serde::Serialize;
use server::admin::{Admin, CountersView, Counts, Scope};

use crate::http::NICENESS;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(2);
/// Points that are kept: a quarter of an hour.
const POINTS_MAX: usize = 450;
/// Looking takes a tenth of a core at most, however much there is to be seen.
const REST_TIMES: u32 = 9;
/// How long lost channels are told of, while their session goes on, and how many.
const LOST_FOR: Duration = Duration::from_secs(15 * 60);
const LOST_MAX: usize = 1_024;
/// How long shards have to answer.
const SHARDS_ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The thread, until this is dropped.
pub(crate) struct Recent {
    seen: Arc<Mutex<Seen>>,
    _goes_on: Sender<()>,
}

/// What was seen.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    points: VecDeque<Point>,
    lost: VecDeque<LostChannel>,
    /// The counters when it was looked last, and what is new in them since the look before.
    pub(crate) counters: Option<Arc<CountersView>>,
    pub(crate) change: Option<Arc<Change>>,
    pub(crate) silent_shards: Vec<usize>,
}

/// What was done in two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    read: f64,
    written: f64,
    iops: f64,
    p99_ms: Option<f64>,
    errors: u64,
}

/// A channel that is gone while its session goes on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LostChannel {
    #[serde(skip)]
    session: u64,
    pub(crate) peer: String,
    pub(crate) local: String,
    /// Milliseconds since 1970.
    at: u64,
}

impl Recent {
    /// Looks from now on.
    pub(crate) fn start(admin: Arc<dyn Admin>) -> io::Result<Self> {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (goes_on, end) = channel::<()>();
        let looks = Arc::clone(&seen);
        thread::Builder::new().name("page-look".to_owned()).spawn(move || {
            // Where that is not allowed it is a thread like others.
            let _ = rustix::process::nice(NICENESS);
            look_on(&*admin, &looks, &end);
        })?;
        Ok(Recent { seen, _goes_on: goes_on })
    }

    /// Points behind a time.
    pub(crate) fn points(&self, after: u64) -> Vec<Point> {
        self.seen.lock().points.iter().filter(|point| point.at > after).copied().collect()
    }

    /// Channels that a session has lost, the last first.
    pub(crate) fn lost(&self, session: u64) -> Vec<LostChannel> {
        self.seen.lock().lost.iter().rev().filter(|lost| lost.session == session).cloned().collect()
    }

    /// What was seen last, without the points.
    pub(crate) fn latest(&self) -> Seen {
        let seen = self.seen.lock();
        Seen {
            counters: seen.counters.clone(),
            change: seen.change.clone(),
            silent_shards: seen.silent_shards.clone(),
            ..Seen::default()
        }
    }
}

fn look_on(admin: &dyn Admin, seen: &Mutex<Seen>, end: &Receiver<()>) {
    loop {
        let began = Instant::now();
        let counters = admin.counters();
        let before = seen.lock().counters.clone();
        let look = Look::between(before.as_deref(), &counters, now());
        let took = began.elapsed();
        // That takes time where shards are busy, and no work.
        let silent_shards = admin.silent_shards(SHARDS_ANSWER_WITHIN);
        let mut seen = seen.lock();
        seen.add(look, counters);
        seen.silent_shards = silent_shards;
        drop(seen);
        let rest = (took * REST_TIMES).max(EVERY.saturating_sub(began.elapsed()));
        if end.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// What a look has shown.
struct Look {
    at: u64,
    change: Option<Change>,
    lost: Vec<LostChannel>,
    /// Sessions that go on.
    sessions: HashSet<u64>,
}

impl Look {
    fn between(before: Option<&CountersView>, now: &CountersView, at: u64) -> Self {
        let sessions: HashSet<u64> = now.rows.iter().filter_map(|row| session_of(&row.scope)).collect();
        let change = before.map(|before| Change::between(before, now));
        let there: HashSet<&Scope> = now.rows.iter().map(|row| &row.scope).collect();
        let lost = before.iter().flat_map(|before| &before.rows).filter_map(|row| match &row.scope {
            Scope::Channel { session, peer, local, .. }
                if sessions.contains(session) && !there.contains(&row.scope) =>
            {
                Some(LostChannel { session: *session, peer: peer.clone(), local: local.clone(), at })
            }
            _ => None,
        });
        Look { at, change, lost: lost.collect(), sessions }
    }
}

impl Seen {
    fn add(&mut self, look: Look, counters: CountersView) {
        let oldest = look.at.saturating_sub(LOST_FOR.as_millis() as u64);
        self.lost.retain(|lost| lost.at >= oldest && look.sessions.contains(&lost.session));
        self.lost.extend(look.lost);
        self.lost.drain(..self.lost.len().saturating_sub(LOST_MAX));
        if let Some(change) = look.change {
            self.points.push_back(Point::of(&change, look.at));
            self.points.drain(..self.points.len().saturating_sub(POINTS_MAX));
            self.change = Some(Arc::new(change));
        }
        self.counters = Some(Arc::new(counters));
    }
}

impl Point {
    fn of(change: &Change, at: u64) -> Self {
        let mut counts = Counts::default();
        let of_server = change.rows.iter().filter(|row| row.scope == Scope::Server);
        of_server.for_each(|row| counts.add(&row.counts));
        let figures = Figures::of(&counts, change.passed);
        Point {
            at,
            read: figures.read_mib_s,
            written: figures.written_mib_s,
            iops: figures.iops,
            p99_ms: figures.p99.map(|time| time.as_secs_f64() * 1e3),
            errors: figures.errors,
        }
    }
}

fn session_of(scope: &Scope) -> Option<u64> {
    match scope {
        Scope::Session { id, .. } => Some(*id),
        _ => None,
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use server::admin::{CountersRow, Events};

    use super::*;

    fn view(seconds: u64, sessions: &[u64], channels: &[(u64, &str)]) -> CountersView {
        let row = |scope| CountersRow { scope, counts: Counts::from_parts(vec![(0, 5)], Vec::new()).unwrap() };
        let session = |id: &u64| Scope::Session { id: *id, user: "ann".to_owned(), account: "abc".to_owned() };
        let channel = |(session, peer): &(u64, &str)| Scope::Channel {
            session: *session,
            connection: 1,
            peer: (*peer).to_owned(),
            local: "192.0.2.9:445".to_owned(),
        };
        let scopes = sessions.iter().map(session).chain(channels.iter().map(channel));
        let rows = scopes.chain([Scope::Server]).map(row).collect();
        CountersView { start: 1, at: Duration::from_secs(seconds), events: Events::default(), rows }
    }

    fn look(seen: &mut Seen, at: u64, view: CountersView) {
        let before = seen.counters.clone();
        seen.add(Look::between(before.as_deref(), &view, at), view);
    }

    #[test]
    fn a_channel_that_is_gone_is_lost_while_its_session_goes_on() {
        let mut seen = Seen::default();
        look(&mut seen, 1_000, view(1, &[7, 8], &[(7, "a:1"), (7, "b:1"), (8, "c:1")]));
        look(&mut seen, 3_000, view(3, &[7], &[(7, "a:1")]));
        assert_eq!(seen.lost.iter().map(|lost| lost.peer.as_str()).collect::<Vec<_>>(), ["b:1"]);
        look(&mut seen, 5_000, view(5, &[7], &[(7, "a:1")]));
        assert_eq!(seen.lost.len(), 1);
        look(&mut seen, 7_000, view(7, &[], &[]));
        assert!(seen.lost.is_empty(), "the session is gone, too");
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept() {
        let mut seen = Seen::default();
        for number in 1..=POINTS_MAX as u64 + 10 {
            look(&mut seen, number * 2_000, view(number * 2, &[], &[]));
        }
        assert_eq!(seen.points.len(), POINTS_MAX);
        assert_eq!(seen.points.back().unwrap().at, (POINTS_MAX as u64 + 10) * 2_000);
        assert_eq!(seen.points.back().unwrap().iops, 0.0);
    }
}
