//! A request breaks what others cache of a file, and waits as long as it has to (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::sync::Arc;

use tokio::task::yield_now;

use crate::command::context::Context;
use crate::command::recorded::note_caching;
use crate::resource::turns::LONG_REQUEST_COST;
use crate::state::breaks;
use crate::state::caching::{Actor, Notices, Operation};
use crate::state::files::{BreakWait, FileEntry};
use crate::state::pending_open::PendingOpen;
use crate::state::refusal::Refusal;

/// So many files are asked for in one piece, before others of the shard have their turn.
const BEGUN_AT_ONCE: usize = 64;

impl BreakWait {
    /// The same for a request, which may be cancelled meanwhile. An open's place is its own until it is in.
    pub(crate) async fn end_for(mut self, context: &Context) -> Result<Option<PendingOpen>, Refusal> {
        if !self.records.is_empty() {
            let noted = context.in_flight.unless_cancelled(note_caching(context, &self.records)).await?;
            return noted.map(|()| self.pending_open.take());
        }
        // In the middle of a chain only CREATE has an interim answer: else the client has to be patient.
        let _ = context.in_flight.announce_wait();
        // It is tried once more after that.
        context.in_flight.note_done_here(LONG_REQUEST_COST as u64);
        context.in_flight.unless_cancelled(self.end()).await?;
        self.silent.drain(..).for_each(|holder| breaks::tell_unanswered(context.server(), &holder));
        context.check_stays()?;
        Ok(self.pending_open.take())
    }
}

/// Breaks what `operation` is in conflict with and waits as long as it has to.
pub(crate) async fn make_way(
    context: &Context,
    file: &Arc<FileEntry>,
    stream: &str,
    actor: Actor,
    operation: Operation,
) -> Result<(), Refusal> {
    loop {
        let (wait, notices) = file.contend(stream, actor, operation);
        send_for(context, file, notices);
        match wait {
            Some(wait) => drop(wait.end_for(context).await?),
            None => return Ok(()),
        }
    }
}

/// Begins to break what `operation` is in conflict with in all of `files`: who has to wait for many of them waits for all at once.
pub(crate) async fn begin_to_make_way(context: &Context, files: &[Arc<FileEntry>], actor: Actor, operation: Operation) {
    for (number, file) in files.iter().enumerate() {
        if number % BEGUN_AT_ONCE == BEGUN_AT_ONCE - 1 {
            yield_now().await;
        }
        let (_, notices) = file.contend("", actor, operation);
        send_for(context, file, notices);
    }
}

/// What a rename, deletion or new security descriptor of a file has to wait for.
pub(crate) async fn before_change_of_name(context: &Context) -> Result<(), Refusal> {
    let (_, file) = context.file()?;
    make_way(context, &file.file, &file.stream_name(), file.actor, Operation::ChangeOfName).await
}

/// Sends notices of one file that a request makes, which takes the longer for it.
pub(crate) fn send_for(context: &Context, file: &Arc<FileEntry>, notices: Notices) {
    context.in_flight.note_done_here(notices.cost());
    breaks::send(context.server(), file, notices);
}
