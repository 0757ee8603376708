//! Changes of a file's data that were admitted and are not made yet: WRITEs wait for their turn at the pool, and for the device. Who is in the way of
//! one comes behind it: a lock of its range is not told of, and its open is not closed, before it is made.
//!
//! A change is entered before locks are looked at, and a lock is taken before changes are looked at. So one of them sees the other.
//!
//! What a shard makes at once is only counted, with one atomic operation before locks are looked at and one after it is made. Who has to come behind
//! a change waits for all that are counted of the file: none of them waits for a device.
//!
//! A client may have thousands of changes under way, and thousands of locks that come behind them. So nobody keeps a list of what it waits for, and who
//! ends a change looks at nobody but those that it sets free. Changes have rising numbers. Who comes behind them waits for those alone that were
//! begun before: for the last one that is in its way, then for the last one before that; and after so many looks for all that are left, whatever
//! they change. Those who are set free go on a few at a time: each of them frees the next.
//!
//! A READ is not entered. One that was let in before a lock may tell what is written under that: it could have been asked for without any lock,
//! too, and changes nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use store::effort;
use tokio::sync::oneshot;
use wire::security::Sid;

use super::FileEntry;
use crate::resource::by_id::ById;
use crate::state::open_id::OpenId;

/// How many changes somebody looks at who comes behind them. A client that has less under way keeps nobody waiting whom it is not in the way of.
pub(super) const LOOKS_MAX: usize = 256;
/// So many of them are as much work as following a name of a path.
pub(super) const LOOKS_IN_A_STEP: usize = 64;
/// How many of those who wait a change sets free when it ends: each of them frees another one.
pub(super) const FREED_AT_ONCE: usize = 8;

/// No open has this id.
const NOBODY: OpenId = OpenId(0);

/// What is done once changes are made, by whoever makes the last of them: it must not wait.
pub(crate) type Then = Box<dyn FnOnce() + Send>;

/// The changes of one file, and who comes behind them.
#[derive(Default)]
pub(super) struct UnderWay {
    state: Mutex<State>,
    at_once: AtOnce,
}

/// How many changes shards make at once just now, each counted as [`ONE`], and whether somebody comes behind them: [`AWAITED`]. It has a line of the
/// cache to itself, for what is beside it is read by who changes nothing. Space on both sides sees to that: where memory has to begin at a line,
/// it costs much to get.
#[derive(Default)]
#[repr(C)]
struct AtOnce {
    _before: [u64; 7],
    count: AtomicUsize,
    _behind: [u64; 7],
}

const AWAITED: usize = 1;
const ONE: usize = 2;

#[derive(Default)]
struct State {
    last_number: u64,
    changes: BTreeMap<u64, Entered>,
    /// How many of them were entered through which open.
    by_open: ById<OpenId, Count>,
    /// What stands among the changes for all that are made at once, while somebody waits for those.
    at_once: Option<u64>,
    waiting: BTreeMap<WaitKey, BehindChange>,
    /// Changes that have ended, and are still waited for.
    ended: Vec<u64>,
    /// Who closes an open behind what was entered through it.
    closing: ById<OpenId, Then>,
    last_ticket: u64,
    /// What has a number up to this is made before anything that is written through opens which enter from now on.
    goes_first: u64,
    /// The same for opens of these users alone: theirs has ended behind changes of something else than data. Another user has been promised nothing
    /// of that: what is not answered yet may come after what it does.
    goes_first_of: Vec<(Sid, u64)>,
}

/// Changes of one open.
#[derive(Default)]
struct Count {
    all: usize,
    of_data: usize,
}

struct Entered {
    /// `None` for those that are made at once.
    open: Option<OpenId>,
    range: Range<u64>,
}

/// What somebody waits for: that a change, or each up to it, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Behind {
    All(u64),
    One(u64),
}

/// A place among those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitKey {
    behind: Behind,
    ticket: u64,
}

enum BehindChange {
    /// Hears of it when this is dropped.
    Told { _hears: oneshot::Sender<()> },
    /// Closes an open.
    Closes(OpenId, Then),
}

/// A change that is under way until this is dropped.
pub(crate) struct Change {
    file: Arc<FileEntry>,
    number: u64,
}

/// A change that a shard makes at once: it is under way until this is dropped.
pub(crate) struct ChangeAtOnce<'a>(&'a UnderWay);

/// Somebody who comes behind changes of a range.
pub(crate) struct Follower {
    file: Arc<FileEntry>,
    open: OpenId,
    range: Range<u64>,
    /// What it waits for next. Of what has a higher number, nothing is in its way.
    behind: Behind,
    looks_left: usize,
}

/// A wait for one change, or for many. Who gives it up, or goes on, sees to those who come after it.
struct ChangeWait {
    file: Arc<FileEntry>,
    place: WaitKey,
    heard: oneshot::Receiver<()>,
}

impl FileEntry {
    /// Enters a change of `range` through `open`.
    pub(crate) fn begin_change(self: &Arc<Self>, open: OpenId, range: Range<u64>) -> Change {
        let number = self.under_way.state.lock().enter(Some(open), range);
        Change { file: Arc::clone(self), number }
    }

    /// The same for a CREATE that empties the file, or a stream of it: who enters meanwhile, and writes, does so after that.
    pub(crate) fn begin_emptying(self: &Arc<Self>, open: OpenId) -> Change {
        self.begin_first(open, 0..u64::MAX)
    }

    /// The same for what an open on its way out deletes: who enters meanwhile to change the file finds what is there after that. It is in the way of
    /// nobody else, and the open does not wait for it.
    pub(crate) fn begin_deleting(self: &Arc<Self>) -> Change {
        self.begin_first(NOBODY, 0..0)
    }

    fn begin_first(self: &Arc<Self>, open: OpenId, range: Range<u64>) -> Change {
        let mut state = self.under_way.state.lock();
        let number = state.enter(Some(open), range);
        state.goes_first = number;
        Change { file: Arc::clone(self), number }
    }

    /// Counts a change that this shard makes at once, without waiting for anything. `None` where somebody waits for those that are being made: it is
    /// entered then.
    pub(crate) fn begin_change_at_once(&self) -> Option<ChangeAtOnce<'_>> {
        let AtOnce { count, .. } = &self.under_way.at_once;
        if count.load(Ordering::Relaxed) & AWAITED != 0 {
            return None;
        }
        // Who looks at the count after this sees it. Who looked before has its lock, or its end, seen by what comes behind this.
        count.fetch_add(ONE, Ordering::AcqRel);
        Some(ChangeAtOnce(&self.under_way))
    }

    /// True where changes are under way that were entered through `open`, or are made at once: who closes it awaits them from then on.
    pub(crate) fn awaits_changes_of(&self, open: OpenId) -> bool {
        let mut state = self.under_way.state.lock();
        self.under_way.made_at_once_now(&mut state).is_some() || state.by_open.contains_key(&open)
    }

    /// Does `then` once the changes are made that were entered through `open`, which is `whose`: at once where there are none. The open enters
    /// no more.
    pub(crate) fn after_changes_of(&self, open: OpenId, whose: &Sid, then: Then) {
        let mut state = self.under_way.state.lock();
        let made_at_once = self.under_way.made_at_once_now(&mut state);
        state.ended(open, whose, made_at_once);
        let then = match made_at_once {
            Some(number) => {
                state.wait(Behind::One(number), BehindChange::Closes(open, then));
                None
            }
            None => state.close_behind(open, then),
        };
        drop(state);
        if let Some(then) = then {
            then();
        }
    }

    /// Comes behind the changes of a range that were entered through other opens until now. `None` where there are none.
    pub(crate) fn come_behind(self: &Arc<Self>, open: OpenId, range: Range<u64>) -> Option<Follower> {
        self.come_behind_looking(open, range, LOOKS_MAX)
    }

    /// An open of this user has lost its session, and waits for its client.
    pub(crate) fn lost(&self, open: OpenId, whose: &Sid) {
        let mut state = self.under_way.state.lock();
        let made_at_once = self.under_way.made_at_once_now(&mut state);
        state.ended(open, whose, made_at_once);
    }

    /// Has an open of this user come behind what was begun through opens that have ended or lost their session, and behind what empties the file:
    /// whose they were may not know whether it was made, and goes by what is made from now on. Of what others have begun that is what changes
    /// data. `None` where all of that is made.
    pub(crate) fn come_behind_older(self: &Arc<Self>, who: &Sid) -> Option<Follower> {
        let state = self.under_way.state.lock();
        let own = state.goes_first_of.iter().find(|(whose, _)| whose == who).map_or(0, |(_, number)| *number);
        let behind = Behind::All(state.goes_first.max(own));
        if state.has_ended(behind) {
            return None;
        }
        Some(Follower { file: Arc::clone(self), open: NOBODY, range: 0..0, behind, looks_left: 0 })
    }

    /// The same after so many looks.
    pub(super) fn come_behind_looking(
        self: &Arc<Self>,
        open: OpenId,
        range: Range<u64>,
        mut looks_left: usize,
    ) -> Option<Follower> {
        let mut state = self.under_way.state.lock();
        self.under_way.made_at_once_now(&mut state);
        let behind = state.last_in_the_way(state.last_number, (open, &range), &mut looks_left)?;
        drop(state);
        Some(Follower { file: Arc::clone(self), open, range, behind, looks_left })
    }
}

impl Follower {
    /// Ends when none of them is in its way any more.
    pub(crate) async fn until_made(mut self) {
        loop {
            if let Some(mut wait) = self.wait() {
                // It is dropped without a word.
                let _ = (&mut wait.heard).await;
            }
            let Some(behind) = self.look_again() else { return };
            self.behind = behind;
        }
    }

    /// `None` where that has ended already.
    fn wait(&self) -> Option<ChangeWait> {
        let mut state = self.file.under_way.state.lock();
        if state.has_ended(self.behind) {
            return None;
        }
        let (sender, heard) = oneshot::channel();
        let place = state.wait(self.behind, BehindChange::Told { _hears: sender });
        Some(ChangeWait { file: Arc::clone(&self.file), place, heard })
    }

    fn look_again(&mut self) -> Option<Behind> {
        let Behind::One(number) = self.behind else { return None };
        let state = self.file.under_way.state.lock();
        state.last_in_the_way(number - 1, (self.open, &self.range), &mut self.looks_left)
    }
}

impl UnderWay {
    /// Has all that are made at once just now stand among the changes, and gives their number. `None` where there are none.
    fn made_at_once_now(&self, state: &mut State) -> Option<u64> {
        let AtOnce { count, .. } = &self.at_once;
        if count.fetch_or(AWAITED, Ordering::AcqRel) >= ONE {
            let number = state.at_once.unwrap_or_else(|| state.enter(None, 0..u64::MAX));
            state.at_once = Some(number);
        } else if state.at_once.is_none() {
            count.fetch_and(!AWAITED, Ordering::AcqRel);
        }
        state.at_once
    }

    /// The last change that was made at once, and awaited, is made.
    #[cold]
    fn made_at_once(&self) {
        let mut state = self.state.lock();
        let AtOnce { count, .. } = &self.at_once;
        // Where another has begun since, that one comes here.
        if count.compare_exchange(AWAITED, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        if let Some(number) = state.at_once.take() {
            state.end(number);
        }
        self.go_on(state, FREED_AT_ONCE);
    }

    /// Has some of those go on who come behind nothing any more: at most so many who then have the next go on, and all who close before them.
    fn go_on<'a>(&'a self, mut state: MutexGuard<'a, State>, told_max: usize) {
        let mut told = 0;
        while told < told_max
            && let Some(free) = state.next_free()
        {
            effort::note(1);
            match free {
                BehindChange::Told { _hears: hears } => {
                    told += 1;
                    MutexGuard::unlocked(&mut state, || drop(hears));
                }
                BehindChange::Closes(open, then) => {
                    if let Some(then) = state.close_behind(open, then) {
                        MutexGuard::unlocked(&mut state, then);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
impl FileEntry {
    /// True where a change was entered that is not made yet.
    pub(super) fn has_changes(&self) -> bool {
        !self.under_way.state.lock().changes.is_empty()
    }
}

#[cfg(test)]
impl UnderWay {
    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.waiting.len() + state.closing.len()
    }

    /// True where nothing is known of any change.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.changes.is_empty()
            && state.by_open.is_empty()
            && state.ended.is_empty()
            && self.at_once.count.load(Ordering::Relaxed) == 0
    }
}

impl State {
    fn enter(&mut self, open: Option<OpenId>, range: Range<u64>) -> u64 {
        self.last_number += 1;
        if let Some(open) = open {
            let count = self.by_open.entry(open).or_default();
            count.all += 1;
            count.of_data += usize::from(!range.is_empty());
        }
        self.changes.insert(self.last_number, Entered { open, range });
        self.last_number
    }

    /// A change has ended. Gives what is to be done where it was the last one of an open that closes.
    fn end(&mut self, number: u64) -> Option<Then> {
        let ended = self.changes.remove(&number)?;
        if !self.waiting.is_empty() && self.first_of(Behind::One(number)).is_some() {
            self.ended.push(number);
        }
        let open = ended.open?;
        let count = self.by_open.get_mut(&open)?;
        count.all -= 1;
        count.of_data -= usize::from(!ended.range.is_empty());
        if count.all > 0 {
            return None;
        }
        self.by_open.remove(&open);
        self.closing.remove(&open)
    }

    /// Nothing more begins through `open`: what it has under way goes first.
    fn ended(&mut self, open: OpenId, whose: &Sid, made_at_once: Option<u64>) {
        let count = self.by_open.get(&open);
        if made_at_once.is_some() || count.is_some_and(|count| count.of_data > 0) {
            self.goes_first = self.last_number;
        } else if count.is_some() {
            let first = self.changes.first_key_value().map_or(u64::MAX, |(number, _)| *number);
            self.goes_first_of.retain(|(other, number)| other != whose && *number >= first);
            self.goes_first_of.push((*whose, self.last_number));
        }
    }

    /// Gives `then` back where nothing is under way that was entered through `open`.
    fn close_behind(&mut self, open: OpenId, then: Then) -> Option<Then> {
        if !self.by_open.contains_key(&open) {
            return Some(then);
        }
        let then = match self.closing.remove(&open) {
            None => then,
            Some(first) => Box::new(|| {
                first();
                then();
            }),
        };
        self.closing.insert(open, then);
        None
    }

    fn wait(&mut self, behind: Behind, waiting: BehindChange) -> WaitKey {
        self.last_ticket += 1;
        let place = WaitKey { behind, ticket: self.last_ticket };
        self.waiting.insert(place, waiting);
        place
    }

    /// The first of those who wait for the same.
    fn first_of(&self, behind: Behind) -> Option<WaitKey> {
        let all = WaitKey { behind, ticket: 0 }..=WaitKey { behind, ticket: u64::MAX };
        self.waiting.range(all).next().map(|(place, _)| *place)
    }

    /// Takes out one who comes behind nothing any more.
    fn next_free(&mut self) -> Option<BehindChange> {
        while let Some(number) = self.ended.last() {
            if let Some(place) = self.first_of(Behind::One(*number)) {
                return self.waiting.remove(&place);
            }
            self.ended.pop();
        }
        let first = *self.waiting.first_key_value()?.0;
        match first.behind {
            Behind::All(_) if self.has_ended(first.behind) => self.waiting.remove(&first),
            Behind::All(_) | Behind::One(_) => None,
        }
    }

    fn has_ended(&self, behind: Behind) -> bool {
        match behind {
            Behind::One(number) => !self.changes.contains_key(&number),
            Behind::All(last) => self.changes.first_key_value().is_none_or(|(number, _)| *number > last),
        }
    }

    /// What somebody has to wait for of the changes up to `last`, who comes behind those of a range through other opens.
    fn last_in_the_way(&self, last: u64, of: (OpenId, &Range<u64>), looks_left: &mut usize) -> Option<Behind> {
        let looks_before = *looks_left;
        let mut found = None;
        for (&number, change) in self.changes.range(..=last).rev() {
            if *looks_left == 0 {
                found = Some(Behind::All(number));
                break;
            }
            *looks_left -= 1;
            if change.is_in_the_way(of.0, of.1) {
                found = Some(Behind::One(number));
                break;
            }
        }
        effort::note((looks_before - *looks_left) / LOOKS_IN_A_STEP);
        found
    }
}

impl Entered {
    fn is_in_the_way(&self, open: OpenId, range: &Range<u64>) -> bool {
        self.open.is_none_or(|by| by != open && self.range.start < range.end && range.start < self.range.end)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let under_way = &self.file.under_way;
        let mut state = under_way.state.lock();
        let then = state.end(self.number);
        under_way.go_on(state, FREED_AT_ONCE);
        if let Some(then) = then {
            then();
        }
    }
}

impl Drop for ChangeAtOnce<'_> {
    fn drop(&mut self) {
        let ChangeAtOnce(under_way) = self;
        if under_way.at_once.count.fetch_sub(ONE, Ordering::AcqRel) == ONE | AWAITED {
            under_way.made_at_once();
        }
    }
}

impl Drop for ChangeWait {
    fn drop(&mut self) {
        let under_way = &self.file.under_way;
        let mut state = under_way.state.lock();
        // Who is not there any more was set free, and has the next one go on.
        if state.waiting.remove(&self.place).is_none() {
            under_way.go_on(state, 1);
        }
    }
}
