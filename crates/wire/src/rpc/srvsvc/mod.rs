//! The server service (MS-SRVS): the calls that list shares, sessions and open files, and describe the server.

mod in_use;
mod listing;
mod request;
mod response;

use crate::ids::FileTime;

pub(crate) use in_use::Enumeration;
pub use in_use::Wanted;
pub use listing::{ListedShare, Listing, decode_listing, encode_list_shares};
pub use request::{Call, Unreadable};
pub(crate) use response::{PLATFORM_NT, union_tag};
pub use response::{answer, encode_server, encode_share, encode_shares, encode_time_of_day};

numbers! {
    /// Operations (MS-SRVS 3.1.4).
    Operation(u16) {
        /// Lists open files.
        FILE_ENUM = 9,
        /// Lists sessions.
        SESSION_ENUM = 12,
        /// Lists shares.
        SHARE_ENUM = 15,
        /// Describes a share.
        SHARE_INFO = 16,
        /// Describes the server.
        SERVER_INFO = 21,
        /// Tells the time.
        REMOTE_TIME_OF_DAY = 28,
        /// Lists shares that outlive a restart.
        SHARE_ENUM_STICKY = 36,
    }
}

numbers! {
    /// How a call ends (MS-SRVS 2.2.2.10).
    NetStatus(u32) {
        /// Well.
        SUCCESS = 0,
        /// Not allowed.
        ACCESS_DENIED = 5,
        /// A parameter makes no sense.
        INVALID_PARAMETER = 87,
        /// No such information level.
        INVALID_LEVEL = 124,
        /// There are more entries.
        MORE_DATA = 234,
        /// No such user has a session.
        USER_NOT_FOUND = 2221,
        /// No such share.
        NET_NAME_NOT_FOUND = 2310,
        /// No session is from there.
        CLIENT_NAME_NOT_FOUND = 2312,
        /// That is no name of a computer.
        INVALID_COMPUTER = 2351,
    }
}

numbers! {
    /// What a share is (MS-SRVS 2.2.2.4), without the flags.
    ShareKind(u32) {
        /// Files.
        DISK_TREE = 0x0000_0000,
        /// A printer.
        PRINT_QUEUE = 0x0000_0001,
        /// A device.
        DEVICE = 0x0000_0002,
        /// Named pipes.
        IPC = 0x0000_0003,
        /// Named pipes, for the system: what IPC$ is.
        IPC_SPECIAL = 0x8000_0003,
        /// Files, for administrators: what C$ and ADMIN$ are.
        DISK_TREE_SPECIAL = 0x8000_0000,
    }
}

/// A share, as it is told to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ShareKind,
    /// What it is for.
    pub comment: String,
    /// Where it lies on the server; empty where the client need not know.
    pub path: String,
    /// Most connections; all ones for no limit.
    pub max_uses: u32,
    /// Connections.
    pub current_uses: u32,
    /// SHI1005_FLAGS (MS-SRVS 2.2.4.29), caching among them.
    pub flags: u32,
}

/// The server, as it is told to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub comment: String,
    /// The domain or workgroup.
    pub domain: String,
    /// Major version; Windows 10 and later say 10.
    pub version_major: u32,
    /// Minor version.
    pub version_minor: u32,
}

/// A session, as it is told to who administers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The client's address.
    pub client: String,
    /// The user's name.
    pub user: String,
    /// What it has open.
    pub opens: u32,
    /// For how long it has been there, in seconds.
    pub seconds: u32,
    /// For how long nothing was asked in it, in seconds.
    pub idle_seconds: u32,
}

/// An open file, directory or pipe, as it is told to who administers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    /// Its number.
    pub id: u32,
    /// What may be done with it (MS-SRVS 2.2.4.7, fi3_permissions).
    pub permissions: u32,
    /// Byte ranges that it has locked.
    pub locks: u32,
    /// The share's name, and where the file is in it.
    pub path: String,
    /// The user's name.
    pub user: String,
}

/// Who knows the shares.
pub trait Srvsvc {
    /// Hands the shares that the client may see to `take`, from the one with number `from` on, until that wants no more. Gives how many
    /// there are.
    fn shares(&self, from: usize, take: &mut dyn FnMut(Share) -> bool) -> usize;

    /// The share that has `name` in any case.
    fn share(&self, name: &str) -> Option<Share>;

    /// True where the client sees what others do in its storage account, and all that a share is.
    fn may_administer(&self) -> bool;

    /// Hands the sessions that the client may see to `take`, from the one with number `from` on, until that wants no more or others are to
    /// have their turn: then it is called again. Gives how many there are.
    fn sessions(&self, from: usize, take: &mut dyn FnMut(Session) -> bool) -> usize;

    /// The same of what is open.
    fn files(&self, from: usize, take: &mut dyn FnMut(OpenFile) -> bool) -> usize;

    /// The server.
    fn server(&self) -> Server;

    /// The time.
    fn now(&self) -> FileTime;
}
