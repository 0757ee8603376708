//! Events that wait to be written. Who leaves one never waits for more than another who does.
//!
//! What was done has most of the room to itself: no refused request takes any of it. Of what was done and of what was refused, nobody has more than what is
//! still free, so that there is always room for others.

use std::collections::{HashMap, VecDeque};
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use server::admin::{AuditCounts, AuditEvent};

use super::cut::{cut, line_bytes_of_stranger};
use super::lost::Lost;

/// Bytes of events that may wait, of what was done: some ten thousand. More are lost.
pub(super) const DONE_BYTES_MAX: usize = 6 << 20;
/// The same of what was refused.
pub(super) const REFUSED_BYTES_MAX: usize = 2 << 20;
/// Bytes of lines about people who have proved nothing that are written at once, and from there on in a second: some thousand lines, then four a second. They
/// fill no disk.
pub(super) const STRANGERS_BURST_BYTES: usize = 1 << 20;
const STRANGERS_BYTES_A_SECOND: usize = 4 << 10;
/// What an event takes beside its own bytes, with its part of the table of owners.
const PLACE_BYTES: usize = 128;
/// Bytes of events that are written together.
const TOGETHER_BYTES: usize = 64 << 10;
/// The pause after a write that failed, at the end.
const LAST_PAUSE: Duration = Duration::from_millis(50);
/// How often it is told what was lost.
const TELL_LOST_EVERY: Duration = Duration::from_secs(1);

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    /// Something came, was written, or is wanted.
    changed: Condvar,
    /// The writer has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct Inside {
    /// In the order in which they came.
    events: VecDeque<Waiting>,
    done: Room,
    refused: Room,
    /// When the lines of strangers that were taken so far are paid for.
    strangers_paid: Instant,
    /// What was lost and is not told yet, and since when.
    losing: Option<(Lost, Instant)>,
    told: Option<Instant>,
    written: u64,
    lost: Tally,
    /// Events that the writer has in hand.
    in_hand: Tally,
    reopen: bool,
    stage: Stage,
}

#[derive(Debug)]
struct Waiting {
    event: AuditEvent,
    bytes: usize,
    owner: Arc<str>,
}

/// Room for events, and who has how much of it.
#[derive(Debug)]
struct Room {
    bytes: usize,
    bytes_max: usize,
    of: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Runs,
    /// What waits is to be written, and no more comes.
    Finishing,
    /// The writer has ended.
    Ended,
}

/// Events, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    all: u64,
    /// Of these, requests that were refused.
    refused: u64,
}

impl Tally {
    pub(super) fn of<'a>(events: impl Iterator<Item = &'a AuditEvent>) -> Self {
        events.fold(Tally::default(), |sum, event| Tally {
            all: sum.all + 1,
            refused: sum.refused + u64::from(event.is_refused()),
        })
    }

    fn add(&mut self, other: Tally) {
        self.all += other.all;
        self.refused += other.refused;
    }

    fn subtract(&mut self, other: Tally) {
        self.all -= other.all;
        self.refused -= other.refused;
    }
}

/// What the writer has to do next.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) events: Vec<AuditEvent>,
    pub(super) lost: Option<Lost>,
    pub(super) reopen: bool,
    /// This is all there is, and no more comes.
    pub(super) is_last: bool,
}

impl Default for Queue {
    fn default() -> Self {
        let inside = Inside {
            events: VecDeque::new(),
            done: Room::of(DONE_BYTES_MAX),
            refused: Room::of(REFUSED_BYTES_MAX),
            strangers_paid: Instant::now(),
            losing: None,
            told: None,
            written: 0,
            lost: Tally::default(),
            in_hand: Tally::default(),
            reopen: false,
            stage: Stage::Runs,
        };
        Queue { inside: Mutex::new(inside), changed: Condvar::new(), ended: Condvar::new() }
    }
}

impl Queue {
    pub(super) fn leave(&self, mut event: AuditEvent) {
        cut(&mut event);
        let bytes = event.held_bytes() + PLACE_BYTES;
        let mut inside = self.inside.lock();
        match inside.takes(&event, bytes) {
            Some(owner) => inside.events.push_back(Waiting { event, bytes, owner }),
            None => inside.lose(&event),
        }
        drop(inside);
        self.changed.notify_one();
    }

    /// Waits for what is to be written next.
    pub(super) fn next(&self) -> Batch {
        let mut inside = self.inside.lock();
        loop {
            let now = Instant::now();
            let is_finishing = inside.stage != Stage::Runs;
            let tells = inside.losing.is_some()
                && (is_finishing || inside.told.is_none_or(|told| now.duration_since(told) >= TELL_LOST_EVERY));
            if !inside.events.is_empty() || inside.reopen || tells || is_finishing {
                return inside.take_batch(tells.then_some(now));
            }
            match inside.losing {
                Some(_) => drop(self.changed.wait_for(&mut inside, TELL_LOST_EVERY)),
                None => self.changed.wait(&mut inside),
            }
        }
    }

    /// These events that were taken are in the log, and those never will be.
    pub(super) fn done(&self, written: Tally, lost: Tally) {
        let mut inside = self.inside.lock();
        if inside.stage == Stage::Ended {
            // Nobody waited for it any longer: it counts as lost.
            return;
        }
        inside.in_hand.subtract(written);
        inside.in_hand.subtract(lost);
        inside.written += written.all;
        inside.lost.add(lost);
        drop(inside);
        self.changed.notify_all();
    }

    /// Waits before the writer tries again; `false` where it need not. At the end it tries often, for as long as somebody waits for that.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let mut inside = self.inside.lock();
        let mut until = Instant::now() + time;
        while inside.stage != Stage::Ended && !inside.reopen {
            if inside.stage == Stage::Finishing {
                until = until.min(Instant::now() + LAST_PAUSE);
            }
            if self.changed.wait_until(&mut inside, until).timed_out() {
                break;
            }
        }
        inside.stage != Stage::Ended
    }

    /// True once after a wish for that.
    pub(super) fn takes_reopen(&self) -> bool {
        take(&mut self.inside.lock().reopen)
    }

    pub(super) fn reopen(&self) {
        self.inside.lock().reopen = true;
        self.changed.notify_all();
    }

    /// The writer is done, and what is left will not be written.
    pub(super) fn end(&self) {
        self.inside.lock().end();
        self.changed.notify_all();
        self.ended.notify_all();
    }

    /// Looks `every` so often, and gives what was lost where the writer has not told of it for so long: it may hang with its disk. `None` when that has ended.
    pub(super) fn untold(&self, every: Duration, late: Duration) -> Option<Lost> {
        let mut inside = self.inside.lock();
        while inside.stage != Stage::Ended {
            let is_time = self.ended.wait_for(&mut inside, every).timed_out();
            match &inside.losing {
                Some((lost, since)) if is_time && since.elapsed() >= late => return Some(lost.clone()),
                _ => {}
            }
        }
        None
    }

    /// Has what waits written, for so long at most. What is not written then counts as lost, also where the writer hangs with it.
    pub(super) fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut inside = self.inside.lock();
        if inside.stage == Stage::Runs {
            inside.stage = Stage::Finishing;
        }
        self.changed.notify_all();
        while inside.stage != Stage::Ended {
            if self.changed.wait_until(&mut inside, until).timed_out() {
                inside.end();
            }
        }
        drop(inside);
        self.changed.notify_all();
        self.ended.notify_all();
    }

    pub(super) fn counts(&self) -> AuditCounts {
        let inside = self.inside.lock();
        AuditCounts { written: inside.written, lost: inside.lost.all, lost_refused: inside.lost.refused }
    }
}

impl Inside {
    /// Nothing is written from now on. What was not is lost, once.
    fn end(&mut self) {
        if self.stage == Stage::Ended {
            return;
        }
        self.stage = Stage::Ended;
        let in_hand = take(&mut self.in_hand);
        let left = Tally::of(self.events.iter().map(|waiting| &waiting.event));
        self.lost.add(in_hand);
        self.lost.add(left);
        self.events.clear();
    }

    /// Whose the event is, where there is room for it: it counts from then on.
    fn takes(&mut self, event: &AuditEvent, bytes: usize) -> Option<Arc<str>> {
        if self.stage != Stage::Runs {
            return None;
        }
        if !event.is_of_stranger() {
            return self.room_of(event).takes(owner_of(event), bytes);
        }
        let now = Instant::now();
        let paid = self.strangers_paid.max(now) + time_of_stranger(line_bytes_of_stranger(event));
        if paid > now + time_of_stranger(STRANGERS_BURST_BYTES) {
            return None;
        }
        let owner = self.refused.takes(owner_of(event), bytes)?;
        self.strangers_paid = paid;
        Some(owner)
    }

    fn room_of(&mut self, event: &AuditEvent) -> &mut Room {
        if event.is_refused() || event.is_of_stranger() { &mut self.refused } else { &mut self.done }
    }

    fn lose(&mut self, event: &AuditEvent) {
        self.lost.add(Tally::of([event].into_iter()));
        match &mut self.losing {
            Some((lost, _)) => lost.add(event),
            none => *none = Some((Lost::of(event), Instant::now())),
        }
    }

    fn take_batch(&mut self, tells: Option<Instant>) -> Batch {
        let mut batch = Batch { reopen: take(&mut self.reopen), ..Batch::default() };
        if tells.is_some() {
            (batch.lost, self.told) = (self.losing.take().map(|(lost, _)| lost), tells);
        }
        let mut taken = 0;
        while taken < TOGETHER_BYTES
            && let Some(Waiting { event, bytes, owner }) = self.events.pop_front()
        {
            taken += bytes;
            self.room_of(&event).gives_back(&owner, bytes);
            batch.events.push(event);
        }
        self.in_hand.add(Tally::of(batch.events.iter()));
        batch.is_last = self.stage != Stage::Runs && self.events.is_empty();
        batch
    }
}

impl Room {
    fn of(bytes_max: usize) -> Self {
        Room { bytes: 0, bytes_max, of: HashMap::new() }
    }

    /// Takes room for one owner, who has no more then than what is free for others.
    fn takes(&mut self, owner: &str, bytes: usize) -> Option<Arc<str>> {
        let known = self.of.get_key_value(owner);
        let has = known.map_or(0, |(_, has)| *has) + bytes;
        if has > self.bytes_max - self.bytes {
            return None;
        }
        let owner = known.map_or_else(|| Arc::from(owner), |(owner, _)| Arc::clone(owner));
        self.bytes += bytes;
        self.of.insert(Arc::clone(&owner), has);
        Some(owner)
    }

    fn gives_back(&mut self, owner: &Arc<str>, bytes: usize) {
        self.bytes -= bytes;
        if let Some(has) = self.of.get_mut(owner) {
            *has -= bytes;
            if *has == 0 {
                self.of.remove(owner);
            }
        }
    }
}

/// The user, by SID or name; strangers are one together.
fn owner_of(event: &AuditEvent) -> &str {
    let actor = &event.actor;
    if event.is_of_stranger() { "" } else { actor.sid.as_deref().or(actor.user.as_deref()).unwrap_or("") }
}

/// For how long strangers have none of their lines written after so many bytes of them.
fn time_of_stranger(bytes: usize) -> Duration {
    Duration::from_secs(1).mul_f64(bytes as f64 / STRANGERS_BYTES_A_SECOND as f64)
}
