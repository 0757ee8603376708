//! FSCTL_CREATE_OR_GET_OBJECT_ID (MS-FSA 2.1.5.10.1), by which Windows finds the target of a shortcut that was moved. The id
//! follows from the file's identity, so that it need not be stored.

use store::Identity;
use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::ObjectId;
use wire::ids::Guid;
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;

pub(super) fn of_file(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (_, file) = context.file()?;
    if (request.max_output_response as usize) < ObjectId::LENGTH {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let Identity { volume, file } = file.base().identity();
    let object = guid(file, volume);
    let answer = ObjectId { object, birth_volume: guid(volume, 0), birth_object: object, domain: guid(0, 0) };
    let mut output = Vec::new();
    answer.encode(&mut output);
    Ok(Answer::with(output))
}

fn guid(first: u64, second: u64) -> Guid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    Guid(bytes)
}
