//! What all nodes of one directory store share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::MutexGuard;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::path::DecInt;

use crate::directory::cache::Cache;
use crate::directory::calls::{fstatfs, fstatvfs, linkat, open, openat, readlinkat};
use crate::directory::clones;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::exclusive::Exclusive;
use crate::directory::fence::Fence;
use crate::directory::file_system::FileSystem;
use crate::directory::keys::Keep;
use crate::directory::link_counts;
use crate::directory::mounts::{self, Below};
use crate::directory::nameless::Nameless;
use crate::directory::neighbours::{self, Locks, Making};
use crate::directory::quota::{self, Growth, Limit, Quota};
use crate::directory::roots::Serving;
use crate::directory::stat::{COARSE_TICK, Mount, identity, mount, stat};
use crate::directory::{DirectoryOptions, UnixOwner};
use crate::{Error, Identity, Look, SharePath, Waits, waiting};

/// File systems that answer from this machine's memory what they know of an open file. overlayfs is none of them: what
/// lies below may be another machine's, and it opens files anew, and copies them, as it likes.
const LOCAL: [FileSystem; 6] =
    [FileSystem::EXT4, FileSystem::XFS, FileSystem::BTRFS, FileSystem::F2FS, FileSystem::BCACHEFS, FileSystem::ZFS];
/// File systems that are memory.
const MEMORY: [FileSystem; 2] = [FileSystem::TMPFS, FileSystem::RAMFS];
/// File systems whose files may share extents.
const CLONES: [FileSystem; 2] = [FileSystem::XFS, FileSystem::BTRFS];
/// The longest file on ext4 with 4-KiB blocks.
const EXT4_LENGTH_MAX: u64 = (16 << 40) - 4096;

/// Permissions without the bits that give a program its file's owner or group.
const PERMISSIONS: u32 = 0o777;

/// Allocation units are told to clients as some number of 512-byte sectors.
const UNIT_BYTES_MIN: u32 = 512;
const UNIT_BYTES_MAX: u32 = 1 << 20;

/// How coarse the times of change are on local file systems: more than a tick of a 100-Hz kernel.
pub(super) const LOCAL_TICK: Duration = Duration::from_millis(20);

/// Whether what is told of a file may be kept in memory, and who tells when it is so no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Nothing,
    /// Nobody tells.
    Untold,
    /// The kernel does.
    Watched,
}

/// A folder that is served.
pub(super) struct Volume {
    pub(super) fence: Arc<Fence>,
    pub(super) identity: Identity,
    pub(super) read_only: bool,
    /// What may have to be waited for on the root's own file system.
    pub(super) waits: Waits,
    mount: Mount,
    pub(super) file_length_max: u64,
    pub(super) unit_bytes: u32,
    /// Its files can share extents.
    pub(super) shares_extents: bool,
    pub(super) cache: Cache,
    pub(super) keep: Keep,
    pub(super) quota: Option<Quota>,
    /// The permissions of new files and directories, where the share says what they are.
    pub(super) file_mode: Option<Mode>,
    pub(super) directory_mode: Option<Mode>,
    /// Whose they are, where that is not the process's user.
    pub(super) owner: Option<UnixOwner>,
    exclusive: Option<Arc<Exclusive>>,
    proc: Option<OwnedFd>,
    reads_without_waiting: AtomicBool,
    /// Of some file that was opened reading moves the time of last access.
    reading_marks: AtomicBool,
    locks: &'static Locks,
    mounted: Below,
    /// The folder as the others that are served know it.
    pub(super) root: Serving,
}

impl Volume {
    pub(super) fn new(folder: &Path, options: &DirectoryOptions, quota: Option<&Limit>) -> Result<Self, Error> {
        let fence = Arc::new(Fence::new(folder).map_err(error)?);
        // The first share has the table read, which a shard does not.
        mounts::known();
        let root = stat(fence.root()).map_err(error)?;
        let root_identity = identity(&root);
        let kind = kind_of(fence.root()).map_err(error)?;
        let system = fstatvfs(fence.root()).map_err(error)?;
        let read_only = options.read_only || system.f_flag.contains(StatVfsMountFlags::RDONLY);
        let waits = waits_on(kind);
        let exclusive = if read_only { None } else { Some(Exclusive::take(fence.root(), root_identity, waits)?) };
        // On a local file system what says so has lost its name just now.
        if waits == Waits::Always || cfg!(test) {
            let locked = exclusive.as_ref().and_then(|exclusive| exclusive.stat());
            link_counts::note([Some(root), locked].iter().flatten());
        }
        let proc_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let keep = if options.attributes_beside_files { Keep::Beside } else { Keep::on(fence.root()) };
        Ok(Volume {
            identity: root_identity,
            read_only,
            waits,
            mount: mount(&root),
            file_length_max: if kind == FileSystem::EXT4 { EXT4_LENGTH_MAX } else { i64::MAX as u64 },
            unit_bytes: u32::try_from(system.f_frsize).unwrap_or(0).clamp(UNIT_BYTES_MIN, UNIT_BYTES_MAX),
            shares_extents: !read_only && CLONES.contains(&kind) && clones::are_possible(fence.root()),
            cache: Cache::new(if waits == Waits::Always { COARSE_TICK } else { LOCAL_TICK }, root_identity.volume),
            keep,
            file_mode: options.file_mode.map(|mode| Mode::from_raw_mode(mode & PERMISSIONS)),
            directory_mode: options.directory_mode.map(|mode| Mode::from_raw_mode(mode & PERMISSIONS)),
            owner: options.owner,
            exclusive,
            quota: quota.map(|limit| Quota::measure(&fence, root_identity.volume, folder, Arc::clone(limit))),
            proc: open("/proc/self/fd", proc_flags, Mode::empty()).ok(),
            reads_without_waiting: AtomicBool::new(true),
            reading_marks: AtomicBool::new(false),
            locks: neighbours::locks(root_identity.volume),
            mounted: Below::default(),
            root: Serving::new(&fence, root_identity, keep),
            fence,
        })
    }

    /// Where open files count for the quota, if there is one.
    pub(super) fn nameless(&self) -> Option<&Arc<Nameless>> {
        self.quota.as_ref().map(|quota| &quota.nameless)
    }

    /// Changes the data of `file`, which `fd` has open, within the quota, if there is one.
    pub(super) fn account<Fd: AsFd, T>(
        &self,
        file: Identity,
        fd: Fd,
        growth: Growth,
        change: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        quota::account(self.quota.as_ref(), file, fd, growth, change)
    }

    /// Has what counts for the quota, if there is one, counted anew now and then.
    pub(super) fn have_recounted(&self) {
        if let Some(nameless) = self.nameless() {
            nameless.have_recounted(Arc::downgrade(&self.fence));
        }
    }

    /// Opens a file whose name is about to be taken away, where there is a quota. It is to be closed when that is done.
    pub(super) fn about_to_go(&self, folder: impl AsFd, name: &[u8]) -> Option<Descriptor> {
        self.nameless().and_then(|_| self.open_name(folder, name).ok())
    }

    /// The same whether there is a quota or not.
    pub(super) fn open_name(&self, folder: impl AsFd, name: &[u8]) -> Result<Descriptor, Errno> {
        let fd = openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Descriptor::new(fd, (self.waits, self.identity.volume)).counted(self.nameless()))
    }

    /// Keeps others from changing what is kept beside a file.
    pub(super) fn lock_file(&self, file: Identity) -> MutexGuard<'_, ()> {
        self.locks_of(file).beside(file)
    }

    /// The same of two files of one file system.
    pub(super) fn lock_files(
        &self,
        one: Identity,
        other: Identity,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        self.locks_of(one).beside_both(one, other)
    }

    /// Keeps others from appending to a file.
    pub(super) fn lock_end(&self, file: Identity) -> MutexGuard<'_, ()> {
        self.locks_of(file).end(file)
    }

    /// Keeps others from copying data that came with a file's attributes. [`Error::WouldBlock`] where that has to be waited for.
    pub(super) fn lock_adoption(&self, file: Identity) -> Result<MutexGuard<'_, ()>, Error> {
        self.locks_of(file).adopt(file).ok_or(Error::WouldBlock)
    }

    /// To be held while a file is made in a directory. [`Error::WouldBlock`] where that has to be waited for.
    pub(super) fn make_in(&self, directory: Identity) -> Result<Making, Error> {
        self.locks_of(directory).make().ok_or(Error::WouldBlock)
    }

    pub(super) fn locks_of(&self, file: Identity) -> &'static Locks {
        if file.volume == self.identity.volume { self.locks } else { neighbours::locks(file.volume) }
    }

    /// Opens a file again for something else. Needs `/proc`.
    pub(super) fn reopen(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let proc = self.proc.as_ref().ok_or(Errno::OPNOTSUPP)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.open_unmarked(flags, |flags| openat(proc, DecInt::from_fd(fd), flags, Mode::empty()))
    }

    /// Opens so that reading does not move the time of last access, which the kernel writes to its journal and waits for. Only the file's
    /// owner may, and who may do everything.
    pub(super) fn open_unmarked<Fd>(
        &self,
        flags: OFlags,
        open: impl Fn(OFlags) -> Result<Fd, Errno>,
    ) -> Result<Fd, Errno> {
        if flags.contains(OFlags::PATH) {
            return open(flags);
        }
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => {
                let fd = open(flags)?;
                self.reading_marks.store(true, Ordering::Relaxed);
                Ok(fd)
            }
            answer => answer,
        }
    }

    /// The same of what was just made: to make it so would leave it behind where that is refused.
    pub(super) fn unmark(&self, made: BorrowedFd<'_>) {
        if fcntl_setfl(made, OFlags::NONBLOCK | OFlags::NOATIME).is_err() {
            self.reading_marks.store(true, Ordering::Relaxed);
        }
    }

    /// True where to read through a descriptor may move the time of last access.
    pub(super) fn marks(&self, fd: BorrowedFd<'_>) -> bool {
        self.reading_marks.load(Ordering::Relaxed)
            && !fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NOATIME))
            && !fstatvfs(fd).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOATIME))
    }

    /// Where an open directory is now, as a path from the root; `None` where it is not below the root any more.
    pub(super) fn path_of(&self, directory: BorrowedFd<'_>) -> Option<Vec<u8>> {
        self.below_root(&self.place_of(directory)?)
    }

    /// Where an open file or directory is on this machine now, as well as the kernel can tell.
    pub(super) fn place_of(&self, file: BorrowedFd<'_>) -> Option<Vec<u8>> {
        let link = readlinkat(self.proc.as_ref()?, DecInt::from_fd(file), Vec::new()).ok()?;
        Some(link.into_bytes())
    }

    /// The path from the root of a place below it.
    pub(super) fn below_root(&self, place: &[u8]) -> Option<Vec<u8>> {
        let root = self.place_of(self.fence.root())?;
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        match place.strip_prefix(root)? {
            [] => Some(Vec::new()),
            [b'/', rest @ ..] => Some(rest.to_vec()),
            _ => None,
        }
    }

    /// The volume that `path` leads to: the root's, or that of the last that is known to be mounted on the way.
    pub(super) fn volume_at(&self, path: &SharePath) -> u64 {
        self.mounted
            .volume_at(|| self.place_of(self.fence.root()), path, mounts::known())
            .unwrap_or(self.identity.volume)
    }

    /// Gives an open file one more name.
    pub(super) fn link(&self, file: BorrowedFd<'_>, folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        match &self.proc {
            Some(proc) => linkat(proc, DecInt::from_fd(file), folder, name, AtFlags::SYMLINK_FOLLOW),
            // For this one has to be root.
            None => linkat(file, c"", folder, name, AtFlags::EMPTY_PATH),
        }
    }

    /// The root and the directories that it lies in, outwards. Asks no device: whose device hangs has others ask it, too.
    pub(super) fn above(&self) -> Vec<Identity> {
        self.root.above()
    }

    /// Another program may have moved the root.
    pub(super) fn look_above(&self) {
        self.root.look_above();
    }

    /// Another program may have removed the lock.
    pub(super) fn look_at_lock(&self) -> Result<Look, Error> {
        self.exclusive.as_ref().map_or(Ok(Look::Same), |exclusive| exclusive.look(self.fence.root()))
    }

    /// True until the file system has refused to read without waiting.
    pub(super) fn reads_without_waiting(&self) -> bool {
        self.reads_without_waiting.load(Ordering::Relaxed)
    }

    /// The file system of `volume` refused to read without waiting.
    pub(super) fn note_reads_wait(&self, volume: u64) {
        if volume == self.identity.volume {
            self.reads_without_waiting.store(false, Ordering::Relaxed);
        }
    }

    /// True where no other process serves the folder, for certain.
    pub(super) fn is_locked(&self) -> bool {
        self.exclusive.as_ref().is_some_and(|exclusive| exclusive.is_held())
    }

    /// Notes that `call` may wait for a device, unless the folder is memory.
    #[inline]
    pub(super) fn may_wait(&self, call: &str) {
        if self.waits != Waits::Never {
            waiting::may_wait(call);
        }
    }

    /// What may have to be waited for where `file` lies. What is mounted below the root is asked: the same number may be another file
    /// system's later, so that nothing is remembered of it. It is at least as slow as the root, which holds what does not fit beside the file.
    pub(super) fn waits_of<Fd: AsFd>(&self, file: Fd, (identity, mount): (Identity, Mount)) -> Waits {
        if mount == self.mount {
            return self.waits;
        }
        waiting::may_wait("what is mounted below a share's folder");
        let own = kind_of(file).map_or(Waits::Always, waits_on);
        if own == Waits::Never && self.waits != Waits::Never {
            self.locks_of(identity).note_device();
        }
        own.max(self.waits).max(Waits::ForData)
    }

    /// Whether what is told of a file may be kept. What is kept beside files changes without them, and a file without a time of birth cannot be
    /// told from another that has its number later.
    pub(super) fn keeps(&self, waits: Waits, mount: Mount, born: i128) -> Keeps {
        if !self.is_roots(mount) || self.keep != Keep::InAttributes {
            return Keeps::Nothing;
        }
        match waits {
            Waits::Always => Keeps::Untold,
            Waits::Never | Waits::ForData if born == 0 => Keeps::Nothing,
            Waits::Never | Waits::ForData => Keeps::Watched,
        }
    }

    /// True for the mount that the root lies on: what stands there is kept and watched with it.
    pub(super) fn is_roots(&self, mount: Mount) -> bool {
        mount == self.mount
    }

    /// [`Error::ReadOnly`] where nothing may be changed; [`Error::Full`] or [`Error::Served`] where the folder is not locked.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        match &self.exclusive {
            None => self.check_removable(),
            Some(exclusive) if exclusive.is_taken() => Ok(()),
            Some(_) if self.waits != Waits::Never && !waiting::is_allowed() => Err(Error::WouldBlock),
            Some(exclusive) => exclusive.take_again(self.fence.root()),
        }
    }

    /// [`Error::ReadOnly`] or [`Error::Served`] where nothing may be changed. Names may go from a folder that has no room to be locked, so that it
    /// gets some.
    pub(super) fn check_removable(&self) -> Result<(), Error> {
        match &self.exclusive {
            _ if self.read_only => Err(Error::ReadOnly),
            None => Ok(()),
            Some(exclusive) => exclusive.check_own(),
        }
    }
}

fn kind_of<Fd: AsFd>(file: Fd) -> Result<FileSystem, Errno> {
    fstatfs(file).map(|told| FileSystem::of(&told))
}

fn waits_on(kind: FileSystem) -> Waits {
    match kind {
        kind if MEMORY.contains(&kind) => Waits::Never,
        kind if LOCAL.contains(&kind) => Waits::ForData,
        _ => Waits::Always,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::DirectoryStore;
    use crate::directory::fence::Wait;
    use crate::directory::file::OpenFile;
    use crate::directory::folder::Reach;
    use crate::directory::node::FileNode;
    use crate::waiting::{Forbidden, forbid};
    use crate::{Kind, NewNode, Node, Resolved, SharePath, Store, Use};

    /// Reads a byte, and asks how much is there, as who must not wait.
    fn read_without_waiting(node: &dyn Node) -> (Result<usize, Error>, Result<usize, Error>) {
        let read = || {
            forbid(Forbidden::Panics);
            (node.try_read_at(&mut [0], 0), node.try_resident(0, 1))
        };
        std::thread::scope(|scope| scope.spawn(read).join().unwrap())
    }

    #[test]
    fn of_what_lies_below_overlayfs_nothing_is_known() {
        let systems = [FileSystem::EXT4, FileSystem::TMPFS, FileSystem::OVERLAYFS];
        assert_eq!(systems.map(waits_on), [Waits::ForData, Waits::Never, Waits::Always]);
    }

    #[test]
    fn what_a_root_lies_in_is_known_without_asking_its_device() {
        let place = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (place.path().join("root"), place.path().join("elsewhere"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        let store = DirectoryStore::open(&root, DirectoryOptions::default()).unwrap();
        let of = |folder: &Path| identity(&stat(open(folder, OFlags::PATH, Mode::empty()).unwrap()).unwrap());
        let (own, outer, other) = (of(&root), of(place.path()), of(&elsewhere));
        let above = || {
            let ask = || {
                forbid(Forbidden::Panics);
                store.above()
            };
            std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
        };
        assert_eq!(above()[..2], [own, outer]);
        std::fs::rename(&root, elsewhere.join("root")).unwrap();
        store.look().unwrap();
        assert_eq!(above()[..3], [own, other, outer]);
    }

    #[test]
    fn reading_moves_no_time_of_last_access() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let path = SharePath::parse("file").unwrap();
        let made =
            store.create(&path, NewNode { kind: Kind::File, attributes: 0, security: None, owner: None }).unwrap();
        made.write_at(b"data", 0).unwrap();
        let stream = made.extras().create_stream("s").unwrap();
        stream.write_at(&[1; 8192], 0).unwrap();
        let find = |usage| match store.resolve(&path, usage).unwrap() {
            Resolved::Found { node, .. } => node,
            Resolved::Missing { .. } => panic!("it was made"),
        };
        let prepared = find(Use::Metadata);
        prepared.prepare(Use::ReadWrite).unwrap();
        let found = find(Use::Metadata).extras().stream("s").unwrap().unwrap().1;
        found.read_at(&mut [0], 0).unwrap();
        for node in [&made, &find(Use::Read), &find(Use::ReadWrite), &prepared, &stream, &found] {
            assert!(fcntl_getfl(node.descriptor().unwrap()).unwrap().contains(OFlags::NOATIME));
        }
        if made.waits() == Waits::ForData {
            assert_eq!(read_without_waiting(&*made), (Ok(1), Ok(1)));
        }
    }

    #[test]
    fn who_must_not_wait_reads_nothing_that_moves_a_time_of_last_access() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "data").unwrap();
        let volume = Arc::new(Volume::new(folder.path(), &DirectoryOptions::default(), None).unwrap());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let anothers = |flags: OFlags| match flags.contains(OFlags::NOATIME) {
            true => Err(Errno::PERM),
            false => open(folder.path().join("file"), flags, Mode::empty()),
        };
        let fd = volume.open_unmarked(flags, anothers).unwrap();
        let of_system = fstatvfs(&fd).unwrap().f_flag;
        if volume.waits != Waits::ForData || of_system.contains(StatVfsMountFlags::NOATIME) {
            return;
        }
        let node = FileNode::open(OpenFile::new(&volume, fd, Reach::Read, false).unwrap());
        assert_eq!(read_without_waiting(&*node), (Err(Error::WouldBlock), Err(Error::WouldBlock)));
        assert_eq!(node.read_at(&mut [0; 4], 0), Ok(4));
        let own = volume.fence.open(b"file", OFlags::RDONLY | OFlags::NOATIME, Wait::May).unwrap();
        let own = FileNode::open(OpenFile::new(&volume, own, Reach::Read, false).unwrap());
        assert_eq!(read_without_waiting(&*own), (Ok(1), Ok(1)), "others of the volume are read at once");
    }
}
