//! Persistent opens on their way to the disk, and back after the server was killed (MS-SMB2 3.3.5.9.10, 3.3.5.9.12).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::MutexGuard;
use store::{Kind, Node, Resolved, SharePath, Use};
use tokio::time::Instant;
use wire::command::create::{CreateAction, CreateOptions, OplockLevel};
use wire::context::create::{Lease, LeaseState};
use wire::ids::TreeId;
use wire::security::access::FILE_ALL;

use super::record::{LOCKS_MAX, LockedRange, Record, RecordedName};
use super::records::Records;
use super::{Durability, Durables, Keeping, Making};
use crate::resource::budgets::Opened;
use crate::state::access::usage;
use crate::state::authorization::GrantedAccess;
use crate::state::breaks;
use crate::state::caching::{Actor, Granted, LeaseId, Wanted};
use crate::state::channel_sequence::ChannelSequence;
use crate::state::configuration::{Configuration, Share};
use crate::state::enumeration::Listing;
use crate::state::files::{Empties, Entering, Entry, FileEntry, Link};
use crate::state::frozen_times::HeldTimes;
use crate::state::lock_sequences::{LockSequence, LockSequences};
use crate::state::locks::{LockKind, LockRefusal, RangeLock};
use crate::state::notify::Untold;
use crate::state::open::{FileOpen, Open, OpenId, StreamOf, Target};
use crate::state::open_path::{self, OpenPath};
use crate::state::session_link::SessionLink;
use crate::state::shared::Shared;
use crate::state::tree::Tree;
use crate::state::user::{User, UserId};

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
                tracing::error!(share = %open.tree.share, "a persistent open is recorded as one whose file goes, and it does not");
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
    pub(super) fn remove_record(&self, open: OpenId, file_goes: bool) {
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
    pub(super) fn has_stale_records(&self) -> bool {
        self.records.get().is_some_and(Records::has_stale)
    }

    /// What removes them, as far as the disk lets them go now. May wait for it.
    pub(super) fn removal_of_stale_records(self: &Arc<Self>) -> impl FnOnce() + Send + use<> {
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
        tracing::error!(%error, share = %open.tree.share, path = file.name(), "the record of a persistent open is out of date");
    })?;
    tracing::error!(share = %open.tree.share, path = file.name(), "an open is persistent no longer: it could not be recorded");
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

/// Why an open is not made anew.
pub(super) enum Unrestored {
    /// Its file is not there now: what its share's folder is mounted on may come later.
    Missing(String),
    /// It cannot be any more.
    Lost(String),
}

impl From<store::Error> for Unrestored {
    fn from(error: store::Error) -> Self {
        Unrestored::Missing(error.to_string())
    }
}

fn lost(why: impl Into<String>) -> Unrestored {
    Unrestored::Lost(why.into())
}

fn missing(why: &str) -> Unrestored {
    Unrestored::Missing(why.to_owned())
}

/// Makes an open anew that a server before this one had when it ended: it waits for its client from now on. May wait for its share's
/// device.
pub(super) fn restore_one(
    server: &Arc<Shared>,
    configuration: &Configuration,
    record: &Record,
) -> Result<(), Unrestored> {
    let share = configuration.shares.iter().find(|share| share.name == record.share && share.continuously_available);
    let share = share.ok_or_else(|| lost("its share is no longer continuously available"))?;
    let machine = configuration.settings.machine_sid;
    let mut users = configuration.principals.iter().map(|principal| User::new(principal, machine));
    let user = users.find(|user| Some(*user.sid()) == record.owner).ok_or_else(|| lost("its user is gone"))?;
    if !user.may_use(share) {
        return Err(lost("its user may no longer use the share"));
    }
    let id = OpenId(record.open);
    let line = SessionLink::down();
    let tree = Arc::new(Tree::on(TreeId(0), share, FILE_ALL, true));
    let mut file = open_file(server, share, record, (&line, user.id))?;
    let budgets = server.budgets.of_user(user.sid());
    // It was granted before, and is not taken away because there is less now.
    file.held = Some(budgets.open_anyway(if file.stream.is_some() { Opened::Stream } else { Opened::Whole }));
    file.path.pay(budgets.names_anyway(open_path::bytes_of(&file.path.now())));
    let stream = file.stream_name();
    if !record.locks.is_empty() {
        file.file.locked_again(&stream, file.actor);
        breaks::range_locked(server, &file);
    }
    for lock in &record.locks {
        let kind = if lock.exclusive { LockKind::Exclusive } else { LockKind::Shared };
        let wanted = RangeLock { open: id, offset: lock.offset, length: lock.length, kind };
        if file.file.lock(&stream, wanted, &budgets.lasting).is_err() {
            tracing::warn!(open = record.open, offset = lock.offset, "a byte-range lock of a persistent open is lost");
        }
    }
    let keeping = file.durability.keeping();
    let open = Arc::new(Open::new(
        id,
        line,
        user.into(),
        tree,
        Target::File(Arc::new(file)),
        GrantedAccess::recorded(record.granted),
    ));
    if let Ok(file) = open.file() {
        file.file.note_recorded(&open);
    }
    if !server.durables.insert(&open, keeping, Instant::now() + keeping.timeout()) {
        server.close_on_pool(vec![open]);
        return Err(lost("too many opens wait for their clients"));
    }
    Ok(())
}

/// The file of a record.
struct Found {
    node: Arc<dyn Node>,
    path: SharePath,
    /// The file that has the stream, and the stream's name.
    stream: Option<(Arc<dyn Node>, String)>,
}

/// Finds the file by one of its names: it is the one that has the recorded number, and was made when that was.
fn find(share: &Share, record: &Record, usage: Use) -> Result<Found, Unrestored> {
    let mut first = None;
    for name in record.known_names() {
        let why = match find_by(share, record, &name, usage) {
            Ok(found) if record.is_of(&*found.node) && found.node.kind() != Kind::Directory => return Ok(found),
            Ok(_) => missing("another file has its name"),
            Err(why) => why,
        };
        if first.is_none() || matches!(why, Unrestored::Lost(_)) {
            first = Some(why);
        }
    }
    Err(first.unwrap_or_else(|| missing("it has no name")))
}

fn find_by(share: &Share, record: &Record, name: &RecordedName, usage: Use) -> Result<Found, Unrestored> {
    let path = SharePath::parse(&name.path).map_err(|error| lost(error.to_string()))?;
    let Resolved::Found { node: base, path } = share.store.resolve(&path, usage)? else {
        return Err(missing("its file is gone"));
    };
    if name.stream.is_empty() {
        return Ok(Found { node: base, path, stream: None });
    }
    let (stored, node) = base.stream(&name.stream)?.ok_or_else(|| match record.is_of(&*base) {
        // A later one of its name would be another: a stream has neither number nor birth.
        true => lost("its stream is gone"),
        false => missing("another file has its name"),
    })?;
    Ok(Found { node, path, stream: Some((base, stored)) })
}

/// Finds the file again and enters the open into its table.
fn open_file(
    server: &Arc<Shared>,
    share: &Share,
    record: &Record,
    (line, user): (&Arc<SessionLink>, UserId),
) -> Result<FileOpen, Unrestored> {
    let usage = usage(record.granted);
    let Found { node, path, stream } = find(share, record, usage)?;
    node.prepare(usage)?;
    let is_linked = node.metadata().is_ok_and(|known| known.kind != Kind::Directory && known.links > 1);
    let link = if is_linked { Link::at(&*share.store, &path).ok() } else { None };
    let (base, stream_name) = stream.unzip();
    let stream_name = stream_name.unwrap_or_default();
    let names = OpenPath::of_stream(path, &stream_name);
    let wanted = wanted(record, user).map_err(lost)?;
    let entry = Entry {
        open: OpenId(record.open),
        stream: &stream_name,
        link,
        access: record.granted,
        share: record.shared,
        names: &names,
        store: &share.store,
        line,
        is_directory: false,
        empties: Empties::Nothing,
        deletes: false,
        wanted: &wanted,
    };
    let (file, entering, notices) = server.files.restore(node.identity(), &entry);
    breaks::send(server, &file, notices);
    match entering {
        Entering::Entered(_) => {}
        Entering::Waits(_) | Entering::Unnamed => return Err(missing("another open is in its way")),
        Entering::Refused(status) => return Err(lost(status.to_string())),
    }
    if record.delete_pending {
        file.set_delete_pending(OpenId(record.open), &stream_name, true);
    }
    if record.file_goes {
        file.set_delete_pending(OpenId(record.open), "", true);
    }
    let making = Making {
        create: Some(record.create),
        asked: record.asked,
        action: CreateAction(record.action),
        ..Making::default()
    };
    let durability = Durability::new(record.client, making, &server.durables);
    durability.keep(Keeping::Persistent(Duration::from_millis(record.timeout_milliseconds.into())));
    // A client that was not told of a rename comes by the old name.
    let found = RecordedName { path: names.now().as_str().to_owned(), stream: stream_name.clone() };
    record.known_names().filter(|name| *name != found).for_each(|name| durability.add_name(name));
    Ok(FileOpen {
        kind: node.kind(),
        node,
        file,
        path: names,
        stream: base.map(|base| StreamOf { base }),
        options: record.options,
        delete_on_close: AtomicBool::new(record.delete_on_close),
        position: AtomicU64::new(0),
        mode: AtomicU32::new(record.mode | record.options & CreateOptions::WRITE_THROUGH.0),
        ea_position: AtomicUsize::new(0),
        listing: Listing::default(),
        frozen_times: HeldTimes::default(),
        actor: Actor { open: OpenId(record.open), lease: wanted.lease() },
        parent_lease: None,
        has_written: AtomicBool::new(false),
        untold: Untold::default(),
        channel_sequence: ChannelSequence::default(),
        lock_sequences: LockSequences::recorded(&record.sequences),
        held: None,
        durability,
    })
}

/// What the open cached. A record of a version that did not follow it may say that it cached writes when it did no longer.
fn wanted(record: &Record, user: UserId) -> Result<Wanted, String> {
    let is_exact = record.written > 0;
    match OplockLevel(record.oplock) {
        OplockLevel::LEASE => {
            let lease = Lease::decode(&record.lease).map_err(|malformed| malformed.to_string())?;
            let lease_state =
                if is_exact { lease.lease_state } else { lease.lease_state.without(LeaseState::WRITE_CACHING) };
            let id = LeaseId { client: record.client, user, key: lease.lease_key };
            Ok(Wanted::Lease(id, Lease { lease_state, ..lease }))
        }
        level if is_exact && level != OplockLevel::NONE => Ok(Wanted::Oplock(level)),
        _ => Ok(Wanted::Nothing),
    }
}
