//! The stores of the shares, kept from one estate to the next, so that a RAM disk keeps its files and a folder its cache.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use store::{DirectoryOptions, DirectoryStore, RamStore, Store};

use crate::catalog::{ShareRecord, Source};

/// The open stores by the number of their share.
#[derive(Default)]
pub(crate) struct Stores {
    kept: HashMap<i64, Kept>,
}

struct Kept {
    source: Source,
    read_only: bool,
    /// Device and inode of the folder: another folder under the same name is another store.
    place: Option<(u64, u64)>,
    store: Arc<dyn Store>,
}

impl Stores {
    /// The store of `share`: the one it has had as long as it means the same, else a new one. Where it cannot be
    /// opened, the sentence says why.
    pub(crate) fn of(&mut self, share: &ShareRecord) -> Result<Arc<dyn Store>, String> {
        let place = place(&share.source).inspect_err(|_| drop(self.kept.remove(&share.id)))?;
        let same =
            |kept: &&Kept| kept.source == share.source && kept.read_only == share.read_only && kept.place == place;
        if let Some(kept) = self.kept.get(&share.id).filter(same) {
            return Ok(Arc::clone(&kept.store));
        }
        let store = match &share.source {
            Source::Folder { path, quota_gib } => open_folder(path, *quota_gib, share.read_only)?,
            Source::Ram { bytes } => self.ram(share.id).unwrap_or_else(|| Arc::new(RamStore::new(bytes.get()))),
        };
        let (source, read_only) = (share.source.clone(), share.read_only);
        self.kept.insert(share.id, Kept { source, read_only, place, store: Arc::clone(&store) });
        Ok(store)
    }

    /// Lets go of the stores of all other shares. A RAM disk's files go once the server lets go of them too.
    pub(crate) fn keep_only(&mut self, shares: &[ShareRecord]) {
        self.kept.retain(|id, _| shares.iter().any(|share| share.id == *id));
    }

    /// The RAM disk of a share: it stays, whatever else about the share changes.
    fn ram(&self, id: i64) -> Option<Arc<dyn Store>> {
        self.kept.get(&id).map(|kept| Arc::clone(&kept.store))
    }
}

impl Source {
    /// Why the source cannot be served, as far as can be seen without opening it.
    pub fn problem(&self) -> Option<String> {
        place(self).err()
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

fn open_folder(path: &Path, quota_gib: Option<NonZeroU32>, read_only: bool) -> Result<Arc<dyn Store>, String> {
    let quota_bytes = quota_gib.map(|gib| u64::from(gib.get()) << 30);
    let options = DirectoryOptions { read_only, quota_bytes, ..DirectoryOptions::default() };
    match DirectoryStore::open(path, options) {
        Ok(store) => Ok(Arc::new(store)),
        Err(store::Error::Unsupported) => Err("this kernel has no openat2; Linux 5.6 or later is needed".to_owned()),
        Err(cause) => Err(format!("the folder {} cannot be opened: {cause}", path.display())),
    }
}
