//! What outlives a request: sessions and their channels, tree connects, opens, files and what is shared by all who have them open. It knows no
//! connection, no frame and no socket.

pub(crate) mod access;
pub(crate) mod attributes;
pub(crate) mod audit;
pub(crate) mod auditing;
pub(crate) mod authorization;
#[cfg(test)]
pub(crate) mod authorization_tests;
pub(crate) mod break_notice;
pub(crate) mod breaks;
pub(crate) mod busy_files;
pub(crate) mod caching;
pub(crate) mod channel_sequence;
pub(crate) mod clients;
pub(crate) mod closing;
pub(crate) mod configuration;
pub(crate) mod counters;
pub(crate) mod credits;
pub(crate) mod descriptors;
pub(crate) mod durable;
pub(crate) mod enumeration;
pub(crate) mod extended;
pub(crate) mod files;
pub(crate) mod frozen_times;
pub(crate) mod in_flight;
pub(crate) mod interfaces;
pub(crate) mod lock_sequences;
pub(crate) mod lock_wait;
pub(crate) mod locks;
pub(crate) mod login_throttle;
pub(crate) mod mailbox;
pub(crate) mod multichannel;
pub(crate) mod notify;
pub(crate) mod on_disk;
pub(crate) mod open;
pub(crate) mod open_id;
pub(crate) mod open_path;
#[cfg(test)]
pub(crate) mod open_path_tests;
pub(crate) mod parting;
pub(crate) mod passed_on;
pub(crate) mod pending_open;
pub(crate) mod pipe;
pub(crate) mod placement;
pub(crate) mod refusal;
pub(crate) mod removal;
#[cfg(test)]
pub(crate) mod removal_tests;
pub(crate) mod replayed;
pub(crate) mod restore;
pub(crate) mod roll_call;
pub(crate) mod sacl;
pub(crate) mod scavenger;
pub(crate) mod session;
pub(crate) mod session_link;
pub(crate) mod sessions;
pub(crate) mod share_limit;
pub(crate) mod shared;
pub(crate) mod store_waits;
pub(crate) mod strangers;
pub(crate) mod tree;
pub(crate) mod unbegun;
pub(crate) mod unsendable;
pub(crate) mod untold;
pub(crate) mod user;
pub(crate) mod written;
