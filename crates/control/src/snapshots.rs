//! Snapshots of shares ("Snapshot Share"): read-only subvolumes of btrfs, beside the folders that the server makes for shares.
//!
//! A snapshot is a folder, called by its time, with the subvolume `files` and `share.json`, what was known of the share then. It is made under another name and
//! has its own when it is whole; who deletes it moves it away, and it is taken away later. They stand in a folder that has the name of the share's, and go
//! with that.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use store::{DirectoryOptions, DirectoryStore, Store};
use tracing::warn;

use crate::btrfs::{self, Failed};
use crate::catalog::own_folder;
use crate::folder::snapshots_in;
use crate::share_lease::may_change;
use crate::{AzureShare, Catalog, Error, Reason, ShareName, Source};

/// Snapshots of one share, as with the service.
const OF_SHARE_MAX: usize = 200;
/// Snapshots that are made or deleted at a time.
const AT_ONCE: usize = 4;
/// No snapshot is made where less than one part in so many of the file system is free: from then on nothing that is changed or deleted gives space back.
const FREE_PARTS: u64 = 20;
/// Ticks of a snapshot's time in a second: it is told in units of 100 nanoseconds.
const TICKS: i64 = 10_000_000;
/// The length of the text of a time.
const TIME_CHARS: usize = "2026-11-30T20:14:15.1234567Z".len();
/// What a snapshot's folder has.
const FILES: &str = "files";
const RECORD: &str = "share.json";
/// Bytes of what is known of a share, at most.
const RECORD_BYTES_MAX: u64 = 256 << 10;
/// What the name of a folder begins with that is not a snapshot yet.
const UNFINISHED: &str = ".new-";

/// When a snapshot was made, which is its name: `2026-11-30T20:14:15.1234567Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTime {
    /// Units of 100 nanoseconds since 1970.
    ticks: i64,
}

/// A text that is no snapshot's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not written as 2026-11-30T20:14:15.1234567Z")]
pub struct NoSnapshotTime;

/// What a share was when a snapshot was made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSnapshot {
    /// When that was.
    pub at: SnapshotTime,
    /// What clients kept of it, with the snapshot's own metadata and lease.
    pub kept: AzureShare,
    /// How large it might become, in GiB.
    pub quota_gib: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    kept: AzureShare,
    quota_gib: Option<u32>,
}

/// The snapshots of a share's folder.
pub(crate) struct SnapshotsOf {
    share: PathBuf,
    folder: PathBuf,
    data: PathBuf,
}

/// Somebody makes or deletes a snapshot of a share.
struct Turn(PathBuf);

/// The folders of shares of which that is so.
static AT_WORK: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

impl ShareSnapshot {
    /// True where it has a lease, which keeps it from being deleted.
    pub(crate) fn is_leased(&self) -> bool {
        may_change(self.kept.lease.as_ref(), None, Timestamp::now()).is_err()
    }
}

impl SnapshotTime {
    fn now() -> Self {
        let ticks = Timestamp::now().as_nanosecond() / i128::from(1_000_000_000 / TICKS);
        SnapshotTime { ticks: i64::try_from(ticks).unwrap_or_default() }
    }
}

impl fmt::Display for SnapshotTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, ticks) = (self.ticks.div_euclid(TICKS), self.ticks.rem_euclid(TICKS));
        let second = Timestamp::from_second(second).unwrap_or(Timestamp::MIN);
        write!(f, "{}.{ticks:07}Z", second.strftime("%Y-%m-%dT%H:%M:%S"))
    }
}

impl FromStr for SnapshotTime {
    type Err = NoSnapshotTime;

    fn from_str(text: &str) -> Result<Self, NoSnapshotTime> {
        let parsed: Timestamp = text.parse().map_err(|_| NoSnapshotTime)?;
        let ticks = parsed.as_nanosecond() / i128::from(1_000_000_000 / TICKS);
        let time = SnapshotTime { ticks: i64::try_from(ticks).map_err(|_| NoSnapshotTime)? };
        // It is the name of a folder: of all ways to write a time one is taken.
        (text.len() == TIME_CHARS && time.to_string() == text).then_some(time).ok_or(NoSnapshotTime)
    }
}

impl Turn {
    fn of(share: &Path) -> Result<Self, Error> {
        let mut at_work = AT_WORK.lock();
        if at_work.contains(share) {
            let busy = Error::conflict("a snapshot of the share is being made or deleted", "try again");
            return Err(busy.because(Reason::SnapshotInProgress));
        }
        if at_work.len() >= AT_ONCE {
            let busy = Error::conflict("snapshots of other shares are being made or deleted", "try again");
            return Err(busy.because(Reason::Busy));
        }
        at_work.insert(share.to_owned());
        Ok(Turn(share.to_owned()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        AT_WORK.lock().remove(&self.0);
    }
}

impl SnapshotsOf {
    /// Those of a share, where there can be any.
    pub(crate) fn of(share: &Source, data: &Path) -> Option<Self> {
        match share {
            Source::Folder { path, .. } => {
                let folder = own_folder::snapshots_of(path, data)?;
                Some(SnapshotsOf { share: path.clone(), folder, data: data.to_owned() })
            }
            Source::Ram { .. } => None,
        }
    }

    /// When they were made, the oldest first.
    pub(crate) fn times(&self) -> Result<Vec<SnapshotTime>, Error> {
        let names = names_in(&self.folder)?;
        let mut times: Vec<SnapshotTime> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        times.sort_unstable();
        Ok(times)
    }

    /// One of them, if it is there. Of one whose record cannot be read nothing is known but its files.
    pub(crate) fn get(&self, at: SnapshotTime) -> Result<Option<ShareSnapshot>, Error> {
        let path = self.place(at).join(RECORD);
        let read = File::open(&path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::system("read", &path, &cause)),
        };
        let record: Option<Record> = serde_json::from_slice(&bytes).ok();
        let Record { kept, quota_gib } = record.filter(|record| record.kept.check().is_ok()).unwrap_or_else(|| {
            warn!(name: "snapshot_damaged", path = %path.display(), "what was known of a share when a snapshot was made of it is damaged: its metadata and its lease are lost");
            Record { kept: AzureShare::default(), quota_gib: None }
        });
        Ok(Some(ShareSnapshot { at, kept, quota_gib }))
    }

    /// Makes one.
    pub(crate) fn take(&self, kept: AzureShare, quota_gib: Option<u32>) -> Result<ShareSnapshot, Error> {
        let _turn = Turn::of(&self.share)?;
        if !btrfs::is_subvolume(&self.share) {
            return Err(unsupported(&self.share));
        }
        let times = self.times()?;
        if times.len() >= OF_SHARE_MAX {
            let what = format!("the share has {} snapshots, as many as one may have", times.len());
            return Err(Error::conflict(what, "delete one of them first").because(Reason::TooManySnapshots));
        }
        self.refuse_full()?;
        own_folder::make(&self.folder)?;
        // Before it is made: nothing of what it has came later.
        let now = SnapshotTime::now();
        let after = times.last().map_or(now, |last| SnapshotTime { ticks: last.ticks + 1 });
        let snapshot = ShareSnapshot { at: now.max(after), kept, quota_gib };
        let unfinished = self.folder.join(format!("{UNFINISHED}{}", snapshot.at));
        let place = self.place(snapshot.at);
        let made = own_folder::make(&unfinished)
            .and_then(|()| write(&unfinished, &snapshot))
            .and_then(|()| btrfs::snapshot(&self.share, &unfinished.join(FILES)).map_err(|failed| self.failed(&failed)))
            .and_then(|()| {
                let moved = fs::rename(&unfinished, &place).and_then(|()| File::open(&self.folder)?.sync_all());
                moved.map_err(|cause| Error::system("make", &place, &cause))
            });
        if let Err(error) = made {
            // What cannot be moved now is at the next start.
            let _ = own_folder::set_aside_snapshot(&unfinished, &self.data);
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
        let _turn = Turn::of(&self.share)?;
        let mut snapshot = self.get(at)?.ok_or_else(|| missing(at))?;
        let done = change(&mut snapshot.kept, Timestamp::now())?;
        snapshot.kept.check()?;
        write(&self.place(at), &snapshot)?;
        Ok((done, snapshot.kept))
    }

    /// Deletes one, where `check` does not mind: nobody finds it any more. What it takes is given back once it is taken away ([`own_folder::take_away_soon`]).
    pub(crate) fn delete(
        &self,
        at: SnapshotTime,
        check: impl FnOnce(&ShareSnapshot) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _turn = Turn::of(&self.share)?;
        check(&self.get(at)?.ok_or_else(|| missing(at))?)?;
        own_folder::set_aside_snapshot(&self.place(at), &self.data)?;
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|cause| Error::system("delete a snapshot in", &self.folder, &cause))
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

    fn refuse_full(&self) -> Result<(), Error> {
        let system = rustix::fs::statvfs(&self.share)
            .map_err(|cause| Error::system("ask how full is", &self.share, &cause.into()))?;
        if system.f_bavail >= system.f_blocks / FREE_PARTS {
            return Ok(());
        }
        let what = format!("less than {} % of the share's file system is free", 100 / FREE_PARTS);
        let remedy = "delete something, or snapshots, first: what a snapshot has takes space until that is deleted";
        Err(Error::conflict(what, remedy).because(Reason::DiskFull))
    }

    fn failed(&self, failed: &Failed) -> Error {
        let what = format!("cannot make a snapshot of {}: {failed}", self.share.display());
        match failed {
            Failed::NoProgram => {
                Error::conflict(what, "install it (btrfs-progs)").because(Reason::SnapshotsUnsupported)
            }
            Failed::TookTooLong => Error::machine(what, "try again").because(Reason::TookTooLong),
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

/// The names in a folder; none where that is not there.
fn names_in(folder: &Path) -> Result<Vec<OsString>, Error> {
    let failed = |cause| Error::system("look into", folder, &cause);
    match fs::read_dir(folder) {
        Ok(names) => names.map(|entry| Ok(entry.map_err(failed)?.file_name())).collect(),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(failed(cause)),
    }
}

fn unsupported(share: &Path) -> Error {
    let why = match btrfs::is_btrfs(share) {
        true => "is no subvolume of its own, as those are that the server made before it could make snapshots",
        false => "is not on btrfs",
    };
    no_snapshots(format!("the share's folder {} {why}", share.display()))
}

/// A share that has no snapshots, for this reason.
pub(crate) fn no_snapshots(what: impl Into<String>) -> Error {
    let remedy = "snapshots are made of shares whose folder the server makes, with its data folder on btrfs";
    Error::conflict(what, remedy).because(Reason::SnapshotsUnsupported)
}

impl Catalog {
    /// The snapshots of a share, the oldest first.
    pub fn snapshots(&self, share: &ShareName) -> Result<Vec<ShareSnapshot>, Error> {
        let Some(of) = self.snapshots_of(share)? else { return Ok(Vec::new()) };
        of.times()?.into_iter().filter_map(|at| of.get(at).transpose()).collect()
    }

    /// Deletes a snapshot of a share as an operator, whoever has a lease of it, where no server runs that does.
    pub fn delete_snapshot(&mut self, share: &ShareName, at: SnapshotTime) -> Result<(), Error> {
        self.snapshots_of(share)?.ok_or_else(|| missing(at))?.delete(at, |_| Ok(()))?;
        own_folder::empty_gone(self.data())
    }

    fn snapshots_of(&self, share: &ShareName) -> Result<Option<SnapshotsOf>, Error> {
        Ok(SnapshotsOf::of(&self.share(share)?.source, self.data()))
    }
}

/// There is no such snapshot.
pub(crate) fn missing(at: SnapshotTime) -> Error {
    Error::missing(format!("the share has no snapshot of {at}"), "list those it has").because(Reason::NoSnapshot)
}

/// Sets aside what was left of snapshots that were not finished when a server ended, and tells of those whose share's folder is gone.
pub(crate) fn sweep(data: &Path) -> Result<(), Error> {
    let all = snapshots_in(data);
    for name in names_in(&all)? {
        let (of_share, share) = (all.join(&name), own_folder::named(&name, data));
        // Who makes one just now finishes it.
        let Ok(_turn) = Turn::of(&share) else { continue };
        for unfinished in names_in(&of_share)?.iter().filter(|name| name.to_string_lossy().starts_with(UNFINISHED)) {
            own_folder::set_aside_snapshot(&of_share.join(unfinished), data)?;
        }
        if matches!(fs::symlink_metadata(&share), Err(cause) if cause.kind() == ErrorKind::NotFound) {
            warn!(name: "snapshots_without_share", folder = %of_share.display(), "the folder of a share is gone, and its snapshots are there and take room");
        }
    }
    Ok(())
}

/// Takes away a snapshot that was set aside.
pub(crate) fn take_away(snapshot: &Path) -> Result<(), Failed> {
    let files = snapshot.join(FILES);
    if btrfs::is_subvolume(&files) {
        btrfs::delete(&files)?;
    }
    btrfs::remove_all(snapshot).map_err(|cause| Failed::Refused(cause.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_time_is_written_in_one_way() {
        let text = "2026-11-30T20:14:15.0034567Z";
        assert_eq!(text.parse::<SnapshotTime>().unwrap().to_string(), text);
        let now = SnapshotTime::now();
        assert_eq!(now.to_string().parse(), Ok(now));
        for wrong in [
            "",
            "2026-11-30T20:14:15Z",
            "2026-11-30t20:14:15.0034567z",
            "2026-11-30T20:14:60.0034567Z",
            "../../catalog.db",
        ] {
            assert_eq!(wrong.parse::<SnapshotTime>(), Err(NoSnapshotTime), "{wrong}");
        }
    }

    /// Snapshots of a share's folder, of which some are said to be there.
    fn snapshots(place: &Path) -> SnapshotsOf {
        let share = place.join("shares/docs-00000000");
        fs::create_dir_all(&share).unwrap();
        let of = SnapshotsOf::of(&Source::Folder { path: share, quota_gib: None }, place).unwrap();
        fs::create_dir_all(&of.folder).unwrap();
        of
    }

    /// Has one of them be there, but for its files.
    fn add(of: &SnapshotsOf, ticks: i64, quota_gib: Option<u32>) -> ShareSnapshot {
        let kept = AzureShare { metadata: [("a".to_owned(), "b".to_owned())].into(), ..AzureShare::default() };
        let snapshot = ShareSnapshot { at: SnapshotTime { ticks }, kept, quota_gib };
        fs::create_dir(of.place(snapshot.at)).unwrap();
        write(&of.place(snapshot.at), &snapshot).unwrap();
        snapshot
    }

    #[test]
    fn what_is_not_finished_is_no_snapshot_and_goes() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let (one, other) = (add(&of, 2, Some(7)), add(&of, 1, None));
        fs::create_dir(of.folder.join(format!("{UNFINISHED}{}", SnapshotTime { ticks: 3 }))).unwrap();
        fs::create_dir(of.folder.join("by hand")).unwrap();
        assert_eq!(of.times().unwrap(), [other.at, one.at]);
        assert_eq!(of.get(one.at).unwrap(), Some(one.clone()));
        assert_eq!(of.get(SnapshotTime { ticks: 3 }).unwrap(), None);
        sweep(place.path()).unwrap();
        assert_eq!(fs::read_dir(&of.folder).unwrap().count(), 3, "what is not finished, and nothing else, is gone");
        fs::write(of.place(one.at).join(RECORD), "{}").unwrap();
        assert_eq!(of.get(one.at).unwrap().unwrap().kept, AzureShare::default(), "its files are there all the same");
    }

    #[test]
    fn what_is_deleted_is_set_aside_and_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let (one, other) = (add(&of, 1, None), add(&of, 2, None));
        let refused = of.delete(one.at, |_| Err(missing(other.at))).unwrap_err();
        assert_eq!((refused.reason(), of.times().unwrap().len()), (Reason::NoSnapshot, 2));
        fs::create_dir_all(of.place(one.at).join(FILES).join("closed/to all")).unwrap();
        fs::write(of.place(one.at).join(FILES).join("closed/file"), "text").unwrap();
        let closed = fs::Permissions::from_mode(0o500);
        fs::set_permissions(of.place(one.at).join(FILES).join("closed"), closed).unwrap();
        of.delete(one.at, |_| Ok(())).unwrap();
        assert_eq!(of.times().unwrap(), [other.at]);
        assert_eq!(of.delete(one.at, |_| Ok(())).unwrap_err().reason(), Reason::NoSnapshot);
        let gone = place.path().join("shares/.gone");
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 1);
        own_folder::empty_gone(place.path()).unwrap();
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 0);
        // With a share its snapshots go.
        own_folder::set_aside(&of.share, place.path()).unwrap();
        assert!(of.times().unwrap().is_empty());
        own_folder::empty_gone(place.path()).unwrap();
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 0);
    }

    #[test]
    fn no_snapshot_is_made_of_what_is_no_subvolume() {
        let place = tempfile::tempdir().unwrap();
        let refused = snapshots(place.path()).take(AzureShare::default(), None).unwrap_err();
        assert_eq!(refused.reason(), Reason::SnapshotsUnsupported);
        let named = Source::Folder { path: place.path().join("docs"), quota_gib: None };
        assert!(SnapshotsOf::of(&named, place.path()).is_none());
    }

    #[test]
    fn of_two_at_once_one_has_the_turn() {
        let turn = Turn::of(Path::new("one")).unwrap();
        assert_eq!(Turn::of(Path::new("one")).err().unwrap().reason(), Reason::SnapshotInProgress);
        drop(turn);
        assert!(Turn::of(Path::new("one")).is_ok());
    }

    #[test]
    fn what_is_kept_of_one_changes() {
        let place = tempfile::tempdir().unwrap();
        let of = snapshots(place.path());
        let one = add(&of, 1, Some(7));
        let changed = of.change(one.at, |kept, _| {
            kept.metadata.insert("c".into(), "d".into());
            Ok(())
        });
        let now = of.get(one.at).unwrap().unwrap();
        assert_eq!((changed.unwrap().1, now.quota_gib, now.kept.metadata.len()), (now.kept.clone(), Some(7), 2));
        assert!(of.change(one.at, |_, _| Err::<(), _>(missing(one.at))).is_err());
        assert_eq!(of.get(one.at).unwrap().unwrap(), now);
    }
}
