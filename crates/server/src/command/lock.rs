//! LOCK (MS-SMB2 3.3.5.14): takes or releases byte-range locks.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use store::{Kind, effort};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest, LockResponse};
use wire::ids::Dialect;
use wire::security::access::{EXECUTE, READ_DATA, WRITE_DATA};
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::command::recorded;
use crate::resource::budget::Budget;
use crate::state::breaks;
use crate::state::durable::Keeping;
use crate::state::lock_sequences::{Beginning, LockSequence};
use crate::state::lock_wait::UnderWay;
use crate::state::lock_wait::{LockWait, WaitEnd};
use crate::state::locks::{LockKind, LockRefusal, RangeLock};
use crate::state::open::{FileOpen, Open};
use crate::state::refusal::Refusal;

/// Steps after which a request waits for another turn on its shard: to take or release a lock is one, and to look at somebody who waits for one
/// that is released.
const STEPS_IN_A_ROW: usize = 64;
/// What somebody costs who comes behind changes, or behind the same request: its place among those who wait.
const FOLLOWER_BYTES: u64 = 256;

pub(crate) async fn handle(context: &Context, request: LockRequest<'_>) -> Outcome {
    let (open, file) = context.file()?;
    let first = request.locks.iter().next().ok_or(Status::INVALID_PARAMETER)?;
    if file.kind == Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if !open.rights().has_any(READ_DATA | WRITE_DATA | EXECUTE) {
        return Err(Status::ACCESS_DENIED.into());
    }
    let budget = &context.session()?.budgets.lasting;
    let stream = Stream { file, open, name: file.stream_name(), budget };
    let sequence = LockSequence { index: request.lock_sequence_index, number: request.lock_sequence_number };
    let under_way = match remembers(context, file) {
        true => match begin(context, &stream, sequence).await? {
            Some(under_way) => Some(under_way),
            None => return Ok(done()),
        },
        false => None,
    };
    if first.flags.contains(LockFlags::UNLOCK) {
        stream.unlock_all(context, request.locks, under_way).await?;
    } else {
        context.in_flight.note_done_here(breaks::range_locked(context.server(), file));
        let taken = stream.lock_all(context, request.locks).await?;
        let locked = stream.come_behind_changes(context, taken).await?;
        recorded::note_locks(context, open, locked, under_way).await?;
    }
    Ok(done())
}

fn done() -> Reply {
    let mut body = Vec::new();
    LockResponse.encode(&mut body);
    Reply::new(body)
}

/// Lets the request go, unless it was done before. One that is sent again while the first is under way, be it that this waits for a range or for the
/// open's record, comes behind it: it is done with that, or goes where that was not.
async fn begin(context: &Context, stream: &Stream<'_>, sequence: LockSequence) -> Result<Option<UnderWay>, Refusal> {
    loop {
        let from_before = stream.open.channel_sequence().is_behind(context.channel_sequence);
        let end = match stream.file.lock_sequences.begin(sequence, from_before)? {
            Beginning::Goes => return Ok(Some(UnderWay::new(stream.open, sequence))),
            Beginning::WasDone => return Ok(None),
            Beginning::IsUnderWay(end) => end,
        };
        let _charge = stream.budget.charge(FOLLOWER_BYTES).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        // In the middle of a chain only CREATE has an interim answer: else the client has to be patient.
        let _ = context.in_flight.announce_wait();
        let _ = context.in_flight.unless_cancelled(end).await?;
        context.check_stays()?;
    }
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
    async fn unlock_all(
        &self,
        context: &Context,
        elements: LockElements<'_>,
        under_way: Option<UnderWay>,
    ) -> Result<(), Refusal> {
        if self.file.durability.keeping().is_persistent() {
            let unlocks = |element: &LockElement| element.flags == LockFlags::UNLOCK;
            let ranges = elements.iter().take_while(unlocks).map(|element| (element.offset, element.length)).collect();
            let is_whole = elements.iter().all(|element| unlocks(&element));
            // One that is not whole counts as not done.
            let (counts, _rest) = if is_whole { (under_way, None) } else { (None, under_way) };
            recorded::release(context, self.open, ranges, counts).await?.map_err(status_of)?;
            return if is_whole { Ok(()) } else { Err(Status::INVALID_PARAMETER.into()) };
        }
        let mut pace = Pace::default();
        for element in elements.iter() {
            // Of the combinations in 2.2.26.1 only this one unlocks; servers may, but need not, pass over FAIL_IMMEDIATELY.
            if element.flags != LockFlags::UNLOCK {
                return Err(Status::INVALID_PARAMETER.into());
            }
            let unlock = || self.file.file.unlock(&self.name, self.open.id, element.offset, element.length);
            pace.step(context, unlock).await.map_err(status_of)?;
        }
        under_way.into_iter().for_each(|under_way| self.file.lock_sequences.done(under_way.sequence));
        Ok(())
    }

    /// Processing locks (3.3.5.14.2): all of them or none.
    async fn lock_all<'a>(&'a self, context: &Context, elements: LockElements<'_>) -> Result<Taken<'a>, Refusal> {
        let wanted = self.judge(elements)?;
        let mut taken = Taken { stream: self, locks: Vec::with_capacity(wanted.len()) };
        if let &[(wanted, OnConflict::Waits)] = wanted.as_slice() {
            self.lock_or_wait(context, wanted).await?;
            taken.locks.push(wanted);
            return Ok(taken);
        }
        let mut pace = Pace::default();
        for (lock, _) in wanted {
            if let Err(refusal) = pace.step(context, || self.file.file.lock(&self.name, lock, self.budget)).await {
                taken.give_back(context).await;
                return Err(status_of(refusal).into());
            }
            taken.locks.push(lock);
        }
        Ok(taken)
    }

    /// Waits for what others changed of the ranges and is not made yet: it was admitted before they were locked. What lies between the ranges counts as
    /// well, so that a request comes behind once, however many they are. Where nobody waits any more the locks are given back. Gives them.
    async fn come_behind_changes(&self, context: &Context, mut taken: Taken<'_>) -> Result<Vec<RangeLock>, Refusal> {
        let may_come_back = self.file.durability.keeping() != Keeping::Not;
        if may_come_back && let Err(refusal) = context.check_stays() {
            // A session that was lost meanwhile takes nothing: its client may have the open back.
            taken.give_back(context).await;
            return Err(refusal);
        }
        let first = taken.locks.iter().map(|lock| lock.offset).min().unwrap_or_default();
        let end = taken.locks.iter().map(|lock| lock.offset.saturating_add(lock.length)).max().unwrap_or_default();
        let Some(follower) = self.file.file.come_behind(self.open.id, first..end) else {
            return Ok(std::mem::take(&mut taken.locks));
        };
        let waited = match self.budget.charge(FOLLOWER_BYTES) {
            None => Err(Status::INSUFFICIENT_RESOURCES),
            Some(_charge) => context.in_flight.unless_cancelled(follower.until_made()).await,
        };
        if let Err(status) = waited {
            taken.give_back(context).await;
            return Err(status.into());
        }
        Ok(std::mem::take(&mut taken.locks))
    }

    /// The locks that are asked for. Only a single one may be waited for.
    fn judge(&self, elements: LockElements<'_>) -> Result<Vec<(RangeLock, OnConflict)>, Status> {
        let wanted: Vec<_> = elements.iter().map(|element| self.wanted(&element)).collect::<Result<_, _>>()?;
        let waits = wanted.iter().any(|(_, patience)| *patience == OnConflict::Waits);
        if wanted.len() > 1 && waits { Err(Status::INVALID_PARAMETER) } else { Ok(wanted) }
    }

    fn wanted(&self, element: &LockElement) -> Result<(RangeLock, OnConflict), Status> {
        let patience = match element.flags.contains(LockFlags::FAIL_IMMEDIATELY) {
            true => OnConflict::FailsAtOnce,
            false => OnConflict::Waits,
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

impl Taken<'_> {
    /// The newest first, since of several that are the same the newest goes.
    async fn give_back(mut self, context: &Context) {
        let mut pace = Pace::default();
        while let Some(lock) = self.locks.pop() {
            pace.step(context, || self.stream.file.file.take_back(&self.stream.name, &lock)).await;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.locks.iter().rev().for_each(|lock| self.stream.file.file.take_back(&self.stream.name, lock));
    }
}

/// How far a request has come since its turn began.
#[derive(Default)]
struct Pace {
    steps: usize,
}

impl Pace {
    /// Takes or releases one lock, in a turn of its own where others should have theirs first.
    async fn step<T>(&mut self, context: &Context, work: impl FnOnce() -> T) -> T {
        if self.steps >= STEPS_IN_A_ROW {
            context.connection.turn.another().await;
            self.steps = 0;
        }
        let (done, looks) = effort::of(work);
        self.steps += 1 + looks;
        done
    }
}

/// What an element wants done when its range is locked by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnConflict {
    FailsAtOnce,
    Waits,
}

/// Waits until the lock is granted, the open closed, or the request cancelled.
async fn until_granted(context: &Context, mut wait: LockWait) -> Result<(), Refusal> {
    context.in_flight.announce_wait()?;
    match context.in_flight.unless_cancelled(wait.end()).await? {
        WaitEnd::Granted => Ok(()),
        WaitEnd::Closed => Err(Status::RANGE_NOT_LOCKED.into()),
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
