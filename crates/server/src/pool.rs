//! Threads for work that may wait for a device (the second law of the hot path). Work queues by device, for each device by user, and for
//! each user by session; each queue has its turn. A device holds so many threads at most, and of these each user and each session so many.
//! So a folder that hangs keeps its own users waiting and nobody else, and one user's backlog nobody of another, however many sessions it
//! is spread over. What others wait for goes before all else of its user: it stands in a queue of its own.
//!
//! There are two. A small request can make work without end: a pattern that fits nothing in a large directory, a copy. What it has left
//! after its first piece is done by a second pool, whose few threads come behind everybody else's where processors are scarce.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use store::waiting::Discarded;
use tokio::sync::oneshot;

use crate::user::User;

/// How many threads there are for what.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Pieces of work that wait on one device at a time.
    device: usize,
    /// Of these, the pieces of one user: others of the same folder go on beside one whose work hangs.
    user: usize,
    /// Of these, the pieces of one session: others of the same user go on beside one that hangs on a single file.
    session: usize,
    /// Threads in all. Past it each device has one still.
    all: usize,
}

/// Where work waits more than it computes. Ten devices that hang leave some threads.
const SHORT_WORK: Limits = Limits { device: 48, user: 40, session: 32, all: 512 };
/// How much less than others the threads for long work get where processors are scarce: a third (sched(7)).
const LONG_WORK_NICE: i32 = 5;
/// The queue of what others wait for, in place of a session's: no session has this number.
const FIRST: u64 = u64::MAX;
/// Pieces of work that wait in the queue of one session and device: its connections ask for less, unless it has more than eight that
/// wait for everything.
const QUEUED_MAX: usize = 8_192;
/// A thread above so many that do nothing ends when it had nothing to do for [`IDLE_TIME`].
const IDLE_THREADS_KEPT: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(10);

/// With more threads at work than so many, others may have to wait for a core.
const CROWD: usize = 8;

pub(crate) type Job = Box<dyn FnOnce() + Send>;
/// Starts a thread.
type Start = fn(Job) -> io::Result<()>;

/// What a piece of work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Device {
    /// The server's own folder: records of opens.
    Own,
    /// The volume of a share (`store::Facts::volume`), or what is mounted below one.
    Volume(u64),
    /// Two of them, the smaller number first. Work that needs both hangs where either does, so it takes no thread of those that wait for
    /// one alone.
    Volumes(u64, u64),
}

impl Device {
    /// What work waits for that needs both volumes, which may be one.
    pub(crate) fn of_both(one: u64, other: u64) -> Self {
        if one == other { Device::Volume(one) } else { Device::Volumes(one.min(other), one.max(other)) }
    }
}

/// Whose turn a piece of work takes at a device. The server's own work is that of user 0, and what is done for a user without a session
/// that of session 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) device: Device,
    /// `User::number`.
    pub(crate) user: u64,
    pub(crate) session: u64,
}

impl Turn {
    /// What the server does in its own folder.
    pub(crate) const OWN: Turn = Turn { device: Device::Own, user: 0, session: 0 };

    /// What the server does of itself with the files of a share.
    pub(crate) fn of_server(volume: u64) -> Self {
        Turn { device: Device::Volume(volume), user: 0, session: 0 }
    }

    /// The same for what others wait for until it is done, in whose way the user's backlog would stand otherwise.
    pub(crate) fn first(self) -> Self {
        Turn { session: FIRST, ..self }
    }

    /// What the server does with the files of a share for a user whose session has them no more. It keeps nobody else's waiting.
    pub(crate) fn of_user(volume: u64, user: &User) -> Self {
        Turn { device: Device::Volume(volume), user: user.number, session: 0 }
    }
}

/// The pool. Threads start when work comes; they end with the pool, or when there was nothing to do. Where the system gives no more
/// threads, work waits for those that there are.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Pieces of work that threads have begun.
    running: AtomicUsize,
    ready: Condvar,
    threads_max: usize,
    limits: Limits,
    start: Start,
    /// What waits to be dropped, by volume.
    discarded: Mutex<HashMap<u64, Vec<Discarded>>>,
    /// Calls whoever does the work by hand.
    #[cfg(feature = "in-memory")]
    called: tokio::sync::Notify,
}

struct State {
    queues: Queues,
    threads: usize,
    idle: usize,
    /// Idle threads that have been called and are not awake yet.
    called: usize,
    closed: bool,
}

/// Work that has not begun.
struct Queues {
    limits: Limits,
    devices: HashMap<Device, DeviceQueue>,
    /// Devices that have work which may begin, in the order of their turns.
    turns: VecDeque<Device>,
    running: usize,
}

#[derive(Default)]
struct DeviceQueue {
    users: HashMap<u64, UserQueue>,
    /// Users that have work which may begin, in the order of their turns.
    turns: VecDeque<u64>,
    waiting: usize,
    running: usize,
    has_turn: bool,
}

#[derive(Default)]
struct UserQueue {
    sessions: HashMap<u64, SessionQueue>,
    /// Sessions that have work which may begin, in the order of their turns.
    turns: VecDeque<u64>,
    running: usize,
    has_turn: bool,
}

#[derive(Default)]
struct SessionQueue {
    jobs: VecDeque<Job>,
    running: usize,
    has_turn: bool,
}

impl Limits {
    /// How many threads wait for a device: a quarter for two volumes, of which there are many pairs.
    fn at(self, device: Device) -> Self {
        match device {
            Device::Own | Device::Volume(_) => self,
            Device::Volumes(..) => {
                let [device, user, session] =
                    [self.device, self.user, self.session].map(|threads| (threads / 4).max(1));
                Limits { device, user, session, ..self }
            }
        }
    }

    /// For long work: a few for each core, which are a part of what it can do, and enough for disks that are slow.
    fn of_long_work(cores: usize) -> Self {
        Limits { device: 4 * cores, user: 3 * cores, session: 2 * cores, all: 16 * cores }
    }
}

impl Queues {
    fn new(limits: Limits) -> Self {
        Queues { limits, devices: HashMap::new(), turns: VecDeque::new(), running: 0 }
    }

    /// How much a session has waiting at a device.
    fn waiting(&self, turn: Turn) -> usize {
        let user = self.devices.get(&turn.device).and_then(|device| device.users.get(&turn.user));
        user.and_then(|user| user.sessions.get(&turn.session)).map_or(0, |session| session.jobs.len())
    }

    /// Pieces of work that could begin now if there were threads, at most.
    fn may_begin(&self) -> usize {
        let devices = self.turns.iter().filter_map(|id| Some((self.limits.at(*id), self.devices.get(id)?)));
        devices.map(|(limits, device)| device.waiting.min(limits.device - device.running)).sum()
    }

    fn push(&mut self, turn: Turn, job: Job) {
        let device = self.devices.entry(turn.device).or_default();
        device.waiting += 1;
        let user = device.users.entry(turn.user).or_default();
        user.sessions.entry(turn.session).or_default().jobs.push_back(job);
        self.give_turn(turn);
    }

    /// The next piece of work, which begins now, and whose it is. [`Queues::done`] has to be told when it has ended.
    fn take(&mut self) -> Option<(Turn, Job)> {
        for _ in 0..self.turns.len() {
            let device_id = self.turns.pop_front()?;
            let device = self.devices.get_mut(&device_id)?;
            if self.running >= self.limits.all && device.running > 0 {
                self.turns.push_back(device_id);
                continue;
            }
            device.has_turn = false;
            let user_id = device.turns.pop_front()?;
            let user = device.users.get_mut(&user_id)?;
            user.has_turn = false;
            let session_id = user.turns.pop_front()?;
            let session = user.sessions.get_mut(&session_id)?;
            session.has_turn = false;
            let job = session.jobs.pop_front()?;
            session.running += 1;
            user.running += 1;
            device.waiting -= 1;
            device.running += 1;
            self.running += 1;
            let turn = Turn { device: device_id, user: user_id, session: session_id };
            self.give_turn(turn);
            return Some((turn, job));
        }
        None
    }

    /// A piece of work has ended.
    fn done(&mut self, turn: Turn) {
        self.running -= 1;
        let Some(device) = self.devices.get_mut(&turn.device) else { return };
        device.running -= 1;
        if let Some(user) = device.users.get_mut(&turn.user) {
            user.running -= 1;
            if let Some(session) = user.sessions.get_mut(&turn.session) {
                session.running -= 1;
                if session.running == 0 && session.jobs.is_empty() {
                    user.sessions.remove(&turn.session);
                }
            }
            if user.sessions.is_empty() {
                device.users.remove(&turn.user);
            }
        }
        if device.users.is_empty() {
            self.devices.remove(&turn.device);
        } else {
            self.give_turn(turn);
        }
    }

    /// Puts a session, its user and its device at the end of the turns where they have work that may begin, and stand there not yet.
    fn give_turn(&mut self, turn: Turn) {
        let limits = self.limits.at(turn.device);
        let Some(device) = self.devices.get_mut(&turn.device) else { return };
        if let Some(user) = device.users.get_mut(&turn.user) {
            if let Some(session) = user.sessions.get_mut(&turn.session)
                && !session.has_turn
                && !session.jobs.is_empty()
                && session.running < limits.session
            {
                session.has_turn = true;
                match turn.session {
                    FIRST => user.turns.push_front(FIRST),
                    session => user.turns.push_back(session),
                }
            }
            if !user.has_turn && !user.turns.is_empty() && user.running < limits.user {
                user.has_turn = true;
                device.turns.push_back(turn.user);
            }
        }
        if !device.has_turn && !device.turns.is_empty() && device.running < limits.device {
            device.has_turn = true;
            self.turns.push_back(turn.device);
        }
    }
}

impl Pool {
    /// A pool without threads yet.
    pub(crate) fn new() -> Self {
        // Each device has one thread at least, whatever the others hold.
        Pool::with_threads(usize::MAX, SHORT_WORK, start_thread)
    }

    /// The pool for long work, on a machine of so many cores.
    pub(crate) fn for_long_work(cores: usize) -> Self {
        Pool::with_threads(usize::MAX, Limits::of_long_work(cores), start_thread_behind_others)
    }

    fn with_threads(threads_max: usize, limits: Limits, start: Start) -> Self {
        let state = State { queues: Queues::new(limits), threads: 0, idle: 0, called: 0, closed: false };
        Pool(Arc::new(Inner {
            state: Mutex::new(state),
            running: AtomicUsize::new(0),
            ready: Condvar::new(),
            threads_max,
            limits,
            start,
            discarded: Mutex::default(),
            #[cfg(feature = "in-memory")]
            called: tokio::sync::Notify::new(),
        }))
    }

    /// A pool whose work is done by [`Pool::work_once`] alone.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn by_hand() -> Self {
        Pool::with_threads(0, SHORT_WORK, start_thread)
    }

    /// Starts the one thread that is there however few the system gives later.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.expect_thread(&mut self.0.state.lock());
        self.start_thread()
    }

    /// Starts threads for work that none could be started for when it came. To be called now and then: those that there are may all
    /// hang.
    pub(crate) fn start_missing(&self) {
        loop {
            let mut state = self.0.state.lock();
            if state.closed || !self.lacks_thread(&state) {
                return;
            }
            self.expect_thread(&mut state);
            drop(state);
            if self.start_thread().is_err() {
                return;
            }
        }
    }

    /// True where so many threads are at work that they may keep others from the cores.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.running.load(Ordering::Relaxed) > CROWD
    }

    /// How much waits for a turn.
    #[cfg(test)]
    pub(crate) fn waiting(&self, turn: Turn) -> usize {
        self.0.state.lock().queues.waiting(turn)
    }

    /// Does the next piece of work here; false where there is none.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn work_once(&self) -> bool {
        let next = self.0.state.lock().queues.take();
        let Some((turn, job)) = next else { return false };
        store::waiting::allow(job);
        self.0.state.lock().queues.done(turn);
        true
    }

    /// Ends when work has come since it ended last.
    #[cfg(feature = "in-memory")]
    pub(crate) async fn called(&self) {
        self.0.called.notified().await;
    }

    /// Runs `work` on a thread of the pool when its turn comes and gives its answer, or `None` where it panicked, the pool has closed, or
    /// too much waits for this turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.0.state.lock().queues.waiting(turn) >= QUEUED_MAX {
            return None;
        }
        self.hand_over(turn, work).await.ok()
    }

    /// The same however much waits for this turn, and begun before the answer is waited for.
    pub(crate) fn hand_over<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (send, receive) = oneshot::channel();
        self.submit(turn, Box::new(move || drop(send.send(work()))));
        receive
    }

    /// Ends the threads once the queue is empty; later work is dropped.
    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.ready.notify_all();
    }

    /// Runs `job` when its turn comes.
    pub(crate) fn submit(&self, turn: Turn, job: Job) {
        #[cfg(test)]
        let job = if self.0.threads_max > 0 { crate::virtual_time::stands_still_for(job) } else { job };
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        state.queues.push(turn, job);
        if state.idle > state.called {
            state.called += 1;
            drop(state);
            self.0.ready.notify_one();
        } else if self.lacks_thread(&state) {
            self.expect_thread(&mut state);
            drop(state);
            if let Err(error) = self.start_thread() {
                tracing::warn!(%error, "no thread could be started for work that waits for a device; it waits for another");
            }
        } else {
            drop(state);
        }
        #[cfg(feature = "in-memory")]
        self.0.called.notify_one();
    }

    /// Drops something that belongs to a volume, together with whatever else of it waits to be dropped.
    pub(crate) fn discard(&self, volume: u64, discarded: Discarded) {
        let mut waiting = self.0.discarded.lock();
        let all = waiting.entry(volume).or_default();
        all.push(discarded);
        if all.len() == 1 {
            let inner = Arc::clone(&self.0);
            self.submit(
                Turn::of_server(volume),
                Box::new(move || {
                    let all = inner.discarded.lock().remove(&volume);
                    drop(all);
                }),
            );
        }
    }

    /// True where one more thread would have work, and may be.
    fn lacks_thread(&self, state: &State) -> bool {
        state.queues.may_begin() > state.called
            && state.threads < self.0.threads_max.min(self.0.limits.all + state.queues.devices.len())
    }

    /// Counts a thread that is about to be started as one that is idle and has been called.
    fn expect_thread(&self, state: &mut State) {
        (state.threads, state.idle, state.called) = (state.threads + 1, state.idle + 1, state.called + 1);
    }

    fn start_thread(&self) -> io::Result<()> {
        let inner = Arc::clone(&self.0);
        (self.0.start)(Box::new(move || inner.work())).inspect_err(|_| {
            let mut state = self.0.state.lock();
            (state.threads, state.idle, state.called) =
                (state.threads - 1, state.idle - 1, state.called.saturating_sub(1));
        })
    }
}

fn start_thread(work: Job) -> io::Result<()> {
    thread::Builder::new().name("multilane-io".into()).spawn(work).map(drop)
}

fn start_thread_behind_others(work: Job) -> io::Result<()> {
    let behind = move || {
        // On Linux this is the calling thread's own (setpriority(2), BUGS).
        if let Err(error) = rustix::process::setpriority_process(None, LONG_WORK_NICE) {
            tracing::debug!(%error, "a thread for long work comes behind nobody");
        }
        work();
    };
    thread::Builder::new().name("multilane-long".into()).spawn(behind).map(drop)
}

impl Inner {
    fn work(&self) {
        let mut state = self.state.lock();
        (state.idle, state.called) = (state.idle - 1, state.called.saturating_sub(1));
        loop {
            if let Some((turn, job)) = state.queues.take() {
                drop(state);
                self.running.fetch_add(1, Ordering::Relaxed);
                // A job that panics loses its own answer (its sender is dropped), never the thread.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                self.running.fetch_sub(1, Ordering::Relaxed);
                state = self.state.lock();
                state.queues.done(turn);
            } else if state.closed {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                let waited = self.ready.wait_for(&mut state, IDLE_TIME);
                state.idle -= 1;
                let called = if waited.timed_out() { state.called } else { state.called.saturating_sub(1) };
                state.called = called.min(state.idle);
                if waited.timed_out() && state.idle >= IDLE_THREADS_KEPT && state.queues.turns.is_empty() {
                    state.threads -= 1;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const ONE: Turn = Turn { device: Device::Volume(1), user: 1, session: 1 };

    fn at(device: u64) -> Turn {
        Turn { device: Device::Volume(device), ..ONE }
    }

    #[tokio::test]
    async fn work_is_answered_and_a_panic_is_none() {
        let pool = Pool::new();
        assert_eq!(pool.run(ONE, || 7).await, Some(7));
        assert_eq!(pool.run(ONE, || -> u8 { std::panic::resume_unwind(Box::new(())) }).await, None);
        assert_eq!(pool.run(ONE, || 8).await, Some(8));
        pool.close();
        assert_eq!(pool.run(ONE, || 9).await, None);
    }

    /// Jobs that end when they are let go.
    struct Hanging {
        gate: Arc<(Mutex<bool>, Condvar)>,
    }

    impl Hanging {
        fn new() -> Self {
            Hanging { gate: Arc::default() }
        }

        fn job(&self) -> Job {
            let gate = Arc::clone(&self.gate);
            Box::new(move || {
                let mut open = gate.0.lock();
                while !*open {
                    gate.1.wait(&mut open);
                }
            })
        }

        fn end(&self) {
            *self.gate.0.lock() = true;
            self.gate.1.notify_all();
        }
    }

    #[test]
    fn what_others_wait_for_goes_before_the_backlog_of_its_user_and_behind_that_of_nobody() {
        let (pool, done) = (Pool::by_hand(), Arc::new(Mutex::new(Vec::new())));
        let submit = |turn, name| {
            let done = Arc::clone(&done);
            pool.submit(turn, Box::new(move || done.lock().push(name)));
        };
        for session in 1..=3 {
            (0..3).for_each(|_| submit(Turn { session, ..ONE }, "backlog"));
        }
        (0..2).for_each(|_| submit(Turn { user: 2, ..ONE }, "other user"));
        (0..2).for_each(|_| submit(Turn { session: 2, ..ONE }.first(), "first"));
        (0..5).for_each(|_| assert!(pool.work_once()));
        assert_eq!(*done.lock(), ["first", "other user", "first", "other user", "backlog"]);
    }

    #[tokio::test]
    async fn a_pool_with_many_threads_at_work_is_crowded() {
        let (pool, hanging) = (Pool::new(), Hanging::new());
        for count in 0..=CROWD {
            assert!(!pool.is_crowded(), "{count} at work");
            pool.submit(ONE, hanging.job());
            while pool.0.running.load(Ordering::Relaxed) == count {
                thread::yield_now();
            }
        }
        assert!(pool.is_crowded());
        hanging.end();
        while pool.is_crowded() {
            thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_device_that_hangs_keeps_nobody_elses_work_waiting() {
        let (pool, hanging) = (Pool::new(), Hanging::new());
        for device in 1..=3 {
            for session in 0..200 {
                pool.submit(Turn { user: session / 2, session, ..at(device) }, hanging.job());
            }
        }
        let other = at(4);
        assert_eq!(pool.run(other, || 1).await, Some(1));
        let own = Turn { device: Device::Own, ..ONE };
        assert_eq!(pool.run(own, || 2).await, Some(2));
        assert!(pool.0.state.lock().threads <= 3 * SHORT_WORK.device + 2);
        hanging.end();
        for device in 1..=3 {
            assert_eq!(pool.run(Turn { session: 7, ..at(device) }, || 3).await, Some(3));
        }
        pool.close();
    }

    #[tokio::test]
    async fn long_work_has_few_threads_and_comes_behind_others() {
        let (pool, hanging) = (Pool::for_long_work(2), Hanging::new());
        for session in 0..60 {
            for _ in 0..8 {
                pool.submit(Turn { user: session / 2, session, ..ONE }, hanging.job());
            }
        }
        assert_eq!(pool.0.state.lock().threads, 8);
        let other = at(2);
        let (first, others) = (|| rustix::process::getpriority_process(None).unwrap(), 0);
        assert_eq!(pool.run(other, first).await, Some(others + LONG_WORK_NICE));
        assert_eq!(Pool::new().run(other, first).await, Some(others));
        hanging.end();
        pool.close();
    }

    #[tokio::test]
    async fn each_device_has_a_thread_however_many_hang() {
        let (pool, hanging) = (Pool::new(), Hanging::new());
        for device in 0..20 {
            for _ in 0..40 {
                pool.submit(at(device), hanging.job());
            }
        }
        let other = at(99);
        assert_eq!(pool.run(other, || 1).await, Some(1));
        hanging.end();
        pool.close();
    }

    #[tokio::test]
    async fn one_session_that_hangs_leaves_threads_for_others_of_its_device() {
        let (pool, hanging) = (Pool::new(), Hanging::new());
        (0..200).for_each(|_| pool.submit(ONE, hanging.job()));
        assert_eq!(pool.run(Turn { session: 2, ..ONE }, || 1).await, Some(1));
        hanging.end();
        pool.close();
    }

    #[tokio::test]
    async fn one_user_that_hangs_leaves_threads_for_others_of_its_device() {
        for pool in [Pool::new(), Pool::for_long_work(1)] {
            let hanging = Hanging::new();
            (0..200).for_each(|session| pool.submit(Turn { session, ..ONE }, hanging.job()));
            assert_eq!(pool.run(Turn { user: 2, session: 200, ..ONE }, || 1).await, Some(1));
            hanging.end();
            pool.close();
        }
    }

    #[tokio::test]
    async fn work_that_hangs_on_one_of_two_devices_leaves_the_threads_of_both() {
        for pool in [Pool::new(), Pool::for_long_work(1)] {
            let hanging = Hanging::new();
            for user in 0..200 {
                let device = if user % 2 == 0 { Device::of_both(1, 2) } else { Device::of_both(2, 1) };
                pool.submit(Turn { device, user, session: user }, hanging.job());
            }
            for device in 1..=2 {
                assert_eq!(pool.run(at(device), move || device).await, Some(device));
            }
            let with_another = Turn { device: Device::of_both(2, 3), ..ONE };
            assert_eq!(pool.run(with_another, || 3).await, Some(3));
            assert!(pool.0.state.lock().threads <= SHORT_WORK.device / 4 + 3);
            hanging.end();
            pool.close();
        }
        assert_eq!(Device::of_both(1, 1), Device::Volume(1));
    }

    thread_local! {
        /// Threads that the system still gives to who asks on this one.
        static LEFT: Cell<usize> = const { Cell::new(0) };
    }

    fn start_where_left(work: Job) -> io::Result<()> {
        let left = LEFT.get().checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        LEFT.set(left);
        start_thread(work)
    }

    #[tokio::test]
    async fn what_no_thread_can_be_started_for_is_done_by_the_one_there_is() {
        let pool = Pool::with_threads(usize::MAX, SHORT_WORK, start_where_left);
        assert!(pool.begin().is_err(), "a server does not start without a thread");
        LEFT.set(1);
        pool.begin().unwrap();
        let devices = (1..=20).map(|device| Turn { session: device, ..at(device) });
        let answers: Vec<_> = devices.map(|turn| pool.hand_over(turn, move || turn.session)).collect();
        for (answer, session) in answers.into_iter().zip(1..) {
            assert_eq!(answer.await, Ok(session));
        }
        assert_eq!(pool.0.state.lock().threads, 1);
        pool.close();
    }

    #[tokio::test]
    async fn work_beside_a_device_that_hangs_begins_once_a_thread_can_be_started() {
        let (pool, hanging) = (Pool::with_threads(usize::MAX, SHORT_WORK, start_where_left), Hanging::new());
        LEFT.set(1);
        pool.begin().unwrap();
        pool.submit(ONE, hanging.job());
        let answer = pool.hand_over(at(2), || 1);
        pool.start_missing();
        LEFT.set(1);
        pool.start_missing();
        assert_eq!(answer.await, Ok(1));
        hanging.end();
        pool.close();
    }

    #[test]
    fn sessions_take_turns() {
        let (pool, order) = (Pool::by_hand(), Arc::new(Mutex::new(Vec::new())));
        let add = |session: u64, name: &'static str| {
            let order = Arc::clone(&order);
            pool.submit(Turn { session, ..ONE }, Box::new(move || order.lock().push(name)));
        };
        ["a1", "a2", "a3"].into_iter().for_each(|name| add(1, name));
        ["b1", "b2"].into_iter().for_each(|name| add(2, name));
        add(3, "c1");
        while pool.work_once() {}
        assert_eq!(*order.lock(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(pool.0.state.lock().queues.devices.is_empty(), "nothing is remembered of who has no work");
    }

    #[test]
    fn users_take_turns_whatever_their_sessions() {
        let (pool, order) = (Pool::by_hand(), Arc::new(Mutex::new(Vec::new())));
        let add = |user: u64, session: u64, name: &'static str| {
            let order = Arc::clone(&order);
            pool.submit(Turn { user, session, ..ONE }, Box::new(move || order.lock().push(name)));
        };
        for (session, names) in [(1, ["a1", "a1 again"]), (2, ["a2", "a2 again"]), (3, ["a3", "a3 again"])] {
            names.into_iter().for_each(|name| add(1, session, name));
        }
        ["b4", "b4 again"].into_iter().for_each(|name| add(2, 4, name));
        while pool.work_once() {}
        assert_eq!(*order.lock(), ["a1", "b4", "a2", "b4 again", "a3", "a1 again", "a2 again", "a3 again"]);
        assert!(pool.0.state.lock().queues.devices.is_empty(), "nothing is remembered of who has no work");
    }

    #[tokio::test]
    async fn too_much_of_one_session_is_refused() {
        let pool = Pool::by_hand();
        (0..QUEUED_MAX).for_each(|_| pool.submit(ONE, Box::new(|| ())));
        assert_eq!(pool.run(ONE, || 1).await, None);
        let other = pool.run(Turn { session: 2, ..ONE }, || 1);
        let (answer, ()) = tokio::join!(other, async { while pool.work_once() {} });
        assert_eq!(answer, Some(1));
    }
}
