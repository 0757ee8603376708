//! Streams to frames, and answers back to streams: shards, and the connections that live on them.

pub(crate) mod connection;
pub(crate) mod connector;
pub(crate) mod delivery;
pub(crate) mod inside;
pub(crate) mod line;
pub(crate) mod patience;
pub(crate) mod shard;
#[cfg(test)]
pub(crate) mod shard_tests;
pub(crate) mod transport;
