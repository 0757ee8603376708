//! AV_PAIR lists (MS-NLMP 2.2.2.1): what the server says of itself, and what the client says back under its proof.

use wire::Malformed;
use wire::codec::{Reader, Writer};

/// What an AV_PAIR holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AvId(pub u16);

impl AvId {
    /// MsvAvEOL: the end of the list.
    pub const EOL: AvId = AvId(0);
    /// MsvAvNbComputerName: the server's NetBIOS name, UTF-16LE.
    pub const NB_COMPUTER_NAME: AvId = AvId(1);
    /// MsvAvNbDomainName: its domain's NetBIOS name, UTF-16LE.
    pub const NB_DOMAIN_NAME: AvId = AvId(2);
    /// MsvAvDnsComputerName: its DNS name, UTF-16LE.
    pub const DNS_COMPUTER_NAME: AvId = AvId(3);
    /// MsvAvDnsDomainName: its domain's DNS name, UTF-16LE.
    pub const DNS_DOMAIN_NAME: AvId = AvId(4);
    /// MsvAvFlags: 32 bits; 0x2 says that the AUTHENTICATE_MESSAGE has a MIC.
    pub const FLAGS: AvId = AvId(6);
    /// MsvAvTimestamp: the server's time as a FILETIME.
    pub const TIMESTAMP: AvId = AvId(7);
    /// MsvAvTargetName: the service principal name the client believes it speaks to, UTF-16LE.
    pub const TARGET_NAME: AvId = AvId(9);
    /// MsvAvChannelBindings: MD5 of the channel the client believes it speaks through.
    pub const CHANNEL_BINDINGS: AvId = AvId(10);
}

/// How many pairs a list may have; the specification knows eleven.
const PAIRS_MAX: usize = 64;

/// A list of AV_PAIRs that has been walked to its end once, so that walking it again cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvPairs<'a> {
    pairs: &'a [u8],
}

impl<'a> AvPairs<'a> {
    /// Reads a list up to its MsvAvEOL. What follows it is passed over: NTLMv2 puts four zero bytes there.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        for _ in 0..PAIRS_MAX {
            let start = reader.position();
            let id = AvId(reader.u16()?);
            let length = reader.u16()?;
            if id == AvId::EOL {
                let pairs = bytes.get(..start).ok_or(Malformed("AvPairs"))?;
                return if length == 0 { Ok(AvPairs { pairs }) } else { Err(Malformed("MsvAvEOL")) };
            }
            reader.skip(length.into())?;
        }
        Err(Malformed("AvPairs"))
    }

    /// The pairs in order, without the end.
    pub fn iter(&self) -> impl Iterator<Item = (AvId, &'a [u8])> + 'a {
        let mut reader = Reader::new(self.pairs);
        std::iter::from_fn(move || {
            let id = AvId(reader.u16().ok()?);
            let length = reader.u16().ok()?;
            Some((id, reader.bytes(length.into()).ok()?))
        })
    }

    /// The value of the first pair with that id.
    pub fn find(&self, id: AvId) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == id).map(|(_, value)| value)
    }

    /// The bytes of the pairs, without the end.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.pairs
    }
}

/// Appends one pair. A value that does not fit the 16-bit length is cut, which only our own over-long names can meet.
pub(super) fn write_pair(writer: &mut Writer<'_>, id: AvId, value: &[u8]) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    writer.u16(id.0);
    writer.u16(length);
    writer.bytes(&value[..length.into()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (id, value) in pairs {
            write_pair(&mut Writer::new(&mut bytes), AvId(*id), value);
        }
        bytes
    }

    #[test]
    fn pairs_come_back_in_order_and_without_the_end() {
        let bytes = list(&[(2, b"domain"), (77, b""), (7, &[1; 8]), (0, b"")]);
        let pairs = AvPairs::parse(&[&bytes[..], &[0; 4]].concat()).map(|pairs| pairs.iter().count());
        assert_eq!(pairs, Ok(3));
        let pairs = AvPairs::parse(&bytes).unwrap();
        assert_eq!(pairs.find(AvId::TIMESTAMP), Some(&[1u8; 8][..]));
        assert_eq!(pairs.find(AvId(77)), Some(&[][..]));
        assert_eq!(pairs.find(AvId::FLAGS), None);
        assert_eq!(pairs.as_bytes(), &bytes[..bytes.len() - 4]);
    }

    #[test]
    fn a_list_cut_anywhere_is_malformed() {
        let bytes = list(&[(2, b"domain"), (7, &[1; 8]), (0, b"")]);
        for length in 0..bytes.len() {
            assert!(AvPairs::parse(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn an_end_with_a_value_and_a_list_without_end_are_malformed() {
        assert!(AvPairs::parse(&list(&[(0, b"x")])).is_err());
        assert!(AvPairs::parse(&[6, 0, 0xff, 0xff, 0]).is_err());
        let endless = list(&[(3, &[][..]); PAIRS_MAX + 1]);
        assert!(AvPairs::parse(&[&endless[..], &[0; 4]].concat()).is_err());
    }

    #[test]
    fn the_first_of_two_pairs_counts() {
        let bytes = list(&[(6, &[2, 0, 0, 0]), (6, &[0, 0, 0, 0]), (0, b"")]);
        assert_eq!(AvPairs::parse(&bytes).unwrap().find(AvId::FLAGS), Some(&[2u8, 0, 0, 0][..]));
    }
}
