//! The way of a request, from a frame to its queued reply: unseal, split, credits, verify, gate, command, stitch, sign,
//! seal. READ and WRITE that nothing stands in the way of take the short way in [`crate::hot`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use wire::frame::{PREFIX_LENGTH, frame_prefix};
use wire::header::{self, Header};
use wire::smb1::SMB1_PROTOCOL_ID;
use wire::transform::{TRANSFORM_HEADER_LENGTH, TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::chain::{self, Chain};
use crate::command::negotiate;
use crate::connection::{Connection, Disconnect, Ending};
use crate::hot;
use crate::proof::Proof;
use crate::session::Channel;

/// Deals with one frame. Replies are queued now, or later by a task of the connection.
pub(crate) fn process(connection: &Rc<Connection>, frame: &mut [u8]) -> Result<(), Disconnect> {
    match frame.first_chunk::<4>() {
        Some(&header::PROTOCOL_ID) => messages(connection, frame, None),
        Some(&TRANSFORM_PROTOCOL_ID) => sealed(connection, frame),
        Some(&SMB1_PROTOCOL_ID) => multi_protocol(connection, frame),
        Some(_) => Err(Disconnect("not SMB")),
        None => Err(Disconnect("a frame is too short")),
    }
}

/// Unseals a frame (MS-SMB2 3.3.5.2.1). What cannot be unsealed ends the connection.
fn sealed(connection: &Rc<Connection>, frame: &mut [u8]) -> Result<(), Disconnect> {
    let header = TransformHeader::decode(frame).map_err(|_| Disconnect("a transform header is malformed"))?;
    let channel = connection.channels.borrow().get(&header.session_id).cloned();
    let channel = channel.ok_or(Disconnect("sealed for a session that is not here"))?;
    let plain = channel.session.open_sealed(frame).ok_or(Disconnect("a sealed frame does not open"))?;
    match plain.first_chunk::<4>() {
        Some(&header::PROTOCOL_ID) => messages(connection, plain, Some(&channel)),
        Some(_) | None => Err(Disconnect("a sealed frame holds no SMB2 message")),
    }
}

/// The messages of a frame, one or a chain.
fn messages(connection: &Rc<Connection>, frame: &mut [u8], sealed: Option<&Rc<Channel>>) -> Result<(), Disconnect> {
    let first = Header::decode(frame).map_err(|_| Disconnect("an SMB2 header is malformed"))?;
    if first.is_response() {
        return Err(Disconnect("a client sent a response"));
    }
    let Some(chain) = admit(connection, frame, first, sealed)? else { return Ok(()) };
    let mut task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(chain::run(Rc::clone(connection), chain));
    match task.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(()) => {}
        Poll::Pending => connection.spawn(task),
    }
    Ok(())
}

/// What is left to be run: nothing where a lone READ or WRITE was answered at once. What a lone request proves is found once for both ways.
fn admit(
    connection: &Rc<Connection>,
    frame: &mut [u8],
    first: Header,
    sealed: Option<&Rc<Channel>>,
) -> Result<Option<Chain>, Disconnect> {
    let is_lone = first.next_command == 0 && hot::is_meant(&first);
    if !is_lone || !connection.window.borrow().allows(first.message_id, connection.charge(&first)) {
        return Chain::admit(connection, frame, first, sealed, None);
    }
    let proof = match sealed {
        Some(channel) => Proof::of_sealed(channel, &first, true)?,
        None => Proof::of(connection, &first, first.session_id, frame),
    };
    if hot::answer(connection, frame, &first, &proof) {
        return Ok(None);
    }
    Chain::admit(connection, frame, first, sealed, Some(proof))
}

/// An SMB1 NEGOTIATE that offers SMB2 (MS-SMB2 3.3.5.3.1). Any other SMB1 message ends the connection.
fn multi_protocol(connection: &Rc<Connection>, frame: &mut [u8]) -> Result<(), Disconnect> {
    let reply = negotiate::multi_protocol(connection, frame)?;
    queue(connection, reply.len(), None, |messages| messages.copy_from_slice(&reply));
    Ok(())
}

/// Does what others left for this connection to do, and queues what they left for it to send: notifications, which are not signed (MS-SMB2 3.3.4.6); sealed where the session seals everything.
pub(crate) fn open_post(connection: &Connection) {
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
}

/// Queues messages of `length` bytes, which `write` puts in place, signed where they are to be; sealed by `seal` where one is given.
pub(crate) fn queue(connection: &Connection, length: usize, seal: Option<&Channel>, write: impl FnOnce(&mut [u8])) {
    if connection.is_silent() {
        return;
    }
    let room = if seal.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
    let mut outbox = connection.outbox.borrow_mut();
    let Ok(prefix) = frame_prefix(room + length) else {
        tracing::error!(bytes = length, "a reply is longer than a frame can say");
        connection.end(Ending::Now);
        return;
    };
    let frame = outbox.room(&connection.buffers, PREFIX_LENGTH + room + length);
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
