//! OPLOCK_BREAK acknowledgements (MS-SMB2 3.3.5.22): a client gives back what it cached.

use wire::command::oplock_break::{LeaseBreak, OplockBreak, OplockBreakRequest, OplockBreakResponse};
use wire::status::Status;

use crate::breaks;
use crate::caching::LeaseId;
use crate::context::{Context, Outcome, Reply};
use crate::open::OpenId;

pub(crate) fn handle(context: &Context, request: OplockBreakRequest) -> Outcome {
    let response = match request {
        OplockBreakRequest::Oplock(oplock) => OplockBreakResponse::Oplock(acknowledge_oplock(context, oplock)?),
        OplockBreakRequest::Lease(lease) => OplockBreakResponse::Lease(acknowledge_lease(context, lease)?),
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply::new(body))
}

fn acknowledge_oplock(context: &Context, request: OplockBreak) -> Result<OplockBreak, crate::refusal::Refusal> {
    let id = OpenId::from_file_id(request.file_id).ok_or(Status::FILE_CLOSED)?;
    let open = context.session()?.open(id).ok_or(Status::FILE_CLOSED)?;
    let left = open.file()?.file.acknowledge_oplock(id, request.oplock_level)?;
    Ok(OplockBreak { oplock_level: left, ..request })
}

/// A lease is the client's, whatever session it speaks in.
fn acknowledge_lease(context: &Context, request: LeaseBreak) -> Result<LeaseBreak, crate::refusal::Refusal> {
    context.session()?;
    let client = context.connection.negotiation.borrow().client_guid;
    let id = LeaseId { client, key: request.lease_key };
    let file = context.server().files.of_lease(id).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let (answer, notices) = file.acknowledge_lease(id, request.lease_state);
    breaks::send(context.server(), &file, notices);
    Ok(LeaseBreak { lease_state: answer?, ..request })
}
