//! The fast path of READ and WRITE: no task, no copy, no allocation. Whatever does not fit (a refusal, an end of file, data that
//! is not in memory, a lock on the file) is left to the slow path, which starts anew and says why.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use secure::sign::SigningAlgorithm;
use store::{Error, Waits};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::{WriteRequest, WriteResponse};
use wire::frame::{PREFIX_LENGTH, frame_prefix};
use wire::header::{Flags, HEADER_LENGTH, Header, Route};
use wire::ids::{Command, Dialect, FileId};
use wire::status::Status;
use wire::transform::TRANSFORM_HEADER_LENGTH;

use crate::command::connection::Ending;
use crate::command::proof::{Proof, SealingNeed};
use crate::command::read::Source;
use crate::command::write::Sink;
use crate::request::responder::Responder;
use crate::request::tally::Moved;
use crate::request::write_batch::{Asked, Counted};
use crate::resource::pool::Device;
use crate::state::breaks;
use crate::state::busy_files::Used;
use crate::state::channel_sequence::Step;
use crate::state::counters::Api;
use crate::state::credits;
use crate::state::open::{FileOpen, Open};
use crate::state::open_id::OpenId;
use crate::state::session::Channel;
use crate::state::share_limit::Taken;
use crate::state::written;

/// READ and WRITE responses have a body of so many bytes before their data,
pub(crate) const BODY_BYTES: usize = 16;
/// and this much in all.
const RESPONSE_BYTES: usize = HEADER_LENGTH + BODY_BYTES;
/// From here on a READ's data goes from the page cache to the socket (sendfile): below it the calls cost more than the copies.
const SEND_FILE_BYTES_MIN: usize = 32 << 10;

/// True for what may be answered here, if it stands alone.
pub(crate) fn is_meant(header: &Header) -> bool {
    let plain = !header.flags.intersects(Flags::RELATED_OPERATIONS | Flags::ASYNC_COMMAND);
    plain && matches!(header.command, Command::READ | Command::WRITE)
}

/// Answers a lone READ or WRITE whose message id is good, if nothing stands in the way. False: nothing was changed, take the long
/// way.
pub(crate) fn answer(responder: &Rc<Responder>, message: &mut [u8], header: &Header, proof: &Proof) -> bool {
    match header.command {
        Command::READ => read(responder, message, header, proof).is_some(),
        Command::WRITE => write(responder, message, header, proof).is_some(),
        _ => false,
    }
}

fn read(responder: &Responder, message: &mut [u8], header: &Header, proof: &Proof) -> Option<()> {
    let channel = responder.channel(header.session_id)?;
    let request = ReadRequest::decode(message).ok()?;
    if request.length == 0 || !covered(responder, header, request.length as usize) {
        return None;
    }
    let open = find(&channel, header, request.file_id, proof)?;
    let Ok(Source::File(file)) = Source::of(&request, &open, payload_bytes_max(responder)) else { return None };
    if !is_plain(file) || !has_current_sequence(&channel, &open, header) {
        return None;
    }
    let paid = pay(responder, &open, file, request.length.into())?;
    let shield = Shield::of(&channel, proof);
    let count = match DataPath::of(&request, file, shield) {
        DataPath::AsFile(_) if responder.server.unsendable.contains(|| file.node.identity()) => return None,
        DataPath::AsFile(count) => queue_file(responder, &channel, header, &request, file, count)?,
        // To copy and to sign so much takes milliseconds.
        DataPath::Copied if !responder.turn.may_copy_at_once(request.length.into(), || shield.is_fast(&channel)) => {
            return None;
        }
        DataPath::Copied => queue_data(responder, &channel, header, &request, file, shield)?,
        DataPath::Waits => return None,
    };
    paid.keep(count as u64);
    file.position.store(request.offset + count as u64, Ordering::Relaxed);
    file.audited.read(open.tree.audit(), count as u64);
    let (received, sent) = (message.len() as u64, (RESPONSE_BYTES + count) as u64);
    responder.tally.note(&channel, &open.tree, &Moved { api: Api::Read, data: count as u64, received, sent });
    responder.server.busy_files.note(responder.shard, &open, Used::Read(count as u64));
    Some(())
}

/// How a READ's data leaves.
enum DataPath {
    /// From the file to the socket: so many bytes.
    AsFile(usize),
    /// Through the outbox.
    Copied,
    /// Not all of it is in memory.
    Waits,
}

impl DataPath {
    fn of(request: &ReadRequest<'_>, file: &FileOpen, shield: Shield) -> Self {
        let length = request.length as usize;
        if shield != Shield::None || length < SEND_FILE_BYTES_MIN {
            return DataPath::Copied;
        }
        match file.node.try_resident(request.offset, length) {
            Ok(count) if count < SEND_FILE_BYTES_MIN => DataPath::Copied,
            Ok(count) => DataPath::AsFile(count),
            Err(Error::WouldBlock) => DataPath::Waits,
            Err(_) => DataPath::Copied,
        }
    }
}

/// Queues a READ's response and behind it the part of the file that it promises.
fn queue_file(
    responder: &Responder,
    channel: &Channel,
    header: &Header,
    request: &ReadRequest<'_>,
    file: &FileOpen,
    count: usize,
) -> Option<usize> {
    if count < request.minimum_count as usize {
        return None;
    }
    let mut outbox = responder.outbox.borrow_mut();
    let reply = outbox.room(&responder.buffers, PREFIX_LENGTH + RESPONSE_BYTES, |_| None)?;
    let credits = take_credits(responder, header)?;
    reply[PREFIX_LENGTH + HEADER_LENGTH..].copy_from_slice(&ReadResponse::to_bytes(count as u32));
    finish(reply, count, channel, header, Protect { credits, shield: Shield::None })?;
    outbox.commit(PREFIX_LENGTH + RESPONSE_BYTES);
    outbox.commit_file(Arc::clone(&file.node), request.offset, count);
    Some(count)
}

/// Queues a READ's response with its data, which is read in place.
fn queue_data(
    responder: &Responder,
    channel: &Channel,
    header: &Header,
    request: &ReadRequest<'_>,
    file: &FileOpen,
    shield: Shield,
) -> Option<usize> {
    let prefix = PREFIX_LENGTH + shield.room();
    let mut outbox = responder.outbox.borrow_mut();
    let bytes = prefix + RESPONSE_BYTES + request.length as usize;
    let space = outbox.room(&responder.buffers, bytes, |size| responder.allowance.charge(size))?;
    let count = file.node.try_read_at(&mut space[prefix + RESPONSE_BYTES..], request.offset).unwrap_or(0);
    if count == 0 || count < request.minimum_count as usize {
        outbox.release(&responder.buffers);
        return None;
    }
    let credits = take_credits(responder, header)?;
    let reply = &mut space[..prefix + RESPONSE_BYTES + count];
    reply[prefix + HEADER_LENGTH..prefix + RESPONSE_BYTES].copy_from_slice(&ReadResponse::to_bytes(count as u32));
    finish(reply, 0, channel, header, Protect { credits, shield })?;
    outbox.commit(prefix + RESPONSE_BYTES + count);
    Some(count)
}

/// Makes the WRITE, or leaves it for the pool with others that arrived with it.
fn write(responder: &Responder, message: &mut [u8], header: &Header, proof: &Proof) -> Option<()> {
    let channel = responder.channel(header.session_id)?;
    let message_length = message.len();
    let request = WriteRequest::decode(message).ok()?;
    if request.data.is_empty() || !covered(responder, header, request.data.len()) {
        return None;
    }
    let open = find(&channel, header, request.file_id, proof)?;
    let Ok(Sink::File(file, write)) = Sink::of(&request, &open, payload_bytes_max(responder)) else { return None };
    if write.appends() || !is_plain(file) || !has_current_sequence(&channel, &open, header) {
        return None;
    }
    let end = write.end(request.offset).ok()?;
    let paid = pay(responder, &open, file, request.data.len() as u64)?;
    let through = file.writes_through(request.flags);
    let shield = Shield::of(&channel, proof);
    // A buffered write waits where the kernel likes: for memory, for a journal, for a file system that is frozen.
    if file.node.waits() != Waits::Never {
        let queue_key = channel.session.queue_key(Device::Volume(file.node.identity().volume));
        if through || !responder.writes.take(queue_key) {
            return None;
        }
        let change = open.begin_change(write.range()).ok()?;
        if file.file.has_locks() {
            return None;
        }
        let counted = if session_counts(&channel) { Counted::enter(&open, header).ok()? } else { None };
        responder.window.borrow_mut().take(header.message_id, responder.charge(header)).ok()?;
        paid.keep(u64::MAX);
        let (offset, count) = (request.offset, request.data.len());
        let received = responder.tally.received();
        let asked = Asked {
            open,
            channel,
            header: *header,
            shield,
            offset,
            count,
            message_length,
            received,
            _counted: counted,
        };
        responder.writes.add(queue_key, request.data, asked, change);
        return Some(());
    }
    // Other channels see that it is in flight. A READ need not be seen: one that comes too late does no harm.
    let _counted = match session_counts(&channel) {
        true => open.channel_sequence().enter(Step::of(header)).ok()?,
        false => None,
    };
    let change = open.begin_change_at_once()?;
    if file.file.has_locks() {
        return None;
    }
    // Somebody may be cutting the file, which takes as long as it is long.
    let held = file.node.try_hold()?;
    let written = file.node.write_at(request.data, request.offset);
    let written = written.and_then(|()| if through { file.node.sync() } else { Ok(()) });
    drop(held);
    drop(change);
    responder.turn.spend(breaks::data_changed(&responder.server, file) as usize);
    // A write that fails here is tried again on the slow path, which answers for it. Some of it may have been made.
    written.ok()?;
    let credits = take_credits(responder, header)?;
    queue_write_response(responder, &channel, header, request.data.len(), Protect { credits, shield })?;
    paid.keep(u64::MAX);
    file.position.store(end, Ordering::Relaxed);
    file.audited.wrote(open.tree.audit(), request.data.len() as u64);
    responder.turn.spend_on(|| written::wrote(&responder.server, &open, header.session_id));
    let (data, received) = (request.data.len() as u64, message_length as u64);
    let moved = Moved { api: Api::Write, data, received, sent: RESPONSE_BYTES as u64 };
    responder.tally.note(&channel, &open.tree, &moved);
    responder.server.busy_files.note(responder.shard, &open, Used::Wrote(data));
    Some(())
}

fn queue_write_response(
    responder: &Responder,
    channel: &Channel,
    header: &Header,
    count: usize,
    protect: Protect,
) -> Option<()> {
    let prefix = PREFIX_LENGTH + protect.shield.room();
    let mut outbox = responder.outbox.borrow_mut();
    let reply = outbox.room(&responder.buffers, prefix + RESPONSE_BYTES, |_| None)?;
    reply[prefix + HEADER_LENGTH..].copy_from_slice(&WriteResponse::to_bytes(count as u32));
    finish(reply, 0, channel, header, protect)?;
    outbox.commit(prefix + RESPONSE_BYTES);
    Some(())
}

/// Queues the answer to a WRITE that was made on the pool.
pub(crate) fn queue_written(responder: &Responder, asked: &Asked) {
    let credits = responder.window.borrow_mut().grant(asked.header.credits);
    let protect = Protect { credits, shield: asked.shield };
    if queue_write_response(responder, &asked.channel, &asked.header, asked.count, protect).is_none() {
        // The session can seal no more.
        responder.end(Ending::Now);
    }
}

/// The body of the answer to a WRITE of `count` bytes.
pub(crate) fn written_body(count: usize) -> Vec<u8> {
    WriteResponse::to_bytes(count as u32).to_vec()
}

fn payload_bytes_max(responder: &Responder) -> u32 {
    responder.negotiation.borrow().payload_bytes_max()
}

/// True where the request's credits cover its payload (3.3.5.2.5).
fn covered(responder: &Responder, header: &Header, bytes: usize) -> bool {
    !responder.negotiation.borrow().has_large_mtu() || credits::covers(header.credit_charge, bytes as u64)
}

/// The open, where the request may reach it.
fn find(channel: &Channel, header: &Header, file_id: FileId, proof: &Proof) -> Option<Arc<Open>> {
    let session = &channel.session;
    let open = session.open(OpenId::from_file_id(file_id)?)?;
    let sealing = SealingNeed::required_where(session.seal_required || open.tree.requires_sealing());
    let is_admitted = open.tree.admits(channel.facts.host);
    let reachable = is_admitted && proof.check(session, sealing).is_ok() && open.tree.id == header.tree_id();
    reachable.then_some(open)
}

/// What a READ or WRITE has taken of the limits of its share, where there are any.
struct Paid<'a>(Option<Taken<'a>>);

impl Paid<'_> {
    /// It is made, with so many of its bytes.
    fn keep(self, bytes: u64) {
        if let Some(taken) = self.0 {
            taken.keep(bytes);
        }
    }
}

/// Takes so many bytes of the limits of the open's share; `None` where the request has to wait for them.
fn pay<'a>(responder: &Responder, open: &'a Open, file: &'a FileOpen, bytes: u64) -> Option<Paid<'a>> {
    match open.tree.limit() {
        None => Some(Paid(None)),
        Some(limit) => {
            limit.try_take(bytes, Some(&file.file.taken), responder.batch_time()).map(|taken| Paid(Some(taken)))
        }
    }
}

/// True where nothing has to be looked at, or done, beside the data: no byte-range locks, no times that stay, no CREATE that may be replayed. That there
/// are locks is one atomic flag; their ranges are behind the file's lock, which the fast path never takes.
fn is_plain(file: &FileOpen) -> bool {
    !file.file.has_locks() && !file.has_frozen_times() && !file.durability.is_replayable()
}

/// True where the client has not changed channels since it last used the open (3.3.5.2.10).
fn has_current_sequence(channel: &Channel, open: &Open, header: &Header) -> bool {
    !session_counts(channel) || open.channel_sequence().is_current(header)
}

/// The header has a channel sequence.
fn session_counts(channel: &Channel) -> bool {
    channel.session.dialect >= Dialect::SMB_3_0
}

fn take_credits(responder: &Responder, header: &Header) -> Option<u16> {
    let charge = responder.charge(header);
    let mut window = responder.window.borrow_mut();
    window.take(header.message_id, charge).ok()?;
    Some(window.grant(header.credits))
}

/// How a response is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shield {
    None,
    Signed,
    Sealed,
}

impl Shield {
    fn of(channel: &Rc<Channel>, proof: &Proof) -> Self {
        if proof.seals(&channel.session) {
            Shield::Sealed
        } else if proof.signer(Some(channel)).is_some() {
            Shield::Signed
        } else {
            Shield::None
        }
    }

    /// True where to protect data, or to verify it, takes no longer than to copy it.
    pub(crate) fn is_fast(self, channel: &Channel) -> bool {
        match self {
            Shield::None => true,
            Shield::Signed => channel.facts.signing == SigningAlgorithm::AesGmac,
            Shield::Sealed => channel.session.sealed_byte_cost() == 1,
        }
    }

    /// Bytes in front of the SMB2 header.
    fn room(self) -> usize {
        match self {
            Shield::Sealed => TRANSFORM_HEADER_LENGTH,
            Shield::None | Shield::Signed => 0,
        }
    }
}

struct Protect {
    credits: u16,
    shield: Shield,
}

/// Completes a frame whose body stands in place, but for `file_bytes` that follow it: prefix, header, signature or seal.
fn finish(frame: &mut [u8], file_bytes: usize, channel: &Channel, request: &Header, protect: Protect) -> Option<()> {
    let (prefix, rest) = frame.split_at_mut(PREFIX_LENGTH);
    prefix.copy_from_slice(&frame_prefix(rest.len() + file_bytes).ok()?);
    let message = rest.get_mut(protect.shield.room()..)?;
    let signed = if protect.shield == Shield::Signed { Flags::SIGNED } else { Flags::NONE };
    let header = Header {
        credit_charge: request.credit_charge,
        status: Status::SUCCESS,
        command: request.command,
        credits: protect.credits,
        flags: Flags::SERVER_TO_REDIR | (request.flags & Flags::PRIORITY_MASK) | signed,
        next_command: 0,
        message_id: request.message_id,
        route: Route::Sync { tree_id: request.tree_id() },
        session_id: request.session_id,
        signature: [0; 16],
    };
    message.get_mut(..HEADER_LENGTH)?.copy_from_slice(&header.to_bytes());
    match protect.shield {
        Shield::None => {}
        Shield::Signed => channel.sign(message),
        Shield::Sealed if !channel.seal(rest) => return None,
        Shield::Sealed => {}
    }
    Some(())
}
