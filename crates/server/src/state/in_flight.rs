//! Requests that are not answered yet: what CANCEL, an interim answer and the end of the connection need to find.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use store::{Identity, effort};
use tokio::sync::Notify;
use tokio::time::Instant;
use wire::ids::{AsyncId, MessageId, SessionId};
use wire::status::Status;

use crate::resource::turns::{STEP_COST, TURN_BYTES, Turn};
use crate::state::counters::{Throttle, Wait, Waits};

/// A request that waits for this machine alone for so long gets an interim answer (3.3.4.2), so that its client does not give it up, which
/// clients do after 10 seconds or more. Not sooner: Windows sends none then (note 240), so there are clients that take one for a fault, or
/// lose the credits that came with it. What waits for another client asks for one at once.
pub(crate) const INTERIM_AFTER: Duration = Duration::from_secs(5);

/// Who has done so much on its shard stands in line before it goes on.
const IN_LINE_AFTER: usize = TURN_BYTES as usize / 8;

/// One request that has not been answered.
pub(crate) struct InFlight {
    pub(crate) message_id: MessageId,
    /// The session that its header names: only that one cancels it.
    session_id: SessionId,
    /// Set once an interim answer has gone out.
    pub(crate) async_id: Cell<Option<AsyncId>>,
    /// It may be answered late.
    may_wait: Cell<bool>,
    cancelled: Cell<bool>,
    /// It waits for something that another client does.
    waits_for_others: Cell<bool>,
    /// Others wait for what it does.
    is_awaited: Cell<bool>,
    done_here: Cell<usize>,
    /// Of that what has counted for the connection's turn.
    spent: Cell<usize>,
    /// It goes on when its connection is lost: its client asks again on another channel.
    outlives_connection: Cell<bool>,
    /// Bytes that are held for it while it waits for others, where they are many.
    held: Cell<u64>,
    /// What it waits for where it waits now,
    waits_for: Cell<Wait>,
    /// since when it does, and how long it has waited before.
    waiting_since: Cell<Option<Instant>>,
    waited: Cell<Waits>,
    /// The limit of its share that it waited for first.
    throttle: Cell<Option<Throttle>>,
    /// Whom a client who signs in says it is, where that is audited.
    claimed_user: RefCell<Option<Box<str>>>,
    /// The file whose name it has given to another.
    replaced: Cell<Option<Identity>>,
    cancel: Notify,
    interim: Notify,
}

/// Fewer bytes are not many.
const MUCH_HELD: u64 = 64 << 10;

impl InFlight {
    pub(crate) fn new(message_id: MessageId, session_id: SessionId) -> Rc<Self> {
        Rc::new(InFlight {
            message_id,
            session_id,
            async_id: Cell::new(None),
            may_wait: Cell::new(false),
            cancelled: Cell::new(false),
            waits_for_others: Cell::new(false),
            is_awaited: Cell::new(false),
            done_here: Cell::new(0),
            spent: Cell::new(0),
            outlives_connection: Cell::new(false),
            held: Cell::new(0),
            waits_for: Cell::new(Wait::Store),
            waiting_since: Cell::new(None),
            waited: Cell::default(),
            throttle: Cell::new(None),
            claimed_user: RefCell::default(),
            replaced: Cell::new(None),
            cancel: Notify::new(),
            interim: Notify::new(),
        })
    }

    /// Notes whom a client who signs in says it is.
    pub(crate) fn note_claimed_user(&self, user: &str) {
        *self.claimed_user.borrow_mut() = Some(user.into());
    }

    pub(crate) fn claimed_user(&self) -> Option<Box<str>> {
        self.claimed_user.borrow().clone()
    }

    /// Notes the file whose name it has given to another, if it has.
    pub(crate) fn note_replaced(&self, file: Option<Identity>) {
        self.replaced.set(file);
    }

    pub(crate) fn replaced(&self) -> Option<Identity> {
        self.replaced.get()
    }

    /// Asks for an interim answer at once: the request waits for something that another client does. Refused where more of its chain
    /// follows, which would have to wait with it, unless it is a CREATE; Windows answers so too.
    pub(crate) fn announce_wait(&self) -> Result<(), Status> {
        self.waits_for.set(Wait::OtherClient);
        if !self.may_wait.get() {
            return Err(Status::INTERNAL_ERROR);
        }
        self.waits_for_others.set(true);
        self.interim.notify_one();
        Ok(())
    }

    /// True where the request may be answered late: no more of its chain follows, or it is a CREATE.
    pub(crate) fn may_wait(&self) -> bool {
        self.may_wait.get()
    }

    /// Allows it to be answered late.
    pub(crate) fn let_wait(&self) {
        self.may_wait.set(true);
    }

    /// Ends when an interim answer was asked for.
    pub(crate) async fn wait_announced(&self) {
        self.interim.notified().await;
    }

    /// It holds something that others wait for until it is done: what it has left to do goes before all else of its user.
    pub(crate) fn keep_others_waiting(&self) {
        self.is_awaited.set(true);
    }

    /// True where others wait until it is done.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.get()
    }

    /// Its shard has done work for it that takes as long as `bytes` are many.
    pub(crate) fn note_done_here(&self, bytes: u64) {
        self.done_here.set(self.done_here.get() + bytes as usize);
    }

    /// Runs its work, and counts the steps that its shard does for it. What is done before it waits counts for the connection's `turn` then: many
    /// requests may begin in one. Where it has done much it stands in line before it goes on. The work stays where it is: it is large.
    pub(crate) async fn counting<T>(&self, turn: &Turn, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        let mut since_line = 0;
        loop {
            let mut was_polled = false;
            let done = poll_fn(|task| {
                if std::mem::replace(&mut was_polled, true) {
                    return Poll::Ready(None);
                }
                self.goes_on();
                let (polled, steps) = effort::of(|| work.as_mut().poll(task));
                self.note_done_here((steps * STEP_COST) as u64);
                match polled {
                    Poll::Ready(done) => Poll::Ready(Some(done)),
                    Poll::Pending => {
                        since_line += self.spend(turn);
                        self.waiting_since.set(Some(Instant::now()));
                        Poll::Pending
                    }
                }
            });
            if let Some(done) = done.await {
                return done;
            }
            if since_line >= IN_LINE_AFTER {
                turn.another().await;
                since_line = 0;
            }
        }
    }

    /// It may have waited: what for was known when it began to.
    fn goes_on(&self) {
        if let Some(since) = self.waiting_since.take() {
            self.note_waited(self.waits_for.get(), since.elapsed());
        }
    }

    /// It has waited for so long.
    pub(crate) fn note_waited(&self, wait: Wait, time: Duration) {
        let mut waited = self.waited.get();
        waited.add(wait, time);
        self.waited.set(waited);
    }

    /// How long it has waited, and for what.
    pub(crate) fn waited(&self) -> Waits {
        self.waited.get()
    }

    /// Has what is waited for until `end` count as waiting for a limit.
    pub(crate) async fn waiting_for_budget<T>(&self, end: impl Future<Output = T>) -> T {
        self.waits_for.set(Wait::Budget);
        let end = end.await;
        self.waits_for.set(Wait::Store);
        end
    }

    /// It waits for a limit of its share.
    pub(crate) fn note_throttle(&self, throttle: Throttle) {
        self.throttle.set(self.throttle.get().or(Some(throttle)));
    }

    /// The limit of its share that it waited for first.
    pub(crate) fn throttle(&self) -> Option<Throttle> {
        self.throttle.get()
    }

    /// Has what its shard has worked on, beside what has come in and goes out, count for the connection's turn; gives how many bytes it is more
    /// than before.
    pub(crate) fn spend(&self, turn: &Turn) -> usize {
        let more = self.done_here.get() - self.spent.replace(self.done_here.get());
        turn.spend(more);
        more
    }

    /// How many bytes that is in all.
    pub(crate) fn done_here(&self) -> usize {
        self.done_here.get()
    }

    /// Has the request go on when its connection is lost.
    pub(crate) fn outlive_connection(&self) {
        self.outlives_connection.set(true);
    }

    /// Ends when the request is cancelled.
    pub(crate) async fn cancelled(&self) {
        while !self.cancelled.get() {
            self.cancel.notified().await;
        }
    }

    /// Waits for `end`, or is refused where the request is cancelled first.
    pub(crate) async fn unless_cancelled<T>(&self, end: impl Future<Output = T>) -> Result<T, Status> {
        let end = tokio::select! {
            biased;
            end = end => Ok(end),
            () = self.cancelled() => Err(Status::CANCELLED),
        };
        // From now on it waits for nobody else.
        self.waits_for.set(Wait::Store);
        end
    }

    fn cancel(&self) {
        self.cancelled.set(true);
        self.cancel.notify_one();
    }
}

/// A connection's unanswered requests.
#[derive(Default)]
pub(crate) struct InFlightTable {
    waiting: RefCell<BTreeMap<MessageId, Rc<InFlight>>>,
    /// Those that have an AsyncId.
    by_async_id: RefCell<BTreeMap<AsyncId, Rc<InFlight>>>,
    announced: Cell<usize>,
    held_by_waits: Cell<u64>,
    next_async_id: Cell<u64>,
}

/// A request's place in the table, given up when dropped.
pub(crate) struct InFlightEntry<'a> {
    table: &'a InFlightTable,
    request: Rc<InFlight>,
}

impl InFlightTable {
    /// Makes a request one that can be cancelled.
    pub(crate) fn enter(&self, request: &Rc<InFlight>) -> InFlightEntry<'_> {
        request.let_wait();
        self.waiting.borrow_mut().insert(request.message_id, Rc::clone(request));
        InFlightEntry { table: self, request: Rc::clone(request) }
    }

    /// The AsyncId given last.
    pub(crate) fn last_async_id(&self) -> u64 {
        self.next_async_id.get()
    }

    /// Gives AsyncIds above `last` from now on.
    pub(crate) fn go_on_after(&self, last: u64) {
        self.next_async_id.set(last);
    }

    /// How many have had an interim answer.
    pub(crate) fn announced(&self) -> usize {
        self.announced.get()
    }

    /// Gives a request its AsyncId, unique on the connection.
    pub(crate) fn make_async(&self, request: &Rc<InFlight>) -> AsyncId {
        let id = AsyncId(self.next_async_id.get() + 1);
        self.next_async_id.set(id.0);
        self.announced.set(self.announced.get() + 1);
        request.async_id.set(Some(id));
        self.by_async_id.borrow_mut().insert(id, Rc::clone(request));
        id
    }

    /// Cancels the request of `session` that has `async_id`, or else `message_id` (MS-SMB2 3.3.5.16). Nothing where it is answered already, or
    /// another session's.
    pub(crate) fn cancel(&self, session: SessionId, async_id: Option<AsyncId>, message_id: MessageId) {
        let found = match async_id {
            Some(id) => self.by_async_id.borrow().get(&id).cloned(),
            None => self.waiting.borrow().get(&message_id).cloned(),
        };
        if let Some(request) = found.filter(|request| request.session_id == session) {
            request.cancel();
        }
    }

    /// Cancels everything but what outlives the connection.
    pub(crate) fn cancel_all(&self) {
        for request in self.waiting.borrow().values().filter(|request| !request.outlives_connection.get()) {
            request.cancel();
        }
    }

    /// Cancels what waits for other clients, which may be for ever, but for what outlives the connection.
    pub(crate) fn cancel_waits(&self) {
        let waits = |request: &&Rc<InFlight>| request.waits_for_others.get() && !request.outlives_connection.get();
        self.waiting.borrow().values().filter(waits).for_each(|request| request.cancel());
    }

    /// `bytes` are held for a request that waits.
    pub(crate) fn note_held(&self, request: &InFlight, bytes: u64) {
        if request.waits_for_others.get() && bytes >= MUCH_HELD {
            request.held.set(bytes);
            self.held_by_waits.set(self.held_by_waits.get() + bytes);
        }
    }

    /// Bytes that are held for requests that wait for other clients, of those that hold much.
    pub(crate) fn held_by_waits(&self) -> u64 {
        self.held_by_waits.get()
    }

    /// Cancels these.
    pub(crate) fn cancel_waits_that_hold(&self) {
        let hold = |request: &&Rc<InFlight>| request.held.get() > 0 && !request.outlives_connection.get();
        self.waiting.borrow().values().filter(hold).for_each(|request| request.cancel());
    }

    /// Cancels what would outlive the connection: the server stops, or no session of its is left.
    pub(crate) fn cancel_outliving(&self) {
        for request in self.waiting.borrow().values().filter(|request| request.outlives_connection.get()) {
            request.cancel();
        }
    }
}

impl Drop for InFlightEntry<'_> {
    fn drop(&mut self) {
        self.table.waiting.borrow_mut().remove(&self.request.message_id);
        self.table.held_by_waits.set(self.table.held_by_waits.get() - self.request.held.take());
        if let Some(id) = self.request.async_id.get() {
            self.table.by_async_id.borrow_mut().remove(&id);
            self.table.announced.set(self.table.announced.get() - 1);
        }
    }
}
