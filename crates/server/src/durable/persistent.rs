//! Persistent opens on their way to the disk, and back after the server was killed (MS-SMB2 3.3.5.9.10, 3.3.5.9.12).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use store::{Kind, Node, Resolved, SharePath, Store, Use};
use tokio::time::Instant;
use wire::command::create::{CreateAction, CreateOptions, OplockLevel};
use wire::context::create::{Lease, LeaseState};
use wire::ids::TreeId;
use wire::security::access::FILE_ALL;

use super::record::{LockedRange, Record, RecordedName};
use super::records::Records;
use super::{Durability, Durables, Keeping, Making};
use crate::Shared;
use crate::admin::{Estate, Share};
use crate::authorization::GrantedAccess;
use crate::breaks;
use crate::budgets::Opened;
use crate::caching::{Actor, Granted, LeaseId, Wanted};
use crate::channel_sequence::ChannelSequence;
use crate::command::create::usage;
use crate::context::Context;
use crate::enumeration::Listing;
use crate::files::{Empties, Entering, Entry, FileEntry, Link};
use crate::line::Line;
use crate::lock_sequences::LockSequences;
use crate::locks::{LockKind, RangeLock};
use crate::notify::Untold;
use crate::open::{FileOpen, Open, OpenId, StreamOf, Target};
use crate::open_path::{self, OpenPath};
use crate::refusal::Refusal;
use crate::tree::Tree;
use crate::user::User;

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

    /// Has the disk know what a persistent open is now; nothing of one that has closed. May wait for it.
    pub(crate) fn write_record(&self, open: &Open) -> io::Result<()> {
        match (self.records.get(), &open.target) {
            (Some(records), Target::File(file)) => {
                let _alone = file.durability.recording.lock();
                if file.durability.closed.load(Ordering::Acquire) {
                    return Ok(());
                }
                // Before what is recorded is looked at: who locks what this one unlocks has a higher number.
                let written = self.written.fetch_add(1, Ordering::Relaxed) + 1;
                let record = record(open, file, written);
                records.write(&record)?;
                if !record.caches_writes() {
                    file.file.recorded_as_no_writer(open.id);
                }
                Ok(())
            }
            (None, _) | (_, Target::Pipe(_)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Has the disk know that a persistent open caches no writes any more, unless it does already. Where that fails others go on: only a
    /// server that is killed would miss it.
    fn record_caching(&self, open: &Open) {
        let Ok(file) = open.file() else { return };
        if !file.file.is_outdated(open.id) {
            return;
        }
        if file.durability.keeping().is_persistent()
            && let Err(error) = self.write_record(open)
        {
            tracing::error!(%error, share = %open.tree.share, "the record of a persistent open is out of date");
        }
        // It has closed, or could not be written.
        if file.file.is_outdated(open.id) {
            file.file.recorded_as_no_writer(open.id);
        }
    }

    /// A name or stream of a file goes with the last open of it: the records of all persistent ones say so. May wait for the disk.
    pub(crate) fn record_deletion(&self, file: &FileEntry) {
        for open in file.recorded() {
            if let Err(error) = self.write_record(&open) {
                tracing::error!(%error, share = %open.tree.share, "the record of a persistent open is out of date");
            }
        }
    }

    /// Has the disk forget a persistent open. One whose file goes is forgotten before that: after a loss of power its record would mean
    /// another file, of the same name and number.
    pub(super) fn remove_record(&self, open: OpenId, file_goes: bool) {
        if let Some(records) = self.records.get() {
            records.remove(open.0);
            if file_goes {
                records.sync();
            }
        }
    }
}

pub(super) fn record(open: &Open, file: &FileOpen, written: u64) -> Record {
    let making = file.durability.making();
    let stream = file.stream_name();
    let (stream_goes, name_goes) = file.file.deletions_of(open.id, &stream);
    let path = file.path.now().as_str().to_owned();
    let locks = file.file.locks_of(&stream, open.id, super::record::LOCKS_MAX).into_iter();
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

/// A persistent open has changed: its name, or what it has locked. The disk knows before the client does, where it can.
pub(crate) async fn note_change(context: &Context, open: &Arc<Open>) {
    if open.file().is_ok_and(|file| file.durability.keeping().is_persistent()) {
        let (durables, changed) = (Arc::clone(&context.server().durables), Arc::clone(open));
        let written = context.on_own_folder(move || durables.write_record(&changed)).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, share = %open.tree.share, "the record of a persistent open is out of date");
        }
    }
}

/// What is to go of the file of the request's open has changed: the records of all its persistent opens say so, as each may be the last one.
pub(crate) async fn note_deletion(context: &Context) -> Result<(), Refusal> {
    let (_, file) = context.file()?;
    for recorded in file.file.recorded() {
        note_change(context, &recorded).await;
    }
    Ok(())
}

/// Has the disk know that these opens cache no writes any more, before others get at what they cached.
pub(crate) async fn note_caching(context: &Context, opens: &[Arc<Open>]) -> Result<(), Refusal> {
    let (durables, opens) = (Arc::clone(&context.server().durables), opens.to_vec());
    context.on_own_folder(move || opens.iter().for_each(|open| durables.record_caching(open))).await
}

/// A lease caches writes now that another open of it has been made: the other records of it say so, too.
pub(crate) async fn note_growth(context: &Context, file: &FileOpen) {
    for recorded in file.file.recorded_before_growth(file.actor) {
        note_change(context, &recorded).await;
    }
}

/// Opens whose file gets another name, and that name, as each one's share has it. Dropped before its time it leaves them both.
pub(crate) struct Renaming(Vec<(Arc<Open>, RecordedName)>);

/// The file of the request's open is about to get the name `asked`: the records of all its persistent opens have that, too, so that they are found
/// whatever the server is killed between.
pub(crate) async fn before_rename(context: &Context, asked: &str) -> Result<Renaming, Refusal> {
    let (_, file) = context.file()?;
    let opens = file.file.recorded();
    if opens.is_empty() {
        return Ok(Renaming(Vec::new()));
    }
    let renaming = match asked.strip_prefix(':') {
        Some(stream) => {
            let own = file.stream_name();
            let of_stream = opens.into_iter().filter(|open| open.file().is_ok_and(|file| file.stream_name() == own));
            let name = RecordedName {
                path: file.path.now().as_str().to_owned(),
                stream: stream.split(':').next().unwrap_or_default().to_owned(),
            };
            Renaming(of_stream.map(|open| (open, name.clone())).collect())
        }
        None => match SharePath::parse(asked) {
            Ok(path) => {
                let store = Arc::clone(context.store()?);
                context.work_by_name(move || Renaming::of_file(&store, &path, opens)).await?
            }
            // The rename says what is wrong with it.
            Err(_) => Renaming(Vec::new()),
        },
    };
    for (open, name) in &renaming.0 {
        if let Ok(file) = open.file() {
            file.durability.add_name(name.clone());
        }
        note_change(context, open).await;
    }
    Ok(renaming)
}

/// The rename was done, or was not: the records have the name that the file has now.
pub(crate) async fn after_rename(context: &Context, renaming: Renaming) {
    for (open, name) in renaming.0 {
        if let Ok(file) = open.file() {
            file.durability.remove_name(&name);
        }
        note_change(context, &open).await;
    }
}

impl Renaming {
    /// May wait for stores, where the file is open in several shares.
    fn of_file(store: &Arc<dyn Store>, path: &SharePath, opens: Vec<Arc<Open>>) -> Self {
        let name_of = |open: &Arc<Open>| {
            let own = open.tree.store()?;
            let path = match Arc::ptr_eq(own, store) {
                true => path.clone(),
                false => own.path_at(&store.place_of(path)?)?,
            };
            Some(RecordedName { path: path.as_str().to_owned(), stream: String::new() })
        };
        Renaming(opens.into_iter().filter_map(|open| name_of(&open).map(|name| (open, name))).collect())
    }
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
pub(super) fn restore_one(server: &Arc<Shared>, estate: &Estate, record: &Record) -> Result<(), Unrestored> {
    let share = estate.shares.iter().find(|share| share.name == record.share && share.continuously_available);
    let share = share.ok_or_else(|| lost("its share is no longer continuously available"))?;
    let machine = estate.settings.machine_sid;
    let mut users = estate.principals.iter().map(|principal| User::new(principal, machine));
    let user = users.find(|user| Some(*user.sid()) == record.owner).ok_or_else(|| lost("its user is gone"))?;
    if !user.may_use(share) {
        return Err(lost("its user may no longer use the share"));
    }
    let id = OpenId(record.open);
    let line = Line::down();
    let tree = Arc::new(Tree::on(TreeId(0), share, FILE_ALL, true));
    let mut file = open_file(server, share, record, &line)?;
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
        open.close(server);
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
        match find_by(share, &name, usage) {
            Ok(found) if record.is_of(&*found.node) && found.node.kind() != Kind::Directory => return Ok(found),
            Ok(_) => first = first.or(Some(missing("another file has its name"))),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_else(|| missing("it has no name")))
}

fn find_by(share: &Share, name: &RecordedName, usage: Use) -> Result<Found, Unrestored> {
    let path = SharePath::parse(&name.path).map_err(|error| lost(error.to_string()))?;
    let Resolved::Found { node: base, path } = share.store.resolve(&path, usage)? else {
        return Err(missing("its file is gone"));
    };
    if name.stream.is_empty() {
        return Ok(Found { node: base, path, stream: None });
    }
    let (stored, node) = base.stream(&name.stream)?.ok_or_else(|| missing("its stream is gone"))?;
    Ok(Found { node, path, stream: Some((base, stored)) })
}

/// Finds the file again and enters the open into its table.
fn open_file(server: &Arc<Shared>, share: &Share, record: &Record, line: &Arc<Line>) -> Result<FileOpen, Unrestored> {
    let usage = usage(record.granted);
    let Found { node, path, stream } = find(share, record, usage)?;
    node.prepare(usage)?;
    let is_linked = node.metadata().is_ok_and(|known| known.kind != Kind::Directory && known.links > 1);
    let link = if is_linked { Link::at(&*share.store, &path).ok() } else { None };
    let (base, stream_name) = stream.unzip();
    let stream_name = stream_name.unwrap_or_default();
    let names = OpenPath::of_stream(path, &stream_name);
    let wanted = wanted(record).map_err(lost)?;
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
        Entering::Waits(_) => return Err(missing("another open is in its way")),
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
        frozen_times: Mutex::default(),
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
fn wanted(record: &Record) -> Result<Wanted, String> {
    let is_exact = record.written > 0;
    match OplockLevel(record.oplock) {
        OplockLevel::LEASE => {
            let lease = Lease::decode(&record.lease).map_err(|malformed| malformed.to_string())?;
            let lease_state =
                if is_exact { lease.lease_state } else { lease.lease_state.without(LeaseState::WRITE_CACHING) };
            Ok(Wanted::Lease(LeaseId { client: record.client, key: lease.lease_key }, Lease { lease_state, ..lease }))
        }
        level if is_exact && level != OplockLevel::NONE => Ok(Wanted::Oplock(level)),
        _ => Ok(Wanted::Nothing),
    }
}
