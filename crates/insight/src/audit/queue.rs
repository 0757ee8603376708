//! Events that wait to be written. Who leaves one never waits for more than another who does.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use server::admin::{AuditCounts, AuditEvent};

/// Bytes of events that may wait: some ten thousand. More are lost.
pub(super) const BYTES_MAX: usize = 8 << 20;
/// Of these, what may be of people who have proved nothing: they keep nobody's line from the log.
pub(super) const STRANGERS_BYTES_MAX: usize = 1 << 20;
/// Lines of such people that are written at once, and from there on in a second: they fill no disk.
pub(super) const STRANGERS_BURST: u32 = 1000;
const STRANGERS_EVERY: Duration = Duration::from_millis(10);
/// What an event takes beside its own bytes.
const PLACE_BYTES: usize = 32;
/// Bytes of events that are written together.
const TOGETHER_BYTES: usize = 64 << 10;
/// How often it is told what was lost.
const TELL_LOST_EVERY: Duration = Duration::from_secs(1);

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    /// Something came, was written, or is wanted.
    changed: Condvar,
}

#[derive(Debug)]
struct Inside {
    events: VecDeque<AuditEvent>,
    bytes: usize,
    strangers_bytes: usize,
    /// When the lines of strangers that were taken so far are paid for.
    strangers_paid: Instant,
    /// What was lost and is not told yet.
    losing: Option<Lost>,
    told: Option<Instant>,
    counts: AuditCounts,
    /// Events that the writer has in hand.
    in_hand: u64,
    reopen: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Runs,
    /// What waits is to be written, and no more comes.
    Finishing,
    /// The writer has ended.
    Ended,
}

/// Events that are not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lines: u64,
    /// Of these, those about people who had proved nothing.
    pub(super) of_strangers: u64,
    /// When the first of them happened, and the last.
    pub(super) from: SystemTime,
    pub(super) to: SystemTime,
}

impl Lost {
    pub(super) fn and(self, later: Lost) -> Lost {
        Lost {
            lines: self.lines + later.lines,
            of_strangers: self.of_strangers + later.of_strangers,
            from: self.from.min(later.from),
            to: self.to.max(later.to),
        }
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
            bytes: 0,
            strangers_bytes: 0,
            strangers_paid: Instant::now(),
            losing: None,
            told: None,
            counts: AuditCounts::default(),
            in_hand: 0,
            reopen: false,
            stage: Stage::Runs,
        };
        Queue { inside: Mutex::new(inside), changed: Condvar::new() }
    }
}

impl Queue {
    pub(super) fn leave(&self, event: AuditEvent) {
        let bytes = cost(&event);
        let mut inside = self.inside.lock();
        if inside.takes(&event, bytes) {
            inside.bytes += bytes;
            inside.events.push_back(event);
        } else {
            inside.lose(&event);
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

    /// So many events that were taken are in the log, and so many never will be.
    pub(super) fn done(&self, written: u64, lost: u64) {
        let mut inside = self.inside.lock();
        inside.in_hand -= written + lost;
        inside.counts.written += written;
        inside.counts.lost += lost;
        drop(inside);
        self.changed.notify_all();
    }

    /// Waits before the writer tries again; `false` where it is to try only once more.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let mut inside = self.inside.lock();
        let until = Instant::now() + time;
        while inside.stage == Stage::Runs && !inside.reopen {
            if self.changed.wait_until(&mut inside, until).timed_out() {
                break;
            }
        }
        inside.stage == Stage::Runs
    }

    /// True once after a wish for that.
    pub(super) fn takes_reopen(&self) -> bool {
        std::mem::take(&mut self.inside.lock().reopen)
    }

    pub(super) fn reopen(&self) {
        self.inside.lock().reopen = true;
        self.changed.notify_all();
    }

    /// The writer is done, and what is left will not be written.
    pub(super) fn end(&self) {
        let mut inside = self.inside.lock();
        inside.stage = Stage::Ended;
        inside.counts.lost += std::mem::take(&mut inside.in_hand) + inside.events.len() as u64;
        inside.events.clear();
        drop(inside);
        self.changed.notify_all();
    }

    pub(super) fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut inside = self.inside.lock();
        if inside.stage == Stage::Runs {
            inside.stage = Stage::Finishing;
        }
        self.changed.notify_all();
        while inside.stage != Stage::Ended {
            if self.changed.wait_until(&mut inside, until).timed_out() {
                return;
            }
        }
    }

    pub(super) fn counts(&self) -> AuditCounts {
        self.inside.lock().counts
    }
}

impl Inside {
    /// True where there is room for the event, which then counts.
    fn takes(&mut self, event: &AuditEvent, bytes: usize) -> bool {
        if self.stage != Stage::Runs || self.bytes + bytes > BYTES_MAX {
            return false;
        }
        if !event.is_of_stranger() {
            return true;
        }
        let now = Instant::now();
        let paid = self.strangers_paid.max(now) + STRANGERS_EVERY;
        if self.strangers_bytes + bytes > STRANGERS_BYTES_MAX || paid > now + STRANGERS_EVERY * STRANGERS_BURST {
            return false;
        }
        self.strangers_paid = paid;
        self.strangers_bytes += bytes;
        true
    }

    fn lose(&mut self, event: &AuditEvent) {
        self.counts.lost += 1;
        let of_strangers = u64::from(event.is_of_stranger());
        let lost = Lost { lines: 1, of_strangers, from: event.time, to: event.time };
        self.losing = Some(self.losing.map_or(lost, |before| before.and(lost)));
    }

    fn take_batch(&mut self, tells: Option<Instant>) -> Batch {
        let mut batch = Batch { reopen: std::mem::take(&mut self.reopen), ..Batch::default() };
        if tells.is_some() {
            (batch.lost, self.told) = (self.losing.take(), tells);
        }
        let mut taken = 0;
        while taken < TOGETHER_BYTES
            && let Some(event) = self.events.pop_front()
        {
            let bytes = cost(&event);
            taken += bytes;
            self.bytes -= bytes;
            if event.is_of_stranger() {
                self.strangers_bytes -= bytes;
            }
            batch.events.push(event);
        }
        self.in_hand += batch.events.len() as u64;
        batch.is_last = self.stage != Stage::Runs && self.events.is_empty();
        batch
    }
}

fn cost(event: &AuditEvent) -> usize {
    event.held_bytes() + PLACE_BYTES
}
