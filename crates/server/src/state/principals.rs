//! The accounts of the server by relative id and by name, and whom each of them may know: those of the same storage account.

use std::collections::HashMap;

use wire::rpc::names::{Account, AccountKind, DOMAIN_USERS as DOMAIN_USERS_NAME, Listed};
use wire::security::Sid;

use crate::state::configuration::{Configuration, PrincipalKind, Standing};
use crate::state::user::{DOMAIN_USERS, of_machine};

/// The longest name that there may be, in bytes: 64 letters.
const NAME_BYTES_MAX: usize = 64 * 4;

/// The accounts, made anew with each configuration and looked into by who asks for names.
pub(crate) struct Principals {
    pub(crate) server_name: String,
    pub(crate) machine_sid: Sid,
    by_id: HashMap<u32, Entry>,
    /// By name without case.
    by_name: HashMap<String, u32>,
    by_account: HashMap<String, Lists>,
    /// The members of each local group.
    members: HashMap<u32, Vec<u32>>,
}

/// An account, and the storage account whose principals may know it.
#[derive(Clone, Debug)]
struct Entry {
    account: String,
    known: Account,
    /// The local groups that it is in.
    aliases: Vec<u32>,
}

/// The accounts of one storage account.
#[derive(Default)]
struct Lists {
    users: List,
    aliases: List,
}

/// Relative ids in both orders.
#[derive(Default)]
struct List {
    by_id: Vec<u32>,
    by_name: Vec<u32>,
}

impl Principals {
    /// Those of `configuration`.
    pub(crate) fn of(configuration: &Configuration) -> Self {
        let settings = &configuration.settings;
        let machine_sid = of_machine(settings.machine_sid);
        Principals::of_entries(settings.server_name.to_uppercase(), machine_sid, entries(configuration))
    }

    fn of_entries(server_name: String, machine_sid: Sid, entries: impl Iterator<Item = Entry>) -> Self {
        let (mut by_id, mut by_name, mut by_account) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
        for entry in entries {
            let (id, folded) = (entry.known.relative_id, store::fold(&entry.known.name));
            let lists: &mut Lists = by_account.entry(entry.account.clone()).or_default();
            if let Some(list) = lists.of_mut(entry.known.kind) {
                list.by_id.push(id);
                list.by_name.push(id);
            }
            entry.aliases.iter().for_each(|alias| members.entry(*alias).or_default().push(id));
            by_name.insert(folded, id);
            by_id.insert(id, entry);
        }
        for list in by_account.values_mut().flat_map(|lists| [&mut lists.users, &mut lists.aliases]) {
            list.by_id.sort_unstable();
            list.by_name.sort_by_cached_key(|id| by_id.get(id).map(|entry| store::fold(&entry.known.name)));
        }
        members.values_mut().for_each(|members| members.sort_unstable());
        Principals { server_name, machine_sid, by_id, by_name, by_account, members }
    }

    /// The account of a relative id, as one of the storage account `asker` knows it.
    pub(crate) fn find(&self, asker: &str, relative_id: u32) -> Option<Account> {
        if relative_id == DOMAIN_USERS {
            return Some(all_users());
        }
        self.entry(asker, relative_id).map(|entry| entry.known.clone())
    }

    /// The account of a name in any case.
    pub(crate) fn find_by_name(&self, asker: &str, name: &str) -> Option<Account> {
        // What is longer than any name is not even looked at.
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        // Whoever is called so in another storage account hides nothing.
        let known = self.by_name.get(&store::fold(name)).and_then(|id| self.find(asker, *id));
        known.or_else(|| name.eq_ignore_ascii_case(DOMAIN_USERS_NAME).then(all_users))
    }

    /// Hands accounts to `take` until that wants no more. Gives how many there are of the kind.
    pub(crate) fn list(
        &self,
        asker: &str,
        kind: AccountKind,
        which: Listed,
        take: &mut dyn FnMut(Account) -> bool,
    ) -> usize {
        if kind == AccountKind::Group {
            let wanted = matches!(which, Listed::After(..DOMAIN_USERS) | Listed::ByName(0));
            if wanted {
                take(all_users());
            }
            return 1;
        }
        let Some(list) = self.by_account.get(asker).and_then(|lists| lists.of(kind)) else { return 0 };
        let ids = match which {
            Listed::After(after) => list.by_id.get(list.by_id.partition_point(|id| *id <= after)..),
            Listed::ByName(from) => list.by_name.get(from..),
        };
        let _ = ids.unwrap_or(&[]).iter().filter_map(|id| self.find(asker, *id)).all(take);
        list.by_id.len()
    }

    /// The local groups that an account is in.
    pub(crate) fn aliases_of(&self, asker: &str, relative_id: u32) -> Vec<u32> {
        self.entry(asker, relative_id).map_or(Vec::new(), |entry| entry.aliases.clone())
    }

    /// The accounts in a local group, `max` at most.
    pub(crate) fn members_of(&self, asker: &str, relative_id: u32, max: usize) -> Vec<u32> {
        let members = self.members.get(&relative_id).map_or(&[][..], Vec::as_slice);
        members.iter().copied().filter(|member| self.entry(asker, *member).is_some()).take(max).collect()
    }

    /// The one place that says who may know whom.
    fn entry(&self, asker: &str, relative_id: u32) -> Option<&Entry> {
        self.by_id.get(&relative_id).filter(|entry| entry.account == asker)
    }
}

impl Lists {
    fn of(&self, kind: AccountKind) -> Option<&List> {
        match kind {
            AccountKind::User => Some(&self.users),
            AccountKind::Alias => Some(&self.aliases),
            AccountKind::Group => None,
        }
    }

    fn of_mut(&mut self, kind: AccountKind) -> Option<&mut List> {
        match kind {
            AccountKind::User => Some(&mut self.users),
            AccountKind::Alias => Some(&mut self.aliases),
            AccountKind::Group => None,
        }
    }
}

fn all_users() -> Account {
    Account {
        name: DOMAIN_USERS_NAME.to_owned(),
        relative_id: DOMAIN_USERS,
        kind: AccountKind::Group,
        is_disabled: false,
        is_administrator: false,
    }
}

/// What a configuration has that has a relative id.
fn entries(configuration: &Configuration) -> impl Iterator<Item = Entry> {
    let principals = configuration.principals.iter().map(|principal| {
        // Who holds an account's key is in BUILTIN\Administrators (`User::new`).
        let is_administrator = match principal.kind {
            PrincipalKind::Account => true,
            PrincipalKind::User => false,
        };
        let known = Account {
            name: principal.name.clone(),
            relative_id: principal.relative_id,
            kind: AccountKind::User,
            is_disabled: principal.standing != Standing::Good,
            is_administrator,
        };
        Entry { account: principal.account.clone(), known, aliases: principal.groups.clone() }
    });
    let groups = configuration.groups.iter().map(|group| {
        let known = Account {
            name: group.name.clone(),
            relative_id: group.relative_id,
            kind: AccountKind::Alias,
            is_disabled: false,
            is_administrator: false,
        };
        Entry { account: group.account.clone(), known, aliases: Vec::new() }
    });
    principals.chain(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(account: &str, name: &str, relative_id: u32, kind: AccountKind, aliases: &[u32]) -> Entry {
        let known = Account { name: name.to_owned(), relative_id, kind, is_disabled: false, is_administrator: false };
        Entry { account: account.to_owned(), known, aliases: aliases.to_vec() }
    }

    fn principals() -> Principals {
        use AccountKind::{Alias, User};
        let entries = [
            entry("one", "zoe", 1000, User, &[1010]),
            entry("two", "bob", 1001, User, &[1011]),
            entry("one", "Änne", 1003, User, &[1010, 1012]),
            entry("one", "adam", 1002, User, &[]),
            entry("one", "staff", 1010, Alias, &[1012]),
            entry("two", "others", 1011, Alias, &[]),
            entry("one", "all", 1012, Alias, &[]),
        ];
        Principals::of_entries("SERVER".to_owned(), of_machine([1, 2, 3]), entries.into_iter())
    }

    fn listed(asker: &str, kind: AccountKind, which: Listed, most: usize) -> (Vec<u32>, usize) {
        let mut told = Vec::new();
        let count = principals().list(asker, kind, which, &mut |account| {
            told.push(account.relative_id);
            told.len() < most
        });
        (told, count)
    }

    #[test]
    fn accounts_are_found_by_relative_id_and_by_name_in_any_case() {
        let all = principals();
        assert_eq!(all.find("one", 1000).unwrap().name, "zoe");
        for name in ["Änne", "änne", "ÄNNE"] {
            assert_eq!(all.find_by_name("one", name).unwrap().relative_id, 1003, "{name}");
        }
        assert_eq!(all.find_by_name("one", "STAFF").unwrap().kind, AccountKind::Alias);
        assert_eq!(all.find_by_name("one", "domain users").unwrap().relative_id, 513);
        assert_eq!((all.find("one", 999), all.find_by_name("one", "")), (None, None));
    }

    #[test]
    fn nobody_knows_whom_another_storage_account_has() {
        let all = principals();
        assert!(all.find("one", 1001).is_none() && all.find_by_name("one", "bob").is_none());
        assert!(all.find("two", 1000).is_none() && all.find("three", 1000).is_none());
        assert_eq!(listed("two", AccountKind::User, Listed::After(0), 9), (vec![1001], 1));
        assert_eq!(listed("three", AccountKind::User, Listed::After(0), 9), (vec![], 0));
        assert_eq!((all.aliases_of("one", 1001), all.members_of("one", 1011, 9)), (vec![], vec![]));
    }

    #[test]
    fn who_is_called_like_a_group_hides_it_from_nobody_elsewhere() {
        let entries = [entry("two", "domain users", 1001, AccountKind::User, &[])];
        let all = Principals::of_entries("SERVER".to_owned(), of_machine([1, 2, 3]), entries.into_iter());
        assert_eq!(all.find_by_name("one", "Domain Users").unwrap().relative_id, DOMAIN_USERS);
        assert_eq!(all.find_by_name("two", "Domain Users").unwrap().relative_id, 1001);
    }

    #[test]
    fn lists_go_on_behind_any_relative_id_and_from_any_place_by_name() {
        use AccountKind::{Group, User};
        assert_eq!(listed("one", User, Listed::After(0), 9), (vec![1000, 1002, 1003], 3));
        assert_eq!(listed("one", User, Listed::After(1001), 1), (vec![1002], 3));
        assert_eq!(listed("one", User, Listed::After(u32::MAX), 9), (vec![], 3));
        assert_eq!(listed("one", User, Listed::ByName(0), 9), (vec![1002, 1000, 1003], 3));
        assert_eq!(listed("one", User, Listed::ByName(2), 9), (vec![1003], 3));
        assert_eq!(listed("one", User, Listed::ByName(usize::MAX), 9), (vec![], 3));
        assert_eq!(listed("one", Group, Listed::After(0), 9), (vec![513], 1));
        assert_eq!(listed("one", Group, Listed::After(513), 9), (vec![], 1));
    }

    #[test]
    fn local_groups_have_members_and_members_know_their_groups() {
        let all = principals();
        assert_eq!(all.aliases_of("one", 1003), [1010, 1012]);
        assert_eq!(all.members_of("one", 1010, 9), [1000, 1003]);
        assert_eq!(all.members_of("one", 1012, 1), [1003]);
    }
}
