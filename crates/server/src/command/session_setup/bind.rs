//! Binding a session to one more connection (MS-SMB2 3.3.5.5, 3.3.5.5.3). Until it succeeds nothing of the session changes.

use std::sync::Arc;

use secure::kdf::{Derivation, channel_signing_key};
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Acceptor;
use wire::header::{Flags, Header};
use wire::ids::Dialect;
use wire::status::Status;

use super::{Finished, Purpose, SETUPS_MAX, SetupInProgress, body, session_flags};
use crate::command::context::{Context, Outcome, Reply};
use crate::state::configuration::Configuration;
use crate::state::counters::happened;
use crate::state::multichannel;
use crate::state::session::Session;

/// Goes on with a binding, or begins one.
pub(super) fn begin(
    context: &Context,
    configuration: &Configuration,
    message: &[u8],
) -> Result<SetupInProgress, Status> {
    let id = context.session_id;
    let session = judge(context, configuration, message)?;
    let mut setups = context.connection.setups.borrow_mut();
    match setups.get(&id).map(|setup| &setup.purpose) {
        Some(Purpose::Bind(bound)) if Arc::ptr_eq(bound, &session) => {}
        Some(Purpose::Bind(_) | Purpose::Begin(_) | Purpose::Renew { .. }) => return Err(Status::REQUEST_NOT_ACCEPTED),
        None if setups.len() >= SETUPS_MAX => return Err(Status::INSUFFICIENT_RESOURCES),
        None => {}
    }
    match setups.remove(&id) {
        Some(setup) => Ok(setup),
        None => SetupInProgress::new(context, Purpose::Bind(session), Acceptor::new()),
    }
}

/// The table of 3.3.5.5, in its order. It says nothing of algorithms: there Windows' answers are given, as Samba's test suite has them.
fn judge(context: &Context, configuration: &Configuration, message: &[u8]) -> Result<Arc<Session>, Status> {
    let negotiation = context.connection.negotiation.borrow();
    let dialect = negotiation.dialect().unwrap_or_default();
    if !multichannel::is_anywhere(configuration) {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    let is_signed = Header::decode(message).is_ok_and(|header| header.flags.contains(Flags::SIGNED));
    let session = find(context, is_signed);
    if let Ok(session) = &session {
        check_gmac(session.signing, negotiation.signing())?;
    }
    if dialect < Dialect::SMB_3_0 {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    let session = session?;
    if session.dialect != dialect || !is_signed || session.cipher() != negotiation.cipher {
        return Err(Status::INVALID_PARAMETER);
    }
    if session.client != negotiation.client_guid {
        return Err(Status::USER_SESSION_DELETED);
    }
    if session.user.load().is_anonymous {
        return Err(Status::NOT_SUPPORTED);
    }
    if context.channel.is_some() || !multichannel::is_for(configuration, &session) {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    if context.proof.binds(&session) { Ok(session) } else { Err(Status::ACCESS_DENIED) }
}

/// The session that is meant (GlobalSessionTable).
fn find(context: &Context, is_signed: bool) -> Result<Arc<Session>, Status> {
    let (sessions, id) = (&context.server().sessions, context.session_id);
    match sessions.find(id).filter(|session| !session.has_ended()) {
        Some(session) => Ok(session),
        None if !sessions.is_beginning(id) => Err(Status::USER_SESSION_DELETED),
        None if is_signed => Err(Status::REQUEST_NOT_ACCEPTED),
        None => Err(Status::INVALID_PARAMETER),
    }
}

/// GMAC and others do not mix in one session. One that signs with GMAC has one channel: the legs of its binds would need message ids as
/// nonces that its key has used (docs/decisions/0001).
fn check_gmac(of_session: SigningAlgorithm, of_connection: SigningAlgorithm) -> Result<(), Status> {
    match (is_gmac(of_session), is_gmac(of_connection)) {
        (true, false) => Err(Status::REQUEST_OUT_OF_SEQUENCE),
        (false, true) => Err(Status::NOT_SUPPORTED),
        (true, true) => Err(Status::REQUEST_NOT_ACCEPTED),
        (false, false) => Ok(()),
    }
}

fn is_gmac(algorithm: SigningAlgorithm) -> bool {
    match algorithm {
        SigningAlgorithm::AesGmac => true,
        SigningAlgorithm::AesCmac | SigningAlgorithm::HmacSha256 => false,
    }
}

impl Finished {
    /// Makes the connection a channel of the session, with a signing key of its own (3.3.5.5.3).
    pub(super) fn bind(
        self,
        context: &Context,
        session: &Arc<Session>,
        configuration: &Configuration,
        token: &[u8],
    ) -> Outcome {
        if session.user.load().sid() != self.user.sid() {
            return Err(Status::NOT_SUPPORTED.into());
        }
        let connection = &context.connection;
        connection.charge_to_user(&session.budgets)?;
        let algorithm = connection.negotiation.borrow().signing();
        let derivation = Derivation::new(session.dialect, &self.preauth);
        let key = SigningKey::new(algorithm, channel_signing_key(derivation, &self.authenticated.session_key[..]));
        let facts = connection.channel_facts(algorithm);
        let (channels_max, placement) = (configuration.settings.channels_max, &context.server().placement);
        connection.add_channel(session.add_channel(key, facts, channels_max, placement)?);
        happened(&context.server().counters.events.channels_bound);
        tracing::info!(name: "channel_added", peer = %connection.peer, session = self.id.0, user = %self.user.name, channels = session.channel_count(), "one more channel");
        if !multichannel::is_for(&context.server().configuration.load(), session) {
            // It was switched off meanwhile, and whoever did that has not seen this channel.
            session.leave_other_channels();
        }
        Ok(Reply { session: Some(self.id), ..Reply::new(body(session_flags(session), token)) })
    }
}
