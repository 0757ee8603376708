//! Why a logon failed.

use std::fmt;

/// Why a client was not let in. It names no secret and says nothing that a log must not hold; the client itself should
/// learn from a wrong password and an unknown user no more than that the logon failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogonFailure {
    /// The client offers none of our mechanisms.
    NoCommonMechanism,
    /// The token is not what it should be at this point. The text names the field.
    Malformed(&'static str),
    /// The step is out of order: the exchange is over, or has failed before.
    OutOfOrder,
    /// The proof does not fit any of the account's keys.
    WrongPassword,
    /// There is no such account.
    UnknownUser,
    /// No user name, or the client asks for an anonymous logon.
    Anonymous,
    /// An NTLMv1 or LM response, which can be cracked at leisure.
    Ntlm1,
    /// A user name but no NTLMv2 response.
    MissingProof,
    /// The client leaves out what it negotiated before, or too much to be safe: Unicode, extended session security,
    /// the key exchange.
    Downgraded,
    /// The message integrity code over the three NTLM messages is missing or wrong.
    BadMic,
    /// The code over SPNEGO's list of mechanisms is missing where it must be, or wrong.
    BadMechListMic,
    /// The other end refused the exchange.
    RefusedByPeer,
}

impl fmt::Display for LogonFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            LogonFailure::NoCommonMechanism => "no common authentication mechanism",
            LogonFailure::Malformed(field) => return write!(f, "malformed authentication token: {field}"),
            LogonFailure::OutOfOrder => "authentication token out of order",
            LogonFailure::WrongPassword => "wrong password",
            LogonFailure::UnknownUser => "unknown user",
            LogonFailure::Anonymous => "anonymous logon",
            LogonFailure::Ntlm1 => "NTLMv1 or LM response",
            LogonFailure::MissingProof => "no NTLMv2 response",
            LogonFailure::Downgraded => "authentication was downgraded",
            LogonFailure::BadMic => "NTLM message integrity code missing or wrong",
            LogonFailure::BadMechListMic => "SPNEGO mechanism list code missing or wrong",
            LogonFailure::RefusedByPeer => "the peer refused the authentication",
        };
        f.write_str(text)
    }
}

impl std::error::Error for LogonFailure {}

impl From<wire::Malformed> for LogonFailure {
    fn from(malformed: wire::Malformed) -> Self {
        LogonFailure::Malformed(malformed.0)
    }
}
