//! CREATE of a name that does not exist (MS-FSA 2.1.5.1.1).

use std::sync::Arc;

use store::{Error, Kind, Metadata, Name, NewNode, Node, SharePath, Waits};
use wire::command::create::{CreateAction, CreateOptions};
use wire::fscc::FileAttributes;
use wire::security::access::{APPEND_DATA, WRITE_DATA};
use wire::status::Status;

use super::existing::{Asked, authorized, link, maximal, read_ahead};
use super::plan::Plan;
use super::{Entered, Entrant, Opened, Step, check_trailing_separator};
use crate::authorization::{GrantedAccess, Request, Way, authorize};
use crate::breaks;
use crate::context::Context;
use crate::descriptors;
use crate::files::{Empties, NewName};
use crate::refusal::Refusal;
use crate::steps::INLINE_BYTES_MAX;
use crate::write_through::keep_name;

/// Makes what was missing.
pub(super) async fn make(
    context: &Context,
    plan: &Arc<Plan>,
    parent: Arc<dyn Node>,
    path: SharePath,
) -> Result<Step, Refusal> {
    if plan.needs_existing() {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let directory = plan.makes_directory();
    let kind = if directory { Kind::Directory } else { Kind::File };
    let user = context.session()?.user.load_full();
    check_trailing_separator(plan, kind)?;
    context.require_writable()?;
    let above = path.parent().unwrap_or_default();
    let of_parent = read_ahead(context, &parent, &above).await?;
    let of_parent = || of_parent.clone().map_or_else(|| context.descriptor(&*parent, &above), Ok);
    let granted = authorize(&Request {
        user: &user,
        share_max: context.tree()?.access_max(),
        desired: plan.desired,
        deletes_on_close: plan.options.contains(CreateOptions::DELETE_ON_CLOSE),
        way: Way::New { directory: &of_parent, kind },
    })?;
    if let Some(asked) = &plan.security {
        descriptors::check_asked(&user, asked)?;
    }
    let read_only = plan.attributes & FileAttributes::READONLY.0 != 0;
    if read_only && plan.options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(Status::CANNOT_DELETE.into());
    }
    let Some(name) = path.name() else { return Err(Status::OBJECT_NAME_INVALID.into()) };
    let (name, store) = (Name::new(name)?, Arc::clone(context.store()?));
    let (work_path, work_plan, maker) = (path.clone(), Arc::clone(plan), Arc::clone(&user));
    let share = Arc::clone(&context.tree()?.share);
    let server = Arc::clone(context.server());
    let directory_identity = parent.identity();
    let asker = context.asker()?;
    let (held, through) = (Arc::clone(&parent), context.writes_through());
    // Until it is open: who finds it before that waits.
    let _new_name = NewName::begin(context.server(), directory_identity, name.as_str());
    let make = move |create: Create| {
        asker.check_stays()?;
        let passed_on = server.descriptors.read(&*held, &share, &above)?;
        let security = descriptors::of_new(&maker, passed_on, work_plan.security.as_ref(), kind)?;
        let archive = if directory { 0 } else { FileAttributes::ARCHIVE.0 };
        let attributes = work_plan.attributes | archive;
        let new = NewNode { kind, attributes, security: security.as_deref() };
        // In the directory that was judged, whatever its path means by now.
        let node = create(&*held, &name, new)?;
        server.durables.made_file(node.identity());
        let decorated = decorate(&*node, &work_plan);
        let kept = decorated.and_then(|()| if through { keep_name(&*held, &*node) } else { Ok(()) });
        if let Err(error) = kept {
            let _ = held.remove(&name, node.identity());
            return Err(Refusal::from(error));
        }
        server.files.watches.made(&*store, &work_path, kind);
        Ok(node)
    };
    let made = match try_here(context, plan, &*parent, &make)? {
        Some(made) => made,
        None => {
            context
                .on_pool_of(parent.identity().volume, move || make(|parent, name, new| parent.create(name, new)))
                .await?
        }
    };
    let node = match made {
        Err(refusal) if refusal.status == Status::OBJECT_NAME_COLLISION => return Ok(Step::Raced),
        made => made?,
    };
    breaks::entry_of_changed(context.server(), directory_identity, plan.parent_lease);
    if plan.stream.is_some() {
        return make_stream(context, plan, node, path, Some(granted)).await;
    }
    let known = context.look(&node, |node| node.metadata()).await??;
    let maximal = maximal(context, plan, &node, &path, &known).await?;
    let access = granted.bits();
    let entrant = Entrant {
        node: &*node,
        stream: "",
        access,
        share: plan.share_access,
        empties: Empties::Nothing,
        path: &path,
        link: None,
        wanted: plan.wanted,
    };
    let entered = match Entered::enter(context, plan, entrant).await {
        Err(refusal) if refusal.status == Status::DELETE_PENDING => return Ok(Step::Raced),
        entered => entered?,
    };
    Ok(Step::Opened(Opened {
        kept: entered.keep(),
        node,
        stream: None,
        granted,
        maximal,
        action: CreateAction::CREATED,
    }))
}

/// How a directory makes a name.
type Create = fn(&dyn Node, &Name, NewNode<'_>) -> Result<Arc<dyn Node>, Error>;
/// What comes of making it.
type Made = Result<Arc<dyn Node>, Refusal>;

/// Makes a name on the shard, where that never waits. `None` where it would: also in memory a directory may have to be read through.
fn try_here(
    context: &Context,
    plan: &Plan,
    parent: &dyn Node,
    make: impl FnOnce(Create) -> Made,
) -> Result<Option<Made>, Refusal> {
    let bytes = plan.decoration_bytes();
    if parent.waits() != Waits::Never || bytes > INLINE_BYTES_MAX {
        return Ok(None);
    }
    // What is made may have to be removed again, which goes by its name.
    let may_fail = bytes > 0 || !plan.extended.is_empty() || context.writes_through();
    if may_fail && !context.store()?.facts().never_blocks {
        return Ok(None);
    }
    context.in_flight.note_done_here(bytes);
    match make(|parent, name, new| parent.try_create(name, new)) {
        Err(refusal) if refusal.status == Status::RETRY => Ok(None),
        made => Ok(Some(made)),
    }
}

/// Makes the named stream of a file: of one that this CREATE made and was `granted` something of, or of one that there was. That
/// grants what its descriptor grants, and has to grant WRITE_DATA (MS-FSA 2.1.5.1.2, "Stream not found").
pub(super) async fn make_stream(
    context: &Context,
    plan: &Arc<Plan>,
    base: Arc<dyn Node>,
    path: SharePath,
    granted: Option<GrantedAccess>,
) -> Result<Step, Refusal> {
    let name = plan.stream.as_deref().unwrap_or_default();
    if plan.needs_existing() {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let known = context.look(&base, |base| base.metadata()).await??;
    let granted = match granted {
        Some(granted) => granted,
        None => {
            check_attributes(plan, &known)?;
            authorized(context, Asked { implied: WRITE_DATA, ..Asked::by(plan) }, &base, &path, &known).await?
        }
    };
    context.require_writable()?;
    let maximal = maximal(context, plan, &base, &path, &known).await?;
    let access = granted.bits();
    let link = link(context, &known, &path).await?;
    let entrant = Entrant {
        node: &*base,
        stream: name,
        access,
        share: plan.share_access,
        empties: Empties::Nothing,
        path: &path,
        link: link.as_ref(),
        wanted: plan.wanted,
    };
    let entered = Entered::enter(context, plan, entrant).await?;
    let (maker, stream) = (Arc::clone(&base), name.to_owned());
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let (asker, through) = (context.asker()?, context.writes_through());
    let made = move || {
        asker.check_stays()?;
        let made = maker.create_stream(&stream)?;
        if through && let Err(error) = made.sync() {
            let _ = maker.remove_stream(&stream);
            return Err(error.into());
        }
        server.files.watches.stream_made(&*store, &path, &stream);
        Ok::<_, Refusal>(made)
    };
    let node = match context.work_at(&*base, 0, made).await? {
        Err(refusal) if refusal.status == Status::OBJECT_NAME_COLLISION => return Ok(Step::Raced),
        made => made?,
    };
    let stream = Some((base, name.to_owned()));
    Ok(Step::Opened(Opened { kept: entered.keep(), node, stream, granted, maximal, action: CreateAction::CREATED }))
}

/// What READONLY says to one more stream (MS-FSA 2.1.5.1.2.1).
fn check_attributes(plan: &Plan, known: &Metadata) -> Result<(), Status> {
    if known.attributes & FileAttributes::READONLY.0 == 0 {
        return Ok(());
    }
    if plan.options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(Status::CANNOT_DELETE);
    }
    let changes = plan.desired & (WRITE_DATA | APPEND_DATA) != 0;
    if changes && known.kind != Kind::Directory { Err(Status::ACCESS_DENIED) } else { Ok(()) }
}

/// Gives a new or emptied file its extended attributes and its reserved space.
pub(super) fn decorate(node: &dyn Node, plan: &Plan) -> Result<(), Error> {
    for (name, value) in &plan.extended {
        node.set_extended(name, value)?;
    }
    match plan.allocation {
        Some(bytes) if node.kind() == Kind::File && bytes > 0 => node.reserve(bytes),
        Some(_) | None => Ok(()),
    }
}
