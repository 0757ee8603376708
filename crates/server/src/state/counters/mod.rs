//! What the server did, in numbers that are counted on the shards and added up by who reads them.
//!
//! A channel of a session has a cell for each share that it is used for ([`Cell`]), and each shard has one for what belongs to no session. A cell is
//! written by the shard that runs its connection, alone: it takes no lock, and no instruction that other cores have to agree to. From the cells come, by
//! addition, what a channel, a session, a user, a client, a share and the server have done ([`Counters::read`]). The numbers of a channel that
//! ends go on as part of the totals that it counted for ([`registry`]), so that none is lost.

#[macro_use]
mod named;

mod api;
mod cell;
mod channel;
mod counts;
mod events;
mod registry;
#[cfg(test)]
mod tests;
mod totals;
mod view;

pub(crate) use api::Throttle;
pub use api::{Api, Authentication, LatencyKind, ResponseType, Wait};
pub(crate) use cell::{Answered, Waits};
pub(crate) use channel::ChannelCounters;
pub use counts::{Counts, Malformed, Numbers, Sum};
pub use events::Events;
pub(crate) use events::happened;
pub(crate) use registry::{Client, Counters};
pub use view::{CountersRow, CountersView, Scope};

/// False in a build that is made to measure what counting takes: `RUSTFLAGS="--cfg uncounted"` (docs/PERFORMANCE.md, "Counting").
pub(crate) const COUNTS: bool = !cfg!(uncounted);
