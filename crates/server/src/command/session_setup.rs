//! SESSION_SETUP (MS-SMB2 3.3.5.5): signing in, signing in again, and taking the place of a session that was lost.

#[cfg(test)]
mod anonymous_tests;
mod bind;
#[cfg(test)]
mod bind_tests;
#[cfg(test)]
mod lock_tests;
#[cfg(test)]
mod previous_tests;
#[cfg(test)]
mod throttle_tests;

use std::sync::Arc;
use std::time::SystemTime;

use secure::LogonFailure;
use secure::kdf::{Derivation, SessionKeys};
use secure::ntlm::{Authenticated, Identity, NtHash, Target};
use secure::preauth::PreauthHash;
use secure::spnego::{Acceptor, Env, Step};
use tokio::time::Instant;
use wire::command::negotiate::SecurityMode;
use wire::command::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::ids::{Dialect, FileTime, SessionId};
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::command::setup::{Purpose, SetupInProgress};
use crate::state::audit::AuditEnd;
use crate::state::configuration::{Anonymous, Configuration, Principal, Sealing, Signing, Standing};
use crate::state::counters::happened;
use crate::state::durable::Parting;
use crate::state::lockout::{Candidate, Failed};
use crate::state::login_throttle::{Attempt, TooMany};
use crate::state::refusal::Refusal;
use crate::state::session::{Session, Setup};
use crate::state::sessions::Beginning;
use crate::state::shared::Shared;
use crate::state::user::User;

/// Sign-ins that one connection may have begun and not finished.
const SETUPS_MAX: usize = 64;
/// Sessions of one connection: a terminal server has one for each of its users.
const SESSIONS_OF_CONNECTION_MAX: usize = 1_024;
/// Bytes that a begun sign-in is taken to cost: the tokens that it keeps have less than 3 KiB (`secure`).
const SETUP_BYTES: u64 = 4 << 10;
/// Bytes of a frame that may wait for its turn to be judged; those of real clients have less than 2 KiB.
const WAITING_BYTES_MAX: usize = 8 << 10;
/// Bytes that a request which waits is taken to cost beside its frame.
const WAITING_COST: u64 = 4 << 10;
/// Characters of a name that the log shows.
const LOGGED_CHARS_MAX: usize = 64;

/// Why who is locked is refused.
const LOCKED: &str = "too many wrong passwords have locked it";

pub(crate) async fn handle(context: &Context, message: &[u8]) -> Outcome {
    let request = SessionSetupRequest::decode(message)?;
    let configuration = context.server().configuration.load_full();
    if configuration.settings.sealing == Sealing::Required && context.connection.negotiation.borrow().cipher.is_none() {
        tell_refusal(context, "", "the server wants encryption, and the client has none");
        return Err(Status::ACCESS_DENIED.into());
    }
    let mut server_challenge = [0; 8];
    secure::random(&mut server_challenge)?;
    let (id, mut setup) = if asks_to_bind(&request, context.session_id) {
        (context.session_id, bind::begin(context, &configuration, message)?)
    } else {
        begin(context, &configuration)?
    };
    setup.hash(message);
    let named = setup.acceptor.claimed_user(request.security_buffer).filter(|user| !user.is_empty());
    if let Some(user) = named.as_deref().filter(|_| configuration.audits_sign_in(None)) {
        context.in_flight.note_claimed_user(user);
    }
    let lockout = &context.server().lockout;
    let candidate = named.as_deref().and_then(|user| lockout.candidate(&configuration, user));
    check_lock(context, candidate.as_ref(), named.as_deref())?;
    // The key of an account is taken all the same, and a wrong one is answered at once as for any other name that is locked.
    let mut seems_locked = candidate.as_ref().is_some_and(|candidate| is_locked(context, candidate));
    // Nobody guesses inside the process, and who does elsewhere on the machine is not to keep its parts from each other.
    let attempt = match &named {
        Some(user) if !seems_locked && !context.connection.is_inside() => Some(take_turn(context, user).await?),
        Some(_) | None => None,
    };
    // From here on nothing is waited for until it is judged: threads at the same moment are all that can come past the last attempt.
    check_lock(context, candidate.as_ref(), named.as_deref())?;
    seems_locked |= candidate.as_ref().is_some_and(|candidate| is_locked(context, candidate));
    match setup.step(request.security_buffer, &configuration, server_challenge) {
        Ok(Step::Continue(token)) => {
            context.connection.setups.borrow_mut().insert(id, setup);
            context.connection.note_step();
            Ok(Reply {
                session: Some(id),
                ..Reply::with_status(Status::MORE_PROCESSING_REQUIRED, body(SessionFlags::NONE, &token))
            })
        }
        Ok(Step::Done { token, authenticated }) => {
            if let Some(attempt) = attempt {
                context.server().login_throttle.succeeded(attempt, Instant::now().into_std());
            }
            candidate.iter().for_each(|candidate| lockout.succeeded(candidate));
            let principal = principal(&configuration, &authenticated.identity).ok_or(Status::LOGON_FAILURE)?;
            if let Err((status, reason)) = may_sign_in(principal) {
                tell_refusal(context, &principal.name, reason);
                return Err(status.into());
            }
            let secret = principal.secrets.get(authenticated.key_index);
            let user = User::new(principal, configuration.settings.machine_sid).with_secret(secret);
            let finished = Finished { id, user, authenticated, preauth: setup.preauth };
            match setup.purpose {
                Purpose::Begin(_beginning) => finished.establish(context, &request, &configuration, &token).await,
                Purpose::Renew { .. } => renew(context, finished.user, &token),
                Purpose::Bind(session) => finished.bind(context, &session, &configuration, &token),
            }
        }
        Ok(Step::Anonymous { token }) => match setup.purpose {
            Purpose::Renew { .. } => {
                let user = context.session()?.user.load().anonymous();
                renew(context, user, &token)
            }
            Purpose::Begin(_) | Purpose::Bind(_) => Err(Status::LOGON_FAILURE.into()),
        },
        Err(_) if seems_locked => {
            tell_refusal(context, named.as_deref().unwrap_or(""), LOCKED);
            Err(Status::ACCOUNT_LOCKED_OUT.into())
        }
        Err(failure) => {
            tell_refusal(context, named.as_deref().unwrap_or(""), &failure.to_string());
            candidate.iter().for_each(|candidate| count_failure(context, &configuration, candidate, failure));
            Err(setup.fail(context, failure).into())
        }
    }
}

/// Only who has the password learns how the user stands.
fn may_sign_in(principal: &Principal) -> Result<(), (Status, &'static str)> {
    match principal.standing {
        Standing::Good => Ok(()),
        Standing::Disabled => Err((Status::ACCOUNT_DISABLED, "the user is disabled")),
        Standing::Expired => Err((Status::ACCOUNT_EXPIRED, "the user has expired")),
    }
}

/// Refuses who is locked, whatever the password. Accounts are not.
fn check_lock(context: &Context, candidate: Option<&Candidate>, user: Option<&str>) -> Result<(), Status> {
    if !candidate.is_some_and(|candidate| !candidate.is_account() && is_locked(context, candidate)) {
        return Ok(());
    }
    tell_refusal(context, user.unwrap_or_default(), LOCKED);
    Err(Status::ACCOUNT_LOCKED_OUT)
}

fn is_locked(context: &Context, candidate: &Candidate) -> bool {
    context.server().lockout.is_locked(candidate, Instant::now().into_std())
}

/// Counts a wrong password, and tells the log where that has locked a user.
fn count_failure(context: &Context, configuration: &Configuration, candidate: &Candidate, failure: LogonFailure) {
    if !matches!(failure, LogonFailure::WrongPassword | LogonFailure::UnknownUser) {
        return;
    }
    if context.server().lockout.failed(candidate, Instant::now().into_std()) == Failed::LockedUser
        && let Some(principal) = candidate.principal(configuration)
    {
        let (user, account, seconds) = (&principal.name, &principal.account, candidate.lasting().as_secs());
        tracing::warn!(name: "user_locked", peer = %context.connection.peer, user, account, seconds, "a user is locked: too many wrong passwords");
    }
}

fn tell_refusal(context: &Context, user: &str, reason: &str) {
    happened(&context.server().counters.events.sign_ins_refused);
    let user = shortened(user);
    tracing::info!(name: "sign_in_refused", peer = %context.connection.peer, user, reason, "sign-in refused");
}

/// Waits until an attempt to sign in as `user` may be judged. The wait ends with the connection; meanwhile
/// nothing is held but the request's frame, which is charged and short.
async fn take_turn(context: &Context, user: &str) -> Result<Attempt, Refusal> {
    let (server, connection) = (context.server(), &context.connection);
    let frame_bytes = context.message.held_bytes();
    let begun = server.login_throttle.begin(user, connection.address, Instant::now().into_std());
    let attempt = match begun {
        Ok(attempt) if attempt.wait.is_zero() => return Ok(attempt),
        Ok(attempt) if context.in_flight.may_wait() && frame_bytes <= WAITING_BYTES_MAX => attempt,
        Ok(_) | Err(TooMany) => {
            happened(&server.counters.events.sign_ins_refused);
            tracing::info!(name: "sign_in_throttled", peer = %connection.peer, user = shortened(user), "sign-in refused unjudged: too many have failed");
            return Err(Status::INSUFFICIENT_RESOURCES.into());
        }
    };
    let cost = WAITING_COST + frame_bytes as u64;
    let _held = connection.allowance.budget().charge(cost).ok_or(Status::INSUFFICIENT_RESOURCES)?;
    context.in_flight.unless_cancelled(tokio::time::sleep(attempt.wait)).await?;
    Ok(attempt)
}

/// A name as the log has it, which strangers choose.
fn shortened(name: &str) -> &str {
    name.char_indices().nth(LOGGED_CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}

/// Finds the sign-in that a request goes on with, or begins one: for a new session (3.3.5.5.1), or for one that signs in again.
fn begin(context: &Context, configuration: &Configuration) -> Result<(SessionId, SetupInProgress), Status> {
    let connection = &context.connection;
    let mut setups = connection.setups.borrow_mut();
    match setups.get(&context.session_id).map(|setup| &setup.purpose) {
        Some(Purpose::Bind(_)) => return Err(Status::USER_SESSION_DELETED),
        Some(Purpose::Renew { is_proven }) => check_leg(context, *is_proven)?,
        Some(Purpose::Begin(_)) | None => {}
    }
    if let Some(setup) = setups.remove(&context.session_id) {
        return Ok((context.session_id, setup));
    }
    if setups.len() >= SETUPS_MAX {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let (id, purpose) = match (context.session_id, &context.channel) {
        (SessionId(0), _) => {
            let beginning = Beginning::of(&context.server().sessions);
            (beginning.id(), Purpose::Begin(beginning))
        }
        (id, Some(channel)) => {
            check_leg(context, false)?;
            (id, Purpose::Renew { is_proven: context.proof.is_of(&channel.session) })
        }
        (_, None) => return Err(Status::USER_SESSION_DELETED),
    };
    let acceptor = match (&purpose, configuration.settings.anonymous) {
        (Purpose::Renew { .. }, Anonymous::Reauthentication) => Acceptor::accepting_anonymous(),
        (Purpose::Renew { .. }, Anonymous::Refused) | (Purpose::Begin(_) | Purpose::Bind(_), _) => Acceptor::new(),
    };
    Ok((id, SetupInProgress::new(context, purpose, acceptor)?))
}

/// Refuses a leg of signing in again that its session did not sign or seal (3.3.5.2.4), where the session wants that or did it with the first
/// leg: what somebody else sends neither ends the session nor what its client has begun.
fn check_leg(context: &Context, was_proven: bool) -> Result<(), Status> {
    let session = &context.channel.as_ref().ok_or(Status::USER_SESSION_DELETED)?.session;
    let is_due = was_proven || session.signing_required || session.seal_required;
    if is_due && !context.proof.is_of(session) { Err(Status::ACCESS_DENIED) } else { Ok(()) }
}

/// True where a session is to be bound to this connection. Without a session the flag means nothing (3.3.5.5).
fn asks_to_bind(request: &SessionSetupRequest<'_>, id: SessionId) -> bool {
    request.flags.contains(SessionSetupFlags::BINDING) && id != SessionId(0)
}

impl SetupInProgress {
    /// A session that does not sign in again ends (3.3.5.5.3), unless who failed for it did not prove what the session asks for; one that
    /// was to be bound goes on with the channels it has. Gives what the client is told.
    fn fail(self, context: &Context, failure: LogonFailure) -> Status {
        match (self.purpose, &context.channel, failure) {
            // A LOGOFF with this proof could end it, too.
            (Purpose::Renew { .. }, Some(channel), _) if context.proof.check_session(&channel.session).is_ok() => {
                context.server().end_session(&channel.session, Parting::Expelled, AuditEnd::SignInFailed)
            }
            // The anonymous user is another one than the session's.
            (Purpose::Bind(_), _, LogonFailure::Anonymous) => return Status::NOT_SUPPORTED,
            (Purpose::Renew { .. }, _, _) | (Purpose::Begin(_) | Purpose::Bind(_), _, _) => {}
        }
        status_of(failure)
    }

    /// Its pre-auth hash begins with the connection's own NEGOTIATE.
    fn new(context: &Context, purpose: Purpose, acceptor: Acceptor) -> Result<Self, Status> {
        let held = context.connection.allowance.budget().charge(SETUP_BYTES).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let preauth = context.connection.negotiation.borrow().preauth().clone();
        Ok(SetupInProgress { acceptor, preauth, purpose, _held: held })
    }

    fn step(
        &mut self,
        token: &[u8],
        configuration: &Configuration,
        server_challenge: [u8; 8],
    ) -> Result<Step, LogonFailure> {
        let name = configuration.settings.server_name.to_uppercase();
        let target = Target {
            netbios_computer: name.clone(),
            netbios_domain: name,
            dns_computer: configuration.settings.server_name.to_lowercase(),
            dns_domain: String::new(),
        };
        let env = Env { target: &target, now: FileTime::from(SystemTime::now()), server_challenge };
        self.acceptor.step(token, &env, |identity| {
            let secrets =
                principal(configuration, identity).map(|principal| principal.secrets.as_slice()).unwrap_or_default();
            secrets.iter().map(|secret| NtHash::from_bytes(secret.clone())).collect()
        })
    }
}

/// The principal of a name. The domain is whatever the client's user typed: `AZURE`, `localhost`, the server's name or nothing.
fn principal<'a>(configuration: &'a Configuration, identity: &Identity) -> Option<&'a Principal> {
    let name = store::fold(&identity.user);
    configuration.principals.iter().find(|principal| store::fold(&principal.name) == name)
}

/// A sign-in that was proven.
struct Finished {
    id: SessionId,
    user: User,
    authenticated: Authenticated,
    preauth: PreauthHash,
}

impl Finished {
    async fn establish(
        self,
        context: &Context,
        request: &SessionSetupRequest<'_>,
        configuration: &Configuration,
        token: &[u8],
    ) -> Outcome {
        let id = self.id;
        let previous = request.previous_session_id;
        if previous != SessionId(0) && previous != id {
            end_previous(context, previous, &self.user).await;
        }
        if context.connection.is_gone() {
            // It was lost meanwhile: a session that began on it now would have nobody to end it.
            return Err(Status::USER_SESSION_DELETED.into());
        }
        let session = self.session(context, request, configuration)?;
        let server = context.server();
        server.sessions.add(&session)?;
        check_user(server, &session)?;
        let user = session.user.load();
        let connection = &context.connection;
        let key = session.keys.signing_key(connection.negotiation.borrow().signing());
        let facts = connection.channel_facts(key.algorithm());
        connection.add_channel(session.add_channel(key, facts, 1, &server.placement)?);
        happened(&server.counters.events.sign_ins);
        tracing::info!(name: "signed_in", peer = %connection.peer, session = id.0, user = %user.name, account = %user.account, dialect = %format_args!("{:#06x}", session.dialect.0), "signed in");
        Ok(Reply { session: Some(id), ..Reply::new(body(session_flags(&session), token)) })
    }

    fn session(
        self,
        context: &Context,
        request: &SessionSetupRequest<'_>,
        configuration: &Configuration,
    ) -> Result<Arc<Session>, Status> {
        let negotiation = context.connection.negotiation.borrow();
        let dialect = negotiation.dialect().unwrap_or_default();
        let derivation = match dialect {
            Dialect::SMB_2_0_2 | Dialect::SMB_2_1 => Derivation::Smb2,
            Dialect::SMB_3_0 | Dialect::SMB_3_0_2 => Derivation::Smb30,
            _ => Derivation::Smb311(&self.preauth),
        };
        let keys = SessionKeys::derive(
            secure::Role::Server,
            derivation,
            &self.authenticated.session_key[..],
            negotiation.cipher,
        );
        let settings = &configuration.settings;
        let asked = request.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
            || negotiation.client_security_mode.contains(SecurityMode::SIGNING_REQUIRED);
        let budgets = context.server().budgets.of_user(self.user.sid());
        let held = budgets.session().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        context.connection.charge_to_user(&budgets)?;
        if context.connection.session_count() >= SESSIONS_OF_CONNECTION_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        Ok(Session::new(Setup {
            id: self.id,
            dialect,
            client: negotiation.client_guid,
            signing: negotiation.signing(),
            keys,
            cipher: negotiation.cipher,
            user: self.user.into(),
            signing_required: asked || context.connection.signing(settings) == Signing::Required,
            seal_required: settings.sealing == Sealing::Required,
            budgets,
            first_signed: context.in_flight.message_id.min(context.connection.window.borrow().first_unused()),
            held,
        })
        .into())
    }
}

/// Signs in again (3.3.5.5.2): keys stay, and so does what they protect; what the user may do is renewed. Somebody else gets a session of
/// another's with all that it has open as little as by a bind, and is told the same (3.3.5.5); the session goes on as it was.
fn renew(context: &Context, user: User, token: &[u8]) -> Outcome {
    let session = context.session()?;
    if !session.user.load().is_same(&user) {
        return Err(Status::NOT_SUPPORTED.into());
    }
    tracing::info!(name: "signed_in_again", peer = %context.connection.peer, session = session.id.0, user = %user.name, anonymous = user.is_anonymous, "signed in again");
    let is_somebody = !user.is_anonymous;
    // Whoever waits for a turn to sign in may have been put into other groups meanwhile.
    let configuration = context.server().configuration.load_full();
    let principal = configuration.principals.iter().find(|principal| user.is_still(principal));
    let now = principal.and_then(|principal| user.as_now(principal, configuration.settings.machine_sid));
    session.user.store(now.unwrap_or(user).into());
    if is_somebody {
        check_user(context.server(), session)?;
    }
    context.connection.introduce(session);
    Ok(Reply { session: Some(session.id), ..Reply::new(body(session_flags(session), token)) })
}

/// Ends a session whose user may no longer sign in so, and has it follow what else was changed meanwhile: whoever did that has not seen this
/// user in it.
fn check_user(server: &Arc<Shared>, session: &Arc<Session>) -> Result<(), Status> {
    loop {
        let configuration = server.configuration.load_full();
        let Some(unserved) = session.follow(&configuration) else {
            server.end_session(session, Parting::Expelled, AuditEnd::Configuration);
            return Err(Status::LOGON_FAILURE);
        };
        server.close_unserved(unserved);
        // What was settled by one that was replaced meanwhile may have come after what that one settled.
        if Arc::ptr_eq(&configuration, &server.configuration.load_full()) {
            return Ok(());
        }
    }
}

/// A client that lost its connection names the session it had: that one ends before the new one begins, if it was the same
/// user's (3.3.5.5.3). Its opens are closed first, so that they are in nobody's way; but a disk that hangs does not keep its users
/// from signing in.
async fn end_previous(context: &Context, previous: SessionId, user: &User) {
    let server = context.server().clone();
    let Some(session) = server.sessions.find(previous) else { return };
    if session.user.load().sid() != user.sid() {
        return;
    }
    let rest = server.part(&session, Parting::Lost, AuditEnd::NewSession);
    server.close_soon(rest).await;
}

fn session_flags(session: &Session) -> SessionFlags {
    let sealed = if session.seal_required { SessionFlags::ENCRYPT_DATA } else { SessionFlags::NONE };
    let anonymous = if session.user.load().is_anonymous { SessionFlags::IS_NULL } else { SessionFlags::NONE };
    sealed | anonymous
}

fn body(flags: SessionFlags, token: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    SessionSetupResponse { session_flags: flags, security_buffer: token }.encode(&mut body);
    body
}

/// What a client learns of a failure: a wrong password and an unknown user look alike.
fn status_of(failure: LogonFailure) -> Status {
    match failure {
        LogonFailure::Malformed(_) => Status::INVALID_PARAMETER,
        LogonFailure::NoCommonMechanism
        | LogonFailure::OutOfOrder
        | LogonFailure::WrongPassword
        | LogonFailure::ForeignName
        | LogonFailure::UnknownUser
        | LogonFailure::Anonymous
        | LogonFailure::Ntlm1
        | LogonFailure::MissingProof
        | LogonFailure::Downgraded
        | LogonFailure::BadMic
        | LogonFailure::BadMechListMic
        | LogonFailure::RefusedByPeer => Status::LOGON_FAILURE,
    }
}
