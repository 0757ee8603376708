//! What clients are told (MS-SAMR 3.1.5).

mod accounts;
mod groups;

use self::accounts::{
    account, count, domain_by_sid, domain_named, domain_of, in_domain, list, lookup_ids, lookup_names, page_after,
    write_domains, write_page,
};
use self::groups::{aliases_of, members, members_of_alias, sid_beside, write_groups, write_membership};
use crate::rpc::Syntax;
use crate::rpc::access::Rights;
use crate::rpc::handles::{AccountDomain, Handle, Object, Opened};
use crate::rpc::names::{Account, AccountKind, Listed, Names};
use crate::rpc::ndr::NdrWriter;
use crate::rpc::pdu::FaultStatus;
use crate::rpc::samr::fields::{Field, write_row, write_rows};
use crate::rpc::samr::shown::{self, Counts, DOMAIN_USERS};
use crate::rpc::samr::{Call, DisplayClass, Target};
use crate::rpc::service::{Service, close, find, open, write_opened};
use crate::security::Sid;
use crate::security::access::READ_CONTROL;
use crate::status::Status;

/// Access rights (MS-SAMR 2.2.1.3 to 2.2.1.7).
const ENUMERATE_DOMAINS: u32 = 0x10;
const LOOKUP_DOMAIN: u32 = 0x20;
const READ_PASSWORD_PARAMETERS: u32 = 0x1;
const READ_OTHER_PARAMETERS: u32 = 0x4;
const GET_ALIAS_MEMBERSHIP: u32 = 0x80;
const LIST_ACCOUNTS: u32 = 0x100;
const LOOKUP: u32 = 0x200;
const USER_READ: u32 = 0x1B;
const USER_LIST_GROUPS: u32 = 0x100;
const GROUP_READ_INFORMATION: u32 = 0x1;
const GROUP_LIST_MEMBERS: u32 = 0x10;
const ALIAS_LIST_MEMBERS: u32 = 0x4;
const ALIAS_READ_INFORMATION: u32 = 0x8;

const SERVER: Rights = Rights {
    granted: READ_CONTROL | 0x1 | ENUMERATE_DOMAINS | LOOKUP_DOMAIN,
    read: 0x0002_0010,
    write: 0x0002_000E,
    execute: 0x0002_0021,
    all: 0x000F_003F,
};
const DOMAIN: Rights =
    Rights { granted: 0x0002_0385, read: 0x0002_0084, write: 0x0002_047A, execute: 0x0002_0301, all: 0x000F_07FF };
/// To change one's password is a part of USER_EXECUTE, but none can be changed here.
const USER: Rights =
    Rights { granted: 0x0002_031B, read: 0x0002_031A, write: 0x0002_0044, execute: 0x0002_0041, all: 0x000F_07FF };
const GROUP: Rights =
    Rights { granted: 0x0002_0011, read: 0x0002_0010, write: 0x0002_000E, execute: 0x0002_0001, all: 0x000F_001F };
const ALIAS: Rights =
    Rights { granted: 0x0002_000C, read: 0x0002_0004, write: 0x0002_0013, execute: 0x0002_0008, all: 0x000F_001F };

/// The revision of the protocol that the server speaks (MS-SAMR 3.1.5.1.1).
const REVISION: u32 = 3;
/// The most bytes of entries in one answer; the client asks for the rest.
const ENTRIES_BYTES_MAX: usize = 256 * 1024;
/// The most members that are told of a group: there is no asking for the rest.
const MEMBERS_MAX: usize = 4096;
/// Bytes of an entry's fixed part and counts in NDR64, at most.
const ENTRY_BYTES: usize = 120;

/// Appends the stub that answers `call` to `out`.
pub fn answer(call: &Call<'_>, service: &dyn Service, syntax: Syntax, out: &mut Vec<u8>) -> Result<(), FaultStatus> {
    let ndr = &mut NdrWriter::new(out, syntax);
    match call {
        Call::Connect { access } => write_opened(ndr, connect(service, *access)),
        Call::Connect5 { access, version } => {
            let opened = if *version == 1 { connect(service, *access) } else { Err(Status::NOT_SUPPORTED) };
            [1, 1, REVISION, 0].into_iter().for_each(|value| ndr.u32(value));
            write_opened(ndr, opened);
        }
        Call::Close { handle } => close(service, *handle, ndr)?,
        Call::LookupDomain { handle, name } => {
            let found = server(service, *handle, LOOKUP_DOMAIN)?.and_then(|()| domain_named(service, name));
            write_sid(ndr, found.map(|domain| domain_of(service, domain).sid));
        }
        Call::EnumerateDomains { handle, from } => {
            let allowed = server(service, *handle, ENUMERATE_DOMAINS)?;
            write_domains(ndr, service, *from, allowed);
        }
        Call::OpenDomain { handle, access, sid } => {
            let found = server(service, *handle, LOOKUP_DOMAIN)?.and_then(|()| domain_by_sid(service, sid));
            let opened = found.and_then(|domain| Ok((domain, DOMAIN.grant(service, *access)?)));
            write_opened(ndr, opened.and_then(|(kind, granted)| open(service, Object::Domain(kind), granted)));
        }
        Call::Open { target, handle, access, relative_id } => {
            let found = domain(service, *handle, LOOKUP)?;
            let opened = found.and_then(|domain| open_in(service, domain, *target, *relative_id, *access));
            write_opened(ndr, opened);
        }
        Call::Query { target, handle, class } => query(ndr, service, *target, *handle, *class)?,
        Call::Enumerate { kind, handle, after, control, preferred_bytes } => {
            let found = domain(service, *handle, LIST_ACCOUNTS)?;
            let wanted = *kind != AccountKind::User || shown::lists_users(*control);
            let page =
                found.map(|domain| page_after(service, domain, *kind, *after, *preferred_bytes as usize, wanted));
            write_page(ndr, *after, page);
        }
        Call::Display { handle, class, from, count, preferred_bytes } => {
            let found = domain(service, *handle, LIST_ACCOUNTS)?;
            display(ndr, service, found, *class, (*from, *count, *preferred_bytes));
        }
        Call::LookupNames { handle, names } => {
            let found = domain(service, *handle, LOOKUP)?;
            lookup_names(ndr, service, found.map(|domain| (domain, names.as_slice())));
        }
        Call::LookupIds { handle, relative_ids } => {
            let found = domain(service, *handle, LOOKUP)?;
            lookup_ids(ndr, service, found.map(|domain| (domain, relative_ids.as_slice())));
        }
        Call::GroupsOfUser { handle } => {
            let groups = user(service, *handle, USER_LIST_GROUPS)?.map(|_| [DOMAIN_USERS]);
            write_groups(ndr, groups);
        }
        Call::AliasMembership { handle, sids } => {
            let found = domain(service, *handle, GET_ALIAS_MEMBERSHIP)?;
            write_membership(ndr, found.map(|domain| aliases_of(service, domain, sids)));
        }
        Call::Members { target, handle } => members(ndr, service, *target, *handle)?,
        Call::RidToSid { handle, relative_id } => {
            write_sid(ndr, sid_beside(service, *handle, *relative_id)?);
        }
    }
    Ok(())
}

// Handles and what they lead to.

fn connect(service: &dyn Service, access: u32) -> Result<Handle, Status> {
    open(service, Object::AccountServer, SERVER.grant(service, access)?)
}

/// Whether what `opened` leads to may be used for what needs these rights. Who signs in again as nobody may do nothing with what it has open.
fn allowed(service: &dyn Service, opened: &Opened, needed: u32) -> Result<(), Status> {
    if opened.granted & needed == needed && service.may_ask() { Ok(()) } else { Err(Status::ACCESS_DENIED) }
}

/// Handles of lsarpc are none here (strict_context_handle, MS-SAMR 3.1.5).
fn opened(service: &dyn Service, handle: Handle) -> Result<Opened, FaultStatus> {
    let opened = find(service, handle)?;
    if opened.object == Object::Policy { Err(FaultStatus::CONTEXT_MISMATCH) } else { Ok(opened) }
}

fn server(service: &dyn Service, handle: Handle, needed: u32) -> Result<Result<(), Status>, FaultStatus> {
    let opened = opened(service, handle)?;
    Ok(match opened.object {
        Object::AccountServer => allowed(service, &opened, needed),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })
}

fn domain(service: &dyn Service, handle: Handle, needed: u32) -> Result<Result<AccountDomain, Status>, FaultStatus> {
    let opened = opened(service, handle)?;
    Ok(match opened.object {
        Object::Domain(domain) => allowed(service, &opened, needed).map(|()| domain),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })
}

/// A user that is there no longer is no user, whoever has it open.
fn user(service: &dyn Service, handle: Handle, needed: u32) -> Result<Result<Account, Status>, FaultStatus> {
    let opened = opened(service, handle)?;
    Ok(match opened.object {
        Object::User(relative_id) => allowed(service, &opened, needed)
            .and_then(|()| account(service, relative_id, AccountKind::User).ok_or(Status::NO_SUCH_USER)),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })
}

fn group(service: &dyn Service, handle: Handle, needed: u32) -> Result<Result<Account, Status>, FaultStatus> {
    let opened = opened(service, handle)?;
    Ok(match opened.object {
        Object::Group(relative_id) => allowed(service, &opened, needed)
            .and_then(|()| account(service, relative_id, AccountKind::Group).ok_or(Status::NO_SUCH_GROUP)),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })
}

/// A local group: its domain, relative id and name.
type Alias = (AccountDomain, u32, String);

fn alias(service: &dyn Service, handle: Handle, needed: u32) -> Result<Result<Alias, Status>, FaultStatus> {
    let opened = opened(service, handle)?;
    Ok(match opened.object {
        Object::Alias(domain, relative_id) => allowed(service, &opened, needed).and_then(|()| {
            let found = in_domain(service, domain, relative_id).filter(|found| found.kind == AccountKind::Alias);
            found.map(|found| (domain, relative_id, found.name)).ok_or(Status::NO_SUCH_ALIAS)
        }),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })
}

fn open_in(
    service: &dyn Service,
    domain: AccountDomain,
    target: Target,
    relative_id: u32,
    access: u32,
) -> Result<Handle, Status> {
    let found = in_domain(service, domain, relative_id).map(|account| account.kind);
    let (object, rights) = match (target, found) {
        (Target::User, Some(AccountKind::User)) => (Object::User(relative_id), USER),
        (Target::Group, Some(AccountKind::Group)) => (Object::Group(relative_id), GROUP),
        (Target::Alias, Some(AccountKind::Alias)) => (Object::Alias(domain, relative_id), ALIAS),
        (Target::User, _) => return Err(Status::NO_SUCH_USER),
        (Target::Group, _) => return Err(Status::NO_SUCH_GROUP),
        (Target::Alias | Target::Domain, _) => return Err(Status::NO_SUCH_ALIAS),
    };
    open(service, object, rights.grant(service, access)?)
}

// Answers.

/// A pointer to a SID, and a status.
fn write_sid(ndr: &mut NdrWriter<'_>, sid: Result<Sid, Status>) {
    ndr.pointer(sid.is_ok());
    if let Ok(sid) = &sid {
        ndr.sid(sid);
    }
    ndr.u32(sid.err().unwrap_or(Status::SUCCESS).0);
}

/// A pointer to a union by information class, and a status.
fn write_union(ndr: &mut NdrWriter<'_>, class: u32, row: Result<Vec<Field<'_>>, Status>) {
    let status = row.as_ref().err().copied().unwrap_or(Status::SUCCESS);
    ndr.pointer(row.is_ok());
    if let Ok(row) = row {
        ndr.enumeration_tag(class);
        write_row(ndr, row);
    }
    ndr.u32(status.0);
}

fn query(
    ndr: &mut NdrWriter<'_>,
    service: &dyn Service,
    target: Target,
    handle: Handle,
    class: u32,
) -> Result<(), FaultStatus> {
    let unknown = Status::INVALID_INFO_CLASS;
    match target {
        Target::Domain => {
            let needed = if matches!(class, 1 | 12) { READ_PASSWORD_PARAMETERS } else { READ_OTHER_PARAMETERS };
            let found = domain(service, handle, needed)?;
            let told = found.map(|domain| {
                let of = |kind| count(service, domain, kind);
                let counts = Counts {
                    users: of(AccountKind::User),
                    groups: of(AccountKind::Group),
                    aliases: of(AccountKind::Alias),
                };
                (domain_of(service, domain).name, counts)
            });
            let row = told.as_ref().map_err(|status| *status);
            let row = row.and_then(|(name, counts)| shown::domain(class, name, counts).ok_or(unknown));
            write_union(ndr, class, row);
        }
        Target::User => {
            let user = user(service, handle, USER_READ)?;
            let row = user.as_ref().map_err(|status| *status);
            write_union(ndr, class, row.and_then(|user| shown::user(class, user).ok_or(unknown)));
        }
        Target::Group => {
            let group = group(service, handle, GROUP_READ_INFORMATION)?;
            let users = count(service, AccountDomain::Accounts, AccountKind::User);
            let row = group.as_ref().map_err(|status| *status);
            write_union(ndr, class, row.and_then(|group| shown::group(class, &group.name, users).ok_or(unknown)));
        }
        Target::Alias => {
            let alias = alias(service, handle, ALIAS_READ_INFORMATION)?;
            let told = alias.map(|alias| (members_of_alias(service, &alias).len(), alias.2));
            let row = told.as_ref().map_err(|status| *status);
            write_union(ndr, class, row.and_then(|(members, name)| shown::alias(class, name, *members).ok_or(unknown)));
        }
    }
    Ok(())
}

/// SamrQueryDisplayInformation's answer (MS-SAMR 3.1.5.3.1). `page`: where to begin, the most entries, the most bytes.
fn display(
    ndr: &mut NdrWriter<'_>,
    names: &dyn Names,
    found: Result<AccountDomain, Status>,
    class: DisplayClass,
    (from, entries_max, bytes_max): (u32, u32, u32),
) {
    let kind = match class {
        DisplayClass::USER => Ok(Some(AccountKind::User)),
        DisplayClass::MACHINE => Ok(None),
        DisplayClass::GROUP => Ok(Some(AccountKind::Group)),
        // What is in a code page of the client's is not told: no client of today asks for it.
        DisplayClass::OEM_USER | DisplayClass::OEM_GROUP => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_PARAMETER),
    };
    let wanted = found.and_then(|domain| Ok((domain, kind?)));
    let mut told: Vec<Account> = Vec::new();
    let mut room = (bytes_max as usize).min(ENTRIES_BYTES_MAX);
    let mut total = 0;
    if let Ok((domain, Some(kind))) = wanted {
        total = list(names, domain, kind, Listed::ByName(from as usize), &mut |account| {
            let needed = ENTRY_BYTES + 2 * account.name.len();
            let fits = (told.len() as u32) < entries_max && (needed <= room || told.is_empty());
            if fits {
                room = room.saturating_sub(needed);
                told.push(account);
            }
            fits
        });
    }
    let bytes: usize = told.iter().map(|account| ENTRY_BYTES + 2 * account.name.len()).sum();
    let left = total.saturating_sub(from as usize + told.len());
    // What is not told is reckoned as if its names were of a usual length.
    ndr.u32((bytes + left * 2 * ENTRY_BYTES) as u32);
    ndr.u32(bytes as u32);
    ndr.enumeration_tag(if wanted.is_ok() { class.0 } else { DisplayClass::USER.0 });
    ndr.u32(told.len() as u32);
    ndr.pointer(!told.is_empty());
    if !told.is_empty() {
        let index = |place: usize| from.saturating_add(place as u32 + 1);
        let rows = told.iter().enumerate().map(|(place, account)| match account.kind {
            AccountKind::User => shown::displayed_user(index(place), account),
            AccountKind::Group | AccountKind::Alias => shown::displayed_group(index(place), account),
        });
        let rows: Vec<_> = rows.collect();
        ndr.count(rows.len());
        write_rows(ndr, &rows);
    }
    let status = if left == 0 { Status::SUCCESS } else { Status::MORE_ENTRIES };
    ndr.u32(wanted.err().unwrap_or(status).0);
}
