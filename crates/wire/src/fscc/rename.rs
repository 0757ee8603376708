//! Renaming, linking and deleting (MS-FSCC 2.4.11, 2.4.12, 2.4.28.2, 2.4.42.2, 2.4.43).

use crate::codec::{Malformed, Reader, Utf16, Writer, range};

/// The least length of a rename or link structure: shorter names are padded up to it (MS-FSCC 2.4.42.2).
const LENGTH_MIN: usize = 24;
/// Where the name begins.
const NAME_OFFSET: usize = 20;

layout! {
    /// FileDispositionInformation (MS-FSCC 2.4.11).
    pub struct Disposition {
        /// Delete when the last open closes.
        pub delete_pending: bool;
    }

    /// FileDispositionInformationEx (MS-FSCC 2.4.12).
    pub struct DispositionEx {
        /// Whether and how to delete.
        pub flags: DispositionFlags;
    }
}

flags! {
    /// Whether and how to delete (MS-FSCC 2.4.12).
    DispositionFlags(u32) {
        /// Delete the file.
        DELETE = 0x01,
        /// The name goes when this open closes, the data with the last.
        POSIX_SEMANTICS = 0x02,
        /// Not while it runs as a program.
        FORCE_IMAGE_SECTION_CHECK = 0x04,
        /// Change the delete-on-close state of the open.
        ON_CLOSE = 0x08,
        /// Even where it is read-only.
        IGNORE_READONLY_ATTRIBUTE = 0x10,
    }
}

newtype_field!(DispositionFlags => u32);

flags! {
    /// How to rename or link (MS-FSCC 2.4.43).
    RenameFlags(u32) {
        /// Take the place of a file that has the name.
        REPLACE_IF_EXISTS = 0x01,
        /// The replaced file's opens stay usable.
        POSIX_SEMANTICS = 0x02,
        /// Leave the pin state alone.
        SUPPRESS_PIN_STATE_INHERITANCE = 0x04,
        /// Leave the storage reserve alone.
        SUPPRESS_STORAGE_RESERVE_INHERITANCE = 0x08,
        /// Free space must not grow.
        NO_INCREASE_AVAILABLE_SPACE = 0x10,
        /// Free space must not shrink.
        NO_DECREASE_AVAILABLE_SPACE = 0x20,
        /// Rename even a read-only target away.
        IGNORE_READONLY_ATTRIBUTE = 0x40,
    }
}

/// FileRenameInformation and FileLinkInformation in their SMB2 form, and FileRenameInformationEx.
///
/// | offset | length | field |
/// |---|---|---|
/// | 0 | 1 or 4 | ReplaceIfExists, or Flags in the Ex form |
/// | 8 | 8 | RootDirectory |
/// | 16 | 4 | FileNameLength |
/// | 20 | FileNameLength | FileName |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// How; only [`RenameFlags::REPLACE_IF_EXISTS`] outside the Ex form.
    pub flags: RenameFlags,
    /// The directory the name is relative to; zero over a network, else the answer is STATUS_INVALID_PARAMETER.
    pub root_directory: u64,
    /// The new name, from the share's root.
    pub name: Utf16<'a>,
}

impl<'a> Rename<'a> {
    /// Reads FileRenameInformation or FileLinkInformation.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let replace = Reader::new(bytes).u8()? != 0;
        let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::NONE };
        Self::with_flags(bytes, flags)
    }

    /// Reads FileRenameInformationEx.
    pub fn decode_ex(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let flags = RenameFlags(Reader::new(bytes).u32()?);
        Self::with_flags(bytes, flags)
    }

    fn with_flags(bytes: &'a [u8], flags: RenameFlags) -> Result<Self, Malformed> {
        let mut reader = Reader::at(bytes, 8);
        let root_directory = reader.u64()?;
        let length = reader.u32()? as usize;
        let name = Utf16::new(range(bytes, NAME_OFFSET, length, "FileNameLength")?)?;
        Ok(Rename { flags, root_directory, name })
    }

    /// Appends FileRenameInformation or FileLinkInformation to `out`.
    pub fn encode(name: &str, replace: bool, out: &mut Vec<u8>) {
        Self::encode_ex(name, RenameFlags(u32::from(replace)), out);
    }

    /// Appends FileRenameInformationEx to `out`.
    pub fn encode_ex(name: &str, flags: RenameFlags, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u32(flags.0);
        writer.zeros(4);
        writer.u64(0);
        writer.u32(0);
        writer.utf16(name);
        let length = writer.position() - NAME_OFFSET;
        writer.patch_u32(16, length as u32);
        writer.zeros(LENGTH_MIN.saturating_sub(writer.position()));
    }
}
