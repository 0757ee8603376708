//! Watching directories with inotify.
//!
//! inotify watches single directories, so that a tree is one watch for each directory in it, made when the watch
//! begins and when a directory appears. What cannot be watched (too many directories, no permission, nothing left to
//! pay with) is told once, as a loss.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, write};

use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::{self, Folder, Reached};
use crate::directory::inotify_table::{Entered, Table, WatchedDirectory, Wish};
use crate::directory::inotify_walk::Walk;
use crate::directory::volume::Volume;
use crate::directory::{inotify_reader, walk};
use crate::watch::Watching;
use crate::{Error, Guard, Identity, Listener, Reach, SharePath, waiting};

/// What is looked for. Data is looked at when a file is closed after writing, not with each write.
const MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);

/// All watches of a store. The thread that reads ends with it.
pub(super) struct Foreign {
    pub(super) volume: Arc<Volume>,
    pub(super) ends: Arc<Ends>,
    pub(super) table: Mutex<Table>,
}

/// The descriptors that the reading thread waits on.
pub(super) struct Ends {
    pub(super) inotify: OwnedFd,
    pub(super) stop: OwnedFd,
}

/// A wish, which ends when this is dropped, and what of its tree is not watched yet.
struct Held {
    ending: Option<Ending>,
    walk: Option<Walk>,
}

/// Ends a wish when dropped. May wait.
struct Ending {
    foreign: Arc<Foreign>,
    wish: u64,
}

/// What listens to changes of a store's folder, while somebody does.
pub(super) type Listening = Mutex<Weak<Foreign>>;

/// Begins to tell `listener` of changes in `of`, which is looked for at `path`. What is below is watched by [`Guard::go_on`].
pub(super) fn watch(
    listening: &Listening,
    volume: &Arc<Volume>,
    path: &SharePath,
    of: Identity,
    reach: Reach,
    listener: Arc<dyn Listener>,
) -> Result<Guard, Error> {
    let folder = walk::folder(volume, path, Wait::May)?;
    // Whoever asks was judged by that directory, and another may have its name by now.
    if folder.identity != of {
        return Err(Error::NotFound);
    }
    let foreign = Foreign::of(listening, volume)?;
    let mut table = foreign.table.lock();
    let root = foreign.add(&folder).map_err(error)?;
    let wish = table.wish(folder.identity, Wish { root, path: folder.path.clone(), reach, listener });
    drop(table);
    let ending = Ending { foreign, wish: wish.ok_or(Error::NoMemory)? };
    let walk = (reach == Reach::Tree).then(|| Walk::for_wish(root, ending.wish));
    Ok(Guard::new(Held { ending: Some(ending), walk }))
}

impl Foreign {
    /// The volume's, begun where nobody listens yet.
    fn of(listening: &Listening, volume: &Arc<Volume>) -> Result<Arc<Foreign>, Error> {
        let mut known = listening.lock();
        if let Some(foreign) = known.upgrade()
            && Arc::ptr_eq(&foreign.volume, volume)
        {
            return Ok(foreign);
        }
        let ends = Arc::new(Ends {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(error)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(error)?,
        });
        let table = Mutex::new(Table::new(&ends));
        let foreign = Arc::new(Foreign { volume: Arc::clone(volume), ends, table });
        inotify_reader::start(&foreign)?;
        *known = Arc::downgrade(&foreign);
        Ok(foreign)
    }

    /// Has inotify watch an open directory. To be called with the table locked, which says what is watched.
    fn add(&self, folder: &Folder<'_>) -> Result<i32, Errno> {
        inotify::add_watch(&self.ends.inotify, format!("/proc/self/fd/{}", folder.fd.as_fd().as_raw_fd()), MASK)
    }

    /// Watches a directory that lies in an open one, `above`, for `wishes` from there; gives its number. `None` where it is gone, which
    /// whoever watches the one above is told of. Who is not told of what is in it hears that something was lost.
    pub(super) fn enter(
        &self,
        above: (i32, &Folder<'_>),
        (disk, name): (&[u8], &str),
        wishes: &mut Vec<u64>,
    ) -> Result<Option<i32>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = match self.volume.fence.open_in(above.1.fd.as_fd(), disk, flags, Wait::May) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            answer => answer?,
        };
        let folder = Folder::new((opened, folder::Reach::Read))?;
        let mut table = self.table.lock();
        let number = self.add(&folder)?;
        let entered = table.enter(number, folder.identity, above.0, name, wishes);
        drop(table);
        let Entered { refused, is_watched } = entered.ok_or(Errno::LOOP)?;
        if !refused.is_empty() {
            wishes.retain(|wish| !refused.contains(wish));
            self.lose(&refused);
        }
        Ok(is_watched.then_some(number))
    }

    /// Opens a directory where it was; `None` where something else is there, or nothing.
    pub(super) fn reopen(&self, place: &WatchedDirectory) -> Result<Option<Reached>, Error> {
        match walk::folder(&self.volume, &place.path, Wait::May) {
            Ok(folder) => Ok(Some(folder).filter(|folder| folder.identity == place.identity)),
            Err(Error::NotFound | Error::PathNotFound | Error::NotDirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells listeners that they did not hear everything.
    pub(super) fn lose(&self, wishes: &[u64]) {
        let table = self.table.lock();
        let wishes = wishes.iter().filter_map(|wish| table.wish_of(*wish));
        let listeners: Vec<_> = wishes.map(|wish| Arc::clone(&wish.listener)).collect();
        drop(table);
        listeners.iter().for_each(|listener| listener.lose());
    }

    /// The same of a directory that is not where it was. It went, or it moved inside the tree, which is told by who watches it there;
    /// unless it moved with the whole tree.
    pub(super) fn lose_unless_told(&self, place: &WatchedDirectory, wishes: &[u64]) {
        let top = self.table.lock().place(place.top());
        if !top.is_some_and(|top| matches!(self.reopen(&top), Ok(Some(_)))) {
            self.lose(wishes);
        }
    }
}

/// Where `path` lies below `above`; `None` where it does not. Both are in stored case.
pub(super) fn below<'a>(path: &'a SharePath, above: &SharePath) -> Option<&'a str> {
    let rest = path.as_str().strip_prefix(above.as_str())?;
    match rest.strip_prefix('\\') {
        Some(rest) => Some(rest),
        None if rest.is_empty() || above.is_root() => Some(rest),
        None => None,
    }
}

impl Watching for Held {
    fn go_on(&mut self) -> bool {
        let (Some(Ending { foreign, .. }), Some(walk)) = (&self.ending, &mut self.walk) else { return false };
        foreign.volume.may_wait("watch");
        let more = walk.go_on(foreign, &mut |_| {});
        if !more {
            self.walk = None;
        }
        more
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(ending) = self.ending.take().filter(|_| !waiting::is_allowed()) else { return };
        waiting::drop_elsewhere(ending.foreign.volume.identity.volume, Box::new(ending));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let gone = self.foreign.table.lock().leave(self.wish);
        drop(gone);
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The thread ends; where it cannot be told, it ends with its next event.
        let _ = write(&self.ends.stop, &1_u64.to_ne_bytes());
    }
}

/// What the reading thread holds while nothing happens.
pub(super) type Quiet = Weak<Foreign>;
