//! How much work calls did on this thread itself. A thread that serves many counts it for whom the calls were made, so that a path of two
//! thousand names costs its client more than a path of two.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Notes work of so many steps. To follow one name of a path is one.
pub fn note(steps: usize) {
    STEPS.set(STEPS.get().saturating_add(steps));
}

/// Runs `work`; gives how many steps were noted on this thread meanwhile, too.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = STEPS.replace(0);
    let done = work();
    let steps = STEPS.get();
    STEPS.set(before.saturating_add(steps));
    (done, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_for_whom_it_was_done() {
        note(1);
        let ((inner, all), outer) = of(|| {
            note(2);
            let (_, inner) = of(|| note(3));
            (inner, of(|| ()).1)
        });
        assert_eq!((inner, all, outer), (3, 0, 5));
    }
}
