//! What is kept of a file's attributes and times beside what the file system keeps itself.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | which of the following are set: 1 attributes, 2 creation, 4 change |
//! | 2 | 4 | attribute bits |
//! | 6 | 8 | creation time |
//! | 14 | 8 | change time as it was set |
//! | 22 | 8 | until when that holds: a later change of the file ends it |
//!
//! Little-endian; times are FILETIMEs. A record of another version is as good as none.

use crate::{Attributes, Time};

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 30;

const VERSION: u8 = 1;
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
        bytes[0] = VERSION;
        bytes[1] = bit(self.attributes.is_some(), HAS_ATTRIBUTES)
            | bit(self.creation.is_some(), HAS_CREATION)
            | bit(self.change.is_some(), HAS_CHANGE);
        bytes[2..6].copy_from_slice(&self.attributes.unwrap_or(0).to_le_bytes());
        bytes[6..14].copy_from_slice(&self.creation.unwrap_or_default().0.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.change.map_or(0, |change| change.time.0).to_le_bytes());
        bytes[22..30].copy_from_slice(&self.change.map_or(0, |change| change.until.0).to_le_bytes());
        bytes
    }

    /// Nothing set where the bytes are not a record.
    pub(super) fn decode(bytes: &[u8]) -> Record {
        let (Ok(bytes), Some(&VERSION)) = (<&[u8; RECORD_BYTES]>::try_from(bytes), bytes.first()) else {
            return Record::default();
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_comes_back(attributes: Option<u32>, creation: Option<u64>, change: Option<(u64, u64)>) {
            let change = change.map(|(time, until)| ChangeTime { time: Time(time), until: Time(until) });
            let record = Record { attributes, creation: creation.map(Time), change };
            prop_assert_eq!(Record::decode(&record.encode()), record);
        }

        #[test]
        fn any_bytes_are_decoded(bytes: Vec<u8>) {
            Record::decode(&bytes);
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
        foreign[0] = 2;
        assert_eq!(Record::decode(&foreign), Record::default());
    }
}
