//! LOCK (MS-SMB2 3.3.5.14): takes or releases byte-range locks.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use store::Kind;
use tokio::sync::oneshot;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest, LockResponse};
use wire::ids::Dialect;
use wire::security::access::{EXECUTE, READ_DATA, WRITE_DATA};
use wire::status::Status;

use crate::breaks;
use crate::budget::Budget;
use crate::context::{Context, Outcome, Reply};
use crate::durable::{self, Keeping};
use crate::lock_sequences::LockSequence;
use crate::lock_wait::{LockWait, WaitEnd};
use crate::locks::{LockKind, LockRefusal, RangeLock};
use crate::open::{FileOpen, Open};
use crate::refusal::Refusal;

/// Elements after which a request lets others of its shard run: each unlock may have to look at all who wait.
const ELEMENTS_IN_A_ROW: usize = 16;

pub(crate) async fn handle(context: &Context, request: LockRequest<'_>) -> Outcome {
    let (open, file) = context.file()?;
    let first = request.locks.iter().next().ok_or(Status::INVALID_PARAMETER)?;
    if file.kind == Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if !open.granted.has_any(READ_DATA | WRITE_DATA | EXECUTE) {
        return Err(Status::ACCESS_DENIED.into());
    }
    let budget = &context.session()?.budgets.lasting;
    let stream = Stream { file, open, name: file.stream_name(), budget };
    let sequence = LockSequence { index: request.lock_sequence_index, number: request.lock_sequence_number };
    let remembers = remembers(context, file);
    if remembers && file.lock_sequences.was_done(sequence) {
        // The record of it may be on its way to the disk.
        durable::note_change(context, open).await;
        return Ok(done());
    }
    if first.flags.contains(LockFlags::UNLOCK) {
        stream.unlock_all(request.locks).await?;
    } else {
        context.in_flight.note_done_here(breaks::range_locked(context.server(), file));
        stream.lock_all(context, request.locks).await?;
        stream.come_behind_changes(context, request.locks).await?;
    }
    if remembers {
        file.lock_sequences.done(sequence);
    }
    durable::note_change(context, open).await;
    Ok(done())
}

fn done() -> Reply {
    let mut body = Vec::new();
    LockResponse.encode(&mut body);
    Reply::new(body)
}

/// True where the client may send requests again: the open outlives its connection, or the session may have several.
fn remembers(context: &Context, file: &FileOpen) -> bool {
    let negotiation = context.connection.negotiation.borrow();
    let is_kept = file.durability.keeping() != Keeping::Not;
    negotiation.has_multichannel() || is_kept && negotiation.dialect() != Some(Dialect::SMB_2_0_2)
}

/// What is locked, and for whom.
struct Stream<'a> {
    file: &'a FileOpen,
    open: &'a Arc<Open>,
    name: String,
    /// What the locks are charged to.
    budget: &'a Arc<Budget>,
}

impl Stream<'_> {
    /// Processing unlocks (3.3.5.14.1). What is unlocked before an element that fails stays so.
    async fn unlock_all(&self, elements: LockElements<'_>) -> Result<(), Refusal> {
        for (position, element) in elements.iter().enumerate() {
            // Of the combinations in 2.2.26.1 only this one unlocks; servers may, but need not, pass over FAIL_IMMEDIATELY.
            if element.flags != LockFlags::UNLOCK {
                return Err(Status::INVALID_PARAMETER.into());
            }
            let unlocked = self.file.file.unlock(&self.name, self.open.id, element.offset, element.length);
            unlocked.map_err(status_of)?;
            take_turns(position).await;
        }
        Ok(())
    }

    /// Processing locks (3.3.5.14.2): all of them or none.
    async fn lock_all(&self, context: &Context, elements: LockElements<'_>) -> Result<(), Refusal> {
        let wanted = self.judge(elements)?;
        if let &[(wanted, Patience::Waits)] = wanted.as_slice() {
            return self.lock_or_wait(context, wanted).await;
        }
        for (position, (lock, _)) in wanted.iter().enumerate() {
            if let Err(refusal) = self.file.file.lock(&self.name, *lock, self.budget) {
                for (taken, _) in wanted[..position].iter().rev() {
                    self.file.file.take_back(&self.name, taken);
                }
                return Err(status_of(refusal).into());
            }
            take_turns(position).await;
        }
        Ok(())
    }

    /// Waits for what others changed of the ranges and is not made yet: it was admitted before they were locked. Where nobody waits any more
    /// the locks are given back.
    async fn come_behind_changes(&self, context: &Context, elements: LockElements<'_>) -> Result<(), Refusal> {
        let mut taken =
            Taken { stream: self, locks: self.judge(elements)?.into_iter().map(|(lock, _)| lock).collect() };
        for lock in &taken.locks {
            let range = lock.offset..lock.offset.saturating_add(lock.length);
            let (made, is_made) = oneshot::channel::<()>();
            if self.file.file.after_changes_by_others(self.open.id, &range, Box::new(move || drop(made))) {
                tokio::select! {
                    biased;
                    _ = is_made => {}
                    () = context.in_flight.cancelled() => return Err(Status::CANCELLED.into()),
                }
            }
        }
        taken.locks.clear();
        Ok(())
    }

    /// The locks that are asked for. Only a single one may be waited for.
    fn judge(&self, elements: LockElements<'_>) -> Result<Vec<(RangeLock, Patience)>, Status> {
        let wanted: Vec<_> = elements.iter().map(|element| self.wanted(&element)).collect::<Result<_, _>>()?;
        let waits = wanted.iter().any(|(_, patience)| *patience == Patience::Waits);
        if wanted.len() > 1 && waits { Err(Status::INVALID_PARAMETER) } else { Ok(wanted) }
    }

    fn wanted(&self, element: &LockElement) -> Result<(RangeLock, Patience), Status> {
        let patience = match element.flags.contains(LockFlags::FAIL_IMMEDIATELY) {
            true => Patience::FailsAtOnce,
            false => Patience::Waits,
        };
        let kind = match LockFlags(element.flags.0 & !LockFlags::FAIL_IMMEDIATELY.0) {
            LockFlags::SHARED_LOCK => LockKind::Shared,
            LockFlags::EXCLUSIVE_LOCK => LockKind::Exclusive,
            _ => return Err(Status::INVALID_PARAMETER),
        };
        Ok((RangeLock { open: self.open.id, offset: element.offset, length: element.length, kind }, patience))
    }

    async fn lock_or_wait(&self, context: &Context, wanted: RangeLock) -> Result<(), Refusal> {
        match self.file.file.lock_or_wait(&self.name, wanted, self.budget).map_err(status_of)? {
            None => Ok(()),
            Some(place) => until_granted(context, LockWait::new(self.open, wanted, place)).await,
        }
    }
}

/// Locks that were taken, and are given back unless they are answered.
struct Taken<'a> {
    stream: &'a Stream<'a>,
    locks: Vec<RangeLock>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.locks.iter().rev().for_each(|lock| self.stream.file.file.take_back(&self.stream.name, lock));
    }
}

/// What an element wants done when its range is locked by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    FailsAtOnce,
    Waits,
}

/// Waits until the lock is granted, the open closed, or the request cancelled.
async fn until_granted(context: &Context, mut wait: LockWait) -> Result<(), Refusal> {
    context.in_flight.announce_wait()?;
    let end = tokio::select! {
        biased;
        end = wait.end() => end,
        () = context.in_flight.cancelled() => return Err(Status::CANCELLED.into()),
    };
    match end {
        WaitEnd::Granted => Ok(()),
        WaitEnd::Closed => Err(Status::RANGE_NOT_LOCKED.into()),
    }
}

async fn take_turns(position: usize) {
    if (position + 1).is_multiple_of(ELEMENTS_IN_A_ROW) {
        tokio::task::yield_now().await;
    }
}

fn status_of(refusal: LockRefusal) -> Status {
    match refusal {
        LockRefusal::Conflict => Status::LOCK_NOT_GRANTED,
        LockRefusal::InvalidRange => Status::INVALID_LOCK_RANGE,
        LockRefusal::TooMany => Status::INSUFFICIENT_RESOURCES,
        LockRefusal::NotLocked => Status::RANGE_NOT_LOCKED,
        LockRefusal::Closed => Status::FILE_CLOSED,
    }
}
