//! OPLOCK_BREAK acknowledgements (MS-SMB2 3.3.5.22): a client gives back what it cached.

use wire::command::oplock_break::{LeaseBreak, OplockBreak, OplockBreakRequest, OplockBreakResponse};
use wire::status::Status;

use crate::breaks;
use crate::caching::{LOOK_COST, LeaseId};
use crate::context::{Context, Outcome, Reply};
use crate::open::{Open, OpenId};
use crate::proof::Sealing;

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
    check_sealing(context, &open)?;
    let left = open.file()?.file.acknowledge_oplock(id, request.oplock_level)?;
    Ok(OplockBreak { oplock_level: left, ..request })
}

/// A lease is the client's, whatever session of its user it speaks in. Who has no open under it has no lease to give up: a ClientGuid and a
/// lease key are no secrets.
fn acknowledge_lease(context: &Context, request: LeaseBreak) -> Result<LeaseBreak, crate::refusal::Refusal> {
    let session = context.session()?;
    let id = LeaseId { client: session.client, key: request.lease_key };
    let file = context.server().files.of_lease(id).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let user = session.user.load();
    let mut looks = 0;
    let own = file.holders_of(id).inspect(|_| looks += 1).find(|holder| match holder.line.session() {
        Some(held) => held.client == session.client && held.user.load().is_same(&user),
        None => context.server().durables.waits_for(holder.open, &user),
    });
    context.in_flight.note_done_here((looks * LOOK_COST) as u64);
    let own = own.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    if let Some(open) = own.line.session().and_then(|held| held.open(own.open)) {
        check_sealing(context, &open)?;
    }
    let (answer, notices) = file.acknowledge_lease(id, request.lease_state);
    breaks::send_for(context, &file, notices);
    Ok(LeaseBreak { lease_state: answer?, ..request })
}

/// What is said of an open is as protected as what is done with it (3.3.5.2.11).
fn check_sealing(context: &Context, open: &Open) -> Result<(), Status> {
    let session = &context.channel.as_ref().ok_or(Status::USER_SESSION_DELETED)?.session;
    context.proof.check(session, Sealing::required_where(open.tree.requires_sealing()))
}
