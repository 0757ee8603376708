//! LOGOFF (MS-SMB2 3.3.5.6).

use std::sync::Arc;

use wire::command::logoff::LogoffResponse;

use crate::context::{Context, Outcome, Reply};

pub(crate) async fn handle(context: &Context) -> Outcome {
    let session = Arc::clone(context.session()?);
    let server = Arc::clone(context.server());
    server.sessions.remove(session.id);
    context.connection.channels.borrow_mut().remove(&session.id);
    context.on_pool(move || session.end(&server.files)).await?;
    let mut body = Vec::new();
    LogoffResponse.encode(&mut body);
    Ok(Reply::new(body))
}
