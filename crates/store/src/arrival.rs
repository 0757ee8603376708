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

/// Of which cache a thread has heard since it was given something to do, if of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard(Option<u64>);

/// To be taken along by work that goes to another thread.
pub fn heard() -> Heard {
    let (cache, arrivals) = HEARD.get();
    Heard((arrivals != 0 && arrivals == ARRIVALS.get()).then_some(cache))
}

/// As [`arrived`], for what another thread was given to do: what that one has heard since then need not be heard again.
pub fn arrived_by_another(heard: Heard) {
    arrived();
    if let Heard(Some(cache)) = heard {
        note_heard(cache);
    }
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_was_heard_for_work_counts_where_it_is_done() {
        arrived();
        let before = heard();
        note_heard(7);
        let after = heard();
        let done_elsewhere = |heard| {
            thread::spawn(move || {
                arrived_by_another(heard);
                let knows = has_heard(7);
                arrived();
                (knows, has_heard(7))
            })
        };
        assert_eq!(done_elsewhere(before).join().unwrap(), (false, false));
        assert_eq!(done_elsewhere(after).join().unwrap(), (true, false), "and for nothing that comes later");
        arrived();
        assert_eq!(heard().0, None, "what was heard for something else does not count");
    }
}
