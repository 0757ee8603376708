//! What connections that always ask for more leave to the others of their shard.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use secure::Role;
use secure::sign::SigningAlgorithm;
use store::{Kind, NewNode, Node, RamStore, SharePath, Store};
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::fscc::FileClass;
use wire::header::Header;
use wire::ids::{Command, FileId, MessageId, SessionId};
use wire::security::Sid;
use wire::status::Status;

use crate::command::connection::Ending;
use crate::net::connection::Endpoint;
use crate::net::transport::Transport;
use crate::request::opening::Look;
use crate::resource::pool::Pool;
use crate::resource::turns::{TURN_BYTES, Turn, Turns};
use crate::state::configuration::Signing;
use crate::state::in_flight::InFlight;
use crate::state::shared::Shared;
use crate::tests::testing::{
    Peer, Terms, by_hand, chained, framed, headers, next_message, server, server_with, unprotected,
};

const KIB: u64 = 1 << 10;
const TURN: u64 = TURN_BYTES as u64;
/// What comes on top of a turn: what its last request answers.
const MORE: u64 = 128 * KIB;
/// Where one that nobody bounds stops, so that a test fails instead of running for ever.
const ENOUGH: u64 = 64 << 20;
/// More than a shard reads, signs or seals in one go.
const LONG_READ: u32 = 4 << 20;
/// So many READs of it are one chain.
const PARTS: u32 = 8;

/// The stream of a client that reads a file again and again, and takes all that is sent.
struct Endless {
    header: Header,
    read: ReadRequest<'static>,
    taken: Rc<Cell<u64>>,
}

impl AsyncRead for Endless {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let begun = into.filled().len();
        loop {
            let mut message = self.header.to_bytes().to_vec();
            self.read.encode(&mut message);
            let frame = framed(&message);
            if self.taken.get() > ENOUGH || into.remaining() < frame.len() {
                break;
            }
            into.put_slice(&frame);
            self.header.message_id = MessageId(self.header.message_id.0 + u64::from(self.header.credit_charge));
        }
        if into.filled().len() > begun { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Transport for Endless {
    fn poll_send(&mut self, _: &mut Context<'_>, bytes: &[IoSlice<'_>], _more: bool) -> Poll<io::Result<usize>> {
        let count: usize = bytes.iter().map(|slice| slice.len()).sum();
        self.taken.set(self.taken.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &Arc<dyn Node>, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

/// A client that always asks for more.
struct Greedy {
    connection: Rc<Endpoint>,
    taken: Rc<Cell<u64>>,
    served: JoinHandle<()>,
}

impl Greedy {
    /// One that reads `length` bytes at a time.
    async fn new(server: &Arc<Shared>, turns: &Rc<Turns>, length: u32) -> Greedy {
        let (mut peer, file) = sign_in(server, turns).await;
        let header = peer.charged(Command::READ, length as usize);
        let header = Header { credits: header.credit_charge, ..header };
        let (connection, taken) = (Rc::clone(&peer.connection), Rc::default());
        let read = ReadRequest { file_id: file, length, ..ReadRequest::default() };
        let stream = Endless { header, read, taken: Rc::clone(&taken) };
        let serving = Rc::clone(&connection).serve(stream, Vec::new());
        let served = spawn_local(async move { drop(serving.await) });
        Greedy { connection, taken, served }
    }
}

/// A client that asks for 4 KiB at a time.
struct Modest {
    peer: Peer,
    stream: DuplexStream,
    file: FileId,
}

impl Modest {
    async fn new(server: &Arc<Shared>, turns: &Rc<Turns>) -> Modest {
        let (peer, file) = sign_in(server, turns).await;
        let (stream, far) = tokio::io::duplex(1 << 20);
        spawn_local(Rc::clone(&peer.connection).serve(far, Vec::new()));
        Modest { peer, stream, file }
    }

    async fn ask(&mut self) {
        let read = ReadRequest { file_id: self.file, length: 4_096, ..ReadRequest::default() };
        let message = self.peer.message(Command::READ, |body| read.encode(body));
        self.stream.write_all(&framed(&message)).await.unwrap();
    }

    async fn answer(&mut self) {
        let message = next_message(&mut self.stream).await;
        assert_eq!(Header::decode(&message).unwrap().status, Status::SUCCESS);
    }
}

/// A client of a shard, and the file that it reads.
async fn sign_in(server: &Arc<Shared>, turns: &Rc<Turns>) -> (Peer, FileId) {
    let mut peer = sign_in_and_sign(server, turns).await;
    peer.signing_key = None;
    let file = peer.open("file").await;
    peer.set(file, FileClass::END_OF_FILE, &(1u64 << 20).to_le_bytes()).await;
    (peer, file)
}

fn taken(greedy: &[Greedy]) -> u64 {
    greedy.iter().map(|greedy| greedy.taken.get()).sum()
}

/// How much so many that are greedy get while one that is modest waits for its first answer, and at most for one of the next.
async fn while_one_waits(count: usize, byte_cost: usize) -> (u64, u64) {
    let (server, turns) = (server(Signing::Enabled), Rc::default());
    let mut greedy = Vec::new();
    for _ in 0..count {
        greedy.push(Greedy::new(&server, &turns, 65_536).await);
    }
    greedy.iter().for_each(|greedy| greedy.connection.byte_cost.set(byte_cost));
    let mut modest = Modest::new(&server, &turns).await;
    let mut at_most = 0;
    let before = taken(&greedy);
    modest.ask().await;
    modest.answer().await;
    let first = taken(&greedy) - before;
    for _ in 0..20 {
        let before = taken(&greedy);
        modest.ask().await;
        modest.answer().await;
        at_most = at_most.max(taken(&greedy) - before);
    }
    (first, at_most)
}

#[tokio::test]
async fn one_that_always_has_more_keeps_others_waiting_for_one_turn() {
    LocalSet::new()
        .run_until(async {
            let (first, at_most) = while_one_waits(1, 1).await;
            assert!(first <= 2 * (TURN + MORE), "{first} bytes");
            assert!(at_most <= TURN + MORE, "{at_most} bytes");
        })
        .await;
}

#[tokio::test]
async fn one_whose_bytes_are_dear_gets_as_many_fewer_in_a_turn() {
    LocalSet::new()
        .run_until(async {
            let (_, at_most) = while_one_waits(1, 4).await;
            assert!(at_most <= TURN / 4 + MORE, "{at_most} bytes");
        })
        .await;
}

#[tokio::test]
async fn many_that_always_have_more_keep_others_waiting_no_longer() {
    LocalSet::new()
        .run_until(async {
            let (first, at_most) = while_one_waits(12, 1).await;
            assert!(first <= 13 * (TURN + MORE), "{first} bytes");
            assert!(at_most <= 2 * (TURN + MORE), "{at_most} bytes");
        })
        .await;
}

#[tokio::test]
async fn those_that_always_have_more_get_as_much_each_whatever_they_ask_for_at_a_time() {
    LocalSet::new()
        .run_until(async {
            let (server, turns) = (server(Signing::Enabled), Rc::default());
            let mut greedy = Vec::new();
            for length in [1 << 20, 1 << 16, 1 << 16] {
                greedy.push(Greedy::new(&server, &turns, length).await);
            }
            while greedy[0].taken.get() < 16 << 20 {
                yield_now().await;
            }
            let shares = greedy.iter().map(|greedy| greedy.taken.get());
            let (least, most) = shares.fold((u64::MAX, 0), |(least, most), share| (least.min(share), most.max(share)));
            assert!(most - least <= 2 << 20, "{least} to {most} bytes");
        })
        .await;
}

#[tokio::test]
async fn one_that_stands_in_line_ends_when_it_is_told_to() {
    LocalSet::new()
        .run_until(async {
            let (server, turns) = (server(Signing::Enabled), Rc::default());
            let mut greedy = Vec::new();
            for _ in 0..3 {
                greedy.push(Greedy::new(&server, &turns, 65_536).await);
            }
            while taken(&greedy) < 4 << 20 {
                yield_now().await;
            }
            let last = greedy.remove(0);
            last.connection.end(Ending::Now);
            last.served.await.unwrap();
            let before: Vec<_> = greedy.iter().map(|greedy| greedy.taken.get()).collect();
            for _ in 0..1_000 {
                yield_now().await;
            }
            assert!(greedy.iter().zip(&before).all(|(greedy, before)| greedy.taken.get() > before + TURN));
        })
        .await;
}

/// One that signs what it asks, and has its answers signed.
async fn sign_in_and_sign(server: &Arc<Shared>, turns: &Rc<Turns>) -> Peer {
    sign_in_as(server, turns, Terms::default()).await
}

async fn sign_in_as(server: &Arc<Shared>, turns: &Rc<Turns>, terms: Terms) -> Peer {
    let mut peer = Peer::connect_on(server, turns, terms);
    peer.negotiate().await;
    peer.set_up_session().await;
    assert_eq!(peer.connect("ram").await, Status::SUCCESS);
    peer.ask_for_credits().await;
    peer
}

/// A server on memory that has a file `large`.
fn server_with_large_file() -> Arc<Shared> {
    let store = RamStore::new(64 << 20);
    let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
    store.create(&SharePath::parse("large").unwrap(), new).unwrap().set_length(LONG_READ.into()).unwrap();
    server_with(Signing::Enabled, Arc::new(store))
}

/// One that has asked for `length` bytes of that file.
async fn asking_for(server: &Arc<Shared>, turns: &Rc<Turns>, length: u32) -> Peer {
    let mut peer = sign_in_and_sign(server, turns).await;
    let mut message = read_of_large(&mut peer, length).await;
    peer.process(&mut message).unwrap();
    peer
}

/// A READ of `length` bytes of that file.
async fn read_of_large(peer: &mut Peer, length: u32) -> Vec<u8> {
    let file = peer.open("large").await;
    let header = peer.charged(Command::READ, length as usize);
    peer.complete(header, |body| ReadRequest { file_id: file, length, ..ReadRequest::default() }.encode(body))
}

fn queued(peer: &Peer) -> usize {
    peer.connection.outbox.borrow().bytes()
}

#[tokio::test]
async fn a_long_read_of_memory_comes_behind_others_and_a_short_one_is_made_at_once() {
    LocalSet::new()
        .run_until(async {
            let (mut server, turns) = (server_with_large_file(), Rc::default());
            let shared = Arc::get_mut(&mut server).unwrap();
            (shared.pool, shared.long_work) = (Pool::by_hand(), Pool::by_hand());
            let short = asking_for(&server, &turns, 1 << 20).await;
            assert!(queued(&short) > 1 << 20);
            let long = asking_for(&server, &turns, LONG_READ).await;
            assert_eq!(queued(&long), 0);
            assert!(server.long_work.work_once(), "and not in the other pool's turn");
            while !server.long_work.work_once() {
                yield_now().await;
                assert_eq!(queued(&long), 0, "it is signed there, too");
            }
            while queued(&long) == 0 {
                yield_now().await;
            }
            assert!(queued(&long) > LONG_READ as usize);
        })
        .await;
}

#[tokio::test]
async fn a_long_read_is_made_at_once_where_it_is_signed_fast_and_nobody_is_in_line() {
    LocalSet::new()
        .run_until(async {
            use SigningAlgorithm::{AesCmac, AesGmac};
            for (signing, is_alone) in [(AesGmac, true), (AesGmac, false), (AesCmac, true)] {
                let (server, turns) = (by_hand(server_with_large_file()), Rc::default());
                let terms = Terms { signing: Some(signing), ..Terms::default() };
                let mut peer = sign_in_as(&server, &turns, terms).await;
                let mut message = read_of_large(&mut peer, LONG_READ).await;
                let other = Turn::new(&turns);
                if !is_alone {
                    other.stand_in_line(Waker::noop());
                }
                peer.process(&mut message).unwrap();
                let is_made = queued(&peer) > LONG_READ as usize;
                assert_eq!(is_made, is_alone && signing == AesGmac, "{signing:?}, alone: {is_alone}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_long_frame_is_verified_at_once_where_that_is_fast_and_nobody_is_in_line() {
    LocalSet::new()
        .run_until(async {
            use SigningAlgorithm::{AesCmac, AesGmac};
            for (signing, is_alone) in [(AesGmac, true), (AesGmac, false), (AesCmac, true)] {
                let (server, turns) = (server_with_large_file(), Rc::default());
                let terms = Terms { signing: Some(signing), ..Terms::default() };
                let mut peer = sign_in_as(&server, &turns, terms).await;
                let mut message = peer.header(Command::WRITE).to_bytes().to_vec();
                message.resize(LONG_READ as usize, 0);
                peer.sign(&mut message);
                let other = Turn::new(&turns);
                if !is_alone {
                    other.stand_in_line(Waker::noop());
                }
                let is_handed_over = Look::at_long(&peer.connection, &message).is_some();
                assert_eq!(is_handed_over, !is_alone || signing != AesGmac, "{signing:?}, alone: {is_alone}");
            }
        })
        .await;
}

#[tokio::test]
async fn who_did_more_in_a_turn_than_it_may_lets_as_many_pass_where_there_is_anybody() {
    LocalSet::new()
        .run_until(async {
            for is_alone in [true, false] {
                let turns = Rc::<Turns>::default();
                let (turn, other) = (Turn::new(&turns), Turn::new(&turns));
                assert!(turn.begin(Waker::noop()));
                turn.spend(4 * TURN_BYTES as usize);
                turn.stand_in_line(Waker::noop());
                if !is_alone {
                    other.stand_in_line(Waker::noop());
                }
                let (mut looks, mut passed) = (0, 0);
                loop {
                    yield_now().await;
                    looks += 1;
                    if other.is_called() {
                        assert!(other.begin(Waker::noop()));
                        other.stand_in_line(Waker::noop());
                        passed += 1;
                    }
                    if turn.is_called() && turn.begin(Waker::noop()) {
                        break;
                    }
                    assert!(looks < 100);
                }
                assert_eq!(passed >= 3, !is_alone, "{passed} passed, alone: {is_alone}");
                assert!(!is_alone || looks <= 3, "{looks} looks");
            }
        })
        .await;
}

#[tokio::test]
async fn no_shard_signs_a_long_answer() {
    LocalSet::new()
        .run_until(async {
            let (server, turns) = (by_hand(server_with_large_file()), Rc::default());
            let mut modest = Modest::new(&server, &turns).await;
            let mut asking = Vec::new();
            for _ in 0..8 {
                asking.push(asking_for(&server, &turns, LONG_READ).await);
            }
            // All are read before anybody is answered.
            while server.pool.work_once() {}
            for _ in 0..8 {
                modest.ask().await;
                modest.answer().await;
            }
            assert!(asking.iter().all(|peer| queued(peer) == 0));
            while asking.iter().any(|peer| queued(peer) == 0) {
                server.pool.work_once();
                yield_now().await;
            }
            for peer in asking {
                let mut answer = peer.receive().await;
                assert_eq!(answer.status(), Status::SUCCESS);
                assert!(peer.signing_key.as_ref().unwrap().verify(&mut answer.message, Role::Server));
            }
        })
        .await;
}

#[tokio::test]
async fn no_shard_puts_a_long_chain_together_or_signs_it() {
    LocalSet::new()
        .run_until(async {
            let (server, turns) = (by_hand(server_with_large_file()), Rc::default());
            let mut asking = Vec::new();
            // The first has the byte locked that the others wait for.
            for _ in 0..3 {
                asking.push(asking_for_parts(&server, &turns).await);
            }
            for _ in 0..100 {
                yield_now().await;
            }
            assert!(asking.iter().all(|peer| queued(peer) == 0));
            while asking.iter().any(|peer| queued(peer) == 0) {
                server.pool.work_once();
                yield_now().await;
            }
            let mut locked = Vec::new();
            for peer in asking {
                let mut frame = peer.take_frame().unwrap();
                let answers = headers(&frame);
                assert_eq!(answers.len(), PARTS as usize + 1);
                for answer in &answers[..PARTS as usize] {
                    let rest = frame.split_off(answer.next_command as usize);
                    assert_eq!(answer.status, Status::SUCCESS);
                    assert!(peer.signing_key.as_ref().unwrap().verify(&mut frame, Role::Server));
                    assert_eq!(ReadResponse::decode(&frame).unwrap().data.len(), (LONG_READ / PARTS) as usize);
                    frame = rest;
                }
                assert!(peer.signing_key.as_ref().unwrap().verify(&mut frame, Role::Server));
                locked.push(answers[PARTS as usize].status);
            }
            assert_eq!(locked, [Status::SUCCESS, Status::PENDING, Status::PENDING]);
        })
        .await;
}

/// One that has asked for all of that file in one chain, and behind that to lock a byte of it.
async fn asking_for_parts(server: &Arc<Shared>, turns: &Rc<Turns>) -> Peer {
    let mut peer = sign_in_and_sign(server, turns).await;
    let (file_id, length) = (peer.open("large").await, LONG_READ / PARTS);
    let mut chain = Vec::new();
    for part in 0..PARTS {
        let read = ReadRequest { file_id, offset: (part * length).into(), length, ..ReadRequest::default() };
        chain.push(unprotected(peer.charged(Command::READ, length as usize), |body| read.encode(body)));
    }
    let locks = [LockElement { offset: 1 << 40, length: 1, flags: LockFlags::EXCLUSIVE_LOCK }];
    let lock = LockRequest { file_id, locks: LockElements::new(&locks), ..LockRequest::default() };
    chain.push(unprotected(peer.header(Command::LOCK), |body| lock.encode(body)));
    let mut chain = chained(chain, |_, message| peer.sign(message));
    peer.process(&mut chain).unwrap();
    peer
}

#[tokio::test]
async fn what_a_request_has_done_before_it_waits_counts_then_and_it_stands_in_line_before_it_goes_on() {
    LocalSet::new()
        .run_until(async {
            let turns = Rc::new(Turns::default());
            let turn = Rc::new(Turn::new(&turns));
            let in_flight = InFlight::new(MessageId(1), SessionId(1));
            let (waits, done) = (Rc::new(Notify::new()), Rc::new(Cell::new(0)));
            let request = {
                let (turn, in_flight, waits, done) =
                    (Rc::clone(&turn), Rc::clone(&in_flight), Rc::clone(&waits), Rc::clone(&done));
                spawn_local(async move {
                    let work = async {
                        for _ in 0..2 {
                            in_flight.note_done_here(TURN);
                            done.set(done.get() + 1);
                            waits.notified().await;
                        }
                    };
                    in_flight.counting(&turn, std::pin::pin!(work)).await;
                })
            };
            yield_now().await;
            assert_eq!((turn.left(), done.get()), (-TURN_BYTES, 1), "it counts though it is not answered");
            // Another one has its turn before.
            let other = Turn::new(&turns);
            let had = other.another();
            waits.notify_one();
            had.await;
            assert_eq!(done.get(), 1);
            while done.get() < 2 {
                yield_now().await;
            }
            waits.notify_one();
            request.await.unwrap();
            in_flight.spend(&turn);
            assert_eq!(turn.left(), -2 * TURN_BYTES, "each part counts once");
        })
        .await;
}

/// A connection of a user that has little to do.
fn modest(turns: &Rc<Turns>, user: &Sid) -> Turn {
    let turn = Turn::new(turns);
    turn.sign_in(|| *user);
    turn
}

/// True where it begins, and does a quarter of a turn.
fn does_a_little(turn: &Turn) -> bool {
    let begins = turn.begin(Waker::noop());
    if begins {
        turn.spend(TURN_BYTES as usize / 4);
        turn.end();
    }
    begins
}

#[tokio::test]
async fn hundreds_who_have_a_little_to_do_each_have_a_turn_together_where_they_are_one_user() {
    let test = async {
        let turns = Rc::<Turns>::default();
        let many: Vec<_> = (0..100).map(|_| modest(&turns, &Sid::SYSTEM)).collect();
        let begun = many.iter().filter(|turn| does_a_little(turn)).count();
        assert_eq!(begun, 8, "the others stand in line");
        assert!(does_a_little(&modest(&turns, &Sid::NETWORK)), "another user does not wait for them");
        // A few of them have their turns between two looks at what has come in, all of them in the end.
        let (mut served, mut looks) = (begun, 0);
        while served < many.len() {
            yield_now().await;
            let now = many.iter().filter(|turn| turn.is_called() && does_a_little(turn)).count();
            assert!(now <= 16, "{now} at once");
            served += now;
            looks += 1;
            assert!(looks < 100, "{served} were served");
            assert!(does_a_little(&modest(&turns, &Sid::NETWORK)), "another user does not wait for them");
        }
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(does_a_little(&many[0]), "nobody stands in line any more");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_have_done_a_turn_together_go_on_after_the_next_look() {
    let test = async {
        let turns = Rc::<Turns>::default();
        let many: Vec<_> = (0..8).map(|_| modest(&turns, &Sid::SYSTEM)).collect();
        for _ in 0..20 {
            assert!(many.iter().all(does_a_little));
            // The runtime looks at what has come in.
            for _ in 0..3 {
                yield_now().await;
            }
        }
    };
    LocalSet::new().run_until(test).await;
}
