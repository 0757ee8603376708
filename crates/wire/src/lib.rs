//! Bytes to messages and back: SMB2 commands of dialects 2.0.2 to 3.1.1 (MS-SMB2 2.2), the classes of MS-FSCC that
//! clients ask for, security descriptors (MS-DTYP) and the few RPC messages of MS-SRVS.
//!
//! The room accepts what the specification allows and judges nothing: no I/O, no clock, no policy. Decoded messages
//! borrow from the bytes they came from.
//!
//! # Example
//!
//! Which files the requests of a captured frame open:
//!
//! ```
//! use wire::command::create::CreateRequest;
//! use wire::header::Header;
//! use wire::ids::Command;
//! use wire::{Malformed, Utf16};
//!
//! /// The name in each CREATE of a frame, which is one message or a chain of them.
//! fn opened(frame: &[u8]) -> Result<Vec<String>, Malformed> {
//!     let (mut names, mut rest) = (Vec::new(), frame);
//!     loop {
//!         let header = Header::decode(rest)?;
//!         if header.command == Command::CREATE && !header.is_response() {
//!             let request = CreateRequest::decode(rest)?;
//!             names.push(request.name.decode().ok_or(Malformed("a name is not UTF-16"))?);
//!         }
//!         match header.next_command as usize {
//!             0 => return Ok(names),
//!             next => rest = rest.get(next..).ok_or(Malformed("NextCommand lies outside of the frame"))?,
//!         }
//!     }
//! }
//!
//! let name = wire::codec::utf16_bytes(r"reports\2026.txt");
//! let mut frame = Header { command: Command::CREATE, ..Header::default() }.to_bytes().to_vec();
//! CreateRequest { name: Utf16::new(&name)?, ..CreateRequest::default() }.encode(&mut frame);
//! assert_eq!(opened(&frame)?, [r"reports\2026.txt"]);
//! # Ok::<(), Malformed>(())
//! ```

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
