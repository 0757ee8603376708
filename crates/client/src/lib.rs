//! The SMB client (MS-SMB2 3.2): one session over many channels, which lose nothing when some of them break.
//!
//! A [`Session`] signs in to a server; a [`Tree`] is one of its shares; a [`File`] is an open file or directory. Requests go to one
//! channel while little is in flight, and to the one with least outstanding work where several move more; more channels open when there is
//! enough in flight to use them, and what a lost channel left unanswered is asked again on another.
//!
//! # Example
//!
//! A file of a share is copied to this machine, with many requests in flight over as many channels as help:
//!
//! ```no_run
//! use std::error::Error;
//! use std::fs::File;
//! use std::os::unix::fs::FileExt;
//! use std::sync::Arc;
//!
//! use client::{OpenOptions, Session, Settings, Target, Tcp};
//!
//! async fn fetch(server: &Target, share: &str, path: &str, to: &File) -> Result<u64, Box<dyn Error>> {
//!     let session = Session::connect(server, Settings::default(), Arc::new(Tcp)).await?;
//!     let tree = session.tree(share).await?;
//!     let file = tree.open(path, OpenOptions::default()).await?;
//!     // Pieces arrive in any order.
//!     let keep = |offset, piece: &client::Data| -> Result<(), Box<dyn Error>> { Ok(to.write_all_at(piece, offset)?) };
//!     let copied = file.read_range(0, file.facts().end_of_file, keep).await?;
//!     file.close().await?;
//!     session.close().await?;
//!     Ok(copied)
//! }
//! ```
//!
//! # For many requests a second
//!
//! A session's connections are tasks of the runtime in which [`Session::connect`] is called. Requests cost least where those who ask are
//! tasks of that runtime, too, and all of them run on one thread: a current-thread runtime, driven by a thread that does nothing else,
//! with a task for each request in flight ([`File::read`] or [`File::write`], one after the other). All that these tasks ask in one turn
//! is sent with one call, and all answers that arrive together are handed out together. A runtime of several threads runs who is woken
//! at once and elsewhere: requests are then sent one by one, and answers wake other threads.
//!
//! What a read gives is a part of the buffer that it arrived in. Dropping it soon gives the buffer back.

mod breaks;
mod channel;
mod command;
mod connection;
mod data;
mod dial;
mod error;
mod file;
mod flight;
mod guard;
mod handshake;
mod inbox;
mod incoming;
mod keeper;
mod loss;
mod mark;
mod message;
mod network;
mod open_state;
mod options;
mod outbox;
mod pace;
mod pairing;
mod paths;
mod perform;
mod protection;
mod reconnect;
mod send_load;
mod session;
mod settings;
mod share_list;
mod shared;
mod spread;
mod target;
mod transfer;
mod tree;
mod tree_state;
mod ways;

pub use bytes::{Bytes, BytesMut};
pub use channel::Counters;
pub use command::ioctl::CopyKey;
pub use command::query_directory::Entry;
pub use command::query_info::Facts;
pub use data::Data;
pub use error::Error;
pub use file::File;
pub use netif::LocalInterface;
pub use network::{Elsewhere, Fetching, Network, Opening, Piece, Pieces, Reader, Resolving, Stream, Tcp};
pub use options::{Access, Disposition, OpenOptions, Scan, Security, Sharing};
pub use pairing::{Pair, pairs};
pub use protection::Protection;
pub use secure::seal::Cipher;
pub use secure::sign::SigningAlgorithm;
pub use session::{Agreed, Connected, Session};
pub use settings::{Channels, Settings, Signing, WhenLost};
pub use target::Target;
pub use transfer::{CHUNK_BYTES, IN_FLIGHT_MAX};
pub use tree::Tree;
pub use wire::context::create::OnDiskId;
pub use wire::fscc::FileAttributes;
pub use wire::fscc::file::Basic;
pub use wire::fscc::ioctl::{Interface, InterfaceCapability};
pub use wire::ids::FileTime;
pub use wire::rpc::srvsvc::{ListedShare, ShareKind};
pub use wire::security::access;
pub use wire::security::{Control, SddlText, SecurityDescriptor, SecurityInformation};
pub use wire::status::Status;
