//! Connection-oriented PDUs (C706 12.6).

use crate::codec::{Malformed, Reader, Writer};
use crate::rpc::SyntaxId;

/// The longest fragment that we send or take, in bytes: what Windows uses on pipes.
pub const FRAGMENT_BYTES_MAX: usize = 4280;
/// The shortest fragment that everyone takes, in bytes (C706 12.6.3.1, MustRecvFragSize).
pub const FRAGMENT_BYTES_MIN: usize = 1432;
/// Bytes in the header that every PDU has.
pub const HEADER_BYTES: usize = 16;
/// Bytes before the stub in a request without object and in a response.
pub const CALL_HEADER_BYTES: usize = 24;

const VERSION: u8 = 5;
/// Little-endian integers, ASCII, IEEE floats.
const DATA_REPRESENTATION: [u8; 4] = [0x10, 0, 0, 0];

numbers! {
    /// What a PDU is (C706 12.6.4).
    PduKind(u8) {
        /// A call.
        REQUEST = 0,
        /// Its answer.
        RESPONSE = 2,
        /// Its failure.
        FAULT = 3,
        /// The first PDU: what the client wants to call.
        BIND = 11,
        /// What it may call.
        BIND_ACK = 12,
        /// It may not.
        BIND_NAK = 13,
        /// More that the client wants to call.
        ALTER_CONTEXT = 14,
        /// What it may call.
        ALTER_CONTEXT_RESP = 15,
        /// The last leg of an authentication.
        AUTH3 = 16,
        /// The client does not want to wait.
        CO_CANCEL = 18,
        /// The client gives up a call that it has not wholly sent.
        ORPHANED = 19,
    }
}

flags! {
    /// How a PDU is sent (C706 12.6.3.1).
    PduFlags(u8) {
        /// The first fragment.
        FIRST = 0x01,
        /// The last fragment.
        LAST = 0x02,
        /// A cancel was pending.
        PENDING_CANCEL = 0x04,
        /// Calls may overlap.
        CONCURRENT_MULTIPLEX = 0x10,
        /// The call was not begun.
        DID_NOT_EXECUTE = 0x20,
        /// May be executed twice.
        MAYBE = 0x40,
        /// The request names an object.
        OBJECT_UUID = 0x80,
    }
}

numbers! {
    /// Why a call failed (C706 appendix E, MS-ERREF).
    FaultStatus(u32) {
        /// No such operation.
        OP_RANGE_ERROR = 0x1C01_0002,
        /// No such interface.
        UNKNOWN_INTERFACE = 0x1C01_0003,
        /// The peer broke the protocol.
        PROTOCOL_ERROR = 0x1C01_000B,
        /// A union's discriminant names no arm.
        INVALID_TAG = 0x1C00_0006,
        /// The handle is not open.
        CONTEXT_MISMATCH = 0x1C00_001A,
        /// There is no memory for the answer.
        REMOTE_NO_MEMORY = 0x1C00_001B,
        /// The parameters cannot be read.
        BAD_STUB_DATA = 0x0000_06F7,
        /// Not allowed.
        ACCESS_DENIED = 0x0000_0005,
    }
}

numbers! {
    /// What becomes of a presentation context (C706 12.6.3.1, MS-RPCE 2.2.2.4).
    ContextResult(u16) {
        /// It may be used.
        ACCEPTANCE = 0,
        /// The user rejects it.
        USER_REJECTION = 1,
        /// The provider rejects it.
        PROVIDER_REJECTION = 2,
        /// The reason holds the features that both know.
        NEGOTIATE_ACK = 3,
    }
}

numbers! {
    /// Why a presentation context is rejected (C706 12.6.3.1).
    RejectReason(u16) {
        /// None given.
        NOT_SPECIFIED = 0,
        /// No such interface.
        ABSTRACT_SYNTAX_NOT_SUPPORTED = 1,
        /// No such transfer syntax.
        TRANSFER_SYNTAXES_NOT_SUPPORTED = 2,
        /// Too many of them.
        LOCAL_LIMIT_EXCEEDED = 3,
    }
}

numbers! {
    /// Why a bind is rejected (C706 12.6.3.1, MS-RPCE 2.2.2.5).
    BindNakReason(u16) {
        /// None given.
        NOT_SPECIFIED = 0,
        /// Another version of the protocol.
        PROTOCOL_VERSION_NOT_SUPPORTED = 4,
        /// No such authentication.
        AUTHENTICATION_TYPE_NOT_RECOGNIZED = 8,
    }
}

/// The header that every PDU has.
///
/// | offset | length | field |
/// |---|---|---|
/// | 0 | 2 | rpc_vers 5, rpc_vers_minor 0 or 1 |
/// | 2 | 1 | PTYPE |
/// | 3 | 1 | pfc_flags |
/// | 4 | 4 | packed_drep |
/// | 8 | 2 | frag_length |
/// | 10 | 2 | auth_length |
/// | 12 | 4 | call_id |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the PDU is.
    pub kind: PduKind,
    /// How it is sent.
    pub flags: PduFlags,
    /// Its whole length in bytes.
    pub fragment_length: usize,
    /// Bytes of authentication at its end, the eight bytes before them not counted.
    pub auth_length: usize,
    /// Which call it belongs to.
    pub call: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`. Another version or big-endian integers are malformed.
    pub fn decode(bytes: &[u8]) -> Result<Header, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION || reader.u8()? > 1 {
            return Err(Malformed("RPC version"));
        }
        let (kind, flags) = (PduKind(reader.u8()?), PduFlags(reader.u8()?));
        if reader.array::<4>()?[0] != DATA_REPRESENTATION[0] {
            return Err(Malformed("RPC data representation"));
        }
        let fragment_length = usize::from(reader.u16()?);
        if fragment_length < HEADER_BYTES {
            return Err(Malformed("frag_length"));
        }
        let auth_length = usize::from(reader.u16()?);
        Ok(Header { kind, flags, fragment_length, auth_length, call: reader.u32()? })
    }
}

/// Appends a PDU of `kind` to `out`; `body` writes what follows the header.
fn encode(out: &mut Vec<u8>, kind: PduKind, flags: PduFlags, call: u32, body: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = Writer::new(out);
    writer.bytes(&[VERSION, 0, kind.0, flags.0]);
    writer.bytes(&DATA_REPRESENTATION);
    writer.u16(0);
    writer.u16(0);
    writer.u32(call);
    body(&mut writer);
    writer.patch_u16(8, writer.position() as u16);
}

/// A presentation context that the client offers: an interface and the syntaxes in which it would speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// Names the context in requests.
    pub id: u16,
    /// The interface.
    pub interface: SyntaxId,
    syntaxes: &'a [u8],
}

impl<'a> Context<'a> {
    /// The transfer syntaxes.
    pub fn syntaxes(&self) -> impl Iterator<Item = SyntaxId> + 'a {
        self.syntaxes.chunks_exact(SyntaxId::LENGTH).filter_map(|bytes| SyntaxId::read(&mut Reader::new(bytes)).ok())
    }

    fn read(reader: &mut Reader<'a>) -> Result<Context<'a>, Malformed> {
        let id = reader.u16()?;
        let count = usize::from(reader.u8()?);
        reader.skip(1)?;
        let interface = SyntaxId::read(reader)?;
        Ok(Context { id, interface, syntaxes: reader.bytes(count * SyntaxId::LENGTH)? })
    }
}

/// BIND and ALTER_CONTEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The longest fragment that the client sends, in bytes.
    pub transmit_bytes_max: u16,
    /// The longest fragment that the client takes, in bytes.
    pub receive_bytes_max: u16,
    /// The association group; zero for a new one.
    pub group: u32,
    count: u8,
    contexts: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Reads what follows the header. Every announced context must be there.
    pub fn decode(body: &'a [u8]) -> Result<Bind<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let (transmit_bytes_max, receive_bytes_max) = (reader.u16()?, reader.u16()?);
        let group = reader.u32()?;
        let count = reader.u8()?;
        reader.skip(3)?;
        let contexts = reader.rest();
        let bind = Bind { transmit_bytes_max, receive_bytes_max, group, count, contexts };
        let mut reader = Reader::new(contexts);
        for _ in 0..count {
            Context::read(&mut reader)?;
        }
        Ok(bind)
    }

    /// The contexts offered.
    pub fn contexts(&self) -> impl Iterator<Item = Context<'a>> + use<'a> {
        let mut reader = Reader::new(self.contexts);
        (0..self.count).map_while(move |_| Context::read(&mut reader).ok())
    }

    /// Appends a BIND for one interface to `out`: context 0 in NDR.
    pub fn encode(call: u32, interface: &SyntaxId, out: &mut Vec<u8>) {
        encode(out, PduKind::BIND, PduFlags::FIRST | PduFlags::LAST, call, |writer| {
            writer.u16(FRAGMENT_BYTES_MAX as u16);
            writer.u16(FRAGMENT_BYTES_MAX as u16);
            writer.u32(0);
            writer.bytes(&[1, 0, 0, 0]);
            writer.u16(0);
            writer.bytes(&[1, 0]);
            interface.write(writer);
            SyntaxId::NDR32.write(writer);
        });
    }
}

/// What became of one presentation context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextAnswer {
    /// Whether it may be used.
    pub result: ContextResult,
    /// Why not; or, with [`ContextResult::NEGOTIATE_ACK`], the features.
    pub reason: u16,
    /// In which syntax; nil where it may not be used.
    pub syntax: SyntaxId,
}

impl ContextAnswer {
    /// The context may be used in `syntax`.
    pub fn accept(syntax: SyntaxId) -> ContextAnswer {
        ContextAnswer { result: ContextResult::ACCEPTANCE, reason: 0, syntax }
    }

    /// The context may not be used.
    pub fn reject(reason: RejectReason) -> ContextAnswer {
        ContextAnswer { result: ContextResult::PROVIDER_REJECTION, reason: reason.0, syntax: SyntaxId::default() }
    }

    /// The answer to feature negotiation: `features` are those that both know.
    pub fn features(features: u16) -> ContextAnswer {
        ContextAnswer { result: ContextResult::NEGOTIATE_ACK, reason: features, syntax: SyntaxId::default() }
    }

    fn read(reader: &mut Reader<'_>) -> Result<ContextAnswer, Malformed> {
        let (result, reason) = (ContextResult(reader.u16()?), reader.u16()?);
        Ok(ContextAnswer { result, reason, syntax: SyntaxId::read(reader)? })
    }
}

/// The fixed part of BIND_ACK and ALTER_CONTEXT_RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAck {
    /// The longest fragment that the server sends, in bytes.
    pub transmit_bytes_max: u16,
    /// The longest fragment that the server takes, in bytes.
    pub receive_bytes_max: u16,
    /// The association group.
    pub group: u32,
}

impl BindAck {
    /// Appends a PDU of `kind`, BIND_ACK or ALTER_CONTEXT_RESP, to `out`. `address` is the secondary address,
    /// `\PIPE\srvsvc`; empty in the latter. At most 255 answers are sent.
    pub fn encode(&self, kind: PduKind, call: u32, address: &str, answers: &[ContextAnswer], out: &mut Vec<u8>) {
        encode(out, kind, PduFlags::FIRST | PduFlags::LAST, call, |writer| {
            writer.u16(self.transmit_bytes_max);
            writer.u16(self.receive_bytes_max);
            writer.u32(self.group);
            if address.is_empty() {
                writer.u16(0);
            } else {
                writer.u16(address.len() as u16 + 1);
                writer.bytes(address.as_bytes());
                writer.u8(0);
            }
            writer.align(4);
            let answers = &answers[..answers.len().min(usize::from(u8::MAX))];
            writer.bytes(&[answers.len() as u8, 0, 0, 0]);
            for answer in answers {
                writer.u16(answer.result.0);
                writer.u16(answer.reason);
                answer.syntax.write(writer);
            }
        });
    }

    /// Reads what follows the header; gives the first answer too.
    pub fn decode(body: &[u8]) -> Result<(BindAck, ContextAnswer), Malformed> {
        let mut reader = Reader::new(body);
        let (transmit_bytes_max, receive_bytes_max) = (reader.u16()?, reader.u16()?);
        let group = reader.u32()?;
        let address_length = usize::from(reader.u16()?);
        reader.skip(address_length)?;
        let position = reader.position();
        reader.skip(position.next_multiple_of(4) - position)?;
        if reader.u8()? == 0 {
            return Err(Malformed("BIND_ACK without answers"));
        }
        reader.skip(3)?;
        Ok((BindAck { transmit_bytes_max, receive_bytes_max, group }, ContextAnswer::read(&mut reader)?))
    }
}

/// Appends a BIND_NAK to `out`.
pub fn encode_bind_nak(call: u32, reason: BindNakReason, out: &mut Vec<u8>) {
    encode(out, PduKind::BIND_NAK, PduFlags::FIRST | PduFlags::LAST, call, |writer| {
        writer.u16(reason.0);
        writer.bytes(&[1, VERSION, 0]);
    });
}

/// REQUEST, one fragment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The presentation context.
    pub context: u16,
    /// The operation.
    pub operation: u16,
    /// This fragment's part of the stub.
    pub stub: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads what follows the header. The stub is what remains: requests with authentication are not for this.
    pub fn decode(flags: PduFlags, body: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut reader = Reader::new(body);
        reader.skip(4)?;
        let (context, operation) = (reader.u16()?, reader.u16()?);
        if flags.contains(PduFlags::OBJECT_UUID) {
            reader.skip(16)?;
        }
        Ok(Request { context, operation, stub: reader.rest() })
    }

    /// Appends one fragment to `out`. `hint` is the length of what remains of the stub, this fragment's part included.
    pub fn encode(&self, call: u32, flags: PduFlags, hint: usize, out: &mut Vec<u8>) {
        encode(out, PduKind::REQUEST, flags, call, |writer| {
            writer.u32(hint as u32);
            writer.u16(self.context);
            writer.u16(self.operation);
            writer.bytes(self.stub);
        });
    }
}

/// RESPONSE, one fragment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The presentation context.
    pub context: u16,
    /// This fragment's part of the stub.
    pub stub: &'a [u8],
}

impl<'a> Response<'a> {
    /// Reads what follows the header.
    pub fn decode(body: &'a [u8]) -> Result<Response<'a>, Malformed> {
        let mut reader = Reader::new(body);
        reader.skip(4)?;
        let context = reader.u16()?;
        reader.skip(2)?;
        Ok(Response { context, stub: reader.rest() })
    }

    /// Appends one fragment to `out`. `hint` is the length of what remains of the stub, this fragment's part included.
    pub fn encode(&self, call: u32, flags: PduFlags, hint: usize, out: &mut Vec<u8>) {
        encode(out, PduKind::RESPONSE, flags, call, |writer| {
            writer.u32(hint as u32);
            writer.u16(self.context);
            writer.u16(0);
            writer.bytes(self.stub);
        });
    }
}

/// Appends a FAULT to `out`.
pub fn encode_fault(call: u32, context: u16, status: FaultStatus, out: &mut Vec<u8>) {
    let flags = PduFlags::FIRST | PduFlags::LAST | PduFlags::DID_NOT_EXECUTE;
    encode(out, PduKind::FAULT, flags, call, |writer| {
        writer.u32(0);
        writer.u16(context);
        writer.u16(0);
        writer.u32(status.0);
        writer.u32(0);
    });
}

/// Reads the status of a FAULT from what follows the header.
pub fn decode_fault(body: &[u8]) -> Result<FaultStatus, Malformed> {
    Reader::at(body, 8).u32().map(FaultStatus)
}
