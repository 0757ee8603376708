//! Hearing of changes that other programs make.

use std::any::Any;
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
}

/// Keeps a watch alive.
pub struct Guard(#[expect(dead_code, reason = "it is held for its drop")] Box<dyn Any + Send + Sync>);

impl Guard {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Guard(Box::new(held))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
