//! Empties a file or stream that a CREATE overwrites or supersedes (MS-FSA 2.1.5.1.2).
//!
//! The store does all of it or nothing: who is told that nothing was done has its file as it was.

use std::ops::ControlFlow;
use std::sync::Arc;

use store::{AttributeChange, Error, Failed, Kind, Left, Metadata, Node, Renewal, SharePath, Time, Waits};
use wire::command::create::{CreateAction, CreateDisposition};
use wire::fscc::FileAttributes;

use super::entering::Entered;
use super::existing::Found;
use super::plan::Plan;
use crate::command::context::Context;
use crate::state::breaks;
use crate::state::files::Emptying;
use crate::state::refusal::Refusal;

/// An overwrite that was not done, or not to its end.
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    pub(super) left: Left,
}

impl Refused {
    /// Before anything was done.
    fn untouched(refusal: impl Into<Refusal>) -> Self {
        Refused { refusal: refusal.into(), left: Left::AsItWas }
    }
}

/// Where nothing says otherwise, something has changed.
impl<T: Into<Refusal>> From<T> for Refused {
    fn from(refusal: T) -> Self {
        Refused { refusal: refusal.into(), left: Left::Changed }
    }
}

/// Empties what is there and gives it the attributes asked for. The named streams of a file go with its data, as on Windows.
pub(super) async fn overwrite(
    context: &Context,
    plan: &Arc<Plan>,
    found: &Found,
    known: &Metadata,
    entered: &Entered<'_>,
    path: &SharePath,
) -> Result<CreateAction, Refused> {
    let (node, whole_file, plan_of_work) = (Arc::clone(&found.node), found.stream.is_none(), Arc::clone(plan));
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let (path, stream) = (path.clone(), found.stream.as_ref().map(|(_, name)| name.clone()));
    context.in_flight.keep_others_waiting();
    // It begins before it is known whether its session is there yet: who is let in before that meets nothing of a lost one.
    let change = entered.file.begin_emptying(entered.id);
    let emptying =
        whole_file.then(|| Emptying::begin(&server.files, &entered.file)).transpose().map_err(Refused::untouched)?;
    // What is there is freed. Of a stream it is not known how much that is, nor of what is kept beside a file where that is much.
    let few_extras = whole_file && !has_many_extras(&*node).map_err(Refused::untouched)?;
    let freed = if few_extras { known.allocated.max(known.length) } else { u64::MAX };
    let (asker, through) = (context.asker()?, context.writes_through());
    context
        .work_at(&*found.node, freed.saturating_add(plan.decoration_bytes()), move || {
            let (_change, _emptying) = (change, emptying);
            asker.check_stays().map_err(Refused::untouched)?;
            let emptied =
                if whole_file { renew(&*node, &plan_of_work) } else { node.set_length(0).map_err(Failed::from) };
            // What is not done to its end may have emptied the file all the same.
            if !matches!(&emptied, Err(Failed { left: Left::AsItWas, .. })) {
                server.watches.overwritten(&*store, &path, stream.as_deref());
                breaks::entry_changed(&server, &*store, &path, plan_of_work.parent_lease);
            }
            emptied.map_err(|failed| Refused { refusal: failed.error.into(), left: failed.left })?;
            if through {
                node.sync()?;
            }
            super::remember(&*node);
            Ok::<_, Refused>(())
        })
        .await??;
    Ok(match plan.disposition {
        CreateDisposition::SUPERSEDE => CreateAction::SUPERSEDED,
        _ => CreateAction::OVERWRITTEN,
    })
}

/// True where there are more streams or extended attributes, in memory, than a shard removes itself.
fn has_many_extras(node: &dyn Node) -> Result<bool, Error> {
    const INLINE_MAX: usize = 64;
    if node.waits() != Waits::Never {
        return Ok(false);
    }
    let mut streams = 0;
    let listed = node.extras().list_streams(&mut |_| {
        streams += 1;
        if streams > INLINE_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // What cannot be listed goes all the same.
    Ok(listed.is_err() || streams > INLINE_MAX || node.extras().extended()?.len() > INLINE_MAX)
}

/// Makes a file as good as new: it is empty, its attributes are those asked for and none of the others that a client may set, and what was kept
/// beside it has gone.
fn renew(node: &dyn Node, plan: &Plan) -> Result<(), Failed> {
    let reserved = plan.allocation.unwrap_or(0);
    node.renew(&Renewal { extended: &plan.extended(), attributes: asked_attributes(plan), reserved })
}

/// What becomes of a file's attributes.
fn asked_attributes(plan: &Plan) -> AttributeChange {
    let all = crate::state::attributes::SETTABLE | FileAttributes::SPARSE_FILE.0;
    let asked = plan.attributes | FileAttributes::ARCHIVE.0;
    AttributeChange { clear: all, set: asked & all }
}

/// What a file or stream is after it was emptied, by what was `known` of the file before: for the response, where nobody can look any more.
pub(super) fn emptied(plan: &Plan, known: &Metadata, whole_file: bool) -> Metadata {
    let now = Time::now();
    let emptied = Metadata { length: 0, allocated: 0, write: now, change: now, ..*known };
    if whole_file {
        let (attributes, allocated) = (asked_attributes(plan).apply(known.attributes), plan.allocation.unwrap_or(0));
        Metadata { attributes, allocated, ..emptied }
    } else {
        Metadata { kind: Kind::Stream, ..emptied }
    }
}
