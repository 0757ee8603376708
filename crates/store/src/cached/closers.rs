//! Closing what is kept open no longer. That may take long, or hang as the device does: who closes what a store kept for itself would wait for its
//! device anyway, and what others kept is closed by a thread that each store has while there is something.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::kept::Home;
use crate::{Node, threads};

/// A node that a store kept open.
pub(super) type Gone = (Home, Arc<dyn Node>);

/// What the threads have to close.
#[derive(Default)]
pub(super) struct Closers(Arc<Mutex<Queues>>);

/// Of each store whose thread runs.
type Queues = HashMap<Home, Vec<Arc<dyn Node>>>;

impl Closers {
    /// Closes what `own` kept, and has all else closed.
    pub(super) fn close(&self, gone: Vec<Gone>, own: Option<Home>) {
        for (home, node) in gone {
            if own == Some(home) {
                drop(node);
            } else {
                self.hand_over(home, node);
            }
        }
    }

    fn hand_over(&self, home: Home, node: Arc<dyn Node>) {
        let mut queues = self.0.lock();
        match queues.entry(home) {
            Entry::Occupied(queue) => queue.into_mut().push(node),
            Entry::Vacant(free) => {
                free.insert(vec![node]);
                drop(queues);
                let all = Arc::clone(&self.0);
                let begun =
                    threads::start(thread::Builder::new().name("multilane-close".into()), move || work(&all, home));
                if let Err(error) = begun {
                    tracing::debug!(%error, "files are closed by the thread that lets go of them");
                    work(&self.0, home);
                }
            }
        }
    }
}

/// Closes what there is of a store, until there is nothing.
fn work(queues: &Mutex<Queues>, home: Home) {
    loop {
        let nodes = {
            let mut queues = queues.lock();
            match queues.get_mut(&home) {
                Some(queue) if !queue.is_empty() => std::mem::take(queue),
                Some(_) | None => {
                    queues.remove(&home);
                    return;
                }
            }
        };
        drop(nodes);
    }
}
