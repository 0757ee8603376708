//! The SMB client (MS-SMB2 3.2): one session over many channels, which lose nothing when some of them break.
//!
//! A [`Session`] signs in to a server; a [`Tree`] is one of its shares; a [`File`] is an open file or directory. Requests go to the
//! channel with least outstanding work, more channels open when there is enough in flight to use them, and what a lost channel left
//! unanswered is asked again on another.
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
mod error;
mod file;
mod flight;
mod guard;
mod handshake;
mod inbox;
mod incoming;
mod keeper;
mod message;
mod network;
mod outbox;
mod pace;
mod pairing;
mod perform;
mod protection;
mod reconnect;
mod send_load;
mod session;
mod settings;
mod transfer;
mod tree;

pub use bytes::{Bytes, BytesMut};
pub use channel::Counters;
pub use command::query_directory::Entry;
pub use command::query_info::Facts;
pub use error::Error;
pub use file::{Data, File};
pub use netif::LocalInterface;
pub use network::{Network, Opening, Resolving, Stream, Tcp};
pub use pairing::{Pair, pairs};
pub use protection::Protection;
pub use secure::seal::Cipher;
pub use secure::sign::SigningAlgorithm;
pub use session::{Agreed, Connected, Session, Target};
pub use settings::{Channels, Settings, Signing};
pub use transfer::{CHUNK_BYTES, IN_FLIGHT_MAX};
pub use tree::{Access, Disposition, OpenOptions, Scan, Sharing, Tree};
pub use wire::fscc::FileAttributes;
pub use wire::fscc::ioctl::{Interface, InterfaceCapability};
pub use wire::ids::FileTime;
pub use wire::status::Status;
