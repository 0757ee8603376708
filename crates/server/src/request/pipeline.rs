//! The way of a request, from a frame to its queued reply: unseal, split, credits, verify, admission, command, join, sign,
//! seal. READ and WRITE that nothing stands in the way of take the fast path in [`crate::request::fast_path`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use wire::header::{self, Header};
use wire::smb1::SMB1_PROTOCOL_ID;
use wire::transform::{TRANSFORM_HEADER_LENGTH, TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::command::connection::{Disconnect, TASK_BYTES};
use crate::command::negotiate;
use crate::command::proof::Proof;
use crate::request::answer;
use crate::request::chain::{self, Admitted, Chain};
use crate::request::fast_path;
use crate::request::finding::{Finding, Signatures};
use crate::request::inbox::Kept;
use crate::request::responder::Responder;
use crate::request::slow_path::{Long, Need};
use crate::resource::allowance::{ANSWER_BYTES_SMALL, Allowance};
use crate::resource::budget::Charge;
use crate::state::session::Channel;

/// What the slow path of a frame holds until it is answered.
pub(crate) enum SlowPathCharge {
    /// It was charged.
    Much(Charge),
    /// So little that it counts only while it waits.
    Little(usize),
}

/// Deals with one frame, or gives it back where it takes the slow path.
pub(crate) fn process(
    responder: &Rc<Responder>,
    frame: &mut [u8],
    finding: Finding,
) -> Result<Option<Long>, Disconnect> {
    match (frame.first_chunk::<4>(), finding) {
        (Some(&header::PROTOCOL_ID), Finding::Verified(signatures)) => messages(responder, frame, None, signatures),
        (Some(&header::PROTOCOL_ID), _) => messages(responder, frame, None, Signatures::default()),
        (Some(&TRANSFORM_PROTOCOL_ID), finding) => sealed(responder, frame, finding),
        (Some(&SMB1_PROTOCOL_ID), _) => multi_protocol(responder, frame).map(|()| None),
        (Some(_), _) => Err(Disconnect("not SMB")),
        (None, _) => Err(Disconnect("a frame is too short")),
    }
}

/// Unseals a frame (MS-SMB2 3.3.5.2.1). What cannot be unsealed ends the connection.
fn sealed(responder: &Rc<Responder>, frame: &mut [u8], finding: Finding) -> Result<Option<Long>, Disconnect> {
    let header = TransformHeader::decode(frame).map_err(|_| Disconnect("a transform header is malformed"))?;
    let channel = responder.channels.borrow().get(&header.session_id).cloned();
    let channel = channel.ok_or(Disconnect("sealed for a session that is not here"))?;
    let is_open = match finding {
        Finding::Opened(by, is_open) => is_open && Rc::ptr_eq(&by, &channel),
        Finding::None | Finding::Verified(_) => channel.session.open_sealed(frame).is_some(),
    };
    if !is_open {
        return Err(Disconnect("a sealed frame does not open"));
    }
    responder.byte_cost.set(channel.session.sealed_byte_cost());
    let plain = &mut frame[TRANSFORM_HEADER_LENGTH..];
    match plain.first_chunk::<4>() {
        Some(&header::PROTOCOL_ID) => messages(responder, plain, Some(&channel), Signatures::default()),
        Some(_) | None => Err(Disconnect("a sealed frame holds no SMB2 message")),
    }
}

/// The messages of a frame, one or a chain: all of it, or, where it is sealed, what is behind the header of that.
fn messages(
    responder: &Rc<Responder>,
    frame: &mut [u8],
    sealed: Option<&Rc<Channel>>,
    signatures: Signatures,
) -> Result<Option<Long>, Disconnect> {
    let first = Header::decode(frame).map_err(|_| Disconnect("an SMB2 header is malformed"))?;
    if first.is_response() {
        return Err(Disconnect("a client sent a response"));
    }
    let mut proof = None;
    let is_lone = first.next_command == 0 && fast_path::is_meant(&first);
    if is_lone && responder.window.borrow().allows(first.message_id, responder.charge(&first)) {
        // What a lone request proves is found once for both ways.
        let proven = match sealed {
            Some(channel) => Proof::of_sealed(channel, &first, true)?,
            None => Proof::of(responder, &first, first.session_id, frame, |channel| signatures.are_right(0, channel)),
        };
        if fast_path::answer(responder, frame, &first, &proven) {
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
        received: responder.tally.received(),
        held_back: Duration::ZERO,
    }))
}

/// Charges what a frame needs until it is answered, before there is any of it. `None` where that has to wait.
pub(crate) fn claim(responder: &Responder, need: Need) -> Option<SlowPathCharge> {
    claim_by(responder, need, Allowance::charge)
}

/// The same for a large frame that keeps the buffer it is in, which is paid for.
pub(crate) fn claim_for_paid(responder: &Responder, need: Need) -> Option<SlowPathCharge> {
    claim_by(responder, need.of_paid(), Allowance::charge_rest)
}

fn claim_by(
    responder: &Responder,
    need: Need,
    charge: fn(&Allowance, usize) -> Option<Charge>,
) -> Option<SlowPathCharge> {
    let allowance = &responder.allowance;
    match need.bytes > ANSWER_BYTES_SMALL {
        true => {
            charge(allowance, need.bytes).or_else(|| allowance.charge_to_answer(need.bytes)).map(SlowPathCharge::Much)
        }
        false => allowance.may_keep(need.bytes + TASK_BYTES).then_some(SlowPathCharge::Little(need.bytes)),
    }
}

/// Has all requests of a frame answered with INSUFFICIENT_RESOURCES: what it needs is not to be had.
pub(crate) fn refuse(responder: &Responder, need: Need, long: &mut Long) -> SlowPathCharge {
    long.is_refused = true;
    SlowPathCharge::Much(responder.allowance.overdraw(need.bytes_refused))
}

/// Verifies and splits a frame that takes the slow path. `None` where nothing is to be answered.
pub(crate) fn admit(responder: &Responder, messages: &mut [u8], long: Long) -> Result<Option<Admitted>, Disconnect> {
    Chain::admit(responder, messages, long)
}

/// Runs what was admitted. Replies are queued now, or later by a task of the connection.
pub(crate) fn run(responder: &Rc<Responder>, admitted: Admitted, kept: Kept, claim: SlowPathCharge) {
    let (charge, little) = match claim {
        SlowPathCharge::Much(charge) => (Some(charge), 0),
        SlowPathCharge::Little(bytes) => (None, bytes),
    };
    let chain = admitted.kept(kept, charge);
    // It is large: it begins where it is to lie.
    let task = Box::write(Box::new_uninit(), chain::run(Rc::clone(responder), chain));
    let mut task: Pin<Box<dyn Future<Output = ()>>> = Box::into_pin(task);
    match task.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(()) => {}
        Poll::Pending => responder.connection.spawn(task, responder.allowance.keep(little)),
    }
}

/// An SMB1 NEGOTIATE that offers SMB2 (MS-SMB2 3.3.5.3.1). Any other SMB1 message ends the connection.
fn multi_protocol(responder: &Rc<Responder>, frame: &mut [u8]) -> Result<(), Disconnect> {
    let reply = negotiate::multi_protocol(responder, frame)?;
    answer::queue(responder, reply.len(), None, |messages| messages.copy_from_slice(&reply));
    Ok(())
}
