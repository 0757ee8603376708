//! What opens cache again that survived the server (MS-SMB2 3.3.5.9.12 with note 353): never more than is safe, whatever was recorded
//! of them, and never so that one of them is in another one's way.
//!
//! - Write caching is recorded exactly: who makes somebody give it up gets in when the record says so. Its holder was alone with
//!   the file, so that what it has read is still true, and the lease comes back as it was.
//! - Read caching goes without anybody waiting, and its holder may not have heard of that. It comes back with an epoch that has its
//!   client forget what it has read (3.2.5.7.5), and not at all where there is no epoch.

use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};

use super::caches::Caches;
use super::grant::Grant;
use super::{ALL, Actor, Holder, LeaseId, NONE, Operation, READ, READ_WRITE, Surroundings, WRITE, Wanted};

/// How far a lease's epoch goes on while the server is away: further than it has gone since it was recorded, so that its client takes
/// it for a newer one.
const EPOCHS_AHEAD: u16 = 256;
/// The difference of two epochs that has every client forget what it has read: Windows does from 1 on, Linux from 2.
pub(super) const EPOCHS_TO_FORGET: u16 = 2;

impl Caches {
    /// Gives an open that survived the server as much of what it had as is safe beside the others that are here.
    pub(crate) fn restore(&mut self, stream: &str, holder: Holder, recorded: &Wanted, around: Surroundings) {
        match recorded {
            Wanted::Nothing => {}
            Wanted::Oplock(level) => self.restore_oplock(stream, holder, *level, around),
            Wanted::Lease(id, lease) => self.restore_lease(stream, holder, *id, lease, around),
        }
    }

    fn restore_oplock(&mut self, stream: &str, holder: Holder, level: OplockLevel, around: Surroundings) {
        let held = match level {
            OplockLevel::BATCH => ALL,
            OplockLevel::EXCLUSIVE => READ_WRITE,
            // Nothing tells the client that it has to read again.
            _ => return,
        };
        if !around.other_opens {
            self.grants.add(Grant { is_restored: true, ..Grant::of_oplock(stream, level, held, holder) });
        }
    }

    fn restore_lease(&mut self, stream: &str, holder: Holder, id: LeaseId, recorded: &Lease, around: Surroundings) {
        let slot = self.grants.of_lease(id);
        // Opens of one lease may have been recorded before and after it grew.
        let held = slot.and_then(|slot| self.grants.get(slot)).map_or(NONE, |grant| grant.held);
        let whole = held | recorded.lease_state;
        let is_safe = |state: &LeaseState| {
            (state.intersects(WRITE) || recorded.v2.is_some()) && self.may_lease(stream, *state, id, around)
        };
        let safe = [whole, whole.without(WRITE), whole & READ].into_iter().find(is_safe).unwrap_or(NONE);
        let Some(slot) = slot else {
            let new = Grant::of_lease(stream, id, recorded, holder);
            self.grants.add(Grant { is_restored: true, held: safe, ..new });
            return;
        };
        self.grants.join(slot, holder);
        self.grants.change(slot, |grant| {
            // A client that is back already knows what it has.
            if grant.is_restored {
                grant.held = held | safe;
                grant.reach_epoch(recorded.v2.map_or(0, |v2| v2.epoch));
            }
        });
    }

    /// Takes what `operation` is in conflict with from opens that survived the server and whose clients are not back: they learn it when
    /// they come.
    pub(crate) fn take_from_restored(&mut self, stream: &str, actor: Actor, operation: Operation) {
        for slot in self.grants.exposing(Some(stream), operation.takes()) {
            self.grants.change(slot, |grant| {
                if grant.is_restored && !grant.belongs_to(actor) {
                    grant.lose(operation);
                }
            });
        }
    }
}

impl Grant {
    /// A lease goes on with what its client believes to have. True where its epoch went on.
    pub(super) fn resume(&mut self, believes: Option<&Lease>) -> bool {
        let (believed, known) = believes.map_or((NONE, None), |lease| (lease.lease_state, lease.v2.map(|v2| v2.epoch)));
        self.held = self.held & believed;
        if !self.held.contains(READ) {
            // Nothing else can be had without it.
            self.held = NONE;
        }
        let is_writer = self.held.intersects(WRITE);
        if !is_writer {
            self.advance_epoch_by(EPOCHS_AHEAD);
        }
        if let Some(known) = known {
            self.reach_epoch(if is_writer { known } else { known.wrapping_add(EPOCHS_TO_FORGET) });
        }
        !is_writer
    }
}
