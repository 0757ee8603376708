//! The rights, and the check of a descriptor for one of them (MS-DTYP 2.5.3.2, MS-FSA 2.1.4.14).

use super::case::Asks;
use super::descriptor::*;
use super::rules::{Difference, Rules};

pub(crate) const WRITE: u32 = 0x2;
pub(crate) const APPEND: u32 = 0x4;
pub(crate) const DELETE_CHILD_RIGHT: u32 = 0x40;
pub(crate) const READ_ATTRIBUTES_RIGHT: u32 = 0x80;
pub(crate) const WRITE_ATTRIBUTES_RIGHT: u32 = 0x100;
pub(crate) const DELETE_RIGHT: u32 = 0x1_0000;
pub(crate) const WRITE_DAC_RIGHT: u32 = 0x4_0000;
pub(crate) const WRITE_OWNER_RIGHT: u32 = 0x8_0000;
pub(crate) const SYNCHRONIZE_RIGHT: u32 = 0x10_0000;
pub(crate) const SYSTEM_SECURITY: u32 = 0x100_0000;
/// To read, write, append to or execute data.
pub(crate) const DATA: u32 = 0x27;
pub(crate) const MAXIMUM: u32 = 0x200_0000;
pub(crate) const ALL: u32 = 0x1F_01FF;
/// What a share that may only be read allows: GENERIC_READ and GENERIC_EXECUTE.
pub(crate) const OF_READ_ONLY: u32 = 0x12_00A9;
/// WRITE_EA and WRITE_ATTRIBUTES.
pub(crate) const WRITE_OF_FILE: u32 = 0x110;

/// The generic bits as files have them (MS-SMB2 2.2.13.1.1).
pub(crate) fn mapped(mask: u32) -> u32 {
    let meanings = [(1 << 31, 0x12_0089), (1 << 30, 0x12_0116), (1 << 29, 0x12_00A0), (1 << 28, ALL)];
    let plain = mask & 0x0FFF_FFFF;
    meanings.iter().filter(|(bit, _)| mask & bit != 0).fold(plain, |all, (_, meaning)| all | meaning)
}

/// EvaluateTokenAgainstDescriptor for one right (MS-DTYP 2.5.3.2): MS-FSA 2.1.5.1.2.1 asks for each right by itself.
fn check_one(rules: Rules<'_>, asks: Asks, descriptor: &Descriptor, right: u32) -> bool {
    let Some(list) = &descriptor.list else { return true };
    let is_owner = descriptor.owner.is_some_and(|owner| asks.is(owner));
    // "IF DACL does not contain ACEs from object owner": those for OWNER RIGHTS (MS-DTYP 2.4.2.4).
    let says_of_owner = list.iter().any(|entry| {
        entry.flags & 8 == 0 && entry.who == RIGHTS_OF_OWNER && matches!(entry.kind, ALLOW | DENY | ALLOW_IF | DENY_IF)
    });
    if is_owner && !says_of_owner && matches!(right, 0x2_0000 | WRITE_DAC_RIGHT) {
        return true;
    }
    for entry in list.iter().filter(|entry| entry.flags & 8 == 0) {
        let is_in = asks.is(entry.who) && !(entry.who == USERS && rules.have(Difference::NobodyIsInUsers));
        let meant = is_in || entry.who == RIGHTS_OF_OWNER && is_owner;
        // We: generic bits that somebody left in an entry mean what they mean for files.
        if !meant || mapped(entry.mask) & right == 0 {
            continue;
        }
        match entry.kind {
            ALLOW => return true,
            // We evaluate no condition: the result is UNKNOWN, which grants nothing and denies.
            DENY | DENY_IF => return false,
            // Of no type, as all of a case's: it is for whatever object there is.
            DENY_OBJECT => return false,
            // Those that allow may be for an object type, which is not asked for; the others say nothing of access.
            _ => {}
        }
    }
    false
}

/// Those of `rights` that a file grants.
pub(crate) fn grants(rules: Rules<'_>, asks: Asks, stored: &Stored, rights: u32) -> u32 {
    let one = |right: u32| match stored {
        _ if asks == Asks::Keeper => true,
        Stored::Damaged(_) => false,
        // The default lets everybody who signed in do everything.
        Stored::Nothing => right & ALL != 0,
        Stored::Whole(descriptor) => right & ALL != 0 && check_one(rules, asks, descriptor, right),
    };
    (0..32).map(|bit| 1 << bit).filter(|right| rights & right != 0 && one(*right)).sum()
}
