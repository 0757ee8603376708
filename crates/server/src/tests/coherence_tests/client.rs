//! A scripted client that caches what its lease allows, as a careful client does: before it uses what it has cached it looks whether the
//! server has told it anything, it gives up reads at once when it is told so, and writes out what is dirty before it acknowledges.

mod breaks;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wire::command::close::CloseRequest;
use wire::command::create::{CreateResponse, OplockLevel};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::oplock_break::LeaseBreakNotification;
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::context::create::{CreateContextsBuilder, DurableReconnectV2, DurableRequestV2, Lease, LeaseState, name};
use wire::context::durable::DurableFlags;
use wire::context::lease::LeaseV2;
use wire::header::Header;
use wire::ids::{Command, FileId, Guid, MessageId};
use wire::status::Status;

use super::history::{Event, Moment, NEVER};
use crate::state::shared::Shared;
use crate::tests::random::Random;
use crate::tests::testing::{Answer, Peer, Terms};

const BLOCKS: u64 = 3;
const BLOCK_BYTES: u64 = 8;
const FILE: &str = "file";
/// How long a client that waits takes to look again, at most.
const PAUSE_MAX: Duration = Duration::from_millis(200);

const READ: LeaseState = LeaseState::READ_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;

/// What all clients of a run share.
#[derive(Default)]
pub(super) struct World {
    events: RefCell<Vec<Event>>,
    moment: Cell<Moment>,
    values: Cell<u64>,
    /// The longest that a request took.
    pub(super) longest: Cell<Duration>,
    /// Acknowledged breaks, so that a run in which nothing happens is seen.
    pub(super) breaks: Cell<usize>,
    pub(super) reclaims: Cell<usize>,
    pub(super) local_reads: Cell<usize>,
}

impl World {
    fn moment(&self) -> Moment {
        self.moment.set(self.moment.get() + 1);
        self.moment.get()
    }

    fn new_value(&self) -> u64 {
        self.values.set(self.values.get() + 1);
        self.values.get()
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

/// How a client takes breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    Prompt,
    /// Just in time.
    Late,
    /// Never: it hangs, and is cut off some time.
    Hangs,
}

/// The connection was cut.
struct Lost;

/// A break that the client has been told of.
struct Break {
    due: Instant,
    left: LeaseState,
    /// The acknowledgement that was sent, or the WRITEs that go first.
    acknowledgement: Option<MessageId>,
    flushed: bool,
}

/// What is known of the open file.
struct Opened {
    file_id: FileId,
    create: Guid,
    state: LeaseState,
    epoch: u16,
    clean: HashMap<u64, u64>,
    dirty: HashMap<u64, Dirty>,
    breaking: Option<Break>,
}

/// A block that the server has not got yet, and what was done with it meanwhile: true where it gets there, else never done.
struct Dirty {
    value: u64,
    done: Vec<Event>,
}

pub(super) struct Client {
    number: u8,
    server: Arc<Shared>,
    world: Rc<World>,
    random: Random,
    temper: Temper,
    /// How many in a hundred requests meet the end of the connection.
    cuts: u64,
    peer: Option<Peer>,
    opened: Option<Opened>,
    /// WRITEs of dirty blocks on their way.
    flushing: HashMap<MessageId, u64>,
    answers: HashMap<MessageId, Answer>,
    /// Breaks that came behind the answer to the CREATE that this client still looks at; `None` where there is no such CREATE.
    early: Option<Vec<LeaseBreakNotification>>,
    lives: u8,
}

impl Client {
    pub(super) fn new(number: u8, server: &Arc<Shared>, world: &Rc<World>, mut random: Random) -> Self {
        let temper = match random.below(10) {
            0 => Temper::Hangs,
            1 | 2 => Temper::Late,
            _ => Temper::Prompt,
        };
        let cuts = [0, 0, 5, 15][random.below(4) as usize];
        Client {
            number,
            server: Arc::clone(server),
            world: Rc::clone(world),
            random,
            temper,
            cuts,
            peer: None,
            opened: None,
            flushing: HashMap::new(),
            answers: HashMap::new(),
            early: None,
            lives: 0,
        }
    }

    /// Does what chance has it do, and puts everything away.
    pub(super) async fn live(mut self, steps: usize) {
        for _ in 0..steps {
            if self.step().await.is_err() {
                self.come_back().await;
            }
            sleep(self.random.pause(300)).await;
        }
        while self.opened.is_some() && self.close().await.is_err() {
            self.come_back().await;
        }
        if let Some(peer) = self.peer.take() {
            peer.disconnect();
        }
    }

    async fn step(&mut self) -> Result<(), Lost> {
        if self.peer.is_none() {
            self.sign_in().await;
        }
        self.attend()?;
        if self.temper == Temper::Hangs && self.is_breaking() {
            return self.hang().await;
        }
        if self.opened.is_none() {
            return self.open().await;
        }
        let block = self.random.below(BLOCKS);
        match self.random.below(20) {
            0 | 1 => self.close().await,
            2 => self.open_again().await,
            3 => self.lock_and_unlock().await,
            4..10 => self.write(block).await,
            _ => self.read(block).await,
        }
    }

    /// It does nothing any more, and what it had not written is lost.
    async fn hang(&mut self) -> Result<(), Lost> {
        sleep(Duration::from_millis(self.random.below(100_000))).await;
        self.lives += 1;
        self.opened = None;
        Err(Lost)
    }

    fn guid(&self, what: u8) -> Guid {
        let mut guid = [self.number + 1; 16];
        (guid[1], guid[2]) = (what, self.lives);
        Guid(guid)
    }

    async fn sign_in(&mut self) {
        let mut peer = Peer::sign_in_as(&self.server, Terms { client: self.guid(0), ..Terms::default() }).await;
        peer.signing_key = None;
        self.peer = Some(peer);
    }

    // Opening and closing.

    fn wanted(&mut self) -> LeaseState {
        match self.random.below(6) {
            0 => LeaseState::NONE,
            1 => READ,
            2 => READ | HANDLE,
            3 => READ | WRITE,
            _ => READ | WRITE | HANDLE,
        }
    }

    fn lease(&mut self, lease_state: LeaseState) -> (&'static [u8], Vec<u8>) {
        let epoch = self.opened.as_ref().map_or(0, |opened| opened.epoch);
        let v2 = Some(LeaseV2 { epoch, ..LeaseV2::default() });
        let lease = Lease { lease_key: self.guid(1), lease_state, v2, ..Lease::default() };
        (name::LEASE, lease.to_bytes())
    }

    async fn open(&mut self) -> Result<(), Lost> {
        let wanted = self.wanted();
        let mut create = self.guid(2);
        create.0[8..].copy_from_slice(&self.random.next().to_le_bytes());
        let asked = DurableRequestV2 { timeout_milliseconds: 20_000, flags: DurableFlags::NONE, create_guid: create };
        let contexts = vec![self.lease(wanted), (name::DURABLE_HANDLE_REQUEST_V2, asked.to_bytes())];
        let (answer, early) = self.create_first(&contexts).await?;
        if answer.status() != Status::SUCCESS {
            return Ok(());
        }
        let (file_id, state, epoch) = granted(&answer);
        self.opened = Some(Opened {
            file_id,
            create,
            state,
            epoch,
            clean: HashMap::new(),
            dirty: HashMap::new(),
            breaking: None,
        });
        early.iter().for_each(|told| self.heed(told));
        Ok(())
    }

    /// A CREATE of a client that has nothing open, with the breaks of what it gave.
    async fn create_first(
        &mut self,
        contexts: &[(&'static [u8], Vec<u8>)],
    ) -> Result<(Answer, Vec<LeaseBreakNotification>), Lost> {
        self.early = Some(Vec::new());
        let answer = self.create(contexts).await;
        let early = self.early.take().unwrap_or_default();
        Ok((answer?, early))
    }

    /// One more open of the same lease, which may grow by it, closed again.
    async fn open_again(&mut self) -> Result<(), Lost> {
        self.settle().await?;
        let wanted = self.wanted();
        let contexts = vec![self.lease(wanted)];
        let answer = self.create(&contexts).await?;
        if answer.status() != Status::SUCCESS {
            return Ok(());
        }
        let (file_id, state, epoch) = granted(&answer);
        self.attend()?;
        let Some(opened) = &mut self.opened else { return Ok(()) };
        // An older state than a break that has come meanwhile says nothing.
        if opened.breaking.is_none() && epoch.wrapping_sub(opened.epoch) < 0x8000 {
            if !state.contains(READ) {
                opened.clean.clear();
            }
            (opened.state, opened.epoch) = (state, epoch);
        }
        self.ask(Command::CLOSE, |body| CloseRequest { file_id, ..CloseRequest::default() }.encode(body)).await?;
        Ok(())
    }

    async fn create(&mut self, contexts: &[(&'static [u8], Vec<u8>)]) -> Result<Answer, Lost> {
        let mut builder = CreateContextsBuilder::new();
        contexts.iter().for_each(|(name, data)| {
            builder.add(name, data);
        });
        let contexts = builder.contexts().as_bytes().to_vec();
        let peer = self.peer.as_mut().ok_or(Lost)?;
        let message = peer.create_message(FILE, &contexts, |request| request.oplock_level = OplockLevel::LEASE);
        self.exchange(message).await
    }

    async fn close(&mut self) -> Result<(), Lost> {
        self.settle().await?;
        self.flush();
        while !self.flushing.is_empty() {
            sleep(Duration::from_millis(1)).await;
            self.attend()?;
        }
        let Some(opened) = &self.opened else { return Ok(()) };
        let file_id = opened.file_id;
        self.ask(Command::CLOSE, |body| CloseRequest { file_id, ..CloseRequest::default() }.encode(body)).await?;
        self.opened = None;
        Ok(())
    }

    /// The connection is gone: after a while the client is there again, and asks for what it had.
    async fn come_back(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.disconnect();
        }
        self.flushing.clear();
        self.answers.clear();
        sleep(self.random.pause(25_000)).await;
        self.sign_in().await;
        let Some(opened) = &mut self.opened else { return };
        opened.breaking = None;
        let (file_id, create_guid) = (opened.file_id, opened.create);
        let back = DurableReconnectV2 { file_id, create_guid, flags: DurableFlags::NONE };
        let contexts = vec![self.lease(READ), (name::DURABLE_HANDLE_RECONNECT_V2, back.to_bytes())];
        let cuts = std::mem::take(&mut self.cuts);
        let answer = self.create_first(&contexts).await;
        self.cuts = cuts;
        let Some(mut opened) = self.opened.take() else { return };
        let back = answer.ok().filter(|(answer, _)| answer.status() == Status::SUCCESS);
        let Some((answer, early)) = back else {
            self.lose(opened.dirty);
            return;
        };
        let (_, state, epoch) = granted(&answer);
        count(&self.world.reclaims);
        if !state.contains(READ) || epoch != opened.epoch {
            opened.clean.clear();
        }
        (opened.state, opened.epoch) = (state, epoch);
        if !state.contains(WRITE) {
            self.lose(std::mem::take(&mut opened.dirty));
        }
        self.opened = Some(opened);
        early.iter().for_each(|told| self.heed(told));
    }

    /// What was dirty may be at the server, or not: nobody was told.
    fn lose(&self, dirty: HashMap<u64, Dirty>) {
        for dirty in dirty.into_values() {
            let last = dirty.done.into_iter().rfind(|event| event.is_write);
            self.world.events.borrow_mut().extend(last.map(|event| Event { ended: NEVER, ..event }));
        }
    }

    // Reading and writing.

    async fn read(&mut self, block: u64) -> Result<(), Lost> {
        let began = self.world.moment();
        let Some(opened) = &mut self.opened else { return Ok(()) };
        let event = |value, ended| Event { client: self.number, block, value, is_write: false, began, ended };
        if let Some(dirty) = opened.dirty.get_mut(&block) {
            dirty.done.push(event(dirty.value, self.world.moment()));
            return Ok(());
        }
        if let Some(value) = opened.clean.get(&block) {
            count(&self.world.local_reads);
            self.world.events.borrow_mut().push(event(*value, self.world.moment()));
            return Ok(());
        }
        let (file_id, held) = (opened.file_id, (opened.epoch, opened.state));
        let (offset, length) = (block * BLOCK_BYTES, BLOCK_BYTES as u32);
        let request = ReadRequest { file_id, offset, length, ..ReadRequest::default() };
        let answer = self.ask(Command::READ, |body| request.encode(body)).await?;
        let value = match answer.status() {
            Status::SUCCESS => value_of(ReadResponse::decode(&answer.message).unwrap().data),
            Status::END_OF_FILE => 0,
            Status::FILE_LOCK_CONFLICT => return Ok(()),
            status => panic!("READ is answered with {status}"),
        };
        let ended = self.world.moment();
        self.world.events.borrow_mut().push(Event { client: self.number, block, value, is_write: false, began, ended });
        self.attend()?;
        self.cache(block, value, held);
        Ok(())
    }

    /// Keeps what was read or written, where the lease is still what it was then.
    fn cache(&mut self, block: u64, value: u64, held: (u16, LeaseState)) {
        let Some(opened) = &mut self.opened else { return };
        let same = (opened.epoch, opened.state) == held && opened.breaking.is_none();
        if same && opened.state.contains(READ) && !opened.dirty.contains_key(&block) {
            opened.clean.insert(block, value);
        } else {
            opened.clean.remove(&block);
        }
    }

    async fn write(&mut self, block: u64) -> Result<(), Lost> {
        self.settle().await?;
        let (client, is_write) = (self.number, true);
        let (value, began) = (self.world.new_value(), self.world.moment());
        let Some(opened) = &mut self.opened else { return Ok(()) };
        if opened.state.contains(WRITE) && !self.flushing.values().any(|flushed| *flushed == block) {
            opened.clean.remove(&block);
            let dirty = opened.dirty.entry(block).or_insert(Dirty { value, done: Vec::new() });
            dirty.value = value;
            dirty.done.push(Event { client, block, value, is_write, began, ended: self.world.moment() });
            return Ok(());
        }
        if opened.dirty.contains_key(&block) {
            return Ok(());
        }
        let held = (opened.epoch, opened.state);
        let message = self.write_message(block, value);
        let unsure = Event { client, block, value, is_write, began, ended: NEVER };
        let answer = match self.exchange(message).await {
            Ok(answer) => answer,
            Err(lost) => {
                self.world.events.borrow_mut().push(unsure);
                return Err(lost);
            }
        };
        match answer.status() {
            Status::SUCCESS => {}
            Status::FILE_LOCK_CONFLICT => return Ok(()),
            status => panic!("WRITE is answered with {status}"),
        }
        self.world.events.borrow_mut().push(Event { ended: self.world.moment(), ..unsure });
        self.attend()?;
        self.cache(block, value, held);
        Ok(())
    }

    fn write_message(&mut self, block: u64, value: u64) -> Vec<u8> {
        let file_id = self.opened.as_ref().unwrap().file_id;
        let data = value.to_le_bytes();
        let request = WriteRequest { file_id, offset: block * BLOCK_BYTES, data: &data, ..WriteRequest::default() };
        self.peer.as_mut().unwrap().message(Command::WRITE, |body| request.encode(body))
    }

    /// A lock of bytes behind the blocks: it breaks read caching like a write.
    async fn lock_and_unlock(&mut self) -> Result<(), Lost> {
        let Some(opened) = &self.opened else { return Ok(()) };
        let file_id = opened.file_id;
        for flags in [LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY, LockFlags::UNLOCK] {
            let lock = [LockElement { offset: 1000, length: 10, flags }];
            let request = LockRequest { file_id, locks: LockElements::new(&lock), ..LockRequest::default() };
            let status = self.ask(Command::LOCK, |body| request.encode(body)).await?.status();
            if status != Status::SUCCESS {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn ask(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Result<Answer, Lost> {
        let message = self.peer.as_mut().ok_or(Lost)?.message(command, body);
        self.exchange(message).await
    }

    async fn exchange(&mut self, message: Vec<u8>) -> Result<Answer, Lost> {
        let began = Instant::now();
        let mut cut = self.random.percent(self.cuts).then(|| began + self.random.pause(40_000));
        if cut.is_some() && self.random.percent(20) {
            return Err(Lost);
        }
        let id = self.send_message(message);
        let mut pause = Duration::from_millis(1);
        loop {
            if cut.take_if(|cut| Instant::now() >= *cut).is_some() {
                return Err(Lost);
            }
            self.attend()?;
            if let Some(answer) = self.answers.remove(&id) {
                self.world.longest.set(self.world.longest.get().max(began.elapsed()));
                return Ok(answer);
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn send(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> MessageId {
        let message = self.peer.as_mut().unwrap().message(command, body);
        self.send_message(message)
    }

    fn send_message(&mut self, mut message: Vec<u8>) -> MessageId {
        let id = Header::decode(&message).unwrap().message_id;
        self.peer.as_ref().unwrap().process(&mut message).unwrap();
        id
    }
}

fn granted(answer: &Answer) -> (FileId, LeaseState, u16) {
    let response = CreateResponse::decode(&answer.message).unwrap();
    let lease = response.contexts.find(name::LEASE).map(|data| Lease::decode(data).unwrap()).unwrap_or_default();
    (response.file_id, lease.lease_state, lease.v2.map_or(0, |v2| v2.epoch))
}

/// A file that ends inside a block has zeros there.
fn value_of(data: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..data.len()].copy_from_slice(data);
    u64::from_le_bytes(bytes)
}
