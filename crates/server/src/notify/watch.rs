//! One open's watch on a directory (MS-FSA 2.1.1.8): from its first request on it keeps what changes until a request takes it.
//! Requests are answered in their order (2.1.5.11.1).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use store::Guard;
use tokio::sync::oneshot;
use wire::fscc::notify::{Action, ChangeWriter};
use wire::status::Status;

use super::Wish;
use crate::budget::{Budget, Charge};

/// The most bytes of changes that are kept for an open, in the form in which they are sent: what Windows takes as the most that one
/// request may ask for (MS-SMB2 note 411).
const KEPT_BYTES_MAX: usize = 64 << 10;
/// An entry's bytes besides its name (MS-FSCC 2.7.1), and what it begins at a multiple of.
const ENTRY_BYTES: usize = 12;
const ENTRY_ALIGNMENT: usize = 4;

/// The watch. Filter and depth are those of the first request.
pub(crate) struct Watch {
    pub(super) wish: Wish,
    state: Mutex<State>,
}

struct State {
    /// For `changes`.
    charge: Charge,
    changes: Vec<(Action, String)>,
    bytes: usize,
    /// How many bytes may be kept while no request waits: as the first request had room for, like Windows.
    bytes_max: usize,
    /// There were changes that are not in `changes`: the directory must be read anew.
    lost: bool,
    waiting: VecDeque<Waiting>,
    next_ticket: u64,
    /// Nothing comes any more, and why.
    ended: Option<Status>,
    /// What has the store tell of changes that other programs make.
    guard: Option<Guard>,
    asked: bool,
}

struct Waiting {
    ticket: u64,
    room: usize,
    answer: oneshot::Sender<Told>,
}

/// What a request hears.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The changes, as FILE_NOTIFY_INFORMATION (MS-FSCC 2.7.1).
    Changes(Vec<u8>),
    /// More than there is room for.
    TooMany,
    /// Nothing, and nothing will come.
    Ended(Status),
}

/// A request that waits. Dropped before it was answered, it gives up its place.
pub(crate) struct Wait {
    watch: Arc<Watch>,
    ticket: u64,
    answer: oneshot::Receiver<Told>,
    heard: bool,
}

impl Watch {
    pub(super) fn new(wish: Wish, budget: &Arc<Budget>) -> Self {
        let state = State {
            charge: budget.overdraw(0),
            changes: Vec::new(),
            bytes: 0,
            bytes_max: wish.room.min(KEPT_BYTES_MAX),
            lost: false,
            waiting: VecDeque::new(),
            next_ticket: 0,
            ended: None,
            guard: None,
            asked: false,
        };
        Watch { wish, state: Mutex::new(state) }
    }

    /// What there is to tell with `room` bytes, or a place to wait at.
    pub(crate) fn take(self: &Arc<Self>, room: usize) -> Result<Told, Wait> {
        let mut state = self.state.lock();
        if let Some(status) = state.ended {
            return Ok(Told::Ended(status));
        }
        if state.waiting.is_empty() && state.has_something() {
            let told = state.tell(room);
            state.forget();
            return Ok(told);
        }
        let (answer, receiver) = oneshot::channel();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(Waiting { ticket, room, answer });
        Err(Wait { watch: Arc::clone(self), ticket, answer: receiver, heard: false })
    }

    /// Adds changes that belong together, and answers who waits.
    pub(super) fn add(&self, changes: impl Iterator<Item = (Action, String)>) {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        changes.for_each(|(action, name)| state.keep(action, name));
        state.answer();
    }

    /// Says that changes were missed.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.lose();
            state.answer();
        }
    }

    /// True for the first request.
    pub(super) fn asks_first(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().asked, true)
    }

    /// Keeps what has the store tell of changes, while the watch lasts.
    pub(super) fn listen(&self, guard: Guard) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.guard = Some(guard);
        }
    }

    /// True where the store tells of changes, which takes time to end.
    pub(super) fn listens(&self) -> bool {
        self.state.lock().guard.is_some()
    }

    /// Answers all requests, those to come too, with `status`. The first end counts.
    pub(super) fn end(&self, status: Status) {
        let mut state = self.state.lock();
        let guard = state.guard.take();
        state.forget();
        let status = *state.ended.get_or_insert(status);
        for waiting in state.waiting.drain(..) {
            // Who does not listen any more is not told.
            let _ = waiting.answer.send(Told::Ended(status));
        }
        drop(state);
        drop(guard);
    }
}

impl State {
    fn has_something(&self) -> bool {
        self.lost || !self.changes.is_empty()
    }

    fn keep(&mut self, action: Action, name: String) {
        let repeats = matches!(action, Action::MODIFIED | Action::MODIFIED_STREAM)
            && self.changes.last().is_some_and(|last| last.0 == action && last.1 == name);
        if self.lost || repeats {
            return;
        }
        self.bytes = self.bytes.next_multiple_of(ENTRY_ALIGNMENT) + ENTRY_BYTES + 2 * name.encode_utf16().count();
        let bytes_max = if self.waiting.is_empty() { self.bytes_max } else { KEPT_BYTES_MAX };
        let cost = size_of::<(Action, String)>() + name.capacity();
        if self.bytes > bytes_max || !self.charge.grow(cost as u64) {
            self.lose();
        } else {
            self.changes.push((action, name));
        }
    }

    fn lose(&mut self) {
        self.forget();
        self.lost = true;
    }

    fn forget(&mut self) {
        self.changes = Vec::new();
        self.charge.shrink_to(0);
        self.bytes = 0;
        self.lost = false;
    }

    /// Everything where it fits, else nothing.
    fn tell(&self, room: usize) -> Told {
        let mut bytes = Vec::new();
        let mut writer = ChangeWriter::new(&mut bytes, room);
        let fits = !self.lost && self.changes.iter().all(|(action, name)| writer.push(*action, name));
        if fits { Told::Changes(bytes) } else { Told::TooMany }
    }

    fn answer(&mut self) {
        while self.has_something() {
            let Some(first) = self.waiting.pop_front() else { return };
            let told = self.tell(first.room);
            // Who does not listen any more leaves the changes to the next.
            if first.answer.send(told).is_ok() {
                self.forget();
            }
        }
    }
}

impl Wait {
    /// Ends when there is something to tell. Safe to drop and call again.
    pub(crate) async fn end(&mut self) -> Told {
        let told = (&mut self.answer).await;
        self.heard = true;
        told.unwrap_or(Told::Ended(Status::NOTIFY_CLEANUP))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.heard {
            return;
        }
        let mut state = self.watch.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|waiting| waiting.ticket != self.ticket);
        // What was told unheard is lost to who asks next.
        if state.waiting.len() == before && state.ended.is_none() {
            state.lose();
            state.answer();
        }
    }
}
