//! Busy polling. A thread that sleeps has to be woken by another core, which can take longer than the work that it is woken for. A thread
//! that polls uses time that others may want. So it polls for a moment where that has paid of late, and sleeps where it has not.
//!
//! # Example
//!
//! On a thread with a runtime of its own, one task polls and the others say when they work:
//!
//! ```
//! use std::rc::Rc;
//!
//! use busy_poll::BusyPoll;
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let local = tokio::task::LocalSet::new();
//! let sum = local.block_on(&runtime, async {
//!     let busy_poll = Rc::new(BusyPoll::thrifty());
//!     let poller = Rc::clone(&busy_poll);
//!     tokio::task::spawn_local(async move { poller.run().await });
//!     busy_poll.attend(async { 1 + 1 }).await
//! });
//! assert_eq!(sum, 2);
//! # Ok::<(), std::io::Error>(())
//! ```

mod policy;
mod trust;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

pub use crate::policy::{Policy, Polling};
use crate::trust::Trust;

/// How long a thread polls before it sleeps: what the other side takes for a batch of small requests, and no more than two threads lose by
/// waking each other.
const POLL_MAX: Duration = Duration::from_micros(50);
/// How long an eager one polls: as long as the other side takes that has to be woken first.
const EAGER_POLL_MAX: Duration = Duration::from_micros(100);
/// An idle time that ends within this costs less to poll through than the processor time of falling asleep and being woken. One that is no longer
/// than twice the work that ends it pays too: there is a batch of it, which waking this thread would have kept waiting.
const PAYS_MAX: Duration = Duration::from_micros(20);
/// A thread that yields and is back within this has had the core for itself.
const ALONE_MAX: Duration = Duration::from_micros(5);

/// Busy polling of one thread that has a single-threaded runtime. The thread does not poll while `C` says that there is other work.
pub struct BusyPoll<C = fn() -> bool> {
    work: Notify,
    policy: Arc<Policy>,
    has_other_work: C,
    born: Instant,
    /// When the work began of which [`BusyPoll::run`] has not taken note yet: nanoseconds after `born`, and zero where there is none.
    began: AtomicU64,
    /// The same, of which it may have taken note.
    last_began: AtomicU64,
}

impl BusyPoll {
    /// For a thread that polls as long as that spares processor time.
    pub fn thrifty() -> Self {
        BusyPoll::following(Arc::new(Policy::new(Polling::Thrifty)))
    }

    /// For a thread that polls as `policy` says, also where that changes.
    pub fn following(policy: Arc<Policy>) -> Self {
        BusyPoll {
            work: Notify::new(),
            policy,
            has_other_work: || false,
            born: Instant::now(),
            began: AtomicU64::new(0),
            last_began: AtomicU64::new(0),
        }
    }

    /// For a thread that polls also where only the other side gains: the other then finds that its own idle times are short.
    pub fn eager() -> Self {
        BusyPoll::following(Arc::new(Policy::new(Polling::Eager)))
    }

    /// The same for a thread that does not poll while `has_other_work`: it has something to do that [`BusyPoll::attend`] is not told of, or
    /// other threads of its process want its core.
    pub fn unless<C: Fn() -> bool>(self, has_other_work: C) -> BusyPoll<C> {
        let BusyPoll { work, policy, born, began, last_began, has_other_work: _ } = self;
        BusyPoll { work, policy, has_other_work, born, began, last_began }
    }
}

impl<C: Fn() -> bool> BusyPoll<C> {
    /// Does some of the thread's work, which ends an idle time whenever it goes on.
    pub async fn attend<W: Future>(&self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|task| {
            if self.began.load(Ordering::Relaxed) == 0 {
                let began = (self.born.elapsed().as_nanos() as u64).max(1);
                self.began.store(began, Ordering::Relaxed);
                self.last_began.store(began, Ordering::Relaxed);
                self.work.notify_one();
            }
            work.as_mut().poll(task)
        })
        .await
    }

    /// Polls in idle times where that pays. To be run on that thread, as a task of its own; it never ends.
    pub async fn run(&self) {
        let mut trust = Trust::default();
        loop {
            self.work.notified().await;
            self.take_note();
            let polling = self.policy.get();
            if polling != Polling::Off && !(self.has_other_work)() && trust.is_due() {
                self.poll(polling, &mut trust).await;
            }
        }
    }

    /// When the work began that is being done, or was done last.
    pub fn work_began(&self) -> Instant {
        self.born + Duration::from_nanos(self.last_began.load(Ordering::Relaxed))
    }

    /// When the work began that has called last; the next work calls again.
    fn take_note(&self) -> Instant {
        self.born + Duration::from_nanos(self.began.swap(0, Ordering::Relaxed))
    }

    /// Polls until an idle time was too long to pay, or somebody else wants the core.
    async fn poll(&self, polling: Polling, trust: &mut Trust) {
        let poll_max = match polling {
            Polling::Off => return,
            Polling::Thrifty => POLL_MAX,
            Polling::Eager => EAGER_POLL_MAX,
            Polling::For(time) => time,
        };
        let mut idle_since: Option<Instant> = None;
        loop {
            // The runtime has nothing else to do then but to ask the kernel what has come in.
            yield_now().await;
            if pin!(self.work.notified()).enable() {
                let work_began = self.take_note();
                if let Some(idle_since) = idle_since.take() {
                    let paid = polling != Polling::Thrifty
                        || work_began - idle_since <= (work_began.elapsed() * 2).max(PAYS_MAX);
                    trust.learn(paid);
                    if !paid {
                        return;
                    }
                }
                continue;
            }
            if (self.has_other_work)() {
                return;
            }
            let now = Instant::now();
            if now - *idle_since.get_or_insert(now) >= poll_max {
                // Who has paid for it has it also after a long idle time.
                return if matches!(polling, Polling::For(_)) { trust.learn(true) } else { trust.learn(false) };
            }
            if is_core_wanted(now) {
                return trust.learn(false);
            }
        }
    }
}

/// Lets others have the core; true where somebody took it.
fn is_core_wanted(now: Instant) -> bool {
    rustix::thread::sched_yield();
    now.elapsed() > ALONE_MAX
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Wake, Waker};

    use super::*;

    /// Notes that a task is to be polled again.
    #[derive(Default)]
    struct Called(AtomicBool);

    impl Wake for Called {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Polls once; true where it is to be polled again at once.
    async fn is_awake(run: &mut Pin<Box<impl Future<Output = ()>>>) -> bool {
        let called = Arc::new(Called::default());
        assert!(run.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&called)))).is_pending());
        // What yields is called when the runtime has looked around.
        yield_now().await;
        called.0.load(Ordering::Relaxed)
    }

    /// An idle time of so long; true where the thread sleeps by its end.
    async fn passes(run: &mut Pin<Box<impl Future<Output = ()>>>, length: Duration) -> bool {
        assert!(is_awake(run).await && is_awake(run).await);
        tokio::time::advance(length).await;
        !is_awake(run).await
    }

    #[test]
    fn a_thread_does_not_poll_while_there_is_other_work_and_learns_nothing_of_that() {
        alone(async {
            let has_other_work = Arc::new(AtomicBool::new(true));
            let told = Arc::clone(&has_other_work);
            let busy_poll = BusyPoll::thrifty().unless(move || told.load(Ordering::Relaxed));
            let mut run = Box::pin(busy_poll.run());
            for _ in 0..3 {
                busy_poll.attend(async {}).await;
                assert!(!is_awake(&mut run).await);
            }
            has_other_work.store(false, Ordering::Relaxed);
            busy_poll.attend(async {}).await;
            assert!(is_awake(&mut run).await);
            has_other_work.store(true, Ordering::Relaxed);
            assert!(!is_awake(&mut run).await);
            has_other_work.store(false, Ordering::Relaxed);
            busy_poll.attend(async {}).await;
            assert!(is_awake(&mut run).await, "it tries at once");
        });
    }

    fn alone<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_thread_sleeps_until_it_has_worked_and_again_after_a_long_idle_time() {
        alone(async {
            let busy_poll = BusyPoll::thrifty();
            let mut run = Box::pin(busy_poll.run());
            assert!(!is_awake(&mut run).await);
            busy_poll.attend(async {}).await;
            for _ in 0..3 {
                assert!(is_awake(&mut run).await);
                tokio::time::advance(POLL_MAX / 4).await;
            }
            tokio::time::advance(POLL_MAX).await;
            assert!(!is_awake(&mut run).await);
        });
    }

    #[test]
    fn an_idle_time_that_ends_in_time_starts_the_next_one_anew() {
        alone(async {
            let busy_poll = BusyPoll::thrifty();
            let mut run = Box::pin(busy_poll.run());
            busy_poll.attend(async {}).await;
            for _ in 0..20 {
                assert!(!passes(&mut run, PAYS_MAX).await);
                busy_poll.attend(async {}).await;
            }
        });
    }

    #[test]
    fn an_idle_time_that_ends_too_late_to_pay_is_not_followed_by_another() {
        alone(async {
            let busy_poll = BusyPoll::thrifty();
            let mut run = Box::pin(busy_poll.run());
            busy_poll.attend(async {}).await;
            assert!(!passes(&mut run, PAYS_MAX * 2).await);
            busy_poll.attend(async {}).await;
            assert!(!is_awake(&mut run).await);
            busy_poll.attend(async {}).await;
            assert!(!is_awake(&mut run).await, "a turn passes");
        });
    }

    #[test]
    fn an_idle_time_no_longer_than_the_work_that_ends_it_pays() {
        alone(async {
            let busy_poll = BusyPoll::thrifty();
            let mut run = Box::pin(busy_poll.run());
            busy_poll.attend(async {}).await;
            for _ in 0..20 {
                assert!(!passes(&mut run, POLL_MAX * 3 / 4).await);
                busy_poll.attend(tokio::time::advance(POLL_MAX)).await;
            }
        });
    }

    #[test]
    fn an_eager_thread_polls_through_longer_idle_times_whatever_the_work() {
        alone(async {
            let busy_poll = BusyPoll::eager();
            let mut run = Box::pin(busy_poll.run());
            busy_poll.attend(async {}).await;
            for _ in 0..20 {
                assert!(!passes(&mut run, POLL_MAX * 3 / 2).await);
                busy_poll.attend(async {}).await;
            }
            assert!(passes(&mut run, EAGER_POLL_MAX).await);
        });
    }

    #[test]
    fn a_thread_polls_as_long_as_was_paid_for_also_after_long_idle_times() {
        alone(async {
            let time = Duration::from_micros(200);
            let policy = Arc::new(Policy::new(Polling::For(time)));
            let busy_poll = BusyPoll::following(Arc::clone(&policy));
            let mut run = Box::pin(busy_poll.run());
            for _ in 0..20 {
                busy_poll.attend(async {}).await;
                assert!(!passes(&mut run, time * 3 / 4).await);
                tokio::time::advance(time).await;
                assert!(!is_awake(&mut run).await);
            }
            policy.set(Polling::Off);
            busy_poll.attend(async {}).await;
            assert!(!is_awake(&mut run).await, "from the next idle time on");
        });
    }

    #[test]
    fn a_thread_whose_idle_times_are_long_stops_polling() {
        alone(async {
            let busy_poll = BusyPoll::thrifty();
            let mut run = Box::pin(busy_poll.run());
            let mut looked = 0;
            for _ in 0..1000 {
                busy_poll.attend(async {}).await;
                while is_awake(&mut run).await {
                    looked += 1;
                    tokio::time::advance(POLL_MAX).await;
                }
            }
            assert!(looked < 50, "looked {looked} times in 1000 idle times");
        });
    }
}
