//! Threads for work that may wait for a device (the second law of the hot path). Work queues by device, for each device by user, and for
//! each user by session; each queue has its turn. A device holds so many threads at most, and of these each user and each session so many.
//! So a folder that hangs keeps its own users waiting and nobody else, and one user's backlog nobody of another, however many sessions it
//! is spread over. What others wait for goes before all else of its user: it stands in a queue of its own.
//!
//! There are two. A small request can make work without end: a pattern that fits nothing in a large directory, a copy. What it has left
//! after its first piece is done by a second pool, whose few threads come behind everybody else's where processors are scarce.

mod queues;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use store::waiting::Discarded;
use tokio::sync::oneshot;

pub(crate) use self::queues::{Device, Job, Turn};
use self::queues::{Limits, Queues};

/// What a thread's stack may take: all of it counts where the process's memory is limited, used or not.
pub(crate) const STACK_BYTES: u64 = 512 << 10;
/// How much less than others the threads for long work get where processors are scarce: a third (sched(7)).
const LONG_WORK_NICE: i32 = 5;
/// Pieces of work that wait in the queue of one session and device: its connections ask for less, unless it has more than eight that
/// wait for everything.
const QUEUED_MAX: usize = 8_192;
/// A thread above so many that do nothing ends when it had nothing to do for [`IDLE_TIME`].
const IDLE_THREADS_KEPT: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(10);
/// With more threads at work than so many, others may have to wait for a core.
const CROWD: usize = 8;

/// Starts a thread.
type Start = fn(Job) -> io::Result<()>;

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

impl Pool {
    /// A pool without threads yet.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Pool::of_threads(Limits::THREADS)
    }

    /// A pool of so many threads that wait for devices, without any yet.
    pub(crate) fn of_threads(threads: usize) -> Self {
        // Each device has one at least, whatever the others hold.
        Pool::with_threads(usize::MAX, Limits::of_short_work(threads), start_thread)
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
            start,
            discarded: Mutex::default(),
            #[cfg(feature = "in-memory")]
            called: tokio::sync::Notify::new(),
        }))
    }

    /// A pool whose work is done by [`Pool::work_once`] alone.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn by_hand() -> Self {
        Pool::with_threads(0, Limits::of_short_work(Limits::THREADS), start_thread)
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

    /// Has `work` run on a thread of the pool when its turn comes, and gives what its answer comes from: nothing where it panics or the pool
    /// has closed. `None` where too much waits for this turn.
    pub(crate) fn try_hand_over<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<oneshot::Receiver<T>> {
        if self.0.state.lock().queues.waiting(turn) >= QUEUED_MAX {
            return None;
        }
        Some(self.hand_over(turn, work))
    }

    /// The same, waited for: `None` where it panicked, too.
    #[cfg(test)]
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.try_hand_over(turn, work)?.await.ok()
    }

    /// The same however much waits for this turn.
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
        state.queues.may_begin() > state.called && state.threads < self.0.threads_max.min(state.queues.threads_max())
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
    thread::Builder::new().name("multilane-io".into()).stack_size(STACK_BYTES as usize).spawn(work).map(drop)
}

fn start_thread_behind_others(work: Job) -> io::Result<()> {
    let behind = move || {
        // On Linux this is the calling thread's own (setpriority(2), BUGS).
        let behind_own = |own: i32| rustix::process::setpriority_process(None, own + LONG_WORK_NICE);
        if let Err(error) = rustix::process::getpriority_process(None).and_then(behind_own) {
            tracing::debug!(%error, "a thread for long work comes behind nobody");
        }
        work();
    };
    let thread = thread::Builder::new().name("multilane-long".into()).stack_size(STACK_BYTES as usize);
    thread.spawn(behind).map(drop)
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
                if waited.timed_out() && state.idle >= IDLE_THREADS_KEPT && !state.queues.has_turns() {
                    state.threads -= 1;
                    return;
                }
            }
        }
    }
}
