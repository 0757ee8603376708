//! Renames that are under way. An open has its path in the table of files, where a rename of the file gives it the new one, and is in the way of a
//! rename of a directory above. But the path was looked up before that. So whoever enters asks whether a rename has come in between, and looks
//! again then; and where a directory above is just getting another name, it waits for that first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use store::{Identity, SharePath, Store};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::FileTable;

/// All of them.
#[derive(Default)]
pub(crate) struct Renames {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Those of directories, which take along what is below.
    directories: Mutex<Vec<Directory>>,
}

struct Directory {
    store: Arc<dyn Store>,
    path: SharePath,
    identity: Identity,
    /// Goes when it has its new name, or keeps the old one.
    done: Arc<Sender<()>>,
}

/// How many renames had begun and ended before a path was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenamesSeen {
    begun: u64,
    ended: u64,
}

/// Directories that are getting other names through other stores than the one that is asked for. Who holds this keeps none of them from
/// coming to its end.
pub(crate) struct Elsewhere(Vec<(Identity, Weak<Sender<()>>)>);

impl Renames {
    /// To be taken before a path is looked up.
    pub(crate) fn seen(&self) -> RenamesSeen {
        RenamesSeen { begun: self.begun.load(Ordering::SeqCst), ended: self.ended.load(Ordering::SeqCst) }
    }

    /// True where a rename was under way at some time since: a path that was looked up meanwhile may lead elsewhere. To be asked by who has
    /// entered the table: a rename that begins after that finds it there.
    pub(crate) fn came_since(&self, seen: RenamesSeen) -> bool {
        self.begun.load(Ordering::SeqCst) != seen.ended
    }

    /// True where a rename has begun or ended since: what is looked up now may be other than it was.
    pub(crate) fn went_on_since(&self, seen: RenamesSeen) -> bool {
        let now = self.seen();
        (now.begun, now.ended) != (seen.begun, seen.ended)
    }

    /// What ends, with an error, when a directory has its new name that `path` leads through as its store has it; `None` where there is
    /// none.
    pub(crate) fn above(&self, store: &Arc<dyn Store>, path: &SharePath) -> Option<Receiver<()>> {
        let is_above = |directory: &&Directory| Arc::ptr_eq(&directory.store, store) && path.is_within(&directory.path);
        self.directories.lock().iter().find(is_above).map(|directory| directory.done.subscribe())
    }

    /// The renames that `path` may lead through, too, where shares lie in each other.
    pub(crate) fn elsewhere(&self, store: &Arc<dyn Store>) -> Elsewhere {
        let directories = self.directories.lock();
        let others = directories.iter().filter(|directory| !Arc::ptr_eq(&directory.store, store));
        Elsewhere(others.map(|directory| (directory.identity, Arc::downgrade(&directory.done))).collect())
    }

    /// How many wait for directories.
    #[cfg(test)]
    pub(crate) fn awaited(&self) -> usize {
        self.directories.lock().iter().map(|directory| directory.done.receiver_count()).sum()
    }

    /// True where something is getting another name.
    #[cfg(test)]
    pub(crate) fn are_under_way(&self) -> bool {
        self.begun.load(Ordering::SeqCst) != self.ended.load(Ordering::SeqCst)
    }
}

impl Elsewhere {
    /// What ends, with an error, when one of them has its new name that `path` leads through in `store`; `None` where there is none. May wait
    /// for the store. One that the store's root is or lies in is not on the way of any path.
    pub(crate) fn above(&self, store: &dyn Store, path: &SharePath) -> Option<Receiver<()>> {
        if self.0.is_empty() {
            return None;
        }
        let lineage = store.lineage(path);
        let mut above = self.0.iter().filter(|(identity, _)| lineage.iter().skip(1).any(|above| above == identity));
        above.find_map(|(_, done)| Some(done.upgrade()?.subscribe()))
    }
}

/// A file or directory is getting another name as long as this lives, and those who have it open with it.
pub(crate) struct Renaming {
    files: Arc<FileTable>,
    directory: Option<Arc<Sender<()>>>,
}

impl Renaming {
    /// Begins with a file.
    pub(crate) fn of_file(files: &Arc<FileTable>) -> Self {
        files.renames.begun.fetch_add(1, Ordering::SeqCst);
        Renaming { files: Arc::clone(files), directory: None }
    }

    /// Begins with a directory, which stands at `path`. It is to be asked after that who has something open below.
    pub(crate) fn of_directory(
        files: &Arc<FileTable>,
        store: &Arc<dyn Store>,
        path: &SharePath,
        identity: Identity,
    ) -> Self {
        let (renames, done) = (&files.renames, Arc::new(channel(()).0));
        let (store, path) = (Arc::clone(store), path.clone());
        renames.directories.lock().push(Directory { store, path, identity, done: Arc::clone(&done) });
        // After it stands there: who sees that it has begun finds it.
        renames.begun.fetch_add(1, Ordering::SeqCst);
        Renaming { files: Arc::clone(files), directory: Some(done) }
    }
}

impl Drop for Renaming {
    fn drop(&mut self) {
        let renames = &self.files.renames;
        if let Some(done) = &self.directory {
            renames.directories.lock().retain(|directory| !Arc::ptr_eq(&directory.done, done));
        }
        renames.ended.fetch_add(1, Ordering::SeqCst);
    }
}
