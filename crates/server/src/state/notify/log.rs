//! What changed in a directory, kept once for all who watch it. Each of them has a place in it, and reads from there what it wishes to
//! hear of. So a change costs the same however many watch, and reading is the work of who asks.
//!
//! Changes of one sort are in one queue: a watch wishes to hear of all of them or of none. So what was let go of a full queue is what
//! a watch with a place before it has missed, and no sort crowds out another.

use std::collections::VecDeque;
use std::sync::Arc;

use store::Reach;
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;

use super::name::SharedName;
use crate::resource::budget::{Budget, Charge};

/// The most bytes of changes that are kept of one sort, in the form in which they are sent: what Windows takes as the most that one
/// request may ask for (MS-SMB2 note 411).
pub(super) const KEPT_BYTES_MAX: usize = 64 << 10;
/// The most changes that are kept of a directory: two sorts with the shortest names, or many with longer ones.
const KEPT_MAX: usize = 8_192;
/// How many changes that nobody needs any more are let go at a time. More are added at a time by nobody.
const LET_GO_MAX: usize = 256;
/// How many users are asked to pay for a change before it is lost.
const PAYERS_ASKED_MAX: usize = 8;
/// An entry's bytes besides its name (MS-FSCC 2.7.1), and what it begins at a multiple of.
const ENTRY_BYTES: usize = 12;
const ENTRY_ALIGNMENT: usize = 4;
/// Bits of a filter that mean something.
pub(super) const FILTER_BITS: usize = 12;

/// Where a change was made, as who watches a directory sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In the directory itself.
    Here,
    /// Below it: only who watches the tree is told.
    Below,
}

/// The changes, in their order.
#[derive(Default)]
pub(super) struct Log {
    /// The place of the next one.
    next: u64,
    queues: Vec<Queue>,
    kept: usize,
    /// Before this place something here was missed, and something below.
    missed: [u64; 2],
    wanted: Wanted,
    payers: Vec<Payer>,
    /// Who paid last.
    paid: usize,
}

/// Changes of one sort.
struct Queue {
    filter: CompletionFilter,
    place: Where,
    changes: VecDeque<Kept>,
    bytes: usize,
    /// What had a place before this one was let go though somebody may need it.
    lost: u64,
}

struct Kept {
    place: u64,
    change: Arc<Noted>,
}

/// A change as it is told.
pub(crate) struct Noted {
    pub(super) action: Action,
    pub(super) name: SharedName,
    /// How many names had gone when it was made ([`Gone`](super::gone::Gone)).
    pub(super) gone: u64,
    /// As an entry that is sent.
    bytes: usize,
    _charge: Charge,
}

/// What is wished for, and by how many.
struct Wanted([u32; 2 * FILTER_BITS]);

/// A user of whom somebody watches.
struct Payer {
    bytes: Arc<Budget>,
    watches: usize,
    wanted: Wanted,
}

/// What a watch has not heard of.
pub(super) enum Unheard {
    Nothing,
    /// All of it.
    Changes(Vec<Arc<Noted>>),
    /// More than is kept, or than it has room for.
    TooMuch,
}

impl Where {
    /// Its place among the two.
    pub(super) fn index(self) -> usize {
        match self {
            Where::Here => 0,
            Where::Below => 1,
        }
    }

    pub(super) fn is_reached(self, reach: Reach) -> bool {
        self == Where::Here || reach == Reach::Tree
    }
}

/// Which of the numbers that stand for a bit of a filter and a place a change has.
pub(super) fn sorts(filter: CompletionFilter, place: Where) -> impl Iterator<Item = usize> {
    (0..FILTER_BITS).filter(move |bit| filter.0 >> bit & 1 == 1).map(move |bit| bit + FILTER_BITS * place.index())
}

/// Which of them a watch wishes to hear of.
pub(super) fn wished(filter: CompletionFilter, reach: Reach) -> impl Iterator<Item = usize> {
    let below = (reach == Reach::Tree).then(|| sorts(filter, Where::Below));
    sorts(filter, Where::Here).chain(below.into_iter().flatten())
}

impl Log {
    /// The place behind all that there is.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Sets a mark: what has a place before the one given came earlier than what has it.
    pub(super) fn mark(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// One more watch, which `bytes` pays for.
    pub(super) fn enter(&mut self, filter: CompletionFilter, reach: Reach, bytes: &Arc<Budget>) {
        self.wanted.add(filter, reach);
        let known = self.payers.iter().position(|payer| Arc::ptr_eq(&payer.bytes, bytes)).unwrap_or_else(|| {
            self.payers.push(Payer { bytes: Arc::clone(bytes), watches: 0, wanted: Wanted::default() });
            self.payers.len() - 1
        });
        let payer = &mut self.payers[known];
        payer.watches += 1;
        payer.wanted.add(filter, reach);
    }

    /// One watch less.
    pub(super) fn leave(&mut self, filter: CompletionFilter, reach: Reach, bytes: &Arc<Budget>) {
        self.wanted.remove(filter, reach);
        let Some(known) = self.payers.iter().position(|payer| Arc::ptr_eq(&payer.bytes, bytes)) else { return };
        let payer = &mut self.payers[known];
        payer.watches -= 1;
        payer.wanted.remove(filter, reach);
        if payer.watches == 0 {
            self.payers.remove(known);
        }
    }

    /// True where somebody wishes to hear of such a change.
    pub(super) fn is_wanted(&self, filter: CompletionFilter, place: Where) -> bool {
        self.wanted.has(filter, place)
    }

    /// Adds a change. One of data or attributes that repeats the last one takes its place, so that who has heard of neither is told once.
    pub(super) fn add(
        &mut self,
        filter: CompletionFilter,
        place: Where,
        (action, name, gone): (Action, SharedName, u64),
    ) {
        let number = self.next;
        self.next += 1;
        let index = self.queue(filter, place);
        if let Some(last) = self.queues[index].changes.back_mut()
            && last.change.is_repeated_by(action, &name)
        {
            last.place = number;
            return;
        }
        let bytes = ENTRY_BYTES + 2 * name.units();
        // Each pays for the whole text that names share: it may be the last to hold it.
        let counts = 4 * size_of::<usize>();
        let cost = size_of::<Noted>() + counts + size_of::<Kept>() + name.held_bytes();
        let charge = self.charge(filter, place, cost as u64);
        let queue = &mut self.queues[index];
        let Some(charge) = charge else {
            self.kept -= queue.clear();
            queue.lost = number + 1;
            return;
        };
        queue.bytes += bytes.next_multiple_of(ENTRY_ALIGNMENT);
        let change = Arc::new(Noted { action, name, gone, bytes, _charge: charge });
        queue.changes.push_back(Kept { place: number, change });
        self.kept += 1;
        while queue.bytes > KEPT_BYTES_MAX && queue.lose() {
            self.kept -= 1;
        }
        if self.kept > KEPT_MAX
            && let Some(largest) = self.queues.iter_mut().max_by_key(|queue| queue.changes.len())
            && largest.lose()
        {
            self.kept -= 1;
        }
    }

    /// Something was missed.
    pub(super) fn miss(&mut self, place: Where) {
        self.missed[place.index()] = self.mark();
    }

    /// What came at `from` or later, where it fits into `room` bytes.
    pub(super) fn unheard(&self, from: u64, filter: CompletionFilter, reach: Reach, room: usize) -> Unheard {
        let missed = |place: Where| place.is_reached(reach) && self.missed[place.index()] > from;
        if missed(Where::Here) || missed(Where::Below) {
            return Unheard::TooMuch;
        }
        let mut queues = Vec::new();
        for queue in &self.queues {
            if !queue.place.is_reached(reach) || !queue.filter.intersects(filter) {
                continue;
            }
            if queue.lost > from {
                return Unheard::TooMuch;
            }
            let first = queue.changes.partition_point(|kept| kept.place < from);
            if first < queue.changes.len() {
                queues.push((&queue.changes, first));
            }
        }
        let mut changes: Vec<Arc<Noted>> = Vec::new();
        let mut bytes = 0_usize;
        loop {
            let place =
                |(queue, index): &(&VecDeque<Kept>, usize)| queue.get(*index).map_or(u64::MAX, |kept| kept.place);
            let Some((queue, index)) = queues.iter_mut().min_by_key(|queue| place(queue)) else { break };
            let Some(Kept { change, .. }) = queue.get(*index) else { break };
            *index += 1;
            if changes.last().is_some_and(|last| last.is_repeated_by(change.action, &change.name)) {
                continue;
            }
            bytes = bytes.next_multiple_of(ENTRY_ALIGNMENT) + change.bytes;
            if bytes > room {
                return Unheard::TooMuch;
            }
            changes.push(Arc::clone(change));
        }
        if changes.is_empty() { Unheard::Nothing } else { Unheard::Changes(changes) }
    }

    /// Lets go what comes before `first`, where everybody reads from that place or a later one. Only so much at a time.
    pub(super) fn let_go(&mut self, first: u64) {
        let mut left = LET_GO_MAX;
        for queue in &mut self.queues {
            while left > 0 && queue.changes.front().is_some_and(|kept| kept.place < first) {
                queue.pop();
                self.kept -= 1;
                left -= 1;
            }
        }
    }

    fn queue(&mut self, filter: CompletionFilter, place: Where) -> usize {
        let known = self.queues.iter().position(|queue| queue.filter == filter && queue.place == place);
        known.unwrap_or_else(|| {
            self.queues.push(Queue { filter, place, changes: VecDeque::new(), bytes: 0, lost: 0 });
            self.queues.len() - 1
        })
    }

    /// Has somebody pay who wishes to hear of such changes: each in turn, so that a user who has nothing left loses nothing for others.
    fn charge(&mut self, filter: CompletionFilter, place: Where, cost: u64) -> Option<Charge> {
        let count = self.payers.len();
        let behind = (1..=count).map(|step| (self.paid + step) % count);
        let mut asked = behind.filter(|index| self.payers[*index].wanted.has(filter, place)).take(PAYERS_ASKED_MAX);
        let (paid, charge) = asked.find_map(|index| Some((index, self.payers[index].bytes.charge(cost)?)))?;
        self.paid = paid;
        Some(charge)
    }
}

impl Queue {
    fn pop(&mut self) -> Option<Kept> {
        let kept = self.changes.pop_front()?;
        self.bytes -= kept.change.bytes.next_multiple_of(ENTRY_ALIGNMENT);
        Some(kept)
    }

    /// Lets the oldest change go though somebody may need it; false where there is none.
    fn lose(&mut self) -> bool {
        let gone = self.pop();
        self.lost = gone.as_ref().map_or(self.lost, |kept| kept.place + 1);
        gone.is_some()
    }

    /// Lets all go; gives how many there were.
    fn clear(&mut self) -> usize {
        self.bytes = 0;
        std::mem::take(&mut self.changes).len()
    }
}

impl Noted {
    /// True where another change of data or attributes says no more than this one.
    fn is_repeated_by(&self, action: Action, name: &str) -> bool {
        matches!(action, Action::MODIFIED | Action::MODIFIED_STREAM) && self.action == action && *self.name == *name
    }
}

impl Wanted {
    fn add(&mut self, filter: CompletionFilter, reach: Reach) {
        wished(filter, reach).for_each(|sort| self.0[sort] += 1);
    }

    fn remove(&mut self, filter: CompletionFilter, reach: Reach) {
        wished(filter, reach).for_each(|sort| self.0[sort] -= 1);
    }

    fn has(&self, filter: CompletionFilter, place: Where) -> bool {
        sorts(filter, place).any(|sort| self.0[sort] > 0)
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted([0; 2 * FILTER_BITS])
    }
}
