//! How a named stream is kept: its data, or where they are.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | 0: the data follow; 1: they are in a side file, and its owner follows; 2 more where it is being renamed |
//! | 2 | 16 | the stream's id, which with the owner is the side file's name |
//! | 18 | 2 | bytes of the name, little-endian; 0 where the key holds it |
//! | 20 | n | the name, UTF-8 |
//! | 20 + n | | the data, or the owner ([`super::side_name::Owner`]); earlier versions wrote none |

use crate::directory::keys::{KEY_BYTES_MAX, LONG_STREAM, STREAM};
use crate::directory::side_name::{Id, OWNER_BYTES, Owner, SideName};

/// The most bytes of data that are kept in an attribute: an ext4 inode has 4 KiB for all of them.
pub(super) const INLINE_BYTES_MAX: usize = 1024;
/// The longest value: 255 UTF-16 units are at most 765 bytes of name.
pub(super) const VALUE_BYTES_MAX: usize = HEADER_BYTES + 765 + INLINE_BYTES_MAX;

const VERSION: u8 = 1;
const HERE: u8 = 0;
const SIDE: u8 = 1;
/// Added to the place.
const MOVES: u8 = 2;
const HEADER_BYTES: usize = 20;

/// A value taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamValue<'a> {
    pub(super) id: Id,
    /// The name, where the key does not hold it.
    pub(super) name: &'a str,
    pub(super) body: Body<'a>,
    pub(super) stays: Stays,
}

/// Whether a stream stays at its key. A rename writes to another key before it erases the one that there was: where both are there,
/// for the server was killed or the disk failed, the one that moves is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stays {
    Here,
    /// Unless no other key has its id.
    Moves,
}

/// Where the data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    Here(&'a [u8]),
    Side(Option<Owner>),
}

impl<'a> StreamValue<'a> {
    /// `None` where the bytes are no such value.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (id, _) = header.get(2..)?.split_first_chunk::<16>()?;
        let name_length = usize::from(u16::from_le_bytes([header[18], header[19]]));
        let (name, data) = rest.split_at_checked(name_length)?;
        let name = std::str::from_utf8(name).ok()?;
        let stays = if header[1] & MOVES == 0 { Stays::Here } else { Stays::Moves };
        let body = match (header[0], header[1] & !MOVES) {
            (VERSION, HERE) => Body::Here(data),
            (VERSION, SIDE) if data.is_empty() => Body::Side(None),
            (VERSION, SIDE) => Body::Side(Some(Owner::decode(data)?)),
            _ => return None,
        };
        Some(StreamValue { id: *id, name, body, stays })
    }

    /// Writes the value to `out`; gives its length, `None` where it does not fit.
    pub(super) fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let name_length = u16::try_from(self.name.len()).ok()?;
        let owner;
        let (place, data) = match self.body {
            Body::Here(data) => (HERE, data),
            Body::Side(None) => (SIDE, [].as_slice()),
            Body::Side(Some(of)) => {
                owner = of.encode();
                (SIDE, owner.as_slice())
            }
        };
        let length = HEADER_BYTES + self.name.len() + data.len();
        let out = out.get_mut(..length)?;
        out[0] = VERSION;
        out[1] = match self.stays {
            Stays::Here => place,
            Stays::Moves => place | MOVES,
        };
        out[2..18].copy_from_slice(&self.id);
        out[18..20].copy_from_slice(&name_length.to_le_bytes());
        out[20..20 + self.name.len()].copy_from_slice(self.name.as_bytes());
        out[20 + self.name.len()..].copy_from_slice(data);
        Some(length)
    }
}

impl StreamValue<'_> {
    /// The side file that holds the data, if one does.
    pub(super) fn side(&self) -> Option<SideName> {
        match self.body {
            Body::Here(_) => None,
            Body::Side(owner) => Some(SideName { id: self.id, owner }),
        }
    }
}

/// How many bytes a value takes, or will when its data have moved to a side file.
pub(super) fn bytes_with_owner(value: &[u8]) -> usize {
    match StreamValue::decode(value).map(|value| value.body) {
        Some(Body::Here(data)) => value.len() + OWNER_BYTES.saturating_sub(data.len()),
        Some(Body::Side(_)) | None => value.len(),
    }
}

/// The key of a stream, and the name that its value has to hold: none where the key does.
pub(super) fn key(name: &str, id: Id) -> (String, &str) {
    if STREAM.len() + name.len() <= KEY_BYTES_MAX {
        return (format!("{STREAM}{name}"), "");
    }
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("{LONG_STREAM}{id}"), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_comes_back(
            id: [u8; 16],
            name in ".{0,255}",
            data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..1024)),
            owner: Option<(u64, u64, i128)>,
            moves: bool,
        ) {
            let owner = owner.map(|(volume, file, born)| Owner { volume, file, born });
            let body = data.as_deref().map_or(Body::Side(owner), Body::Here);
            let stays = if moves { Stays::Moves } else { Stays::Here };
            let value = StreamValue { id, name: &name, body, stays };
            let mut out = [0; VALUE_BYTES_MAX + 255];
            let length = value.encode(&mut out).unwrap();
            prop_assert_eq!(StreamValue::decode(&out[..length]), Some(value));
        }

        #[test]
        fn any_bytes_are_decoded(bytes: Vec<u8>) {
            let _ = StreamValue::decode(&bytes);
        }
    }

    #[test]
    fn a_cut_header_is_none() {
        let value = StreamValue { id: [1; 16], name: "name", body: Body::Here(&[]), stays: Stays::Here };
        let mut out = [0; 64];
        let length = value.encode(&mut out).unwrap();
        for cut in 0..length {
            assert_eq!(StreamValue::decode(&out[..cut]), None);
        }
        assert_eq!(value.encode(&mut [0; 10]), None);
    }
}
