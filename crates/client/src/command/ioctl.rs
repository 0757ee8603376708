//! IOCTL, for the server's network interfaces (MS-SMB2 3.2.4.20.10).

use std::sync::{Arc, Weak};

use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::command::tree_connect::ShareType;
use wire::fscc::ioctl::{self, Interface};
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::tree_connect;
use crate::error::Error;
use crate::perform::Ask;
use crate::shared::Shared;

/// MaxOutputResponse of Windows (note 177), and the interfaces that it has room for.
const OUTPUT_BYTES: u32 = 64 << 10;

/// The share that every server has, to ask through where there is no other.
pub(crate) const SHARE_OF_PIPES: &str = "IPC$";

/// The server's interfaces.
pub(crate) async fn interfaces(shared: &Arc<Shared>) -> Result<Vec<Interface>, Error> {
    let trees = shared.state.lock().trees.clone();
    let tree = match trees.iter().find_map(Weak::upgrade) {
        Some(tree) => tree,
        None => tree_connect::connect(shared, SHARE_OF_PIPES, ShareType::PIPE).await?,
    };
    let body = |out: &mut Vec<u8>, _: FileId| {
        let request = IoctlRequest {
            ctl_code: CtlCode::QUERY_NETWORK_INTERFACE_INFO,
            file_id: FileId::ANY,
            max_output_response: OUTPUT_BYTES,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        request.encode(out);
    };
    let ask = Ask { command: Command::IOCTL, tree: Some(&tree), ..Ask::of_session(&body) };
    let answer = shared.perform(&ask).await?;
    let answer = answer.expect(&[Status::SUCCESS], || "ask for the server's interfaces".into())?;
    let output = IoctlResponse::decode(answer.message())?.output;
    Ok(ioctl::interfaces(output).collect::<Result<_, _>>()?)
}
