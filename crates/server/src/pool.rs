//! Threads for work that may wait for a device, shared by all shards (the second law of the hot path).

use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// How many pieces of work wait on devices at a time.
const THREADS_MAX: usize = 32;

type Job = Box<dyn FnOnce() + Send>;

/// The pool. Threads start when work comes and stay; they end with the pool.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    queue: Mutex<Queue>,
    ready: Condvar,
    threads_max: usize,
    /// Calls whoever does the work by hand.
    #[cfg(feature = "in-memory")]
    called: tokio::sync::Notify,
}

#[derive(Default)]
struct Queue {
    jobs: std::collections::VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    /// A pool without threads yet.
    pub(crate) fn new() -> Self {
        Pool::with_threads(THREADS_MAX)
    }

    fn with_threads(threads_max: usize) -> Self {
        Pool(Arc::new(Inner {
            queue: Mutex::default(),
            ready: Condvar::new(),
            threads_max,
            #[cfg(feature = "in-memory")]
            called: tokio::sync::Notify::new(),
        }))
    }

    /// A pool whose work is done by [`Pool::work_once`] alone.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn by_hand() -> Self {
        Pool::with_threads(0)
    }

    /// Does the next piece of work here; false where there is none.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn work_once(&self) -> bool {
        let job = self.0.queue.lock().jobs.pop_front();
        job.map(|job| job()).is_some()
    }

    /// Ends when work has come since it ended last.
    #[cfg(feature = "in-memory")]
    pub(crate) async fn called(&self) {
        self.0.called.notified().await;
    }

    /// Runs `work` on a thread of the pool and gives its answer, or `None` where it panicked or the pool has closed. The queue is
    /// bounded by the requests that credits let clients have in flight.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (send, receive) = oneshot::channel();
        self.submit(Box::new(move || drop(send.send(work()))));
        receive.await.ok()
    }

    /// Ends the threads once the queue is empty; later work is dropped.
    pub(crate) fn close(&self) {
        self.0.queue.lock().closed = true;
        self.0.ready.notify_all();
    }

    /// Runs `job` when its turn comes.
    pub(crate) fn submit(&self, job: Job) {
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return;
        }
        queue.jobs.push_back(job);
        let start = queue.idle < queue.jobs.len() && queue.threads < self.0.threads_max;
        queue.threads += usize::from(start);
        drop(queue);
        if start {
            let inner = Arc::clone(&self.0);
            let spawned = thread::Builder::new().name("multilane-io".into()).spawn(move || inner.work());
            if spawned.is_err() {
                self.0.queue.lock().threads -= 1;
            }
        }
        #[cfg(feature = "in-memory")]
        self.0.called.notify_one();
        self.0.ready.notify_one();
    }
}

impl Inner {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // A job that panics loses its own answer (its sender is dropped), never the thread.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                queue = self.queue.lock();
            } else if queue.closed {
                queue.threads -= 1;
                return;
            } else {
                queue.idle += 1;
                self.ready.wait(&mut queue);
                queue.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_answered_and_a_panic_is_none() {
        let pool = Pool::new();
        assert_eq!(pool.run(|| 7).await, Some(7));
        assert_eq!(pool.run(|| -> u8 { std::panic::resume_unwind(Box::new(())) }).await, None);
        assert_eq!(pool.run(|| 8).await, Some(8));
        pool.close();
        assert_eq!(pool.run(|| 9).await, None);
    }
}
