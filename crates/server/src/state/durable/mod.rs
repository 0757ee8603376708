//! Opens that outlive their connection: durable (MS-SMB2 3.3.5.9.6, 3.3.5.9.10), resilient (3.3.5.15.9) and persistent ones. What an open
//! knows of it stands in its [`Durability`]; who finds opens by more than their id asks the [`Durables`].

#[cfg(test)]
mod begun_tests;
#[cfg(test)]
mod closing_tests;
#[cfg(test)]
mod deletion_tests;
mod disconnected;
mod expected;
#[cfg(test)]
mod identity_tests;
mod made;
#[cfg(test)]
mod own_folder_tests;
mod persistent;
#[cfg(test)]
mod persistent_tests;
#[cfg(test)]
mod race_tests;
mod record;
mod records;
#[cfg(test)]
mod renamed_tests;
#[cfg(test)]
mod restored_caching_tests;
mod restoring;
#[cfg(test)]
mod restoring_tests;
#[cfg(test)]
mod returning_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unrecorded_tests;

use std::hash::RandomState;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::command::create::CreateAction;
use wire::context::create::AppInstanceVersion;
use wire::ids::Guid;

use crate::state::configuration::Configuration;
use crate::state::open::Open;
use crate::state::open_id::OpenId;

pub(crate) use self::disconnected::{Farewell, Parting};
pub(crate) use self::made::{Claimed, Reservation};
pub(crate) use self::persistent::{give_back, meaning};
#[cfg(feature = "in-memory")]
pub(crate) use self::record::rewritten;
pub(crate) use self::record::{Record, RecordedName};
pub(crate) use self::restoring::ToRestore;

use self::disconnected::DisconnectedOpens;
use self::expected::Expected;
use self::made::Makings;
use self::records::Records;

/// How long an open that asked for durability without a timeout is kept (Windows before 8; note 335).
pub(crate) const TIMEOUT_V1: Duration = Duration::from_secs(16 * 60);
/// The same where DH2Q leaves it to the server (note 344).
pub(crate) const TIMEOUT_V2: Duration = Duration::from_secs(60);
/// The most that DH2Q gets (3.3.5.9.10).
pub(crate) const TIMEOUT_V2_MAX: Duration = Duration::from_secs(300);
/// What a resilient open gets that asks for none (note 401).
pub(crate) const TIMEOUT_RESILIENT: Duration = Duration::from_secs(120);
/// MaxResiliencyTimeout (note 226).
pub(crate) const TIMEOUT_RESILIENT_MAX: Duration = Duration::from_secs(300);

/// Whether an open is kept when its client is lost, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// It closes.
    #[default]
    Not,
    /// Open.IsDurable: it is kept as long as it may cache handles.
    Durable(Duration),
    /// Open.IsResilient: it is kept whatever it caches.
    Resilient(Duration),
    /// Open.IsPersistent: nobody else gets at its file while it is kept, and it survives the server.
    Persistent(Duration),
}

impl Keeping {
    /// How long it is kept.
    pub(crate) fn timeout(self) -> Duration {
        match self {
            Keeping::Not => Duration::ZERO,
            Keeping::Durable(timeout) | Keeping::Resilient(timeout) | Keeping::Persistent(timeout) => timeout,
        }
    }

    /// Open.IsPersistent.
    pub(crate) fn is_persistent(self) -> bool {
        matches!(self, Keeping::Persistent(_))
    }
}

/// What an open on a file has for outliving its connection, whatever session has it.
#[derive(Default)]
pub(crate) struct Durability {
    /// Open.ClientGuid.
    pub(crate) client: Guid,
    keeping: Mutex<Keeping>,
    /// Open.IsReplayEligible.
    replayable: AtomicBool,
    closed: AtomicBool,
    /// Held while the open's record is written or removed: one of those at a time, and no file's state is locked before it.
    recording: Mutex<()>,
    /// For an open with a create guid or an application instance.
    makings: Option<Box<Makings>>,
}

/// What DH2Q and the application instance's contexts said of the CREATE that made an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Making {
    /// Open.CreateGuid.
    pub(crate) create: Option<Guid>,
    /// Open.AppInstanceId and its version.
    pub(crate) instance: Option<Guid>,
    pub(crate) version: Option<AppInstanceVersion>,
    /// DesiredAccess, ShareAccess and CreateOptions as they stood in the request.
    pub(crate) asked: (u32, u32, u32),
    /// What the CREATE did.
    pub(crate) action: CreateAction,
}

impl Durability {
    /// That of a new open of `client`.
    pub(crate) fn new(client: Guid, making: Making, table: &Arc<Durables>) -> Self {
        let named = making.create.is_some() || making.instance.is_some();
        let makings = named.then(|| {
            let table = Arc::clone(table);
            Box::new(Makings { making, table, of_instance: OnceLock::new(), names: Mutex::default() })
        });
        Durability { client, makings, ..Durability::default() }
    }

    /// How the CREATE named the open.
    pub(crate) fn making(&self) -> Making {
        self.makings.as_ref().map_or(Making::default(), |makings| makings.making)
    }

    /// Names that the open's file may have by now, or had when the server ended.
    fn names(&self) -> Vec<RecordedName> {
        self.makings.as_ref().map_or(Vec::new(), |makings| makings.names.lock().clone())
    }

    /// True where `is_meant` is so of one of these.
    pub(crate) fn may_be_named(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.names().iter().any(|name| match name.stream.as_str() {
            "" => is_meant(&name.path),
            stream => is_meant(&format!("{}:{stream}", name.path)),
        })
    }

    /// The file may have this name soon, or has it already.
    pub(crate) fn add_name(&self, name: RecordedName) {
        if let Some(makings) = &self.makings {
            let mut names = makings.names.lock();
            if names.len() >= record::NAMES_MAX {
                names.remove(0);
            }
            names.push(name);
        }
    }

    /// The same name is no longer in question.
    pub(crate) fn remove_name(&self, name: &RecordedName) {
        if let Some(makings) = &self.makings {
            let mut names = makings.names.lock();
            if let Some(position) = names.iter().position(|known| known == name) {
                names.remove(position);
            }
        }
    }

    /// Whether the open is kept when its client is lost.
    pub(crate) fn keeping(&self) -> Keeping {
        *self.keeping.lock()
    }

    /// Sets that.
    pub(crate) fn keep(&self, keeping: Keeping) {
        *self.keeping.lock() = keeping;
    }

    /// Open.IsReplayEligible.
    pub(crate) fn is_replayable(&self) -> bool {
        self.replayable.load(Ordering::Relaxed)
    }

    /// Its CREATE may be replayed from now on.
    pub(crate) fn allow_replay(&self) {
        self.replayable.store(true, Ordering::Relaxed);
    }

    /// The open was used: its client has the answer to its CREATE (first lines of 3.3.5.11 and the like).
    pub(crate) fn used(&self) {
        if self.is_replayable() {
            self.replayable.store(false, Ordering::Relaxed);
        }
    }

    /// The open has closed: nothing that is under way remembers it, or changes its record, from now on.
    pub(crate) fn closed(&self, open: OpenId) {
        self.closed.store(true, Ordering::Release);
        if let Some(makings) = &self.makings {
            makings.forget(self.client, open);
        }
    }

    /// Has the disk forget an open that has closed; for good where its file or stream goes. May wait for it.
    pub(crate) fn forget_record(&self, open: OpenId, file_goes: bool) {
        if let Some(makings) = &self.makings
            && self.keeping().is_persistent()
        {
            let _alone = self.recording.lock();
            makings.table.remove_record(open, file_goes);
        }
    }

    /// Forgets what [`Durability::closed`] came too early for.
    fn forget_if_closed(&self, open: OpenId) {
        if let (true, Some(makings)) = (self.closed.load(Ordering::Acquire), &self.makings) {
            makings.forget(self.client, open);
        }
    }
}

/// The opens that are found by more than their id, and those that wait for their client: the parts of GlobalOpenTable (3.3.1.1)
/// that no session has.
#[derive(Default)]
pub(crate) struct Durables {
    waiting: Mutex<DisconnectedOpens>,
    /// Those that are recorded and not made anew yet.
    expected: Mutex<Expected>,
    /// Persistent opens among both.
    waiting_persistent: AtomicUsize,
    /// Something waits that did not.
    changed: Notify,
    made: Mutex<made::Made>,
    /// Makes digests of names, under a key that nobody knows.
    digests: RandomState,
    /// Where persistent opens are recorded.
    records: OnceLock<Records>,
    /// The number of the last record that was written, or begun.
    written: AtomicU64,
    pub(crate) restoring: restoring::Restoring,
}

impl Durables {
    /// What is recorded of a server before this one; `None` where nothing is kept. What is written from now on is later than all of it.
    pub(crate) fn read_records(&self) -> io::Result<Option<Vec<Record>>> {
        let Some(records) = self.records.get() else { return Ok(None) };
        let read = records.read_all()?;
        let last = read.iter().map(|record| record.written).max();
        self.written.fetch_max(last.unwrap_or_default(), Ordering::Relaxed);
        Ok(Some(read))
    }

    /// Something waits that did not, or is to be tried again: [`Durables::changed`] ends.
    pub(crate) fn has_changed(&self) {
        self.changed.notify_one();
    }

    /// Ends when something waits that did not.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes an open away for closing that waits for a user who is none any more, or may not sign in.
    pub(crate) fn take_of_nobody(&self, id: OpenId, configuration: &Configuration) -> Option<Arc<Open>> {
        let open = self.find(id)?;
        let is_somebodys = configuration.principals.iter().any(|principal| open.user.is_still(principal));
        if is_somebodys { None } else { self.take(id) }
    }

    /// Closes what waits on shares that are gone, and for users that are: gives the opens for that.
    pub(crate) fn follow(&self, configuration: &Configuration) -> Vec<Arc<Open>> {
        self.take_where(|open| {
            let Some(principal) = configuration.principals.iter().find(|principal| open.user.is_still(principal))
            else {
                return true;
            };
            let share = configuration.shares.iter().find(|share| *share.name == *open.tree.share);
            let changed = open.user.as_now(principal, configuration.settings.machine_sid);
            let user = changed.map_or_else(|| Arc::clone(&open.user), Arc::new);
            !open.tree.follow(share, &user)
        })
    }
}
