//! The client's end of SPNEGO around the client's end of NTLM.

use std::fmt;

use wire::ids::FileTime;

use super::token::{NegState, NegTokenResp, Token, init, mech_type_list};
use crate::ntlm::{self, Credentials, Fresh, SessionSecurity};
use crate::{LogonFailure, Secret};

/// The client's end of one authentication: [`begin`](Self::begin), [`answer`](Self::answer), [`finish`](Self::finish).
#[derive(Debug)]
pub struct Initiator {
    state: State,
}

enum State {
    Begun(ntlm::Initiator),
    Answered { security: Box<SessionSecurity>, session_key: Secret },
    Finished,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Begun(_) => "Begun",
            State::Answered { .. } => "Answered",
            State::Finished => "Finished",
        })
    }
}

impl Initiator {
    /// Begins, and gives the first token to send.
    pub fn begin() -> (Self, Vec<u8>) {
        let ntlm = ntlm::Initiator::new();
        let token = init(ntlm.negotiate());
        (Initiator { state: State::Begun(ntlm) }, token)
    }

    /// Answers the server's challenge. `now` is used when the server tells no time. The session key is what [`session_key`](Self::session_key)
    /// gives from here on.
    pub fn answer(
        &mut self,
        token: &[u8],
        credentials: &Credentials,
        now: FileTime,
        fresh: &Fresh,
    ) -> Result<Vec<u8>, LogonFailure> {
        let State::Begun(ntlm) = std::mem::replace(&mut self.state, State::Finished) else {
            return Err(LogonFailure::OutOfOrder);
        };
        let response = response(token)?;
        if response.supports_ntlmssp == Some(false) {
            return Err(LogonFailure::NoCommonMechanism);
        }
        let challenge = response.response_token.ok_or(LogonFailure::Malformed("responseToken"))?;
        let mut established = ntlm.authenticate(challenge, credentials, now, fresh)?;
        let mic = established.security.mic(&mech_type_list());
        let answer = NegTokenResp {
            neg_state: Some(NegState::AcceptIncomplete),
            response_token: Some(&established.message),
            mech_list_mic: Some(&mic),
            ..NegTokenResp::default()
        };
        let encoded = answer.encode();
        self.state = State::Answered { security: Box::new(established.security), session_key: established.session_key };
        Ok(encoded)
    }

    /// ExportedSessionKey, once the challenge is answered: the server's last message is signed with keys derived from
    /// it.
    pub fn session_key(&self) -> Option<Secret> {
        match &self.state {
            State::Answered { session_key, .. } => Some(session_key.clone()),
            State::Begun(_) | State::Finished => None,
        }
    }

    /// Checks the server's last token: that it accepts, and that nobody changed our offer when it says so. A server
    /// may leave its code out: with one mechanism there was nothing to choose.
    pub fn finish(mut self, token: &[u8]) -> Result<Secret, LogonFailure> {
        let State::Answered { security, session_key } = &mut self.state else {
            return Err(LogonFailure::OutOfOrder);
        };
        let response = response(token)?;
        if response.neg_state != Some(NegState::AcceptCompleted) {
            return Err(LogonFailure::OutOfOrder);
        }
        match response.mech_list_mic {
            Some(mic) if !security.verify_mic(&mech_type_list(), mic) => Err(LogonFailure::BadMechListMic),
            Some(_) | None => Ok(session_key.clone()),
        }
    }
}

fn response(token: &[u8]) -> Result<NegTokenResp<'_>, LogonFailure> {
    match Token::decode(token)? {
        Token::Init(_) => Err(LogonFailure::OutOfOrder),
        Token::Resp(NegTokenResp { neg_state: Some(NegState::Reject), .. }) => Err(LogonFailure::RefusedByPeer),
        Token::Resp(response) => Ok(response),
    }
}
