//! CREATE of a name that exists (MS-FSA 2.1.5.1.2).

use std::sync::Arc;

use store::{Changes, Error, Kind, Metadata, Node, SharePath};
use wire::command::create::{CreateAction, CreateDisposition, CreateOptions};
use wire::fscc::FileAttributes;
use wire::security::access::{
    APPEND_DATA, DELETE, DELETE_CHILD, MAXIMUM_ALLOWED, READ_ATTRIBUTES, SYNCHRONIZE, WRITE_ATTRIBUTES, WRITE_DATA,
    WRITE_EA,
};
use wire::status::Status;

use super::plan::{GUARDED, Plan};
use super::{Attempt, Entered, Entrant, Opened, Step, check_kind};
use crate::access;
use crate::context::Context;
use crate::refusal::Refusal;

/// What READONLY withholds.
const CHANGES_DATA: u32 = WRITE_DATA | APPEND_DATA;

/// Opens what was found.
pub(super) async fn open(
    context: &Context,
    plan: &Arc<Plan>,
    node: Arc<dyn Node>,
    path: SharePath,
) -> Result<Step, Refusal> {
    let Some(name) = &plan.stream else {
        return open_node(context, plan, Found { node, stream: None }, path).await;
    };
    let found = node.stream(name)?;
    match found {
        Some((stored, stream)) => {
            open_node(context, plan, Found { node: stream, stream: Some((node, stored)) }, path).await
        }
        None => super::new::make_stream(context, plan, node, name, path).await,
    }
}

struct Found {
    node: Arc<dyn Node>,
    stream: Option<(Arc<dyn Node>, String)>,
}

impl Found {
    /// The file that attributes and descriptor belong to.
    fn base(&self) -> &Arc<dyn Node> {
        self.stream.as_ref().map_or(&self.node, |(base, _)| base)
    }
}

async fn open_node(context: &Context, plan: &Arc<Plan>, found: Found, path: SharePath) -> Result<Step, Refusal> {
    let kind = found.node.kind();
    if plan.disposition == CreateDisposition::CREATE {
        return Err(Status::OBJECT_NAME_COLLISION.into());
    }
    check_kind(plan, kind)?;
    if plan.overwrites() && kind == Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let known = found.base().metadata()?;
    check_attributes(plan, &known)?;
    let granted = granted(context, plan, &found, &path, &known).await?;
    let maximal = match plan.wants_maximal {
        true => Some(maximal(context, &found, &path, &known).await?),
        false => None,
    };
    if plan.overwrites() {
        context.require_writable()?;
    }
    let stream = found.stream.as_ref().map_or("", |(_, name)| name.as_str());
    let access = granted | overwrite_access(plan);
    let overwrites = plan.overwrites();
    let entrant = Entrant { node: &*found.node, stream, access, overwrites, path: &path };
    let entered = match Entered::try_enter(context, plan, entrant)? {
        Attempt::Entered(entered) => entered,
        Attempt::Waits(wait) => {
            // What was found may be another file when the wait is over.
            return Ok(Step::Waited(wait.end_for(context).await?));
        }
    };
    let usage = super::usage(granted | overwrite_access(plan));
    if kind != Kind::Directory {
        match found.node.try_prepare(usage) {
            Err(Error::WouldBlock) => {
                let node = Arc::clone(&found.node);
                context.work(move || node.prepare(usage)).await??;
            }
            prepared => prepared?,
        }
    }
    let action =
        if plan.overwrites() { overwrite(context, plan, &found, &known, &path).await? } else { CreateAction::OPENED };
    if plan.overwrites() {
        entered.data_changed(stream, plan);
    }
    Ok(Step::Opened(Opened { kept: entered.keep(), node: found.node, stream: found.stream, granted, maximal, action }))
}

/// Overwriting writes, for share modes too.
fn overwrite_access(plan: &Plan) -> u32 {
    match plan.disposition {
        CreateDisposition::SUPERSEDE | CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF => WRITE_DATA,
        _ => 0,
    }
}

fn check_attributes(plan: &Plan, known: &Metadata) -> Result<(), Status> {
    let read_only = known.attributes & FileAttributes::READONLY.0 != 0 && known.kind != Kind::Directory;
    let deletes = plan.options.contains(CreateOptions::DELETE_ON_CLOSE);
    if known.attributes & FileAttributes::READONLY.0 != 0 && deletes {
        return Err(Status::CANNOT_DELETE);
    }
    if read_only && (plan.desired & CHANGES_DATA != 0 || plan.overwrites()) {
        return Err(Status::ACCESS_DENIED);
    }
    if plan.overwrites() && plan.stream.is_none() && known.attributes & GUARDED & !plan.attributes != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    Ok(())
}

/// The rights of the open: by descriptor, by the directory's DELETE_CHILD, by attributes, by share.
async fn granted(
    context: &Context,
    plan: &Plan,
    found: &Found,
    path: &SharePath,
    known: &Metadata,
) -> Result<u32, Refusal> {
    let overwriting = match plan.disposition {
        CreateDisposition::SUPERSEDE => DELETE | WRITE_DATA,
        CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF => WRITE_DATA | WRITE_EA | WRITE_ATTRIBUTES,
        _ => 0,
    };
    let session = context.session()?;
    let user = session.user.load();
    let needed = plan.desired | overwriting;
    let checked = access::check_node(&user, &**found.base(), needed & !SYNCHRONIZE);
    let granted = match checked {
        Err(refusal) if refusal.status == Status::ACCESS_DENIED => {
            // Who may delete in a directory may delete what is in it, and see its attributes where the directory may be listed.
            let lent = lent(context, path, 0).await? & needed;
            if lent == 0 {
                return Err(refusal);
            }
            lent | access::check_node(&user, &**found.base(), needed & !lent & !SYNCHRONIZE)?
        }
        checked => checked?,
    };
    let lent = if plan.desired & MAXIMUM_ALLOWED != 0 { lent(context, path, granted).await? } else { 0 };
    let granted = granted | lent | (needed & SYNCHRONIZE);
    if granted == 0 {
        return Err(Status::ACCESS_DENIED.into());
    }
    let given = if plan.desired & MAXIMUM_ALLOWED != 0 { granted } else { granted & (plan.desired | SYNCHRONIZE) };
    Ok(within(context, given, known)?)
}

/// Everything that could be granted (the MxAc context).
async fn maximal(context: &Context, found: &Found, path: &SharePath, known: &Metadata) -> Result<u32, Refusal> {
    let session = context.session()?;
    let user = session.user.load();
    let granted = access::check_node(&user, &**found.base(), MAXIMUM_ALLOWED)?;
    let granted = granted | lent(context, path, granted).await?;
    Ok(within(context, granted, known)?)
}

/// What the share and the file's attributes leave of a grant.
fn within(context: &Context, granted: u32, known: &Metadata) -> Result<u32, Status> {
    let read_only = known.attributes & FileAttributes::READONLY.0 != 0 && known.kind != Kind::Directory;
    let withheld = if read_only { CHANGES_DATA } else { 0 };
    let share = context.tree().map_err(|refusal| refusal.status)?.access_max;
    Ok(granted & !withheld & (share | wire::security::access::ACCESS_SYSTEM_SECURITY))
}

/// What the directory lends of what lacks beside `granted` (MS-FSA 2.1.5.1.2.1).
async fn lent(context: &Context, path: &SharePath, granted: u32) -> Result<u32, Refusal> {
    let by = [(DELETE, DELETE_CHILD), (READ_ATTRIBUTES, wire::security::access::READ_DATA)];
    if by.iter().all(|(right, _)| granted & right != 0) {
        return Ok(0);
    }
    let session = context.session()?;
    let user = session.user.load();
    let Some(parent) = parent(context, path).await? else { return Ok(0) };
    let lent = by.into_iter().filter(|(_, by)| access::check_node(&user, &*parent, *by).is_ok());
    Ok(lent.fold(0, |lent, (right, _)| lent | right))
}

async fn parent(context: &Context, path: &SharePath) -> Result<Option<Arc<dyn Node>>, Refusal> {
    let Some(parent) = path.parent() else { return Ok(None) };
    let store = Arc::clone(context.store()?);
    let resolved = match store.try_resolve(&parent, store::Use::Metadata) {
        Err(Error::WouldBlock) => context.work(move || store.resolve(&parent, store::Use::Metadata)).await?,
        resolved => resolved,
    };
    match resolved? {
        store::Resolved::Found { node, .. } => Ok(Some(node)),
        store::Resolved::Missing { .. } => Ok(None),
    }
}

/// Empties what is there and gives it the attributes asked for (MS-FSA 2.1.5.1.2.1).
async fn overwrite(
    context: &Context,
    plan: &Arc<Plan>,
    found: &Found,
    known: &Metadata,
    path: &SharePath,
) -> Result<CreateAction, Refusal> {
    let (node, whole_file, plan_of_work) = (Arc::clone(&found.node), found.stream.is_none(), Arc::clone(plan));
    let kept = known.attributes & !crate::attributes::SETTABLE;
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let (path, stream) = (path.clone(), found.stream.as_ref().map(|(_, name)| name.clone()));
    context
        .work(move || {
            node.set_length(0)?;
            if whole_file {
                let attributes =
                    kept & !FileAttributes::SPARSE_FILE.0 | plan_of_work.attributes | FileAttributes::ARCHIVE.0;
                node.change(&Changes { attributes: Some(attributes), ..Changes::default() })?;
                for (name, _) in node.extended()? {
                    node.set_extended(&name, &[])?;
                }
                for stream in node.streams()? {
                    node.remove_stream(&stream.name)?;
                }
                super::new::decorate(&*node, &plan_of_work)?;
            }
            server.files.watches.overwritten(&*store, &path, stream.as_deref());
            Ok::<_, Error>(())
        })
        .await??;
    Ok(match plan.disposition {
        CreateDisposition::SUPERSEDE => CreateAction::SUPERSEDED,
        _ => CreateAction::OVERWRITTEN,
    })
}
