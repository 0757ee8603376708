//! What is told about a domain, a user, a group and a local group, by information class (MS-SAMR 2.2.3 to 2.2.6, 2.2.8). Of what the server
//! does not have, such as home directories, the empty value is told.

use crate::rpc::names::Account;
use crate::rpc::samr::fields::{Field, NEVER};

/// The group of all users (MS-SAMR 2.2.1.14, DOMAIN_GROUP_RID_USERS).
pub(super) const DOMAIN_USERS: u32 = 513;
/// SE_GROUP_MANDATORY, SE_GROUP_ENABLED_BY_DEFAULT and SE_GROUP_ENABLED (MS-SAMR 2.2.1.10).
pub(super) const GROUP_ATTRIBUTES: u32 = 7;
/// USER_NORMAL_ACCOUNT, USER_DONT_EXPIRE_PASSWORD and USER_ACCOUNT_DISABLED (MS-SAMR 2.2.1.12).
const NORMAL_ACCOUNT: u32 = 0x10;
const PASSWORD_STAYS: u32 = 0x200;
const ACCOUNT_DISABLED: u32 = 1;
/// USER_INTERDOMAIN_TRUST_ACCOUNT, USER_WORKSTATION_TRUST_ACCOUNT and USER_SERVER_TRUST_ACCOUNT: other kinds of accounts, of which there are
/// none.
const OTHER_ACCOUNTS: u32 = 0x1C0;
/// WhichFields of UserAllInformation (MS-SAMR 2.2.1.8): names, ids, comments, when it expires, and what kind of account it is.
const FIELDS_TOLD: u32 = 0x0018_003F;
/// DomainServerRolePrimary and DomainServerEnabled (MS-SAMR 2.2.3.4, 2.2.3.2).
const ROLE_PRIMARY: u32 = 3;
const STATE_ENABLED: u32 = 1;
/// MaxPasswordAge without an end: a negative span, as long as can be said.
const NO_END: i64 = i64::MIN;

/// How many accounts of each kind a domain has.
pub(super) struct Counts {
    pub(super) users: usize,
    pub(super) groups: usize,
    pub(super) aliases: usize,
}

/// UserAccountControl.
pub(super) fn control(user: &Account) -> u32 {
    NORMAL_ACCOUNT | PASSWORD_STAYS | if user.is_disabled { ACCOUNT_DISABLED } else { 0 }
}

/// True where users are among the accounts that a list is to have.
pub(super) fn lists_users(control: u32) -> bool {
    control & OTHER_ACCOUNTS == 0 || control & NORMAL_ACCOUNT != 0
}

/// SAMPR_DOMAIN_INFO_BUFFER's arm of `class` (MS-SAMR 2.2.3.17), or `None` where there is none that is told.
pub(super) fn domain<'a>(class: u32, name: &'a str, counts: &Counts) -> Option<Vec<Field<'a>>> {
    use Field::{Byte, Hyper, Long, Short, Text, Time};
    let row = match class {
        1 => vec![Short(0), Short(0), Long(0), Time(NO_END), Time(0)],
        2 => {
            let mut row = vec![Time(NO_END), Text(""), Text(name), Text(""), Time(0), Long(STATE_ENABLED)];
            row.extend([Long(ROLE_PRIMARY), Byte(1)]);
            row.extend([counts.users, counts.groups, counts.aliases].map(|count| Long(count as u32)));
            row
        }
        3 => vec![Time(NO_END)],
        4 | 6 => vec![Text("")],
        5 => vec![Text(name)],
        // Clients read these two enumerations as four bytes.
        7 => vec![Long(ROLE_PRIMARY)],
        8 => vec![Time(0), Time(0)],
        9 => vec![Long(STATE_ENABLED)],
        12 => vec![Hyper(0), Hyper(0), Short(0)],
        13 => vec![Time(0), Time(0), Time(0)],
        _ => return None,
    };
    Some(row)
}

/// SAMPR_USER_INFO_BUFFER's arm of `class` (MS-SAMR 2.2.6.29), or `None` where there is none that is told.
pub(super) fn user(class: u32, user: &Account) -> Option<Vec<Field<'_>>> {
    use Field::{AllHours, Long, Short, Text, Time};
    let name = || Text(&user.name);
    let empty = |count: usize| (0..count).map(|_| Text(""));
    let ids = || [Long(user.relative_id), Long(DOMAIN_USERS)];
    let row = match class {
        1 => vec![name(), Text(""), Long(DOMAIN_USERS), Text(""), Text("")],
        2 => vec![Text(""), Text(""), Short(0), Short(0)],
        3 => {
            let mut row = vec![name(), Text("")];
            row.extend(ids());
            row.extend(empty(5));
            row.extend([Time(0), Time(0), Time(0), Time(0), Time(NEVER), AllHours, Short(0), Short(0)]);
            row.push(Long(control(user)));
            row
        }
        4 => vec![AllHours],
        5 => {
            let mut row = vec![name(), Text("")];
            row.extend(ids());
            row.extend(empty(6));
            row.extend([Time(0), Time(0), AllHours, Short(0), Short(0), Time(0), Time(NEVER)]);
            row.push(Long(control(user)));
            row
        }
        6 => vec![name(), Text("")],
        7 => vec![name()],
        8 | 11..=14 | 20 => vec![Text("")],
        9 => vec![Long(DOMAIN_USERS)],
        10 => vec![Text(""), Text("")],
        16 => vec![Long(control(user))],
        17 => vec![Time(NEVER)],
        21 => all_of_user(user),
        _ => return None,
    };
    Some(row)
}

/// SAMPR_USER_ALL_INFORMATION (MS-SAMR 2.2.6.6).
fn all_of_user(user: &Account) -> Vec<Field<'_>> {
    use Field::{AllHours, Byte, Long, NoBlob, NoDescriptor, Short, Text, Time};
    let mut row = vec![Time(0), Time(0), Time(0), Time(NEVER), Time(0), Time(NEVER), Text(&user.name)];
    row.extend((0..9).map(|_| Text("")));
    row.extend([NoBlob, NoBlob, Text(""), NoDescriptor]);
    row.extend([Long(user.relative_id), Long(DOMAIN_USERS), Long(control(user)), Long(FIELDS_TOLD), AllHours]);
    row.extend((0..4).map(|_| Short(0)));
    row.extend((0..4).map(|_| Byte(0)));
    row
}

/// SAMPR_GROUP_INFO_BUFFER's arm of `class` (MS-SAMR 2.2.4.7).
pub(super) fn group(class: u32, name: &str, members: usize) -> Option<Vec<Field<'_>>> {
    use Field::{Long, Text};
    match class {
        1 | 5 => Some(vec![Text(name), Long(GROUP_ATTRIBUTES), Long(members as u32), Text("")]),
        2 => Some(vec![Text(name)]),
        3 => Some(vec![Long(GROUP_ATTRIBUTES)]),
        4 => Some(vec![Text("")]),
        _ => None,
    }
}

/// SAMPR_ALIAS_INFO_BUFFER's arm of `class` (MS-SAMR 2.2.5.6).
pub(super) fn alias(class: u32, name: &str, members: usize) -> Option<Vec<Field<'_>>> {
    use Field::{Long, Text};
    match class {
        1 => Some(vec![Text(name), Long(members as u32), Text("")]),
        2 => Some(vec![Text(name)]),
        3 => Some(vec![Text("")]),
        _ => None,
    }
}

/// SAMPR_DOMAIN_DISPLAY_USER (MS-SAMR 2.2.8.2).
pub(super) fn displayed_user(index: u32, user: &Account) -> Vec<Field<'_>> {
    use Field::{Long, Text};
    vec![Long(index), Long(user.relative_id), Long(control(user)), Text(&user.name), Text(""), Text("")]
}

/// SAMPR_DOMAIN_DISPLAY_GROUP (MS-SAMR 2.2.8.4).
pub(super) fn displayed_group(index: u32, group: &Account) -> Vec<Field<'_>> {
    use Field::{Long, Text};
    vec![Long(index), Long(group.relative_id), Long(GROUP_ATTRIBUTES), Text(&group.name), Text("")]
}
