//! Who is refused for want of encryption: nothing goes on in plain, and the log says why.

use std::sync::Arc;

use wire::ids::Dialect;
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::{Sealing, Signing};
use crate::state::shared::Shared;
use crate::tests::lines::Lines;
use crate::tests::testing::{Peer, Terms, server};

/// Clients without encryption: of old, and of today.
fn cannot() -> [Terms; 2] {
    let of_today = Terms { cipher: None, ..Terms::default() };
    [Terms { dialect: Dialect::SMB_2_1, signing: None, ..of_today }, of_today]
}

fn seal_share(server: &Arc<Shared>, seal_required: bool) {
    let mut configuration = (**server.configuration.load()).clone();
    configuration.shares[0].seal_required = seal_required;
    server.replace(configuration);
}

#[tokio::test]
async fn who_cannot_encrypt_where_the_server_wants_it_leaves_a_line() {
    let server = server(Signing::Enabled);
    let mut configuration = (**server.configuration.load()).clone();
    configuration.settings.sealing = Sealing::Required;
    server.replace(configuration);
    let lines = Lines::default();
    let _logged = tracing::subscriber::set_default(lines.clone());
    for terms in cannot() {
        let mut peer = Peer::connect_as(&server, terms);
        peer.negotiate().await;
        assert_eq!(peer.begin_sign_in().await, Status::ACCESS_DENIED);
        assert_eq!(lines.take("reason"), ["sign_in_refused: \"the server wants encryption, and the client has none\""]);
    }
}

#[tokio::test]
async fn who_cannot_encrypt_leaves_a_share_that_becomes_sealed_and_is_told_why_at_its_next_connect() {
    for terms in cannot() {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in_as(&server, terms).await;
        let file = peer.open("file").await;
        let lines = Lines::default();
        let _logged = tracing::subscriber::set_default(lines.clone());
        seal_share(&server, true);
        assert_ne!(peer.write(file, 0, b"secret").await, Status::SUCCESS, "nothing goes on in plain");
        assert_eq!(peer.try_open("file").await, Status::NETWORK_NAME_DELETED);
        assert_eq!(peer.connect("ram").await, Status::ACCESS_DENIED);
        assert_eq!(lines.take("reason"), ["share_refused: \"it is for clients that encrypt\""]);
    }
}

#[tokio::test]
async fn who_does_not_encrypt_on_a_share_that_became_sealed_leaves_one_line() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    let lines = Lines::default();
    let _logged = tracing::subscriber::set_default(lines.clone());
    let told = ["share_refused: \"its requests are not encrypted, which the share wants by now\""];
    for _ in 0..2 {
        seal_share(&server, true);
        assert_eq!(peer.write(file, 0, b"secret").await, Status::ACCESS_DENIED);
        assert_eq!(peer.try_open("file").await, Status::ACCESS_DENIED);
        assert_eq!(lines.take("reason"), told, "once");
        seal_share(&server, false);
        assert_eq!(peer.write(file, 0, b"plain").await, Status::SUCCESS);
    }
}
