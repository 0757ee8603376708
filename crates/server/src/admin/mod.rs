//! What the control plane sets and sees: principals, shares and settings go in; sessions and opens come out.

mod overview;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use crate::resource::latency::{LATENCY_BUCKETS, latency_bucket};
pub use crate::state::busy_files::FileView;
pub use crate::state::caching::CacheKind;
pub use crate::state::configuration::*;
pub use crate::state::counters::{
    Api, Authentication, CountersRow, CountersView, Counts, Events, LatencyKind, Malformed, Numbers, ResponseType,
    Scope, Sum, Wait,
};
pub use crate::state::store_waits::StoreWait;
pub use wire::rpc::names::is_reserved as is_reserved_name;

/// A session as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// The SessionId on the wire.
    pub id: u64,
    /// Who signed in.
    pub user: String,
    /// The storage account of that principal.
    pub account: String,
    /// The dialect revision, 0x0311 for SMB 3.1.1.
    pub dialect: u16,
    /// The cipher that seals it, such as `AES-128-GCM`; `None` where nothing was sealed so far.
    pub cipher: Option<String>,
    /// The algorithm that signs it, such as `AES-GMAC`; `none` where nothing is signed.
    pub signing: String,
    /// The client's address and port on the first channel.
    pub peer: String,
    /// Seconds since it was set up.
    pub connected_seconds: u64,
    /// Seconds since its last request.
    pub idle_seconds: u64,
    /// Opens it has.
    pub opens: usize,
    /// The shares that it is connected to, without repetition.
    pub shares: Vec<String>,
    /// What keeps all its messages from being changed or read.
    pub protection: Protection,
    /// Whether it may have several channels: by its dialect, and as its account has it.
    pub multichannel: Multichannel,
    /// Its channels, at least one.
    pub channels: Vec<ChannelView>,
}

/// What every message of a session must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing, unless its client or a share asks for it.
    Optional,
    /// A signature.
    Signed,
    /// It is sealed.
    Sealed,
}

/// One channel of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelView {
    /// The client's address and port.
    pub peer: String,
    /// The server's address and port.
    pub local: String,
    /// The shard that serves it.
    pub shard: usize,
    /// Bytes that came in.
    pub bytes_received: u64,
    /// Bytes that went out.
    pub bytes_sent: u64,
    /// Requests answered.
    pub requests: u64,
    /// The algorithm that signs on it, such as `AES-GMAC`.
    pub signing: String,
    /// Requests that wait for something.
    pub outstanding: usize,
    /// The most requests that it had at once in the last half minute to minute: that waited, or came together.
    pub together_most: u64,
    /// Seconds since it became a channel of the session.
    pub connected_seconds: u64,
}

/// An address that clients are told of (MS-SMB2 2.2.32.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceView {
    /// The interface's number; its addresses share it.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// The speed of its link.
    pub bits_per_second: u64,
    /// Whether it has receive-side scaling.
    pub rss: bool,
}

/// An open file or directory as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenView {
    /// A number that names it for [`Admin::close_open`]: the persistent part of its FileId.
    pub id: u64,
    /// The session that has it; zero while it waits for its client to return (a durable open).
    pub session: u64,
    /// Who opened it.
    pub user: String,
    /// The share's name.
    pub share: String,
    /// The path in the share, empty for its root.
    pub path: String,
    /// The granted access mask (MS-SMB2 2.2.13.1).
    pub access: u32,
    /// Seconds since it was opened.
    pub open_seconds: u64,
}

/// A share that is served, and how its requests have met its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareView {
    /// Its name.
    pub name: String,
    /// The storage account.
    pub account: String,
    /// Whether requests must be sealed.
    pub seal_required: bool,
    /// What may be done with it,
    pub rates: ShareRates,
    /// and with all shares of its account together.
    pub account_rate: Rate,
    /// Credits for bursts that are left.
    pub credits: u64,
    /// Requests that had to wait since it is served, by which limit.
    pub delayed: Vec<Delayed>,
    /// What waits for its store just now, where something has for a second.
    pub waits: Option<StoreWait>,
}

/// A client that keeps others waiting: it caches what they need, was told to give that up, and has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakView {
    /// A number that names its open for [`Admin::close_open`].
    pub open: u64,
    /// The session that has it; zero while that waits for its client to return.
    pub session: u64,
    /// Who opened it.
    pub user: String,
    /// The client's address and port; empty where it is not connected.
    pub peer: String,
    /// The share.
    pub share: String,
    /// The path in the share.
    pub path: String,
    /// What it caches by.
    pub kind: CacheKind,
    /// Requests that wait at the file.
    pub waiting: usize,
    /// How long ago it was told to give it up, as far as that is known: it may have returned since then.
    pub told_ago: Duration,
}

/// How much memory peers make the server hold, and may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that are charged: what waits, what is open, and what is there for each user who has something.
    pub used_bytes: u64,
    /// Bytes that may be. Who has waited long gets some beyond that.
    pub allowed_bytes: u64,
}

/// The name of an NT status as MS-ERREF 2.3 has it, such as `STATUS_DISK_FULL`; `None` where the server has none for it.
pub fn status_name(status: u32) -> Option<String> {
    wire::status::Status(status).name().map(|name| format!("STATUS_{name}"))
}

/// A user that is locked, after too many wrong passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedView {
    /// The last number of its SID.
    pub relative_id: u32,
    /// For so long.
    pub left: Duration,
}

/// Views that are made one by one, as they are asked for: who looks at many holds few, and who takes long over it keeps nothing open.
pub type Views<'a, T> = Box<dyn Iterator<Item = T> + 'a>;

/// Breaks that are told of at once.
pub const BREAKS_MAX: usize = 256;

/// The server as the control plane uses it. Every method may be called from any thread but a shard, and returns soon.
pub trait Admin: Send + Sync {
    /// Serves `configuration` from now on. Sessions of principals that are gone end, and those that began with a secret which is none of its
    /// principal's any more; trees of shares that are gone end; the rest goes on undisturbed.
    fn replace(&self, configuration: Configuration);

    /// The sessions there are now, without those that are gone when it is their turn.
    fn sessions(&self) -> Views<'_, SessionView>;

    /// How many sessions there are.
    fn session_count(&self) -> usize;

    /// What the server has done since it started, by share, user, client, session and channel.
    fn counters(&self) -> CountersView;

    /// What has become of what was to be audited.
    fn audit(&self) -> AuditCounts;

    /// On whose behalf another interface of the server opens files, for the audit log.
    fn origins(&self) -> &Arc<AuditOrigins>;

    /// Has the audit log tell of a request that another interface of the server has refused.
    fn audit_refusal(&self, refusal: AuditRefusal);

    /// How much memory peers make it hold.
    fn memory(&self) -> MemoryUse;

    /// How many files one user may have open at most, in all of its sessions.
    fn opens_of_user_max(&self) -> u64;

    /// The addresses that clients with several channels are told of.
    fn interfaces(&self) -> Vec<InterfaceView>;

    /// The shares that are served.
    fn shares(&self) -> Vec<ShareView>;

    /// The files that are read and written most, by samples of what was done in the last time `within`: those first that are most, and so many at most.
    fn busy_files(&self, within: Duration, most: usize) -> Vec<FileView>;

    /// Clients that keep others waiting by what they cache, at most [`BREAKS_MAX`].
    fn awaited_breaks(&self) -> Vec<BreakView>;

    /// The connections of each shard.
    fn connections(&self) -> Vec<usize>;

    /// Asks all shards to answer, and gives those that have not within `patience`, which it waits for at most.
    fn silent_shards(&self, patience: Duration) -> Vec<usize>;

    /// The opens there are now, without those that are gone when it is their turn.
    fn opens(&self) -> Views<'_, OpenView>;

    /// How many opens there are.
    fn open_count(&self) -> usize;

    /// The users that are locked, by the last numbers of their SIDs.
    fn locked_users(&self) -> Vec<LockedView>;

    /// Unlocks a user by the last number of its SID. False where it was not locked.
    fn unlock_user(&self, relative_id: u32) -> bool;

    /// Ends a session with all its channels (MS-SMB2 3.3.4.12). False where there is none of that id.
    fn close_session(&self, id: u64) -> bool;

    /// Closes an open. False where there is none of that id.
    fn close_open(&self, id: u64) -> bool;
}
