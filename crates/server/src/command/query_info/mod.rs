//! QUERY_INFO (MS-SMB2 3.3.5.20): a file, its file system, its security descriptor.

mod extended;
mod file;
mod filesystem;
mod pipe;
mod security;
#[cfg(test)]
mod tests;

pub(super) use self::extended::packed_bytes;

use wire::command::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};

/// Bytes of a response's body before what was asked for.
const BODY_BYTES: usize = 8;
/// What most answers fit into, so that they are allocated once.
const USUAL_BYTES: usize = 128;

pub(crate) async fn handle(context: &Context, request: QueryInfoRequest<'_>) -> Outcome {
    if request.output_buffer_length > context.connection.negotiation.borrow().payload_bytes_max() {
        return Err(Status::INVALID_PARAMETER.into());
    }
    match request.info_type {
        InfoType::FILE => file::query(context, &request).await,
        InfoType::FILESYSTEM => filesystem::query(context, &request).await,
        InfoType::SECURITY => security::query(context, &request).await,
        // No quotas of users: MS-SMB2 3.3.5.20.4.
        InfoType::QUOTA => Err(Status::NOT_SUPPORTED.into()),
        _ => Err(Status::INVALID_PARAMETER.into()),
    }
}

/// What the client takes, at most.
#[derive(Clone, Copy)]
struct Room(usize);

impl Room {
    fn of(request: &QueryInfoRequest<'_>) -> Room {
        Room(request.output_buffer_length as usize)
    }

    /// INFO_LENGTH_MISMATCH where not even the fixed part fits.
    fn require(self, fixed_bytes: usize) -> Result<(), Status> {
        if self.0 < fixed_bytes { Err(Status::INFO_LENGTH_MISMATCH) } else { Ok(()) }
    }

    /// A reply with what `write` appends, cut off where the room ends.
    fn reply(self, write: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let mut body = Vec::with_capacity(USUAL_BYTES);
        body.resize(BODY_BYTES, 0);
        write(&mut body);
        let fits = body.len() <= BODY_BYTES.saturating_add(self.0);
        body.truncate(BODY_BYTES.saturating_add(self.0));
        finish(if fits { Status::SUCCESS } else { Status::BUFFER_OVERFLOW }, body)
    }
}

/// A reply whose body is [`BODY_BYTES`] of anything, then what was asked for.
fn finish(status: Status, mut body: Vec<u8>) -> Reply {
    let output_bytes = (body.len() - BODY_BYTES) as u32;
    body[..BODY_BYTES].copy_from_slice(&QueryInfoResponse::to_bytes(output_bytes));
    Reply::with_status(status, body)
}
