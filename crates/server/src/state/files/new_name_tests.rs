//! Whoever makes a file is the first to have it open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use store::{RamStore, Waits};
use tokio::task::LocalSet;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, ShareAccess};
use wire::ids::Command;
use wire::security::access::FILE_ALL;
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::tests::interrupted::{Call, Interrupted};
use crate::tests::testing::{Peer, server_with};

/// Asks for a file alone, without waiting for the answer.
fn ask(peer: &mut Peer, disposition: CreateDisposition) {
    let name = utf16_bytes("lock");
    let request = CreateRequest {
        desired_access: FILE_ALL.into(),
        share_access: ShareAccess(0),
        disposition,
        name: Utf16::new(&name).unwrap(),
        ..CreateRequest::default()
    };
    let mut message = peer.message(Command::CREATE, |body| request.encode(body));
    peer.process(&mut message).unwrap();
}

async fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The status of the last answer; interim ones are passed over.
async fn end(peer: &mut Peer) -> Status {
    loop {
        match peer.receive().await.status() {
            Status::PENDING => {}
            status => return status,
        }
    }
}

#[tokio::test]
async fn whoever_makes_a_file_has_it_open_before_all_who_find_it() {
    let test = async {
        let (store, meanwhile) = Interrupted::around(RamStore::that_waits(64 << 20, Waits::Always));
        let server = server_with(Signing::Enabled, store);
        let (mut maker, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
        let (made, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_made, may_go_on) = (Arc::clone(&made), Arc::clone(&goes_on));
        meanwhile.set(move |call, _| {
            if call == Call::Made {
                is_made.store(true, Ordering::SeqCst);
                while !may_go_on.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(())
        });
        ask(&mut maker, CreateDisposition::CREATE);
        until(|| made.load(Ordering::SeqCst)).await;
        ask(&mut other, CreateDisposition::OPEN);
        let answered = || !other.connection.outbox.borrow_mut().peek(1).is_empty();
        until(|| server.files.new_names.awaited() > 0 || answered()).await;
        assert!(!answered(), "it waits for the maker");
        goes_on.store(true, Ordering::SeqCst);
        assert_eq!(end(&mut maker).await, Status::SUCCESS);
        assert_eq!(end(&mut other).await, Status::SHARING_VIOLATION);
        assert!(!server.files.new_names.is_made("LOCK"));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_was_made_and_could_not_be_opened_is_not_there() {
    let test = async {
        for (waits, options) in [
            (Waits::Never, CreateOptions::NON_DIRECTORY_FILE),
            (Waits::Always, CreateOptions::NON_DIRECTORY_FILE),
            (Waits::Never, CreateOptions::DIRECTORY_FILE),
            (Waits::Always, CreateOptions::DIRECTORY_FILE),
        ] {
            let (store, meanwhile) = Interrupted::around(RamStore::that_waits(64 << 20, waits));
            let server = server_with(Signing::Enabled, store);
            let mut peer = Peer::sign_in(&server).await;
            let (is_made, is_told) = (AtomicBool::new(false), AtomicBool::new(false));
            meanwhile.set(move |call, _| {
                match call {
                    Call::Made => is_made.store(true, Ordering::SeqCst),
                    Call::Look if is_made.load(Ordering::SeqCst) && !is_told.swap(true, Ordering::SeqCst) => {
                        return Err(store::Error::Io(5));
                    }
                    _ => {}
                }
                Ok(())
            });
            let make = |request: &mut CreateRequest<'_>| {
                request.disposition = CreateDisposition::CREATE;
                request.options = options;
            };
            assert_eq!(peer.create("made", make).await.status(), Status::UNEXPECTED_IO_ERROR);
            meanwhile.clear();
            let open = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OPEN;
            assert_eq!(peer.create("made", open).await.status(), Status::OBJECT_NAME_NOT_FOUND);
            assert_eq!(peer.create("made", make).await.status(), Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}
