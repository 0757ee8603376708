//! The tokens of SPNEGO (RFC 4178 4.2, MS-SPNG 2.2.1) in DER. The nesting is written out step by step, so its depth is
//! fixed whatever the peer sends.

use der::asn1::AnyRef;
use der::{Decode, Encode, Reader, SliceReader, Tag, TagNumber, Tagged};

use crate::LogonFailure;

/// How long a token may be. NTLM stays under 2 KiB; Kerberos with a large PAC under 64 KiB.
pub const TOKEN_LENGTH_MAX: usize = 64 * 1024;
/// How many mechanisms a client may offer; Windows offers four.
const MECHS_MAX: usize = 32;

/// 1.3.6.1.5.5.2, SPNEGO, with tag and length.
const SPNEGO: [u8; 8] = [0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// 1.3.6.1.4.1.311.2.2.10, NTLMSSP, with tag and length.
pub(super) const NTLMSSP: [u8; 12] = [0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a];
/// What hintName holds since Windows Vista (MS-SPNG 2.2.1).
const HINT_NAME: &[u8] = b"not_defined_in_RFC4178@please_ignore";
/// The GSS-API frame of a first token (RFC 2743 3.1).
const GSS_FRAME: Tag = Tag::Application { constructed: true, number: TagNumber(0) };

/// How far an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegState {
    /// accept-completed.
    AcceptCompleted,
    /// accept-incomplete.
    AcceptIncomplete,
    /// reject.
    Reject,
    /// request-mic: the mechanism chosen is not the client's first, so the list must be proven.
    RequestMic,
}

impl NegState {
    fn to_wire(self) -> u8 {
        match self {
            NegState::AcceptCompleted => 0,
            NegState::AcceptIncomplete => 1,
            NegState::Reject => 2,
            NegState::RequestMic => 3,
        }
    }

    fn from_wire(value: &[u8]) -> Option<Self> {
        match value {
            [0] => Some(NegState::AcceptCompleted),
            [1] => Some(NegState::AcceptIncomplete),
            [2] => Some(NegState::Reject),
            [3] => Some(NegState::RequestMic),
            _ => None,
        }
    }
}

/// MechTypeList as it stands in the token: its DER encoding is what mechListMIC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MechTypes<'a> {
    encoded: &'a [u8],
    ntlmssp: Option<usize>,
}

impl<'a> MechTypes<'a> {
    fn decode(encoded: &'a [u8]) -> der::Result<Self> {
        let mut reader = SliceReader::new(AnyRef::from_der(encoded)?.value())?;
        let mut ntlmssp = None;
        for index in 0..=MECHS_MAX {
            if reader.is_finished() {
                return Ok(MechTypes { encoded, ntlmssp });
            }
            let mech = reader.tlv_bytes()?;
            if ntlmssp.is_none() && mech == NTLMSSP {
                ntlmssp = Some(index);
            }
        }
        Err(Tag::Sequence.length_error().into())
    }

    /// The list's encoding, its own tag and length included.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.encoded
    }

    /// Where NTLMSSP stands in the list, if it does; 0 is the client's first choice.
    pub fn ntlmssp(&self) -> Option<usize> {
        self.ntlmssp
    }
}

/// A NegTokenInit: the client's first token, or with hints, which are passed over, the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegTokenInit<'a> {
    /// The mechanisms on offer.
    pub mech_types: MechTypes<'a>,
    /// The optimistic token, for the first of them.
    pub mech_token: Option<&'a [u8]>,
}

/// A NegTokenResp: every other token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NegTokenResp<'a> {
    /// How far the exchange is; optional but for the first answer.
    pub neg_state: Option<NegState>,
    /// Whether supportedMech is NTLMSSP, where there is one.
    pub supports_ntlmssp: Option<bool>,
    /// The mechanism's token.
    pub response_token: Option<&'a [u8]>,
    /// The mechanism's signature over MechTypeList.
    pub mech_list_mic: Option<&'a [u8]>,
}

/// A token of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// In the GSS-API frame, or, as some clients send it, without.
    Init(NegTokenInit<'a>),
    /// Any later token.
    Resp(NegTokenResp<'a>),
}

impl<'a> Token<'a> {
    /// Reads a token. Only DER is understood, and nothing may follow.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, LogonFailure> {
        if bytes.len() > TOKEN_LENGTH_MAX {
            return Err(LogonFailure::Malformed("SPNEGO token too long"));
        }
        Self::decode_der(bytes).map_err(|_| LogonFailure::Malformed("SPNEGO token"))
    }

    fn decode_der(bytes: &'a [u8]) -> der::Result<Self> {
        let outer = AnyRef::from_der(bytes)?;
        if outer.tag() != GSS_FRAME {
            return Self::decode_choice(outer);
        }
        let mut reader = SliceReader::new(outer.value())?;
        if reader.tlv_bytes()? != SPNEGO {
            return Err(Tag::ObjectIdentifier.value_error().into());
        }
        let choice = AnyRef::decode(&mut reader)?;
        reader.finish()?;
        Self::decode_choice(choice)
    }

    fn decode_choice(choice: AnyRef<'a>) -> der::Result<Self> {
        let body = AnyRef::from_der(choice.value())?;
        body.tag().assert_eq(Tag::Sequence)?;
        let reader = SliceReader::new(body.value())?;
        if choice.tag() == context_tag(0) {
            Ok(Token::Init(NegTokenInit::decode(reader)?))
        } else if choice.tag() == context_tag(1) {
            Ok(Token::Resp(NegTokenResp::decode(reader)?))
        } else {
            Err(choice.tag().unexpected_error(None).into())
        }
    }
}

impl<'a> NegTokenInit<'a> {
    /// Reads mechTypes and mechToken. What comes after cannot matter before a mechanism is agreed on.
    fn decode(mut reader: SliceReader<'a>) -> der::Result<Self> {
        let types = reader.tlv_bytes()?;
        let types = AnyRef::from_der(types)?;
        types.tag().assert_eq(context_tag(0))?;
        AnyRef::from_der(types.value())?.tag().assert_eq(Tag::Sequence)?;
        let mech_types = MechTypes::decode(types.value())?;
        let mech_token = octets(&mut reader, 2)?;
        Ok(NegTokenInit { mech_types, mech_token })
    }
}

impl<'a> NegTokenResp<'a> {
    fn decode(mut reader: SliceReader<'a>) -> der::Result<Self> {
        let neg_state = match explicit(&mut reader, 0, Tag::Enumerated)? {
            Some(value) => Some(NegState::from_wire(value).ok_or(Tag::Enumerated.value_error())?),
            None => None,
        };
        let supported = explicit(&mut reader, 1, Tag::ObjectIdentifier)?;
        Ok(NegTokenResp {
            neg_state,
            supports_ntlmssp: supported.map(|oid| oid == &NTLMSSP[2..]),
            response_token: octets(&mut reader, 2)?,
            mech_list_mic: octets(&mut reader, 3)?,
        })
    }

    /// The token; supportedMech is written when it is NTLMSSP.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(state) = self.neg_state {
            fields.extend(context(0, &tlv(Tag::Enumerated, &[state.to_wire()])));
        }
        if self.supports_ntlmssp == Some(true) {
            fields.extend(context(1, &NTLMSSP));
        }
        if let Some(token) = self.response_token {
            fields.extend(context(2, &tlv(Tag::OctetString, token)));
        }
        if let Some(mic) = self.mech_list_mic {
            fields.extend(context(3, &tlv(Tag::OctetString, mic)));
        }
        context(1, &tlv(Tag::Sequence, &fields))
    }
}

/// The MechTypeList of both our ends: NTLMSSP.
pub(super) fn mech_type_list() -> Vec<u8> {
    tlv(Tag::Sequence, &NTLMSSP)
}

/// The client's first token, with its optimistic NTLMSSP token.
pub(super) fn init(mech_token: &[u8]) -> Vec<u8> {
    framed(&[context(0, &mech_type_list()), context(2, &tlv(Tag::OctetString, mech_token))].concat())
}

/// The token a server puts into its NEGOTIATE response: a NegTokenInit2 that offers NTLMSSP (MS-SPNG 3.2.5.2).
pub fn hint() -> Vec<u8> {
    let name = context(0, &tlv(Tag::GeneralString, HINT_NAME));
    framed(&[context(0, &mech_type_list()), context(3, &tlv(Tag::Sequence, &name))].concat())
}

pub(super) fn framed(init_fields: &[u8]) -> Vec<u8> {
    let choice = context(0, &tlv(Tag::Sequence, init_fields));
    tlv(GSS_FRAME, &[&SPNEGO[..], &choice].concat())
}

fn context_tag(number: u32) -> Tag {
    Tag::ContextSpecific { constructed: true, number: TagNumber(number) }
}

pub(super) fn context(number: u32, inner: &[u8]) -> Vec<u8> {
    tlv(context_tag(number), inner)
}

/// One element. Only our own tokens come here, and DER's lengths hold far more than those.
pub(super) fn tlv(tag: Tag, value: &[u8]) -> Vec<u8> {
    AnyRef::new(tag, value).and_then(|any| any.to_der()).expect("our tokens fit DER's lengths")
}

/// The value of the explicitly tagged field `number`, if it is there. Fields stand in the order of their numbers: those
/// before it are passed over, and one after it is left to be read next.
fn explicit<'a>(reader: &mut SliceReader<'a>, number: u32, tag: Tag) -> der::Result<Option<&'a [u8]>> {
    while !reader.is_finished() {
        let Tag::ContextSpecific { constructed: true, number: found } = Tag::peek(reader)? else {
            return Err(context_tag(number).value_error().into());
        };
        if found > TagNumber(number) {
            return Ok(None);
        }
        let field = AnyRef::decode(reader)?;
        if found == TagNumber(number) {
            let inner = AnyRef::from_der(field.value())?;
            inner.tag().assert_eq(tag)?;
            return Ok(Some(inner.value()));
        }
    }
    Ok(None)
}

fn octets<'a>(reader: &mut SliceReader<'a>, number: u32) -> der::Result<Option<&'a [u8]>> {
    explicit(reader, number, Tag::OctetString)
}
