//! The contexts of a NEGOTIATE request or response, dialect 3.1.1 (MS-SMB2 2.2.3.1, 2.2.4.1).
//!
//! ```text
//! offset size  field
//!      0    2  ContextType
//!      2    2  DataLength
//!      4    4  Reserved
//!      8    -  Data           the next context follows at the next multiple of 8
//! ```

use std::fmt;

use crate::codec::{Malformed, Reader, Utf16, Writer};
use crate::header::HEADER_LENGTH;
use crate::ids::Guid;
use crate::list::U16List;

/// The most contexts accepted in one list. The specification names eight.
pub const NEGOTIATE_CONTEXTS_MAX: u16 = 64;

numbers! {
    /// What a context is about.
    ContextType(u16) {
        /// [`PreauthIntegrityCapabilities`].
        PREAUTH_INTEGRITY_CAPABILITIES = 0x0001,
        /// [`EncryptionCapabilities`].
        ENCRYPTION_CAPABILITIES = 0x0002,
        /// [`CompressionCapabilities`].
        COMPRESSION_CAPABILITIES = 0x0003,
        /// [`Netname`].
        NETNAME_NEGOTIATE_CONTEXT_ID = 0x0005,
        /// [`TransportCapabilities`].
        TRANSPORT_CAPABILITIES = 0x0006,
        /// [`RdmaTransformCapabilities`].
        RDMA_TRANSFORM_CAPABILITIES = 0x0007,
        /// [`SigningCapabilities`].
        SIGNING_CAPABILITIES = 0x0008,
        /// [`PosixExtensions`]: SMB3 POSIX Extensions, not in MS-SMB2, where it is reserved and ignored.
        POSIX_EXTENSIONS_AVAILABLE = 0x0100,
    }
}

/// One context as it stands on the wire, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateContext<'a> {
    /// What it is about.
    pub context_type: ContextType,
    /// Its data, to be decoded by the type of that name.
    pub data: &'a [u8],
}

/// A list of contexts, checked as a whole when it was decoded. Unknown and repeated ones are kept: the server judges.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NegotiateContexts<'a> {
    bytes: &'a [u8],
    count: u16,
}

impl<'a> NegotiateContexts<'a> {
    /// Checks the `count` contexts that begin `offset` bytes after the header's start. Bytes behind them are ignored.
    pub fn decode(message: &'a [u8], offset: u32, count: u16) -> Result<Self, Malformed> {
        if count == 0 {
            return Ok(NegotiateContexts::default());
        }
        if count > NEGOTIATE_CONTEXTS_MAX {
            return Err(Malformed("too many negotiate contexts"));
        }
        let offset = offset as usize;
        if offset < HEADER_LENGTH {
            return Err(Malformed("NegotiateContextOffset"));
        }
        let bytes = message.get(offset..).ok_or(Malformed("NegotiateContextOffset"))?;
        let mut reader = Reader::new(bytes);
        for _ in 0..count {
            next(&mut reader)?;
        }
        let length = reader.position();
        Ok(NegotiateContexts { bytes: bytes.get(..length).ok_or(Malformed("NegotiateContextList"))?, count })
    }

    /// The contexts in order, duplicates included.
    pub fn iter(&self) -> impl Iterator<Item = NegotiateContext<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| next(&mut reader).ok())
    }

    /// The data of the first context of this type.
    pub fn find(&self, context_type: ContextType) -> Option<&'a [u8]> {
        self.iter().find(|context| context.context_type == context_type).map(|context| context.data)
    }

    /// How many contexts there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The list as it stands on the wire.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Debug for NegotiateContexts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The context at the reader, whose position 0 is the list's start, behind the padding that may stand before it.
fn next<'a>(reader: &mut Reader<'a>) -> Result<NegotiateContext<'a>, Malformed> {
    reader.skip(reader.position().next_multiple_of(8) - reader.position())?;
    let context_type = ContextType(reader.u16()?);
    let length = usize::from(reader.u16()?);
    reader.skip(4)?;
    Ok(NegotiateContext { context_type, data: reader.bytes(length)? })
}

/// Writes a list of contexts.
#[derive(Clone, Debug, Default)]
pub struct NegotiateContextsBuilder {
    bytes: Vec<u8>,
    count: u16,
}

impl NegotiateContextsBuilder {
    /// A list without contexts.
    pub fn new() -> Self {
        NegotiateContextsBuilder::default()
    }

    /// Adds a context whose data `write` appends; at most 65,535 bytes. The typed contexts' `encode` fits here:
    /// `builder.add(ContextType::SIGNING_CAPABILITIES, |writer| signing.encode(writer))`.
    pub fn add(&mut self, context_type: ContextType, write: impl FnOnce(&mut Writer<'_>)) -> &mut Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let mut writer = Writer::new(&mut self.bytes);
        writer.u16(context_type.0);
        writer.u16(0);
        writer.u32(0);
        write(&mut writer);
        writer.patch_u16(2, (writer.position() - 8) as u16);
        self.count += 1;
        self
    }

    /// The list, to be put into a request or response.
    pub fn contexts(&self) -> NegotiateContexts<'_> {
        NegotiateContexts { bytes: &self.bytes, count: self.count }
    }
}

numbers! {
    /// A pre-authentication integrity hash.
    HashAlgorithm(u16) {
        /// SHA-512.
        SHA_512 = 0x0001,
    }
}

/// SMB2_PREAUTH_INTEGRITY_CAPABILITIES (2.2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PreauthIntegrityCapabilities<'a> {
    /// Offered, or the one chosen.
    pub hash_algorithms: U16List<'a, HashAlgorithm>,
    /// Random bytes; 32 are usual.
    pub salt: &'a [u8],
}

impl<'a> PreauthIntegrityCapabilities<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        let salt_length = usize::from(reader.u16()?);
        let hash_algorithms = U16List::decode(&mut reader, count)?;
        Ok(PreauthIntegrityCapabilities { hash_algorithms, salt: reader.bytes(salt_length)? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.hash_algorithms.len() as u16);
        writer.u16(self.salt.len() as u16);
        self.hash_algorithms.encode(writer);
        writer.bytes(self.salt);
    }
}

numbers! {
    /// An encryption algorithm.
    Cipher(u16) {
        /// AES-128-CCM, also that of dialects 3.0 and 3.0.2.
        AES_128_CCM = 0x0001,
        /// AES-128-GCM.
        AES_128_GCM = 0x0002,
        /// AES-256-CCM.
        AES_256_CCM = 0x0003,
        /// AES-256-GCM.
        AES_256_GCM = 0x0004,
    }
}

/// SMB2_ENCRYPTION_CAPABILITIES (2.2.3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EncryptionCapabilities<'a> {
    /// In the client's order of preference, or the one chosen; 0 where none is common.
    pub ciphers: U16List<'a, Cipher>,
}

impl<'a> EncryptionCapabilities<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        Ok(EncryptionCapabilities { ciphers: U16List::decode(&mut reader, count)? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.ciphers.len() as u16);
        self.ciphers.encode(writer);
    }
}

numbers! {
    /// A compression algorithm.
    CompressionAlgorithm(u16) {
        /// None.
        NONE = 0x0000,
        /// LZNT1.
        LZNT1 = 0x0001,
        /// LZ77.
        LZ77 = 0x0002,
        /// LZ77 with Huffman coding.
        LZ77_HUFFMAN = 0x0003,
        /// Runs of one byte.
        PATTERN_V1 = 0x0004,
        /// LZ4.
        LZ4 = 0x0005,
    }
}

/// SMB2_COMPRESSION_CAPABILITIES (2.2.3.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CompressionCapabilities<'a> {
    /// 1 where chained compression is supported.
    pub flags: u32,
    /// In order of preference.
    pub algorithms: U16List<'a, CompressionAlgorithm>,
}

impl<'a> CompressionCapabilities<'a> {
    /// Chained compression is supported.
    pub const FLAG_CHAINED: u32 = 1;

    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        reader.skip(2)?;
        let flags = reader.u32()?;
        Ok(CompressionCapabilities { flags, algorithms: U16List::decode(&mut reader, count)? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.algorithms.len() as u16);
        writer.u16(0);
        writer.u32(self.flags);
        self.algorithms.encode(writer);
    }
}

/// SMB2_NETNAME_NEGOTIATE_CONTEXT_ID (2.2.3.1.4): the server's name as the client has it. Requests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Netname<'a> {
    /// Not terminated.
    pub name: Utf16<'a>,
}

impl<'a> Netname<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        Ok(Netname { name: Utf16::new(data)? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.bytes(self.name.as_bytes());
    }
}

/// SMB2_TRANSPORT_CAPABILITIES (2.2.3.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TransportCapabilities {
    /// See [`TransportCapabilities::ACCEPT_TRANSPORT_LEVEL_SECURITY`].
    pub flags: u32,
}

impl TransportCapabilities {
    /// The transport (QUIC) encrypts, so SMB need not.
    pub const ACCEPT_TRANSPORT_LEVEL_SECURITY: u32 = 1;

    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        Ok(TransportCapabilities { flags: Reader::new(data).u32()? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.flags);
    }
}

numbers! {
    /// How RDMA payloads are transformed.
    RdmaTransform(u16) {
        /// Not at all.
        NONE = 0x0000,
        /// Encrypted.
        ENCRYPTION = 0x0001,
        /// Signed.
        SIGNING = 0x0002,
    }
}

/// SMB2_RDMA_TRANSFORM_CAPABILITIES (2.2.3.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RdmaTransformCapabilities<'a> {
    /// Offered, or those in common.
    pub transforms: U16List<'a, RdmaTransform>,
}

impl<'a> RdmaTransformCapabilities<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        reader.skip(6)?;
        Ok(RdmaTransformCapabilities { transforms: U16List::decode(&mut reader, count)? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.transforms.len() as u16);
        writer.zeros(6);
        self.transforms.encode(writer);
    }
}

numbers! {
    /// A signing algorithm.
    SigningAlgorithm(u16) {
        /// HMAC-SHA256, also that of dialects 2.x.
        HMAC_SHA256 = 0x0000,
        /// AES-CMAC, also that of dialects 3.0 and 3.0.2, and of 3.1.1 where none was negotiated.
        AES_CMAC = 0x0001,
        /// AES-GMAC.
        AES_GMAC = 0x0002,
    }
}

/// SMB2_SIGNING_CAPABILITIES (2.2.3.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SigningCapabilities<'a> {
    /// In the client's order of preference, or the one chosen.
    pub algorithms: U16List<'a, SigningAlgorithm>,
}

impl<'a> SigningCapabilities<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        Ok(SigningCapabilities { algorithms: U16List::decode(&mut reader, count)? })
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.algorithms.len() as u16);
        self.algorithms.encode(writer);
    }
}

/// SMB2_POSIX_EXTENSIONS_AVAILABLE of the SMB3 POSIX Extensions: the versions offered, each a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PosixExtensions<'a>(&'a [u8]);

impl<'a> PosixExtensions<'a> {
    /// The one version there is.
    pub const VERSION: Guid =
        Guid([0x93, 0xAD, 0x25, 0x50, 0x9C, 0xB4, 0x11, 0xE7, 0xB4, 0x23, 0x83, 0xDE, 0x96, 0x8B, 0xCD, 0x7C]);

    /// Offers, or accepts, [`PosixExtensions::VERSION`].
    pub fn offer() -> PosixExtensions<'static> {
        PosixExtensions(&Self::VERSION.0)
    }

    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        match data.len() % Guid::LENGTH {
            0 => Ok(PosixExtensions(data)),
            _ => Err(Malformed("POSIX extensions version")),
        }
    }

    /// Appends the context's data.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.bytes(self.0);
    }

    /// True when [`PosixExtensions::VERSION`] is offered.
    pub fn offers_version(&self) -> bool {
        self.0.chunks_exact(Guid::LENGTH).any(|version| version == PosixExtensions::VERSION.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> NegotiateContextsBuilder {
        let mut builder = NegotiateContextsBuilder::new();
        let hash_algorithms = U16List::new(&[HashAlgorithm::SHA_512]);
        let preauth = PreauthIntegrityCapabilities { hash_algorithms, salt: &[9; 32] };
        builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| preauth.encode(writer));
        let encryption = EncryptionCapabilities { ciphers: U16List::new(&[Cipher::AES_128_GCM, Cipher::AES_128_CCM]) };
        builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| encryption.encode(writer));
        builder.add(ContextType(0x7777), |writer| writer.bytes(b"unknown"));
        builder.add(ContextType(0x7777), |_| {});
        builder
    }

    fn message() -> Vec<u8> {
        let mut message = vec![0; 72];
        message.extend_from_slice(whole().contexts().as_bytes());
        message
    }

    #[test]
    fn lists_round_trip_with_unknown_and_repeated_contexts() {
        let (message, builder) = (message(), whole());
        let contexts = NegotiateContexts::decode(&message, 72, 4).unwrap();
        assert_eq!(contexts, builder.contexts());
        let types: Vec<_> = contexts.iter().map(|context| context.context_type.0).collect();
        assert_eq!(types, [1, 2, 0x7777, 0x7777]);
        assert_eq!(contexts.find(ContextType(0x7777)), Some(&b"unknown"[..]));
        assert_eq!(contexts.find(ContextType::SIGNING_CAPABILITIES), None);
    }

    #[test]
    fn truncated_lists_are_malformed() {
        let message = message();
        for length in 0..message.len() {
            assert!(NegotiateContexts::decode(&message[..length], 72, 4).is_err(), "{length}");
        }
        crate::testing::hostile(&message, |hostile| {
            let _ = NegotiateContexts::decode(hostile, 72, 4);
        });
    }

    #[test]
    fn counts_and_offsets_beyond_the_message_are_malformed() {
        let message = message();
        for (offset, count) in [(72, 5), (63, 4), (0, 1), (10_000, 1), (u32::MAX, 1), (72, u16::MAX), (72, 65)] {
            assert!(NegotiateContexts::decode(&message, offset, count).is_err(), "{offset} {count}");
        }
        assert_eq!(NegotiateContexts::decode(&message, u32::MAX, 0), Ok(NegotiateContexts::default()));
    }

    /// Checks a context's type with the data it should have.
    macro_rules! check_context {
        ($type:ident, $value:expr, $data:expr) => {{
            let (value, mut data) = ($value, Vec::new());
            value.encode(&mut Writer::new(&mut data));
            assert_eq!(data, $data);
            assert_eq!($type::decode(&data), Ok(value));
            for length in 0..data.len() {
                assert!($type::decode(&data[..length]).is_err(), "cut off at {length}: {:?}", value);
            }
            crate::testing::hostile(&data, |hostile| {
                let _ = $type::decode(hostile);
            });
        }};
    }

    #[test]
    fn known_contexts_round_trip() {
        let hash_algorithms = U16List::new(&[HashAlgorithm::SHA_512]);
        let preauth = PreauthIntegrityCapabilities { hash_algorithms, salt: b"salt" };
        check_context!(PreauthIntegrityCapabilities, preauth, [1, 0, 4, 0, 1, 0, b's', b'a', b'l', b't']);
        let encryption = EncryptionCapabilities { ciphers: U16List::new(&[Cipher::AES_256_GCM, Cipher(0)]) };
        check_context!(EncryptionCapabilities, encryption, [2, 0, 4, 0, 0, 0]);
        let algorithms = U16List::new(&[CompressionAlgorithm::LZ4]);
        let compression = CompressionCapabilities { flags: CompressionCapabilities::FLAG_CHAINED, algorithms };
        check_context!(CompressionCapabilities, compression, [1, 0, 0, 0, 1, 0, 0, 0, 5, 0]);
        let transport = TransportCapabilities { flags: TransportCapabilities::ACCEPT_TRANSPORT_LEVEL_SECURITY };
        check_context!(TransportCapabilities, transport, [1, 0, 0, 0]);
        let rdma = RdmaTransformCapabilities { transforms: U16List::new(&[RdmaTransform::SIGNING]) };
        check_context!(RdmaTransformCapabilities, rdma, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
        let algorithms = U16List::new(&[SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC]);
        check_context!(SigningCapabilities, SigningCapabilities { algorithms }, [2, 0, 2, 0, 1, 0]);
    }

    #[test]
    fn net_names_are_even() {
        let netname = Netname { name: Utf16::new(b"s\0v\0").unwrap() };
        let mut data = Vec::new();
        netname.encode(&mut Writer::new(&mut data));
        assert_eq!(Netname::decode(&data), Ok(netname));
        assert!(Netname::decode(&data[..3]).is_err());
    }

    #[test]
    fn posix_extensions_are_offered_by_their_version() {
        let mut data = vec![1; 16];
        assert!(!PosixExtensions::decode(&data).unwrap().offers_version());
        PosixExtensions::offer().encode(&mut Writer::new(&mut data));
        assert!(PosixExtensions::decode(&data).unwrap().offers_version());
        assert!(PosixExtensions::decode(&data[..31]).is_err());
    }
}
