//! LOCK: locks and unlocks ranges of a file (MS-SMB2 2.2.26, 2.2.27).

use std::fmt;

use super::{body, empty_body};
use crate::codec::{Malformed, Reader, Writer};
use crate::ids::FileId;

/// Counts one lock element, although the message may have more.
const REQUEST_SIZE: u16 = 48;

flags! {
    /// What to do with a range. Which combinations are valid is for the server to judge.
    LockFlags(u32) {
        /// Lock it shared.
        SHARED_LOCK = 0x0000_0001,
        /// Lock it exclusively.
        EXCLUSIVE_LOCK = 0x0000_0002,
        /// Unlock it.
        UNLOCK = 0x0000_0004,
        /// Do not wait.
        FAIL_IMMEDIATELY = 0x0000_0010,
    }
}

/// SMB2_LOCK_ELEMENT (2.2.26.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LockElement {
    /// Where the range begins.
    pub offset: u64,
    /// Its length in bytes, perhaps 0; the sum with `offset` may overflow.
    pub length: u64,
    /// What to do with it.
    pub flags: LockFlags,
}

impl LockElement {
    /// The length on the wire in bytes.
    pub const LENGTH: usize = 24;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let element = LockElement { offset: reader.u64()?, length: reader.u64()?, flags: LockFlags(reader.u32()?) };
        reader.skip(4)?;
        Ok(element)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.offset);
        writer.u64(self.length);
        writer.u32(self.flags.0);
        writer.u32(0);
    }
}

/// The ranges of a request, all of them inside the message.
#[derive(Clone, Copy)]
pub struct LockElements<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    /// A multiple of [`LockElement::LENGTH`] bytes.
    Wire(&'a [u8]),
    Values(&'a [LockElement]),
}

impl<'a> LockElements<'a> {
    /// The caller's ranges, to be encoded; at most 65,535.
    pub fn new(elements: &'a [LockElement]) -> Self {
        LockElements(Source::Values(elements))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Wire(bytes) => bytes.len() / LockElement::LENGTH,
            Source::Values(elements) => elements.len(),
        }
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = LockElement> + use<'a> {
        let (bytes, elements): (&[u8], &[LockElement]) = match self.0 {
            Source::Wire(bytes) => (bytes, &[]),
            Source::Values(elements) => (&[], elements),
        };
        let wire = bytes.chunks_exact(LockElement::LENGTH);
        wire.filter_map(|element| LockElement::decode(&mut Reader::new(element)).ok()).chain(elements.iter().copied())
    }
}

impl Default for LockElements<'_> {
    fn default() -> Self {
        LockElements(Source::Wire(&[]))
    }
}

impl PartialEq for LockElements<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for LockElements<'_> {}

impl fmt::Debug for LockElements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// SMB2 LOCK Request (2.2.26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LockRequest<'a> {
    /// LockSequenceNumber, four bits: told apart from the one before it, the request is not a replay.
    pub lock_sequence_number: u8,
    /// LockSequenceIndex, 28 bits: the slot that remembers the number, 1 to 64; 0 for none.
    pub lock_sequence_index: u32,
    /// The open.
    pub file_id: FileId,
    /// The ranges; none at all is for the server to refuse.
    pub locks: LockElements<'a>,
}

impl<'a> LockRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let count = usize::from(reader.u16()?);
        let sequence = reader.u32()?;
        let file_id = FileId::decode(&mut reader)?;
        let locks = LockElements(Source::Wire(reader.bytes(count * LockElement::LENGTH)?));
        Ok(LockRequest {
            lock_sequence_number: (sequence & 0xF) as u8,
            lock_sequence_index: sequence >> 4,
            file_id,
            locks,
        })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(self.locks.len() as u16);
        writer.u32(u32::from(self.lock_sequence_number & 0xF) | self.lock_sequence_index << 4);
        self.file_id.encode(&mut writer);
        for element in self.locks.iter() {
            element.encode(&mut writer);
        }
    }
}

empty_body! {
    /// SMB2 LOCK Response (2.2.27).
    LockResponse
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: [LockElement; 2] = [
        LockElement { offset: 0, length: 0, flags: LockFlags::UNLOCK },
        LockElement { offset: u64::MAX, length: u64::MAX, flags: LockFlags(u32::MAX) },
    ];

    fn request() -> LockRequest<'static> {
        LockRequest {
            lock_sequence_number: 0xF,
            lock_sequence_index: 64,
            file_id: FileId { persistent: 1, volatile: 2 },
            locks: LockElements::new(&LOCKS),
        }
    }

    #[test]
    fn both_directions_round_trip() {
        let message = check_message!(LockRequest, request());
        let decoded = LockRequest::decode(&message).unwrap();
        assert_eq!(decoded.locks.len(), 2);
        assert!(decoded.locks.iter().eq(LOCKS));
        check_message!(LockResponse, LockResponse);
    }

    #[test]
    fn the_sequence_number_is_in_the_lowest_four_bits() {
        let message = crate::testing::message(|out| request().encode(out));
        assert_eq!(message[68..72], 0x40F_u32.to_le_bytes());
    }

    #[test]
    fn a_request_without_locks_decodes() {
        let request = LockRequest { locks: LockElements::default(), ..request() };
        assert!(request.locks.is_empty());
        check_message!(LockRequest, request);
    }

    #[test]
    fn a_count_beyond_the_message_is_malformed() {
        let mut message = crate::testing::message(|out| request().encode(out));
        message[66..68].copy_from_slice(&3_u16.to_le_bytes());
        assert_eq!(LockRequest::decode(&message), Err(Malformed("ends too early")));
    }
}
