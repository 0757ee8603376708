//! QUERY_INFO (MS-SMB2 3.2.4.9).

use wire::command::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::fscc::file::{Name, NetworkOpen};
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId, FileTime};
use wire::security::{SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use crate::error::Error;
use crate::open_state::OpenState;
use crate::perform::{Ask, CREDIT_BYTES};

/// What is known of a file or directory without its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// When it was made.
    pub created: FileTime,
    /// When it was last read.
    pub accessed: FileTime,
    /// When its data was last written.
    pub written: FileTime,
    /// When anything of it last changed.
    pub changed: FileTime,
    /// Its length in bytes.
    pub end_of_file: u64,
    /// Bytes it takes on the disk.
    pub allocation: u64,
    /// Its attributes.
    pub attributes: FileAttributes,
}

impl Facts {
    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        self.attributes.contains(FileAttributes::DIRECTORY)
    }
}

/// FileNetworkOpenInformation.
pub(crate) async fn facts(open: &OpenState) -> Result<Facts, Error> {
    let bytes = information(open, FileClass::NETWORK_OPEN).await?;
    let told = NetworkOpen::decode(&bytes)?;
    Ok(Facts {
        created: told.creation,
        accessed: told.access,
        written: told.write,
        changed: told.change,
        end_of_file: told.end_of_file,
        allocation: told.allocation,
        attributes: told.attributes,
    })
}

/// Parts of the security descriptor (MS-SMB2 3.3.5.20.3).
pub(crate) async fn descriptor(open: &OpenState, which: SecurityInformation) -> Result<SecurityDescriptor, Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let request = QueryInfoRequest {
            info_type: InfoType::SECURITY,
            additional_information: which.0,
            output_buffer_length: CREDIT_BYTES as u32,
            file_id,
            ..QueryInfoRequest::default()
        };
        request.encode(out);
    };
    let answer = open.tree.shared.perform(&Ask::of(open, Command::QUERY_INFO, &body)).await?;
    let answer = answer.expect(&[Status::SUCCESS], || format!("ask for the security of {}", open.path))?;
    Ok(SecurityDescriptor::decode(QueryInfoResponse::decode(answer.message())?.output)?)
}

/// The path as it is kept (FileNormalizedNameInformation, MS-FSCC 2.4.35).
pub(crate) async fn path(open: &OpenState) -> Result<String, Error> {
    let bytes = information(open, FileClass::NORMALIZED_NAME).await?;
    Name::decode(&bytes)?.0.decode().ok_or(Error::Malformed("a file's path"))
}

/// Any information of a file, as much as one credit pays for.
pub(crate) async fn information(open: &OpenState, class: FileClass) -> Result<Vec<u8>, Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let request = QueryInfoRequest {
            info_type: InfoType::FILE,
            class: class.into(),
            output_buffer_length: CREDIT_BYTES as u32,
            file_id,
            ..QueryInfoRequest::default()
        };
        request.encode(out);
    };
    let ask = Ask { bytes: 0, ..Ask::of(open, Command::QUERY_INFO, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    let answer = answer.expect(&[Status::SUCCESS, Status::BUFFER_OVERFLOW], || format!("ask about {}", open.path))?;
    Ok(QueryInfoResponse::decode(answer.message())?.output.to_vec())
}
