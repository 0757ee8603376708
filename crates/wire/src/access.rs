//! The access mask of files, pipes and directories (MS-SMB2 2.2.13.1).

flags! {
    /// What an open may do. Bits below 16 mean one thing on a file and another on a directory.
    AccessMask(u32) {
        /// Read the data of a file.
        FILE_READ_DATA = 0x0000_0001,
        /// Enumerate a directory.
        FILE_LIST_DIRECTORY = 0x0000_0001,
        /// Write the data of a file.
        FILE_WRITE_DATA = 0x0000_0002,
        /// Create a file in a directory.
        FILE_ADD_FILE = 0x0000_0002,
        /// Write behind the end of a file.
        FILE_APPEND_DATA = 0x0000_0004,
        /// Create a directory in a directory.
        FILE_ADD_SUBDIRECTORY = 0x0000_0004,
        /// Read extended attributes.
        FILE_READ_EA = 0x0000_0008,
        /// Write extended attributes.
        FILE_WRITE_EA = 0x0000_0010,
        /// Execute a file.
        FILE_EXECUTE = 0x0000_0020,
        /// Pass through a directory.
        FILE_TRAVERSE = 0x0000_0020,
        /// Delete entries of a directory.
        FILE_DELETE_CHILD = 0x0000_0040,
        /// Read attributes.
        FILE_READ_ATTRIBUTES = 0x0000_0080,
        /// Write attributes.
        FILE_WRITE_ATTRIBUTES = 0x0000_0100,
        /// Delete the file or directory.
        DELETE = 0x0001_0000,
        /// Read the security descriptor.
        READ_CONTROL = 0x0002_0000,
        /// Change the DACL.
        WRITE_DAC = 0x0004_0000,
        /// Change the owner.
        WRITE_OWNER = 0x0008_0000,
        /// Ignored by servers.
        SYNCHRONIZE = 0x0010_0000,
        /// Read or change the SACL.
        ACCESS_SYSTEM_SECURITY = 0x0100_0000,
        /// Whatever the user may do.
        MAXIMUM_ALLOWED = 0x0200_0000,
        /// See [`AccessMask::FILE_ALL_ACCESS`].
        GENERIC_ALL = 0x1000_0000,
        /// See [`AccessMask::FILE_GENERIC_EXECUTE`].
        GENERIC_EXECUTE = 0x2000_0000,
        /// See [`AccessMask::FILE_GENERIC_WRITE`].
        GENERIC_WRITE = 0x4000_0000,
        /// See [`AccessMask::FILE_GENERIC_READ`].
        GENERIC_READ = 0x8000_0000,
        /// What GENERIC_ALL stands for.
        FILE_ALL_ACCESS = 0x001F_01FF,
        /// What GENERIC_READ stands for.
        FILE_GENERIC_READ = 0x0012_0089,
        /// What GENERIC_WRITE stands for.
        FILE_GENERIC_WRITE = 0x0012_0116,
        /// What GENERIC_EXECUTE stands for.
        FILE_GENERIC_EXECUTE = 0x0012_00A0,
    }
}
