//! The stores of the shares, kept from one estate to the next, so that a RAM disk keeps its files and a folder its cache.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use store::{DirectoryOptions, DirectoryStore, RamStore, Store};
use tracing::{info, warn};

use crate::DataFolder;
use crate::catalog::{Modes, ShareRecord, Source};

/// How often it is looked whether a folder is still the one that is served.
const LOOKED_EVERY: Duration = Duration::from_secs(2);

/// The open stores by the number of their share.
pub(crate) struct Stores {
    data: DataFolder,
    kept: Arc<Mutex<HashMap<i64, Kept>>>,
}

struct Kept {
    source: Source,
    read_only: bool,
    place: Option<Place>,
    store: Opened,
}

/// Device and inode of a folder: another folder may have its name by now.
type Place = (u64, u64);

#[derive(Clone)]
enum Opened {
    Folder(Arc<DirectoryStore>),
    Ram(Arc<RamStore>),
}

impl Opened {
    fn store(&self) -> Arc<dyn Store> {
        match self {
            Opened::Folder(store) => Arc::clone(store) as Arc<dyn Store>,
            Opened::Ram(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }
}

impl Stores {
    /// No stores yet, for shares that must not hold `data`.
    pub(crate) fn new(data: DataFolder) -> Self {
        Stores { data, kept: Arc::default() }
    }

    /// The store of `share`: the one it has had as long as it means the same, else a new one. Where it cannot be
    /// opened, the sentence says why.
    pub(crate) fn of(&mut self, share: &ShareRecord) -> Result<Arc<dyn Store>, String> {
        follow(&self.kept, &self.data, Some(share.id));
        let place = place(&share.source, &self.data).inspect_err(|_| drop(self.kept.lock().remove(&share.id)))?;
        let same =
            |kept: &&Kept| kept.source == share.source && kept.read_only == share.read_only && kept.place == place;
        if let Some(kept) = self.kept.lock().get(&share.id).filter(same) {
            return Ok(kept.store.store());
        }
        let opened = match &share.source {
            Source::Folder { path, quota_gib } => {
                Opened::Folder(open_folder(path, *quota_gib, share.read_only, share.modes)?)
            }
            Source::Ram { bytes } => {
                self.ram(share.id).unwrap_or_else(|| Opened::Ram(RamStore::new(bytes.get()).into()))
            }
        };
        let store = opened.store();
        let (source, read_only) = (share.source.clone(), share.read_only);
        self.kept.lock().insert(share.id, Kept { source, read_only, place, store: opened });
        Ok(store)
    }

    /// Lets go of the stores of all other shares. A RAM disk's files go once the server lets go of them too.
    pub(crate) fn keep_only(&mut self, shares: &[ShareRecord]) {
        self.kept.lock().retain(|id, _| shares.iter().any(|share| share.id == *id));
    }

    /// Serves the folders that have taken the place of those that were served.
    pub(crate) fn follow(&self) {
        follow(&self.kept, &self.data, None);
    }

    /// The same now and then, on a thread of its own that ends with the stores: a folder may be on a device that hangs.
    pub(crate) fn keep_following(&self) -> io::Result<()> {
        let (kept, data) = (Arc::downgrade(&self.kept), self.data.clone());
        let look = move || {
            while let Some(kept) = kept.upgrade() {
                follow(&kept, &data, None);
                drop(kept);
                thread::sleep(LOOKED_EVERY);
            }
        };
        thread::Builder::new().name("multilane-folders".into()).spawn(look).map(drop)
    }

    /// The RAM disk of a share: it stays, whatever else about the share changes.
    fn ram(&self, id: i64) -> Option<Opened> {
        self.kept.lock().get(&id).map(|kept| kept.store.clone())
    }
}

/// Has stores follow their folders, all or that of one share: a folder was removed and made anew, or something was mounted there.
/// Nothing is locked while the file system is asked.
fn follow(kept: &Mutex<HashMap<i64, Kept>>, data: &DataFolder, only: Option<i64>) {
    let wanted = |id: &i64| only.is_none_or(|only| only == *id);
    let known = |(id, kept): (&i64, &Kept)| match &kept.store {
        Opened::Folder(store) => Some((*id, kept.source.clone(), kept.place, Arc::clone(store))),
        Opened::Ram(_) => None,
    };
    let folders: Vec<_> = kept.lock().iter().filter(|(id, _)| wanted(id)).filter_map(known).collect();
    for (id, source, before, store) in folders {
        let Source::Folder { path, .. } = &source else { continue };
        let Ok(now) = place(&source, data) else { continue };
        if now == before {
            continue;
        }
        match store.follow(path) {
            Ok(()) => {
                info!(folder = %path.display(), "another folder has taken the place of a served one and is served now")
            }
            Err(cause) => {
                warn!(folder = %path.display(), %cause, "the folder that took the place of a served one is not served");
            }
        }
        // One that is refused is not tried every time.
        if let Some(kept) = kept.lock().get_mut(&id).filter(|kept| kept.source == source) {
            kept.place = now;
        }
    }
}

impl Source {
    /// Why the source cannot be served from `data`, as far as can be seen without opening it.
    pub fn problem(&self, data: &DataFolder) -> Option<String> {
        place(self, data).err()
    }
}

/// Which folder it is now; `None` for memory. The data folder may have moved into it since the share was made.
fn place(source: &Source, data: &DataFolder) -> Result<Option<Place>, String> {
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

fn open_folder(
    path: &Path,
    quota_gib: Option<NonZeroU32>,
    read_only: bool,
    modes: Modes,
) -> Result<Arc<DirectoryStore>, String> {
    let options = DirectoryOptions {
        read_only,
        quota_bytes: quota_gib.map(|gib| u64::from(gib.get()) << 30),
        file_mode: modes.file,
        directory_mode: modes.directory,
        ..DirectoryOptions::default()
    };
    match DirectoryStore::open(path, options) {
        Ok(store) => Ok(Arc::new(store)),
        Err(store::Error::Unsupported) => Err("this kernel has no openat2; Linux 5.6 or later is needed".to_owned()),
        Err(cause @ store::Error::Served(_)) => Err(format!(
            "the folder {} is not free: {cause}; share it from one server only, or read-only",
            path.display()
        )),
        Err(cause) => Err(format!("the folder {} cannot be opened: {cause}", path.display())),
    }
}
