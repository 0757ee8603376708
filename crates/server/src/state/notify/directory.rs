//! A directory that is watched: what changed in it, and the watches on it, each with the requests that wait (MS-FSA 2.1.1.8).
//!
//! Who makes a change adds it to the log and marks who waits for such changes as due, which costs the same however many there are.
//! A few who are due are told at once, more of them on the pool, in slices.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use store::{Guard, Identity, Reach};
use tokio::sync::oneshot;
use tokio::sync::watch::{Receiver, Sender, channel};
use wire::command::change_notify::CompletionFilter;
use wire::status::Status;

use super::log::{FILTER_BITS, KEPT_BYTES_MAX, Log, Unheard, Where, sorts, wished};
use super::name::SharedName;
use super::watch::Told;
use super::{Change, Wish};
use crate::resource::budget::Budget;
use crate::resource::budgets::Held;
use crate::resource::pool::{Pool, QueueKey};
use crate::state::open_id::OpenId;

/// How many who are due are told by who made the change.
pub(super) const TOLD_AT_ONCE_MAX: usize = 8;
/// How many are told in one slice, unless they are told so many changes.
pub(super) const SLICE_MAX: usize = 64;
const SLICE_CHANGES_MAX: usize = 4_096;

/// The directory.
pub(crate) struct Directory {
    identity: Identity,
    pool: Pool,
    state: Mutex<State>,
    /// What has the store tell of changes that other programs make: in the directory, and below it.
    ears: [Mutex<Ear>; 2],
}

/// Whether a store tells.
#[derive(Default)]
pub(crate) enum Ear {
    /// Nobody asked it to.
    #[default]
    Unasked,
    /// It is being asked for one who watches. Others do not wait for that: it may be in the queue of another's session. They are told to
    /// read the directory anew when it is done.
    Asked { by: OpenId, others: bool, done: Receiver<()> },
    /// As far as it can.
    Listens(Option<Guard>),
    /// It cannot. Whoever watched then was told that something was missed.
    Deaf,
}

/// The store is being asked to tell.
pub(crate) struct Asking {
    pub(crate) directory: Arc<Directory>,
    pub(crate) place: Where,
    is_answered: bool,
    /// Goes with this, which tells who waits for it.
    _done: Sender<()>,
}

/// What a request does to have the store tell.
pub(crate) enum Listen {
    /// Nothing: it tells, cannot, or is asked for another who watches.
    Nothing,
    /// It asks.
    Ask(Asking),
    /// An earlier request of the same watch asks, and it waits until that is done.
    Wait(Receiver<()>),
}

struct State {
    log: Log,
    watches: HashMap<OpenId, Watching>,
    /// How many watches read from which place in the log.
    places: BTreeMap<u64, usize>,
    /// Who waits, by what it waits for, and all. An open may still stand here after it was told.
    waiting: Vec<BTreeSet<OpenId>>,
    /// Who may have something to be told.
    due: VecDeque<BTreeSet<OpenId>>,
    /// Somebody tells them.
    telling: bool,
    /// Watches that began before this place have ended, and why.
    ended: Option<(u64, Status)>,
}

/// Where among those who wait all of them stand.
const EVERYBODY: usize = 2 * FILTER_BITS;

/// A watch. Filter and reach are those of the first request.
struct Watching {
    filter: CompletionFilter,
    reach: Reach,
    /// How many bytes it may have missed while no request waited: as the first request had room for, like Windows.
    bytes_max: usize,
    /// When it began, as a place in the log.
    began: u64,
    /// What it has not heard of begins here.
    place: u64,
    /// It missed something besides.
    missed: bool,
    requests: VecDeque<Request>,
    next_ticket: u64,
    /// What it is told is judged: what comes next may be for the same request.
    is_judged: bool,
    /// How many requests were told something and have yet to be answered.
    answering: usize,
    asked: bool,
    bytes: Arc<Budget>,
    _held: Held,
}

struct Request {
    ticket: u64,
    room: usize,
    answer: oneshot::Sender<News>,
}

/// What a request is told once the directory is no longer locked.
struct Telling {
    answer: oneshot::Sender<News>,
    told: Told,
    open: OpenId,
    ticket: u64,
}

/// What a request hears, and where more may come that it is being answered.
pub(crate) type News = (Told, Option<Answering>);

/// That a request was told something and is being answered: until this goes no later one overtakes it. Where what it was told is judged, none is
/// told anything.
pub(crate) struct Answering {
    directory: Arc<Directory>,
    open: OpenId,
    ticket: u64,
}

/// What became of a request.
pub(super) enum Asked {
    Told(News),
    Waits { ticket: u64, answer: oneshot::Receiver<News> },
}

impl Directory {
    pub(super) fn new(identity: Identity, pool: &Pool) -> Arc<Self> {
        let state = State {
            log: Log::default(),
            watches: HashMap::new(),
            places: BTreeMap::new(),
            waiting: (0..=EVERYBODY).map(|_| BTreeSet::new()).collect(),
            due: VecDeque::new(),
            telling: false,
            ended: None,
        };
        Arc::new(Directory { identity, pool: pool.clone(), state: Mutex::new(state), ears: Default::default() })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// One more watch, with what its user has less for it.
    pub(super) fn enter(&self, wish: &Wish, bytes: &Arc<Budget>, held: Held) {
        let mut state = self.state.lock();
        let place = state.log.next();
        state.log.enter(wish.filter, wish.reach, bytes);
        state.stand(place);
        let watch = Watching {
            filter: wish.filter,
            reach: wish.reach,
            bytes_max: wish.room.min(KEPT_BYTES_MAX),
            began: place,
            place,
            missed: false,
            requests: VecDeque::new(),
            next_ticket: 0,
            is_judged: wish.is_judged,
            answering: 0,
            asked: false,
            bytes: Arc::clone(bytes),
            _held: held,
        };
        state.watches.insert(wish.open, watch);
    }

    /// A watch less: its requests are told that nothing comes.
    pub(super) fn leave(&self, open: OpenId) {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.remove(&open) else { return };
        state.log.leave(watch.filter, watch.reach, &watch.bytes);
        state.unstand(watch.place);
        state.let_go();
        for sort in wished(watch.filter, watch.reach).chain([EVERYBODY]) {
            state.waiting[sort].remove(&open);
        }
        let status = state.end_of(&watch).unwrap_or(Status::NOTIFY_CLEANUP);
        drop(state);
        for request in watch.requests {
            // Who does not listen any more is not told.
            let _ = request.answer.send((Told::Ended(status), None));
        }
    }

    /// What asks the store to tell of changes, where nobody did so yet. For the first request of a watch, also where it could not.
    pub(super) fn ask_store(self: &Arc<Self>, open: OpenId, place: Where, is_first: bool) -> Listen {
        let mut ear = self.ears[place.index()].lock();
        match &mut *ear {
            Ear::Unasked => {}
            Ear::Deaf if is_first => {}
            Ear::Asked { by, done, .. } if *by == open => return Listen::Wait(done.clone()),
            Ear::Asked { others, .. } => {
                *others = true;
                return Listen::Nothing;
            }
            Ear::Listens(_) | Ear::Deaf => return Listen::Nothing,
        }
        let (sender, done) = channel(());
        *ear = Ear::Asked { by: open, others: false, done };
        Listen::Ask(Asking { directory: Arc::clone(self), place, is_answered: false, _done: sender })
    }

    /// Nobody watches the tree any more: no store needs to tell of it. May wait for the store.
    pub(super) fn forget_tree(&self) {
        let mut ear = self.ears[Where::Below.index()].lock();
        // What is being asked just now is told until the last watch ends.
        let forgotten = matches!(*ear, Ear::Listens(_)).then(|| std::mem::take(&mut *ear));
        drop(ear);
        drop(forgotten);
    }

    /// Nothing comes any more for those who watch now: their requests, those to come too, are answered with `status`.
    pub(super) fn end(self: &Arc<Self>, status: Status) {
        let mut state = self.state.lock();
        let end = state.log.mark();
        state.ended = Some((end, status));
        state.make_due(EVERYBODY);
        self.tell(state);
    }

    /// Adds those of `changes` that somebody wishes to hear of, together. `name` says what one of them is called here, told its place.
    pub(super) fn add(
        self: &Arc<Self>,
        place: Where,
        changes: &[Change<'_>],
        mut name: impl FnMut(usize) -> SharedName,
    ) {
        let mut state = self.state.lock();
        for (index, change) in changes.iter().enumerate() {
            if state.log.is_wanted(change.filter, place) {
                state.log.add(change.filter, place, (change.action, name(index), change.gone));
                sorts(change.filter, place).for_each(|sort| state.make_due(sort));
            }
        }
        self.tell(state);
    }

    /// True where somebody wishes to hear of such a change.
    pub(super) fn is_wanted(&self, filter: CompletionFilter, place: Where) -> bool {
        self.state.lock().log.is_wanted(filter, place)
    }

    /// Says that changes were missed.
    pub(super) fn miss(self: &Arc<Self>, place: Where) {
        let mut state = self.state.lock();
        state.log.miss(place);
        let first = if place == Where::Here { 0 } else { FILTER_BITS };
        (first..first + FILTER_BITS).for_each(|sort| state.make_due(sort));
        self.tell(state);
    }

    /// What there is to tell a request with `room` bytes, or a place to wait at: behind the others, or where it was told something `before`
    /// that it may not hear, before them.
    pub(super) fn ask(self: &Arc<Self>, open: OpenId, room: usize, before: Option<Answering>) -> Asked {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get(&open) else {
            return Asked::Told((Told::Ended(Status::NOTIFY_CLEANUP), None));
        };
        if let Some(status) = state.end_of(watch) {
            return Asked::Told((Told::Ended(status), None));
        }
        let is_next = before.is_some() || watch.requests.is_empty() && watch.answering == 0;
        let news = is_next.then(|| watch.news(&state.log, room.min(watch.bytes_max))).flatten();
        let ticket = before.as_ref().map_or_else(|| state.ticket(open), |before| before.ticket);
        if let Some(told) = news {
            state.tells(open);
            drop(state);
            return Asked::Told((told, Some(Answering { directory: Arc::clone(self), open, ticket })));
        }
        let (answer, receiver) = oneshot::channel();
        state.wait(open, Request { ticket, room, answer });
        drop(state);
        // It waits again, before the others: what came meanwhile is told it.
        drop(before);
        Asked::Waits { ticket, answer: receiver }
    }

    /// A request of a watch is answered: the next one may be told something.
    fn answered(self: &Arc<Self>, open: OpenId) {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get_mut(&open) else { return };
        watch.answering = watch.answering.saturating_sub(1);
        if watch.answering == 0 && !watch.requests.is_empty() {
            state.due.push_back(BTreeSet::from([open]));
            self.tell(state);
        }
    }

    /// A request does not wait any more. What it was told unheard is missed by who asks next.
    pub(super) fn give_up(self: &Arc<Self>, open: OpenId, ticket: u64) {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get_mut(&open) else { return };
        match watch.requests.binary_search_by_key(&ticket, |request| request.ticket) {
            Ok(index) => drop(watch.requests.remove(index)),
            Err(_) => {
                watch.missed = true;
                state.due.push_back(BTreeSet::from([open]));
                self.tell(state);
            }
        }
    }

    /// True while somebody watches it.
    pub(crate) fn is_watched(&self) -> bool {
        let state = self.state.lock();
        state.ended.is_none() && !state.watches.is_empty()
    }

    /// True for the first request of a watch.
    pub(super) fn asks_first(&self, open: OpenId) -> bool {
        let mut state = self.state.lock();
        state.watches.get_mut(&open).is_some_and(|watch| !std::mem::replace(&mut watch.asked, true))
    }

    /// True where a store tells of changes, or is asked to, which takes time to end.
    pub(super) fn is_listened_to(&self) -> bool {
        self.ears.iter().any(|ear| matches!(*ear.lock(), Ear::Asked { .. } | Ear::Listens(Some(_))))
    }

    /// Tells a few of those who are due, and has the pool tell the rest.
    fn tell(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.telling || state.due.is_empty() {
            return;
        }
        let telling = state.slice(TOLD_AT_ONCE_MAX);
        let more = !state.due.is_empty();
        state.telling = more;
        drop(state);
        if more {
            self.go_on();
        }
        telling.into_iter().for_each(|telling| telling.send(self));
    }

    fn go_on(self: &Arc<Self>) {
        let directory = Arc::clone(self);
        self.pool.submit(QueueKey::of_server(self.identity.volume), Box::new(move || directory.tell_slice()));
    }

    /// Tells a slice of them, and stands at the end of the queue for the next one.
    fn tell_slice(self: Arc<Self>) {
        let mut state = self.state.lock();
        let telling = state.slice(SLICE_MAX);
        let more = !state.due.is_empty();
        state.telling = more;
        drop(state);
        telling.into_iter().for_each(|telling| telling.send(&self));
        if more {
            self.go_on();
        }
    }

    /// How many stand in line to be told.
    #[cfg(test)]
    pub(super) fn due(&self) -> usize {
        self.state.lock().due.iter().map(BTreeSet::len).sum()
    }
}

impl Asking {
    /// What became of it.
    pub(crate) fn answer(mut self, ear: Ear) {
        self.is_answered = true;
        self.end(ear);
    }

    fn end(&self, ear: Ear) {
        let is_deaf = matches!(ear, Ear::Deaf);
        let before = std::mem::replace(&mut *self.directory.ears[self.place.index()].lock(), ear);
        if is_deaf || matches!(before, Ear::Asked { others: true, .. }) {
            self.directory.miss(self.place);
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_answered {
            // It was not even tried: whoever asks next tries it.
            self.end(Ear::Unasked);
        }
    }
}

impl State {
    /// Who waits for what is of a sort may have something to be told.
    fn make_due(&mut self, sort: usize) {
        let opens = std::mem::take(&mut self.waiting[sort]);
        if !opens.is_empty() {
            self.due.push_back(opens);
        }
    }

    /// What some of those are told who are due.
    fn slice(&mut self, opens_max: usize) -> Vec<Telling> {
        let mut telling = Vec::new();
        let mut changes = 0;
        for _ in 0..opens_max {
            let Some(open) = self.next_due() else { break };
            let Some(next) = self.tell_one(open) else { continue };
            if let Told::Changes(told) = &next.told {
                changes += told.len();
            }
            telling.push(next);
            if changes >= SLICE_CHANGES_MAX {
                break;
            }
        }
        telling
    }

    fn next_due(&mut self) -> Option<OpenId> {
        let first = self.due.front_mut()?;
        let open = first.pop_first();
        if first.is_empty() {
            self.due.pop_front();
        }
        open
    }

    /// Takes the first request of a watch, where there is something to tell it, and it is not to wait for an earlier one.
    fn tell_one(&mut self, open: OpenId) -> Option<Telling> {
        let watch = self.watches.get(&open).filter(|watch| !watch.is_judged || watch.answering == 0)?;
        let first = watch.requests.front()?;
        let end = self.end_of(watch);
        let news = end.map(Told::Ended).or_else(|| watch.news(&self.log, first.room.min(KEPT_BYTES_MAX)));
        if news.is_some() && end.is_none() {
            self.tells(open);
        }
        let watch = self.watches.get_mut(&open)?;
        let request = news.is_some().then(|| watch.requests.pop_front()).flatten();
        if !watch.requests.is_empty() {
            match end {
                Some(_) => self.due.push_back(BTreeSet::from([open])),
                None => self.stand_waiting(open),
            }
        }
        let Request { answer, ticket, .. } = request?;
        Some(Telling { answer, told: news?, open, ticket })
    }

    /// A request waits, in the order of the tickets.
    fn wait(&mut self, open: OpenId, request: Request) {
        let Some(watch) = self.watches.get_mut(&open) else { return };
        let place = watch.requests.partition_point(|other| other.ticket < request.ticket);
        watch.requests.insert(place, request);
        if watch.requests.len() == 1 {
            self.stand_waiting(open);
        }
    }

    /// A request's place among those of its watch.
    fn ticket(&mut self, open: OpenId) -> u64 {
        let Some(watch) = self.watches.get_mut(&open) else { return 0 };
        watch.next_ticket += 1;
        watch.next_ticket
    }

    /// A request is told all that its watch has not heard of.
    fn tells(&mut self, open: OpenId) {
        self.move_on(open);
        if let Some(watch) = self.watches.get_mut(&open) {
            watch.answering += 1;
        }
    }

    fn stand_waiting(&mut self, open: OpenId) {
        let Some(watch) = self.watches.get(&open) else { return };
        for sort in wished(watch.filter, watch.reach).chain([EVERYBODY]) {
            self.waiting[sort].insert(open);
        }
    }

    /// A watch has heard of all that there is.
    fn move_on(&mut self, open: OpenId) {
        let place = self.log.next();
        let Some(watch) = self.watches.get_mut(&open) else { return };
        watch.missed = false;
        let before = std::mem::replace(&mut watch.place, place);
        self.stand(place);
        self.unstand(before);
        self.let_go();
    }

    fn stand(&mut self, place: u64) {
        *self.places.entry(place).or_default() += 1;
    }

    fn unstand(&mut self, place: u64) {
        if let Some(count) = self.places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&place);
            }
        }
    }

    fn let_go(&mut self) {
        let first = self.places.first_key_value().map_or(u64::MAX, |(place, _)| *place);
        self.log.let_go(first);
    }

    fn end_of(&self, watch: &Watching) -> Option<Status> {
        self.ended.filter(|(end, _)| watch.began < *end).map(|(_, status)| status)
    }
}

impl Watching {
    fn news(&self, log: &Log, room: usize) -> Option<Told> {
        match log.unheard(self.place, self.filter, self.reach, room) {
            _ if self.missed => Some(Told::TooMany),
            Unheard::Nothing => None,
            Unheard::TooMuch => Some(Told::TooMany),
            Unheard::Changes(changes) => Some(Told::Changes(changes)),
        }
    }
}

impl Telling {
    fn send(self, directory: &Arc<Directory>) {
        let Telling { answer, told, open, ticket } = self;
        let is_more_to_come = !matches!(told, Told::Ended(_));
        let answering = is_more_to_come.then(|| Answering { directory: Arc::clone(directory), open, ticket });
        // Who has given up meanwhile has said so, and has whoever asks next told that something was missed.
        let _ = answer.send((told, answering));
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.directory.answered(self.open);
    }
}
