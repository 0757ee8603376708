//! TREE_CONNECT (MS-SMB2 3.3.5.7).

use wire::command::tree_connect::{ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse};
use wire::ids::Dialect;
use wire::security::access;
use wire::status::Status;

use crate::context::{Context, Outcome, Reply};
use crate::tree::{READ_ONLY_ACCESS, Tree};

pub(crate) fn handle(context: &Context, request: TreeConnectRequest<'_>) -> Outcome {
    let session = context.session()?;
    if session.dialect == Dialect::SMB_3_1_1 && !context.proof.is_of(session) {
        // Somebody on the way may have changed the negotiation: this is where it would come out (3.3.5.7).
        context.connection.drop_silently();
        return Err(Status::ACCESS_DENIED.into());
    }
    let path = request.path.decode().ok_or(Status::BAD_NETWORK_NAME)?;
    let name = share_name(&path).ok_or(Status::BAD_NETWORK_NAME)?;
    let user = session.user.load();
    if name.eq_ignore_ascii_case("IPC$") {
        let tree = session.add_tree(|id| Tree::on_pipes(id, access::FILE_ALL))?;
        return Ok(reply(&tree, ShareType::PIPE, ShareFlags::NO_CACHING));
    }
    let estate = context.server().estate.load();
    let folded = store::fold(name);
    let share =
        estate.shares.iter().find(|share| store::fold(&share.name) == folded).ok_or(Status::BAD_NETWORK_NAME)?;
    if !user.may_use(share) {
        return Err(Status::ACCESS_DENIED.into());
    }
    let seals = session.dialect >= Dialect::SMB_3_0 && session.cipher().is_some();
    if share.seal_required && !seals {
        return Err(Status::ACCESS_DENIED.into());
    }
    let read_only = share.read_only || share.store.facts().read_only;
    let access_max = if read_only { READ_ONLY_ACCESS } else { access::FILE_ALL };
    let keeps_opens = session.dialect >= Dialect::SMB_3_0 && context.server().durables.keeps_records();
    let tree = session.add_tree(|id| Tree::on(id, share, access_max, keeps_opens))?;
    let sealed = if share.seal_required { ShareFlags::ENCRYPT_DATA } else { ShareFlags::NONE };
    let listed = if share.access_based { ShareFlags::ACCESS_BASED_DIRECTORY_ENUM } else { ShareFlags::NONE };
    Ok(reply(&tree, ShareType::DISK, sealed | listed | ShareFlags::MANUAL_CACHING))
}

/// The second part of `\\server\share`.
fn share_name(path: &str) -> Option<&str> {
    let (_server, share) = path.strip_prefix(r"\\")?.split_once('\\')?;
    (!share.is_empty()).then_some(share)
}

fn reply(tree: &Tree, share_type: ShareType, share_flags: ShareFlags) -> Reply {
    let capabilities =
        if tree.is_continuous { ShareCapabilities::CONTINUOUS_AVAILABILITY } else { ShareCapabilities::NONE };
    let response =
        TreeConnectResponse { share_type, share_flags, capabilities, maximal_access: tree.access_max().into() };
    let mut body = Vec::new();
    response.encode(&mut body);
    Reply { tree: Some(tree.id), ..Reply::new(body) }
}
