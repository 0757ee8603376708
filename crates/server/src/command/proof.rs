//! What a message proves: whose key opened or verified it (MS-SMB2 3.3.5.2.1.1, 3.3.5.2.4).

use std::rc::Rc;
use std::sync::Arc;

use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest};
use wire::header::{Flags, Header};
use wire::ids::{Command, Dialect, SessionId};
use wire::status::Status;

use crate::command::connection::{Connection, Disconnect};
use crate::state::session::{Channel, Session};
use crate::state::strangers::FRAME_BYTES_MAX_UNKNOWN;

/// The channel whose key opened or verified a message. It is made once for each message, before anything is done for it. A message is
/// carried out in the session that it proves and in no other: a proof says nothing of the other sessions of its connection.
#[derive(Clone)]
pub(crate) enum Proof {
    /// No key was used, or one of a session that is not on this connection.
    Nothing,
    /// It is signed, and not with the key of the channel that it names.
    Forged,
    /// It came in a frame that the session's key opened.
    Sealed(Rc<Channel>),
    /// It is signed with the channel's key. The session may have ended elsewhere: the message id is still the channel's.
    Signed(Rc<Channel>),
    /// It is a leg of a bind, signed with Session.SigningKey. It is the one exception to the rule that a key verifies, and signs answers to, only
    /// message ids that its own channel granted.
    Bind(Rc<Channel>),
}

impl Proof {
    /// What `message` proves, which names `session` itself or through what it is related to. Its message id was granted here. `is_right` says
    /// whether it is signed with a channel's key, where that is known already.
    pub(crate) fn of(
        connection: &Connection,
        header: &Header,
        session: SessionId,
        message: &mut [u8],
        is_right: impl FnOnce(&Rc<Channel>) -> Option<bool>,
    ) -> Proof {
        if !header.flags.contains(Flags::SIGNED) {
            return Proof::Nothing;
        }
        match connection.channel_even_ended(session) {
            Some(channel) if is_right(&channel).unwrap_or_else(|| channel.verify(message)) => Proof::Signed(channel),
            Some(channel) if channel.session.has_ended() => Proof::Nothing,
            Some(_) => Proof::Forged,
            None => Proof::of_bind(connection, header, session, message).unwrap_or(Proof::Nothing),
        }
    }

    /// What a message proves that stood in a frame opened with the key of `channel`. One that names another session ends the connection
    /// (3.3.5.2.1.1), and so does a frame that begins with a related request.
    pub(crate) fn of_sealed(channel: &Rc<Channel>, header: &Header, is_first: bool) -> Result<Proof, Disconnect> {
        let is_related = header.flags.contains(Flags::RELATED_OPERATIONS);
        if is_related && is_first {
            return Err(Disconnect("a sealed frame begins with a related request"));
        }
        if !is_related && header.session_id != channel.session.id {
            return Err(Disconnect("a sealed message names another session than its frame"));
        }
        Ok(Proof::Sealed(Rc::clone(channel)))
    }

    /// The leg of a bind: "the server MUST look up the session in the GlobalSessionTable [...] the server MUST use Session.SigningKey"
    /// (3.3.5.2.4).
    fn of_bind(connection: &Connection, header: &Header, session: SessionId, message: &mut [u8]) -> Option<Proof> {
        let is_bind = header.command == Command::SESSION_SETUP
            && message.len() <= FRAME_BYTES_MAX_UNKNOWN
            && SessionSetupRequest::decode(message)
                .is_ok_and(|request| request.flags.contains(SessionSetupFlags::BINDING));
        if !is_bind {
            return None;
        }
        let session = connection.server.sessions.find(session)?;
        let channel = connection.binding_channel(&session);
        let proven = channel.verify(message) && session.may_answer_bind(header.message_id);
        proven.then(|| Proof::Bind(channel.into()))
    }

    /// True where the message is proven to be of this session.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        self.seals(session) || self.signs(session)
    }

    /// True where the key of this session opened it.
    pub(crate) fn seals(&self, session: &Session) -> bool {
        match self {
            Proof::Sealed(channel) => is_channel_of(channel, session),
            Proof::Nothing | Proof::Forged | Proof::Signed(_) | Proof::Bind(_) => false,
        }
    }

    fn signs(&self, session: &Session) -> bool {
        match self {
            Proof::Signed(channel) => is_channel_of(channel, session),
            Proof::Nothing | Proof::Forged | Proof::Sealed(_) | Proof::Bind(_) => false,
        }
    }

    /// True where this session was found to have signed the leg of a bind.
    pub(crate) fn binds(&self, session: &Arc<Session>) -> bool {
        match self {
            Proof::Bind(channel) => Arc::ptr_eq(&channel.session, session),
            Proof::Nothing | Proof::Forged | Proof::Sealed(_) | Proof::Signed(_) => false,
        }
    }

    /// Refuses what is not as protected as `session` asks for.
    pub(crate) fn check_session(&self, session: &Session) -> Result<(), Status> {
        self.check(session, SealingNeed::required_where(session.seal_required))
    }

    /// Refuses what is not as protected as `session` asks for, or as something in it does that must be sealed (3.3.5.2.4, 3.3.5.2.9,
    /// 3.3.5.2.11). What is proven to be of another session is refused whatever is asked for.
    pub(crate) fn check(&self, session: &Session, sealing: SealingNeed) -> Result<(), Status> {
        let sealing = sealing == SealingNeed::Required && session.dialect >= Dialect::SMB_3_0;
        let enough = match self {
            Proof::Sealed(_) => self.seals(session),
            Proof::Signed(_) => self.signs(session) && !sealing,
            Proof::Nothing => !session.signing_required && !sealing,
            Proof::Forged | Proof::Bind(_) => false,
        };
        if enough { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Who signs the answer, where it goes unsealed: who signed the request, else the channel of a session that wants everything signed
    /// (3.3.4.1.1).
    pub(crate) fn signer<'a>(&'a self, own: Option<&'a Rc<Channel>>) -> Option<&'a Rc<Channel>> {
        match self {
            Proof::Sealed(_) => None,
            Proof::Signed(channel) | Proof::Bind(channel) => Some(channel),
            Proof::Nothing | Proof::Forged => own.filter(|channel| channel.session.signing_required),
        }
    }
}

/// Whether something must be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealingNeed {
    Optional,
    Required,
}

impl SealingNeed {
    /// That of a session, of a tree connect, or of both.
    pub(crate) fn required_where(required: bool) -> Self {
        if required { SealingNeed::Required } else { SealingNeed::Optional }
    }
}

fn is_channel_of(channel: &Channel, session: &Session) -> bool {
    std::ptr::eq(&*channel.session, session)
}
