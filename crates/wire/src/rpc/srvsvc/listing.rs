//! The client's side of listing shares: NetrShareEnum at level 1 (MS-SRVS 3.1.4.8).

use crate::codec::Malformed;
use crate::rpc::Syntax;
use crate::rpc::ndr::{NdrReader, NdrWriter};
use crate::rpc::srvsvc::{NetStatus, ShareKind};

/// The level that carries names, kinds and comments.
const LEVEL: u32 = 1;
/// MAX_PREFERRED_LENGTH (MS-SRVS 2.2.2.2): everything.
const EVERYTHING: u32 = 0xFFFF_FFFF;

/// A share, as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedShare {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ShareKind,
    /// What it is for.
    pub comment: String,
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The shares.
    pub shares: Vec<ListedShare>,
    /// Where to go on after [`NetStatus::MORE_DATA`].
    pub resume: u32,
    /// How the call ended.
    pub status: NetStatus,
}

/// Appends the stub that asks `server` (`\\name`) for its shares from `resume` on, zero at first, to `out`.
pub fn encode_list_shares(server: &str, resume: u32, syntax: Syntax, out: &mut Vec<u8>) {
    let mut ndr = NdrWriter::new(out, syntax);
    ndr.unique_string(Some(server));
    ndr.align_word();
    ndr.u32(LEVEL);
    super::response::union_tag(&mut ndr, LEVEL);
    ndr.pointer(true);
    ndr.u32(0);
    ndr.pointer(false);
    ndr.u32(EVERYTHING);
    ndr.pointer(true);
    ndr.u32(resume);
}

/// Reads the stub of the answer.
pub fn decode_listing(stub: &[u8], syntax: Syntax) -> Result<Listing, Malformed> {
    let mut ndr = NdrReader::new(stub, syntax);
    let level = ndr.u32()?;
    ndr.align_word()?;
    let tag = ndr.u32()?;
    ndr.align_word()?;
    if level != LEVEL || tag != LEVEL {
        return Err(Malformed("share list has another level"));
    }
    let shares = if ndr.pointer()? { read_container(&mut ndr)? } else { Vec::new() };
    ndr.u32()?;
    let resume = if ndr.pointer()? { ndr.u32()? } else { 0 };
    Ok(Listing { shares, resume, status: NetStatus(ndr.u32()?) })
}

/// SHARE_INFO_1_CONTAINER: all the structures, then all their strings.
fn read_container(ndr: &mut NdrReader<'_>) -> Result<Vec<ListedShare>, Malformed> {
    let entries = ndr.u32()?;
    if !ndr.pointer()? {
        return Ok(Vec::new());
    }
    if ndr.count()? != u64::from(entries) {
        return Err(Malformed("share list's count"));
    }
    let mut fixed = Vec::new();
    for _ in 0..entries {
        let name = ndr.pointer()?;
        let kind = ShareKind(ndr.u32()?);
        fixed.push((name, kind, ndr.pointer()?));
    }
    let mut text = |present: bool| -> Result<String, Malformed> {
        if !present {
            return Ok(String::new());
        }
        ndr.string()?.decode().ok_or(Malformed("share list's text"))
    };
    let mut shares = Vec::new();
    for (name, kind, comment) in fixed {
        shares.push(ListedShare { name: text(name)?, kind, comment: text(comment)? });
    }
    Ok(shares)
}
