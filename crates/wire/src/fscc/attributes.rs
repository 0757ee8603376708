//! File attributes (MS-FSCC 2.6).

flags! {
    /// What a file is beyond its data (MS-FSCC 2.6).
    FileAttributes(u32) {
        /// Cannot be written or deleted.
        READONLY = 0x0000_0001,
        /// Does not appear in an ordinary listing.
        HIDDEN = 0x0000_0002,
        /// Used by the operating system.
        SYSTEM = 0x0000_0004,
        /// A directory.
        DIRECTORY = 0x0000_0010,
        /// To be archived.
        ARCHIVE = 0x0000_0020,
        /// No other attribute; ignored beside others.
        NORMAL = 0x0000_0080,
        /// Kept for a short time.
        TEMPORARY = 0x0000_0100,
        /// Has ranges without storage.
        SPARSE_FILE = 0x0000_0200,
        /// Has a reparse point.
        REPARSE_POINT = 0x0000_0400,
        /// Stored compressed.
        COMPRESSED = 0x0000_0800,
        /// Its data is not at hand.
        OFFLINE = 0x0000_1000,
        /// Left out of the content index.
        NOT_CONTENT_INDEXED = 0x0000_2000,
        /// Stored encrypted.
        ENCRYPTED = 0x0000_4000,
        /// Has integrity support.
        INTEGRITY_STREAM = 0x0000_8000,
        /// Left out of integrity scans.
        NO_SCRUB_DATA = 0x0002_0000,
        /// Virtual: opening it fetches it.
        RECALL_ON_OPEN = 0x0004_0000,
        /// Kept on local storage.
        PINNED = 0x0008_0000,
        /// Not kept on local storage.
        UNPINNED = 0x0010_0000,
        /// Reading it fetches it.
        RECALL_ON_DATA_ACCESS = 0x0040_0000,
    }
}
