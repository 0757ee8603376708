//! TREE_DISCONNECT (MS-SMB2 3.3.5.8).

use std::sync::Arc;

use wire::command::tree_disconnect::TreeDisconnectResponse;
use wire::status::Status;

use crate::context::{Context, Outcome, Reply};

pub(crate) async fn handle(context: &Context) -> Outcome {
    let opens = context.session()?.remove_tree(context.tree()?.id).ok_or(Status::NETWORK_NAME_DELETED)?;
    let server = Arc::clone(context.server());
    if !opens.is_empty() {
        context.on_pool(move || opens.iter().for_each(|open| open.close(&server))).await?;
    }
    let mut body = Vec::new();
    TreeDisconnectResponse.encode(&mut body);
    Ok(Reply::new(body))
}
