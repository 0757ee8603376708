//! The stores of the shares, kept from one estate to the next, so that a RAM disk keeps its files and a folder its cache.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use store::Store;

use crate::catalog::{ShareRecord, Source};

/// The open stores by the number of their share.
#[derive(Default)]
pub(crate) struct Stores {
    kept: HashMap<i64, Kept>,
}

struct Kept {
    source: Source,
    /// Device and inode of the folder: another folder under the same name is another store.
    place: Option<(u64, u64)>,
    store: Arc<dyn Store>,
}

impl Stores {
    /// The store of `share`: the one it has had as long as it means the same, else a new one. Where it cannot be
    /// opened, the sentence says why.
    pub(crate) fn of(&mut self, share: &ShareRecord) -> Result<Arc<dyn Store>, String> {
        let place = place(&share.source).inspect_err(|_| drop(self.kept.remove(&share.id)))?;
        match self.kept.get(&share.id) {
            Some(kept) if kept.source == share.source && kept.place == place => Ok(Arc::clone(&kept.store)),
            Some(_) | None => {
                let store = open(&share.source)?;
                let kept = Kept { source: share.source.clone(), place, store: Arc::clone(&store) };
                self.kept.insert(share.id, kept);
                Ok(store)
            }
        }
    }

    /// Lets go of the stores of all other shares. A RAM disk's files go once the server lets go of them too.
    pub(crate) fn keep_only(&mut self, shares: &[ShareRecord]) {
        self.kept.retain(|id, _| shares.iter().any(|share| share.id == *id));
    }
}

/// Which folder it is now; `None` for memory.
fn place(source: &Source) -> Result<Option<(u64, u64)>, String> {
    match source {
        Source::Folder { path, .. } => match fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Some((found.dev(), found.ino()))),
            Ok(_) => Err(format!("{} is no longer a folder", path.display())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(format!("the folder {} is gone", path.display())),
            Err(e) => Err(format!("the folder {} cannot be used: {e}", path.display())),
        },
        Source::Ram { .. } => Ok(None),
    }
}

fn open(source: &Source) -> Result<Arc<dyn Store>, String> {
    match source {
        Source::Folder { path, quota_gib } => open_folder(path, *quota_gib),
        Source::Ram { bytes } => Ok(Arc::new(store::RamStore::new(bytes.get()))),
    }
}

fn open_folder(path: &Path, quota_gib: Option<NonZeroU32>) -> Result<Arc<dyn Store>, String> {
    let _ = quota_gib;
    let opened = store::DirectoryStore::open(path, store::DirectoryOptions::default());
    opened
        .map(|store| Arc::new(store) as Arc<dyn Store>)
        .map_err(|e| format!("the folder {} cannot be opened: {e}", path.display()))
}

impl Source {
    /// Why the source cannot be served, as far as can be seen without opening it.
    pub fn problem(&self) -> Option<String> {
        place(self).err()
    }
}
