//! CREATE (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1): opens, makes, overwrites.

mod apple;
mod contexts;
mod durable;
mod entering;
mod existing;
mod new;
mod overwrite;
mod plan;
mod stopped;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use store::{Error, Identity, Kind, Metadata, Node, Resolved, SharePath, Use, Waits};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use wire::command::create::{CreateAction, CreateOptions, CreateRequest, CreateResponse, OplockLevel};
use wire::context::create::CreateContextsBuilder;
use wire::ids::FileTime;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::resource::budget::Charge;
use crate::resource::budgets::{self, Held};
use crate::resource::turns::LONG_REQUEST_COST;
use crate::state::afp::{self, AfpStream};
use crate::state::attributes;
use crate::state::audit::{OpenTotals, Speaker};
use crate::state::authorization::GrantedAccess;
use crate::state::caching::{ACKNOWLEDGE_WITHIN, Granted};
use crate::state::channel_sequence::ChannelSequence;
use crate::state::descriptors::{At, Reading, Rights};
use crate::state::enumeration::Listing;
use crate::state::files::RenamesSeen;
use crate::state::frozen_times::HeldTimes;
use crate::state::lock_sequences::LockSequences;
use crate::state::open::{FileOpen, Open, StreamOf, Target};
use crate::state::open_id::OpenId;
use crate::state::open_path;
use crate::state::pending_open::PendingOpen;
use crate::state::pipe::Pipe;
use crate::state::refusal::Refusal;
use crate::state::session_link::SessionLink;
use crate::state::tree::Backing;
use crate::state::untold::Untold;

use self::entering::{Entered, Kept};
pub(super) use self::new::tell_not_given;
use self::plan::{Client, Plan};

/// How often a CREATE starts anew because another one was faster.
const RACES_MAX: usize = 16;
/// How long it waits in all: four times as long as anybody has time to give something up. A break that deepens on the way takes three.
const WAITED_MAX: Duration = ACKNOWLEDGE_WITHIN.saturating_mul(4);

/// A node that was found or made, with what its open is to be.
struct Opened<'a> {
    entered: Entered<'a>,
    node: Arc<dyn Node>,
    /// For a stream: the file it belongs to, and the stream's stored name.
    stream: Option<(Arc<dyn Node>, String)>,
    granted: GrantedAccess,
    /// MxAc, where it was asked for.
    maximal: Option<contexts::Maximal>,
    /// What the response says of it, where that was asked for since it was entered in the table of files.
    known: Option<Box<Metadata>>,
    /// What it is now that it was emptied, as far as that follows from what it was.
    emptied: Option<Box<Metadata>>,
    action: CreateAction,
}

impl Opened<'_> {
    /// The file that attributes belong to.
    fn base(&self) -> &Arc<dyn Node> {
        self.stream.as_ref().map_or(&self.node, |(base, _)| base)
    }
}

pub(crate) async fn handle(context: &Context, request: CreateRequest<'_>) -> Outcome {
    let tree = Arc::clone(context.tree()?);
    // MS-FSA 2.1.5.2.
    if let Backing::Pipes = tree.backing {
        return open_pipe(context, &request);
    }
    let mut durable = match durable::begin(context, &request).await? {
        durable::Begun::Answered(reply) => return Ok(reply),
        durable::Begun::Goes(wish) => wish,
    };
    let client = Client::of(&context.connection, &context.session()?.user.load(), &request.contexts);
    let plan = Arc::new(Plan::read(&request, &context.message, (&tree, &client), durable.former())?);
    let paid = hold_open(context, &plan)?;
    let (mut races, mut _pending_open, mut patience) = (0, None, WaitLimit::default());
    while races < RACES_MAX {
        let begun = Instant::now();
        let seen = context.server().files.renames.seen();
        let Some((resolved, own)) = resolve(context, &plan).await? else {
            match Box::pin(stopped::at_link(context, &plan)).await {
                // It is no longer there.
                refusal if refusal.status == Status::RETRY => {
                    races += 1;
                    continue;
                }
                refusal => return Err(refusal),
            }
        };
        check_lease(context, &plan, &resolved)?;
        let attempt = match resolved {
            Resolved::Found { node, path } => existing::open(context, &plan, node, path, own, seen).await,
            Resolved::Missing { parent, path } => new::make(context, &plan, parent, own, path, seen).await,
        };
        let step = match attempt {
            Err(refusal) if refusal.status == Status::RETRY => Step::Raced,
            attempt => attempt?,
        };
        match step {
            Step::Opened(opened) => {
                let known = match &opened.known {
                    Some(known) => Metadata::clone(known),
                    None => look(context, &opened).await?,
                };
                let stream = opened.stream.as_ref().and_then(|(_, name)| AfpStream::named(name));
                let known = afp::sized(stream, known);
                if known.links > 0 || Box::pin(leads_there(context, &opened)).await? {
                    let (open, mut answer) = make_open(context, &plan, opened, known, &durable, paid)?;
                    durable.grant(context, &open, &mut answer.contexts).await;
                    return Ok(reply(&open, &answer.known, answer.says, &answer.contexts));
                }
                // It was removed or replaced between being found and being open.
                races += 1;
            }
            Step::Raced => races += 1,
            // Neither counts: however much somebody renames, nobody is kept out by it.
            Step::Moves(mut done) => {
                Box::pin(look_again_after(context, async move { drop(done.changed().await) })).await?;
            }
            Step::Renamed => Box::pin(look_again_after(context, tokio::task::yield_now())).await?,
            Step::Waited(pending_open) => {
                _pending_open = pending_open;
                patience.waited(begun, &plan.path)?;
            }
        }
    }
    Err(Status::SHARING_VIOLATION.into())
}

/// Waits until `ended`, then has the CREATE start anew.
async fn look_again_after(context: &Context, ended: impl Future<Output = ()>) -> Result<(), Refusal> {
    context.in_flight.note_done_here(LONG_REQUEST_COST as u64);
    context.in_flight.unless_cancelled(ended).await?;
    context.check_stays()
}

/// Ends a CREATE that waits for something which nobody gives back, however often it was told to look again.
#[derive(Default)]
struct WaitLimit {
    waited: Duration,
}

impl WaitLimit {
    /// It has waited since `begun`, and looks again.
    fn waited(&mut self, begun: Instant, path: &SharePath) -> Result<(), Refusal> {
        // A disk that was slow meanwhile is nobody's to give back.
        self.waited += begun.elapsed().min(ACKNOWLEDGE_WITHIN);
        if self.waited < WAITED_MAX {
            return Ok(());
        }
        tracing::warn!(
            name: "open_given_up",
            path = path.to_string(),
            "a file was not opened: somebody changes or removes it, or caches it, and comes to no end"
        );
        Err(Status::SHARING_VIOLATION.into())
    }
}

/// What a new open's user has less.
struct Paid {
    open: Held,
    names: Charge,
}

/// Charges an open and its names to its user before anything is opened or made for it.
fn hold_open(context: &Context, plan: &Plan) -> Result<Paid, Refusal> {
    let session = context.session()?;
    let what = if plan.stream.is_some() { budgets::Opened::Stream } else { budgets::Opened::Whole };
    let paid = session.budgets.open(what).and_then(|open| {
        let names = session.budgets.names(open_path::bytes_of(&plan.path)).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        Ok(Paid { open, names })
    });
    paid.map_err(|status| {
        let (user, capacity) = (session.user.load(), context.server().budgets.capacity());
        let (share, path) = (&context.tree.as_ref().map_or("", |tree| &*tree.share), &plan.path);
        tracing::warn!(
            name: "open_limit_reached",
            peer = %context.connection.peer, session = session.id.0, user = %user.name, share, path = path.to_string(), %status,
            opens_of_user = capacity.opens_of_user, opens = capacity.opens, descriptors = capacity.descriptors,
            "an open was refused: its user, or all users, have as many as the limit of descriptors (ulimit -n) or memory allows",
        );
        status.into()
    })
}

/// Looks the path up; `None` where a symbolic link is on the way. Where that takes the pool the descriptor by which the rest is judged is asked there, too, unless that takes long: that of
/// what was found, or of the directory in which it is missing.
async fn resolve(context: &Context, plan: &Arc<Plan>) -> Result<Option<(Resolved, Option<Rights>)>, Refusal> {
    let store = Arc::clone(context.store()?);
    let resolved = match store.try_resolve(&plan.path, plan.usage) {
        Err(Error::WouldBlock) => {
            let (of_work, share) = (Arc::clone(plan), Arc::clone(&context.tree()?.share));
            let (server, user) = (Arc::clone(context.server()), context.session()?.user.load_full());
            let work = move || {
                let resolved = store.resolve(&of_work.path, of_work.usage)?;
                let own = |node: &Arc<dyn Node>, path: &SharePath| {
                    // Who holds the account's key is judged by none.
                    let is_judged = !user.has_full_control();
                    let at = At { store: &*store, node: &**node, path };
                    let own = is_judged.then(|| server.descriptors.rights(at, &share, &user, Reading::Quick));
                    own.and_then(Result::ok)
                };
                let own = match &resolved {
                    Resolved::Found { node, path } => {
                        if is_remembered(&**node) {
                            let _ = node.metadata_as_resolved();
                        }
                        own(node, path)
                    }
                    Resolved::Missing { parent, path } => own(parent, &path.parent().unwrap_or_default()),
                };
                Ok((resolved, own))
            };
            match plan.is_deep() {
                true => context.on_long_work_along(&plan.path, work).await?,
                false => context.on_pool_along(&plan.path, work).await?,
            }
        }
        resolved => resolved.map(|resolved| (resolved, None)),
    };
    match resolved {
        Ok(resolved) => Ok(Some(resolved)),
        Err(Error::Link) => Ok(None),
        Err(Error::NotDirectory) => Err(Status::OBJECT_PATH_NOT_FOUND.into()),
        Err(error) => Err(error.into()),
    }
}

/// Asks, on the pool, for what the rest of a CREATE will look at on its shard, where the node remembers it. What cannot be had will be told
/// then.
fn remember(node: &dyn Node) {
    if is_remembered(node) {
        let _ = node.metadata();
        let _ = node.extras().security();
    }
}

/// True where the node remembers what the pool asks it for.
fn is_remembered(node: &dyn Node) -> bool {
    node.waits() != Waits::Never && node.answers_at_once()
}

/// A lease is of one file, or of one stream of it, whatever comes of the CREATE otherwise (MS-SMB2 3.3.5.9.8).
fn check_lease(context: &Context, plan: &Plan, resolved: &Resolved) -> Result<(), Status> {
    let Some(lease) = plan.wanted.lease() else { return Ok(()) };
    let Some(known) = context.server().files.of_lease(lease) else { return Ok(()) };
    let stream = plan.stream.as_deref().unwrap_or_default();
    let same = match resolved {
        Resolved::Found { node, .. } => known.is_of(node.identity()) && !known.has_lease_elsewhere(lease, stream),
        Resolved::Missing { .. } => false,
    };
    if same { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// What came of looking at a name.
enum Step<'a> {
    Opened(Opened<'a>),
    /// Somebody else was faster: look again.
    Raced,
    /// A directory above is getting another name: look again when it has it.
    Moves(Receiver<()>),
    /// A rename that has come in between has the path lead elsewhere: look again.
    Renamed,
    /// Others had to give up caching first; the name may mean another file by now.
    Waited(Option<PendingOpen>),
}

/// What is to be done instead where `path`, which led to `file` when these renames were `seen`, may lead elsewhere. Who asks has entered the
/// table of files: no rename that begins after that goes unnoticed.
async fn renamed_meanwhile(
    context: &Context,
    seen: RenamesSeen,
    path: &SharePath,
    file: Identity,
) -> Result<Option<Step<'static>>, Refusal> {
    if context.server().files.renames.came_since(seen) {
        Box::pin(led_elsewhere(context, seen, path, file)).await
    } else {
        Ok(None)
    }
}

/// The same where some rename has begun since.
async fn led_elsewhere(
    context: &Context,
    seen: RenamesSeen,
    path: &SharePath,
    file: Identity,
) -> Result<Option<Step<'static>>, Refusal> {
    let (renames, store) = (&context.server().files.renames, context.store()?);
    if let Some(done) = renames.above(store, path) {
        return Ok(Some(Step::Moves(done)));
    }
    let (store, wanted, elsewhere) = (Arc::clone(store), path.clone(), renames.elsewhere(store));
    let look = move || match elsewhere.above(&*store, &wanted) {
        Some(done) => Err(done),
        None => Ok(store.resolve(&wanted, Use::Metadata)),
    };
    let found = match context.work_along(path, look).await? {
        Ok(found) => found,
        Err(done) => return Ok(Some(Step::Moves(done))),
    };
    // In the same case, too: a rename of the file finds those who have it open by their path.
    let leads = matches!(found, Ok(Resolved::Found { node, path: now }) if node.identity() == file && now == *path);
    Ok(match leads {
        true => None,
        false if renames.went_on_since(seen) => Some(Step::Renamed),
        false => Some(Step::Raced),
    })
}

/// What the response says of what was opened. What was emptied cannot be filled again: that is answered as done, whether or not it can be looked at.
async fn look(context: &Context, opened: &Opened<'_>) -> Result<Metadata, Refusal> {
    let base = Arc::clone(opened.base());
    let looked = context.look(&opened.node, move |node| attributes::of_node(node, &*base)).await;
    match (&opened.emptied, looked) {
        (Some(emptied), Err(refusal)) => {
            let (share, now) = (&context.tree()?.share, opened.entered.path.now());
            let path: &SharePath = &now;
            tracing::warn!(name: "emptied_file_unreadable", %share, path = path.to_string(), status = %refusal.status, "a file that a CREATE has emptied cannot be looked at");
            Ok(Metadata::clone(emptied))
        }
        (_, looked) => looked,
    }
}

/// True where the name that was opened leads to the file yet. Some file systems count no names.
async fn leads_there(context: &Context, opened: &Opened<'_>) -> Result<bool, Refusal> {
    let path = opened.entered.path.now();
    existing::still_leads(context, &path, opened.node.identity()).await
}

/// What the response says of an open.
struct Answer {
    known: Metadata,
    says: (OplockLevel, CreateAction),
    contexts: CreateContextsBuilder,
}

fn make_open(
    context: &Context,
    plan: &Plan,
    opened: Opened<'_>,
    known: Metadata,
    durable: &durable::Wish,
    paid: Paid,
) -> Result<(Arc<Open>, Answer), Refusal> {
    let Opened { entered, node, stream, granted, maximal, action, known: _, emptied: _ } = opened;
    let session = context.session()?;
    let Kept { id, file, path, line, caching } = entered.keep();
    let kind = node.kind();
    let options = durable.options(context, plan.options);
    path.pay(paid.names);
    let target = Target::File(Arc::new(FileOpen {
        node,
        file,
        kind,
        path,
        stream: stream.map(|(base, name)| StreamOf { base, afp: AfpStream::named(&name) }),
        options,
        delete_on_close: AtomicBool::new(plan.options.contains(CreateOptions::DELETE_ON_CLOSE)),
        position: AtomicU64::new(0),
        mode: AtomicU32::new(plan.mode() | options & CreateOptions::WRITE_THROUGH.0),
        ea_position: AtomicUsize::new(0),
        listing: Listing::default(),
        actor: plan.actor(id),
        parent_lease: plan.parent_lease,
        has_written: AtomicBool::new(plan.overwrites() && action != CreateAction::CREATED),
        audited: OpenTotals::default(),
        frozen_times: HeldTimes::default(),
        durability: durable.durability(context, action),
        untold: Untold::default(),
        channel_sequence: ChannelSequence::default(),
        lock_sequences: LockSequences::default(),
        held: Some(paid.open),
    }));
    let open = keep(context, (id, plan.speaker.clone()), target, line, granted, action)?;
    let mut contexts = contexts::answer(plan, &known, maximal, caching);
    if let Some(asked) = &plan.apple {
        apple::answer(session, &context.server().configuration.load(), asked, &mut contexts);
    }
    Ok((open, Answer { known, says: (level(caching), action), contexts }))
}

/// Gives the open to the session. Where that has ended meanwhile, the open is closed again, and takes nothing along but what it has made.
fn keep(
    context: &Context,
    (id, speaker): (OpenId, Option<Arc<Speaker>>),
    target: Target,
    line: Arc<SessionLink>,
    granted: GrantedAccess,
    action: CreateAction,
) -> Result<Arc<Open>, Refusal> {
    let session = context.session()?;
    let tree = Arc::clone(context.tree()?);
    let open = Open::new(id, line, session.user.load_full(), tree, target, granted);
    let open = Arc::new(open.called_from(&context.connection.caller).speaking_for(speaker));
    if let Err(status) = session.add_open(Arc::clone(&open)) {
        if let Ok(file) = open.file() {
            file.delete_on_close.fetch_and(action == CreateAction::CREATED, Ordering::Relaxed);
        }
        context.server().close_on_pool(vec![open]);
        return Err(status.into());
    }
    Ok(open)
}

/// The response for an open, made now or found again.
fn reply(
    open: &Open,
    known: &Metadata,
    (oplock_level, create_action): (OplockLevel, CreateAction),
    contexts: &CreateContextsBuilder,
) -> Reply {
    let response = CreateResponse {
        oplock_level,
        create_action,
        creation_time: FileTime(known.creation.0),
        last_access_time: FileTime(known.access.0),
        last_write_time: FileTime(known.write.0),
        change_time: FileTime(known.change.0),
        allocation_size: known.allocated,
        end_of_file: known.length,
        file_attributes: attributes::on_the_wire(known),
        file_id: open.id.file_id(),
        contexts: contexts.contexts(),
        ..CreateResponse::default()
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Reply { open: Some(open.id), ..Reply::new(body) }
}

/// OplockLevel of a response.
fn level(caching: Granted) -> OplockLevel {
    match caching {
        Granted::Nothing => OplockLevel::NONE,
        Granted::Oplock(level) => level,
        Granted::Lease(_) => OplockLevel::LEASE,
    }
}

fn open_pipe(context: &Context, request: &CreateRequest<'_>) -> Outcome {
    if context.session()?.user.load().is_anonymous {
        return Err(Status::ACCESS_DENIED.into());
    }
    let name = request.name.decode().ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let mut pipe = Pipe::open(&name, &context.session()?.pipes).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    // It needs no descriptor, but there are no more of them for that.
    pipe.held = Some(context.session()?.budgets.open(budgets::Opened::Whole)?);
    let id = context.server().new_open_id();
    let granted = GrantedAccess::OF_PIPE;
    let line = context.session()?.link();
    let open = keep(context, (id, None), Target::Pipe(Box::new(pipe)), line, granted, CreateAction::OPENED)?;
    let response = CreateResponse {
        create_action: CreateAction::OPENED,
        allocation_size: 4096,
        file_attributes: wire::fscc::FileAttributes::NORMAL.0,
        file_id: open.id.file_id(),
        ..CreateResponse::default()
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply { open: Some(open.id), ..Reply::new(body) })
}

/// A file where a directory was asked for, or the other way round.
fn check_kind(plan: &Plan, kind: Kind) -> Result<(), Status> {
    match kind {
        Kind::Directory if plan.names_data || plan.options.contains(CreateOptions::NON_DIRECTORY_FILE) => {
            Err(Status::FILE_IS_A_DIRECTORY)
        }
        Kind::File | Kind::Stream if plan.options.contains(CreateOptions::DIRECTORY_FILE) => {
            Err(Status::NOT_A_DIRECTORY)
        }
        Kind::Directory | Kind::File | Kind::Stream => Ok(()),
    }
}

/// A separator behind the name means a directory (MS-FSA 2.1.5.1 phase 7).
fn check_trailing_separator(plan: &Plan, kind: Kind) -> Result<(), Status> {
    let wrong = plan.ends_in_separator && (kind != Kind::Directory || plan.stream.is_some());
    if wrong { Err(Status::OBJECT_NAME_INVALID) } else { Ok(()) }
}
