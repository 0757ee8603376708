//! CLOSE (MS-SMB2 3.2.4.5).

use wire::command::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::fscc::FileAttributes;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::query_info::Facts;
use crate::error::Error;
use crate::open_state::OpenState;
use crate::perform::Ask;

/// Closes an open; how that went, and what the file was then, where `flags` ask for it and the server tells.
pub(crate) async fn close(open: &OpenState, flags: CloseFlags) -> Result<(Status, Option<Facts>), Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| CloseRequest { flags, file_id }.encode(out);
    let answer = open.tree.shared.perform(&Ask::of(open, Command::CLOSE, &body)).await?;
    if answer.status() != Status::SUCCESS || flags != CloseFlags::POSTQUERY_ATTRIB {
        return Ok((answer.status(), None));
    }
    let told = CloseResponse::decode(answer.message())?;
    let facts = Facts {
        created: told.creation_time,
        accessed: told.last_access_time,
        written: told.last_write_time,
        changed: told.change_time,
        end_of_file: told.end_of_file,
        allocation: told.allocation_size,
        attributes: FileAttributes(told.file_attributes),
    };
    Ok((Status::SUCCESS, Some(facts).filter(|_| told.flags.contains(CloseFlags::POSTQUERY_ATTRIB))))
}
