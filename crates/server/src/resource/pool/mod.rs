//! Threads for work that may wait for a device (the second law of the hot path). Work queues by device, for each device by user, and for
//! each user by session; each queue has its turn. A device holds so many threads at most, and of these each user and each session so many.
//! So a folder that hangs keeps its own users waiting and nobody else, and one user's backlog nobody of another, however many sessions it
//! is spread over. What others wait for goes before all else of its user: it stands in a queue of its own.
//!
//! There are two. A small request can make work without end: a pattern that fits nothing in a large directory, a copy. What it has left
//! after its first piece is done by a second pool, whose few threads come behind everybody else's where processors are scarce. So do those of the
//! first that are more than there are cores: they are many because devices have to be waited for, and where all of them compute a shard would
//! have to stand in line with them. Where one of those beside the shards hangs, another takes its place ([`crew`]): what hangs does not compute.

mod crew;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use store::threads;
use store::waiting::Discarded;
use tokio::sync::oneshot;

use self::crew::{Crew, Row, Slot};
pub(crate) use self::queues::{Device, Job, QueueKey, Waiting};
use self::queues::{Limits, Queues, Work};

/// What a shard does itself of work that takes as long as what is asked for is large, where the file is memory: as much as a READ.
pub(crate) const INLINE_BYTES_MAX: u64 = 1 << 20;

/// What a thread's stack may take: all of it counts where the process's memory is limited, used or not.
pub(crate) const STACK_BYTES: u64 = 512 << 10;
/// How much less than others those threads get that come behind them where processors are scarce (sched(7)): the few that do long work a third each,
/// the many that wait for devices a thirtieth, for 46 that weigh a third each are as much as fifteen shards.
const NICE_OF_FEW: i32 = 5;
const NICE_OF_MANY: i32 = 15;
/// Pieces of work that wait in the queue of one session and device: its connections ask for less, unless it has more than eight that
/// wait for everything.
const QUEUED_MAX: usize = 8_192;
/// A thread above so many that do nothing ends when it had nothing to do for [`IDLE_TIME`].
const IDLE_THREADS_KEPT: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(10);
/// With more threads at work than so many, others may have to wait for a core.
const CROWD: usize = 8;

/// The threads of a pool.
#[derive(Clone, Copy)]
struct Threads {
    name: &'static str,
    max: usize,
    /// So many get as much of the processors as anybody; the others come behind, by so much.
    abreast: usize,
    nice: i32,
    start: fn(thread::Builder, Job) -> io::Result<()>,
}

impl Threads {
    fn new(name: &'static str, abreast: usize, nice: i32) -> Self {
        Threads { name, max: usize::MAX, abreast, nice, start: |thread, work| threads::start(thread, work) }
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
    /// Calls threads at rest, for each row.
    ready: [Condvar; 2],
    threads: Threads,
    /// The niceness of who made the pool.
    niceness: i32,
    /// What waits to be dropped, by volume.
    discarded: Mutex<HashMap<u64, Vec<Discarded>>>,
    /// Calls whoever does the work by hand.
    #[cfg(any(test, feature = "in-memory"))]
    called: tokio::sync::Notify,
}

struct State {
    queues: Queues,
    crew: Crew,
    closed: bool,
}

impl Pool {
    /// A pool without threads yet.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Pool::of_threads(Limits::THREADS, 2)
    }

    /// A pool of so many threads that wait for devices, without any yet, on a machine of so many cores.
    pub(crate) fn of_threads(threads: usize, cores: usize) -> Self {
        // Each device has one at least, whatever the others hold.
        Pool::with(Threads::new("multilane-io", cores, NICE_OF_MANY), Limits::of_short_work(threads))
    }

    /// The pool for long work, on a machine of so many cores.
    pub(crate) fn for_long_work(cores: usize) -> Self {
        Pool::with(Threads::new("multilane-long", 0, NICE_OF_FEW), Limits::of_long_work(cores))
    }

    fn with(threads: Threads, limits: Limits) -> Self {
        let state = State { queues: Queues::new(limits), crew: Crew::of(threads.abreast), closed: false };
        Pool(Arc::new(Inner {
            state: Mutex::new(state),
            running: AtomicUsize::new(0),
            ready: Default::default(),
            threads,
            niceness: rustix::process::getpriority_process(None).unwrap_or(0),
            discarded: Mutex::default(),
            #[cfg(any(test, feature = "in-memory"))]
            called: tokio::sync::Notify::new(),
        }))
    }

    /// A pool whose work is done by [`Pool::work_once`] alone.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn by_hand() -> Self {
        Pool::with(Threads { max: 0, ..Threads::new("by hand", 0, 0) }, Limits::of_short_work(Limits::THREADS))
    }

    /// Starts the one thread that is there however few the system gives later.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let place = self.0.state.lock().crew.expect();
        self.start_thread(place)
    }

    /// Starts threads for work that none could be started for when it came, and in the places of those that hang beside the shards. To be called
    /// now and then.
    pub(crate) fn start_missing(&self) {
        loop {
            let mut state = self.0.state.lock();
            if state.closed || !(self.lacks_thread(&state) || self.lacks_front(&mut state)) {
                return;
            }
            let place = state.crew.expect();
            drop(state);
            if self.start_thread(place).is_err() {
                return;
            }
        }
    }

    /// Where work has waited for a device for so long, how much there does.
    pub(crate) fn waiting_longer(&self, than: Duration) -> Vec<Waiting> {
        self.0.state.lock().queues.waiting_longer(than)
    }

    /// True where so many threads are at work that they may keep others from the cores.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.running.load(Ordering::Relaxed) > CROWD
    }

    /// True where nothing waits, nor has begun.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.0.state.lock().queues.are_empty()
    }

    /// How much waits for a turn.
    #[cfg(test)]
    pub(crate) fn waiting(&self, queue_key: QueueKey) -> usize {
        self.0.state.lock().queues.waiting(queue_key)
    }

    /// Does the next piece of work here; false where there is none.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn work_once(&self) -> bool {
        self.take_once().map(|work| work()).is_some()
    }

    /// Takes the next piece of work, as a thread does that then waits for a device: it is done when it is called.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn take_once(&self) -> Option<impl FnOnce()> {
        let (begun, Work { job, .. }) = self.0.state.lock().queues.take()?;
        Some(move || {
            store::waiting::allow(job);
            self.0.state.lock().queues.done(begun);
        })
    }

    /// Ends when work has come since it ended last.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) async fn called(&self) {
        self.0.called.notified().await;
    }

    /// Has `work` run on a thread of the pool when its turn comes, and gives what its answer comes from: nothing where it panics or the pool
    /// has closed. `None` where too much waits for this turn.
    pub(crate) fn try_hand_over<T: Send + 'static>(
        &self,
        queue_key: QueueKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<oneshot::Receiver<T>> {
        if self.0.state.lock().queues.waiting(queue_key) >= QUEUED_MAX {
            return None;
        }
        Some(self.hand_over(queue_key, work))
    }

    /// The same, waited for: `None` where it panicked, too.
    #[cfg(test)]
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        queue_key: QueueKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.try_hand_over(queue_key, work)?.await.ok()
    }

    /// The same however much waits for this turn.
    pub(crate) fn hand_over<T: Send + 'static>(
        &self,
        queue_key: QueueKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (send, receive) = oneshot::channel();
        self.submit(queue_key, Box::new(move || drop(send.send(work()))));
        receive
    }

    /// Ends the threads once the queue is empty; later work is dropped.
    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.ready.iter().for_each(|ready| _ = ready.notify_all());
    }

    /// Runs `job` when its turn comes.
    pub(crate) fn submit(&self, queue_key: QueueKey, job: Job) {
        #[cfg(test)]
        let job = if self.0.threads.max > 0 { crate::tests::virtual_time::stands_still_for(job) } else { job };
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        state.queues.push(queue_key, Work { job, heard: store::heard() });
        self.send_for_one(state);
        #[cfg(any(test, feature = "in-memory"))]
        self.0.called.notify_one();
    }

    /// Calls a thread that rests for work that waits, or starts one. Whoever gives work wakes one thread, so that it costs no shard its time; that one
    /// sends for the next.
    fn send_for_one(&self, mut state: MutexGuard<'_, State>) {
        let is_to_start = match state.crew.at_rest() {
            Some(Row::Front) => false,
            Some(Row::Rear) => self.lacks_front(&mut state),
            None => self.lacks_thread(&state),
        };
        if is_to_start {
            let place = state.crew.expect();
            drop(state);
            if let Err(error) = self.start_thread(place) {
                tracing::error!(name: "thread_not_started", %error, "no thread could be started for work that waits for a device; it waits for another");
                self.call(self.0.state.lock());
            }
        } else {
            self.call(state);
        }
    }

    /// Calls a thread that rests.
    fn call(&self, mut state: MutexGuard<'_, State>) {
        let called = state.crew.call();
        drop(state);
        if let Some(row) = called {
            self.0.ready[row as usize].notify_one();
        }
    }

    /// Drops something that belongs to a volume, together with whatever else of it waits to be dropped.
    pub(crate) fn discard(&self, volume: u64, discarded: Discarded) {
        let mut waiting = self.0.discarded.lock();
        let all = waiting.entry(volume).or_default();
        all.push(discarded);
        if all.len() == 1 {
            let inner = Arc::clone(&self.0);
            self.submit(
                QueueKey::of_server(volume),
                Box::new(move || {
                    let all = inner.discarded.lock().remove(&volume);
                    drop(all);
                }),
            );
        }
    }

    /// True where one more thread would have work, and may be.
    fn lacks_thread(&self, state: &State) -> bool {
        state.queues.may_begin() > state.crew.called() && self.may_start(state)
    }

    /// True where one more would come behind nobody, and may be.
    fn lacks_front(&self, state: &mut State) -> bool {
        state.crew.lacks_front() && self.may_start(state)
    }

    fn may_start(&self, state: &State) -> bool {
        state.crew.threads() < self.0.threads.max.min(state.queues.threads_max())
    }

    fn start_thread(&self, place: Slot) -> io::Result<()> {
        let pool = self.clone();
        let thread = thread::Builder::new().name(self.0.threads.name.into()).stack_size(STACK_BYTES as usize);
        (self.0.threads.start)(thread, Box::new(move || pool.work(place)))
            .inspect_err(|_| self.0.state.lock().crew.forget(place))
    }

    /// What a thread does.
    fn work(&self, mut place: Slot) {
        if place.row() == Row::Rear {
            self.come_behind();
        }
        let mut has_lost_place = false;
        let mut state = self.0.state.lock();
        state.crew.rise(place, true);
        loop {
            if let Some((begun, Work { job, heard })) = state.queues.take() {
                state.crew.begin(place);
                if state.queues.has_turns() {
                    self.send_for_one(state);
                } else {
                    drop(state);
                }
                self.0.running.fetch_add(1, Ordering::Relaxed);
                store::arrived_by_another(heard);
                // A job that panics loses its own answer (its sender is dropped), never the thread.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                self.0.running.fetch_sub(1, Ordering::Relaxed);
                state = self.0.state.lock();
                state.queues.done(begun);
                let now = state.crew.end(place);
                if now != place {
                    (place, has_lost_place) = (now, true);
                    MutexGuard::unlocked(&mut state, || self.come_behind());
                }
            } else if state.closed || (has_lost_place && state.crew.idle() >= IDLE_THREADS_KEPT) {
                // Where devices hang again and again each time one more comes behind.
                state.crew.leave(place);
                return;
            } else {
                has_lost_place = false;
                state.crew.rest(place);
                let waited = self.0.ready[place.row() as usize].wait_for(&mut state, IDLE_TIME);
                state.crew.rise(place, !waited.timed_out());
                let stays = place.row() == Row::Front || state.crew.idle() < IDLE_THREADS_KEPT;
                if waited.timed_out() && !stays && !state.queues.has_turns() {
                    state.crew.leave(place);
                    return;
                }
            }
        }
    }

    /// Has this thread get less where processors are scarce.
    fn come_behind(&self) {
        crew::note_behind();
        // On Linux this is the calling thread's own (setpriority(2), BUGS).
        if let Err(error) = rustix::process::setpriority_process(None, self.0.niceness + self.0.threads.nice) {
            tracing::debug!(%error, "a thread of the pool comes behind nobody");
        }
    }
}
