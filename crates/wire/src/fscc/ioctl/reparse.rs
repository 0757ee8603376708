//! Reparse points (MS-FSCC 2.1.2).

use crate::codec::{Malformed, Reader, Utf16, Writer, range};
use crate::ids::Guid;

/// The symbolic link's substitute name is relative to the directory that holds it.
pub const SYMLINK_FLAG_RELATIVE: u32 = 0x0000_0001;

numbers! {
    /// Who understands a reparse point (MS-FSCC 2.1.2.1).
    ReparseTag(u32) {
        /// A mount point or directory junction.
        MOUNT_POINT = 0xA000_0003,
        /// A symbolic link.
        SYMLINK = 0xA000_000C,
        /// Special files of the NFS server.
        NFS = 0x8000_0014,
        /// A symbolic link of WSL.
        LX_SYMLINK = 0xA000_001D,
        /// A Unix socket.
        AF_UNIX = 0x8000_0023,
        /// A Unix pipe.
        LX_FIFO = 0x8000_0024,
        /// A Unix character device.
        LX_CHR = 0x8000_0025,
        /// A Unix block device.
        LX_BLK = 0x8000_0026,
    }
}

impl ReparseTag {
    /// True for a tag that Microsoft gave out: the others carry a GUID.
    pub fn is_microsoft(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

/// REPARSE_DATA_BUFFER or REPARSE_GUID_DATA_BUFFER (MS-FSCC 2.1.2.2, 2.1.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reparse<'a> {
    /// Who understands it.
    pub tag: ReparseTag,
    /// Who understands it, where the tag is not Microsoft's.
    pub guid: Option<Guid>,
    /// What it says.
    pub data: &'a [u8],
}

impl<'a> Reparse<'a> {
    /// Reads it. ReparseDataLength must be exactly what follows the header.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let tag = ReparseTag(reader.u32()?);
        let length = usize::from(reader.u16()?);
        reader.skip(2)?;
        let guid = if tag.is_microsoft() { None } else { Some(Guid(reader.array()?)) };
        let data = reader.rest();
        if data.len() != length {
            return Err(Malformed("ReparseDataLength"));
        }
        Ok(Reparse { tag, guid, data })
    }

    /// What a symbolic link says; `None` where the tag is another.
    pub fn symlink(&self) -> Result<Option<Symlink<'a>>, Malformed> {
        if self.tag != ReparseTag::SYMLINK {
            return Ok(None);
        }
        let mut reader = Reader::new(self.data);
        let mut field = || reader.u16().map(usize::from);
        let (substitute, print) = ((field()?, field()?), (field()?, field()?));
        let flags = reader.u32()?;
        let path = reader.rest();
        Ok(Some(Symlink {
            substitute: Utf16::new(range(path, substitute.0, substitute.1, "SubstituteNameOffset")?)?,
            print: Utf16::new(range(path, print.0, print.1, "PrintNameOffset")?)?,
            flags,
        }))
    }
}

/// InodeType of a symbolic link of the NFS server (MS-FSCC 2.1.2.6): `LNK`.
const NFS_LINK: u64 = 0x0000_0000_014B_4E4C;
/// The version of a symbolic link of WSL whose target is UTF-8 (MS-FSCC 2.1.2.7).
const LX_LINK_VERSION: u32 = 2;

impl<'a> Reparse<'a> {
    /// Where a symbolic link of the NFS server leads, with `/` between the names (MS-FSCC 2.1.2.6); `None` for its other special files, and where
    /// the tag is another.
    pub fn nfs_link(&self) -> Result<Option<Utf16<'a>>, Malformed> {
        if self.tag != ReparseTag::NFS {
            return Ok(None);
        }
        let mut reader = Reader::new(self.data);
        match reader.u64()? {
            NFS_LINK => Utf16::new(reader.rest()).map(Some),
            _ => Ok(None),
        }
    }

    /// Where a symbolic link of WSL leads, with `/` between the names (MS-FSCC 2.1.2.7); `None` where the tag is another.
    pub fn lx_link(&self) -> Result<Option<&'a str>, Malformed> {
        if self.tag != ReparseTag::LX_SYMLINK {
            return Ok(None);
        }
        let mut reader = Reader::new(self.data);
        if reader.u32()? != LX_LINK_VERSION {
            return Err(Malformed("version of a WSL symbolic link"));
        }
        std::str::from_utf8(reader.rest()).map(Some).map_err(|_| Malformed("target of a WSL symbolic link"))
    }
}

/// Where a symbolic link leads (MS-FSCC 2.1.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symlink<'a> {
    /// The path to follow.
    pub substitute: Utf16<'a>,
    /// The path to show.
    pub print: Utf16<'a>,
    /// See [`SYMLINK_FLAG_RELATIVE`].
    pub flags: u32,
}

/// Appends a symbolic link's REPARSE_DATA_BUFFER to `out`. False, and nothing is written, where the names are too long.
pub fn encode_symlink(substitute: &str, print: &str, flags: u32, out: &mut Vec<u8>) -> bool {
    const FIELDS_BYTES: usize = 12;
    let bytes = |text: &str| 2 * text.encode_utf16().count();
    let (substitute_bytes, print_bytes) = (bytes(substitute), bytes(print));
    let Ok(length) = u16::try_from(FIELDS_BYTES + substitute_bytes + print_bytes) else { return false };
    let mut writer = Writer::new(out);
    writer.u32(ReparseTag::SYMLINK.0);
    writer.u16(length);
    writer.u16(0);
    writer.u16(0);
    writer.u16(substitute_bytes as u16);
    writer.u16(substitute_bytes as u16);
    writer.u16(print_bytes as u16);
    writer.u32(flags);
    writer.utf16(substitute);
    writer.utf16(print);
    true
}
