//! WRITE (MS-SMB2 3.2.4.7).

use wire::command::write::{WriteFlags, WriteRequest, WriteResponse};
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::error::Error;
use crate::file::OpenState;
use crate::perform::{Again, Ask};

/// Writes all of `data`.
pub(crate) async fn write(open: &OpenState, offset: u64, data: &[u8]) -> Result<(), Error> {
    let flags = if open.options.write_through { WriteFlags::WRITE_THROUGH } else { WriteFlags::NONE };
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        WriteRequest { offset, file_id, data, flags, ..WriteRequest::default() }.encode(out);
    };
    let (bytes, room) = (data.len(), data.len());
    let ask = Ask { bytes, room, again: Again::Replayed, ..Ask::of(open, Command::WRITE, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    let answer = answer.expect(&[Status::SUCCESS], || format!("write {}", open.path))?;
    match WriteResponse::decode(answer.message())?.count as usize == data.len() {
        true => Ok(()),
        false => Err(Error::refused(Status::DISK_FULL, format!("write all of {}", open.path))),
    }
}
