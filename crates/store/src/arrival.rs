//! When a thread has to hear what others have changed: before it believes something, once for each time that somebody has asked it something.
//! What it was asked before a change was made it may answer as it was then.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that a thread was given to do, which is not over before it is given more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    thread: u64,
    arrivals: u64,
}

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
    static ARRIVALS: Cell<u64> = const { Cell::new(0) };
    /// Of which cache, and after which arrival, this thread has heard last.
    static HEARD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// To be called by a thread when it is given something to do that somebody has asked for, from its first time on each time. A thread that never
/// says so hears whenever it believes something.
pub fn arrived() {
    ARRIVALS.set(ARRIVALS.get() + 1);
}

/// What this thread was given to do last. `None` for one that never says so.
pub(crate) fn errand() -> Option<Errand> {
    let arrivals = ARRIVALS.get();
    (arrivals != 0).then(|| Errand { thread: THREAD.with(|thread| *thread), arrivals })
}

/// True where this thread has heard what the cache has to tell since it was given something to do.
pub(crate) fn has_heard(cache: u64) -> bool {
    let arrivals = ARRIVALS.get();
    arrivals != 0 && HEARD.get() == (cache, arrivals)
}

pub(crate) fn note_heard(cache: u64) {
    HEARD.set((cache, ARRIVALS.get()));
}
