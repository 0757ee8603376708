//! TREE_DISCONNECT (MS-SMB2 3.2.4.22).

use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::error::Error;
use crate::perform::Ask;
use crate::tree_state::TreeState;

/// Leaves a share.
pub(crate) async fn disconnect(tree: &TreeState) -> Result<(), Error> {
    let body = |out: &mut Vec<u8>, _: FileId| TreeDisconnectRequest.encode(out);
    let ask = Ask { command: Command::TREE_DISCONNECT, tree: Some(tree), ..Ask::of_session(&body) };
    let answer = tree.shared.perform_once(&ask).await?;
    answer.expect(&[Status::SUCCESS], || format!("leave {}", tree.share)).map(|_| ())
}
