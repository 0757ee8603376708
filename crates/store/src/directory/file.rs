//! An open file or directory of the file system.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, Statx};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::directory::calls::readlinkat;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::{error, opening};
use crate::directory::folder::{Folder, Handle, Reach, open_again};
use crate::directory::names::{Wanted, is_reserved};
use crate::directory::neighbours::Turn;
use crate::directory::passing::Idle;
use crate::directory::record::Record;
use crate::directory::remembered::Remembered;
use crate::directory::side::Nameless;
use crate::directory::side_name::SideName;
use crate::directory::stat::{Mount, Stamp, born, file_type, identity, mount, stat};
use crate::directory::subject::{Place, Subject};
use crate::directory::synced::{Failed, Synced, UnderWay};
use crate::directory::unfinished::is_unfinished;
use crate::directory::volume::{Keeps, Volume};
use crate::{Error, Held, Identity, Keeping, Kind, Name, Time, Use, Waits, waiting};

/// A change of more than that takes long: what a shard does at most.
pub(super) const LONG_BYTES: u64 = 1 << 20;

/// An open file or directory. It has one descriptor until it is prepared for more than it was opened for.
pub(super) struct OpenFile {
    pub(super) volume: Arc<Volume>,
    pub(super) kind: Kind,
    pub(super) identity: Identity,
    /// What calls on it may have to wait for.
    pub(super) waits: Waits,
    /// When it was made, in nanoseconds since 1970; zero where the file system does not know.
    pub(super) born: i128,
    /// It was opened by a name that begins with a dot.
    pub(super) dotted: bool,
    /// It is a symbolic link.
    pub(super) is_link: bool,
    /// It had the mode of what is being made when it was opened.
    pub(super) was_unfinished: bool,
    mount: Mount,
    /// Before the one that counts for a quota, which is closed last.
    for_read: OnceLock<Descriptor>,
    for_write: OnceLock<Descriptor>,
    fd: Descriptor,
    reach: Reach,
    /// There where it can be written to, or was synced.
    synced: OnceLock<Arc<Synced>>,
    /// There where it was synced, or has streams open.
    under_way: OnceLock<Arc<UnderWay>>,
    /// What the kernel knew of it when it was opened, until that is asked for.
    pub(super) opened: Mutex<Option<Box<Statx>>>,
    /// Its times of change then, until its descriptor is asked for.
    pub(super) times_at_open: Mutex<Option<Stamp>>,
    /// Held by whoever moves a directory's position.
    pub(super) listing: Mutex<()>,
    /// What is kept of it, and its descriptor, as they were last asked for.
    pub(super) record: Remembered<Record>,
    pub(super) security: Remembered<Option<Vec<u8>>>,
}

impl OpenFile {
    /// Takes a descriptor. [`Error::Denied`] for what is neither file nor directory.
    pub(super) fn new(volume: &Arc<Volume>, fd: OwnedFd, reach: Reach, dotted: bool) -> Result<Self, Error> {
        let stat = stat(&fd).map_err(error)?;
        let identity = identity(&stat);
        let waits = volume.waits_of(&fd, (identity, mount(&stat)));
        let kind = kind(&stat).ok_or(Error::Denied)?;
        let fd = match kind {
            Kind::Directory => Descriptor::of_directory(fd, (waits, identity.volume)),
            Kind::File | Kind::Stream => Descriptor::new(fd, (waits, identity.volume)),
        };
        let file = OpenFile {
            volume: Arc::clone(volume),
            kind,
            identity,
            waits,
            born: born(&stat),
            dotted,
            is_link: file_type(&stat) == FileType::Symlink,
            was_unfinished: is_unfinished(&stat),
            mount: mount(&stat),
            fd: fd.counted(volume.nameless()),
            reach,
            for_read: OnceLock::new(),
            for_write: OnceLock::new(),
            synced: OnceLock::new(),
            under_way: OnceLock::new(),
            times_at_open: Mutex::new(Some(Stamp::of(&stat))),
            opened: Mutex::new(Some(Box::new(stat))),
            listing: Mutex::new(()),
            record: Remembered::default(),
            security: Remembered::default(),
        };
        if reach == Reach::ReadWrite {
            file.synced();
        }
        Ok(file)
    }

    /// Makes a node of a directory that names were looked up in.
    pub(super) fn of_folder(volume: &Arc<Volume>, folder: Folder<'_>, dotted: bool) -> Result<Self, Errno> {
        let waits = volume.waits_of(&folder.fd, (folder.identity, folder.mount));
        let stat = folder.found;
        Ok(OpenFile {
            volume: Arc::clone(volume),
            kind: Kind::Directory,
            identity: folder.identity,
            waits,
            born: folder.born,
            dotted,
            is_link: false,
            was_unfinished: stat.as_ref().is_none_or(is_unfinished),
            mount: folder.mount,
            fd: Descriptor::of_directory(folder.fd.into_own()?, (waits, folder.identity.volume)),
            reach: folder.reach,
            for_read: OnceLock::new(),
            for_write: OnceLock::new(),
            synced: OnceLock::new(),
            under_way: OnceLock::new(),
            times_at_open: Mutex::new(stat.as_ref().map(Stamp::of)),
            opened: Mutex::new(stat.map(Box::new)),
            listing: Mutex::new(()),
            record: Remembered::default(),
            security: Remembered::default(),
        })
    }

    /// True where the kernel answers from this machine's memory for what it knows of an open file.
    pub(super) fn is_local(&self) -> bool {
        self.waits < Waits::Always
    }

    /// Notes that `call` may wait for a device, unless the file is memory.
    #[inline]
    pub(super) fn may_wait(&self, call: &str) {
        if self.waits != Waits::Never {
            waiting::may_wait(call);
        }
    }

    /// To be held while `call` changes the file. [`Error::WouldBlock`] where it is memory, somebody makes a change of it that takes long, and
    /// this thread must not wait.
    pub(super) fn begin(&self, call: &str) -> Result<Option<Turn>, Error> {
        self.begin_of(call, 0)
    }

    /// The same for a change of so many `bytes`.
    pub(super) fn begin_of(&self, call: &str, bytes: u64) -> Result<Option<Turn>, Error> {
        self.may_wait(call);
        if self.waits != Waits::Never || Held::is_there() {
            return Ok(None);
        }
        let locks = self.volume.locks_of(self.identity);
        if waiting::is_allowed() {
            return Ok((bytes > LONG_BYTES).then(|| locks.change_alone(self.identity)));
        }
        waiting::may_wait(call);
        locks.try_change(self.identity).map(|held| Some(Turn::Shared { _held: held })).ok_or(Error::WouldBlock)
    }

    /// To be held while names of this directory come or go that lead to these files.
    pub(super) fn begin_names(&self, one: Identity, other: Option<Identity>) -> Option<(Turn, Option<Turn>)> {
        (self.waits == Waits::Never).then(|| self.volume.locks_of(self.identity).change_names(one, other))
    }

    /// Holds the file for who must not wait.
    pub(super) fn try_hold(&self) -> Option<Held> {
        match self.waits {
            Waits::Never => Some(Held::with(Some(self.volume.locks_of(self.identity).try_change(self.identity)?))),
            Waits::ForData | Waits::Always => Some(Held::nothing()),
        }
    }

    /// Keeps others from changing what is kept beside the file, for who only looks. [`Error::WouldBlock`] where that may take long and this thread
    /// must not wait: nobody takes long who changes a file in memory that is held.
    pub(super) fn lock_to_look(&self) -> Result<MutexGuard<'_, ()>, Error> {
        if waiting::is_allowed() || (self.waits == Waits::Never && Held::is_there()) {
            return Ok(self.volume.lock_file(self.identity));
        }
        self.volume.locks_of(self.identity).try_beside(self.identity).ok_or(Error::WouldBlock)
    }

    /// Notes that `call`, which looks at what is known of the open file, may wait for a device.
    #[inline]
    pub(super) fn may_wait_to_look(&self, call: &str) {
        if !self.is_local() {
            waiting::may_wait(call);
        }
    }

    /// A descriptor of this file.
    fn hold(&self, fd: OwnedFd) -> Descriptor {
        Descriptor::new(fd, (self.waits, self.identity.volume))
    }

    /// The same file once more, for a stream of it.
    pub(super) fn again(&self) -> Result<Self, Error> {
        let again = self.again_uncounted()?;
        Ok(OpenFile { fd: again.fd.counted(self.volume.nameless()), ..again })
    }

    /// The same for a moment, without a look at the file: no quota knows of it.
    pub(super) fn again_uncounted(&self) -> Result<Self, Error> {
        let (fd, reach) = match self.for_write.get().map(|fd| (fd, Reach::ReadWrite)) {
            Some(best) => best,
            None => match self.for_read.get().map(|fd| (fd, Reach::Read)) {
                Some(better) => better,
                None => (&self.fd, self.reach),
            },
        };
        Ok(OpenFile {
            volume: Arc::clone(&self.volume),
            kind: self.kind,
            identity: self.identity,
            waits: self.waits,
            born: self.born,
            dotted: self.dotted,
            is_link: self.is_link,
            was_unfinished: self.was_unfinished,
            mount: self.mount,
            fd: self.hold(fcntl_dupfd_cloexec(fd, 0).map_err(error)?),
            reach,
            for_read: OnceLock::new(),
            for_write: OnceLock::new(),
            synced: self.synced.clone(),
            under_way: OnceLock::from(Arc::clone(self.under_way())),
            times_at_open: Mutex::new(None),
            opened: Mutex::new(None),
            listing: Mutex::new(()),
            record: Remembered::default(),
            security: Remembered::default(),
        })
    }

    /// Whether what is told of it may be kept.
    pub(super) fn keeping(&self) -> Keeping<'_> {
        match self.volume.keeps(self.waits, self.mount, self.born) {
            Keeps::Untold if !self.is_link => Keeping::Untold,
            Keeps::Watched if !self.is_link => Keeping::Watched(self.fd()),
            Keeps::Nothing | Keeps::Untold | Keeps::Watched => Keeping::Nothing,
        }
    }

    /// The same file with a position of its own.
    pub(super) fn opened_again(&self) -> Result<Self, Error> {
        let again = self.again()?;
        if self.kind != Kind::Directory {
            return Ok(again);
        }
        let fd = open_again(self.fd()).map_err(opening)?;
        let fd = Descriptor::of_directory(fd, (self.waits, self.identity.volume));
        Ok(OpenFile { fd, reach: Reach::Read, ..again })
    }

    /// Whether the disk has what was written, as all know who have it open to write.
    pub(super) fn synced(&self) -> &Synced {
        self.synced.get_or_init(|| Synced::of(self.volume.locks_of(self.identity), self.identity))
    }

    fn under_way(&self) -> &Arc<UnderWay> {
        self.under_way.get_or_init(Arc::default)
    }

    /// True where it has lost its last name. What is kept with it is locked; else this may be so of a file that has names left, as one that counts for
    /// nothing comes and goes.
    pub(super) fn is_nameless(&self) -> bool {
        self.may_wait_to_look("is_nameless");
        // In this order: where the last name goes in between it is without a name, too.
        let idle = Idle::names_of(self.identity);
        self.stat().is_ok_and(|stat| stat.stx_nlink <= idle)
    }

    /// Has a side file, which need not be there yet, go with the last who has the file open, where the file has no name.
    pub(super) fn keep_while_open(&self, side: SideName) -> Result<(), Error> {
        let name = side.on_disk();
        if self.is_nameless() && !self.synced().keeps(&name) {
            self.synced().keep_while_open(name, Box::new(Nameless::mark(&self.volume, side)?));
        }
        Ok(())
    }

    /// Has the disk keep what was written, as `sync` does it, and says so to the log where that fails for the first time.
    pub(super) fn sync_with(&self, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.synced().sync(self.under_way(), sync).map_err(|Failed { error, is_first }| {
            if is_first {
                let place = self.volume.place_of(self.fd()).unwrap_or_default();
                let file = String::from_utf8_lossy(&place).into_owned();
                tracing::error!(name: "write_lost", %error, file, "what was written may be lost; each FLUSH fails until all have closed the file");
            }
            error
        })
    }

    /// The descriptor it was opened with.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// When it was made, where the file system knows.
    pub(super) fn birth(&self) -> Option<Time> {
        let (seconds, nanoseconds) = (self.born.div_euclid(1_000_000_000), self.born.rem_euclid(1_000_000_000));
        let seconds = i64::try_from(seconds).ok().filter(|_| self.born != 0)?;
        Some(Time::from_unix(seconds, u32::try_from(nanoseconds).ok()?))
    }

    /// What the descriptor it was opened with may be used for.
    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    /// The directory that it is, to look names up in.
    pub(super) fn folder(&self) -> Result<Folder<'_>, Error> {
        if self.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        Folder::with(Handle::Of(self.fd()), self.reach()).map_err(error)
    }

    /// The same, which is not looked at before that is needed, and a name in it that clients may use.
    pub(super) fn wanted(&self, name: &Name) -> Result<(Folder<'_>, Wanted), Error> {
        if is_reserved(name.as_str()) {
            return Err(Error::Denied);
        }
        if self.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        let folder = Folder {
            fd: Handle::Of(self.fd()),
            reach: self.reach(),
            identity: self.identity,
            mount: self.mount,
            born: self.born,
            found: None,
        };
        Ok((folder, Wanted::new(name.as_str())))
    }

    /// A descriptor to read with.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        if self.reach >= Reach::Read {
            return Some(self.fd.as_fd());
        }
        self.for_read.get().or(self.for_write.get()).map(AsFd::as_fd)
    }

    /// A descriptor to write with. [`Error::Denied`] where it was opened for less, or may not be written; [`Error::Served`] where another process
    /// has taken the folder over.
    pub(super) fn writable(&self) -> Result<BorrowedFd<'_>, Error> {
        self.volume.check_writable()?;
        if self.reach == Reach::ReadWrite {
            return Ok(self.fd.as_fd());
        }
        match self.for_write.get() {
            Some(fd) => Ok(fd.as_fd()),
            None => Err(if self.kind == Kind::Directory { Error::IsDirectory } else { Error::Denied }),
        }
    }

    /// True where it need not be opened again to be used so.
    pub(super) fn is_prepared(&self, usage: Use) -> bool {
        match usage {
            Use::Metadata => true,
            Use::Read | Use::ReadWrite if self.is_link => true,
            Use::Read => self.readable().is_some(),
            Use::ReadWrite => {
                self.kind == Kind::Directory || self.reach == Reach::ReadWrite || self.for_write.get().is_some()
            }
        }
    }

    /// Opens it again where it is to be used for more than before.
    pub(super) fn prepare(&self, usage: Use) -> Result<(), Error> {
        match usage {
            Use::Metadata => Ok(()),
            // It has no data.
            Use::Read | Use::ReadWrite if self.is_link => Ok(()),
            Use::Read => {
                if self.readable().is_none() {
                    let fd = self.volume.reopen(self.fd(), OFlags::RDONLY).map_err(opening)?;
                    let _ = self.for_read.set(self.hold(fd));
                }
                Ok(())
            }
            Use::ReadWrite if self.kind == Kind::Directory => Ok(()),
            Use::ReadWrite => {
                self.volume.check_writable()?;
                if self.reach < Reach::ReadWrite && self.for_write.get().is_none() {
                    let fd = self.volume.reopen(self.fd(), OFlags::RDWR).map_err(opening)?;
                    let _ = self.for_write.set(self.hold(fd));
                    self.synced();
                }
                Ok(())
            }
        }
    }

    /// Where what is kept with it is found.
    pub(super) fn subject(&self) -> Subject<'_> {
        let place = match self.readable() {
            Some(fd) => Place::Open(fd),
            None if self.is_link => Place::Link,
            None => Place::Through(format!("/proc/self/fd/{}", self.fd.as_raw_fd())),
        };
        Subject { volume: &self.volume, place, identity: self.identity, born: self.born }
    }

    /// What the kernel knows of it now.
    pub(super) fn stat(&self) -> Result<Statx, Error> {
        stat(&self.fd).map_err(error)
    }
}

/// The target of an open symbolic link.
pub(super) fn link_target<Fd: AsFd>(link: Fd) -> Result<Vec<u8>, Errno> {
    readlinkat(link, c"", Vec::new()).map(|target| target.into_bytes())
}

/// What a node of this is; `None` for what is neither file nor directory. A symbolic link is a file without data.
pub(super) fn kind(stat: &Statx) -> Option<Kind> {
    match file_type(stat) {
        FileType::RegularFile | FileType::Symlink => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        _ => None,
    }
}
