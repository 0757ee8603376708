//! Messages in frames, and frames in streams.

use wire::frame::frame_prefix;
use wire::header::{Header, NEXT_COMMAND_OFFSET};

/// A message as it goes through a stream.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&frame_prefix(message.len()).unwrap()[..], message].concat()
}

/// Joins messages of one frame; each is signed by `sign` when it stands where it belongs.
pub(crate) fn chained(mut messages: Vec<Vec<u8>>, sign: impl Fn(usize, &mut [u8])) -> Vec<u8> {
    let last = messages.len() - 1;
    for (position, message) in messages.iter_mut().enumerate() {
        if position < last {
            message.resize(message.len().next_multiple_of(8), 0);
            let length = message.len() as u32;
            message[NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&length.to_le_bytes());
        }
        sign(position, message);
    }
    messages.concat()
}

/// The headers of the responses in one frame.
pub(crate) fn headers(frame: &[u8]) -> Vec<Header> {
    let (mut headers, mut rest) = (Vec::new(), frame);
    loop {
        let header = Header::decode(rest).unwrap();
        headers.push(header);
        match header.next_command as usize {
            0 => return headers,
            next => rest = &rest[next..],
        }
    }
}
