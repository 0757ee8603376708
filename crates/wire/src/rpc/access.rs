//! What may be asked of an object that a handle is of (MS-SAMR 3.1.5.1, MS-LSAD 3.1.4.2.1).

use crate::rpc::names::Names;
use crate::status::Status;

use crate::security::access::{GenericMapping, MAXIMUM_ALLOWED};

/// What may be done with one kind of object: nothing that changes it, and the same by everybody who may ask.
pub(crate) struct Rights {
    /// What is granted to who asks for as much as may be.
    pub(crate) granted: u32,
    /// What generic rights mean.
    pub(crate) read: u32,
    pub(crate) write: u32,
    pub(crate) execute: u32,
    pub(crate) all: u32,
}

impl Rights {
    /// The access that the client gets who wants `desired`; ACCESS_DENIED where that is more than it may have.
    pub(crate) fn grant(&self, names: &dyn Names, desired: u32) -> Result<u32, Status> {
        let Rights { read, write, execute, all, .. } = *self;
        if !names.may_ask() {
            return Err(Status::ACCESS_DENIED);
        }
        let wanted = GenericMapping { read, write, execute, all }.map(desired);
        match wanted {
            _ if wanted & MAXIMUM_ALLOWED != 0 => Ok(self.granted),
            _ if wanted & !self.granted != 0 => Err(Status::ACCESS_DENIED),
            _ => Ok(wanted),
        }
    }
}
