//! READ and WRITE at places that are none (MS-SMB2 3.3.5.12, 3.3.5.13), and clients that go away in the middle.

use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::ReadRequest;
use wire::command::write::WriteRequest;
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::peer::{End, Peer, put_u16, put_u32};
use crate::served;

const REFUSED: End = End::Answered(Status::INVALID_PARAMETER);
const WRITE_DATA_OFFSET: usize = 66;
const WRITE_LENGTH: usize = 68;

#[test]
fn reads_whose_end_is_no_offset_are_refused() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file_id = peer.open("file");
        for offset in [1 << 63, i64::MAX as u64, u64::MAX - 4096, u64::MAX] {
            let request = ReadRequest { file_id, offset, length: 4096, ..ReadRequest::default() };
            let message = peer.message(Command::READ, |body| request.encode(body));
            assert_eq!(peer.end_of(&message), REFUSED, "{offset:#x}");
        }
        assert!(peer.is_alive());
    });
}

#[test]
fn writes_whose_end_is_no_offset_are_refused() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file_id = peer.open("file");
        for offset in [1 << 63, i64::MAX as u64, u64::MAX - 3, u64::MAX - 1] {
            let request = WriteRequest { file_id, offset, data: b"data", ..WriteRequest::default() };
            let message = peer.message(Command::WRITE, |body| request.encode(body));
            assert_eq!(peer.end_of(&message), REFUSED, "{offset:#x}");
        }
        assert!(peer.is_alive());
    });
}

#[test]
fn data_that_is_not_in_the_message_is_not_written() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file_id = peer.open("file");
        let request = WriteRequest { file_id, data: b"data", ..WriteRequest::default() };
        for offset in [0, 4, 63, 114, 60_000, u16::MAX] {
            let end = peer.spoiled(
                Command::WRITE,
                |body| request.encode(body),
                |message| put_u16(message, WRITE_DATA_OFFSET, offset),
            );
            assert_eq!(end, REFUSED, "at {offset}");
        }
        for length in [5, 60_000, u32::MAX, 0xFFFF_FFF0] {
            let end = peer.spoiled(
                Command::WRITE,
                |body| request.encode(body),
                |message| put_u32(message, WRITE_LENGTH, length),
            );
            assert_eq!(end, REFUSED, "{length} long");
        }
        let read = ReadRequest { file_id, length: 100, ..ReadRequest::default() };
        let message = peer.message(Command::READ, |body| read.encode(body));
        assert_eq!(peer.end_of(&message), End::Answered(Status::END_OF_FILE), "nothing was written");
    });
}

#[test]
fn file_ids_of_nobody_and_of_others_are_closed_files() {
    served(|address| {
        let mut owner = Peer::signed_in(address);
        let theirs = owner.open("file");
        let mut peer = Peer::signed_in(address);
        let halves = FileId { persistent: theirs.persistent, volatile: 0 };
        for file_id in [theirs, halves, FileId::ANY, FileId { persistent: 0, volatile: 0 }] {
            let request = ReadRequest { file_id, length: 1, ..ReadRequest::default() };
            let message = peer.message(Command::READ, |body| request.encode(body));
            assert_eq!(peer.end_of(&message), End::Answered(Status::FILE_CLOSED), "{file_id:?}");
        }
    });
}

#[test]
fn a_client_that_goes_away_waits_for_no_lock_and_holds_none() {
    served(|address| {
        let lock = |peer: &mut Peer, file_id, flags| {
            let elements = [LockElement { offset: 0, length: 1, flags }];
            let request = LockRequest { file_id, locks: LockElements::new(&elements), ..LockRequest::default() };
            peer.message(Command::LOCK, |body| request.encode(body))
        };
        let at_once = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
        let mut holder = Peer::signed_in(address);
        let file = holder.open("locked");
        let message = lock(&mut holder, file, at_once);
        assert_eq!(holder.end_of(&message), End::Answered(Status::SUCCESS));

        let mut waiters: Vec<_> = (0..5).map(|_| Peer::signed_in(address)).collect();
        for peer in &mut waiters {
            let file = peer.open("locked");
            let message = lock(peer, file, LockFlags::EXCLUSIVE_LOCK);
            peer.send(&message);
            assert_eq!(Header::decode(&peer.receive().unwrap()).unwrap().status, Status::PENDING);
        }
        let mut last = waiters.pop().unwrap();
        drop(waiters);
        drop(holder);
        assert_eq!(last.end(), End::Answered(Status::SUCCESS), "whoever went away stands in nobody's way");
    });
}
