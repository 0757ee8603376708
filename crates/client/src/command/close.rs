//! CLOSE (MS-SMB2 3.2.4.5).

use wire::command::close::CloseRequest;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::error::Error;
use crate::file::OpenState;
use crate::perform::Ask;

/// Closes an open; how that went.
pub(crate) async fn close(open: &OpenState) -> Result<Status, Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| CloseRequest { file_id, ..CloseRequest::default() }.encode(out);
    let answer = open.tree.shared.perform(&Ask::of(open, Command::CLOSE, &body)).await?;
    Ok(answer.status())
}
