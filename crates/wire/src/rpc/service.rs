//! Whom calls are asked of: a server's shares and accounts, and what it may hold for a conversation.

use crate::rpc::handles::{Handle, Object, Opened};
use crate::rpc::names::Names;
use crate::rpc::ndr::NdrWriter;
use crate::rpc::pdu::FaultStatus;
use crate::rpc::srvsvc::Srvsvc;
use crate::status::Status;

/// What calls are asked of, and what holds what a conversation needs.
pub trait Service: Srvsvc + Names {
    /// True where so many bytes may be held for the conversation from now on, together with those that are held already.
    fn may_hold(&self, bytes: usize) -> bool;

    /// Counts work of a call, as bytes that it takes as long to copy. Who serves one client alone need not count.
    fn note_work(&self, _bytes: usize) {}

    /// Has the conversation share its handles with the client's others of the same association group; zero asks for a group of its own. Gives
    /// the group that it is in.
    fn join(&self, group: u32) -> u32;

    /// Opens `object` with the access that is granted; `None` where there is no room for another handle.
    fn open(&self, object: Object, granted: u32) -> Option<Handle>;

    /// What `handle` leads to; `None` where it is not open.
    fn find(&self, handle: Handle) -> Option<Opened>;

    /// Closes `handle`; false where it is not open.
    fn close(&self, handle: Handle) -> bool;
}

/// Opens `object` for the client.
pub(crate) fn open(service: &dyn Service, object: Object, granted: u32) -> Result<Handle, Status> {
    service.open(object, granted).ok_or(Status::INSUFFICIENT_RESOURCES)
}

/// What `handle` leads to. One that is not open is a fault (MS-RPCE 3.3.3.4.3).
pub(crate) fn find(service: &dyn Service, handle: Handle) -> Result<Opened, FaultStatus> {
    service.find(handle).ok_or(FaultStatus::CONTEXT_MISMATCH)
}

/// The end of the answer to a call that opens something.
pub(crate) fn write_opened(ndr: &mut NdrWriter<'_>, opened: Result<Handle, Status>) {
    opened.unwrap_or(Handle::NONE).write(ndr);
    ndr.u32(opened.err().unwrap_or(Status::SUCCESS).0);
}

/// Closes `handle`, and answers that.
pub(crate) fn close(service: &dyn Service, handle: Handle, ndr: &mut NdrWriter<'_>) -> Result<(), FaultStatus> {
    if !service.close(handle) {
        return Err(FaultStatus::CONTEXT_MISMATCH);
    }
    write_opened(ndr, Ok(Handle::NONE));
    Ok(())
}
