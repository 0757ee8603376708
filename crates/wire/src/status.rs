//! The NTSTATUS codes that SMB2 servers and clients meet (MS-ERREF 2.3).

use std::fmt;

numbers! {
    /// An NTSTATUS. Names leave out the `STATUS_` that they begin with in the specification.
    Status(u32) {
        /// It worked.
        SUCCESS = 0x0000_0000,
        /// The wait ended without an event.
        TIMEOUT = 0x0000_0102,
        /// The answer will come later.
        PENDING = 0x0000_0103,
        /// A reparse is to be done by the object manager.
        REPARSE = 0x0000_0104,
        /// More entries are to be had.
        MORE_ENTRIES = 0x0000_0105,
        /// Some names could not be mapped.
        SOME_NOT_MAPPED = 0x0000_0107,
        /// The oplock break is in progress.
        OPLOCK_BREAK_IN_PROGRESS = 0x0000_0108,
        /// Cancelled watch: the directory handle was closed.
        NOTIFY_CLEANUP = 0x0000_010B,
        /// Too many changes to list: the client enumerates the directory.
        NOTIFY_ENUM_DIR = 0x0000_010C,
        /// No quotas for the account.
        NO_QUOTAS_FOR_ACCOUNT = 0x0000_010D,
        /// The oplock moved to the new handle.
        OPLOCK_SWITCHED_TO_NEW_HANDLE = 0x0000_0215,
        /// The handle that had the oplock was closed.
        OPLOCK_HANDLE_CLOSED = 0x0000_0216,
        /// The output did not fit; a part of it is there.
        BUFFER_OVERFLOW = 0x8000_0005,
        /// The enumeration is at its end.
        NO_MORE_FILES = 0x8000_0006,
        /// The device is busy.
        DEVICE_BUSY = 0x8000_0011,
        /// The file has no extended attribute left.
        NO_MORE_EAS = 0x8000_0012,
        /// The name of an extended attribute holds a forbidden character.
        INVALID_EA_NAME = 0x8000_0013,
        /// The list of extended attributes is malformed.
        EA_LIST_INCONSISTENT = 0x8000_0014,
        /// A bit of an extended attribute's flags is forbidden.
        INVALID_EA_FLAG = 0x8000_0015,
        /// The media is to be verified.
        VERIFY_REQUIRED = 0x8000_0016,
        /// The enumeration is at its end.
        NO_MORE_ENTRIES = 0x8000_001A,
        /// The path goes through a symbolic link that the client follows.
        STOPPED_ON_SYMLINK = 0x8000_002D,
        /// The oplock that was asked for is not granted, and the open with it.
        CANNOT_GRANT_REQUESTED_OPLOCK = 0x8000_002E,
        /// It failed.
        UNSUCCESSFUL = 0xC000_0001,
        /// The function is not there.
        NOT_IMPLEMENTED = 0xC000_0002,
        /// The information class is not known.
        INVALID_INFO_CLASS = 0xC000_0003,
        /// A length does not match the information class.
        INFO_LENGTH_MISMATCH = 0xC000_0004,
        /// The handle does not exist.
        INVALID_HANDLE = 0xC000_0008,
        /// A parameter is wrong.
        INVALID_PARAMETER = 0xC000_000D,
        /// The device does not exist.
        NO_SUCH_DEVICE = 0xC000_000E,
        /// No file matches.
        NO_SUCH_FILE = 0xC000_000F,
        /// The request is not for this kind of object.
        INVALID_DEVICE_REQUEST = 0xC000_0010,
        /// The read begins at or past the end of the file.
        END_OF_FILE = 0xC000_0011,
        /// The wrong volume is in the drive.
        WRONG_VOLUME = 0xC000_0012,
        /// The authentication goes on.
        MORE_PROCESSING_REQUIRED = 0xC000_0016,
        /// No memory.
        NO_MEMORY = 0xC000_0017,
        /// The lock is not in its turn.
        INVALID_LOCK_SEQUENCE = 0xC000_001E,
        /// A range lies outside of what it is a range of.
        INVALID_VIEW_SIZE = 0xC000_001F,
        /// Not permitted.
        ACCESS_DENIED = 0xC000_0022,
        /// The output does not fit; none of it is there.
        BUFFER_TOO_SMALL = 0xC000_0023,
        /// The object is of another type.
        OBJECT_TYPE_MISMATCH = 0xC000_0024,
        /// The disk is damaged.
        DISK_CORRUPT_ERROR = 0xC000_0032,
        /// The name is not a possible name.
        OBJECT_NAME_INVALID = 0xC000_0033,
        /// The name does not exist.
        OBJECT_NAME_NOT_FOUND = 0xC000_0034,
        /// The name exists.
        OBJECT_NAME_COLLISION = 0xC000_0035,
        /// The path is not a possible path.
        OBJECT_PATH_INVALID = 0xC000_0039,
        /// A directory of the path does not exist.
        OBJECT_PATH_NOT_FOUND = 0xC000_003A,
        /// The path does not begin with a directory.
        OBJECT_PATH_SYNTAX_BAD = 0xC000_003B,
        /// Data was lost.
        DATA_ERROR = 0xC000_003E,
        /// A checksum is wrong.
        CRC_ERROR = 0xC000_003F,
        /// Another open does not share this access.
        SHARING_VIOLATION = 0xC000_0043,
        /// The quota is used up.
        QUOTA_EXCEEDED = 0xC000_0044,
        /// The file has no extended attributes or cannot have any.
        EAS_NOT_SUPPORTED = 0xC000_004F,
        /// The extended attributes are too large.
        EA_TOO_LARGE = 0xC000_0050,
        /// The extended attribute does not exist.
        NONEXISTENT_EA_ENTRY = 0xC000_0051,
        /// The file has no extended attributes.
        NO_EAS_ON_FILE = 0xC000_0052,
        /// The extended attributes are damaged.
        EA_CORRUPT_ERROR = 0xC000_0053,
        /// A byte-range lock stands against the read or write.
        FILE_LOCK_CONFLICT = 0xC000_0054,
        /// The lock cannot be had now.
        LOCK_NOT_GRANTED = 0xC000_0055,
        /// The file is going away.
        DELETE_PENDING = 0xC000_0056,
        /// The operation is not supported by the control device.
        CTL_FILE_NOT_SUPPORTED = 0xC000_0057,
        /// The revision is not known.
        UNKNOWN_REVISION = 0xC000_0058,
        /// The revisions do not go together.
        REVISION_MISMATCH = 0xC000_0059,
        /// The SID may not own the object.
        INVALID_OWNER = 0xC000_005A,
        /// The SID may not be the primary group.
        INVALID_PRIMARY_GROUP = 0xC000_005B,
        /// No logon server answers.
        NO_LOGON_SERVERS = 0xC000_005E,
        /// The logon session does not exist.
        NO_SUCH_LOGON_SESSION = 0xC000_005F,
        /// The privilege does not exist.
        NO_SUCH_PRIVILEGE = 0xC000_0060,
        /// The caller lacks a privilege.
        PRIVILEGE_NOT_HELD = 0xC000_0061,
        /// The account name is not a possible name.
        INVALID_ACCOUNT_NAME = 0xC000_0062,
        /// The user exists.
        USER_EXISTS = 0xC000_0063,
        /// The user does not exist.
        NO_SUCH_USER = 0xC000_0064,
        /// The group does not exist.
        NO_SUCH_GROUP = 0xC000_0066,
        /// The password is wrong.
        WRONG_PASSWORD = 0xC000_006A,
        /// The password breaks a rule.
        PASSWORD_RESTRICTION = 0xC000_006C,
        /// User or password is wrong.
        LOGON_FAILURE = 0xC000_006D,
        /// A restriction of the account forbids the logon.
        ACCOUNT_RESTRICTION = 0xC000_006E,
        /// Not at this hour.
        INVALID_LOGON_HOURS = 0xC000_006F,
        /// Not from this workstation.
        INVALID_WORKSTATION = 0xC000_0070,
        /// The password is too old.
        PASSWORD_EXPIRED = 0xC000_0071,
        /// The account is switched off.
        ACCOUNT_DISABLED = 0xC000_0072,
        /// No name could be mapped.
        NONE_MAPPED = 0xC000_0073,
        /// The ACL is malformed.
        INVALID_ACL = 0xC000_0077,
        /// The SID is malformed.
        INVALID_SID = 0xC000_0078,
        /// The security descriptor is malformed.
        INVALID_SECURITY_DESCR = 0xC000_0079,
        /// There is no token.
        NO_TOKEN = 0xC000_007C,
        /// The range is not locked.
        RANGE_NOT_LOCKED = 0xC000_007E,
        /// The disk is full.
        DISK_FULL = 0xC000_007F,
        /// A sum of offsets overflows.
        INTEGER_OVERFLOW = 0xC000_0095,
        /// The volume was changed from outside: the open is no longer valid.
        FILE_INVALID = 0xC000_0098,
        /// What is written does not fit into what it is written to.
        ALLOTTED_SPACE_EXCEEDED = 0xC000_0099,
        /// No resources are left.
        INSUFFICIENT_RESOURCES = 0xC000_009A,
        /// The path leaves this DFS server.
        DFS_EXIT_PATH_FOUND = 0xC000_009B,
        /// The device reports an error in the data.
        DEVICE_DATA_ERROR = 0xC000_009C,
        /// The device is gone.
        DEVICE_NOT_CONNECTED = 0xC000_009D,
        /// The media is write-protected.
        MEDIA_WRITE_PROTECTED = 0xC000_00A2,
        /// The device is not ready.
        DEVICE_NOT_READY = 0xC000_00A3,
        /// The impersonation level is not a possible one, or not enough.
        BAD_IMPERSONATION_LEVEL = 0xC000_00A5,
        /// The token is not one of the needed type.
        BAD_TOKEN_TYPE = 0xC000_00A8,
        /// The pipe has reached its number of instances.
        INSTANCE_NOT_AVAILABLE = 0xC000_00AB,
        /// The pipe is not there.
        PIPE_NOT_AVAILABLE = 0xC000_00AC,
        /// The pipe is in the wrong state.
        INVALID_PIPE_STATE = 0xC000_00AD,
        /// The pipe is busy.
        PIPE_BUSY = 0xC000_00AE,
        /// The pipe is disconnected.
        PIPE_DISCONNECTED = 0xC000_00B0,
        /// The pipe is closing.
        PIPE_CLOSING = 0xC000_00B1,
        /// The pipe is connected.
        PIPE_CONNECTED = 0xC000_00B2,
        /// The pipe is listening.
        PIPE_LISTENING = 0xC000_00B3,
        /// The pipe is in another read mode.
        INVALID_READ_MODE = 0xC000_00B4,
        /// It took too long.
        IO_TIMEOUT = 0xC000_00B5,
        /// The file was closed by someone else.
        FILE_FORCED_CLOSED = 0xC000_00B6,
        /// The name is a directory's.
        FILE_IS_A_DIRECTORY = 0xC000_00BA,
        /// Not supported.
        NOT_SUPPORTED = 0xC000_00BB,
        /// The remote computer does not listen.
        REMOTE_NOT_LISTENING = 0xC000_00BC,
        /// The name is in use.
        DUPLICATE_NAME = 0xC000_00BD,
        /// The network path does not exist.
        BAD_NETWORK_PATH = 0xC000_00BE,
        /// The network is busy.
        NETWORK_BUSY = 0xC000_00BF,
        /// The network device does not exist.
        DEVICE_DOES_NOT_EXIST = 0xC000_00C0,
        /// The network answered with nonsense.
        INVALID_NETWORK_RESPONSE = 0xC000_00C3,
        /// An unexpected network error.
        UNEXPECTED_NETWORK_ERROR = 0xC000_00C4,
        /// The share or its server went away.
        NETWORK_NAME_DELETED = 0xC000_00C9,
        /// The network does not permit it.
        NETWORK_ACCESS_DENIED = 0xC000_00CA,
        /// The network device is of another type.
        BAD_DEVICE_TYPE = 0xC000_00CB,
        /// The share does not exist.
        BAD_NETWORK_NAME = 0xC000_00CC,
        /// The server has too many sessions.
        TOO_MANY_SESSIONS = 0xC000_00CE,
        /// The share is paused.
        SHARING_PAUSED = 0xC000_00CF,
        /// No more connections are accepted.
        REQUEST_NOT_ACCEPTED = 0xC000_00D0,
        /// Source and destination are on different volumes.
        NOT_SAME_DEVICE = 0xC000_00D4,
        /// The file was renamed.
        FILE_RENAMED = 0xC000_00D5,
        /// The session with the server was closed.
        VIRTUAL_CIRCUIT_CLOSED = 0xC000_00D6,
        /// The object has no security descriptor.
        NO_SECURITY_ON_OBJECT = 0xC000_00D7,
        /// The pipe has no data.
        PIPE_EMPTY = 0xC000_00D9,
        /// The server has no such role.
        INVALID_SERVER_STATE = 0xC000_00DC,
        /// The domain does not exist.
        NO_SUCH_DOMAIN = 0xC000_00DF,
        /// The oplock cannot be had.
        OPLOCK_NOT_GRANTED = 0xC000_00E2,
        /// The acknowledgment does not fit the oplock's state.
        INVALID_OPLOCK_PROTOCOL = 0xC000_00E3,
        /// Something inside is broken.
        INTERNAL_ERROR = 0xC000_00E5,
        /// The buffer is not a possible buffer.
        INVALID_USER_BUFFER = 0xC000_00E8,
        /// An unexpected I/O error.
        UNEXPECTED_IO_ERROR = 0xC000_00E9,
        /// The first parameter is wrong.
        INVALID_PARAMETER_1 = 0xC000_00EF,
        /// The second parameter is wrong.
        INVALID_PARAMETER_2 = 0xC000_00F0,
        /// The third parameter is wrong.
        INVALID_PARAMETER_3 = 0xC000_00F1,
        /// The fourth parameter is wrong.
        INVALID_PARAMETER_4 = 0xC000_00F2,
        /// The directory is not empty.
        DIRECTORY_NOT_EMPTY = 0xC000_0101,
        /// The file is damaged.
        FILE_CORRUPT_ERROR = 0xC000_0102,
        /// The name is not a directory's.
        NOT_A_DIRECTORY = 0xC000_0103,
        /// The name is too long.
        NAME_TOO_LONG = 0xC000_0106,
        /// Files of the connection are open.
        FILES_OPEN = 0xC000_0107,
        /// The connection is in use.
        CONNECTION_IN_USE = 0xC000_0108,
        /// Too many files are open.
        TOO_MANY_OPENED_FILES = 0xC000_011F,
        /// The request was cancelled.
        CANCELLED = 0xC000_0120,
        /// The file may not be deleted.
        CANNOT_DELETE = 0xC000_0121,
        /// The file was deleted under the open.
        FILE_DELETED = 0xC000_0123,
        /// The open is closed or never was.
        FILE_CLOSED = 0xC000_0128,
        /// The clocks differ too much.
        TIME_DIFFERENCE_AT_DC = 0xC000_0133,
        /// The connection was closed on this side.
        LOCAL_DISCONNECT = 0xC000_013B,
        /// The connection was closed on the other side.
        REMOTE_DISCONNECT = 0xC000_013C,
        /// There is no such connection.
        INVALID_CONNECTION = 0xC000_0140,
        /// The pipe broke.
        PIPE_BROKEN = 0xC000_014B,
        /// The local group does not exist.
        NO_SUCH_ALIAS = 0xC000_0151,
        /// The logon is not granted.
        LOGON_NOT_GRANTED = 0xC000_0155,
        /// The kind of logon is not granted to the account.
        LOGON_TYPE_NOT_GRANTED = 0xC000_015B,
        /// The disk failed.
        DISK_OPERATION_FAILED = 0xC000_016A,
        /// The device is in the wrong state.
        INVALID_DEVICE_STATE = 0xC000_0184,
        /// A device reported an I/O error.
        IO_DEVICE_ERROR = 0xC000_0185,
        /// The domain does not know this computer.
        NO_TRUST_SAM_ACCOUNT = 0xC000_018B,
        /// The trust with the domain failed.
        TRUSTED_RELATIONSHIP_FAILURE = 0xC000_018D,
        /// The trust failed.
        TRUST_FAILURE = 0xC000_0190,
        /// The logon service does not run.
        NETLOGON_NOT_STARTED = 0xC000_0192,
        /// The account is too old.
        ACCOUNT_EXPIRED = 0xC000_0193,
        /// Waiting would never end.
        POSSIBLE_DEADLOCK = 0xC000_0194,
        /// The volume needs a driver that is not there.
        FS_DRIVER_REQUIRED = 0xC000_019C,
        /// Short names are off on the volume.
        SHORT_NAMES_NOT_ENABLED_ON_VOLUME = 0xC000_019F,
        /// The lock range passes the highest offset.
        INVALID_LOCK_RANGE = 0xC000_01A1,
        /// The session has no key.
        NO_USER_SESSION_KEY = 0xC000_0202,
        /// The session does not exist.
        USER_SESSION_DELETED = 0xC000_0203,
        /// The server has no resources left for it.
        INSUFF_SERVER_RESOURCES = 0xC000_0205,
        /// The buffer has the wrong length.
        INVALID_BUFFER_SIZE = 0xC000_0206,
        /// An address component is malformed.
        INVALID_ADDRESS_COMPONENT = 0xC000_0207,
        /// The connection was ended.
        CONNECTION_DISCONNECTED = 0xC000_020C,
        /// The connection was reset.
        CONNECTION_RESET = 0xC000_020D,
        /// The password must be changed first.
        PASSWORD_MUST_CHANGE = 0xC000_0224,
        /// Not found.
        NOT_FOUND = 0xC000_0225,
        /// The object id is in use.
        DUPLICATE_OBJECTID = 0xC000_022A,
        /// The attempt is to be repeated.
        RETRY = 0xC000_022D,
        /// The domain's controller was not found.
        DOMAIN_CONTROLLER_NOT_FOUND = 0xC000_0233,
        /// The account is locked.
        ACCOUNT_LOCKED_OUT = 0xC000_0234,
        /// The connection is refused.
        CONNECTION_REFUSED = 0xC000_0236,
        /// The connection was closed in order.
        GRACEFUL_DISCONNECT = 0xC000_0237,
        /// The connection does not exist.
        CONNECTION_INVALID = 0xC000_023A,
        /// The network cannot be reached.
        NETWORK_UNREACHABLE = 0xC000_023C,
        /// The host cannot be reached.
        HOST_UNREACHABLE = 0xC000_023D,
        /// The connection was ended by us.
        CONNECTION_ABORTED = 0xC000_0241,
        /// The compressed data is malformed.
        BAD_COMPRESSION_BUFFER = 0xC000_0242,
        /// The path is not covered by this DFS server.
        PATH_NOT_COVERED = 0xC000_0257,
        /// The compression is not supported.
        UNSUPPORTED_COMPRESSION = 0xC000_025F,
        /// The number of links is at its limit.
        TOO_MANY_LINKS = 0xC000_0265,
        /// The file's data is elsewhere.
        FILE_IS_OFFLINE = 0xC000_0267,
        /// The volume was dismounted.
        VOLUME_DISMOUNTED = 0xC000_026E,
        /// No match.
        NO_MATCH = 0xC000_0272,
        /// The file is no reparse point.
        NOT_A_REPARSE_POINT = 0xC000_0275,
        /// The reparse tag is not a possible one.
        IO_REPARSE_TAG_INVALID = 0xC000_0276,
        /// The reparse tag is not the file's.
        IO_REPARSE_TAG_MISMATCH = 0xC000_0277,
        /// The reparse data is malformed.
        IO_REPARSE_DATA_INVALID = 0xC000_0278,
        /// No handler for the reparse tag.
        IO_REPARSE_TAG_NOT_HANDLED = 0xC000_0279,
        /// The reparse point could not be resolved.
        REPARSE_POINT_NOT_RESOLVED = 0xC000_0280,
        /// The directory is a reparse point.
        DIRECTORY_IS_A_REPARSE_POINT = 0xC000_0281,
        /// A list of ranges contradicts itself.
        RANGE_LIST_CONFLICT = 0xC000_0282,
        /// The file could not be encrypted.
        ENCRYPTION_FAILED = 0xC000_028A,
        /// The volume is of an older format.
        VOLUME_NOT_UPGRADED = 0xC000_029C,
        /// The reparse point's attributes conflict.
        REPARSE_ATTRIBUTE_CONFLICT = 0xC000_02B2,
        /// The change journal is off.
        JOURNAL_NOT_ACTIVE = 0xC000_02B8,
        /// The server could not prove who it is.
        MUTUAL_AUTHENTICATION_FAILED = 0xC000_02C3,
        /// The object id does not exist.
        OBJECTID_NOT_FOUND = 0xC000_02F0,
        /// The credential is another one's.
        WRONG_CREDENTIAL_HANDLE = 0xC000_02F2,
        /// The session's authentication is too old.
        NETWORK_SESSION_EXPIRED = 0xC000_035C,
        /// A policy does not permit it.
        ACCESS_DISABLED_BY_POLICY_DEFAULT = 0xC000_0361,
        /// Someone weakened the authentication on its way.
        DOWNGRADE_DETECTED = 0xC000_0388,
        /// NTLM is not allowed.
        NTLM_BLOCKED = 0xC000_0418,
        /// Compression is off.
        COMPRESSION_DISABLED = 0xC000_0426,
        /// The file is too large for the file system.
        FILE_SYSTEM_LIMITATION = 0xC000_0427,
        /// The request does not fit what was agreed on before.
        REQUEST_OUT_OF_SEQUENCE = 0xC000_042A,
        /// No ranges were processed.
        NO_RANGES_PROCESSED = 0xC000_0460,
        /// The device has no such feature.
        DEVICE_FEATURE_NOT_SUPPORTED = 0xC000_0463,
        /// The device cannot be reached.
        DEVICE_UNREACHABLE = 0xC000_0464,
        /// The offload token is malformed.
        INVALID_TOKEN = 0xC000_0465,
        /// The server is not there now.
        SERVER_UNAVAILABLE = 0xC000_0466,
        /// The file is not there now; the open may come back.
        FILE_NOT_AVAILABLE = 0xC000_0467,
        /// The storage is not redundant.
        NOT_REDUNDANT_STORAGE = 0xC000_0479,
        /// Not for resident files.
        RESIDENT_FILE_NOT_SUPPORTED = 0xC000_047A,
        /// Not for compressed files.
        COMPRESSED_FILE_NOT_SUPPORTED = 0xC000_047B,
        /// Not for directories.
        DIRECTORY_NOT_SUPPORTED = 0xC000_047C,
        /// The share is not there now.
        SHARE_UNAVAILABLE = 0xC000_0480,
        /// A request that is repeated is not the same as before.
        CONTEXT_MISMATCH = 0xC000_0719,
        /// The oplock cannot be broken.
        CANNOT_BREAK_OPLOCK = 0xC000_0909,
        /// The signature is wrong.
        INVALID_SIGNATURE = 0xC000_A000,
        /// The tag of a sealed message is wrong.
        AUTH_TAG_MISMATCH = 0xC000_A002,
        /// Hashes are not supported.
        HASH_NOT_SUPPORTED = 0xC000_A100,
        /// The hash of the file does not exist.
        HASH_NOT_PRESENT = 0xC000_A101,
        /// The file system's filter does not support offloaded reads.
        OFFLOAD_READ_FLT_NOT_SUPPORTED = 0xC000_A2A1,
        /// The file system's filter does not support offloaded writes.
        OFFLOAD_WRITE_FLT_NOT_SUPPORTED = 0xC000_A2A2,
        /// The file does not support offloaded reads.
        OFFLOAD_READ_FILE_NOT_SUPPORTED = 0xC000_A2A3,
        /// The file does not support offloaded writes.
        OFFLOAD_WRITE_FILE_NOT_SUPPORTED = 0xC000_A2A4,
        /// No pre-authentication hash algorithm in common.
        SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xC05D_0000,
        /// A clustered share wants a higher dialect.
        SMB_BAD_CLUSTER_DIALECT = 0xC05D_0001,
        /// The guest may not log on.
        SMB_GUEST_LOGON_BLOCKED = 0xC05D_0002,
    }
}

impl Status {
    /// The severity is "error": the two highest bits are 11.
    pub const fn is_error(self) -> bool {
        self.0 >> 30 == 3
    }

    /// The severity is "warning": the two highest bits are 10.
    pub const fn is_warning(self) -> bool {
        self.0 >> 30 == 2
    }

    /// The severity is "success" or "informational": the highest bit is 0.
    pub const fn is_success(self) -> bool {
        self.0 >> 31 == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "STATUS_{name}"),
            None => write!(f, "NTSTATUS {:#010x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_is_in_the_two_highest_bits() {
        assert!(Status::ACCESS_DENIED.is_error() && !Status::ACCESS_DENIED.is_success());
        assert!(Status::BUFFER_OVERFLOW.is_warning() && !Status::BUFFER_OVERFLOW.is_error());
        assert!(Status::PENDING.is_success() && Status::NOTIFY_ENUM_DIR.is_success());
        assert!(Status(0x4000_0000).is_success() && !Status(0x4000_0000).is_warning());
    }

    #[test]
    fn statuses_show_their_names() {
        assert_eq!(Status::MORE_PROCESSING_REQUIRED.to_string(), "STATUS_MORE_PROCESSING_REQUIRED");
        assert_eq!(Status(0xC123_4567).to_string(), "NTSTATUS 0xc1234567");
    }
}
