//! CREATE of a name that does not exist (MS-FSA 2.1.5.1.1).

use std::sync::Arc;

use store::{Error, Kind, NewNode, Node, SharePath};
use wire::command::create::{CreateAction, CreateOptions};
use wire::fscc::FileAttributes;
use wire::security::access::{APPEND_DATA, FILE_ALL, MAXIMUM_ALLOWED, WRITE_DATA};
use wire::status::Status;

use super::plan::Plan;
use super::{Entered, Entrant, Opened, Step};
use crate::access;
use crate::breaks;
use crate::context::Context;
use crate::refusal::Refusal;

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
    access::check_node(&user, &*parent, if directory { APPEND_DATA } else { WRITE_DATA })?;
    context.require_writable()?;
    let read_only = plan.attributes & FileAttributes::READONLY.0 != 0;
    if read_only && plan.options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(Status::CANNOT_DELETE.into());
    }
    let store = Arc::clone(context.store()?);
    let (work_path, work_plan, maker) = (path.clone(), Arc::clone(plan), Arc::clone(&user));
    let server = Arc::clone(context.server());
    let directory_identity = parent.identity();
    let made = context
        .work(move || {
            let security = access::descriptor_of_new(&maker, &*parent, work_plan.security.as_ref(), kind)?;
            let archive = if directory { 0 } else { FileAttributes::ARCHIVE.0 };
            let attributes = work_plan.attributes | archive;
            let new = NewNode { kind, attributes, security: security.as_deref() };
            let node = store.create(&work_path, new)?;
            if let Err(error) = decorate(&*node, &work_plan) {
                let _ = store.remove(&work_path, node.identity());
                return Err(Refusal::from(error));
            }
            server.files.watches.made(&*store, &work_path, kind);
            Ok(node)
        })
        .await?;
    let node = match made {
        Err(refusal) if refusal.status == Status::OBJECT_NAME_COLLISION => return Ok(Step::Raced),
        made => made?,
    };
    breaks::entry_of_changed(context.server(), directory_identity, plan.parent_lease);
    if let Some(name) = &plan.stream {
        return make_stream(context, plan, node, name, path).await;
    }
    let granted = granted_to_maker(context, plan)?;
    let maximal = plan.wants_maximal.then(|| access::check_node(&user, &*node, MAXIMUM_ALLOWED)).transpose()?;
    let entrant = Entrant { node: &*node, stream: "", access: granted, overwrites: false, path: &path };
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

/// Makes a named stream of a file that exists.
pub(super) async fn make_stream(
    context: &Context,
    plan: &Arc<Plan>,
    base: Arc<dyn Node>,
    name: &str,
    path: SharePath,
) -> Result<Step, Refusal> {
    if plan.needs_existing() {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let user = context.session()?.user.load_full();
    access::check_node(&user, &*base, WRITE_DATA)?;
    context.require_writable()?;
    let granted = granted_to_maker(context, plan)?;
    let entrant = Entrant { node: &*base, stream: name, access: granted, overwrites: false, path: &path };
    let entered = Entered::enter(context, plan, entrant).await?;
    let (maker, stream) = (Arc::clone(&base), name.to_owned());
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let made = move || {
        let made = maker.create_stream(&stream);
        made.inspect(|_| server.files.watches.stream_made(&*store, &path, &stream))
    };
    let node = match context.work(made).await? {
        Err(Error::Exists) => return Ok(Step::Raced),
        made => made?,
    };
    let maximal = plan.wants_maximal.then(|| access::check_node(&user, &*base, MAXIMUM_ALLOWED)).transpose()?;
    let stream = Some((base, name.to_owned()));
    Ok(Step::Opened(Opened { kept: entered.keep(), node, stream, granted, maximal, action: CreateAction::CREATED }))
}

/// Who makes a file gets what was asked for, whatever the descriptor says (MS-FSA 2.1.5.1.1).
fn granted_to_maker(context: &Context, plan: &Plan) -> Result<u32, Refusal> {
    let all = if plan.desired & MAXIMUM_ALLOWED != 0 { FILE_ALL } else { 0 };
    Ok(((plan.desired & !MAXIMUM_ALLOWED) | all)
        & (context.tree()?.access_max | wire::security::access::ACCESS_SYSTEM_SECURITY))
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
