//! The server's end of SPNEGO around the server's end of NTLM.

use std::fmt;

use wire::ids::FileTime;

use super::token::{NegState, NegTokenInit, NegTokenResp, TOKEN_LENGTH_MAX, Token};
use crate::LogonFailure;
use crate::ntlm::{self, Authenticated, Identity, NtHash, SessionSecurity, Target};

/// The longest list of mechanisms that is taken: that of Windows has some 60 bytes.
const MECH_TYPES_LENGTH_MAX: usize = 1 << 10;

/// What a step needs of the world outside.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// What the server says of itself.
    pub target: &'a Target,
    /// The time, for the challenge.
    pub now: FileTime,
    /// Eight random bytes, fresh for every step.
    pub server_challenge: [u8; 8],
}

/// What comes of a token.
#[derive(Debug)]
pub enum Step {
    /// Send this with STATUS_MORE_PROCESSING_REQUIRED and wait for the next token.
    Continue(Vec<u8>),
    /// The client is who it says; send the token, which may be empty, with STATUS_SUCCESS.
    Done {
        /// The last token.
        token: Vec<u8>,
        /// Who it is.
        authenticated: Authenticated,
    },
    /// The client asks for the anonymous user, which proves nothing and has no key; send the token, which may be empty, with
    /// STATUS_SUCCESS. Only of an acceptor that [accepts it](Acceptor::accepting_anonymous).
    Anonymous {
        /// The last token.
        token: Vec<u8>,
    },
}

/// The server's end of one authentication. A failure ends it: every later step is out of order.
#[derive(Debug, Default)]
pub struct Acceptor {
    state: State,
    anonymous: Anonymous,
}

/// What becomes of a client that asks for MS-NLMP's ANONYMOUS user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Anonymous {
    #[default]
    Refused,
    Accepted,
}

#[derive(Default)]
enum State {
    #[default]
    Start,
    /// NTLMSSP was agreed on, its first message is still to come.
    Agreed(MechList),
    Challenged {
        ntlm: ntlm::Acceptor,
        framing: Framing,
    },
    Finished,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Start => "Start",
            State::Agreed(_) => "Agreed",
            State::Challenged { .. } => "Challenged",
            State::Finished => "Finished",
        })
    }
}

/// What stands around NTLM's messages.
enum Framing {
    Raw,
    Spnego(MechList),
}

/// The client's MechTypeList, and whether it must prove that nobody changed it.
struct MechList {
    encoded: Vec<u8>,
    mic: MicDue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MicDue {
    /// NTLMSSP was the client's first choice: there was nothing to strip.
    WhenSent,
    /// It was not: someone may have taken out our better mechanism's answer.
    Always,
}

impl Acceptor {
    /// An end that has seen nothing yet.
    pub fn new() -> Self {
        Acceptor::default()
    }

    /// An end that has seen nothing yet, and accepts the anonymous user: without a proof, and without a key.
    pub fn accepting_anonymous() -> Self {
        Acceptor { anonymous: Anonymous::Accepted, ..Acceptor::default() }
    }

    /// An end that has sent a challenge recorded elsewhere, to a client whose first choice was NTLMSSP.
    #[cfg(test)]
    pub(crate) fn recorded(ntlm: ntlm::Acceptor, mech_types: Vec<u8>) -> Self {
        let framing = Framing::Spnego(MechList { encoded: mech_types, mic: MicDue::Always });
        Acceptor { state: State::Challenged { ntlm, framing }, ..Acceptor::default() }
    }

    /// The user that the client's next token names, where that is the token which has to prove it. Nothing is proven yet.
    pub fn claimed_user(&self, token: &[u8]) -> Option<String> {
        match &self.state {
            State::Challenged { framing: Framing::Raw, .. } => ntlm::Acceptor::claimed_user(token),
            State::Challenged { framing: Framing::Spnego(_), .. } => {
                ntlm::Acceptor::claimed_user(response(token).ok()?.response_token?)
            }
            State::Start | State::Agreed(_) | State::Finished => None,
        }
    }

    /// Takes the client's next token. `lookup` is asked once the client says who it is; see
    /// [`ntlm::Acceptor::authenticate`].
    pub fn step(
        &mut self,
        token: &[u8],
        env: &Env<'_>,
        lookup: impl FnOnce(&Identity) -> Vec<NtHash>,
    ) -> Result<Step, LogonFailure> {
        if token.len() > TOKEN_LENGTH_MAX {
            self.state = State::Finished;
            return Err(LogonFailure::Malformed("token too long"));
        }
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Start if token.starts_with(&ntlm::SIGNATURE) => self.challenge(token, Framing::Raw, None, env),
            State::Start => self.agree(token, env),
            State::Agreed(list) => {
                let response = response(token)?;
                let negotiate = response.response_token.ok_or(LogonFailure::Malformed("responseToken"))?;
                self.challenge(negotiate, Framing::Spnego(list), None, env)
            }
            State::Challenged { ntlm, framing: Framing::Raw } => {
                let (who, _) = self.anonymous.judge(ntlm, token, lookup)?;
                Ok(who.step(Vec::new()))
            }
            State::Challenged { ntlm, framing: Framing::Spnego(list) } => {
                let response = response(token)?;
                let authenticate = response.response_token.ok_or(LogonFailure::Malformed("responseToken"))?;
                let (who, mut security) = self.anonymous.judge(ntlm, authenticate, lookup)?;
                Ok(who.step(list.complete(&response, &mut security)?))
            }
            State::Finished => Err(LogonFailure::OutOfOrder),
        }
    }

    /// The first token: finds NTLMSSP among the client's mechanisms.
    fn agree(&mut self, token: &[u8], env: &Env<'_>) -> Result<Step, LogonFailure> {
        let Token::Init(NegTokenInit { mech_types, mech_token }) = Token::decode(token)? else {
            return Err(LogonFailure::OutOfOrder);
        };
        // It is kept until the client is known.
        if mech_types.as_bytes().len() > MECH_TYPES_LENGTH_MAX {
            return Err(LogonFailure::Malformed("MechTypeList too long"));
        }
        let (mic, mech_token) = match mech_types.ntlmssp() {
            None => return Err(LogonFailure::NoCommonMechanism),
            Some(0) => (MicDue::WhenSent, mech_token),
            // The optimistic token is for the client's first choice, not for ours.
            Some(_) => (MicDue::Always, None),
        };
        let list = MechList { encoded: mech_types.as_bytes().to_vec(), mic };
        match mech_token {
            Some(negotiate) => self.challenge(negotiate, Framing::Spnego(list), Some(true), env),
            None => {
                let answer = NegTokenResp {
                    neg_state: Some(list.first_state()),
                    supports_ntlmssp: Some(true),
                    ..NegTokenResp::default()
                };
                self.state = State::Agreed(list);
                Ok(Step::Continue(answer.encode()))
            }
        }
    }

    /// NTLM's first message: answers with the challenge. supportedMech "MUST only be present in the first reply from
    /// the target" (RFC 4178 4.2.2).
    fn challenge(
        &mut self,
        negotiate: &[u8],
        framing: Framing,
        supports_ntlmssp: Option<bool>,
        env: &Env<'_>,
    ) -> Result<Step, LogonFailure> {
        let ntlm = ntlm::Acceptor::new(negotiate, env.target, env.now, env.server_challenge)?;
        let answer = match &framing {
            Framing::Raw => ntlm.challenge().to_vec(),
            Framing::Spnego(_) => NegTokenResp {
                neg_state: Some(NegState::AcceptIncomplete),
                supports_ntlmssp,
                response_token: Some(ntlm.challenge()),
                mech_list_mic: None,
            }
            .encode(),
        };
        self.state = State::Challenged { ntlm, framing };
        Ok(Step::Continue(answer))
    }
}

/// Who a client turned out to be.
enum Who {
    Proven(Authenticated),
    Anonymous,
}

impl Who {
    fn step(self, token: Vec<u8>) -> Step {
        match self {
            Who::Proven(authenticated) => Step::Done { token, authenticated },
            Who::Anonymous => Step::Anonymous { token },
        }
    }
}

impl Anonymous {
    /// Judges NTLM's last message.
    fn judge(
        self,
        ntlm: ntlm::Acceptor,
        authenticate: &[u8],
        lookup: impl FnOnce(&Identity) -> Vec<NtHash>,
    ) -> Result<(Who, SessionSecurity), LogonFailure> {
        if self == Anonymous::Accepted
            && let Some(security) = ntlm.anonymous(authenticate)?
        {
            return Ok((Who::Anonymous, security));
        }
        let (authenticated, security) = ntlm.authenticate(authenticate, lookup)?;
        Ok((Who::Proven(authenticated), security))
    }
}

impl MechList {
    fn first_state(&self) -> NegState {
        match self.mic {
            MicDue::WhenSent => NegState::AcceptIncomplete,
            MicDue::Always => NegState::RequestMic,
        }
    }

    /// Judges the list of mechanisms after NTLM's last message; gives the last token.
    fn complete(&self, response: &NegTokenResp<'_>, security: &mut SessionSecurity) -> Result<Vec<u8>, LogonFailure> {
        let mic = match (response.mech_list_mic, self.mic) {
            (Some(mic), MicDue::WhenSent | MicDue::Always) => {
                if !security.verify_mic(&self.encoded, mic) {
                    return Err(LogonFailure::BadMechListMic);
                }
                Some(security.mic(&self.encoded))
            }
            (None, MicDue::Always) => return Err(LogonFailure::BadMechListMic),
            (None, MicDue::WhenSent) => None,
        };
        let answer = NegTokenResp {
            neg_state: Some(NegState::AcceptCompleted),
            mech_list_mic: mic.as_ref().map(|mic| &mic[..]),
            ..NegTokenResp::default()
        };
        Ok(answer.encode())
    }
}

/// A token that is not the first.
fn response(token: &[u8]) -> Result<NegTokenResp<'_>, LogonFailure> {
    match Token::decode(token)? {
        Token::Init(_) => Err(LogonFailure::OutOfOrder),
        Token::Resp(NegTokenResp { neg_state: Some(NegState::Reject), .. }) => Err(LogonFailure::RefusedByPeer),
        Token::Resp(response) => Ok(response),
    }
}
