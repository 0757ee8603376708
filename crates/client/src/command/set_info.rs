//! SET_INFO (MS-SMB2 3.2.4.10).

use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::fscc::FileClass;
use wire::fscc::file::{Basic, EndOfFile};
use wire::fscc::rename::{Disposition, Rename};
use wire::ids::{Command, FileId};
use wire::security::{SecurityDescriptor, SecurityInformation};
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

/// Sets times and attributes; zeros leave what there is (MS-FSCC 2.4.7).
pub(crate) async fn basic(open: &OpenState, basic: Basic) -> Result<(), Error> {
    let mut buffer = Vec::new();
    basic.encode(&mut buffer);
    set(open, FileClass::BASIC, &buffer, "set the times and attributes of").await
}

/// Sets parts of the security descriptor (MS-SMB2 3.3.5.21.3).
pub(crate) async fn descriptor(
    open: &OpenState,
    descriptor: &SecurityDescriptor,
    which: SecurityInformation,
) -> Result<(), Error> {
    let too_long = || Error::refused(Status::INVALID_SECURITY_DESCR, format!("set the security of {}", open.path));
    let buffer = descriptor.encode().ok_or_else(too_long)?;
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let request = SetInfoRequest {
            info_type: InfoType::SECURITY,
            additional_information: which.0,
            file_id,
            buffer: &buffer,
            ..SetInfoRequest::default()
        };
        request.encode(out);
    };
    ask(open, buffer.len(), &body, "set the security of").await
}

/// Gives the file another name, from the share's root.
pub(crate) async fn rename(open: &OpenState, to: &str, replace: bool) -> Result<(), Error> {
    let mut buffer = Vec::new();
    Rename::encode(to, replace, &mut buffer);
    set(open, FileClass::RENAME, &buffer, "rename").await
}

/// Has the file go when it is closed, or stay.
pub(crate) async fn disposition(open: &OpenState, delete_pending: bool) -> Result<(), Error> {
    let mut buffer = Vec::new();
    Disposition { delete_pending }.encode(&mut buffer);
    set(open, FileClass::DISPOSITION, &buffer, if delete_pending { "remove" } else { "keep" }).await
}

async fn set(open: &OpenState, class: FileClass, buffer: &[u8], doing: &str) -> Result<(), Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let info_type = InfoType::FILE;
        SetInfoRequest { info_type, class: class.into(), file_id, buffer, ..SetInfoRequest::default() }.encode(out);
    };
    ask(open, buffer.len(), &body, doing).await
}

async fn ask(
    open: &OpenState,
    bytes: usize,
    body: &(dyn Fn(&mut Vec<u8>, FileId) + Sync),
    doing: &str,
) -> Result<(), Error> {
    let ask = Ask { bytes, again: Again::Replayed, ..Ask::of(open, Command::SET_INFO, body) };
    let answer = open.tree.shared.perform(&ask).await?;
    answer.expect(&[Status::SUCCESS], || format!("{doing} {}", open.path)).map(|_| ())
}
