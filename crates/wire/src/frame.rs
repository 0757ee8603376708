//! The four bytes before every message on a direct TCP connection (MS-SMB2 2.1): zero, then the length of what
//! follows as 24 bits in network byte order.

use crate::codec::Malformed;

/// The length of the prefix in bytes.
pub const PREFIX_LENGTH: usize = 4;

/// The longest message the prefix can announce, in bytes.
pub const FRAME_LENGTH_MAX: usize = 0x00FF_FFFF;

/// The length in bytes of the message that follows `prefix`. A first byte other than zero is malformed: it is a
/// NetBIOS session service packet other than a session message, or no SMB at all.
pub fn frame_length(prefix: [u8; PREFIX_LENGTH]) -> Result<usize, Malformed> {
    match prefix {
        [0, high, middle, low] => Ok(usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)),
        _ => Err(Malformed("first byte of the transport header")),
    }
}

/// The prefix of a message of `length` bytes, malformed where `length` exceeds [`FRAME_LENGTH_MAX`].
pub fn frame_prefix(length: usize) -> Result<[u8; PREFIX_LENGTH], Malformed> {
    if length > FRAME_LENGTH_MAX {
        return Err(Malformed("longer than a transport header can say"));
    }
    Ok((length as u32).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_round_trip() {
        for length in [0, 1, 0x1234, 0x80_0000, FRAME_LENGTH_MAX] {
            assert_eq!(frame_length(frame_prefix(length).unwrap()), Ok(length));
        }
    }

    #[test]
    fn the_length_is_in_network_byte_order() {
        assert_eq!(frame_length([0, 1, 2, 3]), Ok(0x010203));
    }

    #[test]
    fn other_session_service_packets_are_malformed() {
        assert!(frame_length([0x81, 0, 0, 0x44]).is_err());
        assert!(frame_length([0x85, 0, 0, 0]).is_err());
        assert!(frame_prefix(FRAME_LENGTH_MAX + 1).is_err());
    }
}
