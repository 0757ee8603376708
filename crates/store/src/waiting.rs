//! Which threads may wait for a device. A thread that serves many must not: it marks itself, and a store that may wait then says so of every
//! call that is not named `try_…`, in builds with debug assertions. What such a thread hands over runs on threads without the mark.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static FORBIDDEN: Cell<Forbidden> = const { Cell::new(Forbidden::Not) };
}

thread_local! {
    static ELSEWHERE: OnceCell<Box<dyn Fn(u64, Discarded)>> = const { OnceCell::new() };
}

/// What somebody else is to drop.
pub type Discarded = Box<dyn Any + Send>;

/// Calls that may wait, made on threads that must not.
static BREACHES: AtomicU64 = AtomicU64::new(0);

/// What comes of a call that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// Nothing: the thread may wait.
    Not,
    /// It is counted, and told to standard error where debug assertions are on.
    Told,
    /// It panics where debug assertions are on: for tests.
    Panics,
}

/// From now on calls on this thread are `forbidden`.
pub fn forbid(forbidden: Forbidden) {
    FORBIDDEN.set(forbidden);
}

/// Runs `work`, which may wait, on a thread that may not otherwise: for tests, whose one thread does everybody's work.
pub fn allow<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(Forbidden);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORBIDDEN.set(self.0);
        }
    }
    let _restore = Restore(FORBIDDEN.replace(Forbidden::Not));
    work()
}

/// Has what this thread drops go to `elsewhere`, with the number of its volume, where dropping it may wait. Only the first call counts.
pub fn discard_to(elsewhere: Box<dyn Fn(u64, Discarded)>) {
    ELSEWHERE.with(|known| {
        let _ = known.set(elsewhere);
    });
}

/// Drops something, where this thread must not wait and has said who is to do it there.
pub(crate) fn drop_elsewhere(volume: u64, discarded: Discarded) {
    // A thread that ends has nobody left; then it drops it here.
    let _ = ELSEWHERE.try_with(|known| match known.get() {
        Some(elsewhere) => elsewhere(volume, discarded),
        None => drop(discarded),
    });
}

/// True where this thread may wait.
pub fn is_allowed() -> bool {
    FORBIDDEN.get() == Forbidden::Not
}

/// Calls that may wait and were made on threads that must not, so far. Counted where debug assertions are on.
pub fn breaches() -> u64 {
    BREACHES.load(Ordering::Relaxed)
}

/// Notes that `call` may wait.
#[inline]
pub fn may_wait(call: &str) {
    if cfg!(debug_assertions) {
        match FORBIDDEN.get() {
            Forbidden::Not => {}
            Forbidden::Told => {
                if BREACHES.fetch_add(1, Ordering::Relaxed) < 100 {
                    let trace = std::backtrace::Backtrace::force_capture();
                    eprintln!("{call} may wait for a device, on a thread that must not\n{trace}");
                }
            }
            Forbidden::Panics => panic!("{call} may wait for a device, on a thread that must not"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_thread_is_told_of_calls_that_may_wait() {
        assert!(is_allowed());
        may_wait("read");
        forbid(Forbidden::Panics);
        assert!(!is_allowed());
        assert!(allow(|| {
            may_wait("read");
            is_allowed()
        }));
        let (sender, dropped) = std::sync::mpsc::channel();
        discard_to(Box::new(move |volume, discarded| sender.send((volume, discarded)).unwrap()));
        drop_elsewhere(7, Box::new(5u8));
        assert!(matches!(dropped.try_recv(), Ok((7, five)) if five.downcast_ref() == Some(&5u8)));
        assert!(std::panic::catch_unwind(|| may_wait("read")).is_err());
    }
}
