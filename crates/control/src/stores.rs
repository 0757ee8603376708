//! The stores of the shares, kept from one estate to the next, so that a RAM disk keeps its files and a folder its cache.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use store::{DirectoryOptions, DirectoryStore, RamStore, Store};

use crate::DataFolder;
use crate::catalog::{ShareRecord, Source};

/// The open stores by the number of their share.
pub(crate) struct Stores {
    data: DataFolder,
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
    /// No stores yet, for shares that must not hold `data`.
    pub(crate) fn new(data: DataFolder) -> Self {
        Stores { data, kept: HashMap::new() }
    }

    /// The store of `share`: the one it has had as long as it means the same, else a new one. Where it cannot be
    /// opened, the sentence says why.
    pub(crate) fn of(&mut self, share: &ShareRecord) -> Result<Arc<dyn Store>, String> {
        let place = place(&share.source, &self.data).inspect_err(|_| drop(self.kept.remove(&share.id)))?;
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
    /// Why the source cannot be served from `data`, as far as can be seen without opening it.
    pub fn problem(&self, data: &DataFolder) -> Option<String> {
        place(self, data).err()
    }
}

/// Which folder it is now; `None` for memory. The data folder may have moved into it since the share was made.
fn place(source: &Source, data: &DataFolder) -> Result<Option<(u64, u64)>, String> {
    let Source::Folder { path, .. } = source else {
        return Ok(None);
    };
    let whole = fs::canonicalize(path).and_then(|whole| Ok((fs::metadata(&whole)?, whole)));
    match whole {
        Ok((found, _)) if !found.is_dir() => Err(format!("{} is no longer a folder", path.display())),
        Ok((_, whole)) if data.path().starts_with(&whole) => {
            Err(format!("the folder {} holds the data folder, with the keys of every account", path.display()))
        }
        Ok((found, _)) => Ok(Some((found.dev(), found.ino()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(format!("the folder {} is gone", path.display())),
        Err(e) => Err(format!("the folder {} cannot be used: {e}", path.display())),
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
