//! The folder of the records of persistent opens: one small file each, on the disk before the client has its answer and gone when
//! the open closes. One that the disk does not let go then is stale, and is removed again later.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::record::{RECORD_BYTES_MAX, Record};

/// How a record's file ends, and how one that is being written does.
const RECORD: &str = "open";
const UNFINISHED: &str = "new";

/// So many stale records are remembered, each with its number alone.
const STALE_MAX: usize = 1 << 16;

/// The folder.
pub(super) struct Records {
    folder: PathBuf,
    /// The opens whose records could not be removed.
    stale: Mutex<Vec<u64>>,
}

/// A record that was not written.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) error: io::Error,
    /// The disk has what it had. Else it may have either.
    pub(super) is_as_before: bool,
}

impl Records {
    /// Opens the folder, making it where it is missing.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Records { folder: folder.to_owned(), stale: Mutex::default() })
    }

    /// Writes a record, or writes it anew: it is on the disk afterwards.
    pub(super) fn write(&self, record: &Record) -> Result<(), Unwritten> {
        let (unfinished, path) = (self.path(record.open, UNFINISHED), self.path(record.open, RECORD));
        let replaced = write(&unfinished, record).and_then(|()| fs::rename(&unfinished, &path));
        replaced.map_err(|error| {
            // It takes room on a disk that may be full.
            let _ = fs::remove_file(&unfinished);
            Unwritten { error, is_as_before: true }
        })?;
        self.sync_folder().map_err(|error| Unwritten { error, is_as_before: false })
    }

    /// Removes a record. False where it is stale now: if the server ended, the open would be made anew, and given up when its time is over.
    pub(super) fn remove(&self, open: u64) -> bool {
        let removed = self.remove_file(open);
        if let Err(error) = &removed {
            tracing::warn!(name: "persistent_record_left", %error, open, "the record of a persistent open was not removed: it is tried again");
            self.remember(vec![open]);
        }
        removed.is_ok()
    }

    /// True where there are stale records.
    pub(super) fn has_stale(&self) -> bool {
        !self.stale.lock().is_empty()
    }

    /// The opens of the stale records, for [`Records::remove_stale`].
    pub(super) fn take_stale(&self) -> Vec<u64> {
        std::mem::take(&mut self.stale.lock())
    }

    /// Removes the records of opens that have closed, as far as the disk lets them go now.
    pub(super) fn remove_stale(&self, mut opens: Vec<u64>) {
        let before = opens.len();
        opens.retain(|open| self.remove_file(*open).is_err());
        let removed = before - opens.len();
        if removed > 0 {
            tracing::info!(name: "persistent_records_removed", removed, "records of persistent opens were removed that could not be before");
            self.sync();
        }
        self.remember(opens);
    }

    fn remember(&self, mut opens: Vec<u64>) {
        let mut stale = self.stale.lock();
        opens.truncate(STALE_MAX - stale.len());
        stale.append(&mut opens);
    }

    /// Removes a record that is not true any more: the disk has forgotten it afterwards.
    pub(super) fn forget(&self, open: u64) -> io::Result<()> {
        self.remove_file(open)?;
        self.sync_folder()
    }

    fn remove_file(&self, open: u64) -> io::Result<()> {
        match fs::remove_file(self.path(open, RECORD)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    /// Has the disk keep what was removed.
    pub(super) fn sync(&self) {
        if let Err(error) = self.sync_folder() {
            tracing::warn!(name: "persistent_record_left", %error, "removed records of persistent opens may come back after a loss of power");
        }
    }

    /// Reads all records. What is damaged is logged and put aside; what the disk does not give just now is an error.
    pub(super) fn read_all(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == UNFINISHED) {
                // The server was killed while it wrote it: no client has its open.
                let _ = fs::remove_file(&path);
            } else if path.extension().is_some_and(|extension| extension == RECORD) {
                match read(&path)? {
                    Ok(record) => records.push(record),
                    Err(why) => {
                        tracing::error!(name: "persistent_open_lost", record = %path.display(), reason = why, "the record of a persistent open is refused: its client loses the open");
                        let _ = fs::rename(&path, path.with_extension("damaged"));
                    }
                }
            }
        }
        Ok(records)
    }

    fn path(&self, open: u64, extension: &str) -> PathBuf {
        self.folder.join(format!("{open:016x}.{extension}"))
    }
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&record.to_bytes())?;
    file.sync_all()
}

/// A record, or what is wrong with it.
fn read(path: &Path) -> io::Result<Result<Record, &'static str>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(RECORD_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    Ok(Record::decode(&bytes).map_err(|malformed| malformed.0).and_then(|record| {
        let named = path.file_stem().is_some_and(|stem| *stem == *format!("{:016x}", record.open));
        if named { Ok(record) } else { Err("it is another open's") }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(open: u64) -> Record {
        Record { open, share: "share".into(), ..Record::default() }
    }

    #[test]
    fn records_are_read_back_until_they_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let records = Records::open(&place.path().join("opens")).unwrap();
        records.write(&record(1)).unwrap();
        records.write(&record(2)).unwrap();
        records.write(&Record { path: "moved".into(), ..record(2) }).unwrap();
        records.remove(1);
        records.remove(3);
        let read = Records::open(&place.path().join("opens")).unwrap().read_all().unwrap();
        assert_eq!(read, [Record { path: "moved".into(), ..record(2) }]);
    }

    #[test]
    fn so_many_stale_records_are_remembered_and_no_more() {
        let place = tempfile::tempdir().unwrap();
        let records = Records::open(place.path()).unwrap();
        records.remember((0..STALE_MAX as u64 - 1).collect());
        for open in [STALE_MAX as u64, STALE_MAX as u64 + 1] {
            fs::create_dir(records.path(open, RECORD)).unwrap();
            assert!(!records.remove(open));
        }
        let stale = records.take_stale();
        assert_eq!((stale.len(), stale.last()), (STALE_MAX, Some(&(STALE_MAX as u64))));
        records.remove_stale(stale);
        assert_eq!(records.take_stale(), [STALE_MAX as u64]);
    }

    #[test]
    fn what_the_disk_does_not_give_is_an_error_and_stays_what_it_is() {
        let place = tempfile::tempdir().unwrap();
        let records = Records::open(place.path()).unwrap();
        records.write(&record(1)).unwrap();
        // A directory opens, and does not read.
        fs::create_dir(records.path(2, RECORD)).unwrap();
        assert!(records.read_all().is_err());
        fs::remove_dir(records.path(2, RECORD)).unwrap();
        assert_eq!(records.read_all().unwrap(), [record(1)]);
    }

    #[test]
    fn damaged_and_unfinished_records_are_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let records = Records::open(place.path()).unwrap();
        for open in 1..=4 {
            records.write(&record(open)).unwrap();
        }
        fs::write(records.path(1, RECORD), b"MLPO").unwrap();
        fs::rename(records.path(2, RECORD), records.path(2, UNFINISHED)).unwrap();
        fs::rename(records.path(3, RECORD), records.path(9, RECORD)).unwrap();
        fs::write(place.path().join("something else"), b"").unwrap();
        assert_eq!(records.read_all().unwrap(), [record(4)]);
        assert_eq!(records.read_all().unwrap(), [record(4)], "and again");
        assert!(!records.path(2, UNFINISHED).exists());
    }
}
