//! The identifiers and small numbers of MS-SMB2 that cross functions, each a type of its own.

use std::time::{Duration, SystemTime};

use crate::codec::{Malformed, Reader, Writer};

/// Numbers a request on one connection (2.2.1). `u64::MAX` in unsolicited messages, such as oplock breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MessageId(pub u64);

impl MessageId {
    /// The id of a message the server sends unasked: an oplock or lease break, a notification (2.2.23, 2.2.44).
    pub const UNSOLICITED: MessageId = MessageId(u64::MAX);
}

/// Names a session on a server (2.2.1). 0 before one exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SessionId(pub u64);

/// Names a tree connect within a session (2.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TreeId(pub u32);

/// Names a request that was answered with STATUS_PENDING (2.2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct AsyncId(pub u64);

/// A number of credits, or of credits charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Credits(pub u16);

/// Names an open (2.2.14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileId {
    /// Survives a reconnect of a durable open.
    pub persistent: u64,
    /// Changes with every reconnect.
    pub volatile: u64,
}

impl FileId {
    /// All ones: in a related compound request, the open that the request before it made (3.3.5.2.7.2); in IOCTL,
    /// no open at all.
    pub const ANY: FileId = FileId { persistent: u64::MAX, volatile: u64::MAX };

    /// The length on the wire in bytes.
    pub const LENGTH: usize = 16;

    /// Reads the 16 bytes at the reader.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(FileId { persistent: reader.u64()?, volatile: reader.u64()? })
    }

    /// Appends the 16 bytes.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.persistent);
        writer.u64(self.volatile);
    }
}

/// A 16-byte GUID in the byte order of the wire (MS-DTYP 2.3.4.2): client and server GUIDs, lease keys, create GUIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The length on the wire in bytes.
    pub const LENGTH: usize = 16;

    /// Reads the 16 bytes at the reader.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Guid(reader.array()?))
    }

    /// True for the all-zero GUID.
    pub fn is_nil(&self) -> bool {
        self.0 == [0; 16]
    }
}

/// A point in time: 100-nanosecond intervals since 1601-01-01 UTC (MS-DTYP 2.3.3). 0 and the highest values mean "not
/// set" or "leave alone" where a structure says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileTime(pub u64);

/// 1601-01-01 to 1970-01-01 in 100-nanosecond intervals.
const UNIX_EPOCH_INTERVALS: i128 = 116_444_736_000_000_000;
const INTERVALS_PER_SECOND: i128 = 10_000_000;

impl FileTime {
    /// From Unix time. Times that a FILETIME cannot say become the nearest one that it can.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Self {
        let intervals =
            i128::from(seconds) * INTERVALS_PER_SECOND + i128::from(nanoseconds) / 100 + UNIX_EPOCH_INTERVALS;
        FileTime(intervals.clamp(0, i128::from(i64::MAX)) as u64)
    }

    /// As Unix time: whole seconds, perhaps before 1970, and nanoseconds within the second.
    pub fn to_unix(self) -> (i64, u32) {
        let intervals = i128::from(self.0) - UNIX_EPOCH_INTERVALS;
        let seconds = intervals.div_euclid(INTERVALS_PER_SECOND) as i64;
        let nanoseconds = intervals.rem_euclid(INTERVALS_PER_SECOND) as u32 * 100;
        (seconds, nanoseconds)
    }
}

impl From<SystemTime> for FileTime {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => FileTime::from_unix(i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
            Err(before) => {
                let before: Duration = before.duration();
                let intervals = before.as_nanos() as i128 / 100;
                FileTime((UNIX_EPOCH_INTERVALS - intervals).max(0) as u64)
            }
        }
    }
}

numbers! {
    /// A dialect revision (2.2.3, 2.2.4).
    Dialect(u16) {
        /// SMB 2.0.2.
        SMB_2_0_2 = 0x0202,
        /// SMB 2.1.
        SMB_2_1 = 0x0210,
        /// SMB 3.0.
        SMB_3_0 = 0x0300,
        /// SMB 3.0.2.
        SMB_3_0_2 = 0x0302,
        /// SMB 3.1.1.
        SMB_3_1_1 = 0x0311,
        /// The answer to an SMB1 NEGOTIATE that offers "SMB 2.???": the client negotiates again with SMB2.
        WILDCARD = 0x02FF,
    }
}

numbers! {
    /// What a message asks for (2.2.1).
    Command(u16) {
        /// 2.2.3.
        NEGOTIATE = 0x0000,
        /// 2.2.5.
        SESSION_SETUP = 0x0001,
        /// 2.2.7.
        LOGOFF = 0x0002,
        /// 2.2.9.
        TREE_CONNECT = 0x0003,
        /// 2.2.11.
        TREE_DISCONNECT = 0x0004,
        /// 2.2.13.
        CREATE = 0x0005,
        /// 2.2.15.
        CLOSE = 0x0006,
        /// 2.2.17.
        FLUSH = 0x0007,
        /// 2.2.19.
        READ = 0x0008,
        /// 2.2.21.
        WRITE = 0x0009,
        /// 2.2.26.
        LOCK = 0x000A,
        /// 2.2.31.
        IOCTL = 0x000B,
        /// 2.2.30.
        CANCEL = 0x000C,
        /// 2.2.28.
        ECHO = 0x000D,
        /// 2.2.33.
        QUERY_DIRECTORY = 0x000E,
        /// 2.2.35.
        CHANGE_NOTIFY = 0x000F,
        /// 2.2.37.
        QUERY_INFO = 0x0010,
        /// 2.2.39.
        SET_INFO = 0x0011,
        /// 2.2.23 to 2.2.25.
        OPLOCK_BREAK = 0x0012,
        /// 2.2.44, dialect 3.1.1.
        SERVER_TO_CLIENT_NOTIFICATION = 0x0013,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unix_epoch_is_its_known_file_time() {
        assert_eq!(FileTime::from_unix(0, 0), FileTime(116_444_736_000_000_000));
        assert_eq!(FileTime::from(SystemTime::UNIX_EPOCH), FileTime(116_444_736_000_000_000));
        assert_eq!(FileTime::from_unix(1, 999_999_999).to_unix(), (1, 999_999_900));
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        assert_eq!(FileTime::from_unix(-1, 500_000_000).to_unix(), (-1, 500_000_000));
        assert_eq!(FileTime(0).to_unix(), (-11_644_473_600, 0));
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(FileTime::from(before).to_unix(), (-2, 500_000_000));
    }

    #[test]
    fn times_out_of_range_saturate() {
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(0));
        assert_eq!(FileTime::from_unix(i64::MAX, 0), FileTime(i64::MAX as u64));
        let _ = FileTime(u64::MAX).to_unix();
    }

    #[test]
    fn unnamed_commands_show_their_number() {
        assert_eq!(format!("{:?} {:?}", Command::READ, Command(0x99)), "READ Command(0x99)");
        assert_eq!(Command::OPLOCK_BREAK.name(), Some("OPLOCK_BREAK"));
        assert_eq!(Dialect::default().name(), None);
    }
}
