//! What a descriptor lets someone do (MS-DTYP 2.5.3.2).

use crate::security::access::{
    ACCESS_SYSTEM_SECURITY, DELETE, EXECUTE, FILE_GENERIC_READ, FILE_GENERIC_WRITE, GenericMapping, MAXIMUM_ALLOWED,
    READ_CONTROL, WRITE_DAC, WRITE_OWNER,
};
use crate::security::{Ace, AceBody, AceFlags, AceKind, Acl, SecurityDescriptor, Sid};

/// What SeBackupPrivilege lets its holder do (MS-FSA 2.1.5.1).
const BACKUP_ACCESS: u32 = FILE_GENERIC_READ | EXECUTE | ACCESS_SYSTEM_SECURITY;
/// What SeRestorePrivilege lets its holder do (MS-FSA 2.1.5.1).
const RESTORE_ACCESS: u32 = FILE_GENERIC_WRITE | WRITE_DAC | WRITE_OWNER | ACCESS_SYSTEM_SECURITY | DELETE;

flags! {
    /// Privileges that count in an access check.
    Privileges(u8) {
        /// SeSecurityPrivilege: see and change what is audited.
        SECURITY = 0x01,
        /// SeTakeOwnershipPrivilege: become the owner.
        TAKE_OWNERSHIP = 0x02,
        /// SeBackupPrivilege: read anything. Counts only for an open with backup intent: leave it out for others.
        BACKUP = 0x04,
        /// SeRestorePrivilege: write anything. Counts only for an open with backup intent: leave it out for others.
        RESTORE = 0x08,
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// The user and all its groups, Everyone and the like among them.
    pub sids: &'a [Sid],
    /// What it may do besides.
    pub privileges: Privileges,
}

/// Why access was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A right is missing: STATUS_ACCESS_DENIED.
    AccessDenied,
    /// [`ACCESS_SYSTEM_SECURITY`] needs a privilege: STATUS_PRIVILEGE_NOT_HELD.
    PrivilegeNotHeld,
}

/// The rights that `token` gets on an object with `descriptor`: all of `desired`, generic bits mapped, or with
/// [`MAXIMUM_ALLOWED`] all that can be had. Rights are looked for in the order of the DACL: what is granted first is
/// not denied later.
///
/// Conditions are not evaluated and object types do not exist here: a conditional ACE grants nothing and denies
/// always, an object ACE grants nothing and denies where it is of no type.
pub fn check(
    descriptor: &SecurityDescriptor,
    token: &Token<'_>,
    desired: u32,
    mapping: &GenericMapping,
) -> Result<u32, Refusal> {
    let wanted = mapping.map(desired) & !MAXIMUM_ALLOWED;
    let maximum = desired & MAXIMUM_ALLOWED != 0;
    let privileged = by_privilege(token.privileges, wanted, maximum);
    if wanted & ACCESS_SYSTEM_SECURITY & !privileged != 0 {
        return Err(Refusal::PrivilegeNotHeld);
    }
    let searched = if maximum { wanted | mapping.all } else { wanted };
    let granted = privileged | granted(descriptor, token, searched & !privileged, mapping);
    if wanted & !granted != 0 {
        return Err(Refusal::AccessDenied);
    }
    Ok(if maximum { granted } else { wanted })
}

/// The rights that need no ACE. Where everything is asked for, only those of backup and restore join unasked.
fn by_privilege(privileges: Privileges, wanted: u32, maximum: bool) -> u32 {
    let mut granted = 0;
    if privileges.contains(Privileges::SECURITY) {
        granted |= wanted & ACCESS_SYSTEM_SECURITY;
    }
    if privileges.contains(Privileges::TAKE_OWNERSHIP) {
        granted |= wanted & WRITE_OWNER;
    }
    for (privilege, access) in [(Privileges::BACKUP, BACKUP_ACCESS), (Privileges::RESTORE, RESTORE_ACCESS)] {
        if privileges.contains(privilege) {
            granted |= if maximum { access & !ACCESS_SYSTEM_SECURITY | access & wanted } else { access & wanted };
        }
    }
    granted
}

/// Those bits of `searched` that owner and DACL grant.
fn granted(descriptor: &SecurityDescriptor, token: &Token<'_>, searched: u32, mapping: &GenericMapping) -> u32 {
    let Some(dacl) = &descriptor.dacl else { return searched };
    let is_owner = descriptor.owner.is_some_and(|owner| token.sids.contains(&owner));
    let matches = |sid: &Sid| token.sids.contains(sid) || (is_owner && *sid == Sid::OWNER_RIGHTS);
    let mut granted = if is_owner && !limits_owner(dacl) { searched & (READ_CONTROL | WRITE_DAC) } else { 0 };
    let mut denied = 0;
    for ace in dacl.aces.iter().filter(|ace| is_effective(ace)) {
        match effect(ace) {
            Effect::Allow(mask, sid) if matches(&sid) => granted |= mapping.map(mask) & searched & !denied,
            Effect::Deny(mask, sid) if matches(&sid) => denied |= mapping.map(mask) & !granted,
            Effect::Allow(..) | Effect::Deny(..) | Effect::None => {}
        }
    }
    granted
}

/// An OWNER RIGHTS entry takes the place of what an owner may do implicitly, whether or not its condition holds.
fn limits_owner(dacl: &Acl) -> bool {
    dacl.aces.iter().filter(|ace| is_effective(ace) && is_about_access(ace.kind)).any(|ace| {
        let meant = ace.mask_and_sid();
        meant.is_some_and(|(_, sid)| sid == Sid::OWNER_RIGHTS)
    })
}

fn is_about_access(kind: AceKind) -> bool {
    matches!(
        kind,
        AceKind::ACCESS_ALLOWED
            | AceKind::ACCESS_DENIED
            | AceKind::ACCESS_ALLOWED_CALLBACK
            | AceKind::ACCESS_DENIED_CALLBACK
    )
}

fn is_effective(ace: &Ace) -> bool {
    !ace.flags.contains(AceFlags::INHERIT_ONLY)
}

enum Effect {
    Allow(u32, Sid),
    Deny(u32, Sid),
    None,
}

fn effect(ace: &Ace) -> Effect {
    match (&ace.body, ace.kind) {
        (AceBody::Plain { mask, sid }, AceKind::ACCESS_ALLOWED) => Effect::Allow(*mask, *sid),
        (AceBody::Plain { mask, sid }, AceKind::ACCESS_DENIED) => Effect::Deny(*mask, *sid),
        (AceBody::Opaque(_), AceKind::ACCESS_DENIED_CALLBACK) => match ace.mask_and_sid() {
            Some((mask, sid)) => Effect::Deny(mask, sid),
            None => Effect::None,
        },
        _ => ace.denied_to_all_types().map_or(Effect::None, |(mask, sid)| Effect::Deny(mask, sid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::access::*;

    const MAPPING: &GenericMapping = &GenericMapping::FILE;

    fn user(relative: u32) -> Sid {
        Sid::new(5, &[21, 1, 2, 3, relative]).unwrap()
    }

    fn descriptor(owner: Sid, aces: Vec<Ace>) -> SecurityDescriptor {
        SecurityDescriptor { owner: Some(owner), dacl: Some(Acl { aces }), ..SecurityDescriptor::default() }
    }

    fn ask(descriptor: &SecurityDescriptor, sids: &[Sid], desired: u32) -> Result<u32, Refusal> {
        check(descriptor, &Token { sids, privileges: Privileges::NONE }, desired, MAPPING)
    }

    fn allow(sid: Sid, mask: u32) -> Ace {
        Ace::allow(sid, mask, AceFlags::NONE)
    }

    fn deny(sid: Sid, mask: u32) -> Ace {
        Ace::deny(sid, mask, AceFlags::NONE)
    }

    #[test]
    fn no_dacl_grants_everything() {
        let open = SecurityDescriptor::default();
        assert_eq!(ask(&open, &[user(1)], GENERIC_ALL), Ok(FILE_ALL));
        assert_eq!(ask(&open, &[], MAXIMUM_ALLOWED), Ok(FILE_ALL));
        assert_eq!(ask(&open, &[], ACCESS_SYSTEM_SECURITY), Err(Refusal::PrivilegeNotHeld));
    }

    #[test]
    fn an_empty_dacl_grants_only_what_an_owner_has() {
        let closed = descriptor(user(1), vec![]);
        assert_eq!(ask(&closed, &[user(2)], READ_DATA), Err(Refusal::AccessDenied));
        assert_eq!(ask(&closed, &[user(2)], MAXIMUM_ALLOWED), Ok(0));
        assert_eq!(ask(&closed, &[user(1)], READ_CONTROL | WRITE_DAC), Ok(READ_CONTROL | WRITE_DAC));
        assert_eq!(ask(&closed, &[user(1)], READ_CONTROL | READ_DATA), Err(Refusal::AccessDenied));
        assert_eq!(ask(&closed, &[user(1)], MAXIMUM_ALLOWED), Ok(READ_CONTROL | WRITE_DAC));
    }

    #[test]
    fn owner_rights_take_the_place_of_implicit_ones() {
        let limited = descriptor(user(1), vec![allow(Sid::OWNER_RIGHTS, READ_DATA)]);
        assert_eq!(ask(&limited, &[user(1)], MAXIMUM_ALLOWED), Ok(READ_DATA));
        assert_eq!(ask(&limited, &[user(1)], WRITE_DAC), Err(Refusal::AccessDenied));
        assert_eq!(ask(&limited, &[user(2)], READ_DATA), Err(Refusal::AccessDenied));
        let inherit_only = Ace::allow(Sid::OWNER_RIGHTS, 0, AceFlags::INHERIT_ONLY | AceFlags::OBJECT_INHERIT);
        assert_eq!(ask(&descriptor(user(1), vec![inherit_only]), &[user(1)], WRITE_DAC), Ok(WRITE_DAC));
    }

    #[test]
    fn a_conditional_entry_for_the_owner_limits_it_too() {
        let mut body = READ_DATA.to_le_bytes().to_vec();
        Sid::OWNER_RIGHTS.encode(&mut body);
        let conditional =
            Ace { kind: AceKind::ACCESS_ALLOWED_CALLBACK, flags: AceFlags::NONE, body: AceBody::Opaque(body) };
        assert_eq!(ask(&descriptor(user(1), vec![conditional]), &[user(1)], MAXIMUM_ALLOWED), Ok(0));
    }

    #[test]
    fn the_first_word_on_a_right_counts() {
        let denied = descriptor(user(9), vec![deny(user(1), WRITE_DATA), allow(Sid::EVERYONE, FILE_ALL)]);
        let sids = [user(1), Sid::EVERYONE];
        assert_eq!(ask(&denied, &sids, GENERIC_WRITE), Err(Refusal::AccessDenied));
        assert_eq!(ask(&denied, &sids, READ_DATA), Ok(READ_DATA));
        assert_eq!(ask(&denied, &sids, MAXIMUM_ALLOWED), Ok(FILE_ALL & !WRITE_DATA));
        let granted = descriptor(user(9), vec![allow(Sid::EVERYONE, FILE_ALL), deny(user(1), WRITE_DATA)]);
        assert_eq!(ask(&granted, &sids, MAXIMUM_ALLOWED), Ok(FILE_ALL));
        assert_eq!(ask(&granted, &sids, WRITE_DATA), Ok(WRITE_DATA));
    }

    #[test]
    fn rights_add_up_over_entries() {
        let split = descriptor(user(9), vec![allow(user(1), READ_DATA), allow(Sid::EVERYONE, WRITE_DATA)]);
        assert_eq!(ask(&split, &[user(1), Sid::EVERYONE], READ_DATA | WRITE_DATA), Ok(READ_DATA | WRITE_DATA));
        assert_eq!(ask(&split, &[Sid::EVERYONE], READ_DATA | WRITE_DATA), Err(Refusal::AccessDenied));
    }

    #[test]
    fn generic_bits_in_entries_are_mapped() {
        let generic = descriptor(user(9), vec![allow(user(1), GENERIC_READ)]);
        assert_eq!(ask(&generic, &[user(1)], GENERIC_READ), Ok(FILE_GENERIC_READ));
        assert_eq!(ask(&generic, &[user(1)], MAXIMUM_ALLOWED), Ok(FILE_GENERIC_READ));
    }

    #[test]
    fn maximum_allowed_beside_other_rights_still_needs_those() {
        let read = descriptor(user(9), vec![allow(user(1), FILE_GENERIC_READ)]);
        assert_eq!(ask(&read, &[user(1)], MAXIMUM_ALLOWED | READ_DATA), Ok(FILE_GENERIC_READ));
        assert_eq!(ask(&read, &[user(1)], MAXIMUM_ALLOWED | DELETE), Err(Refusal::AccessDenied));
    }

    #[test]
    fn privileges_open_what_lists_close() {
        let closed = descriptor(user(9), vec![]);
        let with = |privileges, desired| check(&closed, &Token { sids: &[user(1)], privileges }, desired, MAPPING);
        assert_eq!(with(Privileges::SECURITY, ACCESS_SYSTEM_SECURITY), Ok(ACCESS_SYSTEM_SECURITY));
        assert_eq!(with(Privileges::TAKE_OWNERSHIP, WRITE_OWNER), Ok(WRITE_OWNER));
        assert_eq!(with(Privileges::TAKE_OWNERSHIP, WRITE_DAC), Err(Refusal::AccessDenied));
        assert_eq!(with(Privileges::BACKUP, GENERIC_READ), Ok(FILE_GENERIC_READ));
        assert_eq!(with(Privileges::BACKUP, WRITE_DATA), Err(Refusal::AccessDenied));
        assert_eq!(with(Privileges::RESTORE, GENERIC_WRITE | DELETE), Ok(FILE_GENERIC_WRITE | DELETE));
    }

    #[test]
    fn object_entries_grant_nothing_and_deny_where_they_are_of_no_type() {
        let all = allow(user(1), GENERIC_ALL);
        for (flags, guids, denies) in [(0_u32, 0, true), (2, 1, true), (1, 1, false), (3, 2, false)] {
            let mut body = [DELETE.to_le_bytes(), flags.to_le_bytes()].concat();
            body.extend(std::iter::repeat_n(7, 16 * guids));
            user(1).encode(&mut body);
            let object = |kind| Ace { kind, flags: AceFlags::NONE, body: AceBody::Opaque(body.clone()) };
            for kind in [AceKind::ACCESS_DENIED_OBJECT, AceKind::ACCESS_DENIED_CALLBACK_OBJECT] {
                let denied = ask(&descriptor(user(9), vec![object(kind), all.clone()]), &[user(1)], DELETE);
                assert_eq!(denied.is_err(), denies, "{flags}");
            }
            let granted = descriptor(user(9), vec![object(AceKind::ACCESS_ALLOWED_OBJECT)]);
            assert_eq!(ask(&granted, &[user(1)], DELETE), Err(Refusal::AccessDenied));
        }
        let short =
            Ace { kind: AceKind::ACCESS_DENIED_OBJECT, flags: AceFlags::NONE, body: AceBody::Opaque(vec![0; 8]) };
        assert_eq!(ask(&descriptor(user(9), vec![short, all]), &[user(1)], DELETE), Ok(DELETE));
    }

    #[test]
    fn conditional_entries_grant_nothing_and_deny_always() {
        let mut body = WRITE_DATA.to_le_bytes().to_vec();
        user(1).encode(&mut body);
        let conditional = |kind| Ace { kind, flags: AceFlags::NONE, body: AceBody::Opaque(body.clone()) };
        let all = allow(user(1), FILE_ALL);
        let denied = descriptor(user(9), vec![conditional(AceKind::ACCESS_DENIED_CALLBACK), all]);
        assert_eq!(ask(&denied, &[user(1)], WRITE_DATA), Err(Refusal::AccessDenied));
        let granted = descriptor(user(9), vec![conditional(AceKind::ACCESS_ALLOWED_CALLBACK)]);
        assert_eq!(ask(&granted, &[user(1)], WRITE_DATA), Err(Refusal::AccessDenied));
    }
}
