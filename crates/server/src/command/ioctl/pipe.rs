//! FSCTL_PIPE_TRANSCEIVE, FSCTL_PIPE_PEEK and FSCTL_PIPE_WAIT (MS-SMB2 3.3.5.15.3, 3.3.5.15.4, 3.3.5.15.10).

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::PipeWait;
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;
use crate::state::open::Target;
use crate::state::pipe::{self, Pipe};
use crate::state::refusal::Refusal;
use crate::state::tree::Backing;

/// Writes, and reads what is answered.
pub(super) async fn transceive(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let pipe = pipe(context)?;
    if pipe.is_busy() {
        return Err(Status::PIPE_BUSY.into());
    }
    pipe.write(&context.pipe_client()?, request.input).await?;
    let taken = pipe.read(&context.pipe_client()?, request.max_output_response as usize).await?;
    let status = if taken.more { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    Ok(Answer { status, output: taken.bytes })
}

/// Looks at what waits to be read.
pub(super) fn peek(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let pipe = pipe(context)?;
    match request.max_output_response as usize {
        // "A MaxOutputResponse value of zero is allowed."
        0 => Ok(Answer::empty()),
        bytes_max => Ok(Answer::with(pipe.peek(bytes_max)?)),
    }
}

/// Waits until a pipe can be opened, which those that exist always can.
pub(super) fn wait(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    match context.tree()?.backing {
        Backing::Pipes => {}
        Backing::Disk(_) => return Err(Status::INVALID_DEVICE_REQUEST.into()),
    }
    // A name of more than 256 characters is no pipe's.
    let wait = PipeWait::decode(request.input).ok().filter(|wait| wait.name.as_bytes().len() <= 2 * 256);
    let name = wait.and_then(|wait| wait.name.decode());
    let exists = name.is_some_and(|name| pipe::exists(&name));
    if exists { Ok(Answer::empty()) } else { Err(Status::OBJECT_NAME_NOT_FOUND.into()) }
}

fn pipe(context: &Context) -> Result<&Pipe, Refusal> {
    match &context.open()?.target {
        Target::Pipe(pipe) => Ok(pipe),
        Target::File(_) => Err(Status::INVALID_DEVICE_REQUEST.into()),
    }
}
