//! The stores of the shares, kept from one configuration to the next, so that a RAM disk keeps its files and a folder its cache.
//! Nothing here waits for a folder's device.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::admin::OpenSnapshots;
use store::{Belief, CachedStore, DelayedStore, RamStore, Store};

use crate::catalog::{Changes, ShareRecord, Source};
use crate::look::Look;
use crate::served_folder::{self, BeforeTouch, HANGS_AFTER, Known, ServedFolder, Surroundings, Terms};
use crate::share_gauges::SpaceGauge;
use crate::{DataFolder, Problem};

/// Threads that hang in folders which no share is on any more. Beyond that no share on a new folder is served until one of them ends.
const ABANDONED_MAX: usize = 256;

/// The stores by the number of their share.
pub(crate) struct Stores {
    surroundings: Surroundings,
    kept: HashMap<i64, Kept>,
    /// How far away RAM disks are made to be.
    ram_latency: Option<Duration>,
    ended: bool,
}

/// The folders of a server's shares. Who has this lets go of them whatever the control waits for, whose catalog may lie on a disk that hangs.
#[derive(Clone)]
pub struct Folders(pub(crate) Arc<Mutex<Stores>>);

impl Folders {
    /// Lets go of all folders, for good.
    pub fn let_go(&self) {
        self.0.lock().end();
    }
}

enum Kept {
    Folder {
        folder: Arc<ServedFolder>,
        /// What served the folder under other terms, until it is open under the new ones.
        before: Option<Arc<dyn Store>>,
        /// Whether it was there when it was asked for last.
        was_there: bool,
        /// What was wrong with it then, as far as it had been looked at.
        fault: Option<String>,
        snapshots: Arc<OpenSnapshots>,
    },
    Ram(RamDisk),
}

/// A RAM disk.
enum RamDisk {
    Here(Arc<RamStore>),
    /// Made to be as far away as another machine. Nobody else changes it.
    Far(Arc<CachedStore>),
}

impl RamDisk {
    fn store(&self) -> Arc<dyn Store> {
        match self {
            RamDisk::Here(disk) => Arc::clone(disk) as Arc<dyn Store>,
            RamDisk::Far(cached) => Arc::clone(cached) as Arc<dyn Store>,
        }
    }
}

/// Folders that were asked to be looked at.
pub(crate) struct Looks(Vec<Arc<ServedFolder>>);

impl Looks {
    /// Waits until all have been looked at, but for those that hang. False where `until` came first.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        self.0.iter().all(|folder| folder.wait(until))
    }

    /// Waits until all have been looked at. Those that were not by `until` hang.
    pub(crate) fn wait_out(&self, until: Instant) {
        self.0.iter().for_each(|folder| folder.wait_out(until));
    }
}

/// Why the store of a share is not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotKept {
    #[error("the server ends")]
    ServerEnds,
    #[error("too many folders hang that no share is on any more")]
    TooManyHang,
    #[error("there is no thread for its folder: {0}")]
    NoThread(io::Error),
}

impl Stores {
    /// No stores yet, for shares that must not hold `data`. The receiver hears when a folder is served that was not.
    pub(crate) fn new(data: DataFolder, before_touch: BeforeTouch) -> (Self, Receiver<()>) {
        let (changed, told) = sync_channel(1);
        let surroundings = Surroundings { data, changed, before_touch, threads: Arc::new(AtomicUsize::new(0)) };
        (Stores { surroundings, kept: HashMap::new(), ram_latency: None, ended: false }, told)
    }

    /// Makes RAM disks that are made from now on as far away as another machine, where a latency is given: for measurements.
    pub(crate) fn delay_ram_disks(&mut self, latency: Option<Duration>) {
        self.ram_latency = latency;
    }

    /// What is known of the store of `share`, which is served from now on where it is there: the one it has had as long as it means the
    /// same, else one that is being opened. What is known of its files is kept in memory where its account `caches`.
    pub(crate) fn of(&mut self, share: &ShareRecord, caches: bool) -> Known {
        if let Err(why) = self.keep(share) {
            return Known { store: None, problem: Some(why.to_string()) };
        }
        match self.kept.get_mut(&share.id) {
            Some(Kept::Folder { folder, before, was_there, fault, .. }) => {
                folder.remember(caches, share.belief);
                // First, so that what is found meanwhile is news.
                *fault = folder.fault();
                let known = folder.known();
                *was_there = known.store.is_some();
                if *was_there {
                    *before = None;
                }
                Known { store: known.store.or_else(|| before.clone()), problem: known.problem }
            }
            Some(Kept::Ram(disk)) => {
                // What is in memory is asked for as quickly as it is remembered.
                if let RamDisk::Far(cached) = disk {
                    cached.switch(caches);
                }
                Known { store: Some(disk.store()), problem: None }
            }
            None => Known { store: None, problem: None },
        }
    }

    /// Who tells how full the store of a share is.
    pub(crate) fn gauge(&self, share: &ShareRecord) -> SpaceGauge {
        match self.kept.get(&share.id) {
            Some(Kept::Folder { folder, .. }) => SpaceGauge::Folder(Arc::clone(folder)),
            Some(Kept::Ram(RamDisk::Here(disk))) => SpaceGauge::Ram(Arc::downgrade(disk)),
            Some(Kept::Ram(RamDisk::Far(_))) | None => SpaceGauge::Nobody,
        }
    }

    /// The snapshots of `share` that are open; of others than those on folders none ever are.
    pub(crate) fn snapshots(&self, share: &ShareRecord) -> Arc<OpenSnapshots> {
        match self.kept.get(&share.id) {
            Some(Kept::Folder { snapshots, .. }) => Arc::clone(snapshots),
            Some(Kept::Ram(_)) | None => Arc::default(),
        }
    }

    /// Begins to open the store of `share`, unless that was done.
    pub(crate) fn keep(&mut self, share: &ShareRecord) -> Result<(), NotKept> {
        if self.ended {
            return Err(NotKept::ServerEnds);
        }
        let (path, quota_gib) = match &share.source {
            Source::Folder { path, quota_gib } => (path.clone(), *quota_gib),
            Source::Ram { bytes } => {
                self.keep_ram(share.id, bytes.get());
                return Ok(());
            }
        };
        let terms = Terms { path, read_only: share.read_only, modes: share.modes };
        if let Some(Kept::Folder { folder, .. }) = self.kept.get(&share.id)
            && folder.terms == terms
            && folder.set_quota(quota_gib)
        {
            return Ok(());
        }
        let before = self.take(share.id, &terms);
        if self.surroundings.threads.load(Ordering::Relaxed) >= self.kept.len() + ABANDONED_MAX {
            return Err(NotKept::TooManyHang);
        }
        let folder = ServedFolder::start(terms, quota_gib, self.surroundings.clone()).map_err(NotKept::NoThread)?;
        let snapshots = Arc::default();
        self.kept.insert(share.id, Kept::Folder { folder, before, was_there: false, fault: None, snapshots });
        Ok(())
    }

    /// Lets go of the stores of all other shares. A RAM disk's files go once the server lets go of them too.
    pub(crate) fn keep_only(&mut self, shares: &[ShareRecord]) {
        self.kept.retain(|id, kept| {
            let stays = shares.iter().any(|share| share.id == *id);
            if !stays {
                kept.end();
            }
            stays
        });
    }

    /// Lets go of the RAM disks whose number means another share now, which is so where another catalog counted anew.
    pub(crate) fn drop_disks_of_others(&mut self, before: &[ShareRecord], now: &[ShareRecord]) {
        let name =
            |shares: &[ShareRecord], id| shares.iter().find(|share| share.id == id).map(|share| share.name.clone());
        self.kept.retain(|id, kept| matches!(kept, Kept::Folder { .. }) || name(before, *id) == name(now, *id));
    }

    /// Has all folders looked at.
    pub(crate) fn look(&self) -> Looks {
        let folder = |kept: &Kept| match kept {
            Kept::Folder { folder, .. } => Some(Arc::clone(folder)),
            Kept::Ram(_) => None,
        };
        let folders: Vec<_> = self.kept.values().filter_map(folder).collect();
        folders.iter().for_each(|folder| folder.look());
        Looks(folders)
    }

    /// True where a folder is there that was not when it was asked for, or the other way round, or something else is wrong with it, or nothing any more.
    pub(crate) fn are_behind(&self) -> bool {
        self.kept.values().any(|kept| match kept {
            Kept::Folder { folder, was_there, fault, .. } => {
                folder.known().store.is_some() != *was_there || folder.fault() != *fault
            }
            Kept::Ram(_) => false,
        })
    }

    /// Something that tells the receiver of [`Stores::new`], too.
    pub(crate) fn teller(&self) -> std::sync::mpsc::SyncSender<()> {
        self.surroundings.changed.clone()
    }

    /// Ends what a share had under other terms; gives what served the same folder.
    fn take(&mut self, id: i64, terms: &Terms) -> Option<Arc<dyn Store>> {
        let kept = self.kept.remove(&id)?;
        let store = match &kept {
            Kept::Folder { folder, before, .. } if folder.terms.path == terms.path => {
                folder.known().store.or_else(|| before.clone())
            }
            Kept::Folder { .. } | Kept::Ram(_) => None,
        };
        kept.end();
        store
    }

    fn end(&mut self) {
        self.ended = true;
        self.kept.drain().for_each(|(_, kept)| kept.end());
    }

    /// Makes the RAM disk of a share. It stays, whatever else about the share changes.
    fn keep_ram(&mut self, id: i64, bytes: u64) {
        if matches!(self.kept.get(&id), Some(Kept::Ram(_))) {
            return;
        }
        let disk = Arc::new(RamStore::new(bytes));
        let disk = match self.ram_latency {
            Some(latency) => {
                let far = Arc::new(DelayedStore::new(disk, latency));
                RamDisk::Far(Arc::new(CachedStore::new(far, store::Known::of_process(), Belief::Lasting)))
            }
            None => RamDisk::Here(disk),
        };
        if let Some(other) = self.kept.insert(id, Kept::Ram(disk)) {
            other.end();
        }
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        self.end();
    }
}

impl Kept {
    fn end(&self) {
        match self {
            Kept::Folder { folder, .. } => folder.end(),
            Kept::Ram(_) => {}
        }
    }
}

/// Why these shares cannot be served from `data`, as far as can be seen without opening their folders. All are looked at side by side, for two seconds
/// at most.
pub fn look_for_problems(shares: &[ShareRecord], data: &DataFolder) -> Vec<Problem> {
    let until = Instant::now() + HANGS_AFTER;
    let begin = |share: &ShareRecord| match &share.source {
        Source::Folder { path, .. } => {
            let (asked, changes, data) = (path.clone(), Changes::of(share.read_only), data.clone());
            let look = Look::begin(move || served_folder::problem(&asked, changes, &data));
            Some((share.name.clone(), path.clone(), look))
        }
        Source::Ram { .. } => None,
    };
    let looks: Vec<_> = shares.iter().filter_map(begin).collect();
    let seen = |(share, path, look): (String, PathBuf, io::Result<Look<Option<String>>>)| {
        let problem = match look {
            Ok(look) => look.wait(until).unwrap_or_else(|| Some(served_folder::silent(&path))),
            Err(cause) => Some(format!("there is no thread to look at its folder: {cause}")),
        };
        Some(Problem { share, problem: problem?, served: false })
    };
    looks.into_iter().filter_map(seen).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::path::Path;

    use parking_lot::Condvar;
    use server::admin::{AuditClasses, HostsAllowed};

    use super::*;
    use crate::ShareLimits;
    use crate::catalog::Modes;

    #[test]
    fn so_many_threads_hang_in_folders_of_shares_that_are_gone_and_no_more() {
        let place = tempfile::tempdir().unwrap();
        let data = DataFolder::create(&place.path().join("data")).unwrap();
        let hangs = Arc::new((Mutex::new(true), Condvar::new()));
        let (touches, touched) = sync_channel(ABANDONED_MAX);
        let answer = Arc::clone(&hangs);
        let touch = move |_: &Path| {
            // Once the folders answer nobody counts any more.
            let _ = touches.try_send(());
            answer.1.wait_while(&mut answer.0.lock(), |hangs| *hangs);
        };
        let (mut stores, _told) = Stores::new(data, Arc::new(touch));
        let files = place.path().join("files");
        std::fs::create_dir(&files).unwrap();
        for id in 0..i64::try_from(ABANDONED_MAX).unwrap() {
            stores.keep(&share(id, &files)).unwrap();
            touched.recv().unwrap();
            stores.keep_only(&[]);
        }
        assert!(stores.keep(&share(-1, &files)).is_err());
        *hangs.0.lock() = false;
        hangs.1.notify_all();
        while stores.keep(&share(-1, &files)).is_err() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_folders_quota_becomes_another_while_it_is_served() {
        let place = tempfile::tempdir().unwrap();
        let data = DataFolder::create(&place.path().join("data")).unwrap();
        let files = place.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let (mut stores, _told) = Stores::new(data, Arc::new(|_| ()));
        let mut served = |quota_gib| {
            let source = Source::Folder { path: files.clone(), quota_gib: NonZeroU32::new(quota_gib) };
            let share = ShareRecord { source, ..share(1, &files) };
            stores.keep(&share).unwrap();
            while stores.of(&share, true).store.is_none_or(|store| store.space().is_err()) {
                stores.look().wait(Instant::now() + std::time::Duration::from_secs(1));
            }
            // What served it before is given as long as it is not open anew.
            stores.look().wait(Instant::now() + std::time::Duration::from_secs(9));
            stores.of(&share, true).store.unwrap()
        };
        let total = |store: &Arc<dyn Store>| store.space().unwrap().total_bytes;
        let first = served(2);
        assert_eq!(total(&first), 2 << 30);
        let second = served(1);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(total(&first), 1 << 30);
        let unbounded = served(0);
        assert!(Arc::ptr_eq(&first, &unbounded) && total(&first) > 2 << 30);
        assert!(Arc::ptr_eq(&first, &served(1)), "it has counted all the time");
        assert_eq!(total(&first), 1 << 30);
    }

    #[test]
    fn a_folder_is_believed_longer_or_shorter_while_it_is_served() {
        let place = tempfile::tempdir().unwrap();
        let data = DataFolder::create(&place.path().join("data")).unwrap();
        let files = place.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let (mut stores, _told) = Stores::new(data, Arc::new(|_| ()));
        let mut served = |belief| {
            let share = ShareRecord { belief, ..share(1, &files) };
            let known = loop {
                if let Some(store) = stores.of(&share, true).store {
                    break store;
                }
                stores.look().wait(Instant::now() + Duration::from_secs(9));
            };
            let Some(Kept::Folder { folder, .. }) = stores.kept.get(&1) else { panic!("a folder") };
            (known, folder.belief())
        };
        let (first, believed) = served(Belief::Lasting);
        assert_eq!(believed, Some(Belief::Lasting), "from the first moment on");
        for belief in [Belief::For(Duration::ZERO), Belief::For(Duration::from_secs(60)), Belief::Lasting] {
            let (store, believed) = served(belief);
            assert!(Arc::ptr_eq(&first, &store), "it is not opened anew");
            assert_eq!(believed, Some(belief));
        }
    }

    #[test]
    fn a_ram_disk_is_as_far_away_as_it_is_made_to_be() {
        let place = tempfile::tempdir().unwrap();
        let (mut stores, _told) =
            Stores::new(DataFolder::create(&place.path().join("data")).unwrap(), Arc::new(|_| ()));
        let bytes = std::num::NonZeroU64::new(1 << 20).unwrap();
        let share = |id| ShareRecord { source: Source::Ram { bytes }, ..share(id, Path::new("")) };
        let blocks = |stores: &mut Stores, id| !stores.of(&share(id), true).store.unwrap().facts().never_blocks;
        assert!(!blocks(&mut stores, 1));
        stores.delay_ram_disks(Some(Duration::ZERO));
        assert!(blocks(&mut stores, 2) && !blocks(&mut stores, 1));
    }

    fn share(id: i64, path: &Path) -> ShareRecord {
        ShareRecord {
            id,
            name: "files".to_owned(),
            account: "abc".to_owned(),
            source: Source::Folder { path: PathBuf::from(path), quota_gib: None },
            read_only: false,
            seal_required: false,
            continuous: false,
            access_based: false,
            hosts: HostsAllowed::Any,
            time_machine: false,
            audit: AuditClasses::NONE,
            belief: Belief::default(),
            modes: Modes::default(),
            comment: String::new(),
            provisioned: None,
            limits: ShareLimits::default(),
        }
    }
}
