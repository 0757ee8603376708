//! TREE_CONNECT (MS-SMB2 3.3.5.7).

use std::sync::Arc;

use wire::command::tree_connect::{ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse};
use wire::ids::Dialect;
use wire::security::access;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::refusal::Refusal;
use crate::state::session::Session;
use crate::state::snapshots::SEPARATOR;
use crate::state::tree::{READ_ONLY_ACCESS, ShareFiles, Tree};

/// Characters of a share's name that the log shows.
const LOGGED_CHARS_MAX: usize = 80;

pub(crate) fn handle(context: &Context, request: TreeConnectRequest<'_>) -> Outcome {
    let session = context.session()?;
    if session.dialect == Dialect::SMB_3_1_1 && !context.proof.is_of(session) {
        // Somebody on the way may have changed the negotiation: this is where it would come out (3.3.5.7).
        context.connection.drop_silently();
        return Err(Status::ACCESS_DENIED.into());
    }
    let path = request.path.decode().ok_or(Status::BAD_NETWORK_NAME)?;
    let name = share_name(&path).ok_or(Status::BAD_NETWORK_NAME)?;
    if name.eq_ignore_ascii_case("IPC$") {
        let tree = session.add_tree(Tree::on_pipes)?;
        return Ok(reply(&tree, ShareType::PIPE, ShareFlags::NO_CACHING));
    }
    loop {
        if let Some(reply) = connect(context, name)? {
            return Ok(reply);
        }
    }
}

/// Connects to a share of files; `None` where shares were changed meanwhile.
fn connect(context: &Context, name: &str) -> Result<Option<Reply>, Refusal> {
    let (session, server) = (context.session()?, context.server());
    let configuration = server.configuration.load_full();
    // No share has such a name, and who asks from elsewhere is told that.
    let (name, snapshot) = match name.split_once(SEPARATOR) {
        Some((name, snapshot)) if context.connection.is_inside() => (name, Some(snapshot)),
        Some(_) | None => (name, None),
    };
    let folded = store::fold(name);
    let Some(share) = configuration.shares.iter().find(|share| store::fold(&share.name) == folded) else {
        tell_refusal(context, session, name, "it is not served");
        return Err(Status::BAD_NETWORK_NAME.into());
    };
    let user = session.user.load_full();
    let Some(right) = user.right_on(share) else {
        let is_own = user.account == share.account;
        tell_refusal(
            context,
            session,
            name,
            if is_own { "its rights do not name the user" } else { "it is another account's" },
        );
        return Err(Status::ACCESS_DENIED.into());
    };
    if !share.rights.hosts.allow(context.channel()?.facts.host) {
        tell_refusal(context, session, name, "it is for other hosts than the client's");
        return Err(Status::ACCESS_DENIED.into());
    }
    if share.seal_required && !session.seals() {
        tell_refusal(context, session, name, "it is for clients that encrypt");
        return Err(Status::ACCESS_DENIED.into());
    }
    let files = match snapshot {
        None => ShareFiles::of(share),
        Some(snapshot) => ShareFiles::of_snapshot(share, snapshot).ok_or(Status::BAD_NETWORK_NAME)?,
    };
    let access_max = if files.are_read_only() { READ_ONLY_ACCESS } else { access::FILE_ALL };
    let keeps_opens = session.dialect >= Dialect::SMB_3_0 && server.durables.keeps_records();
    let tree = session.add_tree(|id| Tree::on(id, (share, files), (&user, right), access_max, keeps_opens))?;
    let is_as_before = Arc::ptr_eq(&configuration, &server.configuration.load_full());
    if !is_as_before || !Arc::ptr_eq(&user, &session.user.load_full()) {
        // Whoever did that may not have seen this tree.
        server.close_on_pool(session.remove_tree(tree.id).unwrap_or_default());
        return Ok(None);
    }
    let sealed = if share.seal_required { ShareFlags::ENCRYPT_DATA } else { ShareFlags::NONE };
    let listed = if share.access_based { ShareFlags::ACCESS_BASED_DIRECTORY_ENUM } else { ShareFlags::NONE };
    Ok(Some(reply(&tree, ShareType::DISK, sealed | listed | ShareFlags::MANUAL_CACHING)))
}

fn tell_refusal(context: &Context, session: &Session, name: &str, reason: &str) {
    tracing::info!(
        name: "share_refused", peer = %context.connection.peer, session = session.id.0, user = %session.user.load().name,
        share = name.chars().take(LOGGED_CHARS_MAX).collect::<String>(), reason, "a share was refused",
    );
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

#[cfg(test)]
mod tests {
    use store::{Kind, NewNode, RamStore, SharePath, Store};
    use tokio::task::LocalSet;
    use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest};
    use wire::security::access::{DELETE, FILE_GENERIC_READ, WRITE_ATTRIBUTES, WRITE_DAC, WRITE_DATA};

    use super::*;
    use crate::admin::Admin;
    use crate::state::configuration::{Configuration, Share, Signing};
    use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
    use crate::tests::testing::{Peer, Terms, server, server_with};

    /// Connects while the shares become what `change` makes of the one there is. Gives what the client is told of the tree, and of a
    /// file that it makes there.
    async fn connect_while(change: impl Fn(&Share) -> Option<Share> + 'static) -> (Status, Status) {
        let (store, _) = Interrupted::around(RamStore::new(64 << 20));
        let server = server_with(Signing::Enabled, store);
        let mut peer = Peer::sign_in(&server).await;
        once_here(Call::Facts, move || {
            let configuration = server.configuration.load_full();
            let shares = configuration.shares.iter().filter_map(&change).collect();
            server.replace(Configuration { shares, ..Configuration::clone(&configuration) });
        });
        let connected = peer.connect("ram").await;
        assert!(!is_to_happen_here());
        let made = peer.create("file", |request| request.options = CreateOptions::NON_DIRECTORY_FILE).await;
        (connected, made.status())
    }

    #[tokio::test]
    async fn a_share_that_is_deleted_meanwhile_is_not_connected_to() {
        let gone = (Status::BAD_NETWORK_NAME, Status::NETWORK_NAME_DELETED);
        assert_eq!(connect_while(|_| None).await, gone);
    }

    #[tokio::test]
    async fn a_share_that_becomes_read_only_meanwhile_is_so_for_who_connects() {
        let read_only = |share: &Share| Some(Share { read_only: true, ..share.clone() });
        assert_eq!(connect_while(read_only).await, (Status::SUCCESS, Status::ACCESS_DENIED));
    }

    /// Opens what is there, for this.
    async fn opened(peer: &mut Peer, name: &str, access: u32) -> Status {
        let wanted = |request: &mut CreateRequest<'_>| {
            request.disposition = CreateDisposition::OPEN;
            request.desired_access = access.into();
        };
        peer.create(name, wanted).await.status()
    }

    #[tokio::test]
    async fn a_snapshot_is_reached_by_this_process_alone_and_changes_for_nobody() {
        let body = async {
            let server = server(Signing::Required);
            let then = RamStore::new(1 << 20);
            let file = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
            then.create(&SharePath::parse("file").unwrap(), file).unwrap();
            let configuration = server.configuration.load_full();
            let snapshots = &configuration.shares[0].snapshots;
            let _open = snapshots.add("then", Arc::new(then));
            let mut outside = Peer::sign_in(&server).await;
            assert_eq!(outside.connect("ram:then").await, Status::BAD_NETWORK_NAME);
            let mut inside = Peer::sign_in_as(&server, Terms { is_inside: true, ..Terms::default() }).await;
            for other in ["ram:now", "ram:", "rom:then", "ram:then:then", ":then"] {
                assert_eq!(inside.connect(other).await, Status::BAD_NETWORK_NAME, "{other}");
            }
            assert_eq!(inside.connect("ram:then").await, Status::SUCCESS);
            assert_eq!(opened(&mut inside, "file", FILE_GENERIC_READ).await, Status::SUCCESS);
            for access in [WRITE_DATA, DELETE, WRITE_DAC, WRITE_ATTRIBUTES] {
                assert_eq!(opened(&mut inside, "file", access).await, Status::ACCESS_DENIED);
            }
            let made = inside.create("other", |request| request.options = CreateOptions::NON_DIRECTORY_FILE).await;
            assert_eq!(made.status(), Status::ACCESS_DENIED);
            // It stays so when settings are taken up.
            let replace = || server.replace(Configuration::clone(&configuration));
            replace();
            assert_eq!(opened(&mut inside, "file", WRITE_DATA).await, Status::ACCESS_DENIED);
            snapshots.close("then");
            replace();
            assert_eq!(opened(&mut inside, "file", FILE_GENERIC_READ).await, Status::NETWORK_NAME_DELETED);
        };
        LocalSet::new().run_until(body).await;
    }
}
