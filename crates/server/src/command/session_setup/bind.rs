//! Binding a session to one more connection (MS-SMB2 3.3.5.5, 3.3.5.5.3). Until it succeeds nothing of the session changes.

use std::rc::Rc;
use std::sync::Arc;

use secure::kdf::{Derivation, channel_signing_key};
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::command::session_setup::SessionSetupRequest;
use wire::header::{Flags, Header};
use wire::ids::{Dialect, SessionId};
use wire::status::Status;

use super::{Finished, Purpose, SETUPS_MAX, SetupInProgress, asks_to_bind, body, session_flags};
use crate::admin::Estate;
use crate::connection::Connection;
use crate::context::{Context, Outcome, Reply};
use crate::multichannel;
use crate::session::{Channel, Session};

/// What a request speaks with that binds session `id` to this connection: Session.SigningKey, where it is signed with that. The
/// interim and error responses are signed with it too.
pub(crate) fn verify(connection: &Connection, id: SessionId, message: &mut [u8]) -> Option<Rc<Channel>> {
    let is_signed = Header::decode(message).ok()?.flags.contains(Flags::SIGNED);
    if !is_signed || !asks_to_bind(&SessionSetupRequest::decode(message).ok()?, id) {
        return None;
    }
    let session = connection.server.sessions.find(id)?;
    let channel = Channel::to_bind(&session, connection.channel_facts(session.signing));
    channel.verify(message).then(|| Rc::new(channel))
}

/// Goes on with a binding, or begins one.
pub(super) fn begin(context: &Context, estate: &Estate, message: &[u8]) -> Result<SetupInProgress, Status> {
    let id = context.session_id;
    let session = judge(context, estate, message)?;
    let mut setups = context.connection.setups.borrow_mut();
    match setups.get(&id).map(|setup| &setup.purpose) {
        Some(Purpose::Bind(bound)) if Arc::ptr_eq(bound, &session) => {}
        Some(Purpose::Bind(_) | Purpose::Begin(_) | Purpose::Renew) => return Err(Status::REQUEST_NOT_ACCEPTED),
        None if setups.len() >= SETUPS_MAX => return Err(Status::INSUFFICIENT_RESOURCES),
        None => {}
    }
    Ok(setups.remove(&id).unwrap_or_else(|| SetupInProgress::new(context, Purpose::Bind(session))))
}

/// The table of 3.3.5.5, in its order.
fn judge(context: &Context, estate: &Estate, message: &[u8]) -> Result<Arc<Session>, Status> {
    let negotiation = context.connection.negotiation.borrow();
    let dialect = negotiation.dialect().unwrap_or_default();
    if dialect < Dialect::SMB_3_0 || !multichannel::is_anywhere(estate) {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    let is_signed = Header::decode(message).is_ok_and(|header| header.flags.contains(Flags::SIGNED));
    let sessions = &context.server().sessions;
    let Some(session) = sessions.find(context.session_id).filter(|session| !session.has_ended()) else {
        return Err(match (sessions.is_beginning(context.session_id), is_signed) {
            (true, true) => Status::REQUEST_NOT_ACCEPTED,
            (true, false) => Status::INVALID_PARAMETER,
            (false, _) => Status::USER_SESSION_DELETED,
        });
    };
    if session.dialect != dialect || !is_signed {
        return Err(Status::INVALID_PARAMETER);
    }
    if session.client != negotiation.client_guid {
        return Err(Status::USER_SESSION_DELETED);
    }
    if context.channel.is_some() || !multichannel::is_for(estate, &session) {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    if session.cipher() != negotiation.cipher {
        return Err(Status::INVALID_PARAMETER);
    }
    if is_gmac(session.signing) != is_gmac(negotiation.signing()) {
        return Err(Status::NOT_SUPPORTED);
    }
    let verified = context.binding.as_ref().is_some_and(|channel| Arc::ptr_eq(&channel.session, &session));
    if verified { Ok(session) } else { Err(Status::ACCESS_DENIED) }
}

/// GMAC numbers messages as AEADs do: a session's channels have it all or none, like the cipher.
fn is_gmac(algorithm: SigningAlgorithm) -> bool {
    match algorithm {
        SigningAlgorithm::AesGmac => true,
        SigningAlgorithm::AesCmac | SigningAlgorithm::HmacSha256 => false,
    }
}

impl Finished {
    /// Makes the connection a channel of the session, with a signing key of its own (3.3.5.5.3).
    pub(super) fn bind(self, context: &Context, session: &Arc<Session>, estate: &Estate, token: &[u8]) -> Outcome {
        if session.user.load().sid() != self.user.sid() {
            return Err(Status::NOT_SUPPORTED.into());
        }
        let connection = &context.connection;
        let algorithm = connection.negotiation.borrow().signing();
        let derivation = Derivation::new(session.dialect, &self.preauth);
        let key = SigningKey::new(algorithm, channel_signing_key(derivation, &self.authenticated.session_key));
        let facts = connection.channel_facts(algorithm);
        connection.add_channel(session.add_channel(key, facts, estate.settings.channels_max)?);
        tracing::info!(peer = %connection.peer, session = self.id.0, "one more channel");
        Ok(Reply { session: Some(self.id), ..Reply::new(body(session_flags(session), token)) })
    }
}
