//! The list of create contexts of a CREATE request or response (MS-SMB2 2.2.13.2, 2.2.14.2).
//!
//! ```text
//! offset size  field
//!      0    4  Next           from this context's start to the next one's, a multiple of 8; 0 in the last
//!      4    2  NameOffset     from this context's start
//!      6    2  NameLength
//!      8    2  Reserved
//!     10    2  DataOffset     from this context's start; 0 where there is no data
//!     12    4  DataLength
//!     16    -  Buffer         name and data, each 8-byte aligned
//! ```

use std::fmt;

pub use super::app_instance::{AppInstanceId, AppInstanceVersion};
pub use super::apple::{AppleRequest, AppleServerResponse};
pub use super::durable::{DurableReconnect, DurableReconnectV2, DurableRequestV2, DurableResponseV2};
pub use super::lease::{Lease, LeaseFlags, LeaseState, LeaseV2};
pub use super::posix::{PosixRequest, PosixResponse};
pub use super::query::{AllocationSize, MaximalAccessRequest, MaximalAccessResponse, OnDiskId, TimewarpToken};
use crate::codec::{Malformed, Reader, Writer, range};

/// The names of the known contexts: four letters, or the bytes of a GUID as they stand on the wire.
pub mod name {
    /// SMB2_CREATE_EA_BUFFER: a chain of FILE_FULL_EA_INFORMATION (MS-FSCC 2.4.16).
    pub const EA_BUFFER: &[u8] = b"ExtA";
    /// SMB2_CREATE_SD_BUFFER: a security descriptor (MS-DTYP 2.4.6).
    pub const SD_BUFFER: &[u8] = b"SecD";
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST and its response: see [`crate::context::durable`].
    pub const DURABLE_HANDLE_REQUEST: &[u8] = b"DHnQ";
    /// SMB2_CREATE_DURABLE_HANDLE_RECONNECT: [`super::DurableReconnect`].
    pub const DURABLE_HANDLE_RECONNECT: &[u8] = b"DHnC";
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2: [`super::DurableRequestV2`], [`super::DurableResponseV2`].
    pub const DURABLE_HANDLE_REQUEST_V2: &[u8] = b"DH2Q";
    /// SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2: [`super::DurableReconnectV2`].
    pub const DURABLE_HANDLE_RECONNECT_V2: &[u8] = b"DH2C";
    /// SMB2_CREATE_ALLOCATION_SIZE: [`super::AllocationSize`].
    pub const ALLOCATION_SIZE: &[u8] = b"AlSi";
    /// SMB2_CREATE_QUERY_MAXIMAL_ACCESS: [`super::MaximalAccessRequest`], [`super::MaximalAccessResponse`].
    pub const QUERY_MAXIMAL_ACCESS: &[u8] = b"MxAc";
    /// SMB2_CREATE_TIMEWARP_TOKEN: [`super::TimewarpToken`].
    pub const TIMEWARP_TOKEN: &[u8] = b"TWrp";
    /// SMB2_CREATE_QUERY_ON_DISK_ID: [`super::OnDiskId`].
    pub const QUERY_ON_DISK_ID: &[u8] = b"QFid";
    /// SMB2_CREATE_REQUEST_LEASE, both versions and both directions: [`super::Lease`].
    pub const LEASE: &[u8] = b"RqLs";
    /// SMB2_CREATE_APP_INSTANCE_ID: [`super::AppInstanceId`].
    pub const APP_INSTANCE_ID: &[u8] = &0x45BC_A66A_EFA7_F74A_9008_FA46_2E14_4D74_u128.to_be_bytes();
    /// SMB2_CREATE_APP_INSTANCE_VERSION: [`super::AppInstanceVersion`].
    pub const APP_INSTANCE_VERSION: &[u8] = &0xB982_D0B7_3B56_074F_A07B_524A_8116_A010_u128.to_be_bytes();
    /// SVHDX_OPEN_DEVICE_CONTEXT: shared virtual disks (MS-RSVD 2.2.4.12, 2.2.4.32).
    pub const SVHDX_OPEN_DEVICE: &[u8] = &0x9CCB_CF9E_04C1_E643_980E_158D_A1F6_EC83_u128.to_be_bytes();
    /// macOS: [`super::AppleRequest`], [`super::AppleServerResponse`].
    pub const APPLE: &[u8] = b"AAPL";
    /// Ours, of no other server: on whose behalf another interface of the server opens. The data are a key that the server has given it.
    pub const ORIGIN: &[u8] = &0x07DB_715C_71B9_5C99_6192_A733_1C06_226B_u128.to_be_bytes();
    /// Ours, of no other server: a stream is opened or made where its file is, and never its file made. There are no data.
    pub const STREAM_ALONE: &[u8] = &0x2162_9C40_B83B_33BC_0995_76E5_0A30_78C7_u128.to_be_bytes();
    /// The SMB3 POSIX Extensions: [`super::PosixRequest`], [`super::PosixResponse`].
    pub const POSIX: &[u8] = &0x93AD_2550_9CB4_11E7_B423_83DE_968B_CD7C_u128.to_be_bytes();
}

/// The length in bytes of a context's fixed part.
const FIXED_LENGTH: usize = 16;

/// The most contexts accepted in one list. The specification names some twenty; a client sends each once.
pub const CREATE_CONTEXTS_MAX: usize = 64;

/// One context: its name, four letters or a GUID, and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateContext<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The data, perhaps empty.
    pub data: &'a [u8],
}

/// A list of contexts, checked as a whole when it was decoded.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CreateContexts<'a>(&'a [u8]);

impl<'a> CreateContexts<'a> {
    /// Checks `bytes`, the whole list; no bytes are no contexts.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        let mut count = 0;
        while !rest.is_empty() {
            (_, rest) = split(rest)?;
            count += 1;
            if count > CREATE_CONTEXTS_MAX {
                return Err(Malformed("too many create contexts"));
            }
        }
        Ok(CreateContexts(bytes))
    }

    /// The contexts in order, duplicates included.
    pub fn iter(&self) -> impl Iterator<Item = CreateContext<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (context, after) = split(rest).ok()?;
            rest = after;
            Some(context)
        })
    }

    /// The data of the first context called `name`.
    pub fn find(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|context| context.name == name).map(|context| context.data)
    }

    /// True when there is no context.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The list as it stands on the wire.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for CreateContexts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The first context of a list that is not empty, and the list behind it.
fn split(list: &[u8]) -> Result<(CreateContext<'_>, &[u8]), Malformed> {
    let next = Reader::new(list).u32()? as usize;
    if !next.is_multiple_of(8) || (next != 0 && next < FIXED_LENGTH) {
        return Err(Malformed("Next of a create context"));
    }
    let (element, rest) = match next {
        0 => (list, &[][..]),
        _ => list.split_at_checked(next).ok_or(Malformed("Next of a create context"))?,
    };
    if next != 0 && rest.is_empty() {
        return Err(Malformed("Next of the last create context"));
    }
    let mut reader = Reader::at(element, 4);
    let name_offset = usize::from(reader.u16()?);
    let name_length = usize::from(reader.u16()?);
    reader.skip(2)?;
    let data_offset = usize::from(reader.u16()?);
    let data_length = reader.u32()? as usize;
    let name = buffer(element, name_offset, name_length, "Name of a create context")?;
    let data = buffer(element, data_offset, data_length, "Data of a create context")?;
    Ok((CreateContext { name, data }, rest))
}

fn buffer<'a>(element: &'a [u8], offset: usize, length: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
    match length {
        0 => Ok(&[]),
        _ if offset < FIXED_LENGTH => Err(Malformed(field)),
        _ => range(element, offset, length, field),
    }
}

/// Writes a list of contexts.
#[derive(Clone, Debug, Default)]
pub struct CreateContextsBuilder {
    bytes: Vec<u8>,
    /// Where the last context begins, if there is one.
    last: Option<usize>,
}

impl CreateContextsBuilder {
    /// A list without contexts.
    pub fn new() -> Self {
        CreateContextsBuilder::default()
    }

    /// Adds a context. A name is at most 65,535 bytes long; the known ones have 4 or 16.
    pub fn add(&mut self, name: &[u8], data: &[u8]) -> &mut Self {
        let start = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(start, 0);
        if let Some(last) = self.last.replace(start)
            && let Some(next) = self.bytes.get_mut(last..last + 4)
        {
            next.copy_from_slice(&((start - last) as u32).to_le_bytes());
        }
        let data_offset = if data.is_empty() { 0 } else { (FIXED_LENGTH + name.len()).next_multiple_of(8) };
        let mut writer = Writer::new(&mut self.bytes);
        writer.u32(0);
        writer.u16(FIXED_LENGTH as u16);
        writer.u16(name.len() as u16);
        writer.u16(0);
        writer.u16(data_offset as u16);
        writer.u32(data.len() as u32);
        writer.bytes(name);
        writer.align(8);
        writer.bytes(data);
        self
    }

    /// The list, to be put into a request or response.
    pub fn contexts(&self) -> CreateContexts<'_> {
        CreateContexts(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn list() -> Vec<u8> {
        let mut builder = CreateContextsBuilder::new();
        builder.add(name::QUERY_ON_DISK_ID, &[]).add(name::APP_INSTANCE_ID, b"data").add(name::LEASE, &[7; 52]);
        builder.contexts().as_bytes().to_vec()
    }

    #[test]
    fn contexts_are_found_by_name() {
        let bytes = list();
        let contexts = CreateContexts::decode(&bytes).unwrap();
        assert_eq!(contexts.iter().count(), 3);
        assert_eq!(contexts.find(name::QUERY_ON_DISK_ID), Some(&[][..]));
        assert_eq!(contexts.find(name::APP_INSTANCE_ID), Some(&b"data"[..]));
        assert_eq!(contexts.find(name::LEASE), Some(&[7; 52][..]));
        assert_eq!(contexts.find(name::TIMEWARP_TOKEN), None);
    }

    /// As Windows writes it: the name at 16, the data at 24.
    #[test]
    fn the_layout_is_that_of_the_specification() {
        let mut builder = CreateContextsBuilder::new();
        builder.add(name::ALLOCATION_SIZE, &[1, 2, 3, 4, 5, 6, 7, 8]).add(name::QUERY_ON_DISK_ID, &[]);
        let expected = [
            32, 0, 0, 0, 16, 0, 4, 0, 0, 0, 24, 0, 8, 0, 0, 0, b'A', b'l', b'S', b'i', 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7,
            8, 0, 0, 0, 0, 16, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'Q', b'F', b'i', b'd', 0, 0, 0, 0,
        ];
        assert_eq!(builder.contexts().as_bytes(), expected);
    }

    #[test]
    fn truncated_lists_are_malformed_but_for_their_end_of_padding() {
        let bytes = list();
        for length in 1..bytes.len() {
            assert!(CreateContexts::decode(&bytes[..length]).is_err(), "{length}");
        }
        crate::testing::hostile(&bytes, |hostile| {
            if let Ok(contexts) = CreateContexts::decode(hostile) {
                assert!(contexts.iter().count() <= CREATE_CONTEXTS_MAX);
            }
        });
    }

    #[test]
    fn a_next_that_is_unaligned_or_too_short_or_too_long_is_malformed() {
        for next in [1, 4, 8, 12, 25, 1000, u32::MAX, u32::MAX - 7] {
            let mut bytes = list();
            bytes[..4].copy_from_slice(&next.to_le_bytes());
            assert!(CreateContexts::decode(&bytes).is_err(), "{next}");
        }
    }

    #[test]
    fn names_and_data_must_stay_inside_their_context() {
        for (position, value) in [(4, 0), (4, 15), (6, 9), (7, 0xFF), (10, 0)] {
            let mut bytes = CreateContextsBuilder::new().add(b"Name", b"data").contexts().as_bytes().to_vec();
            bytes.truncate(28);
            bytes[position] = value;
            let malformed = CreateContexts::decode(&bytes).is_err();
            assert_eq!(malformed, (position, value) != (6, 9), "{position} {value}");
        }
    }

    #[test]
    fn too_many_contexts_are_malformed() {
        let mut builder = CreateContextsBuilder::new();
        for _ in 0..CREATE_CONTEXTS_MAX {
            builder.add(b"Same", &[]);
        }
        assert_eq!(CreateContexts::decode(builder.contexts().as_bytes()), Ok(builder.contexts()));
        builder.add(b"More", &[]);
        assert_eq!(CreateContexts::decode(builder.contexts().as_bytes()), Err(Malformed("too many create contexts")));
    }

    proptest! {
        #[test]
        fn lists_round_trip(contexts in vec((vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..80)), 0..10)) {
            let mut builder = CreateContextsBuilder::new();
            for (name, data) in &contexts {
                builder.add(name, data);
            }
            let decoded = CreateContexts::decode(builder.contexts().as_bytes()).unwrap();
            let decoded: Vec<_> = decoded.iter().map(|context| (context.name.to_vec(), context.data.to_vec())).collect();
            prop_assert_eq!(decoded, contexts);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(contexts) = CreateContexts::decode(&bytes) {
                prop_assert!(contexts.iter().count() <= CREATE_CONTEXTS_MAX);
            }
        }
    }
}
