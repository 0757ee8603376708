//! How long a file is, and how much space it has. Where the file is memory, the kernel keeps everybody waiting who changes it while much space
//! comes or goes. So whoever makes such a change holds the file's turn alone, and what nobody sees in parts goes in steps, between which others
//! have their turn.

use parking_lot::MutexGuard;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::directory::data;
use crate::directory::errno::error;
use crate::directory::file::{LONG_BYTES, OpenFile};
use crate::directory::neighbours::Turn;
use crate::directory::quota::{Growth, note_reserved};
use crate::{Error, Waits, waiting};

/// A step: some milliseconds.
const STEP_BYTES: u64 = 16 << 20;

/// Cuts or grows the data.
pub(super) fn set_length(file: &OpenFile, fd: BorrowedFd<'_>, length: u64) -> Result<(), Error> {
    Cut::begin(file, fd, length)?.make()
}

/// The data are about to be cut, or to grow: nobody appends to them meanwhile, and the file's turn is had.
pub(super) struct Cut<'a> {
    file: &'a OpenFile,
    fd: BorrowedFd<'a>,
    length_before: u64,
    length: u64,
    // In this order they end.
    _end: MutexGuard<'a, ()>,
    _turn: Option<Turn>,
}

impl<'a> Cut<'a> {
    pub(super) fn begin(file: &'a OpenFile, fd: BorrowedFd<'a>, length: u64) -> Result<Self, Error> {
        free_behind(file, fd, length)?;
        let turn = file.begin_of("set_length", freed(fd, length)?)?;
        let end = file.volume.lock_end(file.identity);
        let length_before = data::length(fd).map_err(error)?;
        Ok(Cut { file, fd, length_before, length, _end: end, _turn: turn })
    }

    pub(super) fn make(&self) -> Result<(), Error> {
        change(self.file, self.fd, Growth::None, || match data::set_length(self.fd, self.length) {
            Err(_) if self.is_made() => Ok(()),
            answer => answer,
        })
    }

    /// NFS and FUSE may have done what they say has failed.
    fn is_made(&self) -> bool {
        self.length_before != self.length && data::length(self.fd) == Ok(self.length)
    }
}

/// Has so much space for the data, and cuts data that is longer.
pub(super) fn set_allocation(file: &OpenFile, fd: BorrowedFd<'_>, bytes: u64) -> Result<(), Error> {
    free_behind(file, fd, bytes)?;
    let turn = file.begin_of("set_allocation", freed(fd, bytes)?)?;
    // Who cuts the file or appends to it has to wait, so that data that is too long stays so until it is cut. Only the length can be set, so
    // that nothing is given back behind data that fits: somebody may be writing there.
    let end = file.volume.lock_end(file.identity);
    if bytes < data::length(fd).map_err(error)? {
        return change(file, fd, Growth::None, || data::set_length(fd, bytes));
    }
    drop(end);
    drop(turn);
    reserve(file, fd, bytes)
}

/// Reserves space behind the data.
pub(super) fn reserve(file: &OpenFile, fd: BorrowedFd<'_>, up_to: u64) -> Result<(), Error> {
    let mut at = data::length(fd).map_err(error)?;
    if !goes_in_steps(file) || up_to.saturating_sub(at) <= LONG_BYTES {
        let _turn = file.begin("reserve")?;
        // Some file systems keep what they found before they found no more.
        if up_to > at && !data::may_have_room(fd, up_to).map_err(error)? {
            return Err(Error::Full);
        }
        return change(file, fd, Growth::UpTo(up_to), || data::reserve(fd, up_to));
    }
    // What a step has reserved stays where a later one fails: somebody may have written there. So it is asked first for all of them.
    change(file, fd, Growth::UpTo(up_to), || Ok(()))?;
    if !data::may_have_room(fd, up_to).map_err(error)? {
        return Err(Error::Full);
    }
    while at < up_to {
        let end = up_to.min(at.saturating_add(STEP_BYTES));
        let turn = file.begin_of("reserve", STEP_BYTES)?;
        let growth = Growth::Write { offset: at, length: end - at };
        let reserved = change(file, fd, growth, || data::reserve_range(fd, at, end));
        if let Some(turn) = turn {
            turn.end();
        }
        reserved?;
        at = end;
    }
    note_reserved(file.volume.quota.as_ref(), file.identity, fd, up_to);
    Ok(())
}

/// Frees what is reserved behind data that is to be cut. The data itself go in one step: who reads sees the cut whole or not at all.
fn free_behind(file: &OpenFile, fd: BorrowedFd<'_>, length: u64) -> Result<(), Error> {
    let (size, held) = data::space(fd).map_err(error)?;
    if !goes_in_steps(file) || length >= size || held <= STEP_BYTES {
        return Ok(());
    }
    let mut behind = size;
    while behind < size.saturating_add(held) {
        let turn = file.begin_of("set_length", STEP_BYTES)?;
        // What somebody has written there since is cut all the same.
        let freed = change(file, fd, Growth::None, || data::punch(fd, behind, STEP_BYTES));
        if let Some(turn) = turn {
            turn.end();
        }
        freed?;
        behind = behind.saturating_add(STEP_BYTES);
    }
    Ok(())
}

/// How much space a file may give back that gets this length.
fn freed(fd: BorrowedFd<'_>, length: u64) -> Result<u64, Error> {
    let (size, held) = data::space(fd).map_err(error)?;
    Ok(if length > size { 0 } else { held })
}

fn goes_in_steps(file: &OpenFile) -> bool {
    file.waits == Waits::Never && waiting::is_allowed()
}

fn change(
    file: &OpenFile,
    fd: BorrowedFd<'_>,
    growth: Growth,
    change: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Error> {
    file.volume.account(file.identity, fd, growth, change)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;
    use crate::directory::neighbours::locks;
    use crate::directory::{DirectoryOptions, DirectoryStore};
    use crate::waiting::{Forbidden, forbid};
    use crate::{Kind, Name, NewNode, Node, Replace, SharePath, Store};

    /// A store in memory, where this machine has it.
    fn in_memory(quota_bytes: Option<u64>) -> Option<(tempfile::TempDir, DirectoryStore)> {
        let folder = tempfile::tempdir_in("/dev/shm").ok()?;
        let options = DirectoryOptions { quota_bytes, ..DirectoryOptions::default() };
        let store = DirectoryStore::open(folder.path(), options).unwrap();
        Some((folder, store))
    }

    fn make(store: &DirectoryStore, name: &str) -> Arc<dyn Node> {
        let new = NewNode { kind: Kind::File, attributes: 0x20, security: None, owner: None };
        store.create(&SharePath::parse(name).unwrap(), new).unwrap()
    }

    /// What each change comes to on a thread that must not wait.
    fn changes_at_once(node: &dyn Node) -> Vec<Option<Error>> {
        let change = || {
            forbid(Forbidden::Told);
            let changes = crate::Changes { write: Some(crate::Time(1 << 56)), ..crate::Changes::default() };
            vec![
                node.write_at(b"x", 0).err(),
                node.append(b"x", &mut Ok).err(),
                node.set_length(5).err(),
                node.set_allocation(4096).err(),
                node.reserve(4096).err(),
                node.zero(0, 1, true).err(),
                node.extents(0, 1, 1).err(),
                node.change(&changes).err(),
                node.extras().set_security(b"s").err(),
                node.extras().set_extended("a", b"x").err(),
                node.extras().create_stream("t").err(),
                node.extras().rename_stream("t", "u", Replace::No).err(),
                node.extras().remove_stream("u").err(),
            ]
        };
        std::thread::scope(|scope| scope.spawn(change).join().unwrap())
    }

    #[test]
    fn who_must_not_wait_changes_nothing_while_a_change_takes_long() {
        let Some((_folder, store)) = in_memory(Some(1 << 30)) else { return };
        let file = make(&store, "file");
        let stream = file.extras().create_stream("s").unwrap();
        if file.waits() != Waits::Never {
            return;
        }
        for node in [&file, &stream] {
            let turn = locks(file.identity().volume).change_alone(file.identity());
            assert!(node.try_hold().is_none());
            assert!(changes_at_once(&**node).iter().all(|error| *error == Some(Error::WouldBlock)));
            turn.end();
            assert!(changes_at_once(&**node).iter().all(Option::is_none), "it is over");
        }
    }

    #[test]
    fn who_must_not_wait_looks_for_no_stream_that_somebody_changes() {
        let Some((_folder, store)) = in_memory(None) else { return };
        let file = make(&store, "file");
        let stream = file.extras().create_stream("s").unwrap();
        stream.write_at(b"data", 0).unwrap();
        file.extras().rename_stream("s", "t", Replace::No).unwrap();
        let look = || {
            forbid(Forbidden::Told);
            stream.try_read_at(&mut [0; 4], 0)
        };
        let looks = || std::thread::scope(|scope| scope.spawn(look).join().unwrap());
        let changing = locks(file.identity().volume).beside(file.identity());
        assert_eq!(looks(), Err(Error::WouldBlock), "it is not where it was");
        drop(changing);
        assert_eq!(looks(), Ok(4));
    }

    #[test]
    fn a_change_that_takes_long_waits_for_those_who_must_not_wait() {
        let Some((_folder, store)) = in_memory(None) else { return };
        let file = make(&store, "file");
        if file.waits() != Waits::Never {
            return;
        }
        let held = file.try_hold().unwrap();
        let (ended, answer) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| ended.send(file.reserve(4 << 20)).unwrap());
            while file.try_hold_elsewhere() {
                assert_eq!(answer.try_recv(), Err(mpsc::TryRecvError::Empty));
                std::thread::yield_now();
            }
            assert_eq!(answer.try_recv(), Err(mpsc::TryRecvError::Empty), "it has not begun");
            drop(held);
        });
        assert_eq!(answer.recv(), Ok(Ok(())));
    }

    trait HeldElsewhere {
        fn try_hold_elsewhere(&self) -> bool;
    }

    impl HeldElsewhere for Arc<dyn Node> {
        /// True where another thread could hold it, too.
        fn try_hold_elsewhere(&self) -> bool {
            std::thread::scope(|scope| scope.spawn(|| self.try_hold().is_some()).join().unwrap())
        }
    }

    #[test]
    fn nobody_holds_a_directory_while_waiting_for_a_change_that_takes_long() {
        let Some((_folder, store)) = in_memory(None) else { return };
        let (file, other) = (make(&store, "file"), make(&store, "other"));
        if file.waits() != Waits::Never {
            return;
        }
        let (root, name) = store.directory_of(&SharePath::parse("file").unwrap()).unwrap();
        let turn = locks(file.identity().volume).change_alone(file.identity());
        let (began, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                began.send(()).unwrap();
                root.names().unwrap().remove(&name, file.identity()).unwrap();
            });
            begun.recv().unwrap();
            // It makes names beside the one that is to go.
            for number in 0..100 {
                make(&store, &format!("made {number}"));
            }
            assert!(root.names().unwrap().has(&name, file.identity()).unwrap());
            turn.end();
        });
        assert!(!root.names().unwrap().has(&name, file.identity()).unwrap());
        let new = Name::new("new").unwrap();
        let to = crate::Destination { directory: &*root, name: &new };
        root.names()
            .unwrap()
            .rename(&Name::new("other").unwrap(), other.identity(), to, Replace::Only(other.identity()))
            .unwrap();
    }

    fn held_bytes(node: &dyn Node) -> u64 {
        node.metadata().unwrap().allocated
    }

    #[test]
    fn what_goes_in_steps_comes_to_the_same() {
        const LONG: u64 = 3 * STEP_BYTES + 12_345;
        let Some((_folder, store)) = in_memory(Some(8 * STEP_BYTES)) else { return };
        let free_bytes = store.space().unwrap().free_bytes;
        for name in ["file", "stream"] {
            let file = make(&store, name);
            let node = if name == "stream" { file.extras().create_stream("s").unwrap() } else { file };
            let length = || node.metadata().unwrap().length;
            node.write_at(&[7; 10_000], 0).unwrap();
            node.set_allocation(LONG).unwrap();
            assert_eq!((length(), held_bytes(&*node) >= LONG), (10_000, true));
            assert_eq!(node.reserve(20 * STEP_BYTES), Err(Error::Full));
            assert!(held_bytes(&*node) < LONG + STEP_BYTES, "nothing was reserved");
            node.set_length(5000).unwrap();
            assert_eq!((length(), held_bytes(&*node)), (5000, 8192), "what was reserved is free");
            node.reserve(LONG).unwrap();
            node.set_length(1 << 40).unwrap();
            node.write_at(&[8; 10], (1 << 40) - 10).unwrap();
            node.set_length(2 * STEP_BYTES + 1).unwrap();
            assert!(held_bytes(&*node) <= 2 * STEP_BYTES + (2 << 20));
            node.set_allocation(100).unwrap();
            let mut data = [0; 200];
            assert_eq!((length(), node.read_at(&mut data, 0)), (100, Ok(100)));
            assert!(data[..100] == [7; 100]);
            node.set_length(0).unwrap();
            assert_eq!(held_bytes(&*node), 0);
        }
        assert_eq!(store.space().unwrap().free_bytes, free_bytes, "what was freed counts no more");
    }

    #[test]
    fn space_that_is_not_there_is_not_reserved_in_part() {
        let Some((_folder, store)) = in_memory(None) else { return };
        let file = make(&store, "file");
        if file.waits() != Waits::Never {
            return;
        }
        file.write_at(b"data", 0).unwrap();
        let before = held_bytes(&*file);
        assert_eq!(file.reserve(1 << 50), Err(Error::Full));
        assert_eq!(held_bytes(&*file), before);
    }

    #[test]
    fn appends_that_meet_a_long_cut_are_whole_or_gone() {
        const RECORD: usize = 1000;
        let Some((_folder, store)) = in_memory(None) else { return };
        let file = make(&store, "file");
        file.set_length(4 * STEP_BYTES).unwrap();
        file.write_at(&vec![1; 4 * STEP_BYTES as usize], 0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    file.append(&[2; RECORD], &mut Ok).unwrap();
                }
            });
            file.set_length(0).unwrap();
        });
        let mut data = vec![0; 400 * RECORD];
        let count = file.read_at(&mut data, 0).unwrap();
        assert_eq!(count % RECORD, 0);
        assert!(data[..count].iter().all(|byte| *byte == 2));
    }
}
