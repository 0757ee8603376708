//! The workstation service, as far as clients ask a file server for its name (MS-WKST 3.2.4.1).

use crate::rpc::Syntax;
use crate::rpc::ndr::{NdrReader, NdrWriter};
use crate::rpc::srvsvc::{NetStatus, Server, Unreadable};

/// NetrWkstaGetInfo.
pub const WORKSTATION_INFO: u16 = 0;

/// Answers the call `operation` with parameters `stub`: appends the stub to `out`.
pub fn answer(
    operation: u16,
    stub: &[u8],
    server: impl FnOnce() -> Server,
    syntax: Syntax,
    out: &mut Vec<u8>,
) -> Result<(), Unreadable> {
    if operation != WORKSTATION_INFO {
        return Err(Unreadable::Operation);
    }
    let mut ndr = NdrReader::new(stub, syntax);
    ndr.unique_string()?;
    let level = ndr.u32()?;
    encode_workstation(&server(), level, syntax, out);
    Ok(())
}

/// Appends NetrWkstaGetInfo's answer to `out`: levels 100, 101 and 102 (MS-WKST 2.2.5.1 to 2.2.5.3).
pub fn encode_workstation(server: &Server, level: u32, syntax: Syntax, out: &mut Vec<u8>) {
    let known = matches!(level, 100..=102);
    let mut ndr = NdrWriter::new(out, syntax);
    super::srvsvc::union_tag(&mut ndr, level);
    ndr.pointer(known);
    if known {
        write_workstation(&mut ndr, server, level);
    }
    ndr.u32(if known { NetStatus::SUCCESS } else { NetStatus::INVALID_LEVEL }.0);
}

fn write_workstation(ndr: &mut NdrWriter<'_>, server: &Server, level: u32) {
    ndr.align_word();
    ndr.u32(super::srvsvc::PLATFORM_NT);
    ndr.pointer(true);
    ndr.pointer(true);
    ndr.u32(server.version_major);
    ndr.u32(server.version_minor);
    if level >= 101 {
        ndr.pointer(true);
    }
    if level == 102 {
        ndr.u32(0);
    }
    ndr.string(&server.name);
    ndr.string(&server.domain);
    if level >= 101 {
        ndr.string("");
    }
}
