//! Names that have gone, or lead elsewhere now, and what stood there: who is told of changes below such a name is judged by the descriptor
//! that there was. Only so many are remembered. What came before the last one that was forgotten cannot be judged by it any more.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use store::{Identity, fold};

use crate::descriptors::Descriptor;

/// The most that are remembered, and the most bytes of their names and descriptors.
const REMEMBERED_MAX: usize = 4_096;
const BYTES_MAX: usize = 4 << 20;

/// Names that have gone, numbered from 1 on.
#[derive(Default)]
pub(super) struct Gone {
    count: AtomicU64,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    by_name: HashMap<(Identity, String), Vec<(u64, Former)>>,
    /// The oldest first, each with its bytes.
    order: VecDeque<(u64, (Identity, String), usize)>,
    bytes: usize,
    /// The last one that was forgotten.
    forgotten: u64,
}

/// What had a name, and its descriptor; `None` where that is not known, as where another program took it away.
pub(super) type Former = Option<(Identity, Descriptor)>;

impl Gone {
    /// How many have gone. A change that was made then is judged by those that went later.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// What had `name` in `directory` has it no longer. `bytes` is how long its descriptor is.
    pub(super) fn goes(&self, directory: Identity, name: &str, former: Former, bytes: usize) {
        let name = fold(name);
        let bytes = size_of::<Former>() + name.len() + bytes;
        let mut memory = self.memory.lock();
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        memory.order.push_back((number, (directory, name.clone()), bytes));
        memory.by_name.entry((directory, name)).or_default().push((number, former));
        memory.bytes += bytes;
        while memory.order.len() > REMEMBERED_MAX || memory.bytes > BYTES_MAX {
            memory.forget_oldest();
        }
    }

    /// What had `name` in one of `directories` and went after `since` others had; `None` where that is not known any more.
    pub(super) fn after(&self, since: u64, directories: &[Identity], name: &str) -> Option<Vec<Former>> {
        let memory = self.memory.lock();
        if since < memory.forgotten {
            return None;
        }
        let name = fold(name);
        let known = directories.iter().filter_map(|directory| memory.by_name.get(&(*directory, name.clone())));
        let later = known.flatten().filter(|(number, _)| *number > since);
        Some(later.map(|(_, former)| former.clone()).collect())
    }
}

impl Memory {
    fn forget_oldest(&mut self) {
        let Some((number, name, bytes)) = self.order.pop_front() else { return };
        self.forgotten = number;
        self.bytes -= bytes;
        if let Some(known) = self.by_name.get_mut(&name) {
            known.retain(|(other, _)| *other != number);
            if known.is_empty() {
                self.by_name.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Kind;

    use super::*;

    const DIRECTORY: Identity = Identity { volume: 1, file: 2 };

    fn former(file: u64) -> Former {
        Some((Identity { volume: 1, file }, Descriptor::Missing(Kind::Directory)))
    }

    fn files(found: Option<Vec<Former>>) -> Option<Vec<u64>> {
        Some(found?.iter().flatten().map(|(identity, _)| identity.file).collect())
    }

    #[test]
    fn what_went_later_is_found_by_its_name_in_any_case() {
        let gone = Gone::default();
        gone.goes(DIRECTORY, "Name", former(10), 0);
        let since = gone.count();
        gone.goes(DIRECTORY, "NAME", former(11), 0);
        assert_eq!(files(gone.after(0, &[DIRECTORY], "name")), Some(vec![10, 11]));
        assert_eq!(files(gone.after(since, &[DIRECTORY], "name")), Some(vec![11]));
        assert_eq!(files(gone.after(gone.count(), &[DIRECTORY], "name")), Some(vec![]));
        assert_eq!(files(gone.after(0, &[Identity { volume: 1, file: 3 }], "name")), Some(vec![]));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for_and_what_was_forgotten_is_said() {
        for (count, bytes, kept) in [(REMEMBERED_MAX + 9, 0, REMEMBERED_MAX), (9, BYTES_MAX / 4, 3)] {
            let gone = Gone::default();
            (0..count).for_each(|file| gone.goes(DIRECTORY, &file.to_string(), former(file as u64), bytes));
            let forgotten = (count - kept) as u64;
            assert_eq!(files(gone.after(forgotten - 1, &[DIRECTORY], "8")), None);
            assert_eq!(
                files(gone.after(forgotten, &[DIRECTORY], &(count - 1).to_string())),
                Some(vec![count as u64 - 1])
            );
            let memory = gone.memory.lock();
            assert_eq!((memory.order.len(), memory.by_name.len()), (kept, kept));
        }
    }
}
