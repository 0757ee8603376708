//! TREE_DISCONNECT (MS-SMB2 3.3.5.8).

use wire::command::tree_disconnect::TreeDisconnectResponse;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::audit::AuditEnd;

pub(crate) async fn handle(context: &Context) -> Outcome {
    let opens = context.session()?.remove_tree(context.tree()?.id).ok_or(Status::NETWORK_NAME_DELETED)?;
    opens.iter().for_each(|open| open.end.say(AuditEnd::TreeDisconnect));
    context.server().close_soon(opens).await;
    let mut body = Vec::new();
    TreeDisconnectResponse.encode(&mut body);
    Ok(Reply::new(body))
}
