//! Snapshots of a share that are open: its files as they were. Connections of this process alone reach one, as a share `SHARE:NAME`, which no share is
//! called; nothing can be changed there. Rights, limits and what is audited are those of the share.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use store::Store;

/// What stands between the name of a share and that of a snapshot of it. No share has it in its name.
pub(crate) const SEPARATOR: char = ':';

/// What connections of this process connect to for a snapshot of a share.
pub fn snapshot_share(share: &str, snapshot: &str) -> String {
    format!("{share}{SEPARATOR}{snapshot}")
}

/// The open snapshots of a share by their names. Each is open as long as somebody has its files.
#[derive(Default)]
pub struct OpenSnapshots(Mutex<Vec<Named>>);

/// A snapshot with its name.
type Named = (Box<str>, Weak<dyn Store>);

impl OpenSnapshots {
    /// The files of one, where it is open.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Store>> {
        let open = self.0.lock();
        open.iter().find(|(known, _)| **known == *name).and_then(|(_, store)| store.upgrade())
    }

    /// Has one be open; where it is already it stays as it is. Gives its files.
    pub fn add(&self, name: &str, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let mut open = self.0.lock();
        open.retain(|(_, store)| store.strong_count() > 0);
        let known = open.iter().find(|(known, _)| **known == *name).and_then(|(_, store)| store.upgrade());
        match known {
            Some(known) => known,
            None => {
                open.push((name.into(), Arc::downgrade(&store)));
                store
            }
        }
    }

    /// Has one not be found any more. Who is connected to it is told with the next configuration.
    pub fn close(&self, name: &str) {
        self.0.lock().retain(|(known, _)| **known != *name);
    }
}

#[cfg(test)]
mod tests {
    use store::RamStore;

    use super::*;

    #[test]
    fn a_snapshot_is_open_while_somebody_has_it() {
        let open = OpenSnapshots::default();
        let store = || Arc::new(RamStore::new(1 << 20));
        let one = open.add("one", store());
        assert!(Arc::ptr_eq(&one, &open.add("one", store())), "it is open already");
        drop(open.add("other", store()));
        assert!(open.get("other").is_none() && open.get("one").is_some());
        let again = open.add("other", store());
        assert_eq!(open.0.lock().len(), 2);
        open.close("one");
        assert!(open.get("one").is_none() && open.get("other").is_some_and(|other| Arc::ptr_eq(&other, &again)));
    }
}
