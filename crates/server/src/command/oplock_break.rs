//! OPLOCK_BREAK acknowledgements (MS-SMB2 3.3.5.22): a client gives back what it cached.

use std::sync::Arc;

use wire::command::oplock_break::{LeaseBreak, OplockBreak, OplockBreakRequest, OplockBreakResponse};
use wire::status::Status;

use crate::command::breaking;
use crate::command::context::{Context, Outcome, Reply};
use crate::state::caching::{Holder, LOOK_COST, LeaseId};
use crate::state::open::Open;
use crate::state::open_id::OpenId;

pub(crate) fn handle(context: &Context, request: OplockBreakRequest) -> Outcome {
    let response = match request {
        OplockBreakRequest::Oplock(oplock) => OplockBreakResponse::Oplock(acknowledge_oplock(context, oplock)?),
        OplockBreakRequest::Lease(lease) => OplockBreakResponse::Lease(acknowledge_lease(context, lease)?),
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply::new(body))
}

fn acknowledge_oplock(context: &Context, request: OplockBreak) -> Result<OplockBreak, crate::state::refusal::Refusal> {
    let id = OpenId::from_file_id(request.file_id).ok_or(Status::FILE_CLOSED)?;
    let open = context.open_besides(id)?.ok_or(Status::FILE_CLOSED)?;
    let left = open.file()?.file.acknowledge_oplock(id, request.oplock_level)?;
    Ok(OplockBreak { oplock_level: left, ..request })
}

/// A lease is of one user of one client, whatever session it speaks in. A ClientGuid and a lease key are no secrets: another user who names them
/// has no say in it, or others would go on before what its holder caches is written.
fn acknowledge_lease(context: &Context, request: LeaseBreak) -> Result<LeaseBreak, crate::state::refusal::Refusal> {
    let session = context.session()?;
    let user = session.user.load();
    let id = LeaseId { client: session.client, user: user.id, key: request.lease_key };
    let file = context.server().files.of_lease(id).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let mut looks = 0;
    let open = file.holders_of(id).inspect(|_| looks += 1).find_map(|holder| open_of(context, &holder));
    context.in_flight.note_done_here((looks * LOOK_COST) as u64);
    let open = open.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    context.check_sealing_of(&open)?;
    let (answer, notices) = file.acknowledge_lease(id, request.lease_state);
    breaking::send_for(context, &file, notices);
    Ok(LeaseBreak { lease_state: answer?, ..request })
}

/// The open that holds a lease, where it still does. One without a session waits to be reclaimed.
fn open_of(context: &Context, holder: &Holder) -> Option<Arc<Open>> {
    context.server().open_of(holder.open, &holder.line)
}
