//! Snapshots of shares ("Snapshot Share"): read-only subvolumes of btrfs, beside the folders that the server makes for shares.
//!
//! A snapshot is a folder, called by its time, with the subvolume `files` and `share.json`, what was known of the share then. It is made under another name and
//! has its own when it is whole; who deletes it moves it away, and it is taken away later. They stand in a folder that has the name of the share's, and go
//! with that.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use store::{DirectoryOptions, DirectoryStore, Store};
use tracing::warn;

use crate::btrfs::{self, Failed};
use crate::folder::{names_in, snapshots_in};
use crate::share_lease::may_change;
use crate::{AzureShare, Error, LeaseTime, Reason, SnapshotTime, gone, own_folder};

/// Snapshots of one share, as with the service.
const OF_SHARE_MAX: usize = 200;
/// How long somebody waits for others who change what snapshots a share has.
const TURN_WITHIN: Duration = Duration::from_secs(4);
/// No snapshot is made where less than one part in so many of the file system is free: from then on nothing that is changed or deleted gives space back.
const FREE_PARTS: u64 = 20;
/// What a snapshot's folder has.
const FILES: &str = "files";
const RECORD: &str = "share.json";
/// Bytes of what is known of a share, at most.
const RECORD_BYTES_MAX: u64 = 256 << 10;
/// What the name of a folder begins with that is not a snapshot yet.
const UNFINISHED: &str = ".new-";

/// What a share was when a snapshot was made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSnapshot {
    /// When that was.
    pub at: SnapshotTime,
    /// What clients kept of it, with the snapshot's own metadata and lease.
    pub kept: AzureShare,
    /// How large it might become, in GiB.
    pub quota_gib: Option<u32>,
    /// What was known of the share cannot be read: nothing of the above is told, and whether it has a lease.
    pub is_damaged: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    kept: AzureShare,
    quota_gib: Option<u32>,
}

/// The snapshots of a share's folder.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct SnapshotsOf {
    share: PathBuf,
    folder: PathBuf,
    data: PathBuf,
}

/// Who has it is the only one in this process who changes what snapshots a share has, and whether the share is there.
pub(crate) struct Turn {
    of: SnapshotsOf,
    _taken: Taken,
}

/// Nobody else has the turn of the share on this folder.
struct Taken(PathBuf);

/// The folders of shares whose turn somebody has.
static TAKEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static GIVEN_BACK: Condvar = Condvar::new();

impl ShareSnapshot {
    /// True where it has a lease, which keeps it from being deleted.
    pub fn is_leased(&self) -> bool {
        self.is_damaged || may_change(self.kept.lease.as_ref(), None, LeaseTime::now()).is_err()
    }
}

impl Taken {
    /// The turn of the share on this folder, once nobody else has it.
    fn within(share: &Path, patience: Duration) -> Result<Self, Error> {
        let until = Instant::now() + patience;
        let mut taken = TAKEN.lock();
        while !taken.insert(share.to_owned()) {
            if GIVEN_BACK.wait_until(&mut taken, until).timed_out() {
                let busy = Error::conflict("a snapshot of the share is being made or deleted", "try again");
                return Err(busy.because(Reason::SnapshotInProgress));
            }
        }
        Ok(Taken(share.to_owned()))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.lock().remove(&self.0);
        GIVEN_BACK.notify_all();
    }
}

impl SnapshotsOf {
    /// Those of the share on this folder, where there can be any.
    pub(crate) fn of(share: &Path, data: &Path) -> Option<Self> {
        let folder = own_folder::snapshots_of(share, data)?;
        Some(SnapshotsOf { share: share.to_owned(), folder, data: data.to_owned() })
    }

    /// The turn to change them.
    pub(crate) fn turn(self) -> Result<Turn, Error> {
        let taken = Taken::within(&self.share, TURN_WITHIN)?;
        Ok(Turn { of: self, _taken: taken })
    }

    /// Refuses where none can be made.
    pub(crate) fn refuse_unsupported(&self) -> Result<(), Error> {
        if btrfs::is_subvolume(&self.share) { Ok(()) } else { Err(unsupported(&self.share)) }
    }

    /// When they were made, the oldest first.
    pub(crate) fn times(&self) -> Result<Vec<SnapshotTime>, Error> {
        let names = names_in(&self.folder)?;
        let mut times: Vec<SnapshotTime> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        times.sort_unstable();
        Ok(times)
    }

    /// All of them, the oldest first. One that is deleted in this moment is none of them.
    pub(crate) fn all(&self) -> Result<Vec<ShareSnapshot>, Error> {
        self.times()?.into_iter().filter_map(|at| self.get(at).transpose()).collect()
    }

    /// Fails where there is none of that time.
    pub(crate) fn require(&self, at: SnapshotTime) -> Result<(), Error> {
        let place = self.place(at);
        match fs::symlink_metadata(&place) {
            Ok(_) => Ok(()),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Err(missing(at)),
            Err(cause) => Err(Error::system("look for", &place, &cause)),
        }
    }

    /// One of them, if it is there.
    pub(crate) fn get(&self, at: SnapshotTime) -> Result<Option<ShareSnapshot>, Error> {
        match self.require(at) {
            Err(error) if error.reason() == Reason::NoSnapshot => return Ok(None),
            there => there?,
        }
        let path = self.place(at).join(RECORD);
        let read = File::open(&path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
        });
        let record: Option<Record> = read.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match record.filter(|record| record.kept.check().is_ok()) {
            Some(Record { kept, quota_gib }) => Ok(Some(ShareSnapshot { at, kept, quota_gib, is_damaged: false })),
            // Somebody has deleted it meanwhile.
            None if self.require(at).is_err() => Ok(None),
            None => {
                warn!(name: "snapshot_damaged", path = %path.display(), "what was known of a share when a snapshot was made of it cannot be read");
                Ok(Some(ShareSnapshot { at, kept: AzureShare::default(), quota_gib: None, is_damaged: true }))
            }
        }
    }

    /// Opens one, for nobody to change anything in it.
    pub(crate) fn open(&self, at: SnapshotTime) -> Result<Arc<dyn Store>, Error> {
        let options = DirectoryOptions { read_only: true, ..DirectoryOptions::default() };
        match DirectoryStore::open(&self.place(at).join(FILES), options) {
            Ok(store) => Ok(Arc::new(store)),
            Err(store::Error::NotFound) => Err(missing(at)),
            Err(cause) => {
                Err(Error::machine(format!("the snapshot {at} cannot be opened: {cause}"), "check the disk it is on"))
            }
        }
    }

    fn place(&self, at: SnapshotTime) -> PathBuf {
        self.folder.join(at.to_string())
    }
}

impl Turn {
    /// Those whose turn it is.
    pub(crate) fn of(&self) -> &SnapshotsOf {
        &self.of
    }

    /// Makes one.
    pub(crate) fn take(&self, kept: AzureShare, quota_gib: Option<u32>) -> Result<ShareSnapshot, Error> {
        let of = &self.of;
        of.refuse_unsupported()?;
        let times = of.times()?;
        if times.len() >= OF_SHARE_MAX {
            let what = format!("the share has {} snapshots, as many as one may have", times.len());
            return Err(Error::conflict(what, "delete one of them first").because(Reason::TooManySnapshots));
        }
        self.refuse_full()?;
        own_folder::make(&of.folder)?;
        // Before it is made: all that was written before this time is in it.
        let now = SnapshotTime::now();
        let after = times.last().map_or(now, |last| last.next());
        let snapshot = ShareSnapshot { at: now.max(after), kept, quota_gib, is_damaged: false };
        let unfinished = of.folder.join(format!("{UNFINISHED}{}", snapshot.at));
        let place = of.place(snapshot.at);
        let files = unfinished.join(FILES);
        let made = own_folder::make(&unfinished)
            .and_then(|()| write(&unfinished, &snapshot))
            .and_then(|()| btrfs::snapshot(&of.share, &files).map_err(|failed| self.failed(&failed)))
            .and_then(|()| {
                let moved = fs::rename(&unfinished, &place).and_then(|()| File::open(&of.folder)?.sync_all());
                moved.map_err(|cause| Error::system("make", &place, &cause))
            });
        if let Err(error) = made {
            // What cannot be moved now is at the next start.
            let _ = gone::set_aside_snapshot(&unfinished, &of.data);
            return Err(error);
        }
        Ok(snapshot)
    }

    /// Changes what is kept of one as `change` does; where it refuses nothing is changed.
    pub(crate) fn change<T>(
        &self,
        at: SnapshotTime,
        change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, Error>,
    ) -> Result<(T, AzureShare), Error> {
        let mut snapshot = self.of.get(at)?.ok_or_else(|| missing(at))?;
        if snapshot.is_damaged {
            return Err(damaged(at));
        }
        let done = change(&mut snapshot.kept, Timestamp::now())?;
        snapshot.kept.check()?;
        write(&self.of.place(at), &snapshot)?;
        Ok((done, snapshot.kept))
    }

    /// Deletes one, where `check` does not mind: nobody finds it any more. What it takes is given back once it is taken away ([`gone::take_away_soon`]).
    pub(crate) fn delete(
        &self,
        at: SnapshotTime,
        check: impl FnOnce(&ShareSnapshot) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let of = &self.of;
        check(&of.get(at)?.ok_or_else(|| missing(at))?)?;
        gone::set_aside_snapshot(&of.place(at), &of.data)?;
        let synced = File::open(&of.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|cause| Error::system("delete a snapshot in", &of.folder, &cause))
    }

    fn refuse_full(&self) -> Result<(), Error> {
        let system = rustix::fs::statvfs(&self.of.share)
            .map_err(|cause| Error::system("ask how full is", &self.of.share, &cause.into()))?;
        if system.f_bavail >= system.f_blocks / FREE_PARTS {
            return Ok(());
        }
        let what = format!("less than {} % of the share's file system is free", 100 / FREE_PARTS);
        let remedy = "delete something, or snapshots, first: what a snapshot has takes space until that is deleted";
        Err(Error::conflict(what, remedy).because(Reason::DiskFull))
    }

    fn failed(&self, failed: &Failed) -> Error {
        let what = format!("cannot make a snapshot of {}: {failed}", self.of.share.display());
        match failed {
            Failed::NoProgram => {
                Error::conflict(what, "install it (btrfs-progs)").because(Reason::SnapshotsUnsupported)
            }
            Failed::TookTooLong(_) => Error::machine(what, "try again").because(Reason::TookTooLong),
            Failed::Refused(_) => Error::machine(what, "check the disk under it"),
        }
    }
}

/// Writes what is known of a snapshot into its folder, all of it or nothing.
fn write(folder: &Path, snapshot: &ShareSnapshot) -> Result<(), Error> {
    let record = Record { kept: snapshot.kept.clone(), quota_gib: snapshot.quota_gib };
    let text = serde_json::to_vec(&record)
        .map_err(|cause| Error::machine(format!("it cannot be written: {cause}"), "try again"))?;
    let (path, new) = (folder.join(RECORD), folder.join("share.json.new"));
    let written = File::create(&new)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, &path))
        .and_then(|()| File::open(folder)?.sync_all());
    written.map_err(|cause| Error::system("write", &path, &cause))
}

fn unsupported(share: &Path) -> Error {
    let why = match btrfs::is_btrfs(share) {
        true => {
            "is no subvolume of its own: it was copied here, or made without the program `btrfs` or by an older server"
        }
        false => "is not on btrfs",
    };
    no_snapshots(format!("the share's folder {} {why}", share.display()))
}

/// A share that has no snapshots, for this reason.
pub(crate) fn no_snapshots(what: impl Into<String>) -> Error {
    let remedy = "snapshots are made of shares whose folder the server makes, with its data folder on btrfs";
    Error::conflict(what, remedy).because(Reason::SnapshotsUnsupported)
}

/// There is no such snapshot.
pub(crate) fn missing(at: SnapshotTime) -> Error {
    Error::missing(format!("the share has no snapshot of {at}"), "list those it has").because(Reason::NoSnapshot)
}

/// Nobody is told what is not known.
pub(crate) fn damaged(at: SnapshotTime) -> Error {
    Error::machine(
        format!("what was known of the share when the snapshot {at} was made cannot be read"),
        "have an operator delete it: `multilane share delete-snapshot --force`",
    )
}

/// Folders of snapshots whose share's folder is gone, which the log was told of.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Sets aside what was left of snapshots that were not finished when a server ended, and tells, once, of those whose share's folder is gone. One share that cannot
/// be looked at keeps nobody from the others; the failure of one is what is told.
pub(crate) fn sweep(data: &Path) -> Result<(), Error> {
    let all = snapshots_in(data);
    let mut result = Ok(());
    for name in names_in(&all)? {
        let (of_share, share) = (all.join(&name), own_folder::of_snapshots(&name, data));
        // Who makes one just now finishes it.
        let Ok(_taken) = Taken::within(&share, Duration::ZERO) else { continue };
        if let Err(failed) = set_unfinished_aside(&of_share, data) {
            result = Err(failed);
        }
        let is_gone = matches!(fs::symlink_metadata(&share), Err(cause) if cause.kind() == ErrorKind::NotFound);
        if is_gone && TOLD.lock().insert(of_share.clone()) {
            warn!(name: "snapshots_without_share", folder = %of_share.display(), "the folder of a share is gone, and its snapshots are there and take room");
        }
    }
    result
}

fn set_unfinished_aside(of_share: &Path, data: &Path) -> Result<(), Error> {
    let names = names_in(of_share)?;
    let mut unfinished = names.iter().filter(|name| name.to_string_lossy().starts_with(UNFINISHED));
    unfinished.try_for_each(|name| gone::set_aside_snapshot(&of_share.join(name), data))
}

/// Takes away a snapshot that was set aside.
pub(crate) fn take_away(snapshot: &Path) -> Result<(), Failed> {
    let files = snapshot.join(FILES);
    if btrfs::is_subvolume(&files) {
        btrfs::delete(&files)?;
    }
    gone::remove_all(snapshot).map_err(|cause| Failed::Refused(cause.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Snapshots of a share's folder, of which some are said to be there.
    fn snapshots(place: &Path) -> SnapshotsOf {
        let share = place.join("shares/docs-00000000");
        fs::create_dir_all(&share).unwrap();
        let of = SnapshotsOf::of(&share, place).unwrap();
        fs::create_dir_all(&of.folder).unwrap();
        of
    }

    /// Has one of them be there, but for its files.
    fn add(of: &SnapshotsOf, ticks: i64, quota_gib: Option<u32>) -> ShareSnapshot {
        let kept = AzureShare { metadata: [("a".to_owned(), "b".to_owned())].into(), ..AzureShare::default() };
        let snapshot = ShareSnapshot { at: SnapshotTime::of_ticks(ticks), kept, quota_gib, is_damaged: false };
        fs::create_dir(of.place(snapshot.at)).unwrap();
        write(&of.place(snapshot.at), &snapshot).unwrap();
        snapshot
    }

    #[test]
    fn what_is_not_finished_is_no_snapshot_and_goes() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let (one, other) = (add(&of, 2, Some(7)), add(&of, 1, None));
        fs::create_dir(of.folder.join(format!("{UNFINISHED}{}", SnapshotTime::of_ticks(3)))).unwrap();
        fs::create_dir(of.folder.join("by hand")).unwrap();
        assert_eq!(of.times().unwrap(), [other.at, one.at]);
        assert_eq!(of.get(one.at).unwrap(), Some(one.clone()));
        assert_eq!(of.get(SnapshotTime::of_ticks(3)).unwrap(), None);
        // One that cannot be looked into keeps nobody from the others.
        let (first, last) = (of.folder.with_file_name("a"), of.folder.with_file_name("z"));
        [first, last].iter().for_each(|file| fs::write(file, "no folder").unwrap());
        assert!(sweep(place.path()).is_err());
        assert_eq!(fs::read_dir(&of.folder).unwrap().count(), 3, "what is not finished, and nothing else, is gone");
    }

    #[test]
    fn what_is_deleted_is_set_aside_and_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let (one, other) = (add(&of, 1, None), add(&of, 2, None));
        let refused = of.clone().turn().unwrap().delete(one.at, |_| Err(missing(other.at))).unwrap_err();
        assert_eq!((refused.reason(), of.times().unwrap().len()), (Reason::NoSnapshot, 2));
        fs::create_dir_all(of.place(one.at).join(FILES).join("closed/to all")).unwrap();
        fs::write(of.place(one.at).join(FILES).join("closed/file"), "text").unwrap();
        let closed = fs::Permissions::from_mode(0o500);
        fs::set_permissions(of.place(one.at).join(FILES).join("closed"), closed).unwrap();
        of.clone().turn().unwrap().delete(one.at, |_| Ok(())).unwrap();
        assert_eq!(of.times().unwrap(), [other.at]);
        assert_eq!(of.clone().turn().unwrap().delete(one.at, |_| Ok(())).unwrap_err().reason(), Reason::NoSnapshot);
        let gone = place.path().join("shares/.gone");
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 1);
        gone::empty_gone(place.path()).unwrap();
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 0);
        // With a share its snapshots go.
        gone::set_aside(&of.share, place.path()).unwrap();
        assert!(of.times().unwrap().is_empty());
        gone::empty_gone(place.path()).unwrap();
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 0);
    }

    #[test]
    fn no_snapshot_is_made_of_what_is_no_subvolume() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let refused = of.clone().turn().unwrap().take(AzureShare::default(), None).unwrap_err();
        assert_eq!(refused.reason(), Reason::SnapshotsUnsupported);
        assert!(SnapshotsOf::of(&place.path().join("docs"), place.path()).is_none());
    }

    #[test]
    fn of_two_at_once_one_waits_for_its_turn() {
        let one = Path::new("one");
        let turn = Taken::within(one, Duration::ZERO).unwrap();
        let refused = Taken::within(one, Duration::from_millis(1)).err().unwrap();
        assert_eq!(refused.reason(), Reason::SnapshotInProgress);
        assert!(Taken::within(Path::new("other"), Duration::ZERO).is_ok());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| Taken::within(one, Duration::from_secs(60)).is_ok());
            drop(turn);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn of_one_whose_record_is_damaged_nothing_is_known_and_it_is_not_deleted_by_clients() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let one = add(&of, 1, Some(7));
        let turn = of.clone().turn().unwrap();
        for make in
            [|path: &Path| fs::create_dir(path).unwrap(), |path: &Path| fs::write(path, "{}").unwrap(), |_: &Path| ()]
        {
            let record = of.place(one.at).join(RECORD);
            let _ = fs::remove_dir(&record);
            let _ = fs::remove_file(&record);
            make(&record);
            let [damaged] = &of.all().unwrap()[..] else { panic!("it is there") };
            assert!(damaged.is_damaged && damaged.is_leased() && damaged.kept == AzureShare::default());
            assert!(turn.change(one.at, |_, _| Ok(())).is_err());
        }
        turn.delete(one.at, |_| Ok(())).unwrap();
        assert!(of.all().unwrap().is_empty());
    }

    #[test]
    fn what_is_kept_of_one_changes() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let one = add(&of, 1, Some(7));
        let changed = of.clone().turn().unwrap().change(one.at, |kept, _| {
            kept.metadata.insert("c".into(), "d".into());
            Ok(())
        });
        let now = of.get(one.at).unwrap().unwrap();
        assert_eq!((changed.unwrap().1, now.quota_gib, now.kept.metadata.len()), (now.kept.clone(), Some(7), 2));
        assert!(of.clone().turn().unwrap().change(one.at, |_, _| Err::<(), _>(missing(one.at))).is_err());
        assert_eq!(of.get(one.at).unwrap().unwrap(), now);
    }
}
