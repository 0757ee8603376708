//! Which requests get an interim answer, and when (MS-SMB2 3.3.4.2).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::sleep;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::query_directory::QueryDirectoryRequest;
use wire::fscc::FileClass;
use wire::header::Route;
use wire::ids::Command;
use wire::status::Status;

use crate::Shared;
use crate::admin::Signing;
use crate::pool::Pool;
use crate::testing::{Peer, server};

/// A client whose listing waits for a pool that works when it is told to.
async fn waiting_listing() -> (Arc<Shared>, Peer) {
    let mut server = server(Signing::Enabled);
    Arc::get_mut(&mut server).unwrap().pool = Pool::by_hand();
    let mut peer = Peer::sign_in(&server).await;
    let file_id = peer.open_directory("").await;
    let pattern = utf16_bytes("*");
    let request = QueryDirectoryRequest {
        class: FileClass::NAMES,
        file_id,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 1_000,
        ..QueryDirectoryRequest::default()
    };
    let mut listing = peer.message(Command::QUERY_DIRECTORY, |body| request.encode(body));
    peer.process(&mut listing).unwrap();
    (server, peer)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_store_keeps_waiting_a_moment_is_answered_once() {
    let test = async {
        let (server, peer) = waiting_listing().await;
        sleep(Duration::from_secs(3)).await;
        assert!(peer.take_frame().is_none(), "some clients take an interim answer to a listing for a fault");
        assert!(server.pool.work_once());
        let answer = peer.receive().await;
        assert_eq!(answer.status(), Status::SUCCESS);
        assert!(matches!(answer.header.route, Route::Sync { .. }));
        assert!(answer.header.credits > 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_of_a_store_that_does_not_answer_before_it_gives_up() {
    let test = async {
        let (server, peer) = waiting_listing().await;
        sleep(Duration::from_secs(10)).await;
        let interim = peer.receive().await;
        assert_eq!(interim.status(), Status::PENDING);
        assert!(interim.header.credits > 0);
        assert!(server.pool.work_once());
        let answer = peer.receive().await;
        assert_eq!((answer.status(), answer.header.credits), (Status::SUCCESS, 0));
        assert!(matches!(answer.header.route, Route::Async(_)));
    };
    LocalSet::new().run_until(test).await;
}
