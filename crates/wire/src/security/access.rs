//! Access masks (MS-DTYP 2.4.3, MS-SMB2 2.2.13.1).

flags! {
    /// An access mask in a message; its bits are the constants of this module.
    AccessMask(u32) {
    }
}

/// Read a file's data, list a directory.
pub const READ_DATA: u32 = 0x0000_0001;
/// Write a file's data, make a file in a directory.
pub const WRITE_DATA: u32 = 0x0000_0002;
/// Append to a file's data, make a directory in a directory.
pub const APPEND_DATA: u32 = 0x0000_0004;
/// Read extended attributes.
pub const READ_EA: u32 = 0x0000_0008;
/// Write extended attributes.
pub const WRITE_EA: u32 = 0x0000_0010;
/// Run a file, pass through a directory.
pub const EXECUTE: u32 = 0x0000_0020;
/// Delete what is in a directory.
pub const DELETE_CHILD: u32 = 0x0000_0040;
/// Read attributes.
pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
/// Write attributes.
pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
/// Delete it.
pub const DELETE: u32 = 0x0001_0000;
/// Read the security descriptor, the SACL left out.
pub const READ_CONTROL: u32 = 0x0002_0000;
/// Change the DACL.
pub const WRITE_DAC: u32 = 0x0004_0000;
/// Change the owner.
pub const WRITE_OWNER: u32 = 0x0008_0000;
/// Wait for it.
pub const SYNCHRONIZE: u32 = 0x0010_0000;
/// Read and change the SACL.
pub const ACCESS_SYSTEM_SECURITY: u32 = 0x0100_0000;
/// Whatever can be had; never found in an ACE.
pub const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
/// All of [`FILE_ALL`].
pub const GENERIC_ALL: u32 = 0x1000_0000;
/// All of [`FILE_GENERIC_EXECUTE`].
pub const GENERIC_EXECUTE: u32 = 0x2000_0000;
/// All of [`FILE_GENERIC_WRITE`].
pub const GENERIC_WRITE: u32 = 0x4000_0000;
/// All of [`FILE_GENERIC_READ`].
pub const GENERIC_READ: u32 = 0x8000_0000;

/// What GENERIC_READ means for a file or directory.
pub const FILE_GENERIC_READ: u32 = READ_CONTROL | SYNCHRONIZE | READ_DATA | READ_ATTRIBUTES | READ_EA;
/// What GENERIC_WRITE means for a file or directory.
pub const FILE_GENERIC_WRITE: u32 = READ_CONTROL | SYNCHRONIZE | WRITE_DATA | APPEND_DATA | WRITE_ATTRIBUTES | WRITE_EA;
/// What GENERIC_EXECUTE means for a file or directory.
pub const FILE_GENERIC_EXECUTE: u32 = READ_CONTROL | SYNCHRONIZE | READ_ATTRIBUTES | EXECUTE;
/// What GENERIC_ALL means for a file or directory.
pub const FILE_ALL: u32 = 0x001F_01FF;

/// What the generic bits mean for a kind of object (MS-DTYP 2.4.3, GENERIC_MAPPING).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenericMapping {
    /// GENERIC_READ.
    pub read: u32,
    /// GENERIC_WRITE.
    pub write: u32,
    /// GENERIC_EXECUTE.
    pub execute: u32,
    /// GENERIC_ALL.
    pub all: u32,
}

impl GenericMapping {
    /// For files and directories.
    pub const FILE: GenericMapping = GenericMapping {
        read: FILE_GENERIC_READ,
        write: FILE_GENERIC_WRITE,
        execute: FILE_GENERIC_EXECUTE,
        all: FILE_ALL,
    };

    /// `mask` with its generic bits replaced by what they mean.
    pub const fn map(&self, mask: u32) -> u32 {
        let mut mapped = mask & !(GENERIC_READ | GENERIC_WRITE | GENERIC_EXECUTE | GENERIC_ALL);
        if mask & GENERIC_READ != 0 {
            mapped |= self.read;
        }
        if mask & GENERIC_WRITE != 0 {
            mapped |= self.write;
        }
        if mask & GENERIC_EXECUTE != 0 {
            mapped |= self.execute;
        }
        if mask & GENERIC_ALL != 0 {
            mapped |= self.all;
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_bits_mean_what_windows_says() {
        assert_eq!(GenericMapping::FILE.map(GENERIC_READ), 0x0012_0089);
        assert_eq!(GenericMapping::FILE.map(GENERIC_WRITE), 0x0012_0116);
        assert_eq!(GenericMapping::FILE.map(GENERIC_EXECUTE), 0x0012_00A0);
        assert_eq!(GenericMapping::FILE.map(GENERIC_ALL | MAXIMUM_ALLOWED), 0x021F_01FF);
    }
}
