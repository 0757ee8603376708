//! What of a CREATE is about opens that outlive their connection: the contexts that ask for one (MS-SMB2 3.3.5.9.6, 3.3.5.9.10) and those
//! that take one up again (3.3.5.9.7, 3.3.5.9.12), the replay of a CREATE (3.3.5.9) and application instances (3.3.5.9.13).

use std::sync::Arc;
use std::time::Duration;

use store::{Kind, fold};
use wire::command::create::{CreateAction, CreateOptions, CreateRequest, OplockLevel};
use wire::context::create::{
    AppInstanceId, AppInstanceVersion, CreateContexts, CreateContextsBuilder, DurableReconnect, DurableReconnectV2,
    DurableRequestV2, DurableResponseV2, Lease, name,
};
use wire::context::durable::{DURABLE_RESPONSE, DurableFlags};
use wire::ids::{Dialect, Guid};
use wire::security::access::{APPEND_DATA, DELETE, EXECUTE, FILE_GENERIC_READ, READ_DATA, WRITE_DATA};
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::command::recorded::{note_change, note_growth};
use crate::state::attributes;
use crate::state::audit::AuditEnd;
use crate::state::authorization::{GrantedAccess, Request, Way, authorize, may_look};
use crate::state::breaks::Returned;
use crate::state::caching::{Granted, Held, LOOK_COST};
use crate::state::descriptors::Rights;
use crate::state::durable::{
    Claimed, Durability, Keeping, Making, Reservation, TIMEOUT_V1, TIMEOUT_V2, TIMEOUT_V2_MAX,
};
use crate::state::files::NameChange;
use crate::state::open::{FileOpen, Open, Target};
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;
use crate::state::refusal::Refusal;
use crate::state::replayed::Attempt;

use super::plan::Plan;

/// Bytes of SMB2_CREATE_DURABLE_HANDLE_REQUEST (2.2.13.2.3).
const DURABLE_REQUEST_BYTES: usize = 16;
/// Who may do one of these has an open whose CREATE is worth a replay (3.3.5.9.10).
const REPLAY_ACCESS: u32 = READ_DATA | EXECUTE | WRITE_DATA | APPEND_DATA | DELETE;

/// How long an open is kept at least, from then on, whose client is back and waits for what it had begun.
const PATIENCE_MIN: Duration = Duration::from_secs(10);
/// So many opens of an application instance are looked at before others have their turn.
const INSTANCE_OPENS_AT_ONCE: usize = 64;

/// How a CREATE goes on.
pub(super) enum Begun {
    /// It is done: it took up an open that there was.
    Answered(Reply),
    /// It opens something.
    Goes(Wish),
}

/// What a CREATE that opens something wants its open to be.
pub(super) struct Wish {
    client: Guid,
    making: Making,
    /// DHnQ is there.
    first: bool,
    second: Option<DurableRequestV2>,
    reservation: Option<Reservation>,
}

/// What an application has open that fails over to another client.
pub(super) struct Former {
    instance: Guid,
    /// Where it is now.
    client: Guid,
    version: Option<AppInstanceVersion>,
}

/// The contexts that this file is about, as the connection's dialect has them.
struct Asked {
    first: bool,
    second: Option<DurableRequestV2>,
    reconnect: Option<Reconnect>,
    instance: Option<AppInstanceId>,
    version: Option<AppInstanceVersion>,
    lease: Option<Lease>,
}

/// DHnC or DH2C.
struct Reconnect {
    open: OpenId,
    second: Option<(Guid, DurableFlags)>,
}

impl Asked {
    fn read(contexts: &CreateContexts<'_>, dialect: Dialect) -> Result<Self, Refusal> {
        let with_dialect = |known: Dialect, name: &[u8]| contexts.find(name).filter(|_| dialect >= known);
        let third = |name: &[u8]| with_dialect(Dialect::SMB_3_0, name);
        let first = contexts.find(name::DURABLE_HANDLE_REQUEST);
        if first.is_some_and(|data| data.len() < DURABLE_REQUEST_BYTES) {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let first_reconnect =
            contexts.find(name::DURABLE_HANDLE_RECONNECT).map(DurableReconnect::decode).transpose()?;
        let second = third(name::DURABLE_HANDLE_REQUEST_V2).map(DurableRequestV2::decode).transpose()?;
        let second_reconnect = third(name::DURABLE_HANDLE_RECONNECT_V2).map(DurableReconnectV2::decode).transpose()?;
        let firsts = usize::from(first.is_some() || first_reconnect.is_some());
        // Only DHnQ and DHnC go together, and then DHnC counts (3.3.5.9.6, .7, .10, .12).
        if firsts + usize::from(second.is_some()) + usize::from(second_reconnect.is_some()) > 1 {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let of_second = second_reconnect.map(|reconnect| Reconnect {
            open: OpenId(reconnect.file_id.persistent),
            second: Some((reconnect.create_guid, reconnect.flags)),
        });
        let of_first =
            first_reconnect.map(|reconnect| Reconnect { open: OpenId(reconnect.file_id.persistent), second: None });
        let versioned = with_dialect(Dialect::SMB_3_1_1, name::APP_INSTANCE_VERSION);
        Ok(Asked {
            first: first.is_some(),
            second,
            reconnect: of_second.or(of_first),
            instance: third(name::APP_INSTANCE_ID).map(AppInstanceId::decode).transpose()?,
            version: versioned.map(AppInstanceVersion::decode).transpose()?,
            lease: with_dialect(Dialect::SMB_2_1, name::LEASE).map(Lease::decode).transpose()?,
        })
    }
}

/// Takes up an open that there was, where the request means one, or makes ready for opening.
pub(super) async fn begin(context: &Context, request: &CreateRequest<'_>) -> Result<Begun, Refusal> {
    let asked = Asked::read(&request.contexts, context.session()?.dialect)?;
    let client = context.connection.negotiation.borrow().client_guid;
    if let Some(reconnect) = &asked.reconnect {
        return Box::pin(reconnect.take_up(context, request, &asked, client)).await.map(Begun::Answered);
    }
    let mut reservation = None;
    if let Some(second) = &asked.second {
        check_turn(context, second.create_guid)?;
        let server = context.server();
        match server.durables.claim((client, second.create_guid), |id, link| server.open_of(id, link)) {
            Claimed::Ours(ours) => {
                reservation = Some(ours);
                context.in_flight.outlive_connection();
            }
            Claimed::UnderWay if context.replay => return Err(Status::FILE_NOT_AVAILABLE.into()),
            Claimed::UnderWay => return Err(Status::DUPLICATE_OBJECTID.into()),
            Claimed::Done(open) => match judge(context, &open)? {
                Again::Replay => {
                    let replayed = replay(context, request, &open, second, asked.lease.as_ref());
                    return Box::pin(replayed).await.map(Begun::Answered);
                }
                Again::Reconnect => {}
            },
        }
    }
    if !context.server().durables.are_persistent_ones_back()
        && let Some((open, reply)) = Box::pin(meet_persistent(context, request, &asked, client)).await?
    {
        if let Some(reservation) = reservation {
            reservation.done(&open);
        }
        return Ok(Begun::Answered(reply));
    }
    let making = Making {
        create: asked.second.map(|second| second.create_guid),
        instance: asked.instance.map(|instance| instance.id),
        version: asked.version.filter(|_| asked.instance.is_some()),
        asked: (request.desired_access.0, request.share_access.0, request.options.0),
        action: CreateAction::OPENED,
    };
    Ok(Begun::Goes(Wish { client, making, first: asked.first, second: asked.second, reservation }))
}

/// Refuses a CREATE that comes after a replay of its own (3.2.4.1.7), as one is that comes beside it: what it was to do is done, and its client
/// has gone on. The specification says nothing of it once the open was used (3.3.5.9.10).
fn check_turn(context: &Context, create: Guid) -> Result<(), Refusal> {
    let (session, is_replay) = (context.session()?, context.replay);
    let attempt = Attempt { create, sequence: context.channel_sequence, is_replay };
    match (session.replayed.is_late(attempt, &session.budgets), is_replay) {
        (false, _) => Ok(()),
        (true, true) => Err(Status::FILE_NOT_AVAILABLE.into()),
        (true, false) => Err(Status::DUPLICATE_OBJECTID.into()),
    }
}

impl Wish {
    /// Which opens it takes the place of.
    pub(super) fn former(&self) -> Option<Former> {
        let (client, version) = (self.client, self.making.version);
        self.making.instance.map(|instance| Former { instance, client, version })
    }

    /// CreateOptions of the open. On a continuously available share everything is written through (3.3.5.9).
    pub(super) fn options(&self, context: &Context, asked: CreateOptions) -> u32 {
        if context.writes_through() { (asked | CreateOptions::WRITE_THROUGH).0 } else { asked.0 }
    }

    fn may_persist(&self, context: &Context, file: &FileOpen) -> bool {
        file.kind != Kind::Directory && context.writes_through()
    }

    /// The open's part.
    pub(super) fn durability(&self, context: &Context, action: CreateAction) -> Durability {
        Durability::new(self.client, Making { action, ..self.making }, &context.server().durables)
    }

    /// Grants what can be granted to the open that was made, and says so ("Successful Open Initialization" of 3.3.5.9.6 and
    /// 3.3.5.9.10).
    pub(super) async fn grant(&mut self, context: &Context, open: &Arc<Open>, answer: &mut CreateContextsBuilder) {
        let Target::File(file) = &open.target else { return };
        context.server().durables.note_instance(open);
        let keeps = file.kind != Kind::Directory && file.file.caching_of(open.id).keeps();
        if let Some(second) = &self.second {
            if file.kind != Kind::Directory && open.granted.has_any(REPLAY_ACCESS) {
                file.durability.allow_replay();
            }
            let persistent = second.flags.contains(DurableFlags::PERSISTENT) && self.may_persist(context, file);
            if persistent && Box::pin(make_persistent(context, open, timeout(second))).await || keeps {
                if !file.durability.keeping().is_persistent() {
                    file.durability.keep(Keeping::Durable(timeout(second)));
                }
                answer.add(name::DURABLE_HANDLE_REQUEST_V2, &response(file).to_bytes());
            }
        } else if self.first && keeps {
            file.durability.keep(Keeping::Durable(TIMEOUT_V1));
            answer.add(name::DURABLE_HANDLE_REQUEST, &DURABLE_RESPONSE);
        }
        note_growth(context, file).await;
        if let Some(reservation) = self.reservation.take() {
            reservation.done(open);
        }
    }
}

/// Persists a persistent open before its client is told of it. Where that fails it stays a durable one.
async fn make_persistent(context: &Context, open: &Arc<Open>, timeout: Duration) -> bool {
    let Target::File(file) = &open.target else { return false };
    // Whoever renames the file looks once which opens are recorded, before it has another name: this one is, or is by the new name.
    let alone = match NameChange::begin(&file.file, context.queue_key().user) {
        Ok(begun) => begun,
        // It is not cancelled: the open is made, and its client may ask for it again on another channel.
        Err(turn) => match turn.await {
            Ok(begun) => begun,
            Err(_) => return false,
        },
    };
    context.in_flight.keep_others_waiting();
    file.durability.keep(Keeping::Persistent(timeout));
    file.file.note_recorded(open);
    let (durables, recorded) = (Arc::clone(&context.server().durables), Arc::clone(open));
    let record = move || {
        let _alone = alone;
        durables.write_record(&recorded)
    };
    match context.on_own_folder(record).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::error!(name: "persistent_open_not_recorded", %error, share = %open.tree.share, "an open cannot be recorded, so it is not persistent");
            file.durability.keep(Keeping::Not);
            false
        }
        Err(_) => {
            file.durability.keep(Keeping::Not);
            false
        }
    }
}

/// "Whichever is smaller, the Timeout value in the request or 300 seconds" (3.3.5.9.10).
fn timeout(second: &DurableRequestV2) -> Duration {
    match second.timeout_milliseconds {
        0 => TIMEOUT_V2,
        asked => Duration::from_millis(asked.into()).min(TIMEOUT_V2_MAX),
    }
}

/// The DH2Q context of a response.
fn response(file: &FileOpen) -> DurableResponseV2 {
    let keeping = file.durability.keeping();
    let flags = if keeping.is_persistent() { DurableFlags::PERSISTENT } else { DurableFlags::NONE };
    let timeout_milliseconds = u32::try_from(keeping.timeout().as_millis()).unwrap_or(u32::MAX);
    DurableResponseV2 { timeout_milliseconds, flags }
}

/// What a CREATE with the guid of an open may be.
enum Again {
    Replay,
    /// The open is persistent and waits for its client.
    Reconnect,
}

fn judge(context: &Context, open: &Open) -> Result<Again, Refusal> {
    let durability = &open.file()?.durability;
    let connected = open.line.session().is_some();
    match (durability.is_replayable(), durability.keeping().is_persistent()) {
        (true, _) if !context.replay => Err(Status::DUPLICATE_OBJECTID.into()),
        (_, true) if !connected => Ok(Again::Reconnect),
        (true, _) => Ok(Again::Replay),
        (false, _) => Err(Status::FILE_NOT_AVAILABLE.into()),
    }
}

/// The CREATE that made this open comes again: its client did not get the answer.
async fn replay(
    context: &Context,
    request: &CreateRequest<'_>,
    open: &Arc<Open>,
    second: &DurableRequestV2,
    lease: Option<&Lease>,
) -> Outcome {
    let session = context.session()?;
    let file = open.file()?;
    let held = file.file.caching_of(open.id);
    if open.user.sid() != session.user.load().sid() {
        return Err(Status::ACCESS_DENIED.into());
    }
    // Windows also minds a lease that is asked for where there is an oplock.
    let leased = request.oplock_level == OplockLevel::LEASE;
    if key(held) != lease.filter(|_| leased).map(|lease| lease.lease_key) {
        return Err(Status::ACCESS_DENIED.into());
    }
    if session.open(open.id).is_none() {
        return Err(Status::DUPLICATE_OBJECTID.into());
    }
    let keeping = file.durability.keeping();
    if keeping.is_persistent() && !second.flags.contains(DurableFlags::PERSISTENT) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let told = file.file.granted_to(open.id);
    let mut contexts = lease_context(told);
    // Like Windows: the client is told the oplock that it asks for this time, and of durability where that bears it. But not one that it has lost
    // by now: nothing would tell it.
    let level = if told == Granted::Nothing { OplockLevel::NONE } else { request.oplock_level };
    let bears = leased || level == OplockLevel::BATCH || keeping.is_persistent();
    if keeping != Keeping::Not && bears {
        contexts.add(name::DURABLE_HANDLE_REQUEST_V2, &response(file).to_bytes());
    }
    answer(context, open, told, (level, file.durability.making().action), &contexts).await
}

/// What a CREATE meets where a persistent open waits for its client: that open where the CREATE made it ("Create Context Validation"),
/// else a file that is not available.
async fn meet_persistent(
    context: &Context,
    request: &CreateRequest<'_>,
    asked: &Asked,
    client: Guid,
) -> Result<Option<(Arc<Open>, Reply)>, Refusal> {
    let durables = &context.server().durables;
    if context.session()?.dialect < Dialect::SMB_3_0 {
        return Ok(None);
    }
    let share = &context.tree()?.share;
    let second = asked.second.filter(|second| second.flags.contains(DurableFlags::PERSISTENT));
    let Some(open) = second.and_then(|second| durables.find_persistent(share, second.create_guid)) else {
        let name = request.name.decode().unwrap_or_default();
        let in_the_way = durables.waits_on(share, &name);
        return if in_the_way { Err(Status::FILE_NOT_AVAILABLE.into()) } else { Ok(None) };
    };
    let granted = granted_again(context, &open)?;
    let file = open.file()?;
    let making = file.durability.making();
    if making.asked != (request.desired_access.0, request.share_access.0, request.options.0) {
        return Err(Status::CONTEXT_MISMATCH.into());
    }
    let held = file.file.caching_of(open.id);
    if held.lease.is_some_and(|lease| lease.client != client) {
        // As where it is reclaimed (3.3.5.9.12): breaks of its lease are told to the client that the lease is of.
        return Err(Status::FILE_NOT_AVAILABLE.into());
    }
    let lease = asked.lease.as_ref().filter(|lease| key(held) == Some(lease.lease_key));
    let (open, told) = hand_over(context, &open, granted, lease).await?;
    let mut contexts = lease_context(told);
    contexts.add(name::DURABLE_HANDLE_REQUEST_V2, &response(open.file()?).to_bytes());
    let reply = answer(context, &open, told, (super::level(told), making.action), &contexts).await?;
    Ok(Some((open, reply)))
}

/// An application that failed over to another client takes the place of what it had open there (3.3.5.9.13), once it is known that it may open
/// the file. The documents have whoever may read the file end such opens. An id is no secret: here they have to be the same user's, but for the
/// holder of an account's key.
pub(super) async fn end_former(context: &Context, former: &Former, plan: &Plan) -> Result<(), Refusal> {
    let server = context.server();
    let (share, user) = (&context.tree()?.share, context.session()?.user.load());
    let name = OpenPath::of_stream(plan.path.clone(), plan.stream.as_deref().unwrap_or_default()).name();
    let mut refused = None;
    let opens = server
        .durables
        .of_instance((former.instance, former.client), (&**share, &*name), |id, link| server.open_of(id, link));
    for (number, open) in opens.enumerate() {
        if number % INSTANCE_OPENS_AT_ONCE == INSTANCE_OPENS_AT_ONCE - 1 {
            context.connection.turn.another().await;
        }
        context.in_flight.note_done_here(LOOK_COST as u64);
        if !user.has_full_control() && !open.user.is_same(&user) {
            continue;
        }
        let file = open.file()?;
        if let Some(theirs) = file.durability.making().version
            && former.version.is_none_or(|ours| theirs >= ours)
        {
            return Err(Status::FILE_FORCED_CLOSED.into());
        }
        if refused == Some(file.node.identity()) {
            continue;
        }
        let path = file.path.now();
        let rights = match context.read_rights_in(&open.tree, file.base(), &path).await {
            // A program has moved it out of the share.
            Err(refusal) if refusal.status == Status::FILE_INVALID => Rights::NONE,
            read => read?,
        };
        if may_look(&user, context.tree()?.access_max(), FILE_GENERIC_READ, &|| Ok(rights)) {
            close(context, &open).await?;
        } else {
            // As it will be for the others of the file.
            refused = Some(file.node.identity());
        }
    }
    Ok(())
}

/// Closes an open, whoever has it (3.3.4.17).
async fn close(context: &Context, open: &Arc<Open>) -> Result<(), Refusal> {
    let server = Arc::clone(context.server());
    if let Some(open) = server.take_open(open.id, &open.line) {
        open.end.say(AuditEnd::AppInstance);
        server.close_soon(vec![open]).await;
    }
    Ok(())
}

impl Reconnect {
    /// Gives a disconnected open to the session that asks for it, if that is its client's.
    async fn take_up(&self, context: &Context, request: &CreateRequest<'_>, asked: &Asked, client: Guid) -> Outcome {
        let open = self.find(context)?;
        let file = open.file()?;
        if *open.tree.share != *context.tree()?.share {
            return Err(Status::OBJECT_NAME_NOT_FOUND.into());
        }
        let held = file.file.caching_of(open.id);
        self.check(file, held, asked.lease.as_ref(), client)?;
        let name = request.name.decode().unwrap_or_default();
        let stays = !file.delete_on_close.load(std::sync::atomic::Ordering::Relaxed);
        let is_named = |known: &str| fold(&name) == fold(known);
        if held.lease.is_some() && stays && !is_named(&file.name()) && !file.durability.may_be_named(is_named) {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let claims_persistence = self.second.is_some_and(|(_, flags)| flags.contains(DurableFlags::PERSISTENT));
        if claims_persistence && !file.durability.keeping().is_persistent() {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let granted = granted_again(context, &open)?;
        let (open, told) = hand_over(context, &open, granted, asked.lease.as_ref()).await?;
        tracing::debug!(open = open.id.0, user = %open.user.name, share = %open.tree.share, "an open was reclaimed");
        answer(context, &open, told, (super::level(told), CreateAction::OPENED), &lease_context(told)).await
    }

    fn find(&self, context: &Context) -> Result<Arc<Open>, Status> {
        let durables = &context.server().durables;
        let by_guid = || {
            let (create, flags) = self.second?;
            let persistent = flags.contains(DurableFlags::PERSISTENT);
            if persistent { durables.find_persistent(&context.tree.as_ref()?.share, create) } else { None }
        };
        durables.find(self.open).or_else(by_guid).ok_or(Status::OBJECT_NAME_NOT_FOUND)
    }

    /// The conditions that 3.3.5.9.7 and 3.3.5.9.12 answer with OBJECT_NAME_NOT_FOUND.
    fn check(&self, file: &FileOpen, held: Held, lease: Option<&Lease>, client: Guid) -> Result<(), Status> {
        let keeping = file.durability.keeping();
        let other_client = held.lease.is_some() && file.durability.client != client;
        let other_lease = key(held) != lease.map(|lease| lease.lease_key);
        // An open without a create guid comes back by a nil one.
        let made = file.durability.making().create.unwrap_or_default();
        let other_create = self.second.is_some_and(|(create, _)| create != made);
        let asks_persistence = self.second.is_some_and(|(_, flags)| flags.contains(DurableFlags::PERSISTENT));
        let lost = match keeping {
            Keeping::Not => true,
            Keeping::Durable(_) => !held.caches_handles(),
            Keeping::Resilient(_) => false,
            // "Windows 8 … continue to process the request" (note 349).
            Keeping::Persistent(_) => !asks_persistence && !held.caches_handles(),
        };
        if other_client || other_lease || other_create || lost {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        Ok(())
    }
}

/// What the user of this session has of an open that was lost: all of it, where it is its own.
fn granted_again(context: &Context, lost: &Open) -> Result<GrantedAccess, Refusal> {
    let user = context.session()?.user.load();
    let way = Way::Again { owner: lost.user.sid(), granted: lost.granted };
    let share_max = context.tree()?.access_max();
    authorize(&Request { user: &user, share_max, desired: 0, deletes_on_close: false, way })
}

/// Makes the open of a lost client one of this session: "set Open.Connection, Open.Session, Open.TreeConnect" (3.3.5.9.7). Gives what the
/// client is told that it caches.
async fn hand_over(
    context: &Context,
    lost: &Arc<Open>,
    granted: GrantedAccess,
    lease: Option<&Lease>,
) -> Result<(Arc<Open>, Granted), Refusal> {
    let (session, tree) = (context.session()?, context.tree()?);
    let Target::File(file) = &lost.target else { return Err(Status::OBJECT_NAME_NOT_FOUND.into()) };
    let target = Target::File(Arc::clone(file));
    let user = session.user.load_full();
    let open = Open::new(lost.id, Arc::clone(&lost.line), user, Arc::clone(tree), target, granted);
    let open = open.called_from(&context.connection.caller).speaking_for(lost.speaker.clone());
    let (open, durables) = (Arc::new(open), &context.server().durables);
    come_behind_changes(context, lost).await?;
    durables.reclaim(lost, session.state())?;
    if file.durability.keeping().is_persistent() {
        // Whoever renames the file has the record of this one written anew.
        file.file.note_recorded(&open);
    }
    let (told, has_changed) = file.file.come_back(open.id, lease);
    if let Err(status) = session.add_open(Arc::clone(&open)) {
        // The session ended meanwhile: the open goes on waiting, where its user may still sign in.
        let rest = context.server().keep_waiting(vec![open]);
        context.server().close_on_pool(rest);
        return Err(status.into());
    }
    if has_changed {
        // A record that says more does no harm: nobody gets more back than its client asks for.
        let _ = note_change(context, &open).await;
    }
    Ok((open, told))
}

/// Waits until what was begun through the open before its session was lost is made: what its client writes from now on comes behind it. Meanwhile the open
/// is kept, however long its device hangs. The channel sequence (3.3.5.2.10) does not tell: it is of a session.
async fn come_behind_changes(context: &Context, lost: &Arc<Open>) -> Result<(), Refusal> {
    let durables = &context.server().durables;
    let mut settled = durables.settled(lost).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    if settled.has_changed().is_err() {
        return Ok(());
    }
    // In the middle of a chain only CREATE has an interim answer: else the client has to be patient.
    let _ = context.in_flight.announce_wait();
    let patience = lost.file()?.durability.keeping().timeout().max(PATIENCE_MIN);
    loop {
        durables.wait_longer(lost.id, patience)?;
        tokio::select! {
            biased;
            _ = settled.changed() => break,
            () = context.in_flight.cancelled() => return Err(Status::CANCELLED.into()),
            () = tokio::time::sleep(patience / 2) => {}
        }
    }
    context.asker()?.check_stays()?;
    Ok(())
}

/// The key of the lease that an open has.
fn key(held: Held) -> Option<Guid> {
    held.lease.map(|lease| lease.key)
}

/// The lease of an open as its response has it.
fn lease_context(told: Granted) -> CreateContextsBuilder {
    let mut builder = CreateContextsBuilder::new();
    if let Granted::Lease(lease) = told {
        builder.add(name::LEASE, &lease.to_bytes());
    }
    builder
}

/// The response for an open that there was ("Response Construction"), which says that the open has what it is `told`.
async fn answer(
    context: &Context,
    open: &Arc<Open>,
    told: Granted,
    (oplock_level, action): (OplockLevel, CreateAction),
    contexts: &CreateContextsBuilder,
) -> Outcome {
    let of = Arc::clone(open);
    let known = context.work_at(&*open.file()?.node, 0, move || of.file().map(attributes::of)).await???;
    let returned = Some(Box::new(Returned { open: Arc::clone(open), told }));
    Ok(Reply { returned, ..super::reply(open, &known, (oplock_level, action), contexts) })
}
