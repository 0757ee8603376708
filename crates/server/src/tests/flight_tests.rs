//! Bytes in flight: what a client that takes nothing, or sends nothing more, can make the server hold, and for how long.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use store::{DirectoryStore, RamStore, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use wire::command::create::CreateOptions;
use wire::command::echo::EchoRequest;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::fscc::FileClass;
use wire::header::{Header, NEXT_COMMAND_OFFSET};
use wire::ids::{Command, FileId};
use wire::security::Sid;
use wire::status::Status;

use crate::request::slow_path::{self, MESSAGES_MAX};
use crate::resource::capacity::Capacity;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{
    Peer, by_hand, chained, framed, headers, next_message, server, server_of, server_with, work,
};

const MIB: u64 = 1 << 20;
/// What the documents promise of one user: its budget, and what the budget does not see.
const USER_BYTES: u64 = 144 * MIB;
/// Longer than a client may keep a connection waiting.
const LONG: Duration = Duration::from_secs(120);

/// A client whose connection runs over a stream.
pub(crate) struct Wired {
    peer: Peer,
    stream: DuplexStream,
    pub(crate) file: FileId,
    costs: u64,
}

impl Wired {
    /// Signs in, opens the file `large` and has the connection served, by a stream that holds `held` bytes.
    pub(crate) async fn new(server: &Arc<Shared>, held: usize) -> Wired {
        Wired::of(Peer::sign_in(server).await, held).await
    }

    /// The same for who has signed in as somebody else.
    pub(crate) async fn of(mut peer: Peer, held: usize) -> Wired {
        peer.signing_key = None;
        peer.ask_for_credits().await;
        let file = peer.open("large").await;
        peer.set(file, FileClass::END_OF_FILE, &(8 * MIB).to_le_bytes()).await;
        let (stream, far) = tokio::io::duplex(held);
        spawn_local(Rc::clone(&peer.connection).serve(far, Vec::new()));
        let mut client = Wired { peer, stream, file, costs: 0 };
        client.costs = client.used_by_user();
        client
    }

    /// A request with the credits that `payload` bytes cost.
    pub(crate) fn request(&mut self, command: Command, payload: usize, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let header = self.peer.charged(command, payload);
        self.peer.complete(Header { credits: header.credit_charge, ..header }, body)
    }

    pub(crate) async fn send(&mut self, message: &[u8]) {
        self.stream.write_all(&framed(message)).await.unwrap();
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends `bytes` unless the server has ended the connection.
    pub(crate) async fn offer(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Takes so many bytes of what comes, unless the server has ended the connection.
    pub(crate) async fn take(&mut self, bytes: usize) -> bool {
        self.stream.read_exact(&mut vec![0; bytes]).await.is_ok()
    }

    pub(crate) async fn ask_for(&mut self, length: u32) {
        let read = ReadRequest { file_id: self.file, length, ..ReadRequest::default() };
        let message = self.request(Command::READ, length as usize, |body| read.encode(body));
        self.send(&message).await;
    }

    pub(crate) async fn echo(&mut self) {
        let message = self.request(Command::ECHO, 0, |body| EchoRequest.encode(body));
        self.send(&message).await;
    }

    pub(crate) async fn frame(&mut self) -> Vec<u8> {
        next_message(&mut self.stream).await
    }

    pub(crate) async fn answer(&mut self) -> Header {
        Header::decode(&self.frame().await).unwrap()
    }

    /// The next answer that is no interim one.
    pub(crate) async fn last_answer(&mut self) -> Header {
        loop {
            let answer = self.answer().await;
            if answer.status != Status::PENDING {
                return answer;
            }
        }
    }

    /// Takes an answer, so many bytes a second.
    pub(crate) async fn take_slowly(&mut self, bytes: usize) {
        let mut left = self.stream.read_u32().await.unwrap() as usize;
        let mut taken = vec![0; bytes];
        while left > 0 {
            let part = left.min(bytes);
            self.stream.read_exact(&mut taken[..part]).await.unwrap();
            left -= part;
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Opens the share's root.
    pub(crate) async fn open_root(&mut self) -> FileId {
        let made = self.peer.create("", |request| request.options = CreateOptions::DIRECTORY_FILE).await;
        made.file_id()
    }

    /// What it holds.
    fn used(&self) -> u64 {
        self.peer.connection.allowance.used()
    }

    /// What its user holds, beside a session with a tree and an open.
    pub(crate) fn used_by_user(&self) -> u64 {
        let session = self.peer.connection.server.sessions.find(self.peer.session_id);
        session.map_or(0, |session| session.budgets.bytes.used().saturating_sub(self.costs))
    }

    /// True where the server has ended the connection.
    pub(crate) async fn is_gone(&mut self) -> bool {
        let mut rest = Vec::new();
        timeout(Duration::from_millis(10), self.stream.read_to_end(&mut rest)).await.is_ok()
    }
}

/// A server on a folder whose files' reads wait for a pool that works when it is told to.
fn slow_server(folder: &tempfile::TempDir) -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    by_hand(server_with(Signing::Enabled, store))
}

/// Has this thread do what else waits for a thread of the pool, so that no virtual time passes while one stands in line for a core.
pub(crate) fn working_here(server: Arc<Shared>) -> Arc<Shared> {
    let server = by_hand(server);
    work(&server);
    server
}

#[tokio::test(start_paused = true)]
async fn clients_that_take_no_answers_of_the_pool_hold_what_their_user_may_and_leave_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let test = async {
        let server = slow_server(&folder);
        work(&server);
        let mut deaf = Vec::new();
        for _ in 0..4 {
            let mut client = Wired::new(&server, 4_096).await;
            lock(&mut client).await;
            deaf.push(client);
        }
        for client in &mut deaf {
            for _ in 0..20 {
                client.ask_for(8 << 20).await;
            }
        }
        sleep(Duration::from_secs(5)).await;
        let held: Vec<u64> = deaf.iter().map(|client| client.used() / MIB).collect();
        assert!(held.iter().all(|held| *held >= 8), "{held:?} MiB");
        assert!(deaf[0].used_by_user() <= USER_BYTES, "{held:?} MiB");
        // Another connection of the same user works.
        let mut other = Wired::new(&server, 1 << 20).await;
        for _ in 0..20 {
            other.echo().await;
            other.ask_for(4_096).await;
            for _ in 0..2 {
                assert_eq!(other.answer().await.status, Status::SUCCESS);
            }
        }
        sleep(LONG).await;
        let held: u64 = deaf.iter().map(Wired::used).sum();
        assert_eq!(held, 0, "what was held is given back");
        for mut client in deaf {
            assert!(client.is_gone().await);
        }
        other.ask_for(8 << 20).await;
        assert_eq!(other.answer().await.status, Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_answers_of_the_fast_path_that_nobody_takes_fit_into_their_users_budget() {
    nobody_takes(1 << 20, 20).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_long_answers_from_memory_that_nobody_takes_fit_into_their_users_budget() {
    nobody_takes(8 << 20, 8).await;
}

/// Two hundred clients ask for so many answers of `length` bytes each, and take them late.
async fn nobody_takes(length: u32, count: usize) {
    let test = async {
        let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
        let server = server_with(Signing::Enabled, store);
        let mut deaf = Vec::new();
        for _ in 0..200 {
            let mut client = Wired::new(&server, 4_096).await;
            for _ in 0..count {
                client.ask_for(length).await;
            }
            deaf.push(client);
        }
        sleep(Duration::from_secs(1)).await;
        let used = deaf[0].used_by_user();
        assert!((100 * MIB..=USER_BYTES).contains(&used), "{used} bytes");
        // Each that is taken makes place for another: all come, in the end.
        let mut takers = Vec::new();
        for mut client in deaf {
            takers.push(spawn_local(async move {
                for _ in 0..2 {
                    assert_eq!(client.answer().await.status, Status::SUCCESS);
                }
                client.stream
            }));
        }
        for taker in takers {
            taker.await.unwrap();
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_kilobyte_a_second_is_not_ended_and_gets_all() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut client = Wired::new(&server, 1_024).await;
        client.ask_for(256 << 10).await;
        client.echo().await;
        for _ in 0..256 {
            let mut taken = [0; 1_024];
            client.stream.read_exact(&mut taken).await.unwrap();
            sleep(Duration::from_secs(1)).await;
        }
        let mut rest = vec![0; 4 + 64 + 16 + 4 + 64 + 4];
        client.stream.read_exact(&mut rest).await.unwrap();
        assert!(!client.is_gone().await);
        assert_eq!(client.used_by_user(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_executed_for_a_client_that_does_not_take_what_it_has() {
    let test = async {
        let server = server(Signing::Enabled);
        // Its requests fit into the stream, its answers do not.
        let mut client = Wired::new(&server, 16 << 10).await;
        for _ in 0..100 {
            client.ask_for(64 << 10).await;
        }
        let write = WriteRequest { file_id: client.file, data: b"late", ..WriteRequest::default() };
        let message = client.request(Command::WRITE, 4, |body| write.encode(body));
        client.send(&message).await;
        for _ in 0..50 {
            client.peer.connection.wake();
            sleep(Duration::from_millis(10)).await;
        }
        let queued = client.peer.connection.outbox.borrow().bytes();
        assert!(queued < 256 << 10, "{queued} bytes are queued");
        for _ in 0..101 {
            assert_eq!(client.answer().await.status, Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_does_not_end_is_not_waited_for() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut client = Wired::new(&server, 1 << 20).await;
        client.stream.write_all(&(8u32 << 20).to_be_bytes()).await.unwrap();
        // Slow is not dead.
        for _ in 0..100 {
            client.stream.write_all(&[0; 16]).await.unwrap();
            sleep(Duration::from_secs(10)).await;
        }
        assert!(!client.is_gone().await);
        let used = client.used();
        assert!((1..8_192).contains(&used), "{used} bytes for 1,600");
        sleep(LONG).await;
        assert!(client.is_gone().await);
        assert_eq!(client.used_by_user(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_a_chain_asks_for_is_answered_as_far_as_a_frame_goes() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut client = Wired::new(&server, 1 << 20).await;
        let (parts, length) = (1_000, 60_000);
        let read = ReadRequest { file_id: client.file, length, ..ReadRequest::default() };
        let mut chain = Vec::new();
        for part in 0..parts {
            let at = chain.len();
            chain.extend(client.request(Command::READ, length as usize, |body| read.encode(body)));
            chain.resize(chain.len().next_multiple_of(8), 0);
            if part + 1 < parts {
                let next = (chain.len() - at) as u32;
                chain[at + NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&next.to_le_bytes());
            }
        }
        client.send(&chain).await;
        let answer = next_message(&mut client.stream).await;
        let (mut at, mut done, mut refused) = (0, 0, 0);
        loop {
            let header = Header::decode(&answer[at..]).unwrap();
            match header.status {
                Status::SUCCESS if refused == 0 => {
                    let read = ReadResponse::decode(&answer[at..]).unwrap();
                    assert_eq!(read.data.len(), length as usize);
                    done += 1;
                }
                status => {
                    assert_eq!(status, Status::INSUFFICIENT_RESOURCES);
                    refused += 1;
                }
            }
            if header.next_command == 0 {
                break;
            }
            at += header.next_command as usize;
        }
        assert_eq!(done + refused, parts);
        assert!(done as usize * length as usize > 7 << 20, "{done} parts are answered");
        client.echo().await;
        assert_eq!(client.answer().await.status, Status::SUCCESS);
        assert_eq!(client.used_by_user(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_large_write_of_the_long_way_holds_its_frame_once() {
    let folder = tempfile::tempdir().unwrap();
    let test = async {
        let server = slow_server(&folder);
        work(&server);
        let mut client = Wired::new(&server, 16 << 20).await;
        lock(&mut client).await;
        let data: Vec<u8> = (0..8u32 << 20).map(|index| (index / 7) as u8).collect();
        for _ in 0..3 {
            let write = WriteRequest { file_id: client.file, data: &data, ..WriteRequest::default() };
            let message = client.request(Command::WRITE, data.len(), |body| write.encode(body));
            client.send(&message).await;
        }
        for _ in 0..3 {
            assert_eq!(client.answer().await.status, Status::SUCCESS);
            assert!(client.used_by_user() <= 28 * MIB, "{} bytes", client.used_by_user());
        }
        client.ask_for(8 << 20).await;
        let answer = next_message(&mut client.stream).await;
        assert!(ReadResponse::decode(&answer).unwrap().data == data);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(client.used(), 0);
    };
    LocalSet::new().run_until(test).await;
}

fn lock_of(client: &Wired) -> u64 {
    u64::MAX / 2 + client.peer.connection.id
}

/// Has the file's requests take the slow path.
async fn lock(client: &mut Wired) {
    let offset = lock_of(client);
    let locks = [LockElement { offset, length: 1, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
    let request = LockRequest { file_id: client.file, locks: LockElements::new(&locks), ..LockRequest::default() };
    let message = client.request(Command::LOCK, 0, |body| request.encode(body));
    client.send(&message).await;
    assert_eq!(client.answer().await.status, Status::SUCCESS);
}

/// Asks for the byte that [`lock`] gave to `holder`, behind `requests` in one chain, and has that wait.
async fn wait_behind(client: &mut Wired, holder: &Wired, mut requests: Vec<Vec<u8>>) {
    let locks = [LockElement { offset: lock_of(holder), length: 1, flags: LockFlags::EXCLUSIVE_LOCK }];
    let request = LockRequest { file_id: client.file, locks: LockElements::new(&locks), ..LockRequest::default() };
    requests.push(client.request(Command::LOCK, 0, |body| request.encode(body)));
    client.send(&chained(requests, |_, _| ())).await;
}

/// How many of the answers in a frame say that another will come.
fn waiting(frame: &[u8]) -> usize {
    headers(frame).iter().filter(|header| header.status == Status::PENDING).count()
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_hold_what_they_are_whatever_came_before_them() {
    const WAITS: u64 = 10;
    let test = async {
        let server = server(Signing::Enabled);
        let mut holder = Wired::new(&server, 1 << 20).await;
        lock(&mut holder).await;
        let mut client = Wired::new(&server, 4 << 20).await;
        let (large, small) = (vec![1; 1 << 20], vec![2; 60_000]);
        for _ in 0..WAITS {
            let file_id = client.file;
            let [before, first, second] = [&large, &small, &small].map(|data| {
                let write = WriteRequest { file_id, data, ..WriteRequest::default() };
                client.request(Command::WRITE, data.len(), |body| write.encode(body))
            });
            client.send(&before).await;
            assert_eq!(client.answer().await.status, Status::SUCCESS);
            wait_behind(&mut client, &holder, vec![first, second]).await;
            assert_eq!(waiting(&client.frame().await), 1);
        }
        let used = client.used();
        assert!((WAITS * 120_000..WAITS * 300_000).contains(&used), "{used} bytes");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_memory_too_long_gives_back_what_its_own_waits_hold() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut holder = Wired::new(&server, 1 << 20).await;
        lock(&mut holder).await;
        let mut client = Wired::new(&server, 4 << 20).await;
        for _ in 0..20 {
            let read = ReadRequest { file_id: client.file, length: 8 << 20, ..ReadRequest::default() };
            let read = client.request(Command::READ, 8 << 20, |body| read.encode(body));
            wait_behind(&mut client, &holder, vec![read]).await;
        }
        client.echo().await;
        let echoed = async {
            let mut held = 0;
            while client.answer().await.command != Command::ECHO {
                held = held.max(client.used());
            }
            held
        };
        let held = timeout(20 * LONG, echoed).await;
        assert!(matches!(held, Ok(held) if held > 45 * MIB), "{held:?}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_for_the_rest_of_its_chain_holds_no_more_than_it_is() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut holder = Wired::new(&server, 1 << 20).await;
        lock(&mut holder).await;
        let mut client = Wired::new(&server, 1 << 20).await;
        let length = 8 << 20;
        assert!(client.peer.connection.buffers.lend_kept(length as usize).is_none());
        let read = ReadRequest { file_id: client.file, length, offset: 8 * MIB - 1, ..ReadRequest::default() };
        let read = client.request(Command::READ, length as usize, |body| read.encode(body));
        wait_behind(&mut client, &holder, vec![read]).await;
        assert_eq!(waiting(&client.frame().await), 1);
        assert!(client.peer.connection.buffers.lend_kept(length as usize).is_some());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_is_noticed_though_nothing_is_received() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let bytes = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets.bytes);
        let all = bytes.charge(bytes.limit() - bytes.used()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let serving = spawn_local(Rc::clone(&peer.connection).serve(stream, Vec::new()));
        client.write_all(&framed(&peer.message(Command::ECHO, |body| EchoRequest.encode(body)))).await.unwrap();
        sleep(Duration::from_secs(600)).await;
        assert!(!serving.is_finished(), "who is there is waited for");
        drop(client);
        assert!(serving.await.unwrap().is_none());
        assert!(server.sessions.find(peer.session_id).is_none());
        drop(all);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_others_hold_stops_nobody_who_holds_little() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let others: Vec<_> = (0..16).map(|number| server.budgets.of_user(&Sid::SYSTEM.join(number).unwrap())).collect();
    let held: Vec<_> = others.iter().flat_map(|user| user.lasting.charge(user.lasting.limit())).collect();
    assert_eq!(held.len(), 15, "the peer has something of it");
    let rest: Vec<_> = others.iter().flat_map(|user| std::iter::from_fn(|| user.bytes.charge(1 << 19))).collect();
    assert!(!server.budgets.of_user(&Sid::NETWORK).bytes.has_left(2 << 20), "nearly nothing is left");
    let echo = peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await;
    assert_eq!(echo.status(), Status::SUCCESS);
    drop((held, rest));
}

#[test]
fn a_frame_of_more_messages_than_anybody_has_credits_for_is_not_counted_to_its_end() {
    let header = Header { command: Command::READ, next_command: 64, ..Header::default() };
    let frame: Vec<u8> = (0..130_000).flat_map(|_| header.to_bytes()).collect();
    let need = slow_path::need(&frame, 0);
    assert!(need.bytes_refused <= (MESSAGES_MAX + 1) << 10, "{} bytes", need.bytes_refused);
}

#[tokio::test(start_paused = true)]
async fn a_compound_that_could_never_be_held_is_refused_and_its_connection_goes_on() {
    let test = async {
        let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
        let server = server_of(Signing::Enabled, store, Capacity { bytes: 48 << 20, ..Capacity::default() });
        let mut client = Wired::new(&server, 32 << 20).await;
        client.ask_for(4 << 20).await;
        assert_eq!(client.answer().await.status, Status::SUCCESS);
        let read = |client: &mut Wired| {
            let read = ReadRequest { file_id: client.file, length: 8 << 20, ..ReadRequest::default() };
            client.request(Command::READ, 8 << 20, |body| read.encode(body))
        };
        let messages = vec![read(&mut client), read(&mut client)];
        client.send(&chained(messages, |_, _| ())).await;
        let answers = headers(&client.frame().await);
        let statuses: Vec<_> = answers.iter().map(|header| header.status).collect();
        assert_eq!(statuses, [Status::INSUFFICIENT_RESOURCES; 2]);
        client.echo().await;
        assert_eq!(client.answer().await.status, Status::SUCCESS);
        assert_eq!(client.used_by_user(), 0);
    };
    LocalSet::new().run_until(test).await;
}
