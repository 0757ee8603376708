//! What is shared by all opens of one file, whoever made them: share modes, oplocks and leases, delete-on-close and byte-range locks
//! (MS-FSA 2.1.1.4 and following). Decided and changed in one place, in one step, under a short lock that is never held across
//! a call to the store.

mod armed;
#[cfg(test)]
mod at_once_tests;
mod awaited;
mod below;
mod claims;
#[cfg(test)]
mod crowd_tests;
mod emptying;
#[cfg(test)]
mod emptying_tests;
mod entry;
#[cfg(test)]
mod link_tests;
mod links;
mod name_change;
#[cfg(test)]
mod name_change_tests;
mod new_name;
#[cfg(test)]
mod new_name_tests;
#[cfg(test)]
mod older_tests;
mod pending;
mod renames;
#[cfg(test)]
mod renames_tests;
mod replacing;
mod restored;
mod share_modes;
mod state;
#[cfg(test)]
mod stream_caching_tests;
mod stream_rename;
#[cfg(test)]
mod stream_rename_tests;
#[cfg(test)]
mod tests;
mod under_way;
#[cfg(test)]
mod under_way_tests;
mod wait;
mod waiters;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use store::{Identity, Store, fold};
use wire::status::Status;

use crate::resource::by_id::ById;
use crate::state::caching::{Granted, LeaseId, Notices, Wanted};
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;
use crate::state::pending_open::Places;
use crate::state::session_link::SessionLink;

use self::state::FileState;

pub(crate) use self::emptying::{Empties, Emptying};
pub(crate) use self::entry::FileEntry;
pub(crate) use self::links::Link;
pub(crate) use self::name_change::NameChange;
pub(crate) use self::new_name::NewName;
use self::new_name::NewNames;
use self::renames::Renames;
pub(crate) use self::renames::{RenamesSeen, Renaming};
pub(crate) use self::replacing::Replacing;
pub(crate) use self::stream_rename::StreamRename;
pub(crate) use self::under_way::{Change, ChangeAtOnce, Follower, Then};
pub(crate) use self::wait::BreakWait;
pub(crate) use self::waiters::Look;

/// The table is split so that shards seldom meet.
const PARTS: usize = 64;

/// All files that are open.
pub(crate) struct FileTable {
    parts: Vec<Mutex<ById<Identity, Arc<FileEntry>>>>,
    /// Which file each lease is of (GlobalLeaseTableList, MS-SMB2 3.3.1.11). Locked after a file's state, never before it.
    leases: Vec<Mutex<HashMap<LeaseId, Arc<FileEntry>>>>,
    /// Leases on directories were granted.
    directory_leases: AtomicBool,
    /// How often names of streams came to mean others; of each file it is told with those in its part.
    stream_changes: Vec<AtomicU64>,
    /// Opens that had to wait and are not in yet.
    pending_opens: Places,
    /// Names that are being made, whose makers are not in yet.
    pub(crate) new_names: NewNames,
    /// Files and directories that are getting other names.
    pub(crate) renames: Renames,
}

/// What an open asks for when it enters the table.
pub(crate) struct Entry<'a> {
    pub(crate) open: OpenId,
    /// The stream's name, empty for the file itself.
    pub(crate) stream: &'a str,
    /// The name that it is opened by, where the file has several, or had while others opened it.
    pub(crate) link: Option<Link>,
    pub(crate) access: u32,
    pub(crate) share: u32,
    /// Where the open's path stands; rename changes it for all opens of a name.
    pub(crate) names: &'a Arc<OpenPath>,
    /// The store of its share.
    pub(crate) store: &'a Arc<dyn Store>,
    /// Whose it is.
    pub(crate) line: &'a Arc<SessionLink>,
    pub(crate) is_directory: bool,
    /// Whether it empties the stream, and how.
    pub(crate) empties: Empties,
    /// FILE_DELETE_ON_CLOSE.
    pub(crate) deletes: bool,
    /// What it asks to cache.
    pub(crate) wanted: &'a Wanted,
    /// How many opens the file may have, this one among them.
    pub(crate) opens_max: usize,
}

/// What becomes of an open that wants to enter the table.
pub(crate) enum Entering {
    /// It is in, with what it may cache.
    Entered(Granted),
    /// Others have to give up caching first: to be tried again after that.
    Waits(BreakWait),
    /// Others know the names that they have the file open by: to be tried again with one.
    Unnamed,
    /// Another open is in the way.
    Refused(Status),
}

/// What is to be removed because the last open of it has gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Nothing.
    Nothing,
    /// This name of the file or directory, by which the open was made; `None` where it has no other.
    File(Option<Link>),
    /// One of its streams.
    Stream(String),
}

impl FileTable {
    /// No files yet.
    pub(crate) fn new() -> Self {
        FileTable {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            leases: (0..PARTS).map(|_| Mutex::default()).collect(),
            directory_leases: AtomicBool::new(false),
            stream_changes: (0..PARTS).map(|_| AtomicU64::default()).collect(),
            pending_opens: Places::new(),
            new_names: NewNames::default(),
            renames: Renames::default(),
        }
    }

    /// Enters an open: refused with `SHARING_VIOLATION` or `DELETE_PENDING` where another open is in the way, with
    /// `INVALID_PARAMETER` where its lease is of another file. The notices must be sent whatever comes of it.
    pub(crate) fn enter(&self, identity: Identity, entry: &Entry<'_>) -> (Arc<FileEntry>, Entering, Notices) {
        loop {
            let file = self.find_or_insert(identity);
            let mut state = file.state.lock();
            if state.retired {
                continue;
            }
            // What others looked at is none of its.
            state.take_looks();
            let mut notices = Notices::default();
            let entering = match self.admits_lease(&file, &state, entry) {
                Err(status) => Entering::Refused(status),
                Ok(()) => {
                    let others_stand = self.pending_opens.others_stand(identity, entry.wanted.lease());
                    state.enter(entry, &file, others_stand, &mut notices.told)
                }
            };
            let entering = match entering {
                Entering::Waits(wait) => {
                    let pending_open = self.pending_opens.stand(identity, entry.wanted.lease());
                    Entering::Waits(wait.pending_open(pending_open))
                }
                entering => entering,
            };
            if let Entering::Entered(..) = &entering {
                self.note_entered(&file, entry);
            }
            file.note_caches(&state);
            notices.looks = state.take_looks();
            self.retire_if_unused(&file, state);
            return (file, entering, notices);
        }
    }

    pub(super) fn note_entered(&self, file: &Arc<FileEntry>, entry: &Entry<'_>) {
        if let Some(lease) = entry.wanted.lease() {
            self.leases_of(lease).lock().insert(lease, Arc::clone(file));
            if entry.is_directory {
                self.directory_leases.store(true, Ordering::Release);
            }
        }
    }

    /// A lease is of one file, or of one stream of it (MS-SMB2 3.3.5.9.8).
    fn admits_lease(&self, file: &Arc<FileEntry>, state: &FileState, entry: &Entry<'_>) -> Result<(), Status> {
        let Some(lease) = entry.wanted.lease() else { return Ok(()) };
        let taken = self.leases_of(lease).lock().get(&lease).is_some_and(|known| !Arc::ptr_eq(known, file));
        let taken = taken || state.caches.has_lease_elsewhere(lease, &fold(entry.stream));
        if taken { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
    }

    /// True where a lease on a directory was ever granted: nobody has to look for any before.
    pub(crate) fn has_directory_leases(&self) -> bool {
        self.directory_leases.load(Ordering::Acquire)
    }

    /// The file that a lease is of.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Option<Arc<FileEntry>> {
        self.leases_of(lease).lock().get(&lease).cloned()
    }

    fn leases_of(&self, lease: LeaseId) -> &Mutex<HashMap<LeaseId, Arc<FileEntry>>> {
        &self.leases[usize::from(lease.key.0[0] ^ lease.key.0[15]) % PARTS]
    }

    /// What is shared by the opens of a file, where it has any.
    pub(crate) fn find(&self, identity: Identity) -> Option<Arc<FileEntry>> {
        self.part(identity).lock().get(&identity).cloned()
    }

    fn find_or_insert(&self, identity: Identity) -> Arc<FileEntry> {
        let mut part = self.part(identity).lock();
        Arc::clone(part.entry(identity).or_insert_with(|| Arc::new(FileEntry::new(identity))))
    }

    /// Takes an open out. `delete` says whether its close asks for deletion (FILE_DELETE_ON_CLOSE). While a removal is given, the
    /// file stays delete-pending until [`FileTable::removed`].
    pub(crate) fn leave(&self, file: &Arc<FileEntry>, open: OpenId, delete: bool) -> Removal {
        let mut state = file.state.lock();
        let lease = state.caches.held_by(open).lease;
        let removal = state.leave(open, delete);
        if let Some(lease) = lease.filter(|lease| !state.caches.has_lease(*lease)) {
            self.leases_of(lease).lock().remove(&lease);
        }
        file.note_locks(&state);
        file.note_caches(&state);
        if removal == Removal::Nothing {
            state.drop_marks(file.identity);
            self.retire_if_unused(file, state);
        }
        removal
    }

    /// Says that the removal that [`FileTable::leave`] gave was tried. Gives what is to be removed next.
    pub(crate) fn removed(&self, file: &Arc<FileEntry>, removal: &Removal) -> Removal {
        let mut state = file.state.lock();
        if let Removal::Stream(_) = removal {
            self.streams_changed(file.identity);
        }
        let next = state.removed(removal);
        state.drop_marks(file.identity);
        self.retire_if_unused(file, state);
        next
    }

    fn part(&self, identity: Identity) -> &Mutex<ById<Identity, Arc<FileEntry>>> {
        &self.parts[FileTable::part_of(identity)]
    }

    fn part_of(identity: Identity) -> usize {
        (identity.file ^ identity.volume) as usize % PARTS
    }

    /// True where nothing is open and no lease is known.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.lock().is_empty()) && self.leases.iter().all(|part| part.lock().is_empty())
    }

    /// How many opens are in the table.
    #[cfg(test)]
    pub(crate) fn claims(&self) -> usize {
        let count = |part: &Mutex<ById<Identity, Arc<FileEntry>>>| {
            part.lock().values().map(|file| file.state.lock().claims.len()).sum::<usize>()
        };
        self.parts.iter().map(count).sum()
    }

    fn retire_if_unused(&self, file: &Arc<FileEntry>, mut state: MutexGuard<'_, FileState>) {
        if state.is_unused() {
            state.retired = true;
            drop(state);
            let mut part = self.part(file.identity).lock();
            if part.get(&file.identity).is_some_and(|entry| Arc::ptr_eq(entry, file)) {
                part.remove(&file.identity);
            }
        }
    }
}

/// The time, which tests may set.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
