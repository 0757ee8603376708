//! One open made anew from its record (MS-SMB2 3.3.5.9.12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use store::{Kind, Node, Resolved, SharePath, Use};
use tokio::time::Instant;
use wire::Malformed;
use wire::command::create::{CreateAction, CreateOptions, OplockLevel};
use wire::context::create::{Lease, LeaseState};
use wire::ids::TreeId;
use wire::security::access::FILE_ALL;

use crate::resource::budgets::Opened;
use crate::state::access::usage;
use crate::state::afp::AfpStream;
use crate::state::audit::OpenTotals;
use crate::state::authorization::GrantedAccess;
use crate::state::breaks;
use crate::state::caching::{Actor, LeaseId, Wanted};
use crate::state::channel_sequence::ChannelSequence;
use crate::state::configuration::{Configuration, Share, Standing};
use crate::state::durable::{Durability, Keeping, Making, Record, RecordedName};
use crate::state::enumeration::Listing;
use crate::state::files::{Empties, Entering, Entry, Link};
use crate::state::frozen_times::HeldTimes;
use crate::state::lock_sequences::LockSequences;
use crate::state::locks::{LockKind, RangeLock};
use crate::state::open::{FileOpen, Open, StreamOf, Target};
use crate::state::open_id::OpenId;
use crate::state::open_path::{self, OpenPath};
use crate::state::session_link::SessionLink;
use crate::state::shared::Shared;
use crate::state::tree::{ShareFiles, Tree};
use crate::state::untold::Untold;
use crate::state::user::{User, UserId};

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
    let mut users =
        configuration.principals.iter().map(|principal| (User::new(principal, machine), principal.standing));
    let owner = users.find(|(user, _)| Some(*user.sid()) == record.owner);
    let (user, standing) = owner.ok_or_else(|| lost("its user is gone"))?;
    if standing != Standing::Good {
        return Err(lost("its user may not sign in any more"));
    }
    let right = user.right_on(share).ok_or_else(|| lost("its user may no longer use the share"))?;
    let id = OpenId(record.open);
    let line = SessionLink::down();
    let tree = Arc::new(Tree::on(TreeId(0), (share, ShareFiles::of(share)), (&user, right), FILE_ALL, true));
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
            tracing::warn!(name: "persistent_lock_lost", open = record.open, offset = lock.offset, "a byte-range lock of a persistent open is lost");
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
    let (stored, node) = base.extras().stream(&name.stream)?.ok_or_else(|| match record.is_of(&*base) {
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
    let wanted = wanted(record, user).map_err(|malformed| lost(malformed.to_string()))?;
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
        // It was let in before.
        opens_max: usize::MAX,
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
        stream: base.map(|base| StreamOf { base, afp: AfpStream::named(&stream_name) }),
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
        audited: OpenTotals::default(),
        untold: Untold::default(),
        channel_sequence: ChannelSequence::default(),
        lock_sequences: LockSequences::recorded(&record.sequences),
        held: None,
        durability,
    })
}

/// What the open cached. A record of a version that did not follow it may say that it cached writes when it did no longer.
fn wanted(record: &Record, user: UserId) -> Result<Wanted, Malformed> {
    let is_exact = record.written > 0;
    match OplockLevel(record.oplock) {
        OplockLevel::LEASE => {
            let lease = Lease::decode(&record.lease)?;
            let lease_state =
                if is_exact { lease.lease_state } else { lease.lease_state.without(LeaseState::WRITE_CACHING) };
            let id = LeaseId { client: record.client, user, key: lease.lease_key };
            Ok(Wanted::Lease(id, Lease { lease_state, ..lease }))
        }
        level if is_exact && level != OplockLevel::NONE => Ok(Wanted::Oplock(level)),
        _ => Ok(Wanted::Nothing),
    }
}
