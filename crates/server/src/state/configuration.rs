//! What the server serves, as its operator has set it: principals, accounts, shares and settings.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

pub use busy_poll::Polling;
pub use secure::Secret;
use store::{Store, UnixOwner};

pub use crate::resource::rate_limit::{Rate, RequestRate};
pub use crate::state::audit::{
    AuditActor, AuditArming, AuditCategory, AuditClass, AuditClasses, AuditCounts, AuditEnd, AuditEvent, AuditIds,
    AuditMoved, AuditOrigin, AuditOrigins, AuditPlace, AuditProof, AuditRefusal, AuditSink, AuditSource, AuditSpeaker,
    NotedOrigin, UnknownClass,
};
pub use crate::state::hosts::{HostsAllowed, Network, WrongHosts};
pub use crate::state::share_limit::{
    AccountLimit, Delayed, LimitOf, LimitUse, OpenLimits, ShareLimit, ShareRates, UsedUp,
};
pub use crate::state::share_rights::{ShareRight, ShareRights, UnknownRight};
pub use crate::state::snapshots::{OpenSnapshots, snapshot_share};

/// Everything the server serves at one moment. A whole snapshot, replaced at once.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Who may sign in.
    pub principals: Vec<Principal>,
    /// The storage accounts that principals and shares belong to.
    pub accounts: Vec<Account>,
    /// Groups, which principals name as theirs and shares grant rights to.
    pub groups: Vec<Group>,
    /// What is shared.
    pub shares: Vec<Share>,
    /// The names of shares that will be served once their folders can be: what is persistent on them is kept.
    pub awaited: Vec<String>,
    /// How the server presents and protects itself.
    pub settings: Settings,
}

/// A storage account, as far as the server has to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whether its sessions may use several connections at once.
    pub multichannel: Multichannel,
}

/// Whether sessions may use several connections at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multichannel {
    /// One connection each.
    #[default]
    Off,
    /// As many as [`Settings::channels_max`] says.
    On,
}

/// Somebody who may sign in.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name to sign in with. Names compare without case and are unique so.
    pub name: String,
    /// The storage account it belongs to, whose shares it may use. An account's own principal names itself.
    pub account: String,
    /// An account's key or a user.
    pub kind: PrincipalKind,
    /// The last number of its SID below the machine's: stable for its life, 1000 or more, never given twice.
    pub relative_id: u32,
    /// NT hashes (MS-NLMP 3.3.1 NTOWFv1), each of which signs it in.
    pub secrets: Vec<Secret>,
    /// Those of passwords that it had lately: what was signed in with them goes on, and nothing begins with them any more.
    pub former: Vec<Secret>,
    /// The relative ids of the groups that it is in, by itself or through others.
    pub groups: Vec<u32>,
    /// Whether it may sign in.
    pub standing: Standing,
    /// Whose the files are on this machine that it makes, where that is not as for all that its share makes.
    pub unix_owner: Option<UnixOwner>,
}

/// Whether a principal may sign in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    #[default]
    Good,
    /// An operator has disabled it.
    Disabled,
    /// Its time is over.
    Expired,
}

/// A group of principals of an account. Its SID counts in descriptors as a user's does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name. Names of groups and principals compare without case and are unique so, together.
    pub name: String,
    /// The storage account whose principals it is of.
    pub account: String,
    /// The last number of its SID below the machine's, which no principal and no other group ever has.
    pub relative_id: u32,
}

/// What a principal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKind {
    /// A storage account, signed in with one of its keys: full control of all its shares.
    Account,
    /// A user of an account, who gets what security descriptors grant.
    User,
}

/// One share.
#[derive(Clone)]
pub struct Share {
    /// Its name, the second part of `\\server\share`. Names compare without case and are unique so on the server.
    pub name: String,
    /// The storage account it belongs to.
    pub account: String,
    /// A sentence for people who browse.
    pub comment: String,
    /// Its files. The same store stays the same `Arc` from one configuration to the next.
    pub store: Arc<dyn Store>,
    /// Refuse every change.
    pub read_only: bool,
    /// Refuse requests that are not sealed (MS-SMB2 3.3.1.6 Share.EncryptData).
    pub seal_required: bool,
    /// Opens may survive the server (Share.IsCA). Only with [`Config::opens`](crate::Config).
    pub continuously_available: bool,
    /// List only what the reader may read (MS-SMB2 3.3.1.6 Share.DoAccessBasedDirectoryEnumeration).
    pub access_based: bool,
    /// Macs may offer it as a destination of Time Machine's backups.
    pub time_machine: bool,
    /// Who of its account may connect to it, and what they may do at most.
    pub rights: ShareRights,
    /// What of it is audited.
    pub audit: AuditClasses,
    /// What may be done with it in a second, and what of that was done. It stays the same `Arc` as long as the store does.
    pub limit: Arc<ShareLimit>,
    /// Its snapshots that are open. It stays the same `Arc` as long as the store does.
    pub snapshots: Arc<OpenSnapshots>,
}

/// How the server presents and protects itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The host name's first label, as clients see it.
    pub server_name: String,
    /// The three numbers of the machine's SID `S-1-5-21-a-b-c`.
    pub machine_sid: [u32; 3],
    /// ServerGuid of NEGOTIATE, the same across restarts (MS-SMB2 3.3.1.5).
    pub server_guid: [u8; 16],
    /// The oldest dialect revision to accept: 0x0202, 0x0210, 0x0300, 0x0302 or 0x0311.
    pub dialect_min: u16,
    /// Whether every request must be signed.
    pub signing: Signing,
    /// Whether every session must be sealed.
    pub sealing: Sealing,
    /// The most connections one session may use at once, 1 to [`CHANNELS_MAX`].
    pub channels_max: usize,
    /// What clients are told of the addresses at which the server can be reached.
    pub advertise: Advertise,
    /// Whether a session may be signed in again as the anonymous user.
    pub anonymous: Anonymous,
    /// How long a shard that has nothing to do looks for more before it sleeps.
    pub busy_poll: Polling,
    /// When users are locked; `None` for never.
    pub lock: Option<LockRule>,
}

/// Users are locked after so many wrong passwords, without a right one and without a quarter of an hour between them. Accounts never are: nobody guesses their
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRule {
    /// Wrong passwords.
    pub after: NonZeroU32,
    /// How long a lock lasts.
    pub lasting: Duration,
}

/// The addresses that clients with several channels are told of (MS-SMB2 2.2.32.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertise {
    /// Addresses beside the machine's own, as there are with address translation. What is said here of one of the machine's own replaces what
    /// the machine says.
    pub addresses: Vec<AdvertisedAddress>,
    /// Whether the machine's own are told.
    pub own: OwnAddresses,
}

/// An address as the operator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedAddress {
    /// The address.
    pub address: IpAddr,
    /// The speed of its link; `None` for what the machine knows.
    pub bits_per_second: Option<u64>,
    /// Its link spreads connections over processors: worth more than one connection.
    pub rss: bool,
}

/// Whether the machine's own addresses are advertised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnAddresses {
    /// Those that can be reached from elsewhere, or loopback where there is nothing else.
    #[default]
    Told,
    /// Only what the operator lists.
    LeftOut,
}

/// The most channels that any setting gives a session: Windows Server's MaxChannelPerSession.
pub const CHANNELS_MAX: usize = 32;
/// The channels a session may have where nobody says otherwise: Azure Files' limit.
pub const CHANNELS_DEFAULT: usize = 4;

/// Whether requests must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Every session is signed.
    Required,
    /// Sessions are signed where the client asks for it.
    Enabled,
}

/// Whether sessions must be sealed (encrypted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// A client that cannot seal is refused.
    Required,
    /// Sealed where the client or the share asks for it.
    Enabled,
}

/// Whether a client may ask for the ANONYMOUS user of MS-NLMP 3.2.5.1.2, who proves nothing. No session begins so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Never: LOGON_FAILURE, which ends a session that tries.
    #[default]
    Refused,
    /// A session may sign in again as the anonymous user: it goes on with what it has open, under the keys it has, and comes at nothing else until it signs in
    /// as its user again.
    Reauthentication,
}

/// The NT hash of `password` (MS-NLMP 3.3.1 NTOWFv1): MD4 of its UTF-16LE form. A [`Principal`] keeps nothing else of a password.
pub fn nt_hash(password: &str) -> Secret {
    secure::ntlm::NtHash::from_password(password).into()
}

impl fmt::Debug for Principal {
    /// Everything but the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("name", &self.name)
            .field("account", &self.account)
            .field("kind", &self.kind)
            .field("relative_id", &self.relative_id)
            .field("groups", &self.groups)
            .field("standing", &self.standing)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Share {
    /// Everything but the store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("name", &self.name)
            .field("account", &self.account)
            .field("comment", &self.comment)
            .field("read_only", &self.read_only)
            .field("seal_required", &self.seal_required)
            .field("continuously_available", &self.continuously_available)
            .field("access_based", &self.access_based)
            .field("time_machine", &self.time_machine)
            .field("rights", &self.rights)
            .field("audit", &self.audit)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
