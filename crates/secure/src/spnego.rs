//! SPNEGO (RFC 4178 with MS-SPNG), both ends, with NTLMSSP as its one mechanism. Tokens of NTLMSSP without SPNEGO around
//! them are understood too: SMB clients may send them as they are.

mod acceptor;
mod initiator;
#[cfg(test)]
mod tests;
mod token;

pub use acceptor::{Acceptor, Env, Step};
pub use initiator::Initiator;
pub use token::{MechTypes, NegState, NegTokenInit, NegTokenResp, TOKEN_LENGTH_MAX, Token, hint};
