//! What is kept of a file's attributes and times beside what the file system keeps itself, and the security descriptor that the file was made
//! with, where that is short: so a file that needs both is made with one call.
//! Which descriptor counts says [`super::security`].
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 1 | version: 1, or 2 where a descriptor follows |
//! | 1 | 1 | which of the following are set: 1 attributes, 2 creation, 4 change |
//! | 2 | 4 | attribute bits |
//! | 6 | 8 | creation time |
//! | 14 | 8 | change time as it was set |
//! | 22 | 8 | until when that holds: a later change of the file ends it |
//! | 30 | 4 | (version 2) bytes of the descriptor |
//! | 34 | n | (version 2) the descriptor |
//!
//! Little-endian; times are FILETIMEs. A record of another version is as good as none, but no file becomes one without a descriptor by it: that
//! is one which cannot be read.

use crate::{Attributes, Time};

/// Bytes of a record without a descriptor.
pub(super) const RECORD_BYTES: usize = 30;
/// Bytes of one with a descriptor at the most: whoever asks for attributes reads it, too.
pub(super) const WITH_DESCRIPTOR_BYTES_MAX: usize = 1024;
const LENGTH_BYTES: usize = 4;

const ALONE: u8 = 1;
const WITH_DESCRIPTOR: u8 = 2;
/// None that is known.
pub(super) const LATER_VERSION: u8 = u8::MAX;
const HAS_ATTRIBUTES: u8 = 1;
const HAS_CREATION: u8 = 2;
const HAS_CHANGE: u8 = 4;

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) attributes: Option<Attributes>,
    pub(super) creation: Option<Time>,
    pub(super) change: Option<ChangeTime>,
}

/// A change time that was set. The file system's own cannot be set, so this holds while that one is not past `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeTime {
    pub(super) time: Time,
    pub(super) until: Time,
}

impl Record {
    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = ALONE;
        bytes[1] = bit(self.attributes.is_some(), HAS_ATTRIBUTES)
            | bit(self.creation.is_some(), HAS_CREATION)
            | bit(self.change.is_some(), HAS_CHANGE);
        bytes[2..6].copy_from_slice(&self.attributes.unwrap_or(0).to_le_bytes());
        bytes[6..14].copy_from_slice(&self.creation.unwrap_or_default().0.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.change.map_or(0, |change| change.time.0).to_le_bytes());
        bytes[22..30].copy_from_slice(&self.change.map_or(0, |change| change.until.0).to_le_bytes());
        bytes
    }

    /// The same with a descriptor behind it; `None` where that is too long.
    pub(super) fn encode_with(&self, descriptor: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.encode().to_vec();
        bytes[0] = WITH_DESCRIPTOR;
        bytes.extend_from_slice(&u32::try_from(descriptor.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(descriptor);
        (bytes.len() <= WITH_DESCRIPTOR_BYTES_MAX).then_some(bytes)
    }

    /// The bytes in which this stands instead of the record that there is, and the same is behind it; `None` where that cannot be read.
    pub(super) fn encode_instead_of(&self, there: &[u8]) -> Option<Vec<u8>> {
        match Behind::decode(there) {
            Behind::Nothing => Some(self.encode().to_vec()),
            Behind::Descriptor(descriptor) => self.encode_with(descriptor),
            Behind::Unknown => None,
        }
    }

    /// Nothing set where the bytes are not a record.
    pub(super) fn decode(bytes: &[u8]) -> Record {
        let known = match bytes.first() {
            Some(&ALONE) => <&[u8; RECORD_BYTES]>::try_from(bytes).ok(),
            Some(&WITH_DESCRIPTOR) => bytes.first_chunk::<RECORD_BYTES>(),
            _ => None,
        };
        let Some(bytes) = known else { return Record::default() };
        let time = |at: usize| {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            Time(u64::from_le_bytes(value))
        };
        let attributes = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        let has = |bit: u8| bytes[1] & bit != 0;
        Record {
            attributes: has(HAS_ATTRIBUTES).then_some(attributes),
            creation: has(HAS_CREATION).then(|| time(6)),
            change: has(HAS_CHANGE).then(|| ChangeTime { time: time(14), until: time(22) }),
        }
    }
}

/// The descriptor behind a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind<'a> {
    Nothing,
    Descriptor(&'a [u8]),
    /// Something that cannot be read: cut, or written by a later version.
    Unknown,
}

impl<'a> Behind<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Self {
        match bytes.first() {
            None | Some(0 | &ALONE) => Behind::Nothing,
            Some(&WITH_DESCRIPTOR) if bytes.len() <= WITH_DESCRIPTOR_BYTES_MAX => {
                let rest = bytes.get(RECORD_BYTES..).and_then(<[u8]>::split_first_chunk::<LENGTH_BYTES>);
                let whole = rest.filter(|(length, rest)| u32::from_le_bytes(**length) as usize == rest.len());
                whole.map_or(Behind::Unknown, |(_, descriptor)| Behind::Descriptor(descriptor))
            }
            Some(_) => Behind::Unknown,
        }
    }
}

/// What is kept of a file and the descriptor behind it, read and written once more; `None` where that is no descriptor of this version.
#[cfg(feature = "decoders")]
pub fn rewritten_record(bytes: &[u8]) -> Option<Vec<u8>> {
    Record::decode(bytes).encode_instead_of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_comes_back(
            attributes: Option<u32>, creation: Option<u64>, change: Option<(u64, u64)>, descriptor in vec(any::<u8>(), 0..1100),
        ) {
            let change = change.map(|(time, until)| ChangeTime { time: Time(time), until: Time(until) });
            let record = Record { attributes, creation: creation.map(Time), change };
            prop_assert_eq!(Record::decode(&record.encode()), record);
            if let Some(bytes) = record.encode_with(&descriptor) {
                prop_assert_eq!(Record::decode(&bytes), record);
                prop_assert_eq!(Behind::decode(&bytes), Behind::Descriptor(&descriptor));
            } else {
                prop_assert!(descriptor.len() > 900);
            }
        }

        #[test]
        fn any_bytes_are_decoded(bytes: Vec<u8>) {
            let record = Record::decode(&bytes);
            if let Some(again) = record.encode_instead_of(&bytes) {
                prop_assert_eq!(Record::decode(&again), record);
                prop_assert_eq!(Behind::decode(&again), Behind::decode(&bytes));
            }
        }
    }

    #[test]
    fn a_cut_or_foreign_record_is_none() {
        let record = Record { attributes: Some(6), creation: Some(Time(7)), change: None };
        let bytes = record.encode();
        for length in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..length]), Record::default());
        }
        let mut foreign = bytes;
        foreign[0] = 3;
        assert_eq!(Record::decode(&foreign), Record::default());
    }

    #[test]
    fn a_descriptor_that_is_cut_or_of_a_later_version_is_not_missing() {
        let bytes = Record::default().encode_with(b"descriptor").unwrap();
        for length in 1..bytes.len() {
            assert_eq!(Behind::decode(&bytes[..length]), Behind::Unknown, "{length}");
        }
        assert_eq!(Behind::decode(&[bytes.as_slice(), b"x"].concat()), Behind::Unknown);
        for version in 3..=255 {
            assert_eq!(Behind::decode(&[version; 40]), Behind::Unknown);
        }
        assert_eq!(Behind::decode(&[]), Behind::Nothing);
    }
}
