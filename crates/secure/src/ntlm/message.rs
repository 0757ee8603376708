//! The three NTLM messages (MS-NLMP 2.2.1). Payload fields are slices of the message, found by offset and length.

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::{BitAnd, BitOr};

use wire::codec::{Reader, Utf16, Writer, range};
use wire::{Malformed, codec};

/// What every NTLM message begins with.
pub(crate) const SIGNATURE: [u8; 8] = *b"NTLMSSP\0";
/// Where the MIC stands in an AUTHENTICATE_MESSAGE that has one.
pub(super) const MIC: std::ops::Range<usize> = 72..88;
/// Product version 10.0, NTLM revision 15 (NTLMSSP_REVISION_W2K3), as 2.2.2.10 lays it out.
const VERSION: [u8; 8] = [10, 0, 0, 0, 0, 0, 0, 15];

/// NegotiateFlags (2.2.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// NTLMSSP_NEGOTIATE_UNICODE.
    pub const UNICODE: Flags = Flags(0x0000_0001);
    /// NTLM_NEGOTIATE_OEM.
    pub const OEM: Flags = Flags(0x0000_0002);
    /// NTLMSSP_REQUEST_TARGET.
    pub const REQUEST_TARGET: Flags = Flags(0x0000_0004);
    /// NTLMSSP_NEGOTIATE_SIGN.
    pub const SIGN: Flags = Flags(0x0000_0010);
    /// NTLMSSP_NEGOTIATE_SEAL.
    pub const SEAL: Flags = Flags(0x0000_0020);
    /// NTLMSSP_NEGOTIATE_NTLM.
    pub const NTLM: Flags = Flags(0x0000_0200);
    /// Anonymous connection.
    pub const ANONYMOUS: Flags = Flags(0x0000_0800);
    /// NTLMSSP_NEGOTIATE_ALWAYS_SIGN.
    pub const ALWAYS_SIGN: Flags = Flags(0x0000_8000);
    /// NTLMSSP_TARGET_TYPE_SERVER.
    pub const TARGET_TYPE_SERVER: Flags = Flags(0x0002_0000);
    /// NTLMSSP_NEGOTIATE_EXTENDED_SESSIONSECURITY.
    pub const EXTENDED_SESSION_SECURITY: Flags = Flags(0x0008_0000);
    /// NTLMSSP_NEGOTIATE_TARGET_INFO.
    pub const TARGET_INFO: Flags = Flags(0x0080_0000);
    /// NTLMSSP_NEGOTIATE_VERSION.
    pub const VERSION: Flags = Flags(0x0200_0000);
    /// NTLMSSP_NEGOTIATE_128.
    pub const STRONG_128: Flags = Flags(0x2000_0000);
    /// NTLMSSP_NEGOTIATE_KEY_EXCH.
    pub const KEY_EXCHANGE: Flags = Flags(0x4000_0000);
    /// NTLMSSP_NEGOTIATE_56.
    pub const WEAK_56: Flags = Flags(0x8000_0000);

    /// True when every bit of `other` is set.
    pub fn contains(self, other: Flags) -> bool {
        self & other == other
    }

    /// True when some bit of `other` is set.
    pub fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitAnd for Flags {
    type Output = Flags;

    fn bitand(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#010x})", self.0)
    }
}

/// A NEGOTIATE_MESSAGE (2.2.1.1). Its domain and workstation are of no use to us and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// What the client can and wants.
    pub flags: Flags,
}

impl Negotiate {
    /// Reads the message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = open(bytes, 1)?;
        Ok(Negotiate { flags: Flags(reader.u32()?) })
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = begin(out, 1);
        writer.u32(self.flags.0);
        writer.zeros(16);
        if self.flags.contains(Flags::VERSION) {
            writer.bytes(&VERSION);
        }
    }
}

/// A CHALLENGE_MESSAGE (2.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// What the server chose.
    pub flags: Flags,
    /// The name of the server or its domain, in UTF-16LE or the OEM character set.
    pub target_name: &'a [u8],
    /// The nonce that the client's proof covers.
    pub server_challenge: [u8; 8],
    /// The list of AV_PAIRs.
    pub target_info: &'a [u8],
}

impl<'a> Challenge<'a> {
    /// Length of the part before the payload.
    const FIXED: usize = 56;

    /// Reads the message.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = open(bytes, 2)?;
        let target_name = field(bytes, &mut reader, 48, "TargetName")?;
        let flags = Flags(reader.u32()?);
        let server_challenge = reader.array()?;
        reader.skip(8)?;
        let target_info = field(bytes, &mut reader, 48, "TargetInfo")?;
        Ok(Challenge { flags, target_name, server_challenge, target_info })
    }

    /// Appends the message; the version goes in whatever the flags say. Fields of 64 KiB and more are malformed.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut writer = begin(out, 2);
        let mut offset = Self::FIXED;
        put_field(&mut writer, self.target_name, &mut offset)?;
        writer.u32(self.flags.0);
        writer.bytes(&self.server_challenge);
        writer.zeros(8);
        put_field(&mut writer, self.target_info, &mut offset)?;
        writer.bytes(&VERSION);
        writer.bytes(self.target_name);
        writer.bytes(self.target_info);
        Ok(())
    }
}

/// Text of an AUTHENTICATE_MESSAGE. Unicode goes before OEM where the flags say both (2.2.2.5, A and B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// UTF-16LE.
    Unicode(Utf16<'a>),
    /// The client's OEM character set, which it does not name: ASCII is what all of them have in common.
    Oem(&'a [u8]),
}

impl<'a> Text<'a> {
    fn new(bytes: &'a [u8], flags: Flags) -> Result<Self, Malformed> {
        let is_oem = flags & (Flags::UNICODE | Flags::OEM) == Flags::OEM;
        if is_oem { Ok(Text::Oem(bytes)) } else { Ok(Text::Unicode(Utf16::new(bytes)?)) }
    }

    /// The text as it is sent.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self {
            Text::Unicode(text) => text.as_bytes(),
            Text::Oem(text) => text,
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// The text; `None` for lone surrogates, and for OEM characters that are not ASCII.
    pub fn decode(&self) -> Option<String> {
        match self {
            Text::Unicode(text) => text.decode(),
            Text::Oem(text) => str::from_utf8(text).ok().filter(|text| text.is_ascii()).map(str::to_owned),
        }
    }
}

impl Default for Text<'_> {
    fn default() -> Self {
        Text::Unicode(Utf16::default())
    }
}

impl<'a> From<Utf16<'a>> for Text<'a> {
    fn from(text: Utf16<'a>) -> Self {
        Text::Unicode(text)
    }
}

/// An AUTHENTICATE_MESSAGE (2.2.1.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Authenticate<'a> {
    /// What the client settled on.
    pub flags: Flags,
    /// LmChallengeResponse.
    pub lm_response: &'a [u8],
    /// NtChallengeResponse.
    pub nt_response: &'a [u8],
    /// DomainName.
    pub domain: Text<'a>,
    /// UserName.
    pub user: Text<'a>,
    /// Workstation.
    pub workstation: Text<'a>,
    /// EncryptedRandomSessionKey.
    pub encrypted_session_key: &'a [u8],
    /// The 16 bytes where a MIC stands, when no payload field reaches into them. Whether they are a MIC is for the
    /// client's MsvAvFlags to say.
    pub mic: Option<[u8; 16]>,
}

impl<'a> Authenticate<'a> {
    /// Where the payload may begin at the earliest: clients of old leave out Version and MIC.
    const FIXED: usize = 64;

    /// Reads the message.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = open(bytes, 3)?;
        let lm_response = field(bytes, &mut reader, Self::FIXED, "LmChallengeResponse")?;
        let nt_response = field(bytes, &mut reader, Self::FIXED, "NtChallengeResponse")?;
        let domain = field(bytes, &mut reader, Self::FIXED, "DomainName")?;
        let user = field(bytes, &mut reader, Self::FIXED, "UserName")?;
        let workstation = field(bytes, &mut reader, Self::FIXED, "Workstation")?;
        let encrypted_session_key = field(bytes, &mut reader, Self::FIXED, "EncryptedRandomSessionKey")?;
        let flags = Flags(reader.u32()?);
        let text = |bytes| Text::new(bytes, flags);
        let (domain, user, workstation) = (text(domain)?, text(user)?, text(workstation)?);
        let mic = mic(bytes)?;
        Ok(Authenticate { flags, lm_response, nt_response, domain, user, workstation, encrypted_session_key, mic })
    }

    /// Appends the message with room for a MIC when `mic` is there. Fields of 64 KiB and more are malformed.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut writer = begin(out, 3);
        let mut offset = if self.mic.is_some() { MIC.end } else { MIC.start };
        let fields = [
            self.domain.as_bytes(),
            self.user.as_bytes(),
            self.workstation.as_bytes(),
            self.lm_response,
            self.nt_response,
            self.encrypted_session_key,
        ];
        let mut headers = Vec::new();
        for field in fields {
            put_field(&mut Writer::new(&mut headers), field, &mut offset)?;
        }
        // The payload's customary order differs from that of the fields that point into it.
        for index in [3, 4, 0, 1, 2, 5] {
            writer.bytes(&headers[index * 8..index * 8 + 8]);
        }
        writer.u32(self.flags.0);
        writer.bytes(&VERSION);
        writer.bytes(self.mic.as_ref().map_or(&[], |mic| &mic[..]));
        for field in fields {
            writer.bytes(field);
        }
        Ok(())
    }
}

impl fmt::Debug for Authenticate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticate")
            .field("flags", &self.flags)
            .field("domain", &self.domain)
            .field("user", &self.user)
            .field("workstation", &self.workstation)
            .finish_non_exhaustive()
    }
}

/// The bytes where a MIC would stand, unless a payload field reaches into them or the message ends before.
fn mic(bytes: &[u8]) -> Result<Option<[u8; 16]>, Malformed> {
    let mut headers = Reader::at(bytes, 12);
    for _ in 0..6 {
        let length = headers.u16()?;
        headers.skip(2)?;
        let offset = headers.u32()?;
        if length > 0 && (offset as usize) < MIC.end {
            return Ok(None);
        }
    }
    Ok(bytes.get(MIC).and_then(|mic| mic.try_into().ok()))
}

fn open(bytes: &[u8], message_type: u32) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.array()? != SIGNATURE {
        return Err(Malformed("NTLM Signature"));
    }
    if reader.u32()? != message_type {
        return Err(Malformed("NTLM MessageType"));
    }
    Ok(reader)
}

fn begin(out: &mut Vec<u8>, message_type: u32) -> Writer<'_> {
    let mut writer = Writer::new(out);
    writer.bytes(&SIGNATURE);
    writer.u32(message_type);
    writer
}

/// Reads Len, MaxLen and BufferOffset, and finds the field. An empty field's offset means nothing; any other must lie
/// behind the fixed part. MaxLen "MUST be ignored on receipt".
fn field<'a>(
    bytes: &'a [u8],
    reader: &mut Reader<'a>,
    payload: usize,
    name: &'static str,
) -> Result<&'a [u8], Malformed> {
    let length = usize::from(reader.u16()?);
    reader.skip(2)?;
    let offset = reader.u32()? as usize;
    if length == 0 {
        return Ok(&[]);
    }
    if offset < payload {
        return Err(Malformed(name));
    }
    range(bytes, offset, length, name)
}

fn put_field(writer: &mut Writer<'_>, value: &[u8], offset: &mut usize) -> Result<(), Malformed> {
    let length = u16::try_from(value.len()).map_err(|_| codec::Malformed("field too long"))?;
    writer.u16(length);
    writer.u16(length);
    writer.u32(*offset as u32);
    *offset += value.len();
    Ok(())
}
