//! Persistent opens on their way to the disk, and back after the server was killed (MS-SMB2 3.3.5.9.10, 3.3.5.9.12).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use store::{Kind, Resolved, SharePath};
use tokio::time::Instant;
use wire::command::create::{CreateAction, CreateOptions, OplockLevel};
use wire::context::create::Lease;
use wire::ids::TreeId;
use wire::security::access::FILE_ALL;

use super::record::{LockedRange, Record};
use super::records::Records;
use super::{Durability, Durables, Keeping, Making};
use crate::Shared;
use crate::admin::{Estate, Share};
use crate::authorization::GrantedAccess;
use crate::budgets::Opened;
use crate::caching::{Actor, Granted, LeaseId, Wanted};
use crate::channel_sequence::ChannelSequence;
use crate::command::create::usage;
use crate::context::Context;
use crate::enumeration::Listing;
use crate::files::{Entering, Entry, Link};
use crate::line::Line;
use crate::lock_sequences::LockSequences;
use crate::locks::{LockKind, RangeLock};
use crate::notify::Untold;
use crate::open::{FileOpen, Open, OpenId, StreamOf, Target};
use crate::open_path::{self, OpenPath};
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
                if file.durability.closed.load(Ordering::Acquire) { Ok(()) } else { records.write(&record(open, file)) }
            }
            (None, _) | (_, Target::Pipe(_)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Has the disk forget a persistent open.
    pub(super) fn remove_record(&self, open: OpenId) {
        if let Some(records) = self.records.get() {
            records.remove(open.0);
        }
    }
}

pub(super) fn record(open: &Open, file: &FileOpen) -> Record {
    let making = file.durability.making();
    let stream = file.stream_name();
    let path = file.path.now().as_str().to_owned();
    let locks = file.file.locks_of(&stream, open.id, super::record::LOCKS_MAX).into_iter();
    let locks = locks.map(|lock| LockedRange {
        offset: lock.offset,
        length: lock.length,
        exclusive: lock.kind == LockKind::Exclusive,
    });
    let (oplock, lease) = match file.file.granted_to(open.id) {
        Granted::Nothing => (OplockLevel::NONE.0, Vec::new()),
        Granted::Oplock(level) => (level.0, Vec::new()),
        Granted::Lease(lease) => (OplockLevel::LEASE.0, lease.to_bytes()),
    };
    Record {
        open: open.id.0,
        client: file.durability.client,
        create: making.create.unwrap_or_default(),
        timeout_milliseconds: u32::try_from(file.durability.keeping().timeout().as_millis()).unwrap_or(u32::MAX),
        owner: Some(*open.user.sid()),
        share: open.tree.share.to_string(),
        path,
        stream,
        file: file.node.identity().file,
        granted: open.granted.bits(),
        asked: making.asked,
        options: file.options,
        mode: file.mode.load(Ordering::Relaxed),
        action: making.action.0,
        delete_on_close: file.delete_on_close.load(Ordering::Relaxed),
        delete_pending: file.file.is_delete_pending(open.id, &file.stream_name()),
        oplock,
        lease,
        locks: locks.collect(),
    }
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

/// The same of all opens of the file, whose name has changed through one of them.
pub(crate) async fn note_rename(context: &Context, open: &Arc<Open>) {
    let Ok(file) = open.file() else { return };
    for recorded in file.file.recorded() {
        note_change(context, &recorded).await;
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
    for lock in &record.locks {
        let kind = if lock.exclusive { LockKind::Exclusive } else { LockKind::Shared };
        let wanted = RangeLock { open: id, offset: lock.offset, length: lock.length, kind };
        if file.file.lock(&record.stream, wanted, &budgets.bytes).is_err() {
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

/// Finds the file again and enters the open into its table.
fn open_file(server: &Arc<Shared>, share: &Share, record: &Record, line: &Arc<Line>) -> Result<FileOpen, Unrestored> {
    let missing = |why: &str| Unrestored::Missing(why.to_owned());
    let usage = usage(record.granted);
    let path = SharePath::parse(&record.path).map_err(|error| lost(error.to_string()))?;
    let resolved = share.store.resolve(&path, usage)?;
    let Resolved::Found { node: base, path } = resolved else { return Err(missing("its file is gone")) };
    let (node, stream) = match record.stream.as_str() {
        "" => (base, None),
        name => {
            let (stored, node) = base.stream(name)?.ok_or_else(|| missing("its stream is gone"))?;
            (node, Some(StreamOf { base, name: Mutex::new(stored) }))
        }
    };
    if node.identity().file != record.file || node.kind() == Kind::Directory {
        return Err(missing("another file has its name"));
    }
    node.prepare(usage)?;
    let is_linked = node.metadata().is_ok_and(|known| known.kind != Kind::Directory && known.links > 1);
    let link = if is_linked { Link::at(&*share.store, &path).ok() } else { None };
    let names = OpenPath::new(path);
    let wanted = wanted(record).map_err(lost)?;
    let entry = Entry {
        open: OpenId(record.open),
        stream: &record.stream,
        link,
        access: record.granted,
        share: record.asked.1,
        names: &names,
        store: &share.store,
        line,
        is_directory: false,
        overwrites: false,
        deletes: false,
        wanted: &wanted,
    };
    // Nobody is connected yet who could be told that an oplock or lease breaks.
    let (file, entering, _) = server.files.enter(node.identity(), &entry);
    match entering {
        Entering::Entered(_) => {}
        Entering::Waits(_) => return Err(lost("another persistent open is in its way")),
        Entering::Refused(status) => return Err(lost(status.to_string())),
    }
    if record.delete_pending {
        file.set_delete_pending(OpenId(record.open), &record.stream, true);
    }
    let making = Making {
        create: Some(record.create),
        asked: record.asked,
        action: CreateAction(record.action),
        ..Making::default()
    };
    let durability = Durability::new(record.client, making, &server.durables);
    durability.keep(Keeping::Persistent(Duration::from_millis(record.timeout_milliseconds.into())));
    Ok(FileOpen {
        kind: node.kind(),
        node,
        file,
        path: names,
        stream,
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
        lock_sequences: LockSequences::default(),
        held: None,
        durability,
    })
}

/// What the open cached.
fn wanted(record: &Record) -> Result<Wanted, String> {
    match OplockLevel(record.oplock) {
        OplockLevel::NONE => Ok(Wanted::Nothing),
        OplockLevel::LEASE => {
            let lease = Lease::decode(&record.lease).map_err(|malformed| malformed.to_string())?;
            Ok(Wanted::Lease(LeaseId { client: record.client, key: lease.lease_key }, lease))
        }
        level => Ok(Wanted::Oplock(level)),
    }
}
