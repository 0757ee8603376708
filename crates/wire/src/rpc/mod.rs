//! DCE/RPC over a named pipe (C706, MS-RPCE), and of its interfaces the few calls that clients make of a file server:
//! listing shares (MS-SRVS) and asking who the server is (MS-SRVS, MS-WKST).

mod ndr;
mod syntax;

pub mod client;
pub mod pdu;
pub mod server;
pub mod srvsvc;
pub mod wkssvc;

pub use ndr::Syntax;
pub use syntax::SyntaxId;
