//! CHANGE_NOTIFY: waits for changes in a directory (MS-SMB2 2.2.35, 2.2.36).

use super::{OutputBuffer, body};
use crate::codec::{Malformed, Writer};
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 32;

flags! {
    /// What to watch.
    ChangeNotifyFlags(u16) {
        /// The directory and everything below it.
        WATCH_TREE = 0x0001,
    }
}

flags! {
    /// The changes to wait for.
    CompletionFilter(u32) {
        /// A file's name.
        FILE_NAME = 0x0000_0001,
        /// A directory's name.
        DIR_NAME = 0x0000_0002,
        /// Attributes.
        ATTRIBUTES = 0x0000_0004,
        /// A file's length.
        SIZE = 0x0000_0008,
        /// The time of the last write.
        LAST_WRITE = 0x0000_0010,
        /// The time of the last access.
        LAST_ACCESS = 0x0000_0020,
        /// The time of creation.
        CREATION = 0x0000_0040,
        /// Extended attributes.
        EA = 0x0000_0080,
        /// Access control.
        SECURITY = 0x0000_0100,
        /// A stream's name.
        STREAM_NAME = 0x0000_0200,
        /// A stream's length.
        STREAM_SIZE = 0x0000_0400,
        /// A stream's data.
        STREAM_WRITE = 0x0000_0800,
    }
}

/// SMB2 CHANGE_NOTIFY Request (2.2.35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChangeNotifyRequest {
    /// What to watch.
    pub flags: ChangeNotifyFlags,
    /// The most bytes of changes that the client takes.
    pub output_buffer_length: u32,
    /// The directory.
    pub file_id: FileId,
    /// The changes to wait for.
    pub completion_filter: CompletionFilter,
}

impl ChangeNotifyRequest {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags(reader.u16()?),
            output_buffer_length: reader.u32()?,
            file_id: FileId::decode(&mut reader)?,
            completion_filter: CompletionFilter(reader.u32()?),
        };
        reader.skip(4)?;
        Ok(request)
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(self.flags.0);
        writer.u32(self.output_buffer_length);
        self.file_id.encode(&mut writer);
        writer.u32(self.completion_filter.0);
        writer.u32(0);
    }
}

/// SMB2 CHANGE_NOTIFY Response (2.2.36): a chain of FILE_NOTIFY_INFORMATION (MS-FSCC 2.7.1).
pub type ChangeNotifyResponse<'a> = OutputBuffer<'a>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_round_trip() {
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::WATCH_TREE,
            output_buffer_length: 4096,
            file_id: FileId { persistent: 1, volatile: 2 },
            completion_filter: CompletionFilter::FILE_NAME | CompletionFilter::STREAM_WRITE,
        };
        check_message!(ChangeNotifyRequest, request);
        check_message!(ChangeNotifyResponse, ChangeNotifyResponse { output: b"changes" });
    }
}
