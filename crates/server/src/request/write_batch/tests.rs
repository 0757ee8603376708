//! WRITEs to a store that may wait, as a client sees them that sends many at once.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, Waits};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::sleep;
use wire::command::cancel::CancelRequest;
use wire::command::close::CloseRequest;
use wire::command::echo::EchoRequest;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::{WriteRequest, WriteResponse};
use wire::fscc::FileClass;
use wire::fscc::file::EndOfFile;
use wire::header::{Header, Route};
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::HELD_BYTES_MAX;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, by_hand, framed, next_message, run, server_with, working};

const BLOCK: usize = 4096;

/// A client of a store that may wait, whose pool works when it is told to, and the client's end of its connection.
struct Served {
    server: Arc<Shared>,
    peer: Peer,
    file: FileId,
    /// Another open of the same file.
    other: FileId,
    stream: DuplexStream,
}

async fn served(signing: Signing) -> Served {
    let server = by_hand(server_with(signing, Arc::new(RamStore::that_waits(64 << 20, Waits::ForData))));
    let mut peer = Peer::sign_in(&server).await;
    let file = working(&server, peer.open("file")).await;
    let other = working(&server, peer.open("file")).await;
    let (ours, stream) = tokio::io::duplex(4 << 20);
    tokio::task::spawn_local(Rc::clone(&peer.connection).serve(ours, Vec::new()));
    Served { server, peer, file, other, stream }
}

impl Served {
    fn write(&mut self, block: usize, data: &[u8]) -> Vec<u8> {
        let request =
            WriteRequest { file_id: self.file, offset: (block * data.len()) as u64, data, ..WriteRequest::default() };
        framed(&self.peer.message(Command::WRITE, |body| request.encode(body)))
    }

    fn echo(&mut self) -> Vec<u8> {
        framed(&self.peer.message(Command::ECHO, |body| EchoRequest.encode(body)))
    }

    async fn earn_credits(&mut self) {
        for _ in 0..40 {
            let echo = self.echo();
            self.send(&[echo]).await;
            self.answer().await;
        }
    }

    fn close(&mut self) -> Vec<u8> {
        let request = CloseRequest { file_id: self.file, ..CloseRequest::default() };
        framed(&self.peer.message(Command::CLOSE, |body| request.encode(body)))
    }

    /// Locks a range through the other open, or fails at once.
    fn lock(&mut self, range: Range<u64>) -> Vec<u8> {
        let element = LockElement {
            offset: range.start,
            length: range.end - range.start,
            flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY,
        };
        let elements = [element];
        let request = LockRequest {
            lock_sequence_number: 0,
            lock_sequence_index: 0,
            file_id: self.other,
            locks: LockElements::new(&elements),
        };
        framed(&self.peer.message(Command::LOCK, |body| request.encode(body)))
    }

    async fn send(&mut self, frames: &[Vec<u8>]) {
        self.stream.write_all(&frames.concat()).await.unwrap();
        // The shard looks at them.
        sleep(Duration::from_millis(10)).await;
    }

    async fn answer(&mut self) -> (Header, Vec<u8>) {
        let message = next_message(&mut self.stream).await;
        (Header::decode(&message).unwrap(), message)
    }
}

#[test]
fn writes_that_arrive_together_are_made_together_and_hold_up_nobody() {
    for signing in [Signing::Enabled, Signing::Required] {
        run(async {
            let mut served = served(signing).await;
            let mut frames: Vec<_> = (0..16).map(|block| served.write(block, &[block as u8; BLOCK])).collect();
            frames.push(served.echo());
            served.send(&frames).await;
            let (echo, _) = served.answer().await;
            assert_eq!((echo.command, echo.status), (Command::ECHO, Status::SUCCESS), "it waits for no write");
            assert!(served.server.pool.work_once());
            assert!(!served.server.pool.work_once(), "there was one piece of work");
            for _ in 0..16 {
                let (header, message) = served.answer().await;
                assert_eq!((header.command, header.status), (Command::WRITE, Status::SUCCESS));
                assert!(header.credits > 0);
                assert_eq!(WriteResponse::decode(&message).unwrap().count, BLOCK as u32);
            }
            let read = ReadRequest { file_id: served.file, length: 16 * BLOCK as u32, ..ReadRequest::default() };
            let read = framed(&served.peer.message(Command::READ, |body| read.encode(body)));
            served.send(&[read]).await;
            let (_, message) = served.answer().await;
            let data = ReadResponse::decode(&message).unwrap().data;
            assert!(data.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / BLOCK));
        });
    }
}

#[test]
fn a_write_that_fails_is_told_with_those_that_do_not() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let good = served.write(0, &[1; BLOCK]);
        // Behind all the space there is.
        let bad = served.write((1 << 30) / BLOCK, &vec![2; BLOCK]);
        let many = vec![3; 60_000];
        let full: Vec<_> = (0..1200).map(|block| served.write(block, &many)).collect();
        served.send(&[good, bad]).await;
        assert!(served.server.pool.work_once());
        let statuses = [served.answer().await.0.status, served.answer().await.0.status];
        assert_eq!(statuses[0], Status::SUCCESS);
        let mut failed = statuses[1] != Status::SUCCESS;
        for frame in full {
            served.send(&[frame]).await;
            while served.server.pool.work_once() {}
            failed |= served.answer().await.0.status == Status::DISK_FULL;
        }
        assert!(failed, "a full disk is told");
    });
}

#[test]
fn a_write_that_hangs_gets_an_interim_answer_before_its_client_gives_up() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let frames = [served.write(0, &[1; BLOCK]), served.write(1, &[2; BLOCK])];
        served.send(&frames).await;
        sleep(Duration::from_secs(6)).await;
        for _ in 0..2 {
            let (header, _) = served.answer().await;
            assert_eq!(header.status, Status::PENDING);
            assert!(header.credits > 0 && matches!(header.route, Route::Async(_)));
        }
        assert!(served.server.pool.work_once());
        for _ in 0..2 {
            let (header, _) = served.answer().await;
            assert_eq!((header.status, header.credits), (Status::SUCCESS, 0));
            assert!(matches!(header.route, Route::Async(_)));
        }
        assert_eq!(served.peer.connection.in_flight.announced(), 0);
    });
}

#[test]
fn writes_of_a_byte_that_wait_count_as_what_they_take() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        served.earn_credits().await;
        let used = served.peer.connection.allowance.used();
        let together: Vec<_> = (0..500).map(|at| served.write(at, b"x")).collect();
        served.send(&together).await;
        let more = served.peer.connection.allowance.used() - used;
        assert!(more >= 500 * 600, "500 writes count as {more} bytes");
        let one_by_one: Vec<_> = (0..100).flat_map(|at| [served.write(at, b"x"), served.echo()]).collect();
        served.send(&one_by_one).await;
        let more = served.peer.connection.allowance.used() - used - more;
        assert!(more >= 100 * 4096, "100 writes by themselves count as {more} bytes");
        while served.server.pool.work_once() {}
        for _ in 0..700 {
            assert_eq!(served.answer().await.0.status, Status::SUCCESS);
        }
        assert_eq!(served.peer.connection.allowance.used(), used);
    });
}

#[test]
fn writes_of_a_byte_that_wait_have_an_end() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        served.earn_credits().await;
        let limit = served.peer.connection.allowance.budget().limit();
        let _others = served.peer.connection.allowance.overdraw(limit as usize);
        let frames: Vec<_> = (0..2_000).map(|at| served.write(at, b"x")).collect();
        let used = served.peer.connection.allowance.used();
        served.send(&frames).await;
        sleep(Duration::from_secs(60)).await;
        let more = served.peer.connection.allowance.used() - used;
        assert!(more <= 96 << 10, "{more} bytes more than there is");
    });
}

#[test]
fn a_client_whose_writes_hang_is_not_read_for_ever() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        served.earn_credits().await;
        let data = vec![5; 60_000];
        let count = 2 * HELD_BYTES_MAX / data.len();
        let frames: Vec<_> = (0..count).map(|block| served.write(block % 8, &data)).collect();
        let peer = Rc::clone(&served.peer.connection);
        let (server, mut stream) = (Arc::clone(&served.server), served.stream);
        let (mut from, mut to) = tokio::io::split(&mut stream);
        let sending = async {
            for frame in frames {
                to.write_all(&frame).await.unwrap();
            }
        };
        let answers = async {
            sleep(Duration::from_secs(1)).await;
            let held = peer.writes.held_bytes.get();
            assert!((HELD_BYTES_MAX..HELD_BYTES_MAX + (1 << 20)).contains(&held), "{held} bytes are held");
            let mut answered = 0;
            while answered < count {
                while server.pool.work_once() {}
                let message = next_message(&mut from).await;
                answered += usize::from(Header::decode(&message).unwrap().status == Status::SUCCESS);
            }
        };
        tokio::join!(sending, answers);
        assert_eq!(peer.writes.held_bytes.get(), 0);
    });
}

#[test]
fn a_change_of_length_after_a_write_finds_what_it_wrote() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let write = served.write(3, &[1; BLOCK]);
        served.send(&[write]).await;
        assert!(served.server.pool.work_once());
        assert_eq!(served.answer().await.0.status, Status::SUCCESS);
        let mut buffer = Vec::new();
        EndOfFile { end_of_file: 5 }.encode(&mut buffer);
        let request = wire::command::set_info::SetInfoRequest {
            info_type: wire::command::set_info::InfoType::FILE,
            class: FileClass::END_OF_FILE.into(),
            file_id: served.file,
            buffer: &buffer,
            ..Default::default()
        };
        let set = framed(&served.peer.message(Command::SET_INFO, |body| request.encode(body)));
        served.send(&[set]).await;
        while served.server.pool.work_once() {}
        assert_eq!(served.answer().await.0.status, Status::SUCCESS);
        assert!(served.peer.connection.channels.borrow().values().all(|channel| Rc::strong_count(channel) == 1));
    });
}

#[test]
fn a_lock_is_told_of_behind_the_writes_that_were_let_in_before_it() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let frames = [served.write(0, &[1; BLOCK]), served.lock(0..10), served.lock(1 << 20..2 << 20)];
        served.send(&frames).await;
        let (elsewhere, _) = served.answer().await;
        assert_eq!((elsewhere.command, elsewhere.status), (Command::LOCK, Status::SUCCESS), "nobody writes there");
        // Who comes now is behind the lock.
        let late = served.write(0, &[2; BLOCK]);
        served.send(&[late]).await;
        let (late, _) = served.answer().await;
        assert_eq!((late.command, late.status), (Command::WRITE, Status::FILE_LOCK_CONFLICT));
        while served.server.pool.work_once() {}
        let mut told = [served.answer().await.0, served.answer().await.0];
        told.sort_by_key(|header| header.command);
        assert_eq!(told.map(|header| header.status), [Status::SUCCESS; 2]);
        assert_eq!(told.map(|header| header.command), [Command::WRITE, Command::LOCK]);
    });
}

#[test]
fn a_lock_that_is_cancelled_behind_a_write_is_given_back() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let write = served.write(0, &[1; BLOCK]);
        let waiting = served.peer.message_id;
        let lock = served.lock(0..10);
        served.send(&[write, lock]).await;
        let next = std::mem::replace(&mut served.peer.message_id, waiting);
        let cancel = framed(&served.peer.message(Command::CANCEL, |body| CancelRequest.encode(body)));
        served.peer.message_id = next;
        served.send(&[cancel]).await;
        let (lock, _) = served.answer().await;
        assert_eq!((lock.command, lock.status), (Command::LOCK, Status::CANCELLED));
        let again = served.write(0, &[2; BLOCK]);
        served.send(&[again]).await;
        while served.server.pool.work_once() {}
        for _ in 0..2 {
            assert_eq!(served.answer().await.0.status, Status::SUCCESS);
        }
    });
}

#[test]
fn a_close_comes_behind_what_was_written_through_its_open() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let frames = [served.write(0, &[1; BLOCK]), served.close(), served.echo()];
        served.send(&frames).await;
        assert_eq!(served.answer().await.0.command, Command::ECHO);
        assert_eq!(served.server.files.claims(), 2, "its share mode holds until its write is made");
        while served.server.pool.work_once() {}
        for _ in 0..2 {
            assert_eq!(served.answer().await.0.status, Status::SUCCESS);
        }
        assert_eq!(served.server.files.claims(), 1);
    });
}

#[test]
fn a_lost_session_is_in_the_way_of_others_until_its_writes_are_made() {
    run(async {
        let mut served = served(Signing::Enabled).await;
        let write = served.write(0, &[1; BLOCK]);
        served.send(&[write]).await;
        let server = Arc::clone(&served.server);
        let session = server.sessions.find(served.peer.session_id).unwrap();
        server.end_session(&session, crate::state::durable::Parting::Lost, crate::state::audit::AuditEnd::Server);
        assert_eq!(server.files.claims(), 2);
        assert!(server.pool.work_once(), "the write");
        while server.pool.work_once() {}
        assert!(server.files.is_empty());
    });
}
