//! What a thread does while there is nothing to do. One that sleeps has to be woken by another core, which can take longer than the
//! work that it is woken for; one that looks again and again uses time that others may want. So it looks again for a moment where
//! that has paid of late, and sleeps where it has not.

mod trust;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::trust::Trust;

/// How long a thread looks for work before it sleeps: what the other side takes for a batch of small requests, and no more than two
/// threads lose by waking each other.
const LOOK_MAX: Duration = Duration::from_micros(50);
/// How long an eager one does: as long as the other side takes that has to be woken first.
const EAGER_LOOK_MAX: Duration = Duration::from_micros(100);
/// A lull that ends within this costs less to stay awake in than the processor time of falling asleep and being woken. One that is no longer
/// than twice the work that ends it pays too: there is a batch of it, which waking this thread would have kept waiting.
const PAYS_MAX: Duration = Duration::from_micros(20);
/// One that yields and is back within this has had the core for itself.
const ALONE_MAX: Duration = Duration::from_micros(5);

/// The lulls of one thread that has a single-threaded runtime. While `C` says so there are none.
pub struct Lull<C = fn() -> bool> {
    work: Notify,
    is_eager: bool,
    has_other_work: C,
    born: Instant,
    /// When the work began of which [`Lull::bridge`] has not taken note yet: nanoseconds after `born`, and zero where there is none.
    began: AtomicU64,
}

impl Lull {
    /// Of a thread that stays awake as long as that spares processor time.
    pub fn thrifty() -> Self {
        Lull {
            work: Notify::new(),
            is_eager: false,
            has_other_work: || false,
            born: Instant::now(),
            began: AtomicU64::new(0),
        }
    }

    /// Of a thread that stays awake also where only the other side gains: the other then finds that its own lulls are short.
    pub fn eager() -> Self {
        Lull { is_eager: true, ..Lull::thrifty() }
    }

    /// The same of a thread for which there are no lulls while `has_other_work`: it has something to do that [`Lull::attend`] is not told of, or
    /// other threads of its process want its core.
    pub fn unless<C: Fn() -> bool>(self, has_other_work: C) -> Lull<C> {
        let Lull { work, is_eager, born, began, has_other_work: _ } = self;
        Lull { work, is_eager, has_other_work, born, began }
    }
}

impl<C: Fn() -> bool> Lull<C> {
    /// Does some of the thread's work, which ends a lull whenever it goes on.
    pub async fn attend<W: Future>(&self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|task| {
            if self.began.load(Ordering::Relaxed) == 0 {
                self.began.store((self.born.elapsed().as_nanos() as u64).max(1), Ordering::Relaxed);
                self.work.notify_one();
            }
            work.as_mut().poll(task)
        })
        .await
    }

    /// Keeps the thread awake in lulls where that pays. To be run on that thread, as a task of its own; it never ends.
    pub async fn bridge(&self) {
        let mut trust = Trust::default();
        loop {
            self.work.notified().await;
            self.take_note();
            if !(self.has_other_work)() && trust.is_due() {
                self.stay_awake(&mut trust).await;
            }
        }
    }

    /// When the work began that has called last; the next work calls again.
    fn take_note(&self) -> Instant {
        self.born + Duration::from_nanos(self.began.swap(0, Ordering::Relaxed))
    }

    /// Stays awake until a lull was too long to pay, or somebody else wants the core.
    async fn stay_awake(&self, trust: &mut Trust) {
        let look_max = if self.is_eager { EAGER_LOOK_MAX } else { LOOK_MAX };
        let mut lull_began: Option<Instant> = None;
        loop {
            // The runtime has nothing else to do then but to ask the kernel what has come in.
            yield_now().await;
            if pin!(self.work.notified()).enable() {
                let work_began = self.take_note();
                if let Some(lull_began) = lull_began.take() {
                    let paid = self.is_eager || work_began - lull_began <= (work_began.elapsed() * 2).max(PAYS_MAX);
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
            if now - *lull_began.get_or_insert(now) >= look_max || is_core_wanted(now) {
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
    async fn is_awake(bridge: &mut Pin<Box<impl Future<Output = ()>>>) -> bool {
        let called = Arc::new(Called::default());
        assert!(bridge.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&called)))).is_pending());
        // What yields is called when the runtime has looked around.
        yield_now().await;
        called.0.load(Ordering::Relaxed)
    }

    /// A lull of so long; true where the thread sleeps by its end.
    async fn passes(bridge: &mut Pin<Box<impl Future<Output = ()>>>, length: Duration) -> bool {
        assert!(is_awake(bridge).await && is_awake(bridge).await);
        tokio::time::advance(length).await;
        !is_awake(bridge).await
    }

    #[test]
    fn there_are_no_lulls_while_there_is_other_work_and_nothing_is_learned_of_them() {
        alone(async {
            let has_other_work = Arc::new(AtomicBool::new(true));
            let told = Arc::clone(&has_other_work);
            let lull = Lull::thrifty().unless(move || told.load(Ordering::Relaxed));
            let mut bridge = Box::pin(lull.bridge());
            for _ in 0..3 {
                lull.attend(async {}).await;
                assert!(!is_awake(&mut bridge).await);
            }
            has_other_work.store(false, Ordering::Relaxed);
            lull.attend(async {}).await;
            assert!(is_awake(&mut bridge).await);
            has_other_work.store(true, Ordering::Relaxed);
            assert!(!is_awake(&mut bridge).await);
            has_other_work.store(false, Ordering::Relaxed);
            lull.attend(async {}).await;
            assert!(is_awake(&mut bridge).await, "it tries at once");
        });
    }

    fn alone<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_thread_sleeps_until_it_has_worked_and_again_after_a_long_lull() {
        alone(async {
            let lull = Lull::thrifty();
            let mut bridge = Box::pin(lull.bridge());
            assert!(!is_awake(&mut bridge).await);
            lull.attend(async {}).await;
            for _ in 0..3 {
                assert!(is_awake(&mut bridge).await);
                tokio::time::advance(LOOK_MAX / 4).await;
            }
            tokio::time::advance(LOOK_MAX).await;
            assert!(!is_awake(&mut bridge).await);
        });
    }

    #[test]
    fn a_lull_that_ends_in_time_starts_the_next_one_anew() {
        alone(async {
            let lull = Lull::thrifty();
            let mut bridge = Box::pin(lull.bridge());
            lull.attend(async {}).await;
            for _ in 0..20 {
                assert!(!passes(&mut bridge, PAYS_MAX).await);
                lull.attend(async {}).await;
            }
        });
    }

    #[test]
    fn a_lull_that_ends_too_late_to_pay_is_not_followed_by_another_look() {
        alone(async {
            let lull = Lull::thrifty();
            let mut bridge = Box::pin(lull.bridge());
            lull.attend(async {}).await;
            assert!(!passes(&mut bridge, PAYS_MAX * 2).await);
            lull.attend(async {}).await;
            assert!(!is_awake(&mut bridge).await);
            lull.attend(async {}).await;
            assert!(!is_awake(&mut bridge).await, "a turn passes");
        });
    }

    #[test]
    fn a_lull_no_longer_than_the_work_that_ends_it_pays() {
        alone(async {
            let lull = Lull::thrifty();
            let mut bridge = Box::pin(lull.bridge());
            lull.attend(async {}).await;
            for _ in 0..20 {
                assert!(!passes(&mut bridge, LOOK_MAX * 3 / 4).await);
                lull.attend(tokio::time::advance(LOOK_MAX)).await;
            }
        });
    }

    #[test]
    fn an_eager_thread_stays_awake_in_longer_lulls_whatever_the_work() {
        alone(async {
            let lull = Lull::eager();
            let mut bridge = Box::pin(lull.bridge());
            lull.attend(async {}).await;
            for _ in 0..20 {
                assert!(!passes(&mut bridge, LOOK_MAX * 3 / 2).await);
                lull.attend(async {}).await;
            }
            assert!(passes(&mut bridge, EAGER_LOOK_MAX).await);
        });
    }

    #[test]
    fn a_thread_whose_lulls_are_long_stops_looking() {
        alone(async {
            let lull = Lull::thrifty();
            let mut bridge = Box::pin(lull.bridge());
            let mut looked = 0;
            for _ in 0..1000 {
                lull.attend(async {}).await;
                while is_awake(&mut bridge).await {
                    looked += 1;
                    tokio::time::advance(LOOK_MAX).await;
                }
            }
            assert!(looked < 50, "looked {looked} times in 1000 lulls");
        });
    }
}
