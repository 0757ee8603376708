//! LOGOFF (MS-SMB2 3.3.5.6).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use wire::command::logoff::LogoffResponse;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::audit::{AuditEnd, SessionEnd};
use crate::state::durable::Parting;

pub(crate) async fn handle(context: &Context) -> Outcome {
    let session = Arc::clone(context.session()?);
    let server = Arc::clone(context.server());
    tracing::info!(
        name: "signed_out", peer = %context.connection.peer, session = session.id.0, user = %session.user.load().name,
        "signed out",
    );
    context.connection.channels.borrow_mut().remove(&session.id);
    // "If Open.IsDurable is TRUE", or resilient, it waits for its client like after a lost connection.
    let end = SessionEnd { by: AuditEnd::Logoff, caller: Some(Arc::clone(&context.connection.caller)) };
    let rest = server.part(&session, Parting::Lost, end);
    server.close_soon(rest).await;
    let mut body = Vec::new();
    LogoffResponse.encode(&mut body);
    Ok(Reply::new(body))
}
