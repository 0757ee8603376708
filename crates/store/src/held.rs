//! A file that a thread which must not wait holds while it changes it.

use std::cell::Cell;
use std::marker::PhantomData;

use parking_lot::RwLockReadGuard;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Nobody changes the file in a way that takes long ([`crate::Node::try_hold`]).
pub struct Held {
    _held: Option<RwLockReadGuard<'static, ()>>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Held {
    /// Of a file of which no change keeps others waiting.
    pub fn nothing() -> Self {
        Held::with(None)
    }

    pub(crate) fn with(held: Option<RwLockReadGuard<'static, ()>>) -> Self {
        HELD.set(HELD.get() + 1);
        Held { _held: held, _of_this_thread: PhantomData }
    }

    /// True where this thread holds one.
    pub(crate) fn is_there() -> bool {
        HELD.get() > 0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}
