//! Times of a file that an open holds fast (-1 in FileBasicInformation, MS-FSA 2.1.5.15.2).

use parking_lot::Mutex;
use store::Time;

/// Times that implicit changes through an open no longer touch, and what they are held at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrozenTimes {
    pub(crate) access: Option<Time>,
    pub(crate) write: Option<Time>,
    pub(crate) change: Option<Time>,
}

/// What an open holds fast now. A shard asks for it with each request, so it is never locked while the store is at work.
#[derive(Default)]
pub(crate) struct HeldTimes {
    now: Mutex<FrozenTimes>,
    /// Whose turn it is to change them. Only who may wait for the store takes it.
    turn: Mutex<()>,
}

impl HeldTimes {
    pub(crate) fn now(&self) -> FrozenTimes {
        *self.now.lock()
    }

    /// True where nothing is held fast.
    pub(crate) fn is_empty(&self) -> bool {
        self.now() == FrozenTimes::default()
    }

    /// Holds what `change` makes of what is held, once it has done with the store, and nothing else where it fails.
    pub(crate) fn change<E>(&self, change: impl FnOnce(FrozenTimes) -> Result<FrozenTimes, E>) -> Result<(), E> {
        let _turn = self.turn.lock();
        let next = change(self.now())?;
        *self.now.lock() = next;
        Ok(())
    }
}
