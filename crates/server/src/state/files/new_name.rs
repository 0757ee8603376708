//! Names that are being made. A new file is in its directory a moment before its maker has it open, and whoever opened it in that moment could
//! keep its maker out. So a name stands here from before it is made until its maker has entered, and who finds it waits for that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use store::{Identity, SharePath, Store, fold};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::FileTable;

/// The names.
#[derive(Default)]
pub(crate) struct NewNames {
    /// How many there are: read by who opens a file, so that it costs nothing more where none is made.
    count: AtomicUsize,
    /// By the folded name; each with its directory.
    names: Mutex<HashMap<String, Vec<Name>>>,
}

struct Name {
    directory: Identity,
    /// The store of its maker's share, and where it is to stand there.
    store: Arc<dyn Store>,
    path: SharePath,
    /// Goes when its maker has entered, or has given up.
    done: Arc<Sender<()>>,
}

/// A name is being made as long as this lives.
pub(crate) struct NewName {
    files: Arc<FileTable>,
    folded: String,
    done: Arc<Sender<()>>,
}

impl NewName {
    /// Says that what is to stand at `path` is about to be made in `directory`.
    pub(crate) fn begin(files: &Arc<FileTable>, directory: Identity, store: &Arc<dyn Store>, path: &SharePath) -> Self {
        let new_names = &files.new_names;
        let (folded, done) = (fold(path.name().unwrap_or_default()), Arc::new(channel(()).0));
        let (store, path) = (Arc::clone(store), path.clone());
        let name = Name { directory, store, path, done: Arc::clone(&done) };
        new_names.names.lock().entry(folded.clone()).or_default().push(name);
        // After it stands there: who finds the file has this counted.
        new_names.count.fetch_add(1, Ordering::SeqCst);
        NewName { files: Arc::clone(files), folded, done }
    }
}

impl Drop for NewName {
    fn drop(&mut self) {
        let new_names = &self.files.new_names;
        let mut names = new_names.names.lock();
        if let Some(all) = names.get_mut(&self.folded) {
            all.retain(|name| !Arc::ptr_eq(&name.done, &self.done));
            if all.is_empty() {
                names.remove(&self.folded);
            }
        }
        new_names.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl NewNames {
    /// True where something of this name is being made in some directory.
    pub(crate) fn is_made(&self, name: &str) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.names.lock().contains_key(&fold(name))
    }

    /// What ends, with an error, when `name` in `directory` is not being made any more; `None` where it is not.
    pub(crate) fn of(&self, directory: Identity, name: &str) -> Option<Receiver<()>> {
        let names = self.names.lock();
        names.get(&fold(name))?.iter().find(|name| name.directory == directory).map(|name| name.done.subscribe())
    }

    /// Where names are being made. Who makes one has it open soon.
    pub(super) fn places(&self) -> Vec<(Arc<dyn Store>, SharePath)> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let names = self.names.lock();
        names.values().flatten().map(|name| (Arc::clone(&name.store), name.path.clone())).collect()
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn awaited(&self) -> usize {
        self.names.lock().values().flatten().map(|name| name.done.receiver_count()).sum()
    }
}
