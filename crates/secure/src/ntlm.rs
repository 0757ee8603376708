//! NTLMv2 (MS-NLMP), both ends, connection-oriented. NTLMv1 and LM are refused, and so are clients without extended
//! session security: everything since Windows 2000 has it. Names may be sent in Unicode, or in ASCII as part of an OEM character set. The anonymous user is refused where nobody says
//! otherwise.

mod acceptor;
mod av_pair;
mod hash;
mod initiator;
mod message;
mod response;
mod session_security;
#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, Authenticated, Identity, Target};
pub use av_pair::{AvId, AvPairs};
pub use hash::NtHash;
pub use initiator::{Credentials, Established, Fresh, Initiator};
pub(crate) use message::SIGNATURE;
pub use message::{Authenticate, Challenge, Flags, Negotiate, Text};
pub use session_security::SessionSecurity;
