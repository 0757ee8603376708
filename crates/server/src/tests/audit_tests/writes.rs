//! WRITEs that fail are told, and not counted as made, on every way that a WRITE takes.

use store::{Error, RamStore, Waits};
use tokio::task::LocalSet;
use wire::command::write::{WriteFlags, WriteRequest};
use wire::ids::Command;
use wire::status::Status;

use super::{audited_on, short};
use crate::admin::Signing;
use crate::tests::interrupted::{Call, Interrupted};
use crate::tests::testing::Peer;

async fn failed_writes_are_told(waits: Waits) {
    let (store, meanwhile) = Interrupted::around(RamStore::that_waits(64 << 20, waits));
    let (server, kept) = audited_on(store, "write", Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let file_id = peer.open("file").await;
    assert_eq!(peer.write(file_id, 0, b"before").await, Status::SUCCESS);
    kept.events();
    meanwhile.set(|call, node| match call {
        Call::Write => {
            node.write_at(b"ab", 0)?;
            Err(Error::Full)
        }
        _ => Ok(()),
    });
    for flags in [WriteFlags::NONE, WriteFlags::WRITE_THROUGH] {
        let request = WriteRequest { file_id, offset: 16, data: b"after", flags, ..WriteRequest::default() };
        let answer = peer.ask(Command::WRITE, |body| request.encode(body)).await;
        assert_eq!(answer.status(), Status::DISK_FULL);
        let told = kept.events();
        assert_eq!(told.iter().map(short).collect::<Vec<_>>(), ["write Write  file DISK_FULL"], "{waits:?}");
        assert_eq!(told[0].detail, "0x5 bytes at offset 0x10");
        assert_eq!(told[0].ids.message, Some(answer.header.message_id.0));
        assert_eq!(told[0].ids.open, Some(file_id.persistent));
        assert!(told[0].duration.is_some() && told[0].actor.user.is_some());
    }
    meanwhile.clear();
    peer.close(file_id).await;
    let moved = kept.events()[0].moved.unwrap();
    assert_eq!((moved.writes, moved.written_bytes), (1, 6), "{waits:?}");
}

#[tokio::test]
async fn failed_writes_to_memory_are_told() {
    LocalSet::new().run_until(failed_writes_are_told(Waits::Never)).await;
}

#[tokio::test]
async fn failed_writes_to_a_device_are_told() {
    LocalSet::new().run_until(failed_writes_are_told(Waits::ForData)).await;
}
