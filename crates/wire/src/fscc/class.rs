//! The numbers of the information classes (MS-FSCC 2.4 and 2.5).

numbers! {
    /// What is asked of, or told about, a file or directory (MS-FSCC 2.4).
    FileClass(u8) {
        /// Directory entries with times and sizes.
        DIRECTORY = 1,
        /// … and the size of the extended attributes.
        FULL_DIRECTORY = 2,
        /// … and the short name.
        BOTH_DIRECTORY = 3,
        /// Times and attributes.
        BASIC = 4,
        /// Sizes, links, pending deletion.
        STANDARD = 5,
        /// The 64-bit file identifier.
        INTERNAL = 6,
        /// The size of the extended attributes.
        EA = 7,
        /// The access this open was granted.
        ACCESS = 8,
        /// The absolute name; local use.
        NAME = 9,
        /// A new name.
        RENAME = 10,
        /// A second name.
        LINK = 11,
        /// Directory entries with names only.
        NAMES = 12,
        /// Whether to delete on close.
        DISPOSITION = 13,
        /// The current byte offset.
        POSITION = 14,
        /// The extended attributes.
        FULL_EA = 15,
        /// The mode of the open.
        MODE = 16,
        /// The alignment that the device asks for.
        ALIGNMENT = 17,
        /// Everything from BASIC to ALIGNMENT, and the name.
        ALL = 18,
        /// Space to reserve.
        ALLOCATION = 19,
        /// Length of the data.
        END_OF_FILE = 20,
        /// The short name.
        ALTERNATE_NAME = 21,
        /// The streams.
        STREAM = 22,
        /// How a pipe reads and completes.
        PIPE = 23,
        /// This end of a pipe.
        PIPE_LOCAL = 24,
        /// The client's end of a pipe.
        PIPE_REMOTE = 25,
        /// Mailslot query; local use.
        MAILSLOT_QUERY = 26,
        /// Mailslot set; local use.
        MAILSLOT_SET = 27,
        /// How the data is compressed.
        COMPRESSION = 28,
        /// Object identifiers; local use.
        OBJECT_ID = 29,
        /// Moves clusters; local use.
        MOVE_CLUSTER = 31,
        /// Quotas.
        QUOTA = 32,
        /// Reparse points; local use.
        REPARSE_POINT = 33,
        /// What an open over a network wants to know.
        NETWORK_OPEN = 34,
        /// Attributes and reparse tag.
        ATTRIBUTE_TAG = 35,
        /// Link tracking; local use.
        TRACKING = 36,
        /// Both-directory entries with a 64-bit identifier.
        ID_BOTH_DIRECTORY = 37,
        /// Full-directory entries with a 64-bit identifier.
        ID_FULL_DIRECTORY = 38,
        /// Length of the data that was written.
        VALID_DATA_LENGTH = 39,
        /// A new short name.
        SHORT_NAME = 40,
        /// Reserved throughput; local use.
        SFIO_RESERVE = 44,
        /// Reserved throughput of the volume; local use.
        SFIO_VOLUME = 45,
        /// Hard links; local use.
        HARD_LINK = 46,
        /// The absolute name as stored.
        NORMALIZED_NAME = 48,
        /// Directory entries with transactions; local use.
        ID_GLOBAL_TX_DIRECTORY = 50,
        /// Counts of links; local use.
        STANDARD_LINK = 54,
        /// Volume serial number and 128-bit file identifier.
        ID = 59,
        /// Directory entries with a 128-bit identifier.
        ID_EXTD_DIRECTORY = 60,
        /// … and the short name (Windows headers; not in MS-FSCC).
        ID_EXTD_BOTH_DIRECTORY = 63,
        /// Whether and how to delete.
        DISPOSITION_EX = 64,
        /// A new name, with flags.
        RENAME_EX = 65,
        /// Everything about a file (Windows headers; not in MS-FSCC).
        STAT = 68,
        /// Whether a directory's names are case-sensitive (Windows headers; not in MS-FSCC).
        CASE_SENSITIVE = 71,
        /// Directory entries with reparse tag and 64-bit identifier.
        ID_64_EXTD_DIRECTORY = 78,
        /// … and the short name.
        ID_64_EXTD_BOTH_DIRECTORY = 79,
        /// Directory entries with both identifiers.
        ID_ALL_EXTD_DIRECTORY = 80,
        /// … and the short name.
        ID_ALL_EXTD_BOTH_DIRECTORY = 81,
    }
}

numbers! {
    /// What is asked of, or told about, a file system (MS-FSCC 2.5).
    FileSystemClass(u8) {
        /// Serial number, label, creation time.
        VOLUME = 1,
        /// A new label; local use.
        LABEL = 2,
        /// Space, as the caller sees it.
        SIZE = 3,
        /// The kind of device.
        DEVICE = 4,
        /// What the file system can do, and its name.
        ATTRIBUTE = 5,
        /// Quota control.
        CONTROL = 6,
        /// Space, the caller's and all.
        FULL_SIZE = 7,
        /// The volume's identifier.
        OBJECT_ID = 8,
        /// Drivers in the path; local use.
        DRIVER_PATH = 9,
        /// Volume flags; local use.
        VOLUME_FLAGS = 10,
        /// Sector sizes.
        SECTOR_SIZE = 11,
    }
}
