//! WRITE (MS-SMB2 3.2.4.7).

use bytes::Bytes;
use wire::command::write::{WriteFlags, WriteRequest, WriteResponse};
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::error::Error;
use crate::open_state::OpenState;
use crate::perform::{Again, Ask};

/// Writes all of `data`.
pub(crate) async fn write(open: &OpenState, offset: u64, data: &Bytes) -> Result<(), Error> {
    let flags = if open.options.write_through { WriteFlags::WRITE_THROUGH } else { WriteFlags::NONE };
    let too_long = |_| Error::refused(Status::INVALID_PARAMETER, format!("write to {}", open.path));
    let length = u32::try_from(data.len()).map_err(too_long)?;
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let request = WriteRequest { offset, file_id, flags, ..WriteRequest::default() };
        match length {
            0 => request.encode(out),
            _ => out.extend_from_slice(&request.fixed_part(length)),
        }
    };
    let ask =
        Ask { bytes: data.len(), data: Some(data), again: Again::Replayed, ..Ask::of(open, Command::WRITE, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    let answer = answer.expect(&[Status::SUCCESS], || format!("write {}", open.path))?;
    match WriteResponse::decode(answer.message())?.count as usize == data.len() {
        true => Ok(()),
        false => Err(Error::refused(Status::DISK_FULL, format!("write all of {}", open.path))),
    }
}
