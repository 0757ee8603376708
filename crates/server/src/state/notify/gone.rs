//! Names that have gone, or lead elsewhere now, and what stood there: who is told of changes below such a name is judged by the descriptor
//! that there was. Only so many are remembered. What came before the last one that was forgotten cannot be judged by it any more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use store::{Identity, Kind, fold};

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
    by_name: HashMap<(Identity, String), Vec<Numbered>>,
    /// The oldest first, each with its bytes.
    order: VecDeque<(u64, (Identity, String), usize)>,
    bytes: usize,
    /// The last one that was forgotten.
    forgotten: u64,
}

/// What had a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Former {
    pub(super) identity: Identity,
    pub(super) kind: Kind,
    /// Its descriptor, where it had one, as it was stored.
    pub(super) descriptor: Option<Arc<[u8]>>,
}

/// A name that has gone, by its number.
type Numbered = (u64, Option<Former>);

/// What had a name since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing but what has it now.
    Nothing,
    One(Former),
    /// Several things, or one of which nothing is known: another program took it away, or it was forgotten.
    Unknown,
}

impl Gone {
    /// How many have gone. A change that was made then is judged by those that went later.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// What had `name` in `directory` has it no longer.
    pub(super) fn goes(&self, directory: Identity, name: &str, former: Option<Former>) {
        let name = fold(name);
        let descriptor = former.as_ref().and_then(|former| former.descriptor.as_ref()).map_or(0, |bytes| bytes.len());
        let bytes = size_of::<Former>() + 2 * name.len() + descriptor;
        let mut memory = self.memory.lock();
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        memory.order.push_back((number, (directory, name.clone()), bytes));
        memory.by_name.entry((directory, name)).or_default().push((number, former));
        memory.bytes += bytes;
        while memory.order.len() > REMEMBERED_MAX || memory.bytes > BYTES_MAX {
            memory.forget_oldest();
        }
    }

    /// What had `name` in `directory` and went after `since` others had.
    pub(super) fn after(&self, since: u64, directory: Identity, name: &str) -> Before {
        let memory = self.memory.lock();
        if since < memory.forgotten {
            return Before::Unknown;
        }
        let known = memory.by_name.get(&(directory, fold(name)));
        // The latest stand last.
        let mut later = known.into_iter().flatten().rev().take_while(|(number, _)| *number > since);
        match (later.next(), later.next()) {
            (None, _) => Before::Nothing,
            (Some((_, Some(former))), None) => Before::One(former.clone()),
            (Some(_), _) => Before::Unknown,
        }
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
    use super::*;

    const DIRECTORY: Identity = Identity { volume: 1, file: 2 };

    fn former(file: u64, bytes: usize) -> Former {
        let descriptor = Some(vec![0; bytes].into());
        Former { identity: Identity { volume: 1, file }, kind: Kind::Directory, descriptor }
    }

    #[test]
    fn what_went_later_is_found_by_its_name_in_any_case() {
        let gone = Gone::default();
        gone.goes(DIRECTORY, "Name", Some(former(10, 0)));
        let since = gone.count();
        gone.goes(DIRECTORY, "NAME", Some(former(11, 0)));
        gone.goes(DIRECTORY, "another's", None);
        let found = |since, name| gone.after(since, DIRECTORY, name);
        assert_eq!(found(since, "name"), Before::One(former(11, 0)));
        assert_eq!(found(0, "name"), Before::Unknown, "there were two");
        assert_eq!(found(0, "another's"), Before::Unknown);
        assert_eq!(found(gone.count(), "name"), Before::Nothing);
        assert_eq!(gone.after(0, Identity { volume: 1, file: 3 }, "name"), Before::Nothing);
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for_and_what_was_forgotten_is_said() {
        for (count, bytes, kept) in [(REMEMBERED_MAX + 9, 0, REMEMBERED_MAX), (9, BYTES_MAX / 4, 3)] {
            let gone = Gone::default();
            (0..count).for_each(|file| gone.goes(DIRECTORY, &file.to_string(), Some(former(file as u64, bytes))));
            let (forgotten, last) = ((count - kept) as u64, count as u64 - 1);
            assert_eq!(gone.after(forgotten - 1, DIRECTORY, "8"), Before::Unknown);
            assert_eq!(gone.after(forgotten, DIRECTORY, &last.to_string()), Before::One(former(last, bytes)));
            let memory = gone.memory.lock();
            assert_eq!((memory.order.len(), memory.by_name.len()), (kept, kept));
        }
    }
}
