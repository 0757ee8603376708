//! Hearing of changes that other programs make.

use std::fmt;

use crate::{Identity, Kind};

/// How far a watch reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The directory's own names.
    Directory,
    /// Everything below it.
    Tree,
}

/// A change that was seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// The directory whose name changed.
    pub directory: Identity,
    /// Where that lies below the watched directory, separated with `\`; empty for the watched directory itself.
    pub inside: &'a str,
    /// The name that changed, as clients see it.
    pub name: &'a str,
    /// What it is.
    pub kind: Kind,
    /// What happened.
    pub what: What<'a>,
}

/// What happened to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// It appeared.
    Came,
    /// It went.
    Went,
    /// It is called otherwise now, in the same directory.
    Renamed {
        /// How.
        to: &'a str,
    },
    /// Its data, or what is kept beside it, changed.
    Changed {
        /// Which file this is.
        file: Identity,
    },
}

/// Who hears of changes. Called on a thread of the store, and must not wait.
pub trait Listener: Send + Sync {
    /// Something changed.
    fn hear(&self, change: Foreign<'_>);

    /// More changed than could be told, or not everything can be watched.
    fn lose(&self);

    /// Pays for so many bytes more that are kept for it; false where there is nothing left to pay with. Then it is not kept, and
    /// something is lost.
    #[must_use]
    fn hold(&self, bytes: u64) -> bool;

    /// So many bytes of those are not kept any more. What is left when the listener is dropped is not kept either.
    fn let_go(&self, bytes: u64);
}

/// Keeps a watch alive.
pub struct Guard(Box<dyn Watching>);

/// A watch, which ends when it is dropped.
pub(crate) trait Watching: Send + Sync {
    /// [`Guard::go_on`].
    fn go_on(&mut self) -> bool;
}

impl Guard {
    pub(crate) fn new(watching: impl Watching + 'static) -> Self {
        Guard(Box::new(watching))
    }

    /// Watches some more of what is below the directory, where that was asked for; false where all of it is watched. What changes
    /// there is told of as far as this has come. May wait.
    pub fn go_on(&mut self) -> bool {
        self.0.go_on()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
