//! Bytes to messages and back: SMB2 commands of dialects 2.0.2 to 3.1.1 (MS-SMB2 2.2), the classes of MS-FSCC that
//! clients ask for, security descriptors (MS-DTYP) and the few RPC messages of MS-SRVS.
//!
//! The room accepts what the specification allows and judges nothing: no I/O, no clock, no policy. Decoded messages
//! borrow from the bytes they came from.

#[macro_use]
mod open;

#[cfg(test)]
#[macro_use]
mod testing;

pub mod codec;
pub mod command;
pub mod context;
pub mod frame;
pub mod fscc;
pub mod header;
pub mod ids;
pub mod list;
pub mod rpc;
pub mod security;
pub mod smb1;
pub mod snapshots;
pub mod status;
pub mod transform;

pub use codec::{Malformed, Utf16};
