//! CREATE of a name that exists (MS-FSA 2.1.5.1.2).

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use store::{Error, Identity, Kind, Left, Metadata, Name, Node, Resolved, SharePath, Use};
use wire::command::create::{CreateAction, CreateDisposition, CreateOptions, ShareAccess};
use wire::fscc::FileAttributes;
use wire::ids::Dialect;
use wire::security::access::{APPEND_DATA, DELETE, MAXIMUM_ALLOWED, WRITE_ATTRIBUTES, WRITE_DATA, WRITE_EA};
use wire::status::Status;

use super::contexts::Maximal;
use super::durable::end_former;
use super::entering::{Attempt, Entered, Entrant};
use super::new::BaseOf;
use super::overwrite::{Refused, emptied, overwrite};
use super::plan::{GUARDED, Plan};
use super::{Opened, Step, check_kind, check_trailing_separator, renamed_meanwhile, stopped};
use crate::command::context::Context;
use crate::state::access::usage;
use crate::state::afp::AfpStream;
use crate::state::authorization::{
    Existing, GrantedAccess, Read, Request, Way, authorize, may_cache, may_exclude_makers, may_exclude_readers,
};
use crate::state::caching::Wanted;
use crate::state::descriptors::{At, Reading, Rights};
use crate::state::files::{Link, RenamesSeen};
use crate::state::refusal::Refusal;

/// What READONLY withholds.
const CHANGES_DATA: u32 = WRITE_DATA | APPEND_DATA;

/// Opens what was found.
pub(super) async fn open<'a>(
    context: &'a Context,
    plan: &Arc<Plan>,
    node: Arc<dyn Node>,
    path: SharePath,
    own: Option<Rights>,
    renames: RenamesSeen,
) -> Result<Step<'a>, Refusal> {
    let Some(name) = &plan.stream else {
        let found = Found { node, stream: None, is_blank: false, own, stream_changes: None, renames };
        return open_node(context, plan, found, path).await;
    };
    // A stream is of what the link leads to: the link itself has none.
    if plan.follows_links() && context.look(&node, |node| node.metadata_as_resolved()).await?.is_link {
        return Err(Box::pin(stopped::at_link(context, plan)).await);
    }
    let stream_changes = Some(context.server().files.stream_changes(node.identity()));
    let wanted = name.clone();
    match context.look(&node, move |node| node.extras().stream(&wanted)).await? {
        Some((stored, stream)) => {
            let is_blank = match AfpStream::named(&stored) {
                Some(afp) => {
                    let looked_at = Arc::clone(&stream);
                    context.work_at(&*stream, 0, move || afp.is_blank(&*looked_at)).await??
                }
                None => false,
            };
            if is_blank && plan.needs_existing() {
                return Err(Status::OBJECT_NAME_NOT_FOUND.into());
            }
            let stream_of = Some((node, stored));
            let found = Found { node: stream, stream: stream_of, is_blank, own, stream_changes, renames };
            open_node(context, plan, found, path).await
        }
        None => Box::pin(super::new::make_stream(context, plan, node, path, BaseOf::Old(own, renames))).await,
    }
}

pub(super) struct Found {
    pub(super) node: Arc<dyn Node>,
    pub(super) stream: Option<(Arc<dyn Node>, String)>,
    /// It is a stream of a Mac's that says nothing: for clients there is none.
    is_blank: bool,
    /// What the file's descriptor grants, where it was read when that was found.
    own: Option<Rights>,
    /// [`FileTable::stream_changes`](crate::state::files::FileTable::stream_changes) before the stream was looked up.
    stream_changes: Option<u64>,
    /// Before the path was looked up.
    renames: RenamesSeen,
}

impl Found {
    /// The file that attributes and descriptor belong to.
    fn base(&self) -> &Arc<dyn Node> {
        self.stream.as_ref().map_or(&self.node, |(base, _)| base)
    }
}

async fn open_node<'a>(
    context: &'a Context,
    plan: &Arc<Plan>,
    mut found: Found,
    path: SharePath,
) -> Result<Step<'a>, Refusal> {
    let own = found.own.take();
    let judged = Judged::new(found.base(), &path, own);
    let kind = found.node.kind();
    if plan.disposition == CreateDisposition::CREATE && !found.is_blank {
        return Err(Status::OBJECT_NAME_COLLISION.into());
    }
    if waited_for_maker(context, &path).await? {
        // Its maker is in now.
        return Ok(Step::Raced);
    }
    let known = context.look(found.base(), |base| base.metadata_as_resolved()).await?;
    if known.is_link {
        if plan.follows_links() {
            return Err(Box::pin(stopped::at_link(context, plan)).await);
        }
        // It has no data to be emptied, and is no file that could take the place of itself.
        if plan.overwrites() {
            return Err(Status::ACCESS_DENIED.into());
        }
    }
    check_kind(plan, kind)?;
    if plan.overwrites() && kind == Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    check_trailing_separator(plan, kind)?;
    check_attributes(plan, &known)?;
    // Who comes after would be told that the share is about to be deleted.
    if plan.options.contains(CreateOptions::DELETE_ON_CLOSE) && found.stream.is_none() && path.is_root() {
        return Err(Status::CANNOT_DELETE.into());
    }
    // Who makes a stream has to be granted that (MS-FSA 2.1.5.1.2, "Stream not found").
    let makes = if found.is_blank { WRITE_DATA } else { 0 };
    let asked = Asked { implied: implied(plan, found.stream.is_some()) | makes, ..Asked::by(plan) };
    if plan.overwrites() || found.is_blank {
        context.require_writable()?;
    }
    let granted = authorized(context, asked, &judged, &known).await?;
    if let Some(former) = &plan.former {
        Box::pin(end_former(context, former, plan)).await?;
    }
    let maximal = maximal(context, plan, &judged, &known).await?;
    let stream = found.stream.as_ref().map_or("", |(_, name)| name.as_str());
    let takes_streams = stream.is_empty() && (granted.has(DELETE) || plan.overwrites());
    check_waits(context, &**found.base(), &path, stream, takes_streams)?;
    let access = granted.bits() | overwrite_access(plan);
    // A link has nothing to cache, and who makes one in the place of another is not to wait for others' caches.
    let wanted = if known.is_link { Wanted::Nothing } else { plan.wanted };
    let wanted = may_have(context, wanted, granted, &judged).await?;
    let share = shared(context, plan.share_access, granted, &judged).await?;
    let link = link(context, &known, &path).await?;
    let entrant = Entrant {
        node: &*found.node,
        base: found.base(),
        stream,
        access,
        share,
        empties: plan.empties(),
        path: &path,
        link: link.as_ref(),
        wanted,
    };
    let entered = match Entered::try_enter(context, plan, entrant).await? {
        Attempt::Entered(entered) => entered,
        Attempt::Waits(wait) => {
            // What was found may be another file when the wait is over.
            return Ok(Step::Waited(Box::pin(wait.end_for(context)).await?));
        }
    };
    // What is in the table keeps its name from now on, or is told of a new one.
    let (renames, base) = (found.renames, found.base().identity());
    if let Some(step) = renamed_meanwhile(context, renames, &entered.path.now(), base).await? {
        return Ok(step);
    }
    if found.stream_changes.is_some_and(|seen| seen != context.server().files.stream_changes(found.base().identity())) {
        return Ok(Step::Raced);
    }
    // A file with one name that has gone meanwhile says so itself (`create/mod.rs`).
    if entered.is_named && !Box::pin(still_leads(context, &path, found.base().identity())).await? {
        return Ok(Step::Raced);
    }
    let usage = usage(access);
    if kind != Kind::Directory {
        let prepared = match found.node.try_prepare(usage) {
            Err(Error::WouldBlock) => {
                let node = Arc::clone(&found.node);
                // It may have to copy a stream's data first, in memory too.
                context.work_at(&*found.node, u64::MAX, move || node.prepare(usage)).await?
            }
            prepared => prepared,
        };
        match prepared {
            // The stream was removed after it had been found.
            Err(Error::Gone) if found.stream.is_some() => return Ok(Step::Raced),
            prepared => prepared?,
        }
    }
    let action = if plan.overwrites() {
        let overwritten = Box::pin(overwrite(context, plan, &found, &known, &entered, &path)).await;
        // What failed may have been done in part.
        if !matches!(&overwritten, Err(Refused { left: Left::AsItWas, .. })) {
            entered.data_changed(stream, plan);
        }
        overwritten.map_err(|refused| refused.refusal)?
    } else if found.is_blank {
        CreateAction::CREATED
    } else {
        CreateAction::OPENED
    };
    let emptied = plan.overwrites().then(|| Box::new(emptied(plan, &known, found.stream.is_none())));
    let (node, stream) = (found.node, found.stream);
    Ok(Step::Opened(Opened { entered, node, stream, granted, maximal, known: None, emptied, action }))
}

/// Waits until the maker of what `path` leads to has it open; false where it had.
async fn waited_for_maker(context: &Context, path: &SharePath) -> Result<bool, Refusal> {
    match path.name().filter(|name| context.server().files.new_names.is_made(name)) {
        None => Ok(false),
        Some(name) => Box::pin(wait_for_maker(context, path, name)).await,
    }
}

/// The same, where something of that name is being made somewhere.
async fn wait_for_maker(context: &Context, path: &SharePath, name: &str) -> Result<bool, Refusal> {
    let new_names = &context.server().files.new_names;
    let (store, above) = (Arc::clone(context.store()?), path.parent().unwrap_or_default());
    let found = context.work_along(path, move || store.resolve(&above, Use::Metadata)).await?;
    let Ok(Resolved::Found { node: directory, .. }) = found else { return Ok(false) };
    let Some(mut done) = new_names.of(directory.identity(), name) else { return Ok(false) };
    let _ = context.in_flight.unless_cancelled(done.changed()).await?;
    Ok(true)
}

/// The name that is opened, where the file has several.
pub(super) async fn link(context: &Context, known: &Metadata, path: &SharePath) -> Result<Option<Link>, Refusal> {
    if known.links <= 1 || known.kind == Kind::Directory {
        return Ok(None);
    }
    Box::pin(link_at(context, path)).await.map(Some)
}

/// The name that is opened.
pub(super) async fn link_at(context: &Context, path: &SharePath) -> Result<Link, Refusal> {
    let (store, followed) = (Arc::clone(context.store()?), path.clone());
    Ok(context.work_along(path, move || Link::at(&*store, &followed)).await??)
}

/// True where `path` leads to the file yet.
pub(super) async fn still_leads(context: &Context, path: &SharePath, file: Identity) -> Result<bool, Refusal> {
    let (store, followed) = (Arc::clone(context.store()?), path.clone());
    let found = context.work_along(path, move || store.resolve(&followed, Use::Metadata)).await?;
    Ok(matches!(found, Ok(Resolved::Found { node, .. }) if node.identity() == file))
}

/// Refuses what a persistent open waits on, whatever name led there (MS-SMB2 3.3.5.9). Older clients do not know the status: for them
/// share modes and caching have to do. Who may take the file's streams away meets those of which an open is not back yet, too: their share
/// modes are not there to say so.
fn check_waits(
    context: &Context,
    file: &dyn Node,
    path: &SharePath,
    stream: &str,
    takes_streams: bool,
) -> Result<(), Refusal> {
    let durables = &context.server().durables;
    let waits = durables.waits_on_stream(file, path, stream) || takes_streams && durables.expects(file, path);
    if waits && context.session()?.dialect >= Dialect::SMB_3_0 {
        return Err(Status::FILE_NOT_AVAILABLE.into());
    }
    Ok(())
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

/// What a CREATE wants of a file that exists.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) desired: u32,
    pub(super) implied: u32,
    pub(super) deletes_on_close: bool,
}

impl Asked {
    pub(super) fn by(plan: &Plan) -> Self {
        let deletes_on_close = plan.options.contains(CreateOptions::DELETE_ON_CLOSE);
        Asked { desired: plan.desired, implied: 0, deletes_on_close }
    }

    /// Everything that could be granted.
    const ALL: Asked = Asked { desired: MAXIMUM_ALLOWED, implied: 0, deletes_on_close: false };
}

/// The rights that emptying a file or stream needs. The file stays one and the same, under all its names, so that superseding it
/// needs WRITE_DATA, too, besides what MS-FSA says.
fn implied(plan: &Plan, is_stream: bool) -> u32 {
    let of_file = if is_stream { 0 } else { WRITE_EA | WRITE_ATTRIBUTES };
    match plan.disposition {
        CreateDisposition::SUPERSEDE => DELETE | WRITE_DATA | of_file,
        CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF => WRITE_DATA | of_file,
        _ => 0,
    }
}

/// What is judged: a file, or for a stream the one that has it, where the share has it, and what its descriptor grants, which is read once for all
/// that is decided by it.
pub(super) struct Judged<'a> {
    node: &'a Arc<dyn Node>,
    path: &'a SharePath,
    own: OnceCell<Rights>,
}

impl<'a> Judged<'a> {
    /// `own` is what its descriptor grants, where that was read already.
    pub(super) fn new(node: &'a Arc<dyn Node>, path: &'a SharePath, own: Option<Rights>) -> Self {
        Judged { node, path, own: own.map(OnceCell::from).unwrap_or_default() }
    }

    /// What its descriptor grants, where that is known or can be read here: else RETRY, and `waits` is set.
    fn try_own(&self, context: &Context, waits: &Cell<bool>) -> Result<Rights, Refusal> {
        if let Some(own) = self.own.get() {
            return Ok(*own);
        }
        let read = context.rights(&**self.node, self.path).map_err(found_again);
        let read = read.inspect_err(|refusal| waits.set(refusal.status == Status::RETRY))?;
        Ok(*self.own.get_or_init(|| read))
    }

    /// Reads it, on the pool where it has to be waited for.
    async fn read(&self, context: &Context) -> Result<Rights, Refusal> {
        let read = context.read_rights(self.node, self.path).await.map_err(found_again)?;
        Ok(*self.own.get_or_init(|| read))
    }
}

/// What has gone from where it was found is looked for again.
fn found_again(refusal: Refusal) -> Refusal {
    if refusal.status == Status::FILE_INVALID { Status::RETRY.into() } else { refusal }
}

/// What the open is granted of what is judged.
pub(super) async fn authorized(
    context: &Context,
    asked: Asked,
    judged: &Judged<'_>,
    known: &Metadata,
) -> Result<GrantedAccess, Refusal> {
    match decide(context, asked, judged, known, None)? {
        Decided::Is(decided) => decided,
        Decided::NeedsRead => Box::pin(authorized_by_read(context, asked, judged, known)).await,
    }
}

/// The same by descriptors that have to be waited for.
async fn authorized_by_read(
    context: &Context,
    asked: Asked,
    judged: &Judged<'_>,
    known: &Metadata,
) -> Result<GrantedAccess, Refusal> {
    let mut lender = None;
    judged.read(context).await?;
    loop {
        match decide(context, asked, judged, known, lender.as_ref())? {
            Decided::Is(decided) => return decided,
            Decided::NeedsRead => lender = Some(directory_of(context, judged.node.identity(), judged.path).await?),
        }
    }
}

/// What came of judging by what is known, or can be read here.
enum Decided {
    Is(Result<GrantedAccess, Refusal>),
    /// What it takes has to be waited for.
    NeedsRead,
}

fn decide(
    context: &Context,
    asked: Asked,
    judged: &Judged<'_>,
    known: &Metadata,
    lender: Option<&Lender>,
) -> Result<Decided, Refusal> {
    let user = context.session()?.user.load();
    let is_read_only = known.attributes & FileAttributes::READONLY.0 != 0 && known.kind != Kind::Directory;
    let has_other_names = known.links > 1 && known.kind != Kind::Directory;
    let (waits, has_moved) = (Cell::new(false), Cell::new(false));
    // The directory counts for few, and is looked for only then.
    let found = || match lender {
        Some(lender) => Ok(*lender),
        None => try_directory(context, judged.node.identity(), judged.path)
            .inspect_err(|refusal| waits.set(refusal.status == Status::RETRY)),
    };
    let directory = || {
        Ok(match found()? {
            Lender::Nobody => None,
            Lender::Directory(rights) => Some(rights),
            Lender::Moved => {
                has_moved.set(true);
                None
            }
        })
    };
    let own = || judged.try_own(context, &waits);
    let decided = authorize(&Request {
        user: &user,
        share_max: context.tree()?.access_max(),
        desired: asked.desired,
        deletes_on_close: asked.deletes_on_close,
        way: Way::Existing(Existing {
            own: &own,
            directory: &directory,
            implied: asked.implied,
            is_read_only,
            has_other_names,
        }),
    });
    if waits.get() {
        Ok(Decided::NeedsRead)
    } else if decided.is_err() && has_moved.get() {
        Err(Status::RETRY.into())
    } else {
        Ok(Decided::Is(decided))
    }
}

/// What an open of what is `judged`, and was `granted` something, may have of the caching that it `wanted`.
async fn may_have(
    context: &Context,
    wanted: Wanted,
    granted: GrantedAccess,
    judged: &Judged<'_>,
) -> Result<Wanted, Refusal> {
    if wanted == Wanted::Nothing {
        return Ok(wanted);
    }
    let (user, share_max) = (context.session()?.user.load_full(), context.tree()?.access_max());
    let may = judge(context, judged, |own| may_cache(&user, share_max, granted, own)).await?;
    Ok(if may { wanted } else { Wanted::Nothing })
}

/// What an open of what is `judged`, and was `granted` something, shares with others where it wants to share what `asked` says
/// (MS-SMB2 2.2.13).
async fn shared(context: &Context, asked: u32, granted: GrantedAccess, judged: &Judged<'_>) -> Result<u32, Refusal> {
    let (user, share_max) = (context.session()?.user.load_full(), context.tree()?.access_max());
    let mut shared = asked;
    if asked & ShareAccess::READ.0 == 0
        && !judge(context, judged, |own| may_exclude_readers(&user, share_max, granted, own)).await?
    {
        shared |= ShareAccess::READ.0;
    }
    if judged.node.kind() == Kind::Directory
        && asked & ShareAccess::WRITE.0 == 0
        && !judge(context, judged, |own| may_exclude_makers(&user, share_max, granted, own)).await?
    {
        shared |= ShareAccess::WRITE.0;
    }
    Ok(shared)
}

/// Decides by the descriptor of what is `judged`. Where it is in memory it is read if it is asked for.
pub(super) async fn judge<T>(
    context: &Context,
    judged: &Judged<'_>,
    decide: impl Fn(Read<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let waits = Cell::new(false);
    let decided = decide(&|| judged.try_own(context, &waits));
    if !waits.get() {
        return decided;
    }
    let read = Box::pin(judged.read(context)).await?;
    decide(&|| Ok(read))
}

/// Who may lend rights to a file: the directory that has it.
#[derive(Clone, Copy)]
enum Lender {
    /// What its descriptor grants.
    Directory(Rights),
    /// The share's root lies in none.
    Nobody,
    /// Where the file was found it is no more, and what stands there now has no say. To be looked for again.
    Moved,
}

/// The directory that has the `file` found at `path`: RETRY where it would have to be waited for.
fn try_directory(context: &Context, file: Identity, path: &SharePath) -> Result<Lender, Refusal> {
    let (Some(above), Some(name)) = (path.parent(), path.name()) else { return Ok(Lender::Nobody) };
    let Resolved::Found { node, .. } = context.store()?.try_resolve(&above, Use::Metadata)? else {
        return Ok(Lender::Moved);
    };
    match node.names()?.try_child(&Name::new(name)?, Use::Metadata)? {
        Some((_, child)) if child.identity() == file => context.rights(&*node, &above).map(Lender::Directory),
        Some(_) | None => Ok(Lender::Moved),
    }
}

/// The same, waited for. What takes long comes behind what others wait for.
async fn directory_of(context: &Context, file: Identity, path: &SharePath) -> Result<Lender, Refusal> {
    let (server, store) = (Arc::clone(context.server()), Arc::clone(context.store()?));
    let (share, followed) = (Arc::clone(&context.tree()?.share), path.clone());
    let user = context.session()?.user.load_full();
    let read = move |reading| {
        let (directory, name) = match store.directory_of(&followed) {
            Err(Error::PathNotFound | Error::NotDirectory) => return Ok(Lender::Moved),
            found => found?,
        };
        match directory.names()?.has(&name, file)? {
            true => {
                let above = followed.parent().unwrap_or_default();
                let at = At { store: &*store, node: &*directory, path: &above };
                server.descriptors.rights(at, &share, &user, reading).map(Lender::Directory)
            }
            false => Ok(Lender::Moved),
        }
    };
    let quick = read.clone();
    match context.on_pool_along(path, move || quick(Reading::Quick)).await? {
        Err(Error::WouldBlock) => Ok(context.on_long_work_along(path, move || read(Reading::Whole)).await??),
        found => Ok(found?),
    }
}

/// MxAc, where it was asked for (MS-SMB2 3.3.5.9.5). Who knows the file as it is gets nothing told.
pub(super) async fn maximal(
    context: &Context,
    plan: &Plan,
    judged: &Judged<'_>,
    known: &Metadata,
) -> Result<Option<Maximal>, Refusal> {
    match plan.maximal {
        None => Ok(None),
        Some(Some(change)) if change == known.change => Ok(Some(Maximal::Known)),
        Some(_) => match Box::pin(authorized(context, Asked::ALL, judged, known)).await {
            Ok(granted) => Ok(Some(Maximal::Access(granted.bits()))),
            Err(refusal) if refusal.status == Status::ACCESS_DENIED => Ok(Some(Maximal::Access(0))),
            Err(refusal) => Err(refusal),
        },
    }
}
