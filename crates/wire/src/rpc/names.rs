//! Principals and their names, as lsarpc and samr tell them: who is asked, and where a SID or a name leads (MS-LSAT 3.1.1.1).

use std::borrow::Cow;

use crate::rpc::well_known;
use crate::security::Sid;

/// The longest name that can be somebody's, in UTF-16 units: those of a domain and of an account have 64 letters at most, of two units each.
pub(crate) const NAME_UNITS_MAX: usize = 2 * 64 + 1 + 2 * 64;

numbers! {
    /// What a name is of (MS-LSAT 2.2.13, SID_NAME_USE).
    SidUse(u32) {
        /// A user.
        USER = 1,
        /// A group.
        GROUP = 2,
        /// A domain.
        DOMAIN = 3,
        /// A local group.
        ALIAS = 4,
        /// A group that every machine has.
        WELL_KNOWN_GROUP = 5,
        /// Nothing that is known.
        UNKNOWN = 8,
        /// A mandatory label.
        LABEL = 10,
    }
}

/// What an account of the account domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountKind {
    /// Somebody who signs in.
    User,
    /// The group that all of them are in.
    Group,
    /// A local group, which an operator has made.
    Alias,
}

impl AccountKind {
    /// What its name is of.
    pub fn sid_use(self) -> SidUse {
        match self {
            AccountKind::User => SidUse::USER,
            AccountKind::Group => SidUse::GROUP,
            AccountKind::Alias => SidUse::ALIAS,
        }
    }
}

/// An account of the account domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// The last number of its SID.
    pub relative_id: u32,
    /// What it is.
    pub kind: AccountKind,
    /// It may not sign in.
    pub is_disabled: bool,
    /// It is in `BUILTIN\Administrators` by what it is.
    pub is_administrator: bool,
}

/// Which accounts are listed, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Those with a greater relative id than this, by relative id.
    After(u32),
    /// Those from this place on, by name.
    ByName(usize),
}

/// Who knows the accounts, and tells those of them that the client may know. Nothing here waits.
pub trait Names {
    /// True where the client may ask for names at all.
    fn may_ask(&self) -> bool;

    /// The name of the account domain: the server's.
    fn domain_name(&self) -> String;

    /// The SID of the account domain: the machine's.
    fn domain_sid(&self) -> Sid;

    /// The workgroup.
    fn workgroup(&self) -> String;

    /// Who asks, by relative id.
    fn caller(&self) -> u32;

    /// The account of a relative id.
    fn account(&self, relative_id: u32) -> Option<Account>;

    /// The account of a name in any case.
    fn account_of_name(&self, name: &str) -> Option<Account>;

    /// Hands accounts of `kind` to `take` until that wants no more. Gives how many there are of the kind in all.
    fn accounts(&self, kind: AccountKind, which: Listed, take: &mut dyn FnMut(Account) -> bool) -> usize;

    /// The local groups, by relative id, that the account of a relative id is in.
    fn aliases_of(&self, relative_id: u32) -> Vec<u32>;

    /// The accounts, by relative id, that are in the local group of a relative id, `max` at most.
    fn members_of(&self, relative_id: u32, max: usize) -> Vec<u32>;
}

/// A domain that names are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name; empty for that of `Everyone` and its like.
    pub name: Cow<'static, str>,
    /// Its SID.
    pub sid: Sid,
}

impl Domain {
    /// The account domain.
    pub fn of_accounts(names: &dyn Names) -> Domain {
        Domain { name: names.domain_name().into(), sid: names.domain_sid() }
    }
}

/// A principal that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its domain.
    pub domain: Domain,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its SID.
    pub sid: Sid,
    /// What it is.
    pub sid_use: SidUse,
}

/// Where a SID or a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// To a principal.
    Principal(Principal),
    /// To a domain that knows no such principal.
    Domain(Domain),
    /// Nowhere.
    Nothing,
}

/// The group of the account domain that everybody is in (MS-SAMR 2.2.1.14).
pub const DOMAIN_USERS: &str = "Domain Users";

/// Names that Windows gives accounts and groups of every machine or domain (MS-SAMR 3.1.4.2, MS-DTYP 2.4.2.4), beside those of the tables.
const RESERVED: [&str; 12] = [
    "Administrator",
    "Guest",
    "DefaultAccount",
    "krbtgt",
    DOMAIN_USERS,
    "Domain Admins",
    "Domain Guests",
    "Domain Computers",
    "Domain Controllers",
    "Enterprise Admins",
    "Schema Admins",
    "None",
];

/// True for a name that means somebody else to clients, in whatever case: nobody new is to be called so.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|known| known.eq_ignore_ascii_case(name))
        || well_known::by_name(None, name).is_some()
        || well_known::domain_by_name(name).is_some()
}

/// Looks a SID up, in the order of MS-LSAT 2.2.16, LsapLookupWksta.
pub fn find_sid(names: &dyn Names, sid: &Sid) -> Found {
    if let Some(principal) = well_known::by_sid(sid) {
        return Found::Principal(principal);
    }
    let domain_sid = names.domain_sid();
    if *sid == domain_sid {
        return Found::Principal(account_domain(names));
    }
    let Some((parent, relative_id)) = sid.split() else { return Found::Nothing };
    if parent == domain_sid {
        let domain = Domain::of_accounts(names);
        return match names.account(relative_id) {
            Some(account) => Found::Principal(of_account(domain, account)),
            None => Found::Domain(domain),
        };
    }
    well_known::domain_by_sid(&parent).map_or(Found::Nothing, Found::Domain)
}

/// Looks a name up, such as `alice`, `SERVER\alice` or `BUILTIN\Users`, in any case (MS-LSAT 3.1.4.5).
pub fn find_name(names: &dyn Names, name: &str) -> Found {
    let Some((domain, name)) = name.split_once('\\') else { return find_isolated(names, name) };
    if domain.to_uppercase() == names.domain_name().to_uppercase() {
        let domain = Domain::of_accounts(names);
        return match names.account_of_name(name) {
            Some(account) => Found::Principal(of_account(domain, account)),
            None => Found::Domain(domain),
        };
    }
    match well_known::by_name(Some(domain), name) {
        Some(principal) => Found::Principal(principal),
        None => well_known::domain_by_name(domain).map_or(Found::Nothing, Found::Domain),
    }
}

fn find_isolated(names: &dyn Names, name: &str) -> Found {
    if let Some(principal) = well_known::by_name(None, name) {
        return Found::Principal(principal);
    }
    if name.to_uppercase() == names.domain_name().to_uppercase() {
        return Found::Principal(account_domain(names));
    }
    let account = names.account_of_name(name);
    account.map_or(Found::Nothing, |account| Found::Principal(of_account(Domain::of_accounts(names), account)))
}

/// The account domain as a principal (MS-LSAT 3.1.1.1.5).
fn account_domain(names: &dyn Names) -> Principal {
    let domain = Domain::of_accounts(names);
    Principal { name: domain.name.clone(), sid: domain.sid, sid_use: SidUse::DOMAIN, domain }
}

fn of_account(domain: Domain, account: Account) -> Principal {
    let sid = domain.sid.join(account.relative_id).unwrap_or(Sid::NOBODY);
    Principal { sid, name: account.name.into(), sid_use: account.kind.sid_use(), domain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_somebody_else_are_reserved_in_any_case() {
        for name in
            ["Domain Users", "SYSTEM", "system", "Administrators", "everyone", "GUEST", "NT AUTHORITY", "builtin"]
        {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["alice", "", "Domain Users 2", "systems", "NT AUTHORITY\\SYSTEM"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
