//! The requests of one frame, usually one, at most a compound chain (MS-SMB2 3.3.5.2.7): admitted together when they arrive, run
//! one after the other, answered together.

use std::cell::Cell;
use std::future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use secure::sign::SigningAlgorithm;
use tokio::time::Instant;
use wire::command::error::{ErrorContext, ErrorId, ErrorResponse};
use wire::header::{Flags, HEADER_LENGTH, Header, Route};
use wire::ids::{Command, Dialect};
use wire::status::Status;

use crate::command::connection::{Connection, Disconnect};
use crate::command::context::RESPONSE_ROOM;
use crate::command::context::{Context, Outcome, Reply};
use crate::command::proof::Proof;
use crate::command::{self, cancel, ioctl};
use crate::request::admission::{Carried, Relation, Request, payload_bytes};
use crate::request::answer::{self, LongAnswer};
use crate::request::audit::{self, Audited, Seen};
use crate::request::counting;
use crate::request::inbox::Kept;
use crate::request::responder::Responder;
use crate::request::response::{Response, part_length};
use crate::request::slow_path::{
    ANNOUNCED_WAITS_MAX, ANSWERS_BYTES_MAX, CANCELS_MAX, FILLED_PART, Long, asked_bytes, end_of, need,
};
use crate::resource::budget::Charge;
use crate::resource::pool::INLINE_BYTES_MAX;
use crate::resource::pool::{Device, QueueKey};
use crate::resource::slice::Slice;
use crate::resource::turns::{LONG_REQUEST_COST, REQUEST_COST, TURN_BYTES};
use crate::state::breaks;
use crate::state::channel_sequence::{Counted, Step};
use crate::state::counters::{Answered, Api, Wait};
use crate::state::in_flight::INTERIM_AFTER;
use crate::state::in_flight::InFlight;
use crate::state::refusal::Refusal;
use crate::state::session::Channel;
use crate::state::share_limit::Work;

/// A frame's requests, taken out of the inbox.
pub(crate) struct Chain {
    bytes: Slice,
    requests: Vec<Request>,
    sealed: Option<Rc<Channel>>,
    /// For what is answered.
    charge: Cell<Option<Charge>>,
    /// For the buffer that it came in.
    frame: Option<Charge>,
    received: Instant,
    held_back: Duration,
}

/// A frame's requests, while the frame is in the inbox.
pub(crate) struct Admitted {
    requests: Vec<Request>,
    sealed: Option<Rc<Channel>>,
    received: Instant,
    held_back: Duration,
}

impl Admitted {
    /// With the frame, and what is held for the answers.
    pub(crate) fn kept(self, kept: Kept, charge: Option<Charge>) -> Chain {
        let Admitted { requests, sealed, received, held_back } = self;
        let (bytes, frame, charge) = (kept.frame, kept.charge, Cell::new(charge));
        Chain { bytes, requests, sealed, charge, frame, received, held_back }
    }
}

impl Chain {
    /// Splits the frame, charges credits and verifies signatures. `None` where nothing is to be answered.
    pub(crate) fn admit(connection: &Connection, frame: &mut [u8], long: Long) -> Result<Option<Admitted>, Disconnect> {
        let Long { first, sealed, signatures, proof: mut proof_of_first, is_refused, received, held_back, .. } = long;
        let sealed = sealed.as_ref();
        let mut requests: Vec<Request> = Vec::with_capacity(1);
        let (mut start, mut header, mut cancelled) = (0, first, 0);
        loop {
            let end = end_of(&header, start, frame.len())?;
            let place = Relation::after(requests.last(), &header, sealed);
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
                let channel = connection.channel(place.session_id);
                let received_bytes = (end - start) as u64;
                counting::count(
                    connection,
                    channel.as_deref(),
                    None,
                    &Answered { received_bytes, ..Answered::one(Api::Cancel) },
                );
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
        Ok(Some(Admitted { requests, sealed: sealed.cloned(), received, held_back }))
    }
}

impl Chain {
    /// Queues answers, which `charge` is for. `after` gets the last of them, unless that is sealed, before it is sent.
    async fn queue(
        &self,
        responder: &Responder,
        mut response: Response,
        charge: Option<Charge>,
        after: impl FnOnce(&[u8]),
    ) {
        // To join, sign or seal so much takes milliseconds.
        let is_long = response.length() as u64 > INLINE_BYTES_MAX + RESPONSE_ROOM as u64;
        let seal = self.sealed.as_deref();
        if let Some(queue_key) = is_long.then(|| self.queue_key()).flatten() {
            let long = LongAnswer { queue_key, seal, charge };
            match response.take_placed() {
                Some(placed) => long.queue_placed(responder, placed).await,
                None => long.queue_chain(responder, response, after).await,
            }
        } else if let Some(placed) = response.take_placed() {
            answer::queue_placed(responder, placed, seal, charge);
        } else {
            let last_begins = response.last_begins();
            answer::queue(responder, response.length(), seal, |messages| {
                response.write(messages);
                after(&messages[last_begins..]);
            });
        }
    }

    /// The queue of work where its answers only have to be completed.
    fn queue_key(&self) -> Option<QueueKey> {
        self.requests.iter().find_map(|request| Some(request.channel.as_ref()?.session.queue_key(Device::Processor)))
    }

    /// The part of its charge that is for answers of `bytes` which leave before the others.
    fn charge_for(&self, bytes: usize) -> Option<Charge> {
        let mut charge = self.charge.take()?;
        let part = charge.split(bytes as u64);
        self.charge.set(Some(charge));
        part
    }
}

/// Runs a chain and queues its responses. A request that fails ends nothing: what is related to it fails by what it lacks then ([`Carried`]).
pub(crate) async fn run(responder: Rc<Responder>, chain: Chain) {
    let mut response = Response::default();
    let mut carried = Carried::default();
    let last = chain.requests.len() - 1;
    let (mut spent, mut returned) = (0, Vec::new());
    let mut begun = chain.received;
    for (position, request) in chain.requests.iter().enumerate() {
        if spent >= TURN_BYTES as usize {
            responder.turn.another().await;
            spent = 0;
        }
        if position > 0 && responder.is_gone() {
            // Nobody could cancel what would begin now.
            chain.requests[position..].iter().for_each(|request| request.count_lost(&responder));
            return;
        }
        let answered = response.length();
        let in_flight = InFlight::new(request.header.message_id, request.session_id);
        if position == 0 {
            in_flight.note_waited(Wait::Budget, chain.held_back);
        }
        let mut tree;
        let mut audited = None;
        // What is related to nothing before it begins anew (3.3.5.2.7.1).
        if !request.is_related() {
            carried = Carried::default();
        }
        let mut outcome = match request.enter(&responder.connection, &chain.bytes, &mut carried, &in_flight) {
            Err(status) => {
                tree = request.tree(carried.tree());
                Err(status.into())
            }
            Ok(context) => {
                tree = context.tree.clone();
                carried.open = context.open.as_ref().map(|open| open.id).or(carried.open);
                let message = &chain.bytes[request.range.clone()];
                audited = Audited::of(&responder, request, &context, message);
                let asked = asked_bytes(request.header.command, message, position == last);
                let answers = response.length() + asked;
                match request.enter_channel_sequence(&context) {
                    Err(status) => Err(status.into()),
                    Ok(_) if last > 0 && answers > ANSWERS_BYTES_MAX => Err(Status::INSUFFICIENT_RESOURCES.into()),
                    Ok(_counted) if position == last || request.may_wait_in_the_middle() => {
                        // It is large, and lies where it is made.
                        let work = pin!(request.run_waiting((&responder, &context), message, &mut response, &chain));
                        in_flight.counting(&responder.turn, work).await
                    }
                    Ok(_counted) => {
                        let work = pin!(request.carry_out(&context, message));
                        in_flight.counting(&responder.turn, work).await
                    }
                }
            }
        };
        if last > 0
            && let Ok(reply) = &mut outcome
        {
            reply.body.fit(&responder.buffers, FILLED_PART);
        }
        carried.note(request.header.command, &outcome);
        request.note_open(&outcome);
        returned.extend(outcome.as_mut().ok().and_then(|reply| reply.returned.take()));
        tree = tree.or_else(|| request.connected(&outcome));
        let message = &chain.bytes[request.range.clone()];
        let seen = Seen { message, outcome: &outcome, in_flight: &in_flight, tree: tree.as_deref() };
        let told = audited.and_then(|audited| audited.event(&seen));
        let mut counted = request.answered(&chain.bytes, &outcome, &in_flight);
        counted.sent_bytes = request.push_response(&responder, outcome, &mut response, &chain, &in_flight);
        let now = Instant::now();
        counted.time = now.saturating_duration_since(std::mem::replace(&mut begun, now));
        counting::count(&responder, request.channel.as_deref(), tree.as_deref(), &counted);
        audit::tell(&responder, told, counted.time);
        // What comes in and goes out, and the first request, the connection has counted or will.
        let own = if position > 0 { LONG_REQUEST_COST } else { 0 };
        in_flight.spend(&responder.turn);
        responder.turn.spend(own);
        spent += in_flight.done_here() + own + request.range.len() + response.length().saturating_sub(answered);
    }
    let charge = chain.charge.take();
    chain.queue(&responder, response, charge, |response| chain.requests[last].after(&responder, response)).await;
    for returned in returned {
        let has_channel = |session| responder.channel(session).is_some();
        breaks::remind(&responder.server, &returned, &responder.mailbox, has_channel);
    }
    if let Some(buffer) = chain.bytes.into_whole() {
        responder.buffers.give_back(buffer);
    }
}

impl Request {
    /// Verifies the channel sequence of a request on an open, and counts it there until it is answered (3.3.5.2.10).
    fn enter_channel_sequence<'a>(&self, context: &'a Context) -> Result<Option<Counted<'a>>, Status> {
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

    /// Has the command carried out, once the limits of its share have room for it.
    async fn carry_out(&self, context: &Context, message: &[u8]) -> Outcome {
        let command = self.header.command;
        let limit = context.tree.as_ref().and_then(|tree| tree.limit());
        let Some((limit, work)) = limit.zip(Work::of(command, data_bytes(command, message))) else {
            return command::dispatch(context, command, message).await;
        };
        let file = context.open.as_ref().and_then(|open| open.file().ok()).map(|file| &file.file.taken);
        let begins = match (&context.open, work) {
            (Some(open), Work::Read(_) | Work::Write(_)) => Some(open.unbegun.enter()),
            (Some(open), Work::Metadata) => {
                let in_flight = &context.in_flight;
                in_flight.waiting_for_budget(in_flight.unless_cancelled(open.unbegun.have_begun())).await?;
                None
            }
            (None, _) => None,
        };
        let in_flight = &context.in_flight;
        let take = limit.take(work, file, self.session_id, |throttle| in_flight.note_throttle(throttle));
        let taken = in_flight.waiting_for_budget(in_flight.unless_cancelled(take)).await?;
        context.check_stays()?;
        drop(begins);
        let outcome = command::dispatch(context, command, message).await;
        taken.keep(match (command, &outcome) {
            (Command::READ, Ok(reply)) => reply.body.len() as u64,
            (_, Err(_)) => 0,
            _ => u64::MAX,
        });
        outcome
    }

    /// True for what may be answered late though more of its chain follows, which waits with it: a CREATE that others have to make way for, as
    /// with Windows (note 266).
    fn may_wait_in_the_middle(&self) -> bool {
        self.header.command == Command::CREATE
    }

    /// Runs what may be answered late, and then gets an interim answer (3.3.5.2.7.2): what comes before it in its chain is answered with that.
    async fn run_waiting(
        &self,
        (responder, context): (&Responder, &Context),
        message: &[u8],
        response: &mut Response,
        chain: &Chain,
    ) -> Outcome {
        let mut command = pin!(self.carry_out(context, message));
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
        Box::pin(self.send_interim(responder, context, response, chain)).await;
        let outcome = command.await;
        drop(waiting);
        outcome
    }

    async fn send_interim(&self, responder: &Responder, context: &Context, response: &mut Response, chain: &Chain) {
        let async_id = responder.in_flight.make_async(&context.in_flight);
        let header = Header {
            status: Status::PENDING,
            credits: responder.window.borrow_mut().grant(self.header.credits),
            route: Route::Async(async_id),
            ..self.response_header()
        };
        let mut interim = std::mem::take(response);
        // Clients do not verify it (3.2.5.1.3). With GMAC the message id is the nonce, and the last response needs it.
        let signer = self.signer().filter(|channel| channel.facts.signing != SigningAlgorithm::AesGmac);
        interim.push(&header, ErrorResponse::to_bytes().to_vec(), signer);
        let charge = chain.charge_for(interim.length());
        chain.queue(responder, interim, charge, |_| ()).await;
        // What was answered is held by nobody any more.
        let kept = if chain.frame.is_some() { 0 } else { chain.bytes.held_bytes() };
        let need = need(&chain.bytes[self.range.start..], kept);
        chain.charge.set(chain.charge.take().map(|mut charge| {
            charge.shrink_to(need.bytes as u64);
            charge
        }));
        let frame = chain.frame.as_ref().map_or(kept as u64, Charge::units);
        responder.in_flight.note_held(&context.in_flight, frame + need.bytes.saturating_sub(kept) as u64);
        responder.wake();
    }

    /// Adds its response to those of its chain; gives how many bytes it has there.
    fn push_response(
        &self,
        connection: &Connection,
        outcome: Outcome,
        response: &mut Response,
        chain: &Chain,
        in_flight: &InFlight,
    ) -> u64 {
        let mut header = self.response_header();
        match in_flight.async_id.get() {
            Some(async_id) => header.route = Route::Async(async_id),
            None => header.credits = connection.window.borrow_mut().grant(self.header.credits),
        }
        let length = match outcome {
            Ok(reply) => {
                header.status = reply.status;
                self.apply(&mut header, &reply);
                let made = self.header.command == Command::SESSION_SETUP && reply.status == Status::SUCCESS;
                let signer = if made { connection.channel(header.session_id) } else { self.signer() };
                let length = reply.body.len();
                response.push(&header, reply.body, signer.filter(|_| chain.sealed.is_none()));
                length
            }
            Err(refusal) => {
                header.status = refusal.status;
                let dialect = connection.negotiation.borrow().dialect();
                let body = error_body(&refusal, dialect);
                let length = body.len();
                response.push(&header, body, self.signer());
                length
            }
        };
        part_length(HEADER_LENGTH + length, chain.requests.len()) as u64
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

/// How many bytes of files a request reads and writes.
fn data_bytes(command: Command, message: &[u8]) -> u64 {
    match command {
        Command::IOCTL => ioctl::moved_bytes(message),
        _ => payload_bytes(command, message),
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
