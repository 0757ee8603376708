//! What is told of a named pipe (MS-FSCC 2.4.37, 2.4.38): one instance that is connected and takes messages.

use wire::fscc::FileClass;
use wire::fscc::file::Standard;
use wire::fscc::pipe::{BYTE_STREAM, CLIENT_END, CONNECTED, FULL_DUPLEX, MESSAGE, Pipe, PipeLocal, QUEUE_OPERATION};
use wire::status::Status;

use super::Room;
use crate::command::context::Outcome;

/// Bytes kept for each direction.
const QUOTA_BYTES: u32 = 4096;

pub(super) fn query(class: FileClass, room: Room) -> Outcome {
    match class {
        FileClass::STANDARD => {
            room.require(Standard::LENGTH)?;
            let standard =
                Standard { allocation: u64::from(QUOTA_BYTES), links: 1, delete_pending: true, ..Standard::default() };
            Ok(room.reply(|out| standard.encode(out)))
        }
        FileClass::PIPE => {
            room.require(Pipe::LENGTH)?;
            let pipe = Pipe { read_mode: BYTE_STREAM, completion_mode: QUEUE_OPERATION };
            Ok(room.reply(|out| pipe.encode(out)))
        }
        FileClass::PIPE_LOCAL => {
            room.require(PipeLocal::LENGTH)?;
            let local = PipeLocal {
                kind: MESSAGE,
                configuration: FULL_DUPLEX,
                instances_max: u32::MAX,
                instances: 1,
                inbound_quota: QUOTA_BYTES,
                read_available: 0,
                outbound_quota: QUOTA_BYTES,
                write_available: QUOTA_BYTES,
                state: CONNECTED,
                end: CLIENT_END,
            };
            Ok(room.reply(|out| local.encode(out)))
        }
        _ => Err(Status::INVALID_PARAMETER.into()),
    }
}
