//! DCE/RPC over a named pipe (C706, MS-RPCE), and of its interfaces the few calls that clients make of a file server:
//! listing shares and what is in use (MS-SRVS), asking who the server is (MS-SRVS, MS-WKST), and who its people are (MS-LSAT, MS-SAMR).

mod access;
mod ndr;
mod syntax;
mod well_known;

pub mod client;
#[cfg(feature = "fake-server")]
pub mod fake;
pub mod handles;
pub mod lsarpc;
pub mod names;
pub mod pdu;
pub mod samr;
pub mod server;
pub mod service;
pub mod srvsvc;
pub mod wkssvc;

pub use ndr::Syntax;
pub use syntax::SyntaxId;
