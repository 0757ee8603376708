//! The names of interfaces and transfer syntaxes.

use crate::codec::{Malformed, Reader, Writer};
use crate::ids::Guid;

/// p_syntax_id_t (C706 12.6.3.1): a UUID and a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SyntaxId {
    /// The UUID.
    pub uuid: Guid,
    /// The major version in the lower half, the minor in the upper.
    pub version: u32,
}

impl SyntaxId {
    /// Its length on the wire in bytes.
    pub const LENGTH: usize = 20;
    /// NDR, the transfer syntax with 32-bit pointers (C706 14).
    pub const NDR32: SyntaxId =
        SyntaxId::new(0x8a88_5d04, 0x1ceb, 0x11c9, [0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60], 2);
    /// NDR64, the transfer syntax with 64-bit pointers (MS-RPCE 2.2.5).
    pub const NDR64: SyntaxId =
        SyntaxId::new(0x7171_0533, 0xbeba, 0x4937, [0x83, 0x19, 0xb5, 0xdb, 0xef, 0x9c, 0xcc, 0x36], 1);
    /// The server service (MS-SRVS 1.9).
    pub const SRVSVC: SyntaxId =
        SyntaxId::new(0x4b32_4fc8, 0x1670, 0x01d3, [0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88], 3);
    /// The workstation service (MS-WKST 1.9).
    pub const WKSSVC: SyntaxId =
        SyntaxId::new(0x6bff_d098, 0xa112, 0x3610, [0x98, 0x33, 0x46, 0xc3, 0xf8, 0x7e, 0x34, 0x5a], 1);
    /// The local security authority (MS-LSAT 1.9).
    pub const LSARPC: SyntaxId =
        SyntaxId::new(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab], 0);
    /// The account database (MS-SAMR 1.9).
    pub const SAMR: SyntaxId =
        SyntaxId::new(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xac], 1);
    /// What a bind for feature negotiation without features looks like (MS-RPCE 2.2.2.14). The last eight bytes of
    /// the UUID carry features: see [`SyntaxId::is_feature_negotiation`].
    pub const FEATURE_NEGOTIATION: SyntaxId = SyntaxId::new(0x6cb7_1c2c, 0x9812, 0x4540, [0; 8], 1);

    const fn new(first: u32, second: u16, third: u16, rest: [u8; 8], version: u32) -> SyntaxId {
        let [a, b, c, d] = first.to_le_bytes();
        let ([e, f], [g, h]) = (second.to_le_bytes(), third.to_le_bytes());
        let [i, j, k, l, m, n, o, p] = rest;
        SyntaxId { uuid: Guid([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]), version }
    }

    /// True for a transfer syntax that is none but asks for features (MS-RPCE 3.3.1.5.3).
    pub fn is_feature_negotiation(&self) -> bool {
        self.uuid.0[..8] == SyntaxId::FEATURE_NEGOTIATION.uuid.0[..8]
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<SyntaxId, Malformed> {
        Ok(SyntaxId { uuid: Guid(reader.array()?), version: reader.u32()? })
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        writer.bytes(&self.uuid.0);
        writer.u32(self.version);
    }
}
