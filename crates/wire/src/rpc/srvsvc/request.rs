//! What clients ask (MS-SRVS 3.1.4.8 to 3.1.4.10, 3.1.4.17, 3.1.4.21).

use crate::codec::{Malformed, Utf16};
use crate::rpc::Syntax;
use crate::rpc::ndr::NdrReader;
use crate::rpc::pdu::FaultStatus;
use crate::rpc::srvsvc::Operation;

/// A call with its parameters. ServerName is left out: there is one server here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// NetrShareEnum and NetrShareEnumSticky.
    ShareEnum {
        /// Information level.
        level: u32,
        /// How much data the client would like at most, in bytes.
        preferred_bytes: u32,
        /// Where to go on, and whether the client wants to be told.
        resume: Option<u32>,
    },
    /// NetrShareGetInfo.
    ShareInfo {
        /// Which share.
        name: Utf16<'a>,
        /// Information level.
        level: u32,
    },
    /// NetrServerGetInfo.
    ServerInfo {
        /// Information level.
        level: u32,
    },
    /// NetrRemoteTOD.
    RemoteTimeOfDay,
}

/// Why a call cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// We do not know the operation.
    Operation,
    /// A union's discriminant names no arm.
    Tag,
    /// The parameters are malformed.
    Stub(Malformed),
}

impl From<Malformed> for Unreadable {
    fn from(malformed: Malformed) -> Self {
        Unreadable::Stub(malformed)
    }
}

impl From<Unreadable> for FaultStatus {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Operation => FaultStatus::OP_RANGE_ERROR,
            Unreadable::Tag => FaultStatus::INVALID_TAG,
            Unreadable::Stub(_) => FaultStatus::BAD_STUB_DATA,
        }
    }
}

impl<'a> Call<'a> {
    /// Reads the stub of a request.
    pub fn decode(operation: Operation, stub: &'a [u8], syntax: Syntax) -> Result<Call<'a>, Unreadable> {
        let mut ndr = NdrReader::new(stub, syntax);
        match operation {
            Operation::SHARE_ENUM | Operation::SHARE_ENUM_STICKY => {
                ndr.unique_string()?;
                let level = read_enumeration(&mut ndr)?;
                let preferred_bytes = ndr.u32()?;
                let resume = if ndr.pointer()? { Some(ndr.u32()?) } else { None };
                Ok(Call::ShareEnum { level, preferred_bytes, resume })
            }
            Operation::SHARE_INFO => {
                ndr.unique_string()?;
                Ok(Call::ShareInfo { name: ndr.string()?, level: ndr.u32()? })
            }
            Operation::SERVER_INFO => {
                ndr.unique_string()?;
                Ok(Call::ServerInfo { level: ndr.u32()? })
            }
            Operation::REMOTE_TIME_OF_DAY => {
                ndr.unique_string()?;
                Ok(Call::RemoteTimeOfDay)
            }
            _ => Err(Unreadable::Operation),
        }
    }
}

/// SHARE_ENUM_STRUCT (MS-SRVS 2.2.4.38) as clients send it: a level and an empty container. Gives the level.
/// The structure is aligned as its pointers are.
fn read_enumeration(ndr: &mut NdrReader<'_>) -> Result<u32, Unreadable> {
    ndr.align_word()?;
    let level = ndr.u32()?;
    ndr.align_word()?;
    let tag = ndr.u32()?;
    ndr.align_word()?;
    if tag != level || !matches!(tag, 0 | 1 | 2 | 501 | 502 | 503) {
        return Err(Unreadable::Tag);
    }
    if ndr.pointer()? {
        let entries = ndr.u32()?;
        let filled = ndr.pointer()? && ndr.count()? != 0;
        if entries != 0 || filled {
            return Err(Unreadable::Stub(Malformed("share container is not empty")));
        }
    }
    Ok(level)
}
