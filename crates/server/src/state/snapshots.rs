//! Snapshots of a share that are open: its files as they were. Connections of this process alone reach one, as a share `SHARE:NAME`, which no share is
//! called; nothing can be changed there. Rights, limits and what is audited are those of the share.

use std::sync::Arc;

use parking_lot::Mutex;
use store::Store;

/// Snapshots that nobody uses and that stay open, for who comes next.
const UNUSED_MAX: usize = 16;

/// The open snapshots of a share by their names, those last that were opened last.
#[derive(Default)]
pub struct OpenSnapshots(Mutex<Vec<Named>>);

/// A snapshot with its name.
type Named = (Box<str>, Arc<dyn Store>);

impl OpenSnapshots {
    /// The files of one, where it is open.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Store>> {
        let open = self.0.lock();
        open.iter().find(|(known, _)| **known == *name).map(|(_, store)| Arc::clone(store))
    }

    /// Has one be open; where it is already it stays as it is. Gives its files. Of those that nobody uses the oldest are closed.
    pub fn add(&self, name: &str, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let mut open = self.0.lock();
        if let Some((_, store)) = open.iter().find(|(known, _)| **known == *name) {
            return Arc::clone(store);
        }
        open.push((name.into(), Arc::clone(&store)));
        let mut too_many = open.iter().filter(is_unused).count().saturating_sub(UNUSED_MAX);
        let mut closed = Vec::new();
        while too_many > 0
            && let Some(at) = open.iter().position(|one| is_unused(&one))
        {
            closed.push(open.remove(at));
            too_many -= 1;
        }
        drop(open);
        // To close what it has open may wait for the disk, and nobody waits for that with the lock.
        drop(closed);
        store
    }

    /// Has one not be open any more. Who uses it is told with the next configuration.
    pub fn close(&self, name: &str) {
        let mut open = self.0.lock();
        let closed = open.iter().position(|(known, _)| **known == *name).map(|at| open.remove(at));
        drop(open);
        drop(closed);
    }
}

fn is_unused((_, store): &&Named) -> bool {
    Arc::strong_count(store) == 1
}

#[cfg(test)]
mod tests {
    use store::RamStore;

    use super::*;

    #[test]
    fn of_snapshots_that_nobody_uses_the_oldest_are_closed() {
        let open = OpenSnapshots::default();
        let add = |name: usize| drop(open.add(&name.to_string(), Arc::new(RamStore::new(1 << 20))));
        add(0);
        let used = open.get("0").unwrap();
        // The last one is in the hands of who opens it when those that nobody uses are counted.
        (1..=UNUSED_MAX + 3).for_each(add);
        assert!(Arc::ptr_eq(&used, &open.get("0").unwrap()), "somebody uses it");
        let there = |name: usize| open.get(&name.to_string()).is_some();
        assert!(!there(1) && !there(2) && (3..=UNUSED_MAX + 3).all(there));
        add(3);
        assert!(there(4), "it is open already");
        open.close("0");
        assert!(!there(0) && there(3));
    }
}
