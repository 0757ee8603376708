//! A share that is a folder of this machine: on any Linux file system (5.6 or later), a mounted one included.
//!
//! - Names: compared without case, kept in theirs. Names that Windows cannot say are mapped ([`names`]).
//!   `.multilane`, in any case, is nobody's.
//! - Symbolic links are files of their own, wherever they lead, and nobody here follows them ([`fence`]). What is kept with
//!   files is not kept with them. Devices, pipes and sockets are not listed, and opening them is denied. Their names are
//!   taken all the same, and a directory that holds nothing else is not empty.
//! - Attributes, security descriptors, extended attributes and streams are kept in the file system's extended
//!   attributes ([`xattr`]), large streams in side files ([`side`]).
//! - A path of more than 4095 bytes is [`Error::NameInvalid`].
//! - On a file system that itself compares names without case, a path is given back as it was asked for.
//! - File systems mounted below the folder are served too. What their files have to wait for is told of each
//!   ([`crate::Node::waits`]); the way to them is never followed without waiting. Where they are is known before
//!   they are asked ([`mounts`]).
//! - Other programs may change the folder at any time. What they do to names shows at once in the case they wrote,
//!   and in any other case after at most some seconds ([`cache`]). Who asks is told of it ([`inotify`]).

mod adopt;
#[cfg(test)]
mod asked_once;
#[cfg(test)]
mod attribute_faults;
mod budget;
#[cfg(test)]
mod budget_faults;
mod cache;
mod calls;
mod clones;
mod contents;
mod create;
#[cfg(test)]
mod create_faults;
mod data;
mod descriptor;
mod entries;
mod errno;
mod exclusive;
mod extended;
mod extras;
#[cfg(test)]
mod faults;
mod fence;
mod file;
mod file_system;
mod finish;
mod folder;
mod homes;
mod inotify;
mod inotify_reader;
mod inotify_table;
mod inotify_walk;
mod keys;
mod last_name;
#[cfg(test)]
mod last_name_faults;
#[cfg(test)]
mod last_name_races;
mod leaving;
#[cfg(test)]
mod leftover_faults;
mod leftovers;
mod link_counts;
mod listing;
mod marks;
mod metadata;
mod mounts;
#[cfg(test)]
mod name_faults;
mod name_room;
mod nameless;
mod names;
mod neighbours;
mod node;
mod outcome;
mod passing;
mod quota;
mod quota_walk;
mod record;
mod recount;
mod remembered;
mod remove;
mod rename;
mod renew;
#[cfg(test)]
mod renew_faults;
mod replace;
mod reserved;
mod resolve;
mod room;
mod roots;
mod security;
mod side;
mod side_name;
mod space;
mod stat;
mod stream;
mod stream_value;
mod streams;
mod subject;
mod synced;
mod undo;
mod unfinished;
mod volume;
mod walk;
mod xattr;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, capabilities};

use crate::directory::calls::fstatvfs;
use crate::{Error, Facts, Guard, Identity, Listener, Reach, Resolved, SharePath, Space, Store, Use, Waits};
use errno::error;
use fence::Wait;
use inotify::Listening;
use quota::Limit;
use volume::Volume;

pub use self::file_system::FileSystem;
pub use self::name_room::limit_names;
pub use self::names::{to_disk as stored_name, to_shown as shown_name};

/// How a folder is served.
#[derive(Clone, Debug, Default)]
pub struct DirectoryOptions {
    /// Nothing is ever changed. Also so where the folder's file system is mounted read-only.
    pub read_only: bool,
    /// The most bytes that files may hold, with what is kept of them: what is there is counted when the store is opened, and what a file
    /// holds whenever it is changed through the store; now and then all is counted anew, with what other programs did. Directories and names do
    /// not count.
    pub quota_bytes: Option<u64>,
    /// Keep attributes in files of their own even where the file system has extended attributes. A folder that was
    /// served one way shows no attributes when served the other way.
    pub attributes_beside_files: bool,
    /// The permissions of new files on this machine, whatever the process's umask; 0600 where nothing is said.
    pub file_mode: Option<u32>,
    /// The same of new directories; 0700.
    pub directory_mode: Option<u32>,
    /// Whose new files and directories are on this machine; the process's own user where nothing is said.
    pub owner: Option<UnixOwner>,
}

/// A user and a group of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixOwner {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl UnixOwner {
    /// True where this process may give files to it, as far as that can be seen: as root with CAP_CHOWN, or to itself and a group it is in. A file system
    /// may refuse it all the same.
    pub fn can_be_given_files(self) -> bool {
        let may_chown = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::CHOWN));
        let is_in = self.gid == getegid().as_raw()
            || getgroups().is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == self.gid));
        may_chown || self.uid == geteuid().as_raw() && is_in
    }
}

/// What looking after a folder has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// All is as it was.
    Same,
    /// The lock had gone, and what else was in the reserved folder with it, or most likely so; it is taken anew.
    LockedAnew,
}

/// A folder that is served.
pub struct DirectoryStore {
    volume: ArcSwap<Volume>,
    options: DirectoryOptions,
    quota: Option<Limit>,
    listening: Listening,
}

impl DirectoryStore {
    /// Opens `folder`. [`Error::NotFound`] where it does not exist, [`Error::NotDirectory`] where it is a file,
    /// [`Error::Unsupported`] on a kernel without `openat2`, [`Error::Served`] where another process serves it, [`Error::Nested`] where
    /// this one serves a folder that it lies in, or one in it, and not both have extended attributes. With a quota this reads
    /// through the whole folder.
    pub fn open(folder: &Path, options: DirectoryOptions) -> Result<Self, Error> {
        let quota = options.quota_bytes.map(|bytes| Arc::new(AtomicU64::new(bytes)));
        let volume = Arc::new(Volume::new(folder, &options, quota.as_ref())?);
        volume.root.serve(None)?;
        leftovers::sweep_first(&volume);
        volume.have_recounted();
        Ok(DirectoryStore { volume: ArcSwap::new(volume), options, quota, listening: Listening::default() })
    }

    /// Has the files hold so many bytes at most from now on, or as many as there is room for. What they hold already stays. False where the
    /// store was opened without a quota, and would have to count them first.
    pub fn set_quota(&self, bytes: Option<u64>) -> bool {
        match &self.quota {
            Some(limit) => {
                limit.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
                true
            }
            None => bytes.is_none(),
        }
    }

    /// Looks where the folder is, as another program may have moved it, and whether its lock is in its place, as another may have removed that:
    /// [`Error::Served`] where another process has the folder by now, [`Error::Nested`] as [`DirectoryStore::open`]. May wait for its device. Until then [`Store::above`] tells where it was.
    pub fn look(&self) -> Result<Look, Error> {
        let volume = self.volume();
        volume.look_above();
        let look = volume.look_at_lock()?;
        volume.root.check().map(|()| look)
    }

    /// Looks where the folder is that is served, though another has its name by now, or none: it lies no longer in what it lay in. May wait for its device.
    pub fn look_above(&self) {
        self.volume().look_above();
    }

    /// The folder that keeps `folder` from being served: [`Error::Nested`].
    pub fn nested_with(folder: &Path) -> Option<PathBuf> {
        roots::nested_with(folder)
    }

    /// Serves `folder` from now on, which has taken the place of the one that was served: it was made anew, or another file
    /// system was mounted there. What is open stays what it is.
    pub fn follow(&self, folder: &Path) -> Result<(), Error> {
        let volume = Arc::new(Volume::new(folder, &self.options, self.quota.as_ref())?);
        volume.root.serve(Some(&self.volume().root))?;
        leftovers::sweep_first(&volume);
        volume.have_recounted();
        self.volume.store(volume);
        Ok(())
    }

    /// Bytes that its files take, where there is a quota that they are counted for. Asks the file system nothing.
    pub fn used_bytes(&self) -> Option<u64> {
        self.volume().quota.as_ref().map(|quota| quota.used())
    }

    fn volume(&self) -> Arc<Volume> {
        self.volume.load_full()
    }
}

impl Store for DirectoryStore {
    fn facts(&self) -> Facts {
        let volume = self.volume.load();
        Facts {
            // What is mounted below a folder that is memory may be a disk.
            never_blocks: false,
            read_only: volume.read_only,
            volume: volume.identity.volume,
            unit_bytes: volume.unit_bytes,
            shares_extents: volume.shares_extents,
            file_length_max: volume.file_length_max,
        }
    }

    fn space(&self) -> Result<Space, Error> {
        self.volume().may_wait("space");
        let volume = self.volume();
        let system = fstatvfs(volume.fence.root()).map_err(error)?;
        let total_bytes = system.f_blocks.saturating_mul(system.f_frsize);
        let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
        let space = Space { total_bytes, free_bytes };
        Ok(volume.quota.as_ref().map_or(space, |quota| quota.within(space)))
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.volume().may_wait("resolve");
        resolve::resolve(&self.volume(), path, usage, Wait::May)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        let volume = self.volume();
        match volume.waits {
            Waits::Never => resolve::resolve(&volume, path, usage, Wait::OnRoot),
            // To open what is in memory may take a read of the disk, for an access list or a key.
            Waits::ForData | Waits::Always => Err(Error::WouldBlock),
        }
    }

    fn volume_at(&self, path: &SharePath) -> u64 {
        self.volume().volume_at(path)
    }

    fn lineage(&self, path: &SharePath) -> Vec<Identity> {
        let volume = self.volume();
        volume.may_wait("lineage");
        walk::lineage(&volume, path)
    }

    fn root(&self) -> Identity {
        self.volume.load().identity
    }

    fn above(&self) -> Vec<Identity> {
        self.volume().above()
    }

    fn place_of(&self, path: &SharePath) -> Option<PathBuf> {
        let volume = self.volume();
        let mut place = volume.place_of(volume.fence.root())?;
        for name in path.names() {
            place.push(b'/');
            place.extend_from_slice(&names::to_disk(name));
        }
        Some(PathBuf::from(OsString::from_vec(place)))
    }

    fn path_at(&self, place: &Path) -> Option<SharePath> {
        let below = self.volume().below_root(place.as_os_str().as_bytes())?;
        Some(names::shown_path(&below))
    }

    fn watch(
        &self,
        path: &SharePath,
        of: Identity,
        reach: Reach,
        listener: Arc<dyn Listener>,
    ) -> Result<Option<Guard>, Error> {
        self.volume().may_wait("watch");
        inotify::watch(&self.listening, &self.volume(), path, of, reach, listener).map(Some)
    }
}
