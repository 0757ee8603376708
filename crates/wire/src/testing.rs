//! What the tests of messages share.

use crate::header::HEADER_LENGTH;

/// A message: a header of zeros, then the body that `encode` appends.
pub(crate) fn message(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = vec![0; HEADER_LENGTH];
    encode(&mut message);
    message
}

/// Calls `decode` with hostile relatives of `message`: each byte replaced, each two and four neighbours all ones, as a
/// whole and cut off in the middle. It need only return.
pub(crate) fn hostile(message: &[u8], decode: impl Fn(&[u8])) {
    for position in 0..message.len() {
        for (width, value) in [(1, 0), (1, 1), (1, 0x7F), (1, 0xFF), (2, 0xFF), (4, 0xFF), (4, 0)] {
            let mut hostile = message.to_vec();
            if let Some(field) = hostile.get_mut(position..position + width) {
                field.fill(value);
            }
            decode(&hostile);
            decode(&hostile[..message.len() - message.len() / 4]);
        }
    }
}

/// Checks a message's type: what it encodes decodes to itself, every truncation is malformed, nothing panics. `spare`
/// is the number of bytes at the end that the message can do without. Evaluates to the message.
macro_rules! check_message {
    ($type:ident, $value:expr) => {
        check_message!($type, $value, spare 0)
    };
    ($type:ident, $value:expr, spare $spare:expr) => {{
        let value = $value;
        let message = crate::testing::message(|out| value.encode(out));
        assert_eq!($type::decode(&message), Ok(value));
        for length in 0..message.len() - $spare {
            assert!($type::decode(&message[..length]).is_err(), "cut off at {length}: {:?}", value);
        }
        crate::testing::hostile(&message, |hostile| { let _ = $type::decode(hostile); });
        let mut another_size = message.clone();
        another_size[64] ^= 0x80;
        assert!($type::decode(&another_size).is_err(), "StructureSize is checked");
        message
    }};
}

/// The same for a structure whose bytes are `to_bytes()`.
macro_rules! check_structure {
    ($type:ident, $value:expr) => {{
        let value = $value;
        let bytes = value.to_bytes();
        assert_eq!($type::decode(&bytes), Ok(value));
        for length in 0..bytes.len() {
            assert!($type::decode(&bytes[..length]).is_err(), "cut off at {length}: {:?}", value);
        }
        crate::testing::hostile(&bytes, |hostile| {
            let _ = $type::decode(hostile);
        });
        bytes
    }};
}
