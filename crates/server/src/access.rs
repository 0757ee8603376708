//! Who may do what: share modes (MS-FSA 2.1.5.1.2.2), rights by security descriptor (MS-DTYP 2.5.3.2), and the descriptors of files that
//! have none of their own.

use store::{Kind, Node};
use wire::security::access::{
    APPEND_DATA, DELETE, EXECUTE, FILE_ALL, GenericMapping, MAXIMUM_ALLOWED, READ_DATA, WRITE_DATA,
};
use wire::security::evaluate::{self, Privileges, Token};
use wire::security::inherit::{self, Creator, ObjectKind};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use wire::status::Status;

use crate::user::User;

/// Rights that take part in share modes.
const SHARED_READ: u32 = READ_DATA | EXECUTE;
const SHARED_WRITE: u32 = WRITE_DATA | APPEND_DATA;
/// ShareAccess bits.
const SHARE_READ: u32 = 1;
const SHARE_WRITE: u32 = 2;
const SHARE_DELETE: u32 = 4;

/// True where two opens of one stream, each (access, share access), cannot be at the same time.
pub(crate) fn shares_conflict(one: (u32, u32), other: (u32, u32)) -> bool {
    takes_part(one.0) && takes_part(other.0) && (unshared(one.0, other.1) || unshared(other.0, one.1))
}

/// True where an open of a file's unnamed stream with `access` may delete it, with all its streams, while an open of a named
/// stream, (access, share access), does not share that (MS-FSA 2.1.5.1.2.1).
pub(crate) fn deletion_conflicts(access: u32, stream: (u32, u32)) -> bool {
    access & DELETE != 0 && takes_part(stream.0) && stream.1 & SHARE_DELETE == 0
}

/// An open that looks at attributes alone is in nobody's way.
pub(crate) fn takes_part(access: u32) -> bool {
    access & (SHARED_READ | SHARED_WRITE | DELETE) != 0
}

fn unshared(access: u32, share: u32) -> bool {
    let needs = [(SHARED_READ, SHARE_READ), (SHARED_WRITE, SHARE_WRITE), (DELETE, SHARE_DELETE)];
    needs.into_iter().any(|(rights, bit)| access & rights != 0 && share & bit == 0)
}

/// The rights that `user` gets on a node whose descriptor is `descriptor`: all of `desired`, or with MAXIMUM_ALLOWED all there are.
pub(crate) fn check(user: &User, descriptor: &SecurityDescriptor, desired: u32) -> Result<u32, Status> {
    let token = Token { sids: &user.sids, privileges: privileges(user) };
    evaluate::check(descriptor, &token, desired, &GenericMapping::FILE).map_err(|refusal| match refusal {
        evaluate::Refusal::AccessDenied => Status::ACCESS_DENIED,
        evaluate::Refusal::PrivilegeNotHeld => Status::PRIVILEGE_NOT_HELD,
    })
}

fn privileges(user: &User) -> Privileges {
    if user.has_full_control() { Privileges::SECURITY | Privileges::TAKE_OWNERSHIP } else { Privileges::NONE }
}

/// The same for a node, whose descriptor is read only where it matters: it does not bind the holder of an account's key.
pub(crate) fn check_node(user: &User, node: &dyn Node, desired: u32) -> Result<u32, crate::refusal::Refusal> {
    if user.is_anonymous {
        // Whatever the descriptor grants the ANONYMOUS user: no share is nobody's to use.
        return Err(Status::ACCESS_DENIED.into());
    }
    if user.has_full_control() {
        let wanted = GenericMapping::FILE.map(desired);
        let maximum = if desired & MAXIMUM_ALLOWED != 0 { FILE_ALL } else { 0 };
        return Ok((wanted & !MAXIMUM_ALLOWED) | maximum);
    }
    let descriptor = descriptor(node)?;
    Ok(check(user, &descriptor, desired)?)
}

/// A node's descriptor: the stored one, or the default.
pub(crate) fn descriptor(node: &dyn Node) -> Result<SecurityDescriptor, store::Error> {
    let stored = node.security()?;
    let decoded = stored.and_then(|bytes| match SecurityDescriptor::decode(&bytes) {
        Ok(descriptor) => Some(descriptor),
        Err(malformed) => {
            tracing::warn!(%malformed, "a stored security descriptor is damaged; the default stands in for it");
            None
        }
    });
    Ok(decoded.unwrap_or_else(|| default_descriptor(node.kind())))
}

/// The descriptor of what was never given one: who may use the share may do everything, and so below it.
pub(crate) fn default_descriptor(kind: Kind) -> SecurityDescriptor {
    let flags = match kind {
        Kind::Directory => AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT,
        Kind::File | Kind::Stream => AceFlags::NONE,
    };
    let who = [Sid::BUILTIN_ADMINISTRATORS, Sid::SYSTEM, Sid::AUTHENTICATED_USERS];
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        owner: Some(Sid::BUILTIN_ADMINISTRATORS),
        group: Some(Sid::BUILTIN_USERS),
        sacl: None,
        dacl: Some(Acl { aces: who.into_iter().map(|sid| Ace::allow(sid, FILE_ALL, flags)).collect() }),
    }
}

/// The descriptor to store with a new node, from its directory's and from what the creator asks for; `None` where the default
/// says the same.
pub(crate) fn descriptor_of_new(
    user: &User,
    parent: &dyn Node,
    asked: Option<&SecurityDescriptor>,
    kind: Kind,
) -> Result<Option<Vec<u8>>, crate::refusal::Refusal> {
    let stored = parent.security()?;
    if user.has_full_control() && asked.is_none() && stored.is_none() {
        return Ok(None);
    }
    let parent = descriptor(parent)?;
    let object = match kind {
        Kind::Directory => ObjectKind::Container,
        Kind::File | Kind::Stream => ObjectKind::Leaf,
    };
    let creator = Creator { owner: *user.sid(), group: *user.group(), default_dacl: Some(default_dacl(user)) };
    let made = inherit::create(Some(&parent), asked, object, &creator, &GenericMapping::FILE);
    Ok(Some(made.encode().ok_or(Status::INVALID_SECURITY_DESCR)?))
}

/// A token's default DACL: the owner and the system.
fn default_dacl(user: &User) -> Acl {
    let who = [*user.sid(), Sid::SYSTEM];
    Acl { aces: who.into_iter().map(|sid| Ace::allow(sid, FILE_ALL, AceFlags::NONE)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_needs_its_share_bit_both_ways() {
        let all = SHARE_READ | SHARE_WRITE | SHARE_DELETE;
        for (access, bit) in
            [(READ_DATA, SHARE_READ), (EXECUTE, SHARE_READ), (APPEND_DATA, SHARE_WRITE), (DELETE, SHARE_DELETE)]
        {
            assert!(shares_conflict((access, all), (READ_DATA, all & !bit)));
            assert!(shares_conflict((READ_DATA, all & !bit), (access, all)));
            assert!(!shares_conflict((access, all), (READ_DATA, all)));
            assert!(!shares_conflict((access, 0), (0x80, 0)));
        }
    }
}
