//! Controls of named pipes (MS-FSCC 2.3.46, 2.3.49).

use crate::codec::{Malformed, Reader, Utf16, Writer};

/// FSCTL_PIPE_WAIT's request (MS-FSCC 2.3.49).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeWait<'a> {
    /// How long to wait, in units of 100 nanoseconds (the specification says milliseconds; Windows does not), or
    /// `None` for ever.
    pub timeout: Option<u64>,
    /// The pipe's name, without `\pipe\`.
    pub name: Utf16<'a>,
}

impl<'a> PipeWait<'a> {
    /// Reads it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let timeout = reader.u64()?;
        let length = reader.u32()? as usize;
        let specified = reader.u8()? != 0;
        reader.skip(1)?;
        Ok(PipeWait { timeout: specified.then_some(timeout), name: Utf16::new(reader.bytes(length)?)? })
    }

    /// Appends a request to `out`.
    pub fn encode(timeout: Option<u64>, name: &str, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u64(timeout.unwrap_or(0));
        writer.u32(2 * name.encode_utf16().count() as u32);
        writer.u8(u8::from(timeout.is_some()));
        writer.u8(0);
        writer.utf16(name);
    }
}

layout! {
    /// FSCTL_PIPE_PEEK's answer before its data (MS-FSCC 2.3.46).
    pub struct PipePeek {
        /// As in FilePipeLocalInformation.
        pub state: u32;
        /// Bytes to be read.
        pub read_available: u32;
        /// Messages to be read.
        pub messages: u32;
        /// Bytes of the first message.
        pub message_length: u32;
    }
}
