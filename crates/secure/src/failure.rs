//! Why a logon failed.

/// Why a client was not let in. It names no secret and says nothing that a log must not hold; the client itself should
/// learn from a wrong password and an unknown user no more than that the logon failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LogonFailure {
    /// The client offers none of our mechanisms.
    #[error("no common authentication mechanism")]
    NoCommonMechanism,
    /// The token is not what it should be at this point. The text names the field.
    #[error("malformed authentication token: {0}")]
    Malformed(&'static str),
    /// The step is out of order: the exchange is over, or has failed before.
    #[error("authentication token out of order")]
    OutOfOrder,
    /// The proof does not fit any of the account's keys.
    #[error("wrong password")]
    WrongPassword,
    /// The name is in an OEM character set, and not in ASCII: which set that is, the client does not say.
    #[error("a name that is not ASCII, in a character set that nobody names")]
    ForeignName,
    /// There is no such account.
    #[error("unknown user")]
    UnknownUser,
    /// No user name, or the client asks for an anonymous logon.
    #[error("anonymous logon")]
    Anonymous,
    /// An NTLMv1 or LM response, which can be cracked at leisure.
    #[error("NTLMv1 or LM response")]
    Ntlm1,
    /// A user name but no NTLMv2 response.
    #[error("no NTLMv2 response")]
    MissingProof,
    /// The client leaves out what it negotiated before, or too much to be safe: Unicode, extended session security,
    /// the key exchange.
    #[error("authentication was downgraded")]
    Downgraded,
    /// The message integrity code over the three NTLM messages is missing or wrong.
    #[error("NTLM message integrity code missing or wrong")]
    BadMic,
    /// The code over SPNEGO's list of mechanisms is missing where it must be, or wrong.
    #[error("SPNEGO mechanism list code missing or wrong")]
    BadMechListMic,
    /// The other end refused the exchange.
    #[error("the peer refused the authentication")]
    RefusedByPeer,
}

impl From<wire::Malformed> for LogonFailure {
    fn from(malformed: wire::Malformed) -> Self {
        LogonFailure::Malformed(malformed.0)
    }
}
