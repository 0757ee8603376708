//! What clients may cache of a file's streams: oplocks and leases, as they are granted, broken and acknowledged (MS-FSA 2.1.4.12,
//! 2.1.5.18, 2.1.5.19; MS-SMB2 3.3.1.12). States and rules alone: who owns a [`Caches`] guards it, sends the notices that its methods
//! give, and lets operations wait.
//!
//! An oplock is a lease that belongs to one open: level II caches reads, exclusive reads and writes, batch handles too.
//!
//! Here are the words that the rest of the server has for it; `grant.rs` is what breaks what, `caches.rs` who has what, `grants.rs`
//! how it is found, `restored.rs` what of it survives the server, and `returned.rs` what clients are told of it who come back.

mod caches;
#[cfg(test)]
mod crowd_tests;
mod grant;
mod grants;
mod holders;
#[cfg(test)]
mod misuse_tests;
mod restored;
mod returned;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};
use wire::ids::Guid;

use crate::resource::turns::REQUEST_COST;
use crate::state::open_id::OpenId;
use crate::state::session_link::SessionLink;
use crate::state::user::UserId;

pub(crate) use self::caches::Caches;
pub(crate) use self::grant::Operation;

/// How long a client may take to acknowledge a break (MS-SMB2 3.3.2.1, 3.3.2.5): what Windows gives it (notes 246 and 247).
pub(crate) const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(35);

/// What a look at an open, oplock or lease costs, in bytes.
pub(crate) const LOOK_COST: usize = 64;

const NONE: LeaseState = LeaseState::NONE;
const READ: LeaseState = LeaseState::READ_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const READ_WRITE: LeaseState = READ.union(WRITE);
const READ_HANDLE: LeaseState = READ.union(HANDLE);
const ALL: LeaseState = READ_WRITE.union(HANDLE);

/// Names a lease: keys are the client's own choice. MS-SMB2 (3.3.5.9.8, 3.3.5.9.11) looks it up by ClientGuid and key alone, which others may
/// know: who names those of another user has a lease of its own, and what it does is told to that one as to anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseId {
    pub(crate) client: Guid,
    pub(crate) user: UserId,
    pub(crate) key: Guid,
}

/// Who does something to a file: opens of one lease do not break each other's caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) open: OpenId,
    pub(crate) lease: Option<LeaseId>,
}

/// What an open asks to cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    #[default]
    Nothing,
    /// One of the three levels.
    Oplock(OplockLevel),
    Lease(LeaseId, Lease),
}

impl Wanted {
    /// What is left of it where the file is a directory (MS-SMB2 3.3.5.9.11): a lease of version 2 that caches no writes.
    pub(crate) fn of_directory(self) -> Wanted {
        match self {
            Wanted::Lease(id, lease) if lease.v2.is_some() => {
                Wanted::Lease(id, Lease { lease_state: lease.lease_state.without(WRITE), ..lease })
            }
            Wanted::Nothing | Wanted::Oplock(_) | Wanted::Lease(..) => Wanted::Nothing,
        }
    }

    /// The lease, where one is asked for.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        match self {
            Wanted::Nothing | Wanted::Oplock(_) => None,
            Wanted::Lease(id, _) => Some(*id),
        }
    }
}

/// What an open was given, as its response says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Granted {
    #[default]
    Nothing,
    Oplock(OplockLevel),
    Lease(Lease),
}

/// What else there is of the stream that an open asks to cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Opens that do not belong to the same lease.
    pub(crate) other_opens: bool,
    pub(crate) has_locks: bool,
}

/// What an open's oplock or lease holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) state: LeaseState,
    pub(crate) is_batch: bool,
    pub(crate) lease: Option<LeaseId>,
    /// It is to be given up, at least in part.
    pub(crate) is_breaking: bool,
}

impl Held {
    /// True where an open may be durable, and is kept when its client is lost (MS-SMB2 3.3.7.1).
    pub(crate) fn keeps(&self) -> bool {
        !self.is_breaking && self.caches_handles()
    }

    /// True where it may keep handles, be it only until a break is acknowledged.
    pub(crate) fn caches_handles(&self) -> bool {
        match self.lease {
            Some(_) => self.state.contains(HANDLE),
            None => self.is_batch,
        }
    }
}

/// What an operation has its caller tell clients.
#[derive(Default)]
pub(crate) struct Notices {
    pub(crate) told: Vec<Notice>,
    /// How many opens, oplocks and leases were looked at for it.
    pub(crate) looks: usize,
}

impl Notices {
    /// How much work it was, and will be: as long as so many bytes take.
    pub(crate) fn cost(&self) -> u64 {
        (self.looks * LOOK_COST + self.told.len() * REQUEST_COST) as u64
    }
}

/// A message to a client, to be sent when the file is no longer locked.
#[derive(Clone)]
pub(crate) struct Notice {
    pub(crate) kind: NoticeKind,
    /// Whose oplock breaks. A lease is of many, who are looked up as they are needed.
    pub(crate) holder: Option<Holder>,
}

/// What a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    Oplock { open: OpenId, left: OplockLevel, must_acknowledge: bool },
    Lease { id: LeaseId, epoch: u16, held: LeaseState, left: LeaseState, must_acknowledge: bool },
}

impl NoticeKind {
    /// True where the client has a say.
    pub(crate) fn must_acknowledge(&self) -> bool {
        match self {
            NoticeKind::Oplock { must_acknowledge, .. } | NoticeKind::Lease { must_acknowledge, .. } => {
                *must_acknowledge
            }
        }
    }
}

/// Who caches what others need, and has not given it up yet.
pub(crate) struct Unacknowledged {
    /// One of the opens.
    pub(crate) holder: Holder,
    pub(crate) kind: CacheKind,
    /// When it is taken from them.
    pub(crate) until: Instant,
}

/// By what a client may cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// An oplock of one open.
    Oplock,
    /// A lease.
    Lease,
}

/// An open that has caching.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) open: OpenId,
    pub(crate) line: Arc<SessionLink>,
}
