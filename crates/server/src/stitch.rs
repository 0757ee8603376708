//! Joins the responses of a chain: each but the last padded to eight bytes and pointing at the next. Padding lies inside what is
//! signed, so signing comes last (MS-SMB2 3.3.4.1.3).

use std::rc::Rc;

use wire::header::{FLAGS_OFFSET, Flags, Header, NEXT_COMMAND_OFFSET};

use crate::session::Channel;

/// Responses that will leave in one frame.
#[derive(Default)]
pub(crate) struct Stitch {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

struct Part {
    start: usize,
    sign: Option<Rc<Channel>>,
}

impl Stitch {
    /// Appends a response, to be signed by `sign` where one is given.
    pub(crate) fn push(&mut self, header: &Header, body: &[u8], sign: Option<Rc<Channel>>) {
        if let Some(last) = self.parts.last() {
            let start = last.start;
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
            let next = (self.bytes.len() - start) as u32;
            self.bytes[start + NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&next.to_le_bytes());
        }
        self.parts.push(Part { start: self.bytes.len(), sign });
        self.bytes.extend_from_slice(&header.to_bytes());
        self.bytes.extend_from_slice(body);
    }

    /// Signs what is to be signed and gives the bytes. The last of several is padded like the others, as Windows does.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.parts.len() > 1 {
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        }
        let mut end = self.bytes.len();
        for part in self.parts.iter().rev() {
            if let Some(channel) = &part.sign {
                let message = &mut self.bytes[part.start..end];
                message[FLAGS_OFFSET] |= Flags::SIGNED.0 as u8;
                channel.sign(message);
            }
            end = part.start;
        }
        self.bytes
    }
}
