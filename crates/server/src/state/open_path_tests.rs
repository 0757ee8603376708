//! What the names of opens cost their users.

use std::sync::Arc;

use store::{RamStore, Store};
use tokio::task::{LocalSet, yield_now};
use wire::command::create::CreateDisposition;
use wire::ids::FileId;
use wire::status::Status;

use crate::resource::budgets::UserBudgets;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, server_with};

/// What an open costs whose names are short.
const OPEN_BYTES: u64 = 4 << 10;

fn server() -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    server_with(Signing::Enabled, store)
}

fn budgets(server: &Arc<Shared>, peer: &Peer) -> Arc<UserBudgets> {
    Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets)
}

async fn other(server: &Arc<Shared>) -> Peer {
    Peer::sign_in_as(server, Terms { user: OTHER_USER, ..Terms::default() }).await
}

/// Makes directories in each other, and gives a path in the innermost of about so many bytes.
async fn long_name(peer: &mut Peer, bytes: usize) -> String {
    let mut path = String::new();
    while path.len() + 200 < bytes {
        path.push_str(&"d".repeat(198));
        let directory = peer.open_directory(&path).await;
        peer.close(directory).await;
        path.push('\\');
    }
    path + "file"
}

async fn create(peer: &mut Peer, name: &str, disposition: CreateDisposition) -> Result<FileId, Status> {
    peer.create(name, |request| request.disposition = disposition).await.opened()
}

#[tokio::test]
async fn names_are_charged_with_their_open_and_given_back() {
    let server = server();
    let test = async {
        let mut peer = Peer::sign_in(&server).await;
        let user = budgets(&server, &peer);
        let name = long_name(&mut peer, 3_900).await;
        let before = user.bytes.used();
        let short = peer.open("short").await;
        assert_eq!(user.bytes.used(), before + OPEN_BYTES, "names of an ordinary length are included");
        let long = peer.open(&name).await;
        let cost = user.bytes.used() - before - OPEN_BYTES;
        assert!(cost > OPEN_BYTES + 3_200 && cost < OPEN_BYTES + 4_000, "{cost}");
        peer.close(long).await;
        peer.close(short).await;
        assert_eq!(user.bytes.used(), before);
        for _ in 0..3 {
            peer.open(&name).await;
        }
        assert_eq!(user.bytes.used(), before + 3 * cost);
        peer.disconnect();
        while user.opens() > 0 {
            yield_now().await;
        }
        assert!(user.bytes.used() <= before);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_open_whose_names_find_no_room_is_refused_and_makes_nothing() {
    let server = server();
    let test = async {
        let mut peer = Peer::sign_in(&server).await;
        let user = budgets(&server, &peer);
        let name = long_name(&mut peer, 3_900).await;
        let all = user.bytes.charge(user.bytes.limit() - user.bytes.used() - OPEN_BYTES - 3_000).unwrap();
        assert_eq!(create(&mut peer, &name, CreateDisposition::CREATE).await, Err(Status::INSUFFICIENT_RESOURCES));
        let short = create(&mut peer, "short", CreateDisposition::CREATE).await.unwrap();
        peer.close(short).await;
        drop(all);
        assert_eq!(create(&mut peer, &name, CreateDisposition::OPEN).await, Err(Status::OBJECT_NAME_NOT_FOUND));
        create(&mut peer, &name, CreateDisposition::CREATE).await.unwrap();
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_renames_pays_for_the_name_and_nobody_else() {
    let server = server();
    let test = async {
        let (mut renamer, mut holder) = (Peer::sign_in(&server).await, other(&server).await);
        let (pays, holds) = (budgets(&server, &renamer), budgets(&server, &holder));
        let name = long_name(&mut renamer, 3_900).await;
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(holder.open("file").await);
        }
        let file = renamer.open("file").await;
        let (before, of_holder) = (pays.bytes.used(), holds.bytes.used());
        let full = holds.bytes.charge(holds.bytes.limit() - of_holder).unwrap();
        assert_eq!(renamer.rename(file, &name).await, Status::SUCCESS, "nobody else's budget is asked");
        drop(full);
        assert_eq!(holds.bytes.used(), of_holder);
        let cost = pays.bytes.used() - before;
        assert!(cost > 3_200 && cost < 4_000, "one name, however many have it: {cost}");

        renamer.close(file).await;
        assert_eq!(pays.bytes.used(), before - OPEN_BYTES + cost, "it is held yet");
        for file in held {
            holder.close(file).await;
        }
        assert_eq!(pays.bytes.used(), before - OPEN_BYTES);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_rename_that_its_user_has_no_bytes_for_changes_nothing() {
    let server = server();
    let test = async {
        let mut peer = Peer::sign_in(&server).await;
        let user = budgets(&server, &peer);
        let name = long_name(&mut peer, 3_900).await;
        let file = peer.open("file").await;
        let all = user.bytes.charge(user.bytes.limit() - user.bytes.used() - 3_000).unwrap();
        assert_eq!(peer.rename(file, &name).await, Status::INSUFFICIENT_RESOURCES);
        assert_eq!(peer.rename(file, "other").await, Status::SUCCESS, "a short one is included");
        drop(all);
        assert_eq!(peer.rename(file, &name).await, Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_stream_is_charged_for_the_longest_name_it_may_get() {
    let server = server();
    let test = async {
        let mut peer = Peer::sign_in(&server).await;
        let user = budgets(&server, &peer);
        let before = user.bytes.used();
        let stream = peer.open("file:s").await;
        let cost = user.bytes.used() - before;
        assert!(cost > OPEN_BYTES + 3 * 255 * 2, "{cost}");
        assert_eq!(peer.rename(stream, &format!(":{}", "x".repeat(255))).await, Status::SUCCESS);
        assert_eq!(user.bytes.used(), before + cost);
        peer.close(stream).await;
        assert_eq!(user.bytes.used(), before);
    };
    LocalSet::new().run_until(test).await;
}
