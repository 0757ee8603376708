//! What a thread does while there is nothing to do. One that sleeps has to be woken by another core, which can take longer than the
//! work that it is woken for; one that looks again and again uses time that others may want. So it looks again for a moment where
//! that has paid of late, and sleeps where it has not.

mod trust;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::trust::Trust;

/// How long a thread looks for work before it sleeps: what the other side takes for a batch of small requests, and no more than two
/// threads lose by waking each other.
const LOOK_MAX: Duration = Duration::from_micros(50);
/// A lull that ends within this costs less to stay awake in than the processor time of falling asleep and being woken.
const PAYS_MAX: Duration = Duration::from_micros(20);
/// One that yields and is back within this has had the core for itself.
const ALONE_MAX: Duration = Duration::from_micros(5);

/// The lulls of one thread that has a single-threaded runtime.
#[derive(Debug, Default)]
pub struct Lull {
    work: Notify,
}

impl Lull {
    /// Does some of the thread's work, which ends a lull whenever it goes on.
    pub async fn attend<W: Future>(&self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|task| {
            self.work.notify_one();
            work.as_mut().poll(task)
        })
        .await
    }

    /// Keeps the thread awake in lulls where that pays. To be run on that thread, as a task of its own; it never ends.
    pub async fn bridge(&self) {
        let mut trust = Trust::default();
        loop {
            self.work.notified().await;
            if trust.is_due() {
                self.stay_awake(&mut trust).await;
            }
        }
    }

    /// Stays awake until a lull was too long to pay, or somebody else wants the core.
    async fn stay_awake(&self, trust: &mut Trust) {
        let mut lull_began: Option<Instant> = None;
        loop {
            // The runtime has nothing else to do then but to ask the kernel what has come in.
            yield_now().await;
            if pin!(self.work.notified()).enable() {
                if let Some(began) = lull_began.take() {
                    let paid = began.elapsed() <= PAYS_MAX;
                    trust.learn(paid);
                    if !paid {
                        return;
                    }
                }
                continue;
            }
            let now = Instant::now();
            if now - *lull_began.get_or_insert(now) >= LOOK_MAX || is_core_wanted(now) {
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
    use std::sync::atomic::{AtomicBool, Ordering};
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

    fn alone<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_thread_sleeps_until_it_has_worked_and_again_after_a_long_lull() {
        alone(async {
            let lull = Lull::default();
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
            let lull = Lull::default();
            let mut bridge = Box::pin(lull.bridge());
            lull.attend(async {}).await;
            for _ in 0..20 {
                assert!(is_awake(&mut bridge).await && is_awake(&mut bridge).await);
                tokio::time::advance(PAYS_MAX).await;
                lull.attend(async {}).await;
            }
        });
    }

    #[test]
    fn a_lull_that_ends_too_late_to_pay_is_not_followed_by_another_look() {
        alone(async {
            let lull = Lull::default();
            let mut bridge = Box::pin(lull.bridge());
            lull.attend(async {}).await;
            assert!(is_awake(&mut bridge).await && is_awake(&mut bridge).await);
            tokio::time::advance(PAYS_MAX * 2).await;
            lull.attend(async {}).await;
            assert!(!is_awake(&mut bridge).await);
            lull.attend(async {}).await;
            assert!(!is_awake(&mut bridge).await, "a turn passes");
        });
    }

    #[test]
    fn a_thread_whose_lulls_are_long_stops_looking() {
        alone(async {
            let lull = Lull::default();
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
