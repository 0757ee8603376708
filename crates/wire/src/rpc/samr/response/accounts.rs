//! Who there is in a domain, and what they are called: found, listed and looked up (MS-SAMR 3.1.5.2, 3.1.5.11).

use super::{ENTRIES_BYTES_MAX, ENTRY_BYTES};
use crate::codec::Utf16;
use crate::rpc::handles::AccountDomain;
use crate::rpc::names::{Account, AccountKind, Domain, Listed, Names, SidUse};
use crate::rpc::ndr::NdrWriter;
use crate::rpc::samr::fields::{Field, write_rows};
use crate::rpc::well_known;
use crate::security::Sid;
use crate::status::Status;

pub(super) fn account(names: &dyn Names, relative_id: u32, kind: AccountKind) -> Option<Account> {
    names.account(relative_id).filter(|account| account.kind == kind)
}

pub(super) fn domain_of(names: &dyn Names, domain: AccountDomain) -> Domain {
    match domain {
        AccountDomain::Accounts => Domain::of_accounts(names),
        AccountDomain::Builtin => well_known::builtin(),
    }
}

pub(super) const DOMAINS: [AccountDomain; 2] = [AccountDomain::Accounts, AccountDomain::Builtin];

pub(super) fn domain_named(names: &dyn Names, name: &Utf16<'_>) -> Result<AccountDomain, Status> {
    let wanted = name.decode().ok_or(Status::NO_SUCH_DOMAIN)?.to_uppercase();
    let is_it = |domain: &AccountDomain| domain_of(names, *domain).name.to_uppercase() == wanted;
    DOMAINS.into_iter().find(is_it).ok_or(Status::NO_SUCH_DOMAIN)
}

pub(super) fn domain_by_sid(names: &dyn Names, sid: &Sid) -> Result<AccountDomain, Status> {
    DOMAINS.into_iter().find(|domain| domain_of(names, *domain).sid == *sid).ok_or(Status::NO_SUCH_DOMAIN)
}

pub(super) fn builtin_alias((relative_id, name): (u32, &str)) -> Account {
    Account {
        name: name.to_owned(),
        relative_id,
        kind: AccountKind::Alias,
        is_disabled: false,
        is_administrator: false,
    }
}

/// The account of a relative id in a domain.
pub(super) fn in_domain(names: &dyn Names, domain: AccountDomain, relative_id: u32) -> Option<Account> {
    match domain {
        AccountDomain::Accounts => names.account(relative_id),
        AccountDomain::Builtin => {
            well_known::builtin_aliases().find(|(known, _)| *known == relative_id).map(builtin_alias)
        }
    }
}

/// The account of a name in a domain.
pub(super) fn of_name(names: &dyn Names, domain: AccountDomain, name: &str) -> Option<Account> {
    match domain {
        AccountDomain::Accounts => names.account_of_name(name),
        AccountDomain::Builtin => {
            well_known::builtin_aliases().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(builtin_alias)
        }
    }
}

/// Lists accounts of a domain. Gives how many there are of the kind.
pub(super) fn list(
    names: &dyn Names,
    domain: AccountDomain,
    kind: AccountKind,
    which: Listed,
    take: &mut dyn FnMut(Account) -> bool,
) -> usize {
    match (domain, kind) {
        (AccountDomain::Accounts, _) => names.accounts(kind, which, take),
        (AccountDomain::Builtin, AccountKind::Alias) => {
            let after = match which {
                Listed::After(after) => after,
                Listed::ByName(_) => 0,
            };
            let _ = well_known::builtin_aliases().filter(|(id, _)| *id > after).map(builtin_alias).all(take);
            well_known::builtin_aliases().count()
        }
        (AccountDomain::Builtin, AccountKind::User | AccountKind::Group) => 0,
    }
}

pub(super) fn count(names: &dyn Names, domain: AccountDomain, kind: AccountKind) -> usize {
    list(names, domain, kind, Listed::ByName(usize::MAX), &mut |_| false)
}

/// Accounts that are told, and whether there are more.
pub(super) struct Page {
    told: Vec<(u32, String)>,
    more: bool,
}

/// Accounts behind the one of relative id `after`, as many as there is room for, one at least.
pub(super) fn page_after(
    names: &dyn Names,
    domain: AccountDomain,
    kind: AccountKind,
    after: u32,
    bytes_max: usize,
    wanted: bool,
) -> Page {
    let mut page = Page { told: Vec::new(), more: false };
    let mut room = bytes_max.min(ENTRIES_BYTES_MAX);
    if wanted {
        list(names, domain, kind, Listed::After(after), &mut |account| {
            let needed = ENTRY_BYTES + 2 * account.name.len();
            page.more = needed > room && !page.told.is_empty();
            if !page.more {
                room = room.saturating_sub(needed);
                page.told.push((account.relative_id, account.name));
            }
            !page.more
        });
    }
    page
}

/// The answer to an enumeration (MS-SAMR 3.1.5.2.2).
pub(super) fn write_page(ndr: &mut NdrWriter<'_>, after: u32, page: Result<Page, Status>) {
    let status = match &page {
        Ok(page) if page.more => Status::MORE_ENTRIES,
        Ok(_) => Status::SUCCESS,
        Err(status) => *status,
    };
    let (is_told, page) = (page.is_ok(), page.unwrap_or(Page { told: Vec::new(), more: false }));
    let last = page.told.last().map_or(after, |(relative_id, _)| *relative_id);
    write_listed(ndr, last, is_told, &page.told, status);
}

/// SAMPR_ENUMERATION_BUFFER (MS-SAMR 2.2.7.10), and what stands around it.
pub(super) fn write_listed(
    ndr: &mut NdrWriter<'_>,
    context: u32,
    is_told: bool,
    told: &[(u32, String)],
    status: Status,
) {
    ndr.u32(context);
    ndr.pointer(is_told);
    if is_told {
        ndr.u32(told.len() as u32);
        ndr.pointer(!told.is_empty());
        if !told.is_empty() {
            ndr.count(told.len());
            let rows: Vec<_> = told.iter().map(|(id, name)| vec![Field::Long(*id), Field::Text(name)]).collect();
            write_rows(ndr, &rows);
        }
    }
    ndr.u32(told.len() as u32);
    ndr.u32(status.0);
}

pub(super) fn write_domains(ndr: &mut NdrWriter<'_>, names: &dyn Names, from: u32, allowed: Result<(), Status>) {
    let left = DOMAINS.into_iter().skip(from as usize);
    let told: Vec<_> = match allowed {
        Ok(()) => left.map(|domain| (0, domain_of(names, domain).name.into_owned())).collect(),
        Err(_) => Vec::new(),
    };
    let status = allowed.err().unwrap_or(Status::SUCCESS);
    write_listed(ndr, DOMAINS.len() as u32, allowed.is_ok(), &told, status);
}

/// How a lookup ends (MS-SAMR 3.1.5.11.2).
pub(super) fn mapped(uses: &[SidUse]) -> Status {
    match uses.iter().filter(|sid_use| **sid_use != SidUse::UNKNOWN).count() {
        found if found == uses.len() => Status::SUCCESS,
        0 => Status::NONE_MAPPED,
        _ => Status::SOME_NOT_MAPPED,
    }
}

/// SAMPR_ULONG_ARRAY (MS-SAMR 2.2.7.4).
pub(super) fn write_longs(ndr: &mut NdrWriter<'_>, values: impl ExactSizeIterator<Item = u32>) {
    ndr.align_word();
    ndr.u32(values.len() as u32);
    ndr.pointer(values.len() != 0);
    if values.len() != 0 {
        ndr.count(values.len());
        values.for_each(|value| ndr.u32(value));
    }
}

pub(super) fn lookup_names(
    ndr: &mut NdrWriter<'_>,
    names: &dyn Names,
    asked: Result<(AccountDomain, &[Utf16<'_>]), Status>,
) {
    let find = |domain, text: &Utf16<'_>| text.decode().and_then(|name| of_name(names, domain, &name));
    let found: Vec<_> = match asked {
        Ok((domain, texts)) => texts.iter().map(|text| find(domain, text)).collect(),
        Err(_) => Vec::new(),
    };
    let uses: Vec<_> = found.iter().map(sid_use).collect();
    write_longs(ndr, found.iter().map(|account| account.as_ref().map_or(0, |account| account.relative_id)));
    write_longs(ndr, uses.iter().map(|sid_use| sid_use.0));
    ndr.u32(asked.err().unwrap_or(mapped(&uses)).0);
}

pub(super) fn sid_use(account: &Option<Account>) -> SidUse {
    account.as_ref().map_or(SidUse::UNKNOWN, |account| account.kind.sid_use())
}

pub(super) fn lookup_ids(ndr: &mut NdrWriter<'_>, names: &dyn Names, asked: Result<(AccountDomain, &[u32]), Status>) {
    let found: Vec<_> = match asked {
        Ok((domain, ids)) => ids.iter().map(|id| in_domain(names, domain, *id)).collect(),
        Err(_) => Vec::new(),
    };
    let uses: Vec<_> = found.iter().map(sid_use).collect();
    ndr.align_word();
    ndr.u32(found.len() as u32);
    ndr.pointer(!found.is_empty());
    if !found.is_empty() {
        ndr.count(found.len());
        for account in &found {
            match account {
                Some(account) => ndr.counted_string(&account.name),
                None => ndr.no_string(),
            }
        }
        found.iter().flatten().for_each(|account| ndr.text_of(&account.name));
    }
    write_longs(ndr, uses.iter().map(|sid_use| sid_use.0));
    ndr.u32(asked.err().unwrap_or(mapped(&uses)).0);
}
