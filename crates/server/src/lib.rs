//! The SMB server: connections on shards, the pipeline, one file per command, sessions and their channels, opens,
//! leases, locks, durable handles, counters.

pub mod admin;
