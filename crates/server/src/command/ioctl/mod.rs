//! IOCTL (MS-SMB2 3.3.5.15): server-side copies, sparse files, pipes, and what else has no command of its own.

mod compression;
mod copy;
mod duplicate;
mod interfaces;
mod object_id;
mod pipe;
mod regions;
mod reparse;
mod resilient;
mod resume_key;
mod snapshots;
mod sparse;
#[cfg(test)]
mod tests;
mod trim;
#[cfg(test)]
mod turns_tests;
mod validate;
mod zero;

use std::sync::Arc;

use store::Kind;
use wire::command::ioctl::{CtlCode, IOCTL_RESPONSE_FIXED_LENGTH, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::open::{FileOpen, Open};
use crate::state::refusal::Refusal;

/// What a control code gives: output beside a success, a warning, or one of the few failures that have output (3.3.4.4).
struct Answer {
    status: Status,
    output: Vec<u8>,
}

impl Answer {
    /// A success without output.
    fn empty() -> Self {
        Answer::with(Vec::new())
    }

    /// A success.
    fn with(output: Vec<u8>) -> Self {
        Answer { status: Status::SUCCESS, output }
    }
}

type Answered = Result<Answer, Refusal>;

/// How many bytes of files an IOCTL would have the server read and write.
pub(crate) fn moved_bytes(message: &[u8]) -> u64 {
    match IoctlRequest::decode(message) {
        Ok(request) if matches!(request.ctl_code, CtlCode::SRV_COPYCHUNK | CtlCode::SRV_COPYCHUNK_WRITE) => {
            copy::moved_bytes(&request)
        }
        Ok(request) if request.ctl_code == CtlCode::DUPLICATE_EXTENTS_TO_FILE => duplicate::moved_bytes(&request),
        Ok(request) if request.ctl_code == CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX => {
            duplicate::moved_bytes_extended(&request)
        }
        Ok(_) | Err(_) => 0,
    }
}

pub(crate) async fn handle(context: &Context, request: IoctlRequest<'_>) -> Outcome {
    if request.flags != IoctlFlags::IS_FSCTL {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let bytes_max = context.connection.negotiation.borrow().payload_bytes_max();
    let lengths = [request.input.len() as u32, request.max_input_response, request.max_output_response];
    if lengths.into_iter().any(|length| length > bytes_max) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let answer = answer(context, &request).await?;
    Ok(reply(&request, &answer))
}

fn reply(request: &IoctlRequest<'_>, answer: &Answer) -> Reply {
    let fixed = IoctlResponse::to_bytes(request.ctl_code, request.file_id, answer.output.len() as u32);
    let mut body = Vec::with_capacity(IOCTL_RESPONSE_FIXED_LENGTH + answer.output.len());
    body.extend_from_slice(&fixed);
    body.extend_from_slice(&answer.output);
    Reply::with_status(answer.status, body)
}

/// What each code is asked of, and whether it changes a file: a code has its line here, and its handler. FSCTL_SET_ZERO_DATA sees to the disk itself.
async fn answer(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    match request.ctl_code {
        CtlCode::VALIDATE_NEGOTIATE_INFO => validate::validate(of_server(context)?, request),
        CtlCode::QUERY_NETWORK_INTERFACE_INFO => interfaces::query(of_server(context)?, request).await,
        CtlCode::PIPE_WAIT => pipe::wait(of_server(context)?, request),
        CtlCode::DFS_GET_REFERRALS | CtlCode::DFS_GET_REFERRALS_EX => {
            of_server(context).and(Err(Status::FS_DRIVER_REQUIRED.into()))
        }

        CtlCode::PIPE_TRANSCEIVE => pipe::transceive(of_open(context)?, request).await,
        CtlCode::PIPE_PEEK => pipe::peek(of_open(context)?, request),
        CtlCode::SRV_REQUEST_RESUME_KEY => resume_key::request(of_open(context)?, request),
        CtlCode::SRV_ENUMERATE_SNAPSHOTS => snapshots::enumerate(of_open(context)?, request),
        CtlCode::QUERY_ALLOCATED_RANGES => sparse::allocated_ranges(of_open(context)?, request).await,
        CtlCode::QUERY_FILE_REGIONS => regions::query(of_open(context)?, request).await,
        CtlCode::SET_ZERO_DATA => zero::zero(of_open(context)?, request).await,
        CtlCode::GET_COMPRESSION => compression::current(of_open(context)?, request),
        CtlCode::SET_COMPRESSION => compression::set(of_open(context)?, request),
        CtlCode::LMR_REQUEST_RESILIENCY => resilient::request(of_open(context)?, request),
        CtlCode::CREATE_OR_GET_OBJECT_ID => object_id::of_file(of_open(context)?, request),
        CtlCode::GET_REPARSE_POINT => reparse::current(of_open(context)?, request).await,
        // "This operation MUST be completed with STATUS_SUCCESS" (MS-FSA 2.1.5.10.18).
        CtlCode::IS_PATHNAME_VALID => of_open(context).map(|_| Answer::empty()),

        CtlCode::SRV_COPYCHUNK => {
            kept(context, copy::copy(of_open(context)?, request, copy::Target::MustBeReadable)).await
        }
        CtlCode::SRV_COPYCHUNK_WRITE => {
            kept(context, copy::copy(of_open(context)?, request, copy::Target::WriteSuffices)).await
        }
        CtlCode::SET_REPARSE_POINT => reparse::set(of_open(context)?, request).await,
        CtlCode::DELETE_REPARSE_POINT => reparse::delete(of_open(context)?, request).await,
        CtlCode::SET_SPARSE => kept(context, sparse::set(of_open(context)?, request)).await,
        CtlCode::FILE_LEVEL_TRIM => kept(context, trim::trim(of_open(context)?, request)).await,
        CtlCode::DUPLICATE_EXTENTS_TO_FILE => kept(context, duplicate::duplicate(of_open(context)?, request)).await,
        CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX => {
            kept(context, duplicate::duplicate_extended(of_open(context)?, request)).await
        }

        code => of_open(context).and(Err(refused(code).into())),
    }
}

/// The context of a code that is not about an open: its FileId is all ones (3.3.5.15).
fn of_server(context: &Context) -> Result<&Context, Refusal> {
    if context.open.is_some() { Err(Status::INVALID_PARAMETER.into()) } else { Ok(context) }
}

/// The context of a code that is about one.
fn of_open(context: &Context) -> Result<&Context, Refusal> {
    context.open()?;
    Ok(context)
}

/// The answer of what changes a file, once that is on the disk where its open writes through.
async fn kept(context: &Context, change: impl Future<Output = Answered>) -> Answered {
    let answer = change.await?;
    context.write_through().await?;
    Ok(answer)
}

/// "The server SHOULD fail the request with STATUS_NOT_SUPPORTED when an FSCTL is not allowed on the server, and SHOULD fail
/// the request with STATUS_INVALID_DEVICE_REQUEST when the FSCTL is allowed, but is not supported on the file system" (3.3.5.15). Which
/// ones are allowed is what Windows Server 2022 allows.
fn refused(code: CtlCode) -> Status {
    match code {
        CtlCode::DELETE_OBJECT_ID
        | CtlCode::FILESYSTEM_GET_STATISTICS
        | CtlCode::FIND_FILES_BY_SID
        | CtlCode::GET_INTEGRITY_INFORMATION
        | CtlCode::GET_NTFS_VOLUME_DATA
        | CtlCode::GET_OBJECT_ID
        | CtlCode::GET_REFS_VOLUME_DATA
        | CtlCode::GET_RETRIEVAL_POINTERS
        | CtlCode::GET_RETRIEVAL_POINTERS_AND_REFCOUNT
        | CtlCode::GET_RETRIEVAL_POINTER_COUNT
        | CtlCode::LMR_SET_LINK_TRACKING_INFORMATION
        | CtlCode::MARK_HANDLE
        | CtlCode::OFFLOAD_READ
        | CtlCode::OFFLOAD_WRITE
        | CtlCode::QUERY_FAT_BPB
        | CtlCode::QUERY_ON_DISK_VOLUME_INFO
        | CtlCode::QUERY_SHARED_VIRTUAL_DISK_SUPPORT
        | CtlCode::QUERY_SPARING_INFO
        | CtlCode::READ_FILE_USN_DATA
        | CtlCode::REFS_STREAM_SNAPSHOT_MANAGEMENT
        | CtlCode::SET_DEFECT_MANAGEMENT
        | CtlCode::SET_ENCRYPTION
        | CtlCode::SET_INTEGRITY_INFORMATION
        | CtlCode::SET_INTEGRITY_INFORMATION_EX
        | CtlCode::SET_OBJECT_ID
        | CtlCode::SET_OBJECT_ID_EXTENDED
        | CtlCode::SET_ZERO_ON_DEALLOCATION
        | CtlCode::STORAGE_QOS_CONTROL
        | CtlCode::SVHDX_ASYNC_TUNNEL_REQUEST
        | CtlCode::SVHDX_SYNC_TUNNEL_REQUEST
        | CtlCode::WRITE_USN_CLOSE_RECORD => Status::INVALID_DEVICE_REQUEST,
        _ => Status::NOT_SUPPORTED,
    }
}

/// The open of the request, where it is on data: what is of a range means nothing to a directory.
fn data_of(context: &Context) -> Result<(&Arc<Open>, &FileOpen), Refusal> {
    let (open, file) = context.file()?;
    match file.kind {
        Kind::File | Kind::Stream => Ok((open, file)),
        Kind::Directory => Err(Status::INVALID_PARAMETER.into()),
    }
}

/// A range as signed 64-bit numbers have to have it: `None` where it begins before zero or ends past the largest offset.
fn signed_range(offset: u64, length: u64) -> Option<std::ops::Range<u64>> {
    let end = offset.checked_add(length)?;
    let addressable = offset <= i64::MAX as u64 && length <= i64::MAX as u64 && end <= i64::MAX as u64;
    addressable.then_some(offset..end)
}

/// Refuses what byte-range locks of others, or shared ones, stand against.
fn check_write_locks(open: &Open, file: &FileOpen, range: &std::ops::Range<u64>) -> Result<(), Status> {
    let length = range.end - range.start;
    let allowed = file.file.locks_allow(&file.stream_name(), |locks| locks.may_write(open.id, range.start, length));
    if allowed { Ok(()) } else { Err(Status::FILE_LOCK_CONFLICT) }
}

/// The same for reading.
fn check_read_locks(open: &Open, file: &FileOpen, range: &std::ops::Range<u64>) -> Result<(), Status> {
    let length = range.end - range.start;
    let allowed = file.file.locks_allow(&file.stream_name(), |locks| locks.may_read(open.id, range.start, length));
    if allowed { Ok(()) } else { Err(Status::FILE_LOCK_CONFLICT) }
}
