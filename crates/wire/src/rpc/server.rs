//! The server's end of a pipe: bytes written to it become calls, and their answers bytes to be read. One call is answered at a time:
//! the next waits as the client wrote it until the answer before it was read.

use std::collections::VecDeque;

use crate::codec::Malformed;
use crate::rpc::pdu::{
    Bind, BindAck, BindNakReason, CALL_HEADER_BYTES, Context, ContextAnswer, FRAGMENT_BYTES_MAX, FRAGMENT_BYTES_MIN,
    FaultStatus, HEADER_BYTES, Header, PduFlags, PduKind, RejectReason, Request, Response, encode_bind_nak,
    encode_fault,
};
use crate::rpc::service::Service;
use crate::rpc::{Syntax, SyntaxId, lsarpc, samr, srvsvc, wkssvc};

/// The most bytes of parameters in one call. The longest ones here carry a thousand names or SIDs.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// The most bytes that were written and wait to be calls: two of the longest calls. Clients write one and read its answer.
const INPUT_BYTES_MAX: usize = 2 * REQUEST_BYTES_MAX;
/// What a message that waits to be read costs beside its bytes: its place in the queue and what the allocator needs.
const MESSAGE_BYTES: usize = 64;
/// The most presentation contexts on one pipe.
const CONTEXTS_MAX: usize = 16;

/// The peer broke the protocol or asked for too much: the pipe is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed(pub &'static str);

impl From<Malformed> for Closed {
    fn from(malformed: Malformed) -> Self {
        Closed(malformed.0)
    }
}

/// Why the pipe does not take what was written. Nothing of it was taken unless the pipe is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As much as may wait for answers to be read waits already.
    Full,
    /// [`Service::may_hold`] said so.
    NoRoom,
    /// The pipe is to be closed.
    Closed(Closed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Srvsvc,
    Wkssvc,
    Lsarpc,
    Samr,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    context: u16,
    interface: Interface,
    syntax: Syntax,
}

/// A call of which not all fragments have come.
#[derive(Debug)]
struct Partial {
    call: u32,
    context: u16,
    operation: u16,
    stub: Vec<u8>,
}

/// A call that is being answered in steps.
#[derive(Debug)]
struct Work {
    call: u32,
    context: u16,
    task: Task,
}

#[derive(Debug)]
enum Task {
    InUse(srvsvc::Enumeration),
    Lookup(lsarpc::Lookup),
}

impl Task {
    /// Goes on a step; gives the stub once it is complete.
    fn step(&mut self, service: &dyn Service) -> Option<Vec<u8>> {
        match self {
            Task::InUse(enumeration) => enumeration.step(service),
            Task::Lookup(lookup) => lookup.step(service),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Task::InUse(enumeration) => enumeration.held_bytes(),
            Task::Lookup(lookup) => lookup.held_bytes(),
        }
    }
}

/// How a call begins.
enum Begun {
    Answered(Vec<u8>),
    /// It takes long.
    Working(Task),
}

/// What one read of the pipe gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The message has more bytes than were asked for: STATUS_BUFFER_OVERFLOW.
    pub more: bool,
}

/// One client's conversation over one open of a pipe.
#[derive(Debug)]
pub struct Conversation {
    address: String,
    /// What was written: less than one fragment, or calls that wait until the answer before them was read.
    input: Vec<u8>,
    /// How much of `input` is done with.
    input_done: usize,
    /// The answer to one call in messages, the first perhaps read in part. Pipes are read by message.
    output: VecDeque<Vec<u8>>,
    output_bytes: usize,
    transmit_bytes_max: usize,
    bound: Vec<Bound>,
    /// The association group.
    group: u32,
    greeted: bool,
    partial: Option<Partial>,
    work: Option<Work>,
}

impl Conversation {
    /// A conversation over the pipe `name`, such as `srvsvc`.
    pub fn new(name: &str) -> Conversation {
        Conversation {
            address: format!("\\PIPE\\{name}"),
            input: Vec::new(),
            input_done: 0,
            output: VecDeque::new(),
            output_bytes: 0,
            transmit_bytes_max: FRAGMENT_BYTES_MAX,
            bound: Vec::new(),
            group: 0,
            greeted: false,
            partial: None,
            work: None,
        }
    }

    /// Takes what the client wrote: any part of a PDU, or several.
    pub fn feed(&mut self, bytes: &[u8], service: &dyn Service) -> Result<(), Refused> {
        if self.input.len() - self.input_done + bytes.len() > INPUT_BYTES_MAX {
            return Err(Refused::Full);
        }
        // A fragment is held twice while it becomes a part of its call.
        if !service.may_hold(self.held_bytes() + 2 * bytes.len()) {
            return Err(Refused::NoRoom);
        }
        self.input.extend_from_slice(bytes);
        self.proceed(service).map_err(Refused::Closed)
    }

    /// Goes on with what was written, unless there is something to be read. A call that takes long is answered in steps, of which this is one:
    /// as long as [`Conversation::is_working`] there are more.
    pub fn proceed(&mut self, service: &dyn Service) -> Result<(), Closed> {
        if let Some(work) = self.work.take() {
            self.work_on(work, service);
        }
        while self.output.is_empty()
            && self.work.is_none()
            && let Some(fragment) = self.next_fragment()?
        {
            self.fragment(&fragment, service)?;
        }
        if self.input.len() == self.input_done {
            (self.input, self.input_done) = (Vec::new(), 0);
        } else if self.input_done > self.input.len() / 2 {
            self.input.drain(..self.input_done);
            self.input.shrink_to_fit();
            self.input_done = 0;
        }
        Ok(())
    }

    /// True while a call is being answered in steps.
    pub fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// The fragment that is to be done next, where all of it has come.
    fn next_fragment(&mut self) -> Result<Option<Vec<u8>>, Closed> {
        let waiting = self.input.get(self.input_done..).unwrap_or(&[]);
        if waiting.len() < HEADER_BYTES {
            return Ok(None);
        }
        let length = Header::decode(waiting)?.fragment_length;
        if length > FRAGMENT_BYTES_MAX {
            return Err(Closed("fragment is too long"));
        }
        let fragment = waiting.get(..length).map(<[u8]>::to_vec);
        self.input_done += fragment.as_ref().map_or(0, Vec::len);
        Ok(fragment)
    }

    /// Forgets all that was written and not read.
    pub fn clear(&mut self) {
        (self.input, self.input_done, self.partial) = (Vec::new(), 0, None);
        (self.output, self.output_bytes) = (VecDeque::new(), 0);
        self.work = None;
    }

    /// What the conversation makes the server hold, in bytes, beside what an idle one does.
    pub fn held_bytes(&self) -> usize {
        let partial = self.partial.as_ref().map_or(0, |partial| partial.stub.capacity());
        let work = self.work.as_ref().map_or(0, |work| work.task.held_bytes());
        self.input.capacity() + partial + work + self.output_bytes + self.output.len() * MESSAGE_BYTES
    }

    /// The next bytes for the client, `max` at most and none from a second message; `None` where there is nothing to
    /// be read. What waited for them to be read goes on with [`Conversation::proceed`].
    pub fn take(&mut self, max: usize) -> Option<Taken> {
        let first = self.output.front_mut()?;
        let rest = first.split_off(max.min(first.len()));
        let bytes = std::mem::replace(first, rest);
        let more = !first.is_empty();
        if !more {
            self.output.pop_front();
        }
        if self.output.is_empty() {
            // The room of a long answer is not kept.
            self.output = VecDeque::new();
        }
        self.output_bytes -= bytes.len();
        Some(Taken { bytes, more })
    }

    /// What is left of the message that is read next; empty where there is none.
    pub fn peek(&self) -> &[u8] {
        self.output.front().map_or(&[], Vec::as_slice)
    }

    /// Messages that wait to be read.
    pub fn readable_messages(&self) -> usize {
        self.output.len()
    }

    /// Bytes that wait to be read.
    pub fn readable_bytes(&self) -> usize {
        self.output_bytes
    }

    fn fragment(&mut self, fragment: &[u8], service: &dyn Service) -> Result<(), Closed> {
        let header = Header::decode(fragment)?;
        let body = fragment.get(HEADER_BYTES..).unwrap_or(&[]);
        match header.kind {
            PduKind::BIND | PduKind::ALTER_CONTEXT => self.bind(&header, body, service),
            PduKind::REQUEST => self.request(&header, body, service),
            PduKind::ORPHANED => {
                self.partial = None;
                Ok(())
            }
            PduKind::CO_CANCEL => Ok(()),
            _ => Err(Closed("PDU is not one that clients send")),
        }
    }

    fn bind(&mut self, header: &Header, body: &[u8], service: &dyn Service) -> Result<(), Closed> {
        let first = header.kind == PduKind::BIND;
        if first == self.greeted {
            return Err(Closed("BIND and ALTER_CONTEXT are out of order"));
        }
        match Bind::decode(body) {
            Ok(_) if header.auth_length != 0 => {
                self.refuse(header.call, BindNakReason::AUTHENTICATION_TYPE_NOT_RECOGNIZED);
            }
            Ok(bind) if usize::from(bind.receive_bytes_max) >= FRAGMENT_BYTES_MIN => {
                self.accept(header, &bind, service);
            }
            Ok(_) | Err(_) => self.refuse(header.call, BindNakReason::NOT_SPECIFIED),
        }
        Ok(())
    }

    fn accept(&mut self, header: &Header, bind: &Bind<'_>, service: &dyn Service) {
        if !self.greeted {
            self.group = service.join(bind.group);
        }
        self.greeted = true;
        self.transmit_bytes_max = usize::from(bind.receive_bytes_max).min(FRAGMENT_BYTES_MAX);
        let answers: Vec<_> = bind.contexts().map(|context| self.offer(bind, &context)).collect();
        let (kind, address) = match header.kind {
            PduKind::BIND => (PduKind::BIND_ACK, self.address.clone()),
            _ => (PduKind::ALTER_CONTEXT_RESP, String::new()),
        };
        let acknowledgement = BindAck {
            transmit_bytes_max: self.transmit_bytes_max as u16,
            receive_bytes_max: FRAGMENT_BYTES_MAX as u16,
            group: self.group,
        };
        let mut out = Vec::new();
        acknowledgement.encode(kind, header.call, &address, &answers, &mut out);
        self.send(out);
    }

    /// What becomes of one context. NDR64 is spoken only where the client does not offer NDR for the same interface:
    /// every client speaks NDR.
    fn offer(&mut self, bind: &Bind<'_>, context: &Context<'_>) -> ContextAnswer {
        if context.syntaxes().any(|syntax| syntax.is_feature_negotiation()) {
            return ContextAnswer::features(0);
        }
        let interface = match context.interface {
            SyntaxId::SRVSVC => Interface::Srvsvc,
            SyntaxId::WKSSVC => Interface::Wkssvc,
            SyntaxId::LSARPC => Interface::Lsarpc,
            SyntaxId::SAMR => Interface::Samr,
            _ => return ContextAnswer::reject(RejectReason::ABSTRACT_SYNTAX_NOT_SUPPORTED),
        };
        let ndr32_offered = bind
            .contexts()
            .any(|other| other.interface == context.interface && other.syntaxes().any(|id| id == SyntaxId::NDR32));
        let spoken = |syntax: &Syntax| *syntax == Syntax::Ndr32 || !ndr32_offered;
        let Some(syntax) = context.syntaxes().filter_map(|id| Syntax::of(&id)).find(spoken) else {
            return ContextAnswer::reject(RejectReason::TRANSFER_SYNTAXES_NOT_SUPPORTED);
        };
        self.bound.retain(|bound| bound.context != context.id);
        if self.bound.len() == CONTEXTS_MAX {
            return ContextAnswer::reject(RejectReason::LOCAL_LIMIT_EXCEEDED);
        }
        self.bound.push(Bound { context: context.id, interface, syntax });
        ContextAnswer::accept(syntax.id())
    }

    fn request(&mut self, header: &Header, body: &[u8], service: &dyn Service) -> Result<(), Closed> {
        if !self.greeted {
            return Err(Closed("request before a bind"));
        }
        let request = Request::decode(header.flags, body)?;
        if header.auth_length != 0 {
            self.partial = None;
            self.fault(header.call, request.context, FaultStatus::ACCESS_DENIED);
            return Ok(());
        }
        let mut partial = self.continued(header, &request)?;
        if partial.stub.len() + request.stub.len() > REQUEST_BYTES_MAX {
            return Err(Closed("request is too long"));
        }
        partial.stub.extend_from_slice(request.stub);
        if !header.flags.contains(PduFlags::LAST) {
            self.partial = Some(partial);
            return Ok(());
        }
        self.call(&partial, service);
        Ok(())
    }

    /// The call that a fragment begins or goes on with.
    fn continued(&mut self, header: &Header, request: &Request<'_>) -> Result<Partial, Closed> {
        match (header.flags.contains(PduFlags::FIRST), self.partial.take()) {
            (true, None) => Ok(Partial {
                call: header.call,
                context: request.context,
                operation: request.operation,
                stub: Vec::new(),
            }),
            (false, Some(partial)) if partial.call == header.call => Ok(partial),
            (true, Some(_)) | (false, _) => Err(Closed("fragment of another call")),
        }
    }

    fn call(&mut self, call: &Partial, service: &dyn Service) {
        let Some(bound) = self.bound.iter().find(|bound| bound.context == call.context).copied() else {
            return self.fault(call.call, call.context, FaultStatus::UNKNOWN_INTERFACE);
        };
        match execute(&bound, call, service) {
            Ok(Begun::Answered(stub)) => self.respond((call.call, call.context), &stub, service),
            Ok(Begun::Working(task)) => {
                self.work_on(Work { call: call.call, context: call.context, task }, service);
            }
            Err(why) => self.fault(call.call, call.context, why),
        }
    }

    /// Goes on a step.
    fn work_on(&mut self, mut work: Work, service: &dyn Service) {
        match work.task.step(service) {
            Some(stub) => self.respond((work.call, work.context), &stub, service),
            None if service.may_hold(self.held_bytes() + work.task.held_bytes()) => self.work = Some(work),
            None => self.fault(work.call, work.context, FaultStatus::REMOTE_NO_MEMORY),
        }
    }

    fn respond(&mut self, (call, context): (u32, u16), stub: &[u8], service: &dyn Service) {
        let room = (self.transmit_bytes_max - CALL_HEADER_BYTES) / 8 * 8;
        let messages = stub.len().div_ceil(room).max(1);
        if !service.may_hold(self.held_bytes() + stub.len() + messages * (CALL_HEADER_BYTES + MESSAGE_BYTES)) {
            return self.fault(call, context, FaultStatus::REMOTE_NO_MEMORY);
        }
        let mut sent = 0;
        loop {
            let part = &stub[sent..stub.len().min(sent + room)];
            let mut flags = PduFlags::NONE;
            if sent == 0 {
                flags |= PduFlags::FIRST;
            }
            if sent + part.len() == stub.len() {
                flags |= PduFlags::LAST;
            }
            let mut out = Vec::with_capacity(CALL_HEADER_BYTES + part.len());
            Response { context, stub: part }.encode(call, flags, stub.len() - sent, &mut out);
            self.send(out);
            sent += part.len();
            if sent == stub.len() {
                return;
            }
        }
    }

    fn refuse(&mut self, call: u32, reason: BindNakReason) {
        let mut out = Vec::new();
        encode_bind_nak(call, reason, &mut out);
        self.send(out);
    }

    fn fault(&mut self, call: u32, context: u16, status: FaultStatus) {
        let mut out = Vec::new();
        encode_fault(call, context, status, &mut out);
        self.send(out);
    }

    fn send(&mut self, message: Vec<u8>) {
        self.output_bytes += message.len();
        self.output.push_back(message);
    }
}

fn execute(bound: &Bound, call: &Partial, service: &dyn Service) -> Result<Begun, FaultStatus> {
    let Partial { operation, stub, .. } = call;
    let mut out = Vec::new();
    match bound.interface {
        Interface::Srvsvc => {
            let decoded = srvsvc::Call::decode(srvsvc::Operation(*operation), stub, bound.syntax)?;
            if let Some(enumeration) = srvsvc::Enumeration::of(&decoded, bound.syntax) {
                return Ok(Begun::Working(Task::InUse(enumeration)));
            }
            srvsvc::answer(&decoded, service, bound.syntax, &mut out);
        }
        Interface::Wkssvc => {
            wkssvc::answer(*operation, stub, || service.server(), bound.syntax, &mut out)?;
        }
        Interface::Lsarpc => {
            let decoded = lsarpc::Call::decode(lsarpc::Operation(*operation), stub, bound.syntax)?;
            if let Some(lookup) = lsarpc::Lookup::of(&decoded, service, bound.syntax)? {
                return Ok(Begun::Working(Task::Lookup(lookup)));
            }
            lsarpc::answer(&decoded, service, bound.syntax, &mut out)?;
        }
        Interface::Samr if samr::Operation(*operation).is_change() => return Err(FaultStatus::ACCESS_DENIED),
        Interface::Samr => {
            let decoded = samr::Call::decode(samr::Operation(*operation), stub, bound.syntax)?;
            samr::answer(&decoded, service, bound.syntax, &mut out)?;
        }
    }
    Ok(Begun::Answered(out))
}
