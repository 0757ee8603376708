//! What Macs keep in the named streams AFP_AfpInfo and AFP_Resource of a file, and how a directory's entries tell of it.
//!
//! AFP_AfpInfo was made by Windows' Services for Macintosh. Its numbers have their high byte first:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `AFP` and a zero byte |
//! | 4 | 4 | version, 0x00010000 |
//! | 8 | 4 | reserved |
//! | 12 | 4 | backup time, 0x80000000 for never |
//! | 16 | 32 | Finder information |
//! | 48 | 12 | ProDOS information and reserved bytes |

use crate::codec::{Malformed, Reader};

/// The stream with the Finder's information.
pub const INFO_STREAM: &str = "AFP_AfpInfo";
/// The stream with the resource fork.
pub const RESOURCE_STREAM: &str = "AFP_Resource";

const SIGNATURE: [u8; 4] = *b"AFP\0";
/// As much of the signature as a client has to bring.
const BEGINNING: &[u8] = b"AFP";
const VERSION: [u8; 4] = [0, 1, 0, 0];
const NEVER: [u8; 4] = [0x80, 0, 0, 0];
const BACKUP_TIME_AT: usize = 12;
const FINDER_AT: usize = 16;
const FINDER_BYTES: usize = 32;

/// What an AFP_AfpInfo stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfpInfo([u8; Self::LENGTH]);

impl AfpInfo {
    /// Its length, which never changes.
    pub const LENGTH: usize = 60;

    /// What a file has that the Finder knows nothing of.
    pub fn blank() -> Self {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&SIGNATURE);
        bytes[4..8].copy_from_slice(&VERSION);
        bytes[BACKUP_TIME_AT..FINDER_AT].copy_from_slice(&NEVER);
        AfpInfo(bytes)
    }

    /// Reads a whole one; what follows it means nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let info: [u8; Self::LENGTH] = Reader::new(bytes).array()?;
        match info.starts_with(&SIGNATURE) {
            true => Ok(AfpInfo(info)),
            false => Err(Malformed("signature of AFP_AfpInfo")),
        }
    }

    /// This one after a client wrote `data` to its beginning. It has to bring the signature: clients write all of it, or what they know of.
    pub fn overwritten(mut self, data: &[u8]) -> Result<Self, Malformed> {
        if !data.starts_with(BEGINNING) {
            return Err(Malformed("signature of AFP_AfpInfo"));
        }
        let data = &data[..data.len().min(Self::LENGTH)];
        self.0[..data.len()].copy_from_slice(data);
        Self::decode(&self.0)
    }

    /// The stream's bytes.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        self.0
    }

    /// The Finder's information.
    pub fn finder(&self) -> &[u8] {
        &self.0[FINDER_AT..FINDER_AT + FINDER_BYTES]
    }

    /// True where the Finder knows nothing of the file: a Mac that writes this deletes the stream.
    pub fn is_blank(&self) -> bool {
        self.finder().iter().all(|byte| *byte == 0)
    }
}

/// What an entry of FileIdBothDirectoryInformation tells a Mac that asks for it (kAAPL_SUPPORTS_READ_DIR_ATTR) in place of the length of extended
/// attributes and a short name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppleEntry {
    /// What the reader may do with the file (MS-SMB2 2.2.13.1).
    pub access_max: u32,
    /// Bytes of the resource fork.
    pub resource_bytes: u64,
    /// What there is of the Finder's information.
    pub finder: AppleFinder,
}

/// The part of the Finder's information that is still in use, as directory entries have it: type and creator of a file, flags, extended flags, and when
/// it came to its directory, in seconds of this century.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppleFinder([u8; 16]);

impl AppleFinder {
    /// What is told of a file, or of a directory, which has neither type nor creator. `added` is when it came to its directory, where the Finder has not
    /// said so.
    pub fn of(info: Option<&AfpInfo>, is_directory: bool, added: u32) -> Self {
        let mut told = [0; 16];
        let finder = info.map_or(&[0; FINDER_BYTES][..], AfpInfo::finder);
        if !is_directory {
            told[..8].copy_from_slice(&finder[..8]);
        }
        told[8..10].copy_from_slice(&finder[8..10]);
        told[10..12].copy_from_slice(&finder[24..26]);
        told[12..].copy_from_slice(&finder[20..24]);
        if told[12..] == [0; 4] {
            told[12..].copy_from_slice(&added.to_be_bytes());
        }
        AppleFinder(told)
    }

    /// The bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The bytes as a client reads them.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        AppleFinder(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed() -> AfpInfo {
        let mut bytes = AfpInfo::blank().to_bytes();
        bytes[16..24].copy_from_slice(b"TEXTttxt");
        bytes[24..26].copy_from_slice(&[0x40, 1]);
        bytes[36..40].copy_from_slice(&[1, 2, 3, 4]);
        bytes[40..42].copy_from_slice(&[0x80, 2]);
        AfpInfo(bytes)
    }

    #[test]
    fn information_round_trips_and_needs_its_signature() {
        let info = typed();
        assert_eq!(AfpInfo::decode(&info.to_bytes()), Ok(info));
        assert_eq!(AfpInfo::decode(&[&info.to_bytes()[..], b"more"].concat()), Ok(info));
        for length in 0..AfpInfo::LENGTH {
            assert!(AfpInfo::decode(&info.to_bytes()[..length]).is_err(), "{length}");
        }
        assert!(AfpInfo::decode(&[0; 60]).is_err());
        crate::testing::hostile(&info.to_bytes(), |bytes| {
            let _ = AfpInfo::decode(bytes);
        });
    }

    #[test]
    fn what_the_finder_knows_nothing_of_is_blank_whenever_it_was_backed_up() {
        let mut backed_up = AfpInfo::blank().to_bytes();
        backed_up[12..16].copy_from_slice(&[0, 0, 1, 0]);
        assert!(AfpInfo::blank().is_blank() && AfpInfo::decode(&backed_up).unwrap().is_blank());
        assert!(!typed().is_blank());
    }

    #[test]
    fn a_write_of_a_part_leaves_the_rest() {
        let (blank, whole) = (AfpInfo::blank(), typed().to_bytes());
        assert_eq!(blank.overwritten(&whole), Ok(typed()));
        assert_eq!(blank.overwritten(&[&whole[..], b"more"].concat()), Ok(typed()));
        assert_eq!(blank.overwritten(&whole[..20]).unwrap().finder()[..8], *b"TEXT\0\0\0\0");
        assert_eq!(typed().overwritten(&whole[..16]), Ok(typed()));
        assert_eq!(typed().overwritten(b"AFP"), Ok(typed()));
        for wrong in [&b""[..], b"AF", b"XFP\0", b"AFP!", &[0; 60]] {
            assert!(blank.overwritten(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn entries_tell_what_is_in_use() {
        let told = AppleFinder::of(Some(&typed()), false, 9).to_bytes();
        assert_eq!(told, *b"TEXTttxt\x40\x01\x80\x02\x01\x02\x03\x04");
        let told = AppleFinder::of(Some(&typed()), true, 9).to_bytes();
        assert_eq!(told, *b"\0\0\0\0\0\0\0\0\x40\x01\x80\x02\x01\x02\x03\x04");
        assert_eq!(AppleFinder::of(None, false, 9).to_bytes(), *b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09");
    }
}
