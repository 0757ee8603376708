//! For tests: a server without sockets, and a client that speaks to one of its connections frame by frame.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use secure::ntlm::{Authenticate, Flags as NtlmFlags, Negotiate};
use secure::spnego::Initiator;
use store::{RamStore, Store};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest};
use wire::command::echo::EchoRequest;
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::oplock_break::{LeaseBreak, OplockBreakRequest};
use wire::command::query_info::{InfoType, QueryInfoRequest};
use wire::command::read::ReadRequest;
use wire::command::session_setup::SessionSetupFlags;
use wire::command::set_info::SetInfoRequest;
use wire::command::write::WriteRequest;
use wire::context::lease::LeaseState;
use wire::frame;
use wire::fscc::FileClass;
use wire::fscc::rename::Rename;
use wire::header::{Flags, Header};
use wire::ids::{Command, FileId, Guid, SessionId};
use wire::status::Status;

use crate::command::connection::Disconnect;
use crate::command::migrated::MigratedConnection;
use crate::command::migrated::Origin;
use crate::net::connection::Endpoint;
use crate::request::finding::Finding;
use crate::request::inbox::Kept;
use crate::request::opening::Look;
use crate::request::pipeline;
use crate::resource::address::AddressPrefix;
use crate::resource::buffers::{Buffer, Buffers};
use crate::resource::capacity::Capacity;
use crate::resource::pool::Pool;
use crate::resource::slice::Slice;
use crate::resource::turns::Turns;
use crate::state::configuration::Signing;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::shared::Shared;
use crate::state::strangers::Room;
use crate::tests::kit::client::Client;
pub(crate) use crate::tests::kit::client::{Answer, Terms, create, unprotected};
use crate::tests::kit::configuration::configuration;
pub(crate) use crate::tests::kit::configuration::{OTHER_USER, THIRD_USER, USER};
pub(crate) use crate::tests::kit::frames::{chained, framed, headers};

/// What a test waits for at most before it fails.
const PATIENCE: Duration = Duration::from_mins(10);

/// A server with one RAM disk, `ram`.
pub(crate) fn server(signing: Signing) -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    server_with(signing, store)
}

/// A server with one share, `ram`, on `store`.
pub(crate) fn server_with(signing: Signing, store: Arc<dyn Store>) -> Arc<Shared> {
    server_of(signing, store, Capacity::default())
}

/// The same with room for so much.
pub(crate) fn server_of(signing: Signing, store: Arc<dyn Store>, capacity: Capacity) -> Arc<Shared> {
    let mut configuration = configuration(store);
    configuration.settings.signing = signing;
    configuration.shares[0].continuously_available = true;
    Arc::new(Shared::new(configuration, vec![([127, 0, 0, 1], 445).into()], 1, capacity))
}

/// A server whose pool works when it is told to.
pub(crate) fn by_hand(mut server: Arc<Shared>) -> Arc<Shared> {
    Arc::get_mut(&mut server).unwrap().work_by_hand();
    server
}

/// Has the pool of such a server work whenever there is work.
pub(crate) fn work(server: &Shared) {
    spawn_local(works(server.pool.clone()));
}

/// Has it work until this is done.
pub(crate) async fn working<T>(server: &Shared, done: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = done => done,
        () = works(server.pool.clone()) => unreachable!(),
    }
}

async fn works(pool: Pool) {
    loop {
        while pool.work_once() {}
        // An hour of virtual time has millions of looks at a pool without work.
        if pool.is_idle() {
            pool.called().await;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// A client on one connection.
pub(crate) struct Peer {
    client: Client,
    pub(crate) connection: Rc<Endpoint>,
    /// Its frames are opened and verified first, as long ones are.
    pub(crate) opens_first: bool,
}

impl Deref for Peer {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Peer {
    /// A connection that has said nothing yet.
    pub(crate) fn connect_as(server: &Arc<Shared>, terms: Terms) -> Peer {
        Peer::connect_on(server, &Rc::default(), terms)
    }

    /// The same on a shard whose connections take `turns`.
    pub(crate) fn connect_on(server: &Arc<Shared>, turns: &Rc<Turns>, terms: Terms) -> Peer {
        let origin = Origin {
            id: server.new_open_id().0,
            peer: terms.peer.into(),
            local: "local".into(),
            is_inside: terms.is_inside,
            shard: 0,
        };
        let mut migrated = MigratedConnection::of_new(origin);
        migrated.stranger = server.strangers.enter(AddressPrefix::of(terms.peer), &migrated.mailbox, Room::Left);
        let connection = Endpoint::new(migrated, Arc::clone(server), Rc::new(Buffers::default()), turns);
        Peer { client: Client::new(terms), connection, opens_first: false }
    }

    /// A connection that has negotiated 3.1.1, signed in and connected to the share.
    pub(crate) async fn sign_in(server: &Arc<Shared>) -> Peer {
        Peer::sign_in_as(server, Terms::default()).await
    }

    /// The same with terms of its own.
    pub(crate) async fn sign_in_as(server: &Arc<Shared>, terms: Terms) -> Peer {
        let mut peer = Peer::connect_as(server, terms);
        peer.negotiate().await;
        peer.set_up_session().await;
        assert_eq!(peer.connect("ram").await, Status::SUCCESS);
        peer
    }

    /// Connects to a share, and goes on with that where it may.
    pub(crate) async fn connect(&mut self, share: &str) -> Status {
        let message = self.tree_connect(share);
        let answer = self.exchange(message).await;
        self.take_tree(&answer);
        answer.status()
    }

    pub(crate) async fn negotiate(&mut self) {
        let message = self.negotiate_message();
        let answer = self.exchange(message.clone()).await;
        self.take_negotiated(&message, &answer);
    }

    pub(crate) async fn set_up_session(&mut self) {
        let (answer, initiator) = self.authenticate(SessionSetupFlags::NONE).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        self.take_session(&initiator, &answer);
    }

    /// Binds the session of `first` to this connection, which has negotiated.
    pub(crate) async fn bind(&mut self, first: &Peer) -> Status {
        self.join(first);
        self.bind_with_key(first).await
    }

    /// The same, signed with whatever key this connection has.
    pub(crate) async fn bind_with_key(&mut self, first: &Peer) -> Status {
        (self.session_id, self.tree_id) = (first.session_id, first.tree_id);
        let (answer, initiator) = self.authenticate(SessionSetupFlags::BINDING).await;
        if answer.status() == Status::SUCCESS {
            self.take_channel(&initiator, &answer);
        }
        answer.status()
    }

    /// Signs in again to the session that this connection is a channel of.
    pub(crate) async fn sign_in_again(&mut self, flags: SessionSetupFlags) -> Status {
        self.authenticate(flags).await.0.status()
    }

    /// Begins to sign in, and leaves it at that.
    pub(crate) async fn begin_sign_in(&mut self) -> Status {
        self.session_id = SessionId(0);
        let (_, message) = self.begin(SessionSetupFlags::NONE);
        self.exchange(message).await.status()
    }

    /// Asks for the anonymous user: with a token without a name and without a response (MS-NLMP 3.2.5.1.2).
    pub(crate) async fn ask_for_anonymous(&mut self, flags: SessionSetupFlags) -> Answer {
        let (mut negotiate, mut authenticate) = (Vec::new(), Vec::new());
        let ntlm_flags = NtlmFlags::UNICODE | NtlmFlags::NTLM | NtlmFlags::EXTENDED_SESSION_SECURITY;
        Negotiate { flags: ntlm_flags }.encode(&mut negotiate);
        let nobody = Authenticate {
            flags: ntlm_flags | NtlmFlags::ANONYMOUS,
            lm_response: &[0],
            nt_response: &[],
            domain: Default::default(),
            user: Default::default(),
            workstation: Default::default(),
            encrypted_session_key: &[],
            mic: None,
        };
        nobody.encode(&mut authenticate).unwrap();
        let message = self.first_setup(flags, &negotiate);
        let challenge = self.exchange(message).await;
        if challenge.status() != Status::MORE_PROCESSING_REQUIRED {
            return challenge;
        }
        self.take_challenge(&challenge);
        self.send_token(flags, &authenticate).await
    }

    /// Signs in until the server has decided; gives its answer, and what has the key where it was asked for all it wanted.
    pub(crate) async fn authenticate(&mut self, flags: SessionSetupFlags) -> (Answer, Initiator) {
        let (mut initiator, message) = self.begin(flags);
        let challenge = self.exchange(message).await;
        if challenge.status() != Status::MORE_PROCESSING_REQUIRED {
            return (challenge, initiator);
        }
        let message = self.finish(&mut initiator, flags, &challenge);
        (self.exchange(message).await, initiator)
    }

    pub(crate) async fn send_token(&mut self, flags: SessionSetupFlags, token: &[u8]) -> Answer {
        let message = self.setup(flags, token);
        self.exchange(message).await
    }

    /// The connection breaks.
    pub(crate) fn disconnect(self) {
        self.connection.ended();
    }

    /// What binding needs to know of the session that this connection set up, without a channel of it.
    pub(crate) fn known_session(&self) -> Peer {
        let mut peer = Peer::connect_as(&self.connection.server, self.terms);
        (peer.session_id, peer.tree_id, peer.keys) = (self.session_id, self.tree_id, self.keys.clone());
        peer
    }

    /// One more channel of the session of `first`, which goes on with its channel sequence.
    pub(crate) async fn bound(server: &Arc<Shared>, first: &Peer) -> Peer {
        let mut peer = Peer::connect_as(server, first.terms);
        peer.negotiate().await;
        assert_eq!(peer.bind(first).await, Status::SUCCESS);
        peer.channel_sequence = first.channel_sequence;
        peer
    }

    /// Makes `name`, or opens it, for everything.
    pub(crate) async fn open(&mut self, name: &str) -> FileId {
        self.create(name, |request| request.options = CreateOptions::NON_DIRECTORY_FILE).await.file_id()
    }

    /// Makes or opens `name` as `edit` has it, for everything and shared with all where it says nothing else.
    pub(crate) async fn create(&mut self, name: &str, edit: impl for<'a> FnOnce(&mut CreateRequest<'a>)) -> Answer {
        self.create_edited(name, &[], edit).await
    }

    /// Makes or opens `name` for everything, with these create contexts and as `edit` has it.
    pub(crate) async fn create_edited(
        &mut self,
        name: &str,
        contexts: &[u8],
        edit: impl FnOnce(&mut CreateRequest<'_>),
    ) -> Answer {
        let message = self.create_message(name, contexts, edit);
        self.exchange(message).await
    }

    /// Opens a file that is there, and closes it again.
    pub(crate) async fn try_open(&mut self, name: &str) -> Status {
        let answer = self.create(name, |request| request.disposition = CreateDisposition::OPEN).await;
        if answer.status() == Status::SUCCESS {
            self.close(answer.file_id()).await;
        }
        answer.status()
    }

    /// Makes or opens the directory `name`; the share's root where that is empty.
    pub(crate) async fn open_directory(&mut self, name: &str) -> FileId {
        self.create(name, |request| request.options = CreateOptions::DIRECTORY_FILE).await.file_id()
    }

    /// Closes an open.
    pub(crate) async fn close(&mut self, file_id: FileId) {
        assert_eq!(self.try_close(file_id).await, Status::SUCCESS);
    }

    pub(crate) async fn try_close(&mut self, file_id: FileId) -> Status {
        let request = CloseRequest { file_id, ..CloseRequest::default() };
        self.ask(Command::CLOSE, |body| request.encode(body)).await.status()
    }

    pub(crate) async fn read(&mut self, file_id: FileId, offset: u64, length: u32) -> Answer {
        let request = ReadRequest { file_id, offset, length, ..ReadRequest::default() };
        self.ask(Command::READ, |body| request.encode(body)).await
    }

    pub(crate) async fn write(&mut self, file_id: FileId, offset: u64, data: &[u8]) -> Status {
        let request = WriteRequest { file_id, offset, data, ..WriteRequest::default() };
        self.ask(Command::WRITE, |body| request.encode(body)).await.status()
    }

    /// Asks about a file.
    pub(crate) async fn query(&mut self, file_id: FileId, class: FileClass, room: u32) -> Answer {
        let request = QueryInfoRequest {
            info_type: InfoType::FILE,
            class: class.into(),
            output_buffer_length: room,
            file_id,
            ..QueryInfoRequest::default()
        };
        self.ask(Command::QUERY_INFO, |body| request.encode(body)).await
    }

    /// Changes a file.
    pub(crate) async fn set(&mut self, file_id: FileId, class: FileClass, buffer: &[u8]) -> Status {
        let message = self.set_message(file_id, class, buffer);
        self.exchange(message).await.status()
    }

    pub(crate) fn set_message(&mut self, file_id: FileId, class: FileClass, buffer: &[u8]) -> Vec<u8> {
        let info_type = InfoType::FILE;
        let request = SetInfoRequest { info_type, class: class.into(), file_id, buffer, ..SetInfoRequest::default() };
        self.message(Command::SET_INFO, |body| request.encode(body))
    }

    /// Gives a file another name, which no other file has.
    pub(crate) async fn rename(&mut self, file: FileId, to: &str) -> Status {
        self.set_name(file, FileClass::RENAME, to, false).await
    }

    /// Gives a file another name, or one more, as `class` has it.
    pub(crate) async fn set_name(&mut self, file: FileId, class: FileClass, to: &str, replace: bool) -> Status {
        let message = self.name_message(file, class, to, replace);
        self.exchange(message).await.status()
    }

    pub(crate) fn name_message(&mut self, file: FileId, class: FileClass, to: &str, replace: bool) -> Vec<u8> {
        let mut buffer = Vec::new();
        Rename::encode(to, replace, &mut buffer);
        self.set_message(file, class, &buffer)
    }

    /// Acknowledges the break of a lease.
    pub(crate) async fn acknowledge(&mut self, lease_key: Guid, lease_state: LeaseState) -> Status {
        let request = OplockBreakRequest::Lease(LeaseBreak { lease_key, lease_state });
        self.ask(Command::OPLOCK_BREAK, |body| request.encode(body)).await.status()
    }

    /// Cancels a request that has had this interim response.
    pub(crate) fn cancel(&self, interim: &Header) {
        let (flags, route, session_id) = (Flags::ASYNC_COMMAND, interim.route, self.session_id);
        let header = Header { command: Command::CANCEL, flags, route, session_id, ..Header::default() };
        self.process(&mut unprotected(header, |body| body.extend_from_slice(&[4, 0, 0, 0]))).unwrap();
    }

    /// Asks for credits that are enough for large requests.
    pub(crate) async fn ask_for_credits(&mut self) {
        let header = Header { credits: 8_192, ..self.header(Command::ECHO) };
        let message = self.complete(header, |body| EchoRequest.encode(body));
        self.exchange(message).await;
    }

    /// Sends one request and gives its final response.
    pub(crate) async fn ask(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let message = self.message(command, body);
        self.exchange(message).await
    }

    /// Asks for an FSCTL with room for so many bytes of output.
    pub(crate) async fn ioctl(&mut self, ctl_code: CtlCode, file_id: FileId, input: &[u8], room: u32) -> Answer {
        let request = IoctlRequest {
            ctl_code,
            file_id,
            max_output_response: room,
            flags: IoctlFlags::IS_FSCTL,
            input,
            ..IoctlRequest::default()
        };
        self.ask(Command::IOCTL, |body| request.encode(body)).await
    }

    /// Sends a message and gives the response, passing over an interim one.
    pub(crate) async fn exchange(&mut self, mut message: Vec<u8>) -> Answer {
        self.process(&mut message).unwrap();
        self.last().await
    }

    /// Waits for the next response that is not an interim one.
    pub(crate) async fn last(&self) -> Answer {
        loop {
            let answer = self.receive().await;
            if answer.status() != Status::PENDING {
                return answer;
            }
        }
    }

    /// What its session has open under this id.
    pub(crate) fn opened(&self, server: &Shared, id: FileId) -> Arc<Open> {
        server.sessions.find(self.session_id).unwrap().open(OpenId(id.persistent)).unwrap()
    }

    /// Hands a frame to the pipeline.
    pub(crate) fn process(&self, frame: &mut [u8]) -> Result<(), Disconnect> {
        let finding = if self.opens_first { Look::now(&self.connection, frame) } else { Finding::None };
        let Some(long) = pipeline::process(&self.connection.responder, frame, finding)? else {
            self.connection.tally.count(Instant::now());
            return Ok(());
        };
        let messages = long.messages.clone();
        let claim =
            pipeline::claim(&self.connection, crate::request::slow_path::need(&frame[messages.clone()], frame.len()))
                .unwrap();
        if let Some(admitted) = pipeline::admit(&self.connection, &mut frame[messages.clone()], long)? {
            let bytes = Arc::new(Buffer::from(frame.to_vec()));
            let kept = Kept { frame: Slice::new(&bytes, messages), charge: None };
            pipeline::run(&self.connection.responder, admitted, kept, claim);
        }
        if let Some(channel) = self.connection.channels.borrow().values().next() {
            self.connection.allowance.sign_in(&channel.session.budgets, self.connection.address);
        }
        Ok(())
    }

    /// Waits for the next frame of the outbox; a test fails where none comes.
    pub(crate) async fn receive(&self) -> Answer {
        let message = async {
            loop {
                if let Some(message) = self.take_frame() {
                    return Answer::of(message);
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, message).await.expect("no message comes")
    }

    /// The next frame of the outbox, where there is one.
    pub(crate) fn take_frame(&self) -> Option<Vec<u8>> {
        let mut outbox = self.connection.outbox.borrow_mut();
        let length = frame::frame_length(*outbox.peek(frame::PREFIX_LENGTH).first_chunk()?).unwrap();
        let mut message = outbox.peek(frame::PREFIX_LENGTH + length);
        outbox.skip(&self.connection.buffers, message.len());
        message.drain(..frame::PREFIX_LENGTH);
        Some(message)
    }

    /// Forgets everything that waits to be sent, without allocating.
    pub(crate) fn discard(&self) {
        self.connection.outbox.borrow_mut().clear(&self.connection.buffers);
    }
}

/// Runs a test with the tasks that it starts on one thread, as those of a shard are.
pub(crate) async fn on_shard(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

/// Runs a test in the same way, and in a time that passes as soon as all wait for it.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// The next message that comes out of a stream; a test fails that waits for one that never comes.
pub(crate) async fn next_message(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let message = async {
        let mut message = vec![0; stream.read_u32().await.unwrap() as usize];
        stream.read_exact(&mut message).await.unwrap();
        message
    };
    timeout(PATIENCE, message).await.expect("no message comes")
}
