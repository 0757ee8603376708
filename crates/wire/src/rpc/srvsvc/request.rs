//! What clients ask (MS-SRVS 3.1.4.2, 3.1.4.5, 3.1.4.8 to 3.1.4.10, 3.1.4.17, 3.1.4.21).

use crate::codec::{Malformed, Utf16};
use crate::rpc::Syntax;
use crate::rpc::ndr::NdrReader;
use crate::rpc::pdu::FaultStatus;
use crate::rpc::srvsvc::{Operation, Wanted};

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
    /// NetrSessionEnum.
    SessionEnum {
        /// The client whose sessions are wanted alone, behind two backslashes.
        client: Option<Utf16<'a>>,
        /// The user whose sessions are wanted alone.
        user: Option<Utf16<'a>>,
        /// Which of them.
        wanted: Wanted,
    },
    /// NetrFileEnum.
    FileEnum {
        /// What is wanted alone is below this path.
        base: Option<Utf16<'a>>,
        /// The user whose files are wanted alone.
        user: Option<Utf16<'a>>,
        /// Which of them.
        wanted: Wanted,
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
                let Wanted { level, preferred_bytes, resume } = read_wanted(&mut ndr, &[0, 1, 2, 501, 502, 503])?;
                Ok(Call::ShareEnum { level, preferred_bytes, resume })
            }
            Operation::SESSION_ENUM => {
                ndr.unique_string()?;
                let (client, user) = (ndr.unique_string()?, ndr.unique_string()?);
                Ok(Call::SessionEnum { client, user, wanted: read_wanted(&mut ndr, &[0, 1, 2, 10, 502])? })
            }
            Operation::FILE_ENUM => {
                ndr.unique_string()?;
                let (base, user) = (ndr.unique_string()?, ndr.unique_string()?);
                Ok(Call::FileEnum { base, user, wanted: read_wanted(&mut ndr, &[2, 3])? })
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

/// The parameters that enumerations end with.
fn read_wanted(ndr: &mut NdrReader<'_>, levels: &[u32]) -> Result<Wanted, Unreadable> {
    let level = read_enumeration(ndr, levels)?;
    let preferred_bytes = ndr.u32()?;
    let resume = if ndr.pointer()? { Some(ndr.u32()?) } else { None };
    Ok(Wanted { level, preferred_bytes, resume })
}

/// SHARE_ENUM_STRUCT (MS-SRVS 2.2.4.38) and its like as clients send them: one of these levels and an empty container. Gives the level.
/// The structure is aligned as its pointers are.
fn read_enumeration(ndr: &mut NdrReader<'_>, levels: &[u32]) -> Result<u32, Unreadable> {
    ndr.align_word()?;
    let level = ndr.u32()?;
    ndr.align_word()?;
    let tag = ndr.u32()?;
    ndr.align_word()?;
    if tag != level || !levels.contains(&tag) {
        return Err(Unreadable::Tag);
    }
    if ndr.pointer()? {
        let entries = ndr.u32()?;
        let filled = ndr.pointer()? && ndr.count()? != 0;
        if entries != 0 || filled {
            return Err(Unreadable::Stub(Malformed("container is not empty")));
        }
    }
    Ok(level)
}
