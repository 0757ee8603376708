//! What stands before a message: the transport's prefix, the headers of encrypted and of compressed messages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::frame::{FRAME_LENGTH_MAX, frame_length, frame_prefix};
use wire::transform::{CompressionHeader, TransformHeader};

fuzz_target!(|input: &[u8]| {
    if let Some(prefix) = input.first_chunk()
        && let Ok(length) = frame_length(*prefix)
    {
        assert!(length <= FRAME_LENGTH_MAX);
        assert_eq!(frame_prefix(length), Ok(*prefix));
    }
    if let Ok(header) = TransformHeader::decode(input) {
        assert_eq!(TransformHeader::decode(&header.to_bytes()), Ok(header));
    }
    let _ = CompressionHeader::decode(input);
});
