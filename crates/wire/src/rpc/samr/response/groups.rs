//! Who is in which group (MS-SAMR 3.1.5.8, 3.1.5.9).

use super::accounts::{domain_of, write_longs};
use super::{ALIAS_LIST_MEMBERS, Alias, GROUP_LIST_MEMBERS, MEMBERS_MAX, alias, group, opened};
use crate::rpc::handles::{AccountDomain, Handle, Object};
use crate::rpc::names::{AccountKind, Listed, Names};
use crate::rpc::ndr::NdrWriter;
use crate::rpc::pdu::FaultStatus;
use crate::rpc::samr::Target;
use crate::rpc::samr::shown::{DOMAIN_USERS, GROUP_ATTRIBUTES};
use crate::rpc::service::Service;
use crate::security::Sid;
use crate::status::Status;

/// SAMPR_GET_GROUPS_BUFFER (MS-SAMR 2.2.7.13).
pub(super) fn write_groups(ndr: &mut NdrWriter<'_>, groups: Result<[u32; 1], Status>) {
    ndr.pointer(groups.is_ok());
    if let Ok(groups) = &groups {
        ndr.u32(groups.len() as u32);
        ndr.pointer(true);
        ndr.count(groups.len());
        for group in groups {
            ndr.u32(*group);
            ndr.u32(GROUP_ATTRIBUTES);
        }
    }
    ndr.u32(groups.err().unwrap_or(Status::SUCCESS).0);
}

pub(super) fn write_membership(ndr: &mut NdrWriter<'_>, aliases: Result<Vec<u32>, Status>) {
    write_longs(ndr, aliases.as_deref().unwrap_or(&[]).iter().copied());
    ndr.u32(aliases.err().unwrap_or(Status::SUCCESS).0);
}

/// The local groups of a domain that any of `sids` is in, each once (MS-SAMR 3.1.5.9.2).
pub(super) fn aliases_of(names: &dyn Names, domain: AccountDomain, sids: &[Sid]) -> Vec<u32> {
    let machine = names.domain_sid();
    let ids = sids.iter().filter_map(|sid| sid.split()).filter(|(parent, _)| *parent == machine).map(|(_, id)| id);
    let mut aliases: Vec<u32> = match domain {
        AccountDomain::Accounts => ids.flat_map(|id| names.aliases_of(id)).collect(),
        AccountDomain::Builtin => ids.flat_map(|id| builtin_of(names, id)).collect(),
    };
    aliases.sort_unstable();
    aliases.dedup();
    aliases
}

/// BUILTIN\Administrators and BUILTIN\Users (MS-DTYP 2.4.2.4).
pub(super) const ADMINISTRATORS: u32 = 544;
pub(super) const USERS: u32 = 545;

/// The local groups of every machine that an account is in by itself: who holds an account's key is an administrator, and all are users.
pub(super) fn builtin_of(names: &dyn Names, relative_id: u32) -> Vec<u32> {
    match names.account(relative_id) {
        Some(account) if account.is_administrator => vec![ADMINISTRATORS],
        Some(account) if account.kind == AccountKind::Group => vec![USERS],
        Some(_) | None => Vec::new(),
    }
}

/// Who is in a local group. More members than can be told are one more than that.
pub(super) fn members_of_alias(names: &dyn Names, (domain, relative_id, _): &Alias) -> Vec<u32> {
    match (domain, *relative_id) {
        (AccountDomain::Accounts, id) => names.members_of(id, MEMBERS_MAX + 1),
        (AccountDomain::Builtin, USERS) => vec![DOMAIN_USERS],
        (AccountDomain::Builtin, ADMINISTRATORS) => {
            let mut told = Vec::new();
            names.accounts(AccountKind::User, Listed::After(0), &mut |account| {
                if account.is_administrator {
                    told.push(account.relative_id);
                }
                told.len() <= MEMBERS_MAX
            });
            told
        }
        (AccountDomain::Builtin, _) => Vec::new(),
    }
}

pub(super) fn members(
    ndr: &mut NdrWriter<'_>,
    service: &dyn Service,
    target: Target,
    handle: Handle,
) -> Result<(), FaultStatus> {
    let few = |members: Vec<u32>| {
        if members.len() > MEMBERS_MAX { Err(Status::INSUFFICIENT_RESOURCES) } else { Ok(members) }
    };
    if target == Target::Group {
        let members = group(service, handle, GROUP_LIST_MEMBERS)?.and_then(|_| {
            let mut told = Vec::new();
            service.accounts(AccountKind::User, Listed::After(0), &mut |account| {
                told.push(account.relative_id);
                told.len() <= MEMBERS_MAX
            });
            few(told)
        });
        write_group_members(ndr, members);
    } else {
        let alias = alias(service, handle, ALIAS_LIST_MEMBERS)?;
        let members = alias.and_then(|alias| few(members_of_alias(service, &alias)));
        let machine = service.domain_sid();
        write_alias_members(ndr, members, |id| machine.join(id).unwrap_or(Sid::NOBODY));
    }
    Ok(())
}

/// SAMPR_GET_MEMBERS_BUFFER (MS-SAMR 2.2.7.14).
pub(super) fn write_group_members(ndr: &mut NdrWriter<'_>, members: Result<Vec<u32>, Status>) {
    ndr.pointer(members.is_ok());
    if let Ok(members) = &members {
        ndr.u32(members.len() as u32);
        ndr.pointer(true);
        ndr.pointer(true);
        ndr.count(members.len());
        members.iter().for_each(|member| ndr.u32(*member));
        ndr.count(members.len());
        members.iter().for_each(|_| ndr.u32(GROUP_ATTRIBUTES));
    }
    ndr.u32(members.err().unwrap_or(Status::SUCCESS).0);
}

/// SAMPR_PSID_ARRAY_OUT (MS-SAMR 2.2.7.7).
pub(super) fn write_alias_members(
    ndr: &mut NdrWriter<'_>,
    members: Result<Vec<u32>, Status>,
    sid: impl Fn(u32) -> Sid,
) {
    let told = members.as_deref().unwrap_or(&[]);
    ndr.align_word();
    ndr.u32(told.len() as u32);
    ndr.pointer(!told.is_empty());
    if !told.is_empty() {
        ndr.count(told.len());
        told.iter().for_each(|_| ndr.pointer(true));
        told.iter().for_each(|member| ndr.sid(&sid(*member)));
    }
    ndr.u32(members.err().unwrap_or(Status::SUCCESS).0);
}

/// The SID of a relative id in the domain that a handle is of, or that of what it is of (MS-SAMR 3.1.5.13.5).
pub(super) fn sid_beside(
    service: &dyn Service,
    handle: Handle,
    relative_id: u32,
) -> Result<Result<Sid, Status>, FaultStatus> {
    let opened = opened(service, handle)?;
    let domain = match opened.object {
        Object::Domain(domain) | Object::Alias(domain, _) => domain,
        Object::User(_) | Object::Group(_) => AccountDomain::Accounts,
        Object::AccountServer | Object::Policy => return Ok(Err(Status::OBJECT_TYPE_MISMATCH)),
    };
    if !service.may_ask() {
        return Ok(Err(Status::ACCESS_DENIED));
    }
    Ok(domain_of(service, domain).sid.join(relative_id).ok_or(Status::INVALID_PARAMETER))
}
