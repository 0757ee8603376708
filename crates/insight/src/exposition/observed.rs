//! What is told of a server at one moment.

use std::time::Duration;

use crate::monitor::Totals;
use server::admin::{AuditCounts, CountersView, LimitUse, MemoryUse, StoreWait};

/// A server as it was seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The program's version.
    pub version: &'static str,
    /// When the server started, counted from 1970-01-01 UTC.
    pub since: Duration,
    /// What it has done.
    pub counters: CountersView,
    /// Sessions there are.
    pub sessions: usize,
    /// Opens there are.
    pub opens: usize,
    /// Connections of each shard.
    pub connections: Vec<usize>,
    /// Shards that do not answer.
    pub silent_shards: usize,
    /// What peers make it hold.
    pub memory: MemoryUse,
    /// What the log does not have.
    pub log: LogLoss,
    /// What has become of what was to be audited.
    pub audit: AuditCounts,
    /// The last look at the catalog's file found something wrong.
    pub catalog_is_damaged: bool,
    /// Users that wrong passwords have locked.
    pub locked_users: usize,
    /// Bytes that may still be written to the file system of the data folder, where that is known.
    pub data_available: Option<u64>,
    /// The shares of its configuration.
    pub shares: Vec<ObservedShare>,
    /// What the REST interface was asked for.
    pub rest: Totals,
}

/// Lines that the log does not have, since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLoss {
    /// There were too many of one kind.
    pub left_out: u64,
    /// Nobody took them.
    pub lost: u64,
}

/// A share.
#[derive(Clone, Debug, Default)]
pub struct ObservedShare {
    /// Its name.
    pub name: String,
    /// Whether clients can connect to it.
    pub is_served: bool,
    /// It is served, and something is wrong with it.
    pub is_faulty: bool,
    /// What it is limited to.
    pub limits: ObservedLimits,
    /// How its requests have met that.
    pub used: LimitUse,
    /// What it can hold, and what may still be written to it, where that is known.
    pub space: Option<ObservedSpace>,
    /// Bytes that its own files take, where they are counted.
    pub used_bytes: Option<u64>,
    /// What waits for its disk, where something has for long.
    pub waits: Option<StoreWait>,
}

/// What a share is limited to; `None` where it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedLimits {
    /// Requests a second of the whole share.
    pub iops: Option<u64>,
    /// Requests a second in a burst.
    pub burst_iops: Option<u64>,
    /// The most credits for bursts.
    pub burst_credits_max: Option<u64>,
    /// Bytes a second of the whole share.
    pub bytes: Option<u64>,
    /// Requests a second of each user.
    pub user_iops: Option<u64>,
    /// Bytes a second of each user.
    pub user_bytes: Option<u64>,
    /// Bytes that are provisioned.
    pub provisioned_bytes: Option<u64>,
}

/// How full a share is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedSpace {
    /// All there is.
    pub total: u64,
    /// What may still be written.
    pub free: u64,
}
