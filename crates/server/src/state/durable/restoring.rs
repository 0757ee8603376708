//! Persistent opens of the server before this one that are still to be made anew.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::record::Record;
use crate::state::configuration::Configuration;

/// What is still to be made anew.
#[derive(Default)]
pub(crate) struct Restoring {
    pub(crate) state: Mutex<ToRestore>,
    /// The opens of a share have been made anew.
    pub(crate) moved: Condvar,
}

#[derive(Default)]
pub(crate) struct ToRestore {
    /// What was to be served last.
    pub(crate) given: Option<Arc<Configuration>>,
    /// By the share's name.
    pub(crate) records: HashMap<String, Vec<Record>>,
    /// The shares whose opens are being made anew.
    pub(crate) under_way: HashSet<String>,
    pub(crate) ended: bool,
}
