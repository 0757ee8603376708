//! Changes of a file's data that were admitted and are not made yet: WRITEs wait for their turn at the pool, and for the device. Who is in the way of
//! one comes behind it: a lock of its range is not told of, and its open is not closed, before it is made.
//!
//! A change is entered before locks are looked at, and a lock is taken before changes are looked at. So one of them sees the other.
//!
//! What a shard makes at once is only counted, with one atomic operation before locks are looked at and one after it is made. Who has to come behind
//! a change waits for all that are counted of the file: none of them waits for a device.
//!
//! A READ is not entered. One that was let in before a lock may tell what is written under that: it could have been asked for without any lock,
//! too, and changes nothing.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::FileEntry;
use crate::open::OpenId;

/// What is done once changes are made, by whoever makes the last of them: it must not wait.
pub(crate) type Then = Box<dyn FnOnce() + Send>;

/// The changes of one file, and who comes behind them.
#[derive(Default)]
pub(super) struct UnderWay {
    state: Mutex<State>,
    at_once: AtOnce,
}

/// How many changes shards make at once just now, each counted as [`ONE`], and whether somebody comes behind them: [`AWAITED`]. It has a line of the
/// cache to itself, for what is beside it is read by who changes nothing.
#[derive(Default)]
#[repr(align(64))]
struct AtOnce(AtomicUsize);

const AWAITED: usize = 1;
const ONE: usize = 2;

#[derive(Default)]
struct State {
    last_number: u64,
    changes: BTreeMap<u64, Entered>,
    waiting: Vec<Waiting>,
}

struct Entered {
    open: OpenId,
    range: Range<u64>,
}

struct Waiting {
    left: HashSet<u64>,
    /// For those that are made at once, too.
    at_once: bool,
    then: Then,
}

/// A change that is under way until this is dropped.
pub(crate) struct Change {
    file: Arc<FileEntry>,
    number: u64,
}

/// A change that a shard makes at once: it is under way until this is dropped.
pub(crate) struct ChangeAtOnce<'a>(&'a UnderWay);

impl FileEntry {
    /// Enters a change of `range` through `open`.
    pub(crate) fn begin_change(self: &Arc<Self>, open: OpenId, range: Range<u64>) -> Change {
        let mut state = self.under_way.state.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.changes.insert(number, Entered { open, range });
        Change { file: Arc::clone(self), number }
    }

    /// Counts a change that this shard makes at once, without waiting for anything. `None` where somebody waits for those that are being made: it is
    /// entered then.
    pub(crate) fn begin_change_at_once(&self) -> Option<ChangeAtOnce<'_>> {
        let AtOnce(count) = &self.under_way.at_once;
        if count.load(Ordering::Relaxed) & AWAITED != 0 {
            return None;
        }
        // Who looks at the count after this sees it. Who looked before has its lock, or its end, seen by what comes behind this.
        count.fetch_add(ONE, Ordering::AcqRel);
        Some(ChangeAtOnce(&self.under_way))
    }

    /// Does `then` once the changes are made that were entered through `open`: at once where there are none.
    pub(crate) fn after_changes_of(&self, open: OpenId, then: Then) {
        self.after(|change| change.open == open, then);
    }

    /// The same of changes of a range through other opens. False where there are none, and nothing is done.
    pub(crate) fn after_changes_by_others(&self, open: OpenId, range: &Range<u64>, then: Then) -> bool {
        let is_meant =
            |change: &Entered| change.open != open && change.range.start < range.end && range.start < change.range.end;
        let mut state = self.under_way.state.lock();
        match self.under_way.behind(&mut state, is_meant) {
            None => false,
            Some((left, at_once)) => {
                state.waiting.push(Waiting { left, at_once, then });
                true
            }
        }
    }

    fn after(&self, is_meant: impl Fn(&Entered) -> bool, then: Then) {
        let mut state = self.under_way.state.lock();
        match self.under_way.behind(&mut state, is_meant) {
            None => {
                drop(state);
                then();
            }
            Some((left, at_once)) => state.waiting.push(Waiting { left, at_once, then }),
        }
    }
}

impl UnderWay {
    /// What somebody has to come behind: the changes that `is_meant` picks, and whether some are being made at once. `None` where there are
    /// neither.
    fn behind(&self, state: &mut State, is_meant: impl Fn(&Entered) -> bool) -> Option<(HashSet<u64>, bool)> {
        let AtOnce(count) = &self.at_once;
        let at_once = count.fetch_or(AWAITED, Ordering::AcqRel) >= ONE;
        if !at_once && !state.waiting.iter().any(|waiting| waiting.at_once) {
            count.fetch_and(!AWAITED, Ordering::AcqRel);
        }
        let left = state.those(is_meant);
        (at_once || !left.is_empty()).then_some((left, at_once))
    }

    /// The last change that was made at once, and awaited, is made.
    #[cold]
    fn made_at_once(&self) {
        let mut state = self.state.lock();
        let AtOnce(count) = &self.at_once;
        // Where another has begun since, that one comes here.
        if count.compare_exchange(AWAITED, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        for waiting in &mut state.waiting {
            waiting.at_once = false;
        }
        go_on(state);
    }
}

impl State {
    fn those(&self, is_meant: impl Fn(&Entered) -> bool) -> HashSet<u64> {
        self.changes.iter().filter(|(_, change)| is_meant(change)).map(|(number, _)| *number).collect()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let mut state = self.file.under_way.state.lock();
        state.changes.remove(&self.number);
        for waiting in &mut state.waiting {
            waiting.left.remove(&self.number);
        }
        go_on(state);
    }
}

impl Drop for ChangeAtOnce<'_> {
    fn drop(&mut self) {
        let ChangeAtOnce(under_way) = self;
        if under_way.at_once.0.fetch_sub(ONE, Ordering::AcqRel) == ONE | AWAITED {
            under_way.made_at_once();
        }
    }
}

/// Has those go on who come behind nothing any more.
fn go_on(mut state: MutexGuard<'_, State>) {
    let over: Vec<_> = state.waiting.extract_if(.., |waiting| waiting.left.is_empty() && !waiting.at_once).collect();
    drop(state);
    over.into_iter().for_each(|waiting| (waiting.then)());
}
