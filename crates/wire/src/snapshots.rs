//! SRV_ENUMERATE_SNAPSHOTS: the previous versions of a share (MS-SMB2 2.2.32.2). No input.

use crate::codec::{Malformed, Reader, Utf16, Writer, utf16_bytes};

/// SRV_SNAPSHOT_ARRAY (2.2.32.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SnapshotArray<'a> {
    /// How many there are.
    pub snapshot_count: u32,
    /// How many are listed: all, or none where they do not fit.
    pub returned_count: u32,
    /// The length in bytes of the list, or that it would have.
    pub array_size: u32,
    /// The list: `@GMT-` tokens, each ended by a zero unit, the last by two.
    pub snapshots: Utf16<'a>,
}

impl<'a> SnapshotArray<'a> {
    /// Decodes the output.
    pub fn decode(output: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(output);
        let snapshot_count = reader.u32()?;
        let returned_count = reader.u32()?;
        let array_size = reader.u32()?;
        let snapshots = match returned_count {
            0 => Utf16::default(),
            _ => Utf16::new(reader.bytes(array_size as usize)?)?,
        };
        Ok(SnapshotArray { snapshot_count, returned_count, array_size, snapshots })
    }

    /// Appends the output that lists `tokens`, or, where it is longer than `output_max` bytes, their number and the
    /// length of the list alone.
    pub fn encode(tokens: &[&str], output_max: usize, out: &mut Vec<u8>) {
        let mut list: Vec<u8> = tokens.iter().flat_map(|token| [utf16_bytes(token), vec![0, 0]]).flatten().collect();
        list.extend_from_slice(&[0, 0]);
        let fits = 12 + list.len() <= output_max;
        let mut writer = Writer::new(out);
        writer.u32(tokens.len() as u32);
        writer.u32(if fits { tokens.len() as u32 } else { 0 });
        writer.u32(list.len() as u32);
        // Windows puts two zero bytes in place of a list that does not fit.
        writer.bytes(if fits { &list } else { &[0, 0] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [&str; 2] = ["@GMT-2024.01.01-00.00.00", "@GMT-2024.01.02-00.00.00"];

    #[test]
    fn lists_round_trip_and_truncated_ones_are_malformed() {
        let mut output = Vec::new();
        SnapshotArray::encode(&TOKENS, 4096, &mut output);
        let array = SnapshotArray::decode(&output).unwrap();
        assert_eq!((array.snapshot_count, array.returned_count), (2, 2));
        assert_eq!(array.snapshots.decode().unwrap(), TOKENS.map(|token| format!("{token}\0")).concat() + "\0");
        for length in 0..output.len() {
            assert!(SnapshotArray::decode(&output[..length]).is_err());
        }
    }

    #[test]
    fn a_list_that_does_not_fit_tells_its_length() {
        let mut output = Vec::new();
        SnapshotArray::encode(&TOKENS, 16, &mut output);
        assert_eq!(output.len(), 14);
        let array = SnapshotArray::decode(&output).unwrap();
        assert_eq!((array.snapshot_count, array.returned_count, array.array_size), (2, 0, 102));
    }
}
