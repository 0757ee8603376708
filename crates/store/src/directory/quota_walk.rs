//! Goes through all files of a share to count what they hold, in little memory however its folder looks.
//!
//! Each directory is opened in the one that it lies in, so that no path is too long, and gone through wherever it is by then. No name waits to be
//! opened: of each directory on the way down it is known where its names go on, and the last of them stay open. From others the way up is `..`.
//! Where that leads elsewhere, as something was moved meanwhile, the way down is gone anew from the root as far as it is what it was.
//!
//! What was not come by is told ([`Missed`]). What moves from where nobody has looked to where all is done is not among it (`recount.rs`).

use std::collections::VecDeque;
use std::mem;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::Identity;
use crate::directory::calls::openat;
use crate::directory::fence::{Fence, Wait};
use crate::directory::listing::{Listed, SCAN_BUFFER_BYTES, names_within};
use crate::directory::stat::{file_type, identity, stat, stat_at};

/// So many directories on the way down stay open.
const HELD_MAX: usize = 32;
/// What the first read of a directory fills, and the first after each directory in it: more may be read again. The longest entry has 1,048 bytes.
const READ_BYTES: usize = 2048;
/// A directory that is opened in its own right is read with these.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const LIMITS: Limits = Limits { names: 1 << 24, levels: 1 << 16, returns: 64 };

/// What a walk does at most.
#[derive(Clone, Copy)]
struct Limits {
    /// Names that are come by.
    names: usize,
    /// Directories in each other. Each takes 32 bytes here, and more than a kilobyte of the kernel's memory while one below it is open.
    levels: usize,
    /// Ways down that are gone anew.
    returns: usize,
}

/// A directory to open: the root, or a name in an open one.
pub(super) type Step<'a> = Option<(BorrowedFd<'a>, &'a [u8])>;

/// What a walk did not come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Files and directories that this process may not look at, now or at another time.
    pub(super) denied: usize,
    /// Others: the disk failed, or they were moved meanwhile, lie too deep, or are too many.
    pub(super) lost: usize,
    /// Why the first was missed.
    pub(super) error: Option<Errno>,
}

/// A directory on the way down.
struct Level {
    identity: Identity,
    /// Where it has the name of the next level.
    at: u64,
    /// Where its names go on.
    next: u64,
}

struct Walk<Open, Each> {
    open: Open,
    each: Each,
    limits: Limits,
    /// From the root to the directory that is looked through.
    way: Vec<Level>,
    /// The last of them.
    held: VecDeque<OwnedFd>,
    names: usize,
    returns: usize,
    missed: Missed,
}

/// Comes by all files below the root, by each of their names. `None` where `open` gives nothing any more.
pub(super) fn walk(
    open: impl Fn(Step<'_>) -> Option<Result<OwnedFd, Errno>>,
    each: impl FnMut(Identity, &Statx),
) -> Option<Missed> {
    walk_within(LIMITS, open, each)
}

fn walk_within(
    limits: Limits,
    open: impl Fn(Step<'_>) -> Option<Result<OwnedFd, Errno>>,
    each: impl FnMut(Identity, &Statx),
) -> Option<Missed> {
    let (way, held, missed) = (Vec::new(), VecDeque::with_capacity(HELD_MAX + 1), Missed::default());
    let mut walk = Walk { open, each, limits, way, held, names: 0, returns: 0, missed };
    let root = (walk.open)(None)?;
    walk.enter(root);
    while let Some(folder) = walk.held.pop_back() {
        let found = walk.look_through(folder.as_fd());
        if walk.names > limits.names {
            walk.missed.note(Errno::OVERFLOW);
            break;
        }
        match found {
            Some(name) => {
                let below = (walk.open)(Some((folder.as_fd(), &name)))?;
                walk.held.push_back(folder);
                walk.enter(below);
            }
            None => walk.leave(&folder)?,
        }
    }
    Some(walk.missed)
}

/// Opens what `walk` asks for.
pub(super) fn open(fence: &Fence, step: Step<'_>) -> Result<OwnedFd, Errno> {
    match step {
        None => fence.open(b"", FLAGS, Wait::May),
        Some((folder, name)) => fence.open_in(folder, name, FLAGS, Wait::May),
    }
}

impl Missed {
    pub(super) fn note(&mut self, errno: Errno) {
        match errno {
            Errno::ACCESS => self.denied += 1,
            _ => self.lost += 1,
        }
        self.error.get_or_insert(errno);
    }
}

impl<Open, Each> Walk<Open, Each>
where
    Open: Fn(Step<'_>) -> Option<Result<OwnedFd, Errno>>,
    Each: FnMut(Identity, &Statx),
{
    /// Goes on in a directory, from its first name.
    fn enter(&mut self, opened: Result<OwnedFd, Errno>) {
        match opened.and_then(known) {
            Ok(_) if self.way.len() == self.limits.levels => self.missed.note(Errno::NAMETOOLONG),
            Ok((identity, folder)) => self.go_on_in(Level { identity, at: 0, next: 0 }, folder),
            Err(errno) => self.missed.note(errno),
        }
    }

    fn go_on_in(&mut self, level: Level, folder: OwnedFd) {
        self.way.push(level);
        self.held.push_back(folder);
        if self.held.len() > HELD_MAX {
            self.held.pop_front();
        }
    }

    /// Comes by the files of the last directory up to the next directory in it, and gives that one's name.
    fn look_through(&mut self, folder: BorrowedFd<'_>) -> Option<Vec<u8>> {
        let (level, missed) = (self.way.last_mut()?, &mut self.missed);
        let mut read_bytes = READ_BYTES;
        while self.names <= self.limits.names {
            let (mut found, mut behind) = (None, None);
            let visit = |entry: Listed<'_>| {
                if found.is_some() {
                    behind.get_or_insert(entry.at);
                    return;
                }
                self.names += 1;
                match stat_at(folder, entry.name) {
                    Ok(stat) => match file_type(&stat) {
                        FileType::RegularFile | FileType::Symlink => (self.each)(identity(&stat), &stat),
                        FileType::Directory => found = Some((entry.name.to_vec(), entry.at)),
                        _ => {}
                    },
                    // It has gone. A file that has only got another name is known to who gave it.
                    Err(Errno::NOENT) if !matches!(entry.kind, FileType::Directory | FileType::Unknown) => {}
                    Err(errno) => missed.note(errno),
                }
            };
            level.next = match names_within(folder, level.next, read_bytes, visit) {
                Ok(Some(next)) => behind.unwrap_or(next),
                Ok(None) => return None,
                Err(errno) => {
                    // A directory that was removed held nothing, whatever the file system says of reading it.
                    if !stat(folder).is_ok_and(|stat| stat.stx_nlink == 0) {
                        missed.note(errno);
                    }
                    return None;
                }
            };
            if let Some((name, at)) = found {
                level.at = at;
                // Two names have one place: what is read from there on would be the same again.
                if level.next == at {
                    missed.note(Errno::LOOP);
                    return None;
                }
                return Some(name);
            }
            read_bytes = (2 * read_bytes).min(SCAN_BUFFER_BYTES);
        }
        None
    }

    /// Goes on in the directory that the last one lies in.
    fn leave(&mut self, done: &OwnedFd) -> Option<()> {
        self.way.pop();
        if self.held.is_empty()
            && let Some(level) = self.way.last()
        {
            match openat(done, c"..", FLAGS, Mode::empty()).and_then(known) {
                Ok((identity, folder)) if identity == level.identity => self.held.push_back(folder),
                Ok(_) | Err(_) => self.go_down_again()?,
            }
        }
        Some(())
    }

    /// Goes on in the last directory that is where it was, from the root on.
    fn go_down_again(&mut self) -> Option<()> {
        let way = mem::take(&mut self.way);
        let levels = way.len();
        self.returns += 1;
        if self.returns > self.limits.returns {
            self.missed.note(Errno::BUSY);
            return Some(());
        }
        let mut opened = (self.open)(None)?;
        for level in way {
            let is_last = self.way.len() + 1 == levels;
            match opened.and_then(known) {
                Ok((identity, folder)) if identity == level.identity => {
                    let name = if is_last { Err(Errno::NOENT) } else { name_at(folder.as_fd(), level.at) };
                    opened = match name {
                        Ok(name) => (self.open)(Some((folder.as_fd(), &name)))?,
                        Err(errno) => Err(errno),
                    };
                    self.go_on_in(level, folder);
                }
                Ok(_) | Err(_) => {
                    self.missed.note(Errno::NOENT);
                    break;
                }
            }
        }
        Some(())
    }
}

fn known(folder: OwnedFd) -> Result<(Identity, OwnedFd), Errno> {
    Ok((identity(&stat(&folder)?), folder))
}

/// The name that a directory has at a place.
fn name_at(folder: BorrowedFd<'_>, at: u64) -> Result<Vec<u8>, Errno> {
    let mut first = None;
    names_within(folder, at, READ_BYTES, |entry| {
        first.get_or_insert_with(|| entry.name.to_vec());
    })?;
    first.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::directory::calls::{self, mkdirat};

    /// So many directories in each other, whose names have so many bytes.
    const DEEP: usize = 300;
    const LONG: usize = 200;

    /// In memory: on a disk each of the many names would be waited for.
    fn folder() -> TempDir {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        tempfile::tempdir_in(place).unwrap()
    }

    fn open_folder(place: &Path) -> OwnedFd {
        calls::open(place, FLAGS, Mode::empty()).unwrap()
    }

    fn make(folder: &OwnedFd, name: &str) -> OwnedFd {
        mkdirat(folder, name, Mode::RWXU).unwrap();
        openat(folder, name, FLAGS, Mode::empty()).unwrap()
    }

    fn make_file(folder: &OwnedFd, name: &str) {
        openat(folder, name, OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    }

    /// Makes directories in each other, each with two files and a directory with one; a file named "last" is in the innermost.
    fn make_deep(place: &Path, levels: usize, name: &str) {
        let mut folder = open_folder(place);
        for _ in 0..levels {
            make_file(&folder, "a");
            let below = make(&folder, name);
            make_file(&make(&folder, "side"), "file");
            make_file(&folder, "z");
            folder = below;
        }
        make_file(&folder, "last");
    }

    fn walk_in(place: &Path, limits: Limits, mut each: impl FnMut(Identity)) -> Missed {
        let fence = Fence::new(place).unwrap();
        walk_within(limits, |step| Some(open(&fence, step)), |file, _| each(file)).unwrap()
    }

    /// How many files are come by, and what is missed.
    fn count(place: &Path, limits: Limits) -> (usize, Missed) {
        let mut count = 0;
        let missed = walk_in(place, limits, |_| count += 1);
        (count, missed)
    }

    /// The same where `change` is made when the innermost file is come by.
    fn count_with(place: &Path, limits: Limits, last: &Path, change: impl Fn()) -> (usize, Missed) {
        let last = known(open_folder(last.parent().unwrap())).unwrap().1;
        let last = identity(&stat_at(&last, b"last").unwrap());
        let (mut count, is_made) = (0, Cell::new(false));
        let missed = walk_in(place, limits, |file| {
            count += 1;
            if file == last && !is_made.replace(true) {
                change();
            }
        });
        assert!(is_made.get());
        (count, missed)
    }

    #[test]
    fn a_walk_holds_little_however_many_directories_there_are() {
        let folder = folder();
        let mut below = open_folder(folder.path());
        for _ in 0..10 {
            below = make(&below, &"n".repeat(255));
        }
        for index in 0..200_000 {
            mkdirat(&below, format!("{index:0255}"), Mode::RWXU).unwrap();
        }
        make_file(&below, "file");
        let mut counted = (0, Missed::default());
        let held = allocation_counter::measure(|| counted = count(folder.path(), LIMITS));
        assert_eq!(counted, (1, Missed::default()));
        assert!(held.bytes_max < 256 << 10, "{held:?}");
    }

    #[test]
    fn a_walk_holds_little_however_deep_directories_lie() {
        let levels = LIMITS.levels + 10;
        let folder = folder();
        let mut below = open_folder(folder.path());
        for _ in 0..levels {
            below = make(&below, "n");
        }
        drop(below);
        let mut counted = (0, Missed::default());
        let held = allocation_counter::measure(|| counted = count(folder.path(), LIMITS));
        remove_deep(folder.path(), "n");
        assert_eq!(counted, (0, Missed { lost: 1, error: Some(Errno::NAMETOOLONG), ..Missed::default() }));
        assert!(held.bytes_max < 4 << 20, "{held:?}");
    }

    /// The standard library calls itself for each level.
    fn remove_deep(place: &Path, name: &str) {
        let (mut folder, mut depth) = (open_folder(place), 0);
        while let Ok(below) = openat(&folder, name, FLAGS, Mode::empty()) {
            (folder, depth) = (below, depth + 1);
        }
        for _ in 0..depth {
            folder = openat(&folder, c"..", FLAGS, Mode::empty()).unwrap();
            calls::unlinkat(&folder, name, rustix::fs::AtFlags::REMOVEDIR).unwrap();
        }
    }

    #[test]
    fn what_lies_deeper_than_a_path_can_say_is_come_by() {
        let folder = folder();
        make_deep(folder.path(), DEEP, &"n".repeat(LONG));
        assert_eq!(count(folder.path(), LIMITS), (3 * DEEP + 1, Missed::default()));
    }

    #[test]
    fn a_directory_that_is_moved_while_it_is_looked_through_is_left_for_where_it_was() {
        const LEVELS: usize = 100;
        let below = |count| ["n"].repeat(count).join("/");
        let last = below(LEVELS) + "/last";
        for moved in [1, 20, LEVELS - 1, LEVELS] {
            let (folder, elsewhere) = (folder(), folder());
            make_deep(folder.path(), LEVELS, "n");
            let change = || fs::rename(folder.path().join(below(moved)), elsewhere.path().join("moved")).unwrap();
            let counted = count_with(folder.path(), LIMITS, &folder.path().join(&last), change);
            assert_eq!(counted, (3 * LEVELS + 1, Missed::default()), "{moved}");
        }
    }

    #[test]
    fn what_is_not_found_again_is_told_and_the_rest_come_by() {
        const LEVELS: usize = 100;
        let below = |count| ["n"].repeat(count).join("/");
        let last = below(LEVELS) + "/last";
        for (returns, found) in [(LIMITS.returns, 10), (0, 0)] {
            let (folder, elsewhere) = (folder(), folder());
            make_deep(folder.path(), LEVELS, "n");
            let change = || {
                for moved in [20, 10] {
                    let to = elsewhere.path().join(moved.to_string());
                    fs::rename(folder.path().join(below(moved)), to).unwrap();
                }
            };
            let limits = Limits { returns, ..LIMITS };
            let (counted, missed) = count_with(folder.path(), limits, &folder.path().join(&last), change);
            assert_eq!((missed.denied, missed.lost), (0, 1));
            assert!(counted > 3 * (LEVELS - 20 + found) && counted < 3 * LEVELS + 1, "{counted}");
        }
    }

    #[test]
    fn what_is_removed_meanwhile_is_not_missed() {
        const LEVELS: usize = 100;
        let below = |count| ["n"].repeat(count).join("/");
        let folder = folder();
        make_deep(folder.path(), LEVELS, "n");
        let change = || fs::remove_dir_all(folder.path().join(below(10))).unwrap();
        let (counted, missed) = count_with(folder.path(), LIMITS, &folder.path().join(below(LEVELS) + "/last"), change);
        assert_eq!(missed, Missed::default());
        assert!(counted >= 31);
    }

    #[test]
    fn what_is_beyond_the_limits_is_told() {
        let folder = folder();
        make_deep(folder.path(), 10, "n");
        assert_eq!(count(folder.path(), Limits { names: 51, levels: 11, returns: 0 }).1, Missed::default());
        let (_, missed) = count(folder.path(), Limits { names: 20, ..LIMITS });
        assert_eq!(missed, Missed { lost: 1, error: Some(Errno::OVERFLOW), ..Missed::default() });
        let (counted, missed) = count(folder.path(), Limits { levels: 6, ..LIMITS });
        assert_eq!((counted, missed.lost), (3 * 5 + 2, 2));
    }

    #[test]
    fn a_share_that_goes_ends_a_walk() {
        let folder = folder();
        make_deep(folder.path(), 10, "n");
        let fence = Fence::new(folder.path()).unwrap();
        let left = Cell::new(5);
        let missed = walk(|step| Some(open(&fence, step)).filter(|_| left.replace(left.get() - 1) > 0), |_, _| ());
        assert_eq!(missed, None);
    }
}
