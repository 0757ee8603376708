//! Which device's turn a request takes that follows a path: the pool works when it is told to.

use std::sync::Arc;

use store::{RamStore, SharePath, Store, Waits};
use tokio::task::LocalSet;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest};
use wire::fscc::FileClass;
use wire::ids::Command;
use wire::security::access;
use wire::status::Status;

use crate::resource::pool::Device;
use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, by_hand, headers, server_with, working};

/// Asks to open or make a file, without waiting for the answer.
fn begin_create(peer: &mut Peer, name: &str) {
    let name = utf16_bytes(name);
    let request = CreateRequest {
        name: Utf16::new(&name).unwrap(),
        desired_access: access::FILE_ALL.into(),
        disposition: CreateDisposition::OPEN_IF,
        ..CreateRequest::default()
    };
    let mut message = peer.message(Command::CREATE, |body| request.encode(body));
    peer.process(&mut message).unwrap();
}

async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_mounted_below_a_share_keeps_nobody_waiting_who_goes_elsewhere() {
    let test = async {
        let store = RamStore::that_waits(64 << 20, Waits::ForData).with_mounted("nas", Waits::Always).unwrap();
        let (root, mounted) = (store.facts().volume, store.volume_at(&SharePath::parse("nas").unwrap()));
        let server = by_hand(server_with(Signing::Enabled, Arc::new(store)));
        let mut peer = Peer::sign_in(&server).await;
        let session = Arc::clone(&peer.connection.channel(peer.session_id).unwrap().session);
        let devices = [Device::Volume(root), Device::Volume(mounted), Device::of_both(root, mounted)];
        let waiting = || {
            let turns = devices.map(|device| session.queue_key(device));
            turns.map(|queue_key| server.pool.waiting(queue_key) + server.pool.waiting(queue_key.first()))
        };
        let file = working(&server, peer.open("file")).await;

        for name in ["nas\\one", "NAS\\two", "nas\\no directory\\three"] {
            begin_create(&mut peer, name);
            settle().await;
        }
        assert_eq!(waiting(), [0, 3, 0], "they wait for what is mounted");
        begin_create(&mut peer, "new");
        settle().await;
        assert_eq!(waiting(), [1, 3, 0]);
        let mut message = peer.name_message(file, FileClass::RENAME, "nas\\moved", false);
        peer.process(&mut message).unwrap();
        settle().await;
        assert_eq!(waiting(), [1, 3, 0], "a rename that no device could make waits for none");
        let answer = headers(&peer.take_frame().unwrap())[0];
        assert_eq!((answer.command, answer.status), (Command::SET_INFO, Status::NOT_SAME_DEVICE));
    };
    LocalSet::new().run_until(test).await;
}
