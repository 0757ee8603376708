//! How side files are named ([`super::side`]).

use rustix::rand::{GetRandomFlags, getrandom};

use crate::Error;
use crate::directory::errno::error;

/// What a stream is known by, and a side file besides its owner.
pub(super) type Id = [u8; ID_BYTES];
/// Bytes of an id; in a name each is two digits.
pub(super) const ID_BYTES: usize = 16;

/// The file that a side file was made for.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 8 | the file system, where it is mounted below the share's root; 0 on that root's own |
/// | 8 | 8 | the inode number |
/// | 16 | 16 | when it was made, in nanoseconds since 1970; 0 where the file system does not know |
///
/// Little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) volume: u64,
    pub(super) file: u64,
    pub(super) born: i128,
}

/// Bytes of an owner as it is kept.
pub(super) const OWNER_BYTES: usize = 32;

impl Owner {
    pub(super) fn encode(&self) -> [u8; OWNER_BYTES] {
        let mut bytes = [0; OWNER_BYTES];
        bytes[..8].copy_from_slice(&self.volume.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.file.to_le_bytes());
        bytes[16..].copy_from_slice(&self.born.to_le_bytes());
        bytes
    }

    /// `None` where the bytes are no owner.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (volume, rest) = bytes.split_first_chunk()?;
        let (file, rest) = rest.split_first_chunk()?;
        let born = rest.try_into().ok()?;
        Some(Owner {
            volume: u64::from_le_bytes(*volume),
            file: u64::from_le_bytes(*file),
            born: i128::from_le_bytes(born),
        })
    }

    /// How a side file's name on disk ends.
    pub(super) fn on_disk(&self) -> String {
        let Owner { volume, file, born } = self;
        format!("-{volume:x}-{file:x}-{born:x}")
    }

    /// True where a side file's name on disk has this owner.
    pub(super) fn is_in(&self, side: &str) -> bool {
        side.get(2 * ID_BYTES..) == Some(&*self.on_disk())
    }

    /// True where both are one file if they are on one file system. A later kernel may know times of birth that an earlier one did not.
    pub(super) fn may_be(&self, other: &Owner) -> bool {
        self.file == other.file && (self.born == other.born || self.born == 0 || other.born == 0)
    }
}

/// Names a side file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SideName {
    pub(super) id: Id,
    /// Earlier versions wrote none.
    pub(super) owner: Option<Owner>,
}

/// The most bytes of a name as it is kept.
pub(super) const NAME_BYTES_MAX: usize = 16 + OWNER_BYTES;

impl SideName {
    /// A new one.
    pub(super) fn new(owner: Owner) -> Result<Self, Error> {
        Ok(SideName { id: new_id()?, owner: Some(owner) })
    }

    /// The id, then the owner.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.id.to_vec();
        bytes.extend(self.owner.iter().flat_map(Owner::encode));
        bytes
    }

    /// `None` where the bytes are no name.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, owner) = bytes.split_first_chunk()?;
        let owner = if owner.is_empty() { None } else { Some(Owner::decode(owner)?) };
        Some(SideName { id: *id, owner })
    }

    pub(super) fn on_disk(&self) -> String {
        let owner = self.owner.map(|owner| owner.on_disk()).unwrap_or_default();
        format!("{}{owner}", name(self.id))
    }
}

/// A new random id.
pub(super) fn new_id() -> Result<Id, Error> {
    let mut id = [0; 16];
    getrandom(&mut id, GetRandomFlags::empty()).map_err(error)?;
    Ok(id)
}

/// An id as a name.
pub(super) fn name(id: Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_comes_back(id: [u8; 16], owner: Option<(u64, u64, i128)>) {
            let owner = owner.map(|(volume, file, born)| Owner { volume, file, born });
            let side = SideName { id, owner };
            let bytes = side.encode();
            prop_assert!(bytes.len() <= NAME_BYTES_MAX);
            prop_assert_eq!(SideName::decode(&bytes), Some(side));
            for cut in (0..bytes.len()).filter(|cut| *cut != 16) {
                prop_assert_eq!(SideName::decode(&bytes[..cut]), None);
            }
        }

        #[test]
        fn any_bytes_are_decoded(bytes: Vec<u8>) {
            let _ = SideName::decode(&bytes);
        }
    }
}
