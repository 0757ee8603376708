//! Persistent opens on their way to the disk, and back after the server was killed (MS-SMB2 3.3.5.9.10, 3.3.5.9.12).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use wire::command::create::OplockLevel;
use wire::context::create::{Lease, LeaseState};

use super::record::{LOCKS_MAX, LockedRange, Record};
use super::records::Records;
use super::{Durables, Keeping};
use crate::state::caching::Granted;
use crate::state::files::FileEntry;
use crate::state::lock_sequences::LockSequence;
use crate::state::locks::{LockKind, LockRefusal, RangeLock};
use crate::state::open::{FileOpen, Open, Target};
use crate::state::open_id::OpenId;

impl Durables {
    /// Keeps records in this folder from now on.
    pub(crate) fn keep_records(&self, folder: &Path) -> io::Result<()> {
        let records = Records::open(folder)?;
        // A second folder would be a mistake of ours; the first one stays.
        let _ = self.records.set(records);
        Ok(())
    }

    /// True where opens can be persistent.
    pub(crate) fn keeps_records(&self) -> bool {
        self.records.get().is_some()
    }

    /// Persists what a persistent open is now; nothing of one that has closed. May wait for the disk.
    pub(crate) fn write_record(&self, open: &Open) -> io::Result<()> {
        match (self.records.get(), &open.target) {
            (Some(records), Target::File(file)) => {
                let alone = file.durability.recording.lock();
                if !is_recorded(file) {
                    return Ok(());
                }
                let record = self.record_now(open, file);
                self.write_alone(records, open, &record, &alone)
            }
            (None, _) | (_, Target::Pipe(_)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn record_now(&self, open: &Open, file: &FileOpen) -> Record {
        // Before what is recorded is looked at: who locks what this one unlocks has a higher number.
        let written = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        record(open, file, written)
    }

    /// Writes a record, with nobody else at it. Where the disk may have it or the one before, the open is persistent no longer: what it is refused now
    /// would be true after a kill.
    fn write_alone(
        &self,
        records: &Records,
        open: &Open,
        record: &Record,
        _alone: &MutexGuard<'_, ()>,
    ) -> io::Result<()> {
        let Ok(file) = open.file() else { return Ok(()) };
        match records.write(record) {
            Ok(()) => {
                if !record.caches_writes() {
                    file.file.recorded_as_no_writer(open.id);
                }
                Ok(())
            }
            Err(unwritten) => {
                tracing::error!(
                    name: "persistent_open_not_changed",
                    error = %unwritten.error, share = %open.tree.share, path = file.name(),
                    "a persistent open cannot be recorded: what would have changed it is refused",
                );
                if !unwritten.is_as_before {
                    let _ = give_up(records, open, file);
                }
                Err(unwritten.error)
            }
        }
    }

    /// Makes a persistent open one that dies with the server, and persists that: its record could not follow it.
    fn give_up(&self, open: &Open) -> io::Result<()> {
        match (self.records.get(), &open.target) {
            (Some(records), Target::File(file)) => {
                let _alone = file.durability.recording.lock();
                if is_recorded(file) { give_up(records, open, file) } else { Ok(()) }
            }
            (None, _) | (_, Target::Pipe(_)) => Ok(()),
        }
    }

    /// Persists that a persistent open caches no writes any more, unless it does already; where that cannot be, that it is no longer
    /// persistent.
    pub(crate) fn record_caching(&self, open: &Open) -> io::Result<()> {
        let Ok(file) = open.file() else { return Ok(()) };
        if !file.file.is_outdated(open.id) {
            return Ok(());
        }
        self.write_record(open).or_else(|_| self.give_up(open))?;
        // It has closed, or is recorded no longer.
        if file.file.is_outdated(open.id) {
            file.file.recorded_as_no_writer(open.id);
        }
        Ok(())
    }

    /// A name or stream of a file goes with the last open of it: the records of all persistent ones say so. May wait for the disk. Gives those
    /// whose records do where others' do not.
    pub(crate) fn record_deletion(&self, file: &FileEntry) -> Result<(), Halfway> {
        let (mut recorded, mut failed) = (Vec::new(), None);
        for open in file.recorded() {
            match self.write_record(&open) {
                Ok(()) => recorded.push(open),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), |error| Err(Halfway { error: meaning(&error), recorded }))
    }

    /// What was to go stays: so do the records say, or they are no more.
    pub(crate) fn unrecord_deletion(&self, opens: &[Arc<Open>]) {
        for open in opens {
            if self.write_record(open).or_else(|_| self.give_up(open)).is_err() {
                tracing::error!(name: "persistent_record_wrong", share = %open.tree.share, "a persistent open is recorded as one whose file goes, and it does not");
            }
        }
    }

    /// The open has locked ranges, and `sequence` is done. Where that cannot be recorded they are given back.
    pub(crate) fn record_locks(
        &self,
        open: &Open,
        locks: &[RangeLock],
        sequence: Option<LockSequence>,
    ) -> io::Result<()> {
        let (Some(records), Target::File(file)) = (self.records.get(), &open.target) else { return Ok(()) };
        let alone = file.durability.recording.lock();
        sequence.into_iter().for_each(|sequence| file.lock_sequences.done(sequence));
        if !is_recorded(file) {
            return Ok(());
        }
        let record = self.record_now(open, file);
        let written = if file.file.locks_of(&record.stream, open.id, LOCKS_MAX + 1).len() <= LOCKS_MAX {
            self.write_alone(records, open, &record, &alone)
        } else {
            Err(io::Error::new(io::ErrorKind::OutOfMemory, "it has as many locks as a record holds"))
        };
        written.inspect_err(|_| {
            sequence.into_iter().for_each(|sequence| file.lock_sequences.undone(sequence));
            give_back(file, locks);
        })
    }

    /// Releases ranges when the record is without them: whoever locks one of them next is recorded later. What is released before one that is not
    /// locked stays so.
    pub(crate) fn release(
        &self,
        open: &Open,
        ranges: &[(u64, u64)],
        sequence: Option<LockSequence>,
    ) -> io::Result<Released> {
        let (Some(records), Target::File(file)) = (self.records.get(), &open.target) else { return Ok(Ok(())) };
        let alone = file.durability.recording.lock();
        let is_recorded = is_recorded(file);
        if is_recorded {
            let mut record = self.record_now(open, file);
            let mut leaving = HashMap::new();
            ranges.iter().for_each(|range| *leaving.entry(*range).or_insert(0) += 1);
            record.locks.retain(|lock| match leaving.get_mut(&(lock.offset, lock.length)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                Some(_) | None => true,
            });
            if let Some((index, number)) = sequence.and_then(LockSequence::entry) {
                record.sequences.retain(|(known, _)| *known != index);
                record.sequences.push((index, number));
            }
            self.write_alone(records, open, &record, &alone)?;
        }
        let stream = file.stream_name();
        let mut all = ranges.iter();
        let released = all.try_for_each(|(offset, length)| file.file.unlock(&stream, open.id, *offset, *length));
        match (released, sequence) {
            (Ok(()), Some(sequence)) => file.lock_sequences.done(sequence),
            (Err(_), _) if is_recorded => {
                let record = self.record_now(open, file);
                if self.write_alone(records, open, &record, &alone).is_err() {
                    give_up(records, open, file)?;
                }
            }
            (Ok(()), None) | (Err(_), _) => {}
        }
        Ok(released)
    }

    /// Has the disk forget a persistent open. Where its file goes that is certain afterwards: the record would mean another file of the same
    /// name and number, unless it tells them apart by their births.
    pub(crate) fn remove_record(&self, open: OpenId, file_goes: bool) {
        if let Some(records) = self.records.get() {
            if !records.remove(open.0) {
                self.changed.notify_one();
            }
            if file_goes {
                records.sync();
            }
        }
    }

    /// True where records could not be removed.
    pub(crate) fn has_stale_records(&self) -> bool {
        self.records.get().is_some_and(Records::has_stale)
    }

    /// What removes them, as far as the disk lets them go now. May wait for it.
    pub(crate) fn removal_of_stale_records(self: &Arc<Self>) -> impl FnOnce() + Send + use<> {
        let stale = self.records.get().map(Records::take_stale);
        let durables = Arc::clone(self);
        move || {
            if let (Some(records), Some(stale)) = (durables.records.get(), stale) {
                records.remove_stale(stale);
                durables.changed.notify_one();
            }
        }
    }
}

/// What a fault of the server's own folder is to a client.
pub(crate) fn meaning(error: &io::Error) -> store::Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => store::Error::Full,
        io::ErrorKind::ReadOnlyFilesystem => store::Error::ReadOnly,
        io::ErrorKind::OutOfMemory => store::Error::NoMemory,
        _ => store::Error::Io(error.raw_os_error().unwrap_or_default()),
    }
}

/// True where the disk has a record of the open, and is to have one.
fn is_recorded(file: &FileOpen) -> bool {
    !file.durability.closed.load(Ordering::Acquire) && file.durability.keeping().is_persistent()
}

/// With nobody else at the record.
fn give_up(records: &Records, open: &Open, file: &FileOpen) -> io::Result<()> {
    records.forget(open.id.0).inspect_err(|error| {
        tracing::error!(name: "persistent_record_wrong", %error, share = %open.tree.share, path = file.name(), "the record of a persistent open is out of date");
    })?;
    tracing::error!(name: "persistent_open_demoted", share = %open.tree.share, path = file.name(), "an open is persistent no longer: it could not be recorded");
    file.durability.keep(Keeping::Durable(file.durability.keeping().timeout()));
    Ok(())
}

pub(crate) fn give_back(file: &FileOpen, locks: &[RangeLock]) {
    let stream = file.stream_name();
    locks.iter().rev().for_each(|lock| file.file.take_back(&stream, lock));
}

/// What came of releasing locks.
pub(crate) type Released = Result<(), LockRefusal>;

/// Not all persistent opens of a file could be recorded.
pub(crate) struct Halfway {
    pub(crate) error: store::Error,
    pub(crate) recorded: Vec<Arc<Open>>,
}

pub(super) fn record(open: &Open, file: &FileOpen, written: u64) -> Record {
    let making = file.durability.making();
    let stream = file.stream_name();
    let (stream_goes, name_goes) = file.file.deletions_of(open.id, &stream);
    let path = file.path.now().as_str().to_owned();
    // The oldest: one too many is there until it is refused.
    let locks = file.file.locks_of(&stream, open.id, LOCKS_MAX).into_iter();
    let locks = locks.map(|lock| LockedRange {
        offset: lock.offset,
        length: lock.length,
        exclusive: lock.kind == LockKind::Exclusive,
    });
    let (oplock, lease) = match file.file.caching_to_record(open.id) {
        Granted::Nothing => (OplockLevel::NONE.0, Vec::new()),
        Granted::Oplock(level) => (level.0, Vec::new()),
        Granted::Lease(lease) => (OplockLevel::LEASE.0, left_to(open, lease).to_bytes()),
    };
    Record {
        open: open.id.0,
        client: file.durability.client,
        create: making.create.unwrap_or_default(),
        timeout_milliseconds: u32::try_from(file.durability.keeping().timeout().as_millis()).unwrap_or(u32::MAX),
        owner: Some(*open.user.sid()),
        share: open.tree.share.to_string(),
        path,
        delete_pending: if stream.is_empty() { name_goes } else { stream_goes },
        file_goes: name_goes && !stream.is_empty(),
        stream,
        file: file.node.identity().file,
        granted: open.granted.bits(),
        asked: making.asked,
        options: file.options,
        mode: file.mode.load(Ordering::Relaxed),
        action: making.action.0,
        delete_on_close: file.delete_on_close.load(Ordering::Relaxed),
        oplock,
        lease,
        locks: locks.collect(),
        shared: file.file.shared_by(open.id).unwrap_or(making.asked.1),
        written,
        names: file.durability.names(),
        volume: Some(file.node.identity().volume),
        born: file.node.birth().map(|time| time.0),
        sequences: file.lock_sequences.all(),
    }
}

/// What is recorded of a lease. A client that is away does not know what it has lost: where that is its write caching, it gets nothing, which it
/// understands whatever it believes.
fn left_to(open: &Open, lease: Lease) -> Lease {
    let knows = lease.lease_state.intersects(LeaseState::WRITE_CACHING) || open.line.session().is_some();
    if knows { lease } else { Lease { lease_state: LeaseState::NONE, ..lease } }
}
