//! The requests of one frame, usually one, at most a compound chain (MS-SMB2 3.3.5.2.7): admitted together when they arrive, run
//! one after the other, answered together.

use std::cell::Cell;
use std::future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use secure::sign::SigningAlgorithm;
use wire::codec::Reader;
use wire::command::error::{ErrorContext, ErrorId, ErrorResponse};
use wire::frame::FRAME_LENGTH_MAX;
use wire::header::{Flags, HEADER_LENGTH, Header, Route};
use wire::ids::{Command, Dialect, SessionId, TreeId};
use wire::status::Status;
use wire::transform::TRANSFORM_HEADER_LENGTH;

use crate::allowance::ANSWER_BYTES_SMALL;
use crate::breaks;
use crate::budget::Charge;
use crate::buffers::{Buffers, PAYLOAD_BYTES_MAX};
use crate::channel_sequence::{Counted, Step};
use crate::command::{self, cancel};
use crate::connection::{Connection, Disconnect};
use crate::context::{Context, Outcome, Reply};
use crate::credits;
use crate::gate::{self, Meant};
use crate::in_flight::InFlight;
use crate::inbox::Kept;
use crate::open::OpenId;
use crate::pipeline::{self, Long, LongAnswer, RESPONSE_ROOM};
use crate::pool::{Device, Turn};
use crate::proof::{Proof, Sealing};
use crate::refusal::Refusal;
use crate::session::Channel;
use crate::slice::Slice;
use crate::steps::INLINE_BYTES_MAX;
use crate::stitch::Stitch;
use crate::turns::{LONG_REQUEST_COST, REQUEST_COST, TURN_BYTES};

/// A request that waits for this machine alone for so long gets an interim answer (3.3.4.2), so that its client does not give it up, which
/// clients do after 10 seconds or more. Not sooner: Windows sends none then (note 240), so there are clients that take one for a fault, or
/// lose the credits that came with it. What waits for another client asks for one at once.
pub(crate) const INTERIM_AFTER: Duration = Duration::from_secs(5);
/// Requests of one connection that wait for other clients at a time: Windows Server's AsynchronousCredits.
const ANNOUNCED_WAITS_MAX: usize = 512;
/// CANCELs in one frame, which take no credits. No client that is known sends two together.
pub(crate) const CANCELS_MAX: usize = 2 * ANNOUNCED_WAITS_MAX;

/// What one request takes beside its bytes and its answer's data: what is known of it, and an answer without data.
const REQUEST_BYTES: usize = 1 << 10;
/// What the ranges of a LOCK take, in parts of its bytes, when they have been read.
const LOCKS_PART: usize = 8;
/// One of them (MS-SMB2 2.2.26.1), and where it is said how many there are (2.2.26).
const LOCK_BYTES: usize = 24;
const LOCK_COUNT_OFFSET: usize = HEADER_LENGTH + 2;
/// The most messages of a frame that is not ended for them.
pub(crate) const MESSAGES_MAX: usize = credits::CREDITS_MAX as usize + CANCELS_MAX;
/// An answer of a chain fills at least one part in so many of what holds it.
const FILLED_PART: usize = 2;
/// The answers of a chain leave in one frame. What would not fit behind what it holds already is refused before it runs.
const ANSWERS_BYTES_MAX: usize = FRAME_LENGTH_MAX - TRANSFORM_HEADER_LENGTH;

/// A frame's requests, taken out of the inbox.
pub(crate) struct Chain {
    bytes: Slice,
    requests: Vec<Request>,
    sealed: Option<Rc<Channel>>,
    /// For what is answered.
    charge: Cell<Option<Charge>>,
    /// For the buffer that it came in.
    frame: Option<Charge>,
}

/// A frame's requests, while the frame is in the inbox.
pub(crate) struct Admitted {
    requests: Vec<Request>,
    sealed: Option<Rc<Channel>>,
}

impl Admitted {
    /// With the frame, and what is held for the answers.
    pub(crate) fn kept(self, kept: Kept, charge: Option<Charge>) -> Chain {
        let Admitted { requests, sealed } = self;
        Chain { bytes: kept.frame, requests, sealed, charge: Cell::new(charge), frame: kept.charge }
    }
}

/// How much is held at most until a frame is answered.
#[derive(Clone, Copy, Default)]
pub(crate) struct Need {
    pub(crate) bytes: usize,
    /// Where all its requests are refused.
    pub(crate) bytes_refused: usize,
    /// For the frame, in both.
    kept: usize,
}

impl Need {
    /// The same where nothing more is held for the frame.
    pub(crate) fn of_paid(self) -> Self {
        Need { bytes: self.bytes - self.kept, bytes_refused: self.bytes_refused - self.kept, kept: 0 }
    }
}

/// What is held for the answers of the messages in `frame`, which nobody has verified, and for `kept` bytes of the frame. The answers of a chain
/// are held as they were made, in buffers that they fill by half at least, while one more is made in a buffer of its own, or all are joined in
/// one. What has more messages than anybody has credits for ends its connection when it is admitted.
pub(crate) fn need(frame: &[u8], kept: usize) -> Need {
    let (mut start, mut count, mut asked, mut largest, mut read) = (0, 0, 0, 0, 0);
    while count <= MESSAGES_MAX
        && let Some(Ok(header)) = frame.get(start..).map(Header::decode)
    {
        let Ok(end) = end_of(&header, start, frame.len()) else { break };
        let message = &frame[start..end];
        let data = asked_bytes(header.command, message, header.next_command == 0);
        (count, asked, largest) = (count + 1, asked + data, data.max(largest));
        read += if header.command == Command::LOCK { locks_bytes(message) } else { 0 };
        start = end;
        if header.next_command == 0 {
            break;
        }
    }
    let largest = if largest < ANSWER_BYTES_SMALL { largest } else { Buffers::size(largest + REQUEST_BYTES) };
    let answers = match count {
        0 | 1 => largest,
        _ => {
            let asked = asked.min(ANSWERS_BYTES_MAX);
            FILLED_PART * asked + largest.max(asked)
        }
    };
    let bytes_refused = kept + count * REQUEST_BYTES;
    Need { bytes: bytes_refused + read + answers, bytes_refused, kept }
}

/// What the ranges of a LOCK take when they have been read.
fn locks_bytes(message: &[u8]) -> usize {
    let count = Reader::at(message, LOCK_COUNT_OFFSET).u16().unwrap_or(0);
    LOCKS_PART * message.len().min(usize::from(count) * LOCK_BYTES)
}

/// How much data a request asks for, as far as it is answered soon.
fn asked_bytes(command: Command, message: &[u8], is_last: bool) -> usize {
    match gate::row(command) {
        // What a watch that may wait is told is held when there is something to tell.
        Some(row) if command != Command::CHANGE_NOTIFY || !is_last => {
            (row.asked_bytes(message) as usize).min(PAYLOAD_BYTES_MAX)
        }
        Some(_) | None => 0,
    }
}

struct Request {
    range: Range<usize>,
    header: Header,
    session_id: SessionId,
    /// Related, but to nothing.
    is_orphan: bool,
    channel: Option<Rc<Channel>>,
    proof: Proof,
    /// What was found wrong on arrival.
    verdict: Result<(), Status>,
}

impl Chain {
    /// Splits the frame, charges credits and verifies signatures. `None` where nothing is to be answered.
    pub(crate) fn admit(connection: &Connection, frame: &mut [u8], long: Long) -> Result<Option<Admitted>, Disconnect> {
        let Long { first, sealed, signatures, proof: mut proof_of_first, is_refused, .. } = long;
        let sealed = sealed.as_ref();
        let mut requests: Vec<Request> = Vec::with_capacity(1);
        let (mut start, mut header, mut cancelled) = (0, first, 0);
        loop {
            let end = end_of(&header, start, frame.len())?;
            let place = Place::after(requests.last(), &header, sealed);
            if header.command != Command::CANCEL {
                let taken = connection.window.borrow_mut().take(header.message_id, connection.charge(&header));
                taken.map_err(|_| Disconnect("a message id was used twice or never granted"))?;
            }
            let message = &mut frame[start..end];
            let proof = match (proof_of_first.take(), sealed) {
                (Some(proof), _) => proof,
                (None, Some(channel)) => Proof::of_sealed(channel, &header, start == 0)?,
                (None, None) => {
                    let is_right = |channel: &Rc<Channel>| signatures.are_right(start, channel);
                    Proof::of(connection, &header, place.session_id, message, is_right)
                }
            };
            if header.command == Command::CANCEL {
                cancelled += 1;
                connection.turn.spend(REQUEST_COST);
                if cancelled > CANCELS_MAX {
                    return Err(Disconnect("a frame cancels more than can wait"));
                }
                cancel::handle(connection, &header, place.session_id, &proof);
            } else {
                let mut request = Request::admit(connection, (header, start..end), message, place, proof)?;
                if is_refused {
                    request.verdict = request.verdict.and(Err(Status::INSUFFICIENT_RESOURCES));
                }
                requests.push(request);
            }
            if header.next_command == 0 {
                break;
            }
            start = end;
            header = Header::decode(&frame[start..]).map_err(|_| Disconnect("a chained header is malformed"))?;
        }
        if requests.is_empty() {
            return Ok(None);
        }
        Ok(Some(Admitted { requests, sealed: sealed.cloned() }))
    }
}

impl Chain {
    /// Queues answers, which `charge` is for. `after` gets the last of them, unless that is sealed, before it is sent.
    async fn queue(
        &self,
        connection: &Connection,
        mut stitch: Stitch,
        charge: Option<Charge>,
        after: impl FnOnce(&[u8]),
    ) {
        // To join, sign or seal so much takes milliseconds.
        let is_long = stitch.length() as u64 > INLINE_BYTES_MAX + RESPONSE_ROOM as u64;
        let seal = self.sealed.as_deref();
        if let Some(turn) = is_long.then(|| self.turn()).flatten() {
            let long = LongAnswer { turn, seal, charge };
            match stitch.take_placed() {
                Some(placed) => long.queue_placed(connection, placed).await,
                None => long.queue_chain(connection, stitch, after).await,
            }
        } else if let Some(placed) = stitch.take_placed() {
            pipeline::queue_placed(connection, placed, seal, charge);
        } else {
            let last_begins = stitch.last_begins();
            pipeline::queue(connection, stitch.length(), seal, |messages| {
                stitch.write(messages);
                after(&messages[last_begins..]);
            });
        }
    }

    /// Whose turn it is where its answers only have to be completed.
    fn turn(&self) -> Option<Turn> {
        self.requests.iter().find_map(|request| Some(request.channel.as_ref()?.session.turn(Device::Processor)))
    }

    /// The part of its charge that is for answers of `bytes` which leave before the others.
    fn charge_for(&self, bytes: usize) -> Option<Charge> {
        let mut charge = self.charge.take()?;
        let part = charge.split(bytes as u64);
        self.charge.set(Some(charge));
        part
    }
}

/// What a request is related to.
struct Place {
    session_id: SessionId,
    /// Related, but to nothing: to no request, or to one that is so itself. It is refused (3.3.5.2.7.2).
    is_orphan: bool,
}

impl Place {
    fn after(before: Option<&Request>, header: &Header, sealed: Option<&Rc<Channel>>) -> Self {
        let related = header.flags.contains(Flags::RELATED_OPERATIONS);
        let is_orphan = related && before.is_none_or(|before| before.is_orphan);
        let session_id = match sealed {
            Some(channel) => channel.session.id,
            None => session_meant(header, before.map(|before| before.session_id)),
        };
        Place { session_id, is_orphan }
    }
}

/// The session that an unsealed message means, where the request before it, which no CANCEL is, means `before`.
pub(crate) fn session_meant(header: &Header, before: Option<SessionId>) -> SessionId {
    let related = header.flags.contains(Flags::RELATED_OPERATIONS);
    before.filter(|_| related).unwrap_or(header.session_id)
}

/// Where the request at `start` ends: the next one begins there, inside the frame. Like Windows, which way it is aligned is not
/// looked at (note 267).
pub(crate) fn end_of(header: &Header, start: usize, frame_length: usize) -> Result<usize, Disconnect> {
    let next = header.next_command as usize;
    if next == 0 {
        return Ok(frame_length);
    }
    let end = start + next;
    if next < HEADER_LENGTH || end + HEADER_LENGTH > frame_length {
        return Err(Disconnect("a chain leaves its frame"));
    }
    Ok(end)
}

impl Request {
    fn admit(
        connection: &Connection,
        (header, range): (Header, Range<usize>),
        message: &[u8],
        place: Place,
        proof: Proof,
    ) -> Result<Request, Disconnect> {
        let Place { session_id, is_orphan } = place;
        let row = gate::row(header.command);
        if connection.negotiation.borrow().dialect().is_none() && header.command != Command::NEGOTIATE {
            return Err(Disconnect("a request before NEGOTIATE"));
        }
        let mut verdict = Ok(());
        if is_orphan || row.is_none() {
            verdict = Err(Status::INVALID_PARAMETER);
        }
        let (large, charge) = (connection.negotiation.borrow().has_large_mtu(), connection.charge(&header));
        if large && row.is_some_and(|row| !credits::covers(charge, row.payload_bytes(message))) {
            verdict = Err(Status::INVALID_PARAMETER);
        }
        if matches!(proof, Proof::Forged) {
            verdict = Err(Status::ACCESS_DENIED);
        }
        let channel = connection.channel(session_id);
        if let Some(channel) = &channel {
            channel.count_request(range.len());
        }
        Ok(Request { range, header, session_id, is_orphan, channel, proof, verdict })
    }
}

/// What one request of a chain leaves to those related to it.
#[derive(Default)]
struct Carried {
    session: bool,
    tree: Option<TreeId>,
    open: Option<OpenId>,
    failed: Option<Status>,
}

/// Runs a chain and queues its responses.
pub(crate) async fn run(connection: Rc<Connection>, chain: Chain) {
    let mut stitch = Stitch::default();
    let mut carried = Carried::default();
    let last = chain.requests.len() - 1;
    let (mut spent, mut returned) = (0, Vec::new());
    for (position, request) in chain.requests.iter().enumerate() {
        if spent >= TURN_BYTES as usize {
            connection.turn.another().await;
            spent = 0;
        }
        if position > 0 && connection.is_gone() {
            // Nobody could cancel what would begin now.
            return;
        }
        let answered = stitch.length();
        let in_flight = InFlight::new(request.header.message_id, request.session_id);
        if !request.is_related() {
            carried = Carried::default();
        }
        let mut outcome = match request.enter(&connection, &chain, &mut carried, &in_flight) {
            Err(status) => Err(status.into()),
            Ok(context) => {
                carried.open = context.open.as_ref().map(|open| open.id).or(carried.open);
                let message = &chain.bytes[request.range.clone()];
                let asked = asked_bytes(request.header.command, message, position == last);
                let answers = stitch.length() + asked + chain.requests.len() * REQUEST_BYTES;
                match request.take_turn(&context) {
                    Err(status) => Err(status.into()),
                    Ok(_) if last > 0 && answers > ANSWERS_BYTES_MAX => Err(Status::INSUFFICIENT_RESOURCES.into()),
                    Ok(_counted) if position == last || request.may_wait_in_the_middle() => {
                        // It is large, and lies where it is made.
                        let work = pin!(request.run_waiting(&context, message, &mut stitch, &chain));
                        in_flight.counting(&connection.turn, work).await
                    }
                    Ok(_counted) => {
                        let work = pin!(command::dispatch(&context, request.header.command, message));
                        in_flight.counting(&connection.turn, work).await
                    }
                }
            }
        };
        if last > 0
            && let Ok(reply) = &mut outcome
        {
            reply.body.fit(&connection.buffers, FILLED_PART);
        }
        carried.note(request.header.command, &outcome);
        request.note_open(&outcome);
        returned.extend(outcome.as_mut().ok().and_then(|reply| reply.returned.take()));
        request.push_response(&connection, outcome, &mut stitch, &chain, &in_flight);
        // What comes in and goes out, and the first request, the connection has counted or will.
        let own = if position > 0 { LONG_REQUEST_COST } else { 0 };
        in_flight.spend(&connection.turn);
        connection.turn.spend(own);
        spent += in_flight.done_here() + own + request.range.len() + stitch.length().saturating_sub(answered);
    }
    let charge = chain.charge.take();
    chain.queue(&connection, stitch, charge, |response| chain.requests[last].after(&connection, response)).await;
    for returned in returned {
        breaks::remind(&connection, &returned);
    }
    if let Some(buffer) = chain.bytes.into_whole() {
        connection.buffers.give_back(buffer);
    }
}

impl Carried {
    fn note(&mut self, command: Command, outcome: &Outcome) {
        if command == Command::CREATE {
            self.open = None;
        }
        match outcome {
            Ok(reply) => {
                self.tree = reply.tree.or(self.tree);
                self.open = reply.open.or(self.open);
                self.failed = None;
            }
            Err(refusal) => self.failed = Some(refusal.status),
        }
    }
}

impl Request {
    fn is_related(&self) -> bool {
        self.header.flags.contains(Flags::RELATED_OPERATIONS)
    }

    /// The gate: finds what the request needs, or the status that says what is missing. The session and
    /// tree that it finds are those of what is related to it, even where its open is not found.
    fn enter(
        &self,
        connection: &Rc<Connection>,
        chain: &Chain,
        carried: &mut Carried,
        in_flight: &Rc<InFlight>,
    ) -> Result<Context, Status> {
        let tree_before = carried.tree.take();
        self.verdict?;
        let row = gate::row(self.header.command).ok_or(Status::INVALID_PARAMETER)?;
        let message = &chain.bytes[self.range.clone()];
        let related = self.is_related();
        let channel = self.channel.clone().filter(|channel| !channel.session.has_ended());
        let mut context = Context {
            connection: Rc::clone(connection),
            channel,
            proof: self.proof.clone(),
            tree: None,
            open: None,
            session_id: self.session_id,
            replay: self.header.flags.contains(Flags::REPLAY_OPERATION),
            channel_sequence: self.header.channel_sequence(),
            in_flight: Rc::clone(in_flight),
            message: chain.bytes.part(self.range.clone()),
        };
        if !row.session.is_needed(&self.header, self.session_id) {
            carried.session = context.channel.is_some();
            carried.tree = tree_before;
            return Ok(context);
        }
        if related && !carried.session {
            return Err(Status::INVALID_PARAMETER);
        }
        carried.session = context.channel.is_some();
        let session = &context.channel.as_ref().ok_or(Status::USER_SESSION_DELETED)?.session;
        self.proof.check_session(session)?;
        if row.tree {
            let id = if related { tree_before.ok_or(Status::INVALID_PARAMETER)? } else { self.header.tree_id() };
            let tree = session.tree(id).ok_or(Status::NETWORK_NAME_DELETED)?;
            self.proof.check(session, Sealing::required_where(tree.requires_sealing()))?;
            context.tree = Some(tree);
            carried.tree = Some(id);
        } else {
            carried.tree = tree_before;
        }
        if let Some(offset) = row.file_id {
            let meant = gate::meant_open(message, offset, related).ok_or(Status::INVALID_PARAMETER)?;
            let open = match meant {
                Meant::Nothing if self.header.command == Command::IOCTL => return Ok(context),
                Meant::Nothing | Meant::Unknown => None,
                Meant::Related if carried.open.is_none() => return Err(carried.failed.unwrap_or(Status::FILE_CLOSED)),
                Meant::Related => carried.open.and_then(|id| session.open(id)),
                Meant::Open(id) => session.open(id),
            };
            let open = open.ok_or(Status::FILE_CLOSED)?;
            if context.tree.as_ref().is_some_and(|tree| tree.id != open.tree.id) {
                return Err(Status::FILE_CLOSED);
            }
            open.used();
            context.open = Some(open);
        }
        Ok(context)
    }

    /// Verifies the channel sequence of a request on an open, and counts it there until it is answered (3.3.5.2.10).
    fn take_turn<'a>(&self, context: &'a Context) -> Result<Option<Counted<'a>>, Status> {
        let session = context.channel.as_ref().map(|channel| &channel.session);
        match &context.open {
            Some(open) if session.is_some_and(|session| session.dialect >= Dialect::SMB_3_0) => {
                open.channel_sequence().enter(Step::of(&self.header))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// An open that a CREATE gave follows that one's channel sequence: "Open.ChannelSequence MUST be set to ChannelSequence in the SMB2
    /// Header of the request" (3.3.5.9).
    fn note_open(&self, outcome: &Outcome) {
        let session = self.channel.as_ref().map(|channel| &channel.session);
        let made =
            outcome.as_ref().ok().and_then(|reply| reply.open).filter(|_| self.header.command == Command::CREATE);
        if let (Some(session), Some(id)) = (session.filter(|session| session.dialect >= Dialect::SMB_3_0), made)
            && let Some(open) = session.open(id)
        {
            open.channel_sequence().begin(self.header.channel_sequence());
        }
    }

    /// True for what may be answered late though more of its chain follows, which waits with it: a CREATE that others have to make way for, as
    /// with Windows (note 266).
    fn may_wait_in_the_middle(&self) -> bool {
        self.header.command == Command::CREATE
    }

    /// Runs what may be answered late, and then gets an interim answer (3.3.5.2.7.2): what comes before it in its chain is answered with that.
    async fn run_waiting(&self, context: &Context, message: &[u8], stitch: &mut Stitch, chain: &Chain) -> Outcome {
        let mut command = pin!(command::dispatch(context, self.header.command, message));
        context.in_flight.let_wait();
        // Most are done at once: neither a timer nor a place in the table is made for them.
        tokio::select! {
            biased;
            outcome = &mut command => return outcome,
            () = future::ready(()) => {}
        }
        let waiting = context.connection.in_flight.enter(&context.in_flight);
        tokio::select! {
            biased;
            outcome = &mut command => return outcome,
            () = context.in_flight.wait_announced() => {
                if context.connection.in_flight.announced() >= ANNOUNCED_WAITS_MAX {
                    return Err(Status::INSUFFICIENT_RESOURCES.into());
                }
            }
            () = tokio::time::sleep(INTERIM_AFTER) => {}
        }
        Box::pin(self.send_interim(context, stitch, chain)).await;
        let outcome = command.await;
        drop(waiting);
        outcome
    }

    async fn send_interim(&self, context: &Context, stitch: &mut Stitch, chain: &Chain) {
        let connection = &context.connection;
        let async_id = connection.in_flight.make_async(&context.in_flight);
        let header = Header {
            status: Status::PENDING,
            credits: connection.window.borrow_mut().grant(self.header.credits),
            route: Route::Async(async_id),
            ..self.response_header()
        };
        let mut interim = std::mem::take(stitch);
        // Clients do not verify it (3.2.5.1.3). With GMAC the message id is the nonce, and the last response needs it.
        let signer = self.signer().filter(|channel| channel.facts.signing != SigningAlgorithm::AesGmac);
        interim.push(&header, ErrorResponse::to_bytes().to_vec(), signer);
        let charge = chain.charge_for(interim.length());
        chain.queue(connection, interim, charge, |_| ()).await;
        // What was answered is held by nobody any more.
        let kept = if chain.frame.is_some() { 0 } else { chain.bytes.held_bytes() };
        let need = need(&chain.bytes[self.range.start..], kept);
        chain.charge.set(chain.charge.take().map(|mut charge| {
            charge.shrink_to(need.bytes as u64);
            charge
        }));
        let frame = chain.frame.as_ref().map_or(kept as u64, Charge::units);
        connection.in_flight.note_held(&context.in_flight, frame + need.bytes.saturating_sub(kept) as u64);
        connection.wake();
    }

    fn push_response(
        &self,
        connection: &Connection,
        outcome: Outcome,
        stitch: &mut Stitch,
        chain: &Chain,
        in_flight: &InFlight,
    ) {
        let mut header = self.response_header();
        match in_flight.async_id.get() {
            Some(async_id) => header.route = Route::Async(async_id),
            None => header.credits = connection.window.borrow_mut().grant(self.header.credits),
        }
        match outcome {
            Ok(reply) => {
                header.status = reply.status;
                self.apply(&mut header, &reply);
                let made = self.header.command == Command::SESSION_SETUP && reply.status == Status::SUCCESS;
                let signer = if made { connection.channel(header.session_id) } else { self.signer() };
                stitch.push(&header, reply.body, signer.filter(|_| chain.sealed.is_none()));
            }
            Err(refusal) => {
                header.status = refusal.status;
                let dialect = connection.negotiation.borrow().dialect();
                stitch.push(&header, error_body(&refusal, dialect), self.signer());
            }
        }
    }

    fn apply(&self, header: &mut Header, reply: &Reply) {
        if let Some(session_id) = reply.session {
            header.session_id = session_id;
        }
        if let (Some(tree_id), Route::Sync { .. }) = (reply.tree, header.route) {
            header.route = Route::Sync { tree_id };
        }
    }

    fn response_header(&self) -> Header {
        Header {
            credit_charge: self.header.credit_charge,
            status: Status::SUCCESS,
            command: self.header.command,
            credits: 0,
            flags: Flags::SERVER_TO_REDIR | (self.header.flags & (Flags::RELATED_OPERATIONS | Flags::PRIORITY_MASK)),
            next_command: 0,
            message_id: self.header.message_id,
            route: Route::Sync { tree_id: self.header.tree_id() },
            session_id: self.session_id,
            signature: [0; 16],
        }
    }

    /// Who signs the response.
    fn signer(&self) -> Option<Rc<Channel>> {
        self.proof.signer(self.channel.as_ref()).cloned()
    }

    /// What the bytes of a response change: the pre-auth hash of what is being set up.
    fn after(&self, connection: &Connection, response: &[u8]) {
        command::after_response(connection, self.header.command, response);
    }
}

/// The body of an error. From 3.1.1 on its data stands in an error context (2.2.2).
fn error_body(refusal: &Refusal, dialect: Option<Dialect>) -> Vec<u8> {
    let mut body = Vec::new();
    if dialect == Some(Dialect::SMB_3_1_1) && !refusal.data.is_empty() {
        let data = ErrorContext { error_id: ErrorId::DEFAULT, data: &refusal.data }.to_bytes();
        ErrorResponse { context_count: 1, data: &data }.encode(&mut body);
    } else {
        ErrorResponse { context_count: 0, data: &refusal.data }.encode(&mut body);
    }
    body
}
