//! Changes of a file's data that were admitted and are not made yet: WRITEs wait for their turn at the pool, and for the device. Who is in the way of
//! one comes behind it: a lock of its range is not told of, and its open is not closed, before it is made.
//!
//! A change is entered before locks are looked at, and a lock is taken before changes are looked at. So one of them sees the other.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::FileEntry;
use crate::open::OpenId;

/// What is done once changes are made, by whoever makes the last of them: it must not wait.
pub(crate) type Then = Box<dyn FnOnce() + Send>;

/// The changes of one file, and who comes behind them.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<State>);

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
    then: Then,
}

/// A change that is under way until this is dropped.
pub(crate) struct Change {
    file: Arc<FileEntry>,
    number: u64,
}

impl FileEntry {
    /// Enters a change of `range` through `open`.
    pub(crate) fn begin_change(self: &Arc<Self>, open: OpenId, range: Range<u64>) -> Change {
        let mut state = self.under_way.0.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.changes.insert(number, Entered { open, range });
        Change { file: Arc::clone(self), number }
    }

    /// Does `then` once the changes are made that were entered through `open`: at once where there are none.
    pub(crate) fn after_changes_of(&self, open: OpenId, then: Then) {
        self.after(|change| change.open == open, then);
    }

    /// The same of changes of a range through other opens. False where there are none, and nothing is done.
    pub(crate) fn after_changes_by_others(&self, open: OpenId, range: &Range<u64>, then: Then) -> bool {
        let is_meant =
            |change: &Entered| change.open != open && change.range.start < range.end && range.start < change.range.end;
        let mut state = self.under_way.0.lock();
        let left = state.those(is_meant);
        if left.is_empty() {
            return false;
        }
        state.waiting.push(Waiting { left, then });
        true
    }

    fn after(&self, is_meant: impl Fn(&Entered) -> bool, then: Then) {
        let mut state = self.under_way.0.lock();
        let left = state.those(is_meant);
        if left.is_empty() {
            drop(state);
            then();
        } else {
            state.waiting.push(Waiting { left, then });
        }
    }
}

impl State {
    fn those(&self, is_meant: impl Fn(&Entered) -> bool) -> HashSet<u64> {
        self.changes.iter().filter(|(_, change)| is_meant(change)).map(|(number, _)| *number).collect()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let mut state = self.file.under_way.0.lock();
        state.changes.remove(&self.number);
        for waiting in &mut state.waiting {
            waiting.left.remove(&self.number);
        }
        let over: Vec<_> = state.waiting.extract_if(.., |waiting| waiting.left.is_empty()).collect();
        drop(state);
        over.into_iter().for_each(|waiting| (waiting.then)());
    }
}
