//! Context handles (C706 6.1.6): what a client has opened by one call and names in later ones. They belong to an association, which is all
//! pipes on which a client speaks with the same association group (MS-RPCE 3.3.1.3): Windows opens on one pipe and goes on with another.

use crate::codec::Malformed;
use crate::ids::Guid;
use crate::rpc::ndr::{NdrReader, NdrWriter};

/// The most handles that one association has open: clients open one object at a time, and close it.
pub const HANDLES_MAX: usize = 256;
/// What one open handle costs, in bytes.
const HANDLE_BYTES: usize = size_of::<Opened>();

/// A context handle on the wire: a number of the server's own in the place of the UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle(Guid);

impl Handle {
    /// The handle that is none: what a close gives back.
    pub const NONE: Handle = Handle(Guid([0; 16]));

    pub(crate) fn read(ndr: &mut NdrReader<'_>) -> Result<Handle, Malformed> {
        // Attributes: zero, but no client is refused for them.
        ndr.u32()?;
        Ok(Handle(Guid(ndr.array()?)))
    }

    pub(crate) fn write(self, ndr: &mut NdrWriter<'_>) {
        ndr.u32(0);
        ndr.bytes(&self.0.0);
    }
}

/// A domain of the account database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountDomain {
    /// That of the server's own accounts.
    Accounts,
    /// That of the local groups that every machine has.
    Builtin,
}

/// What a handle is of. Accounts are named by relative id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The server's policy (MS-LSAT 3.1.4.1).
    Policy,
    /// The server's account database (MS-SAMR 3.1.5.1.1).
    AccountServer,
    /// A domain in it.
    Domain(AccountDomain),
    /// A user of the server's own accounts.
    User(u32),
    /// A group of them.
    Group(u32),
    /// A local group of a domain.
    Alias(AccountDomain, u32),
}

/// What a handle leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    handle: Handle,
    /// The object.
    pub object: Object,
    /// What may be done with it: an access mask of the object's kind.
    pub granted: u32,
}

/// The open handles of one association.
#[derive(Debug, Default)]
pub struct Handles {
    opened: Vec<Opened>,
    last: u64,
}

impl Handles {
    /// Opens `object`; `None` where there are as many handles as may be.
    pub fn open(&mut self, object: Object, granted: u32) -> Option<Handle> {
        if self.opened.len() >= HANDLES_MAX {
            return None;
        }
        self.last += 1;
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&self.last.to_le_bytes());
        let handle = Handle(Guid(uuid));
        self.opened.push(Opened { handle, object, granted });
        Some(handle)
    }

    /// What `handle` leads to; `None` where it is not open.
    pub fn find(&self, handle: Handle) -> Option<Opened> {
        self.opened.iter().find(|opened| opened.handle == handle).copied()
    }

    /// Closes `handle`; false where it is not open.
    pub fn close(&mut self, handle: Handle) -> bool {
        let before = self.opened.len();
        self.opened.retain(|opened| opened.handle != handle);
        if self.opened.is_empty() {
            self.opened = Vec::new();
        }
        self.opened.len() != before
    }

    /// What the handles make the server hold, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.opened.capacity() * HANDLE_BYTES
    }

    /// What they hold at most once another one is open, in bytes.
    pub fn held_bytes_with_another(&self) -> usize {
        let room = self.opened.capacity();
        let grown = if self.opened.len() < room { room } else { (2 * room).max(4) };
        grown * HANDLE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_leads_nowhere_and_never_again() {
        let mut handles = Handles::default();
        let first = handles.open(Object::Policy, 1).unwrap();
        let second = handles.open(Object::User(1000), 2).unwrap();
        assert_eq!(handles.find(second).map(|opened| (opened.object, opened.granted)), Some((Object::User(1000), 2)));
        assert!(handles.close(first) && !handles.close(first));
        assert_eq!(handles.find(first), None);
        let third = handles.open(Object::Policy, 1).unwrap();
        assert!(third != first && third != second && third != Handle::NONE);
    }

    #[test]
    fn there_are_so_many_handles_and_no_more() {
        let mut handles = Handles::default();
        let opened: Vec<_> = (0..HANDLES_MAX).map(|_| handles.open(Object::Policy, 0).unwrap()).collect();
        assert_eq!(handles.open(Object::Policy, 0), None);
        assert!(handles.held_bytes() <= 2 * HANDLES_MAX * HANDLE_BYTES);
        assert!(handles.close(opened[7]));
        assert!(handles.open(Object::Policy, 0).is_some());
        for handle in opened {
            handles.close(handle);
        }
        handles.opened.clear();
        assert!(!handles.close(Handle::NONE) && handles.held_bytes() == 0);
    }

    #[test]
    fn what_another_handle_will_hold_is_known_before() {
        let mut handles = Handles::default();
        for _ in 0..HANDLES_MAX {
            let before = handles.held_bytes_with_another();
            handles.open(Object::Policy, 0).unwrap();
            assert!(handles.held_bytes() <= before);
        }
    }
}
