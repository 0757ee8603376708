//! How long a file is and how much is kept for it (MS-FSA 2.1.5.15.1, 2.1.5.15.5, 2.1.5.15.15).

use store::{Error, Kind};
use wire::fscc::afp::AfpInfo;
use wire::fscc::file::{Allocation, EndOfFile, ValidDataLength};
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use super::{Job, change_length, require_length};
use crate::command::context::Context;
use crate::state::afp::AfpStream;
use crate::state::breaks;
use crate::state::open::FileOpen;
use crate::state::refusal::Refusal;

/// FileEndOfFileInformation.
pub(super) async fn set_end_of_file(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    require_length(buffer, EndOfFile::LENGTH)?;
    let length = EndOfFile::decode(buffer)?.end_of_file;
    check(context, length)?;
    if is_afp_info(context)? {
        // A Mac's own server says so, and changes nothing.
        return if length > AfpInfo::LENGTH as u64 { Err(Status::ALLOTTED_SPACE_EXCEEDED.into()) } else { Ok(()) };
    }
    // What grows is a hole.
    let freed = context.held_bytes()?.saturating_sub(length);
    change_length(context, freed, move |job| resize(job, |file| file.node.set_length(length))).await
}

/// FileAllocationInformation: less than the data takes cuts it, to a whole number of units. What fits is as it was.
pub(super) async fn set_allocation(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    require_length(buffer, Allocation::LENGTH)?;
    let asked = Allocation::decode(buffer)?.allocation;
    check(context, asked)?;
    if is_afp_info(context)? {
        return Ok(());
    }
    let unit_bytes = u64::from(context.store()?.facts().unit_bytes.max(1));
    let bytes = context.held_bytes()?.abs_diff(asked);
    let allocated = asked.next_multiple_of(unit_bytes);
    change_length(context, bytes, move |job| resize(job, |file| file.node.set_allocation(allocated))).await
}

/// True for a stream whose length never changes.
fn is_afp_info(context: &Context) -> Result<bool, Refusal> {
    Ok(context.file()?.1.afp() == Some(AfpStream::Info))
}

fn resize(job: &Job, apply: impl FnOnce(&FileOpen) -> Result<(), Error>) -> Result<(), Refusal> {
    let file = job.file()?;
    let applied = apply(file);
    // What failed may have been done in part.
    job.server.watches.data_changed(&job.open);
    breaks::data_changed(&job.server, file);
    breaks::looks_different(&job.server, &job.open);
    Ok(applied?)
}

/// FileValidDataLengthInformation: what was never written reads as zeros here whatever is claimed, so that nothing is left to do.
pub(super) async fn set_valid_data(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    require_length(buffer, ValidDataLength::LENGTH)?;
    let length = ValidDataLength::decode(buffer)?.length;
    check(context, length)?;
    if !context.session()?.user.load().has_full_control() {
        return Err(Status::PRIVILEGE_NOT_HELD.into());
    }
    if length > context.length().await? { Err(Status::INVALID_PARAMETER.into()) } else { Ok(()) }
}

fn check(context: &Context, length: u64) -> Result<(), Refusal> {
    let (open, file) = context.file()?;
    let length_max = context.store()?.facts().file_length_max;
    if file.kind == Kind::Directory || length > length_max.min(i64::MAX as u64) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    open.require(WRITE_DATA)?;
    context.require_writable()
}
