//! SET_INFO (MS-SMB2 3.2.4.10).

use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::fscc::FileClass;
use wire::fscc::file::{Basic, EndOfFile};
use wire::fscc::rename::{Disposition, Rename};
use wire::ids::{Command, FileId, FileTime};
use wire::status::Status;

use crate::error::Error;
use crate::open_state::OpenState;
use crate::perform::{Again, Ask};

/// Makes the file so long.
pub(crate) async fn end_of_file(open: &OpenState, length: u64) -> Result<(), Error> {
    let mut buffer = Vec::new();
    EndOfFile { end_of_file: length }.encode(&mut buffer);
    set(open, FileClass::END_OF_FILE, &buffer, "set the length of").await
}

/// Sets the time of the last write; zeros leave the rest as it is (MS-FSCC 2.4.7).
pub(crate) async fn last_write(open: &OpenState, time: FileTime) -> Result<(), Error> {
    let mut buffer = Vec::new();
    Basic { write: time, ..Basic::default() }.encode(&mut buffer);
    set(open, FileClass::BASIC, &buffer, "set the time of").await
}

/// Gives the file another name, from the share's root.
pub(crate) async fn rename(open: &OpenState, to: &str, replace: bool) -> Result<(), Error> {
    let mut buffer = Vec::new();
    Rename::encode(to, replace, &mut buffer);
    set(open, FileClass::RENAME, &buffer, "rename").await
}

/// Has the file go when it is closed.
pub(crate) async fn disposition(open: &OpenState) -> Result<(), Error> {
    let mut buffer = Vec::new();
    Disposition { delete_pending: true }.encode(&mut buffer);
    set(open, FileClass::DISPOSITION, &buffer, "remove").await
}

async fn set(open: &OpenState, class: FileClass, buffer: &[u8], doing: &str) -> Result<(), Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let info_type = InfoType::FILE;
        SetInfoRequest { info_type, class: class.into(), file_id, buffer, ..SetInfoRequest::default() }.encode(out);
    };
    let ask = Ask { again: Again::Replayed, ..Ask::of(open, Command::SET_INFO, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    answer.expect(&[Status::SUCCESS], || format!("{doing} {}", open.path)).map(|_| ())
}
