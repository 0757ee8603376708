//! FLUSH (MS-SMB2 3.2.4.8).

use wire::command::flush::FlushRequest;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::error::Error;
use crate::open_state::OpenState;
use crate::perform::Ask;

/// Brings what was written to the server's disk.
pub(crate) async fn flush(open: &OpenState) -> Result<(), Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| FlushRequest { file_id, ..FlushRequest::default() }.encode(out);
    let answer = open.tree.shared.perform(&Ask::of(open, Command::FLUSH, &body)).await?;
    answer.expect(&[Status::SUCCESS], || format!("flush {}", open.path)).map(|_| ())
}
