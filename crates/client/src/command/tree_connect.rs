//! TREE_CONNECT (MS-SMB2 3.2.4.2.4).

use std::sync::Arc;

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::tree_connect::{ShareType, TreeConnectRequest};
use wire::ids::{Command, FileId};

use crate::error::Error;
use crate::perform::{Ask, Failed};
use crate::shared::Shared;
use crate::tree_state::TreeState;
use crate::ways::Way;

/// Connects to a share, which must be of that kind.
pub(crate) async fn connect(shared: &Arc<Shared>, share: &str, kind: ShareType) -> Result<Arc<TreeState>, Error> {
    let tree = Arc::new(TreeState::new(shared, share, kind));
    // Before it is there, so that no reconnect passes it over.
    shared.know_tree(&tree);
    let body = body(&shared.host, share);
    let answer = shared.perform(&ask(&body)).await?;
    tree.take(&answer)?;
    Ok(tree)
}

/// Connects to the share of a tree in a new session.
pub(crate) async fn connect_again(tree: &TreeState, way: &Way, seal: bool) -> Result<(), Error> {
    let body = body(&tree.shared.host, &tree.share);
    let answer = way.ask(&ask(&body), seal, false).await;
    tree.take(&answer.map_err(Failed::into_error)?)
}

/// The body of a request for a share.
fn body(host: &str, share: &str) -> impl Fn(&mut Vec<u8>, FileId) + Sync + use<> {
    let path = utf16_bytes(&format!(r"\\{host}\{share}"));
    move |out, _| {
        let path = Utf16::new(&path).unwrap_or_default();
        TreeConnectRequest { path, ..TreeConnectRequest::default() }.encode(out);
    }
}

/// The request with that body.
fn ask(body: &(dyn Fn(&mut Vec<u8>, FileId) + Sync)) -> Ask<'_> {
    Ask { command: Command::TREE_CONNECT, ..Ask::of_session(body) }
}
