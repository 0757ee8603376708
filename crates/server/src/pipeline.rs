//! The way of a request, from a frame to its queued reply: unseal, split, credits, verify, gate, command, stitch, sign,
//! seal. READ and WRITE that nothing stands in the way of take the short way in [`crate::hot`].

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use wire::frame::{PREFIX_LENGTH, frame_prefix};
use wire::header::{self, HEADER_LENGTH, Header};
use wire::smb1::SMB1_PROTOCOL_ID;
use wire::transform::{TRANSFORM_HEADER_LENGTH, TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::allowance::{ANSWER_BYTES_SMALL, Allowance};
use crate::budget::Charge;
use crate::buffers::Buffer;
use crate::chain::{self, Admitted, Chain, Need};
use crate::command::negotiate;
use crate::connection::{Connection, Disconnect, Ending, TASK_BYTES};
use crate::hot;
use crate::inbox::Kept;
use crate::opening::{Finding, Signatures};
use crate::pool::Turn;
use crate::proof::Proof;
use crate::session::{Channel, Cover};
use crate::stitch::{Placed, Stitch};

/// What stands in front of a response's body: the prefix, a transform header where it is sealed, the SMB2 header.
pub(crate) const RESPONSE_ROOM: usize = PREFIX_LENGTH + TRANSFORM_HEADER_LENGTH + HEADER_LENGTH;

/// A frame that takes the long way: its messages, unsealed in place, stand in this part of it.
pub(crate) struct Long {
    pub(crate) messages: Range<usize>,
    pub(crate) first: Header,
    pub(crate) sealed: Option<Rc<Channel>>,
    pub(crate) signatures: Signatures,
    /// Of a lone READ or WRITE, for which it was found already.
    pub(crate) proof: Option<Proof>,
    /// What answers it cannot be held: each request is answered so.
    pub(crate) is_refused: bool,
}

/// What the long way of a frame holds until it is answered.
pub(crate) enum Claim {
    /// It was charged.
    Much(Charge),
    /// So little that it counts only while it waits.
    Little(usize),
}

/// Deals with one frame, or gives it back where it takes the long way.
pub(crate) fn process(
    connection: &Rc<Connection>,
    frame: &mut [u8],
    finding: Finding,
) -> Result<Option<Long>, Disconnect> {
    match (frame.first_chunk::<4>(), finding) {
        (Some(&header::PROTOCOL_ID), Finding::Verified(signatures)) => messages(connection, frame, None, signatures),
        (Some(&header::PROTOCOL_ID), _) => messages(connection, frame, None, Signatures::default()),
        (Some(&TRANSFORM_PROTOCOL_ID), finding) => sealed(connection, frame, finding),
        (Some(&SMB1_PROTOCOL_ID), _) => multi_protocol(connection, frame).map(|()| None),
        (Some(_), _) => Err(Disconnect("not SMB")),
        (None, _) => Err(Disconnect("a frame is too short")),
    }
}

/// Unseals a frame (MS-SMB2 3.3.5.2.1). What cannot be unsealed ends the connection.
fn sealed(connection: &Rc<Connection>, frame: &mut [u8], finding: Finding) -> Result<Option<Long>, Disconnect> {
    let header = TransformHeader::decode(frame).map_err(|_| Disconnect("a transform header is malformed"))?;
    let channel = connection.channels.borrow().get(&header.session_id).cloned();
    let channel = channel.ok_or(Disconnect("sealed for a session that is not here"))?;
    let is_open = match finding {
        Finding::Opened(by, is_open) => is_open && Rc::ptr_eq(&by, &channel),
        Finding::None | Finding::Verified(_) => channel.session.open_sealed(frame).is_some(),
    };
    if !is_open {
        return Err(Disconnect("a sealed frame does not open"));
    }
    connection.byte_cost.set(channel.session.sealed_byte_cost());
    let plain = &mut frame[TRANSFORM_HEADER_LENGTH..];
    match plain.first_chunk::<4>() {
        Some(&header::PROTOCOL_ID) => messages(connection, plain, Some(&channel), Signatures::default()),
        Some(_) | None => Err(Disconnect("a sealed frame holds no SMB2 message")),
    }
}

/// The messages of a frame, one or a chain: all of it, or, where it is sealed, what is behind the header of that.
fn messages(
    connection: &Rc<Connection>,
    frame: &mut [u8],
    sealed: Option<&Rc<Channel>>,
    signatures: Signatures,
) -> Result<Option<Long>, Disconnect> {
    let first = Header::decode(frame).map_err(|_| Disconnect("an SMB2 header is malformed"))?;
    if first.is_response() {
        return Err(Disconnect("a client sent a response"));
    }
    let mut proof = None;
    let is_lone = first.next_command == 0 && hot::is_meant(&first);
    if is_lone && connection.window.borrow().allows(first.message_id, connection.charge(&first)) {
        // What a lone request proves is found once for both ways.
        let proven = match sealed {
            Some(channel) => Proof::of_sealed(channel, &first, true)?,
            None => Proof::of(connection, &first, first.session_id, frame, |channel| signatures.are_right(0, channel)),
        };
        if hot::answer(connection, frame, &first, &proven) {
            return Ok(None);
        }
        proof = Some(proven);
    }
    let at = if sealed.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
    Ok(Some(Long {
        messages: at..at + frame.len(),
        first,
        sealed: sealed.cloned(),
        signatures,
        proof,
        is_refused: false,
    }))
}

/// Charges what a frame needs until it is answered, before there is any of it. `None` where that has to wait.
pub(crate) fn claim(connection: &Connection, need: Need) -> Option<Claim> {
    claim_by(connection, need, Allowance::charge)
}

/// The same for a large frame that keeps the buffer it is in, which is paid for.
pub(crate) fn claim_for_paid(connection: &Connection, need: Need) -> Option<Claim> {
    claim_by(connection, need.of_paid(), Allowance::charge_rest)
}

fn claim_by(connection: &Connection, need: Need, charge: fn(&Allowance, usize) -> Option<Charge>) -> Option<Claim> {
    let allowance = &connection.allowance;
    match need.bytes > ANSWER_BYTES_SMALL {
        true => charge(allowance, need.bytes).or_else(|| allowance.charge_to_answer(need.bytes)).map(Claim::Much),
        false => allowance.may_keep(need.bytes + TASK_BYTES).then_some(Claim::Little(need.bytes)),
    }
}

/// Has all requests of a frame answered with INSUFFICIENT_RESOURCES: what it needs is not to be had.
pub(crate) fn refuse(connection: &Connection, need: Need, long: &mut Long) -> Claim {
    long.is_refused = true;
    Claim::Much(connection.allowance.overdraw(need.bytes_refused))
}

/// Verifies and splits a frame that takes the long way. `None` where nothing is to be answered.
pub(crate) fn admit(connection: &Connection, messages: &mut [u8], long: Long) -> Result<Option<Admitted>, Disconnect> {
    Chain::admit(connection, messages, long)
}

/// Runs what was admitted. Replies are queued now, or later by a task of the connection.
pub(crate) fn run(connection: &Rc<Connection>, admitted: Admitted, kept: Kept, claim: Claim) {
    let (charge, little) = match claim {
        Claim::Much(charge) => (Some(charge), 0),
        Claim::Little(bytes) => (None, bytes),
    };
    let chain = admitted.kept(kept, charge);
    // It is large: it begins where it is to lie.
    let task = Box::write(Box::new_uninit(), chain::run(Rc::clone(connection), chain));
    let mut task: Pin<Box<dyn Future<Output = ()>>> = Box::into_pin(task);
    match task.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(()) => {}
        Poll::Pending => connection.spawn(task, connection.allowance.keep(little)),
    }
}

/// An SMB1 NEGOTIATE that offers SMB2 (MS-SMB2 3.3.5.3.1). Any other SMB1 message ends the connection.
fn multi_protocol(connection: &Rc<Connection>, frame: &mut [u8]) -> Result<(), Disconnect> {
    let reply = negotiate::multi_protocol(connection, frame)?;
    queue(connection, reply.len(), None, |messages| messages.copy_from_slice(&reply));
    Ok(())
}

/// Does what others left for this connection to do, and queues what they left for it to send: notifications, which are not signed (MS-SMB2 3.3.4.6); sealed where the session seals everything.
pub(crate) fn open_post(connection: &Connection) {
    if !connection.has_post() {
        return;
    }
    let post = connection.take_post();
    for letter in post.letters {
        let channel = connection.channel(letter.session);
        let seal = channel.as_deref().filter(|channel| channel.session.seal_required);
        queue(connection, letter.message.len(), seal, |messages| messages.copy_from_slice(&letter.message));
        connection.deliver(letter);
    }
    for session in post.leaving {
        connection.leave(session);
    }
    if post.ends && connection.is_stranger() {
        connection.end(Ending::Now);
    }
}

/// Queues messages of `length` bytes, which `write` puts in place, signed where they are to be; sealed by `seal` where one is given.
pub(crate) fn queue(connection: &Connection, length: usize, seal: Option<&Channel>, write: impl FnOnce(&mut [u8])) {
    if connection.is_silent() {
        return;
    }
    let room = if seal.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
    let Some(prefix) = prefix(connection, room + length) else { return };
    let mut outbox = connection.outbox.borrow_mut();
    // What is queued here is there already.
    let anyway = |size| Some(connection.allowance.overdraw(size));
    let Some(frame) = outbox.room(&connection.buffers, PREFIX_LENGTH + room + length, anyway) else { return };
    let (prefix_room, body) = frame.split_at_mut(PREFIX_LENGTH);
    prefix_room.copy_from_slice(&prefix);
    write(&mut body[room..]);
    if let Some(channel) = seal
        && !channel.seal(body)
    {
        tracing::error!(session = channel.session.id.0, "a session can seal no more; its connection ends");
        connection.end(Ending::Now);
        return;
    }
    let bytes = frame.len();
    outbox.commit(bytes);
}

/// Queues a response that stands in place, signed as it says, or sealed by `seal` where one is given.
pub(crate) fn queue_placed(
    connection: &Connection,
    mut placed: Placed,
    seal: Option<&Channel>,
    charge: Option<Charge>,
) {
    if let Some(signature) = &placed.sign {
        signature.sign(&mut placed.buffer[placed.message.clone()]);
    }
    let Some(frame) = frame(connection, &mut placed, seal.is_some()) else { return };
    if let Some(channel) = seal
        && !channel.seal(&mut placed.buffer[frame.start + PREFIX_LENGTH..frame.end])
    {
        return seals_no_more(connection, channel);
    }
    push(connection, placed.buffer, frame, charge);
}

/// A frame that a thread of the pool completes, in its `turn`.
pub(crate) struct LongAnswer<'a> {
    pub(crate) turn: Turn,
    pub(crate) seal: Option<&'a Channel>,
    pub(crate) charge: Option<Charge>,
}

impl LongAnswer<'_> {
    /// Queues a response that stands in place.
    pub(crate) async fn queue_placed(self, connection: &Connection, mut placed: Placed) {
        if placed.sign.is_none() && self.seal.is_none() {
            return queue_placed(connection, placed, None, self.charge);
        }
        let Some(frame) = frame(connection, &mut placed, self.seal.is_some()) else { return };
        let (Placed { mut buffer, message, sign }, sealed) = (placed, frame.start + PREFIX_LENGTH..frame.end);
        let Some(cover) = self.cover(connection) else { return };
        let work = move || {
            if let Some(signature) = sign {
                signature.sign(&mut buffer[message]);
            }
            cover.is_none_or(|cover| cover.seal(&mut buffer[sealed])).then_some(buffer)
        };
        if let Some(buffer) = self.complete(connection, work).await {
            push(connection, buffer, frame, self.charge);
        }
    }

    /// Queues the responses of a chain. `after` gets the last of them, unless that is sealed, before it is sent.
    pub(crate) async fn queue_chain(self, connection: &Connection, stitch: Stitch, after: impl FnOnce(&[u8])) {
        let room = if self.seal.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
        let (messages, last) = (PREFIX_LENGTH + room, stitch.last_begins());
        let length = messages + stitch.length();
        let Some(prefix) = prefix(connection, length - PREFIX_LENGTH) else { return };
        let Some(cover) = self.cover(connection) else { return };
        let work = move || {
            let mut buffer = Buffer::new(length);
            buffer[..PREFIX_LENGTH].copy_from_slice(&prefix);
            stitch.write(&mut buffer[messages..]);
            cover.is_none_or(|cover| cover.seal(&mut buffer[PREFIX_LENGTH..])).then_some(buffer)
        };
        if let Some(buffer) = self.complete(connection, work).await {
            if self.seal.is_none() {
                after(&buffer[messages + last..]);
            }
            push(connection, buffer, 0..length, self.charge);
        }
    }

    /// What seals it, where something does. `None` where that cannot be done any more.
    fn cover(&self, connection: &Connection) -> Option<Option<Cover>> {
        let Some(channel) = self.seal else { return Some(None) };
        let cover = channel.cover();
        if cover.is_none() {
            seals_no_more(connection, channel);
        }
        cover.map(Some)
    }

    /// Has a thread behind others do `work`, which gives nothing where the session cannot seal.
    async fn complete(
        &self,
        connection: &Connection,
        work: impl FnOnce() -> Option<Buffer> + Send + 'static,
    ) -> Option<Buffer> {
        match connection.server.long_work.hand_over(self.turn, work).await {
            Ok(Some(buffer)) => Some(buffer),
            Ok(None) => {
                self.seal.inspect(|channel| seals_no_more(connection, channel));
                None
            }
            // The server ends.
            Err(_) => {
                connection.end(Ending::Now);
                None
            }
        }
    }
}

/// Writes the prefix of a response that stands in place; gives where the frame lies, with room for a transform header where it `is_sealed`.
/// `None` where it need not, or cannot, be sent.
fn frame(connection: &Connection, placed: &mut Placed, is_sealed: bool) -> Option<Range<usize>> {
    if connection.is_silent() {
        return None;
    }
    let room = if is_sealed { TRANSFORM_HEADER_LENGTH } else { 0 };
    let frame = placed.message.start - room - PREFIX_LENGTH..placed.message.end;
    let (prefix_room, body) = placed.buffer[frame.clone()].split_at_mut(PREFIX_LENGTH);
    prefix_room.copy_from_slice(&prefix(connection, body.len())?);
    Some(frame)
}

/// What stands before a frame of `bytes`.
fn prefix(connection: &Connection, bytes: usize) -> Option<[u8; PREFIX_LENGTH]> {
    let prefix = frame_prefix(bytes);
    if prefix.is_err() {
        tracing::error!(bytes, "a reply is longer than a frame can say");
        connection.end(Ending::Now);
    }
    prefix.ok()
}

fn push(connection: &Connection, buffer: Buffer, frame: Range<usize>, charge: Option<Charge>) {
    if connection.is_silent() {
        return;
    }
    let charge = match charge {
        Some(mut charge) => {
            // What else it was for is held no more.
            charge.shrink_to(buffer.len() as u64);
            charge
        }
        None => connection.allowance.overdraw(buffer.len()),
    };
    connection.outbox.borrow_mut().push(&connection.buffers, buffer, (frame.start, frame.end), charge);
}

fn seals_no_more(connection: &Connection, channel: &Channel) {
    tracing::error!(session = channel.session.id.0, "a session can seal no more; its connection ends");
    connection.end(Ending::Now);
}
