//! The client's end of a pipe: one interface, one call at a time, in NDR.

use crate::codec::Malformed;
use crate::rpc::SyntaxId;
use crate::rpc::pdu::{
    Bind, BindAck, CALL_HEADER_BYTES, ContextResult, FRAGMENT_BYTES_MAX, FRAGMENT_BYTES_MIN, FaultStatus, HEADER_BYTES,
    Header, PduFlags, PduKind, Request, Response, decode_fault,
};

/// The most bytes of an answer.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Why a bind or a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server sent nonsense.
    Malformed(Malformed),
    /// The server does not let us bind.
    Rejected,
    /// The call failed.
    Fault(FaultStatus),
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Failure::Malformed(malformed)
    }
}

/// The PDU that binds to `interface`: to be written to the pipe.
pub fn bind(interface: &SyntaxId) -> Vec<u8> {
    let mut out = Vec::new();
    Bind::encode(1, interface, &mut out);
    out
}

/// Reads the answer to [`bind`]; gives the longest fragment that the server takes, in bytes.
pub fn bound(message: &[u8]) -> Result<usize, Failure> {
    let (header, body) = split(message)?;
    match header.kind {
        PduKind::BIND_ACK => {
            let (acknowledgement, answer) = BindAck::decode(body)?;
            if answer.result != ContextResult::ACCEPTANCE || answer.syntax != SyntaxId::NDR32 {
                return Err(Failure::Rejected);
            }
            let max = usize::from(acknowledgement.receive_bytes_max);
            Ok(max.clamp(FRAGMENT_BYTES_MIN, FRAGMENT_BYTES_MAX))
        }
        PduKind::BIND_NAK => Err(Failure::Rejected),
        _ => Err(Malformed("not an answer to BIND").into()),
    }
}

/// The fragments of a call, each to be written to the pipe at once. `fragment_bytes_max` is what [`bound`] gave.
pub fn request(call: u32, operation: u16, stub: &[u8], fragment_bytes_max: usize) -> Vec<Vec<u8>> {
    let room = fragment_bytes_max.clamp(FRAGMENT_BYTES_MIN, FRAGMENT_BYTES_MAX) - CALL_HEADER_BYTES;
    let parts: Vec<&[u8]> = if stub.is_empty() { vec![&[]] } else { stub.chunks(room).collect() };
    let last = parts.len() - 1;
    let mut fragments = Vec::new();
    for (index, part) in parts.into_iter().enumerate() {
        let mut flags = PduFlags::NONE;
        if index == 0 {
            flags |= PduFlags::FIRST;
        }
        if index == last {
            flags |= PduFlags::LAST;
        }
        let mut out = Vec::new();
        Request { context: 0, operation, stub: part }.encode(call, flags, stub.len() - index * room, &mut out);
        fragments.push(out);
    }
    fragments
}

/// An answer of which fragments come in.
#[derive(Debug)]
pub struct Answer {
    call: u32,
    stub: Vec<u8>,
}

impl Answer {
    /// The answer to call `call`, nothing of it received yet.
    pub fn new(call: u32) -> Answer {
        Answer { call, stub: Vec::new() }
    }

    /// Takes one fragment; gives the whole stub with the last.
    pub fn fragment(&mut self, message: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let (header, body) = split(message)?;
        if header.call != self.call {
            return Err(Malformed("answer to another call").into());
        }
        match header.kind {
            PduKind::FAULT => Err(Failure::Fault(decode_fault(body)?)),
            PduKind::RESPONSE => {
                let part = Response::decode(body)?.stub;
                if self.stub.len() + part.len() > RESPONSE_BYTES_MAX {
                    return Err(Malformed("answer is too long").into());
                }
                self.stub.extend_from_slice(part);
                let whole = header.flags.contains(PduFlags::LAST);
                Ok(whole.then(|| std::mem::take(&mut self.stub)))
            }
            _ => Err(Malformed("not an answer to a request").into()),
        }
    }
}

/// The length of the fragment that begins with `bytes`, or `None` where its header is not whole: how much to read
/// from the pipe.
pub fn fragment_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    Header::decode(bytes).map(|header| Some(header.fragment_length))
}

/// Header and body of one fragment. Authentication was not asked for, so there must be none.
fn split(message: &[u8]) -> Result<(Header, &[u8]), Malformed> {
    let header = Header::decode(message)?;
    if header.auth_length != 0 {
        return Err(Malformed("authentication that was not asked for"));
    }
    let body = message.get(HEADER_BYTES..header.fragment_length).ok_or(Malformed("frag_length"))?;
    Ok((header, body))
}
