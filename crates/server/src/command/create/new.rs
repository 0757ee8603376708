//! CREATE of a name that does not exist (MS-FSA 2.1.5.1.1).

use std::sync::Arc;

use store::{Error, Kind, Metadata, Name, NewNode, Node, SharePath, Waits};
use wire::command::create::{CreateAction, CreateOptions};
use wire::fscc::FileAttributes;
use wire::security::access::{APPEND_DATA, WRITE_DATA};
use wire::status::Status;

use super::entering::{Attempt, Entered, Entrant};
use super::existing::{Asked, Judged, authorized, judge, link, maximal, still_leads};
use super::plan::Plan;
use super::{Opened, Step, check_trailing_separator, renamed_meanwhile};
use crate::command::context::{Context, hold_here};
use crate::resource::pool::Device;
use crate::resource::pool::INLINE_BYTES_MAX;
use crate::state::authorization::{GrantedAccess, Read, Request, Way, authorize};
use crate::state::breaks;
use crate::state::descriptors::{self, At, Reading, Rights};
use crate::state::files::{Empties, NewName, RenamesSeen};
use crate::state::on_disk::keep_name;
use crate::state::refusal::Refusal;
use crate::state::user::User;

/// Makes what was missing, and opens it.
pub(super) async fn make<'a>(
    context: &'a Context,
    plan: &Arc<Plan>,
    parent: Arc<dyn Node>,
    of_parent: Option<Rights>,
    path: SharePath,
    seen: RenamesSeen,
) -> Result<Step<'a>, Refusal> {
    let (made, granted) = match make_node(context, plan, (&parent, of_parent), &path, seen).await? {
        Ok(made) => made,
        Err(step) => return Ok(step),
    };
    let Made { node, name, _new_name } = made;
    let opened = open_made(context, plan, Arc::clone(&node), &path, granted).await;
    if opened.is_err() {
        Box::pin(take_back(context, parent, name, path, node)).await;
    }
    opened
}

/// What was made. Until its maker has it open, who finds it waits.
struct Made {
    node: Arc<dyn Node>,
    name: Name,
    _new_name: NewName,
}

/// Makes it, and says what its maker is granted; or what is to be done instead.
async fn make_node(
    context: &Context,
    plan: &Arc<Plan>,
    (parent, of_parent): (&Arc<dyn Node>, Option<Rights>),
    path: &SharePath,
    seen: RenamesSeen,
) -> Result<Result<(Made, GrantedAccess), Step<'static>>, Refusal> {
    if plan.needs_file() {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let directory = plan.makes_directory();
    let kind = if directory { Kind::Directory } else { Kind::File };
    let user = context.session()?.user.load_full();
    check_trailing_separator(plan, kind)?;
    context.require_writable()?;
    let above = path.parent().unwrap_or_default();
    let share_max = context.tree()?.access_max();
    let decide = |directory: Read<'_>| {
        authorize(&Request {
            user: &user,
            share_max,
            desired: plan.desired,
            deletes_on_close: plan.options.contains(CreateOptions::DELETE_ON_CLOSE),
            way: Way::New { directory, kind },
        })
    };
    let judged = Judged::new(parent, &above, of_parent);
    let granted = judge(context, &judged, decide).await?;
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
    let (held, through) = (Arc::clone(parent), context.writes_through());
    let made_name = name.clone();
    // Until it is open: who finds it before that waits.
    context.in_flight.keep_others_waiting();
    let new_name = NewName::begin(&context.server().files, directory_identity, context.store()?, path);
    // No directory above gets another name from now on.
    if let Some(step) = renamed_meanwhile(context, seen, &above, directory_identity).await? {
        return Ok(Err(step));
    }
    let make = move |create: Create| {
        asker.check_stays()?;
        let at = At { store: &*store, node: &*held, path: &above };
        let passed_on = server.descriptors.read(at, &share, Reading::here())?;
        let asked = work_plan.security(Reading::here())?;
        asked.as_ref().map_or(Ok(()), |asked| descriptors::check_asked(&maker, asked))?;
        let security = descriptors::of_new(&maker, passed_on, asked.as_ref(), kind)?;
        let archive = if directory { 0 } else { FileAttributes::ARCHIVE.0 };
        let attributes = work_plan.attributes | archive;
        let new = NewNode { kind, attributes, security: security.as_deref(), owner: maker.unix_owner };
        // In the directory that was judged, whatever its path means by now.
        let node = create(&*held, &name, new).inspect_err(|error| tell_not_given(&maker, &share, error))?;
        server.durables.made_file(node.identity());
        let decorated = decorate(&*node, &work_plan);
        let kept = decorated.and_then(|()| if through { keep_name(&*held, &*node) } else { Ok(()) });
        if let Err(error) = kept {
            let _ = held.names().and_then(|names| names.remove(&name, node.identity()));
            return Err(Refusal::from(error));
        }
        if kind == Kind::Directory {
            server.descriptors.inheritance.directory_changed();
        }
        server.watches.made(&*store, &work_path, kind);
        super::remember(&*node);
        Ok(node)
    };
    let made = match try_here(context, plan, &**parent, &make)? {
        Some(made) => made,
        None => {
            let make = move || make(|parent, name, new| parent.names()?.create(name, new));
            let turn = context.queue_key_at(Device::Volume(parent.identity().volume));
            match plan.is_long_work() {
                true => context.on_long_work_in(turn, make).await?,
                false => context.on_pool_in(turn, make).await?,
            }
        }
    };
    let node = match made {
        Err(refusal) if refusal.status == Status::OBJECT_NAME_COLLISION => return Ok(Err(Step::Raced)),
        made => made?,
    };
    breaks::entry_of_changed(context.server(), directory_identity, plan.parent_lease);
    Ok(Ok((Made { node, name: made_name, _new_name: new_name }, granted)))
}

/// Tells the log where nothing could be made for the owner that an operator has given the user's files: nobody else can see why.
pub(in crate::command) fn tell_not_given(user: &User, share: &str, error: &store::Error) {
    if let (Some(owner), store::Error::Denied) = (user.unix_owner, error) {
        let (user, uid, gid) = (&user.name, owner.uid, owner.gid);
        tracing::warn!(name: "file_not_given", share, user, uid, gid, "a user's file was not made: it cannot be given to its owner on this machine, or may not in this folder");
    }
}

/// Opens what this CREATE made.
async fn open_made<'a>(
    context: &'a Context,
    plan: &Arc<Plan>,
    node: Arc<dyn Node>,
    path: &SharePath,
    granted: GrantedAccess,
) -> Result<Step<'a>, Refusal> {
    if plan.stream.is_some() {
        return Box::pin(make_stream(context, plan, node, path.clone(), BaseOf::New(granted))).await;
    }
    let access = granted.bits();
    let entrant = Entrant {
        node: &*node,
        base: &node,
        stream: "",
        access,
        share: plan.share_access,
        empties: Empties::Nothing,
        path,
        link: None,
        wanted: plan.wanted,
    };
    let entered = match Entered::enter(context, plan, entrant).await {
        Err(refusal) if refusal.status == Status::DELETE_PENDING => return Ok(Step::Raced),
        entered => entered?,
    };
    let known = context.look(&node, |node| node.metadata()).await?;
    let maximal = maximal(context, plan, &Judged::new(&node, path, None), &known).await?;
    let (stream, known, action) = (None, Some(Box::new(known)), CreateAction::CREATED);
    Ok(Step::Opened(Opened { entered, node, stream, granted, maximal, known, emptied: None, action }))
}

/// Removes what was made and could not be opened, as long as its name is still being made: nobody finds it. What another program has put
/// there meanwhile stays, and so does what somebody came to have open.
async fn take_back(context: &Context, directory: Arc<dyn Node>, name: Name, path: SharePath, made: Arc<dyn Node>) {
    let (server, store) = (Arc::clone(context.server()), context.store().map(Arc::clone));
    let volume = directory.identity().volume;
    let remove = move || {
        let identity = made.identity();
        let is_empty = match made.kind() {
            Kind::File => made.metadata()?.length == 0,
            // One that is not is not removed.
            Kind::Directory | Kind::Stream => true,
        };
        if is_empty && server.files.find(identity).is_none() {
            directory.names()?.remove(&name, identity)?;
            if made.kind() == Kind::Directory {
                server.descriptors.inheritance.directory_changed();
            }
            if let Ok(store) = store {
                server.watches.unmade(&*store, &path, &*made);
            }
        }
        Ok::<_, Error>(())
    };
    if let Ok(Err(error)) = context.on_pool_of(volume, remove).await {
        tracing::warn!(name: "made_file_left", %error, "what a client made and could not open is still there");
    }
}

/// How a directory makes a name.
type Create = fn(&dyn Node, &Name, NewNode<'_>) -> Result<Arc<dyn Node>, Error>;
/// What comes of making it.
type Outcome = Result<Arc<dyn Node>, Refusal>;

/// Makes a name on the shard, where that never waits. `None` where it would: also in memory a directory may have to be read through.
fn try_here(
    context: &Context,
    plan: &Plan,
    parent: &dyn Node,
    make: impl FnOnce(Create) -> Outcome,
) -> Result<Option<Outcome>, Refusal> {
    let bytes = plan.decoration_bytes();
    if parent.waits() != Waits::Never || bytes > INLINE_BYTES_MAX {
        return Ok(None);
    }
    // What is made may have to be removed again, which goes by its name.
    let may_fail = bytes > 0 || plan.extended_count() > 0 || context.writes_through();
    if may_fail && !context.store()?.facts().never_blocks {
        return Ok(None);
    }
    context.in_flight.note_done_here(bytes);
    match make(|parent, name, new| parent.names()?.try_create(name, new)) {
        Err(refusal) if refusal.status == Status::RETRY => Ok(None),
        made => Ok(Some(made)),
    }
}

/// The file that a new stream is of.
pub(super) enum BaseOf {
    /// This CREATE made it, and was granted this.
    New(GrantedAccess),
    /// There was one, which was found when these renames had ended, with its descriptor where that was read.
    Old(Option<Rights>, RenamesSeen),
}

/// Makes the named stream of a file. One that there was grants what its descriptor grants, and has to grant WRITE_DATA
/// (MS-FSA 2.1.5.1.2, "Stream not found").
pub(super) async fn make_stream<'a>(
    context: &'a Context,
    plan: &Arc<Plan>,
    base: Arc<dyn Node>,
    path: SharePath,
    of: BaseOf,
) -> Result<Step<'a>, Refusal> {
    let name = plan.stream.as_deref().unwrap_or_default();
    if plan.needs_existing() {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let known = context.look(&base, |base| base.metadata()).await?;
    let (new, own, seen) = match of {
        BaseOf::New(granted) => (Some(granted), None, None),
        BaseOf::Old(own, seen) => (None, own, Some(seen)),
    };
    let judged = Judged::new(&base, &path, own);
    let granted = match new {
        Some(granted) => granted,
        None => {
            check_attributes(plan, &known)?;
            let asked = Asked { implied: WRITE_DATA, ..Asked::by(plan) };
            authorized(context, asked, &judged, &known).await?
        }
    };
    context.require_writable()?;
    let maximal = maximal(context, plan, &judged, &known).await?;
    let access = granted.bits();
    let link = link(context, &known, &path).await?;
    let entrant = Entrant {
        node: &*base,
        base: &base,
        stream: name,
        access,
        share: plan.share_access,
        empties: Empties::Nothing,
        path: &path,
        link: link.as_ref(),
        wanted: plan.wanted,
    };
    let entered = match &seen {
        None => Entered::enter(context, plan, entrant).await?,
        Some(_) => match Entered::try_enter(context, plan, entrant).await? {
            Attempt::Entered(entered) => entered,
            // What was judged may be another file when the wait is over, or have another descriptor.
            Attempt::Waits(wait) => return Ok(Step::Waited(wait.end_for(context).await?)),
        },
    };
    if let Some(seen) = seen {
        if let Some(step) = renamed_meanwhile(context, seen, &entered.path.now(), base.identity()).await? {
            return Ok(step);
        }
        if entered.is_named && !still_leads(context, &path, base.identity()).await? {
            return Ok(Step::Raced);
        }
    }
    let (maker, stream) = (Arc::clone(&base), name.to_owned());
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let (asker, through) = (context.asker()?, context.writes_through());
    let made = move || {
        asker.check_stays()?;
        let made = maker.extras().create_stream(&stream)?;
        if through && let Err(error) = made.sync() {
            let _ = maker.extras().remove_stream(&stream);
            return Err(error.into());
        }
        server.watches.stream_made(&*store, &path, &stream);
        Ok::<_, Refusal>(made)
    };
    // In memory a file may have so many streams that to look whether this is a new one takes long.
    let here = match hold_here(&*base) {
        Some(_held) => made(),
        None => Err(Status::RETRY.into()),
    };
    let made = match here {
        Err(refusal) if refusal.status == Status::RETRY => context.on_pool_of(base.identity().volume, made).await?,
        made => made,
    };
    let node = match made {
        Err(refusal) if refusal.status == Status::OBJECT_NAME_COLLISION => return Ok(Step::Raced),
        made => made?,
    };
    let stream = Some((base, name.to_owned()));
    let action = CreateAction::CREATED;
    Ok(Step::Opened(Opened { entered, node, stream, granted, maximal, known: None, emptied: None, action }))
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
    if plan.extended_count() > 0 {
        // An empty value removes what there is: nothing.
        let mut list = Some(plan.extended().into_iter().filter(|(_, value)| !value.is_empty()).collect());
        node.extras().change_extended(&mut |_| list.take()).map_err(|failed| failed.error)?;
    }
    match plan.allocation {
        Some(bytes) if node.kind() == Kind::File && bytes > 0 => node.reserve(bytes),
        Some(_) | None => Ok(()),
    }
}
