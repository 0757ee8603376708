//! Lists of 16-bit numbers, borrowed from a message or from the caller.

use std::fmt;

use crate::codec::{Malformed, Reader, Writer};

/// A list of 16-bit numbers of type `T`: dialects, ciphers, hash algorithms. Nothing is copied in decoding.
#[derive(Clone, Copy)]
pub struct U16List<'a, T>(Source<'a, T>);

#[derive(Clone, Copy)]
enum Source<'a, T> {
    /// Little-endian, an even number of bytes.
    Wire(&'a [u8]),
    Values(&'a [T]),
}

impl<'a, T: Copy + From<u16> + Into<u16>> U16List<'a, T> {
    /// A list of the caller's values, to be encoded.
    pub fn new(values: &'a [T]) -> Self {
        U16List(Source::Values(values))
    }

    /// Takes `count` numbers off the reader.
    pub fn decode(reader: &mut Reader<'a>, count: u16) -> Result<Self, Malformed> {
        Ok(U16List(Source::Wire(reader.bytes(usize::from(count) * 2)?)))
    }

    /// Appends the numbers.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        for value in self.iter() {
            writer.u16(value.into());
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Wire(bytes) => bytes.len() / 2,
            Source::Values(values) => values.len(),
        }
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + 'a {
        let (bytes, values): (&[u8], &[T]) = match self.0 {
            Source::Wire(bytes) => (bytes, &[]),
            Source::Values(values) => (&[], values),
        };
        let wire = bytes.chunks_exact(2).map(|pair| T::from(u16::from_le_bytes([pair[0], pair[1]])));
        wire.chain(values.iter().copied())
    }
}

impl<'a, T: Copy + From<u16> + Into<u16> + PartialEq> U16List<'a, T> {
    /// True when `value` is in the list.
    pub fn contains(&self, value: T) -> bool {
        self.iter().any(|listed| listed == value)
    }
}

impl<T> Default for U16List<'_, T> {
    fn default() -> Self {
        U16List(Source::Wire(&[]))
    }
}

impl<T: Copy + From<u16> + Into<u16>> PartialEq for U16List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(Into::into).eq(other.iter().map(Into::into))
    }
}

impl<T: Copy + From<u16> + Into<u16>> Eq for U16List<'_, T> {}

impl<T: Copy + From<u16> + Into<u16> + fmt::Debug> fmt::Debug for U16List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Dialect;

    const DIALECTS: [Dialect; 2] = [Dialect::SMB_2_1, Dialect(0x9999)];

    #[test]
    fn lists_from_the_wire_equal_lists_of_values() {
        let mut bytes = Vec::new();
        U16List::new(&DIALECTS).encode(&mut Writer::new(&mut bytes));
        let decoded = U16List::decode(&mut Reader::new(&bytes), 2).unwrap();
        assert_eq!(decoded, U16List::new(&DIALECTS));
        assert_eq!((decoded.len(), decoded.is_empty()), (2, false));
        assert!(decoded.contains(Dialect(0x9999)) && !decoded.contains(Dialect::SMB_3_0));
        assert_eq!(format!("{decoded:?}"), "[SMB_2_1, Dialect(0x9999)]");
    }

    #[test]
    fn a_count_beyond_the_bytes_is_malformed() {
        assert!(U16List::<Dialect>::decode(&mut Reader::new(&[1, 2, 3]), 2).is_err());
    }
}
