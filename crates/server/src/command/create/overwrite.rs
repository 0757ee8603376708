//! Empties a file or stream that a CREATE overwrites or supersedes (MS-FSA 2.1.5.1.2).
//!
//! What may lack room comes first, and is undone where it fails. What destroys comes last: who is told that nothing was done has its
//! file as it was.

use std::ops::ControlFlow;
use std::sync::Arc;

use store::{AttributeChange, Changes, Error, Kind, Metadata, Node, SharePath, Waits};
use wire::command::create::{CreateAction, CreateDisposition};
use wire::fscc::FileAttributes;

use super::existing::Found;
use super::plan::Plan;
use crate::breaks;
use crate::context::Context;
use crate::extended::{self, Failed, Left, Named, Undo};
use crate::files::{Emptying, FileEntry};
use crate::refusal::Refusal;

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
    (file, path): (&Arc<FileEntry>, &SharePath),
) -> Result<CreateAction, Refused> {
    let (node, whole_file, plan_of_work) = (Arc::clone(&found.node), found.stream.is_none(), Arc::clone(plan));
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let (path, stream) = (path.clone(), found.stream.as_ref().map(|(_, name)| name.clone()));
    context.in_flight.keep_others_waiting();
    let emptying = whole_file.then(|| Emptying::begin(&server, file)).transpose().map_err(Refused::untouched)?;
    // What is there is freed. Of a stream it is not known how much that is, nor of what is kept beside a file where that is much.
    let freed = if whole_file && !has_many_extras(&*node)? { known.allocated.max(known.length) } else { u64::MAX };
    let (asker, through) = (context.asker()?, context.writes_through());
    context
        .work_at(&*found.node, freed.saturating_add(plan.decoration_bytes()), move || {
            let _emptying = emptying;
            asker.check_stays().map_err(Refused::untouched)?;
            let emptied =
                if whole_file { renew(&*node, &plan_of_work) } else { node.set_length(0).map_err(Failed::from) };
            // What is not done to its end may have emptied the file all the same.
            if !matches!(&emptied, Err(Failed { left: Left::AsItWas, .. })) {
                server.files.watches.overwritten(&*store, &path, stream.as_deref());
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
    let listed = node.list_streams(&mut |_| {
        streams += 1;
        if streams > INLINE_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // What cannot be listed goes all the same.
    Ok(listed.is_err() || streams > INLINE_MAX || node.extended()?.len() > INLINE_MAX)
}

/// Makes a file as good as new: it is empty, its attributes are those asked for, and what was kept beside it has gone.
fn renew(node: &dyn Node, plan: &Plan) -> Result<(), Failed> {
    let prepared = Prepared::of(node, plan)?;
    if let Err(error) = node.set_length(0) {
        prepared.undo(node);
        return Err(error.into());
    }
    if plan.extended.is_empty() {
        for (name, _) in node.extended()? {
            node.set_extended(&name, &[])?;
        }
    }
    node.remove_streams()?;
    if plan.extended.is_empty() {
        // With nothing else kept beside the file there is room for them.
        change_attributes(node, new_attributes(plan))?;
    }
    if let Some(bytes) = reserved(node, plan)
        && let Err(error) = node.reserve(bytes)
    {
        // It was there a moment ago: who took it meanwhile leaves this file empty, as was asked for, and without it.
        tracing::debug!(%error, "the space that a file had reserved was not there any more once it was empty");
    }
    Ok(())
}

/// What is given to a file before it is emptied, since it may not fit.
struct Prepared {
    extended: Option<(Undo, u32)>,
}

impl Prepared {
    /// Reserves space on top of the data, and replaces the extended attributes. Where nothing of that is asked for, nothing is done.
    fn of(node: &dyn Node, plan: &Plan) -> Result<Self, Failed> {
        let extended = if plan.extended.is_empty() { None } else { Some(replace_extended(node, plan)?) };
        let prepared = Prepared { extended };
        // What is reserved cannot be given back while others may write there: so it comes last.
        if let Some(bytes) = reserved(node, plan)
            && let Err(error) = node.reserve(bytes)
        {
            return Err(Failed { error, left: prepared.undo(node) });
        }
        Ok(prepared)
    }

    fn undo(&self, node: &dyn Node) -> Left {
        let Some((undo, attributes)) = &self.extended else { return Left::AsItWas };
        let put_back = change_attributes(node, *attributes).map_or(Left::Changed, |()| Left::AsItWas);
        put_back.max(undo.put_back(node))
    }
}

/// Gives a file the extended attributes that are asked for, and no others, and then the other attributes, which are kept beside them.
/// Gives what undoes that.
fn replace_extended(node: &dyn Node, plan: &Plan) -> Result<(Undo, u32), Failed> {
    let attributes = node.metadata().map_err(Failed::untouched)?.attributes;
    let before = node.extended().map_err(Failed::untouched)?;
    let gone = before.iter().map(|(name, _)| (name.clone(), Vec::new()));
    let asked: Vec<Named> = gone.chain(plan.extended.iter().cloned()).collect();
    let undo = extended::set_all(node, before, &asked)?;
    match change_attributes(node, new_attributes(plan)) {
        Ok(()) => Ok((undo, attributes)),
        Err(error) => Err(Failed { error, left: undo.put_back(node) }),
    }
}

/// The space to reserve, where there is any.
fn reserved(node: &dyn Node, plan: &Plan) -> Option<u64> {
    plan.allocation.filter(|bytes| node.kind() == Kind::File && *bytes > 0)
}

/// The attributes of a file that is overwritten.
fn new_attributes(plan: &Plan) -> u32 {
    plan.attributes | FileAttributes::ARCHIVE.0
}

/// Has the file these attributes and none of the others that a client may set.
fn change_attributes(node: &dyn Node, set: u32) -> Result<(), Error> {
    let all = crate::attributes::SETTABLE | FileAttributes::SPARSE_FILE.0;
    let attributes = AttributeChange { clear: all, set: set & all };
    node.change(&Changes { attributes, ..Changes::default() })
}
