//! The request that a task works for. What goes on for it elsewhere counts for its turn to the end, whether or not somebody still waits for the answer.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::listener::Awaited;
use crate::turns::{Taker, Turn};

tokio::task_local! {
    static RUNNING: Arc<Running>;
}

/// A request that is worked for.
pub(crate) struct Running {
    /// Its turn, which others have once nobody works for it.
    _turn: Turn,
    /// The share that it is about, for what that takes of what all share.
    share: Taker,
    /// The interface does not end before it, for a while.
    _awaited: Awaited,
    /// When a step of long work was done last.
    got_on: Mutex<Instant>,
}

impl Running {
    pub(crate) fn new(turn: Turn, share: Taker, awaited: Awaited) -> Self {
        Running { _turn: turn, share, _awaited: awaited, got_on: Mutex::new(Instant::now()) }
    }

    /// When a step of long work was done last, or when it began.
    pub(super) fn got_on(&self) -> Instant {
        *self.got_on.lock()
    }

    /// Has this work be for the request.
    pub(super) async fn scope<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        RUNNING.scope(self, work).await
    }
}

/// A step of long work is done: what it works with answers.
pub(super) fn gets_on() {
    let _ = RUNNING.try_with(|running| *running.got_on.lock() = Instant::now());
}

/// Begins work that goes on to its end where whoever wants it leaves in the middle.
pub(super) fn begin<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    match RUNNING.try_with(Arc::clone) {
        Ok(running) => tokio::spawn(RUNNING.scope(running, work)),
        Err(_) => tokio::spawn(work),
    }
}

/// The same for what blocks.
pub(super) fn begin_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let running = RUNNING.try_with(Arc::clone);
    spawn_blocking(move || {
        let done = work();
        drop(running);
        done
    })
}

/// The share that the request is about.
pub(super) fn share() -> Taker {
    RUNNING.try_with(|running| running.share.clone()).unwrap_or_else(|_| Taker::of_share("", ""))
}
