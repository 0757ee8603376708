//! Security identifiers (MS-DTYP 2.4.2).

use std::fmt;
use std::str::FromStr;

use crate::codec::{Malformed, Reader, Writer};

/// The most sub-authorities (MS-DTYP 2.4.2.2).
const SUB_AUTHORITIES_MAX: usize = 15;
/// The only revision.
const REVISION: u8 = 1;
/// Bytes before the sub-authorities.
const HEADER_BYTES: usize = 8;

/// A user, a group or another principal. Written `S-1-5-21-…`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    authority: [u8; 6],
    count: u8,
    /// Zero from `count` on, so that the derived comparisons hold.
    sub_authorities: [u32; SUB_AUTHORITIES_MAX],
}

impl Sid {
    /// S-1-0-0: nobody.
    pub const NOBODY: Sid = Sid::well_known(0, &[0]);
    /// S-1-1-0: everyone.
    pub const EVERYONE: Sid = Sid::well_known(1, &[0]);
    /// S-1-3-0: stands in an inheritable ACE for who creates the object.
    pub const CREATOR_OWNER: Sid = Sid::well_known(3, &[0]);
    /// S-1-3-1: stands in an inheritable ACE for the creator's primary group.
    pub const CREATOR_GROUP: Sid = Sid::well_known(3, &[1]);
    /// S-1-3-4: the object's present owner, and an end to what an owner may do implicitly.
    pub const OWNER_RIGHTS: Sid = Sid::well_known(3, &[4]);
    /// S-1-5-2: who came over a network.
    pub const NETWORK: Sid = Sid::well_known(5, &[2]);
    /// S-1-5-7: who gave no name.
    pub const ANONYMOUS: Sid = Sid::well_known(5, &[7]);
    /// S-1-5-10: stands in an ACE for the object itself.
    pub const PRINCIPAL_SELF: Sid = Sid::well_known(5, &[10]);
    /// S-1-5-11: who proved a name.
    pub const AUTHENTICATED_USERS: Sid = Sid::well_known(5, &[11]);
    /// S-1-5-18: the operating system.
    pub const SYSTEM: Sid = Sid::well_known(5, &[18]);
    /// S-1-5-32-544: administrators.
    pub const BUILTIN_ADMINISTRATORS: Sid = Sid::well_known(5, &[32, 544]);
    /// S-1-5-32-545: users.
    pub const BUILTIN_USERS: Sid = Sid::well_known(5, &[32, 545]);
    /// S-1-5-32-546: guests.
    pub const BUILTIN_GUESTS: Sid = Sid::well_known(5, &[32, 546]);
    /// S-1-5-32-551: backup operators.
    pub const BUILTIN_BACKUP_OPERATORS: Sid = Sid::well_known(5, &[32, 551]);
    /// S-1-5-88-3: heads the pair of SIDs in which a client says a file's Unix mode.
    pub const UNIX_MODE: Sid = Sid::well_known(5, &[88, 3]);

    const fn well_known(authority: u8, sub_authorities: &[u32]) -> Sid {
        let mut sid = Sid { authority: [0, 0, 0, 0, 0, authority], count: 0, sub_authorities: [0; 15] };
        let mut index = 0;
        while index < sub_authorities.len() {
            sid.sub_authorities[index] = sub_authorities[index];
            index += 1;
        }
        sid.count = sub_authorities.len() as u8;
        sid
    }

    /// The SID of `authority` (48 bits) and at most 15 `sub_authorities`; else `None`.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Option<Sid> {
        let [0, 0, authority @ ..] = authority.to_be_bytes() else { return None };
        let mut sid = Sid { authority, count: u8::try_from(sub_authorities.len()).ok()?, sub_authorities: [0; 15] };
        sid.sub_authorities.get_mut(..sub_authorities.len())?.copy_from_slice(sub_authorities);
        Some(sid)
    }

    /// This SID with one more sub-authority: a domain's SID and a relative identifier make a user. `None` where there
    /// are 15 already.
    pub fn join(&self, relative: u32) -> Option<Sid> {
        let mut longer = *self;
        *longer.sub_authorities.get_mut(usize::from(self.count))? = relative;
        longer.count += 1;
        Some(longer)
    }

    /// This SID without its last sub-authority, and that: a domain's SID and a relative identifier. `None` where there is none.
    pub fn split(&self) -> Option<(Sid, u32)> {
        let mut shorter = *self;
        shorter.count = self.count.checked_sub(1)?;
        let last = std::mem::take(shorter.sub_authorities.get_mut(usize::from(shorter.count))?);
        Some((shorter, last))
    }

    /// The identifier authority, 48 bits.
    pub fn authority(&self) -> u64 {
        let [a, b, c, d, e, f] = self.authority;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The sub-authorities.
    pub fn sub_authorities(&self) -> &[u32] {
        &self.sub_authorities[..usize::from(self.count)]
    }

    /// Its length on the wire, 8 to 68 bytes.
    pub fn length(&self) -> usize {
        HEADER_BYTES + size_of::<u32>() * usize::from(self.count)
    }

    /// Reads one SID.
    ///
    /// | offset | length | field |
    /// |---|---|---|
    /// | 0 | 1 | Revision: 1 |
    /// | 1 | 1 | SubAuthorityCount: at most 15 |
    /// | 2 | 6 | IdentifierAuthority, big-endian |
    /// | 8 | 4 × count | SubAuthority, little-endian each |
    pub fn read(reader: &mut Reader<'_>) -> Result<Sid, Malformed> {
        if reader.u8()? != REVISION {
            return Err(Malformed("SID revision"));
        }
        let count = reader.u8()?;
        let mut sid = Sid { authority: reader.array()?, count, sub_authorities: [0; 15] };
        let room = sid.sub_authorities.get_mut(..usize::from(count)).ok_or(Malformed("SubAuthorityCount"))?;
        for sub_authority in room {
            *sub_authority = reader.u32()?;
        }
        Ok(sid)
    }

    /// Reads the SID at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Sid, Malformed> {
        Sid::read(&mut Reader::new(bytes))
    }

    /// Writes it.
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(REVISION);
        writer.u8(self.count);
        writer.bytes(&self.authority);
        for sub_authority in self.sub_authorities() {
            writer.u32(*sub_authority);
        }
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out));
    }
}

/// MS-DTYP 2.4.2.1: the authority is decimal below 2^32, else hexadecimal.
impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.authority() {
            small @ 0..=0xFFFF_FFFF => write!(f, "S-1-{small}")?,
            large => write!(f, "S-1-0x{large:012X}")?,
        }
        self.sub_authorities().iter().try_for_each(|sub_authority| write!(f, "-{sub_authority}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Text that is not a SID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidText;

impl fmt::Display for SidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a security identifier of the form S-1-…")
    }
}

impl std::error::Error for SidText {}

impl FromStr for Sid {
    type Err = SidText;

    fn from_str(text: &str) -> Result<Sid, SidText> {
        let rest = text.strip_prefix("S-1-").or_else(|| text.strip_prefix("s-1-")).ok_or(SidText)?;
        let mut parts = rest.split('-');
        let authority = parse_authority(parts.next().unwrap_or("")).ok_or(SidText)?;
        let mut sid = Sid::new(authority, &[]).ok_or(SidText)?;
        for part in parts {
            sid = sid.join(parse_decimal(part).ok_or(SidText)?).ok_or(SidText)?;
        }
        Ok(sid)
    }
}

fn parse_authority(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => parse_decimal(text).map(u64::from),
    }
}

/// Digits only: `u32::from_str` would take a sign too.
fn parse_decimal(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
