//! Which directories are watched with inotify, and for whom.
//!
//! inotify watches single directories, so that a tree is one watch for each directory in it, made when the watch
//! begins and when a directory appears. What cannot be watched (too many directories, no permission) is told once, as
//! a loss.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::FileType;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, write};

use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::{Listed, Reached, each_name, file_type, stat_at};
use crate::directory::names::{is_reserved, to_name};
use crate::directory::volume::Volume;
use crate::directory::{foreign_reader, walk};
use crate::{Error, Guard, Identity, Kind, Listener, Reach, SharePath};

/// The most directories that one store watches, each as often as watches reach it: some 50 MiB of kernel memory.
const WATCHED_MAX: usize = 1 << 16;

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

#[derive(Default)]
pub(super) struct Table {
    pub(super) directories: HashMap<i32, Directory>,
    pub(super) wishes: HashMap<u64, Wish>,
    next: u64,
    watched: usize,
}

impl Table {
    /// A directory that `wishes` reached is no longer watched.
    pub(super) fn forget(&mut self, wishes: usize) {
        self.watched -= wishes;
    }

    /// Has directories at or below `path` keep those wishes that `stays` for them.
    fn keep_below(&mut self, path: &SharePath, stays: impl Fn(&Wish, &SharePath) -> bool) {
        let Table { directories, wishes, watched, .. } = self;
        for directory in directories.values_mut().filter(|directory| below(&directory.path, path).is_some()) {
            let before = directory.wishes.len();
            directory.wishes.retain(|wish| wishes.get(wish).is_some_and(|wish| stays(wish, &directory.path)));
            *watched -= before - directory.wishes.len();
        }
    }
}

/// A directory that is watched.
pub(super) struct Directory {
    pub(super) identity: Identity,
    pub(super) path: SharePath,
    /// The wishes that reach it.
    pub(super) wishes: Vec<u64>,
}

/// What somebody wants to hear of.
pub(super) struct Wish {
    pub(super) root: Identity,
    pub(super) path: SharePath,
    pub(super) reach: Reach,
    pub(super) listener: Arc<dyn Listener>,
}

/// Ends a wish when dropped.
struct Held {
    foreign: Arc<Foreign>,
    wish: u64,
}

/// Begins to tell `listener` of changes in `of`, which is looked for at `path`.
pub(super) fn watch(
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
    let foreign = Foreign::of(volume)?;
    let mut table = foreign.table.lock();
    let wish = table.next;
    table.next += 1;
    let wanted = Wish { root: folder.identity, path: folder.path.clone(), reach, listener };
    table.wishes.insert(wish, wanted);
    let entered = foreign.enter(&mut table, &folder, &[wish]);
    drop(table);
    let held = Held { foreign: Arc::clone(&foreign), wish };
    entered.map_err(error)?;
    if reach == Reach::Tree {
        foreign.enter_below(folder, &[wish], &mut |_| {});
    }
    Ok(Guard::new(held))
}

impl Foreign {
    /// The store's, begun where nobody listens yet.
    fn of(volume: &Arc<Volume>) -> Result<Arc<Foreign>, Error> {
        let mut known = volume.foreign.lock();
        if let Some(foreign) = known.upgrade() {
            return Ok(foreign);
        }
        let ends = Ends {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(error)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(error)?,
        };
        let foreign = Arc::new(Foreign { volume: Arc::clone(volume), ends: Arc::new(ends), table: Mutex::default() });
        foreign_reader::start(&foreign)?;
        *known = Arc::downgrade(&foreign);
        Ok(foreign)
    }

    /// Watches a directory for `wishes` too.
    fn enter(&self, table: &mut Table, folder: &Reached, wishes: &[u64]) -> Result<(), Errno> {
        if table.watched + wishes.len() > WATCHED_MAX {
            return Err(Errno::NOSPC);
        }
        let path = format!("/proc/self/fd/{}", folder.fd.as_raw_fd());
        let number = inotify::add_watch(&self.ends.inotify, path, MASK)?;
        let directory = table.directories.entry(number).or_insert_with(|| Directory {
            identity: folder.identity,
            path: folder.path.clone(),
            wishes: Vec::new(),
        });
        directory.path.clone_from(&folder.path);
        for wish in wishes {
            if !directory.wishes.contains(wish) {
                directory.wishes.push(*wish);
                table.watched += 1;
            }
        }
        Ok(())
    }

    /// Watches the directory `path`, which appeared, and what is below it. `seen` is called with every name in them.
    pub(super) fn enter_tree(&self, path: &SharePath, wishes: &[u64], seen: &mut dyn FnMut(&Seen<'_>)) {
        let Ok(folder) = walk::folder(&self.volume, path, Wait::May) else { return };
        let entered = self.enter(&mut self.table.lock(), &folder, wishes);
        match entered {
            Ok(()) => self.enter_below(folder, wishes, seen),
            Err(_) => self.lose(wishes),
        }
    }

    fn enter_below(&self, folder: Reached, wishes: &[u64], seen: &mut dyn FnMut(&Seen<'_>)) {
        let mut left = vec![folder];
        while let Some(folder) = left.pop() {
            let mut below = Vec::new();
            let listed = each_name(&folder.fd, |listed| {
                let Some((name, kind)) = shown(&folder, &listed) else { return };
                if kind == Kind::Directory {
                    below.push(folder.shown_path(&name));
                }
                seen(&Seen { directory: folder.identity, path: &folder.path, name: &name, kind });
            });
            if listed.is_err() {
                self.lose(wishes);
            }
            for path in below {
                let Ok(folder) = walk::folder(&self.volume, &path, Wait::May) else { continue };
                if self.enter(&mut self.table.lock(), &folder, wishes).is_err() {
                    return self.lose(wishes);
                }
                left.push(folder);
            }
        }
    }

    /// No longer watches the directory `path` and what is below it for wishes from above: it is elsewhere.
    pub(super) fn leave_tree(&self, path: &SharePath) {
        let mut table = self.table.lock();
        table.keep_below(path, |wish, _| below(&wish.path, path).is_some());
        self.prune(&mut table);
    }

    /// Gives everything at or below `from` the path that it has now. Wishes that do not reach there lose it.
    pub(super) fn rename(&self, from: &SharePath, to: &SharePath) {
        let mut table = self.table.lock();
        let Table { directories, wishes, .. } = &mut *table;
        let paths = directories.values_mut().map(|directory| &mut directory.path);
        for path in paths.chain(wishes.values_mut().map(|wish| &mut wish.path)) {
            if let Some(rest) = below(path, from) {
                let mut moved = to.clone();
                rest.split('\\').filter(|name| !name.is_empty()).for_each(|name| moved.push(name));
                *path = moved;
            }
        }
        table.keep_below(to, |wish, path| below(path, &wish.path).is_some());
        self.prune(&mut table);
    }

    /// Tells listeners that they did not hear everything.
    pub(super) fn lose(&self, wishes: &[u64]) {
        let table = self.table.lock();
        let wishes = wishes.iter().filter_map(|wish| table.wishes.get(wish));
        let listeners: Vec<_> = wishes.map(|wish| Arc::clone(&wish.listener)).collect();
        drop(table);
        listeners.iter().for_each(|listener| listener.lose());
    }

    fn prune(&self, table: &mut Table) {
        table.directories.retain(|number, directory| {
            if directory.wishes.is_empty() {
                // It may have gone by itself.
                let _ = inotify::remove_watch(&self.ends.inotify, *number);
            }
            !directory.wishes.is_empty()
        });
    }
}

/// A name in a directory that is watched from now on.
pub(super) struct Seen<'a> {
    pub(super) directory: Identity,
    pub(super) path: &'a SharePath,
    pub(super) name: &'a str,
    pub(super) kind: Kind,
}

fn shown(folder: &Reached, listed: &Listed<'_>) -> Option<(String, Kind)> {
    let name = to_name(listed.name).filter(|name| !is_reserved(name.as_str()))?;
    let kind = match listed.kind {
        FileType::Unknown => file_type(&stat_at(&folder.fd, listed.name).ok()?),
        known => known,
    };
    let kind = if kind == FileType::Directory { Kind::Directory } else { Kind::File };
    Some((name.as_str().to_owned(), kind))
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

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.foreign.table.lock();
        let gone = table.wishes.remove(&self.wish);
        let Table { directories, watched, .. } = &mut *table;
        for directory in directories.values_mut() {
            let before = directory.wishes.len();
            directory.wishes.retain(|wish| *wish != self.wish);
            *watched -= before - directory.wishes.len();
        }
        self.foreign.prune(&mut table);
        drop(table);
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
