//! For tests and fuzz targets: a server that has what it is told to have, and counts what it is asked for.

use std::cell::{Cell, RefCell};

use crate::ids::FileTime;
use crate::rpc::handles::{Handle, Handles, Object, Opened};
use crate::rpc::names::{Account, AccountKind, Listed, Names};
use crate::rpc::service::Service;
use crate::rpc::srvsvc::{OpenFile, Server, Session, Share, Srvsvc};
use crate::security::Sid;

/// A server of the accounts S-1-5-21-1-2-3, with nobody and nothing to begin with. Whoever asks is its user 1000.
pub struct Fake {
    /// What is open.
    pub handles: RefCell<Handles>,
    /// Whether names are told.
    pub may_ask: Cell<bool>,
    /// Whether sessions and files are told.
    pub may_administer: bool,
    /// The most bytes that a pipe may hold.
    pub held_bytes_max: usize,
    /// Who there is.
    pub accounts: Vec<Account>,
    /// Who is in which local group, by relative ids: the group, then its member.
    pub members: Vec<(u32, u32)>,
    /// Its shares.
    pub shares: Vec<Share>,
    /// Its sessions.
    pub sessions: Vec<Session>,
    /// What is open on it.
    pub files: Vec<OpenFile>,
    /// What it says of itself.
    pub server: Server,
    /// The time.
    pub now: FileTime,
    /// How many shares it was asked to tell.
    pub shares_told: Cell<usize>,
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            handles: RefCell::default(),
            may_ask: Cell::new(true),
            may_administer: true,
            held_bytes_max: 16 << 20,
            accounts: Vec::new(),
            members: Vec::new(),
            shares: Vec::new(),
            sessions: Vec::new(),
            files: Vec::new(),
            server: Server { name: "SERVER".into(), ..Server::default() },
            now: FileTime(0),
            shares_told: Cell::new(0),
        }
    }
}

impl Fake {
    /// One with a group of all users, some users, of whom zoe holds the account's key, and adam in a local group.
    pub fn town() -> Self {
        use AccountKind::{Alias, Group, User};
        let account = |name: &str, relative_id, kind| Account {
            name: name.into(),
            relative_id,
            kind,
            is_disabled: false,
            is_administrator: relative_id == 1000,
        };
        let accounts = vec![
            account("Domain Users", 513, Group),
            account("zoe", 1000, User),
            account("adam", 1001, User),
            account("Änne", 1002, User),
            account("staff", 1010, Alias),
        ];
        Fake { accounts, members: vec![(1010, 1001)], ..Fake::default() }
    }
}

impl Names for Fake {
    fn may_ask(&self) -> bool {
        self.may_ask.get()
    }

    fn domain_name(&self) -> String {
        "SERVER".into()
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3]).unwrap_or(Sid::NOBODY)
    }

    fn workgroup(&self) -> String {
        "WORKGROUP".into()
    }

    fn caller(&self) -> u32 {
        1000
    }

    fn account(&self, relative_id: u32) -> Option<Account> {
        self.accounts.iter().find(|account| account.relative_id == relative_id).cloned()
    }

    fn account_of_name(&self, name: &str) -> Option<Account> {
        self.accounts.iter().find(|account| account.name.to_lowercase() == name.to_lowercase()).cloned()
    }

    fn accounts(&self, kind: AccountKind, which: Listed, take: &mut dyn FnMut(Account) -> bool) -> usize {
        let of_kind: Vec<_> = self.accounts.iter().filter(|account| account.kind == kind).collect();
        let (from, after) = match which {
            Listed::After(after) => (0, after),
            Listed::ByName(from) => (from, 0),
        };
        let _ = of_kind.iter().skip(from).filter(|account| account.relative_id > after).all(|one| take((*one).clone()));
        of_kind.len()
    }

    fn aliases_of(&self, relative_id: u32) -> Vec<u32> {
        self.members.iter().filter(|(_, member)| *member == relative_id).map(|(group, _)| *group).collect()
    }

    fn members_of(&self, relative_id: u32, max: usize) -> Vec<u32> {
        self.members.iter().filter(|(group, _)| *group == relative_id).map(|(_, member)| *member).take(max).collect()
    }
}

impl Srvsvc for Fake {
    fn shares(&self, from: usize, take: &mut dyn FnMut(Share) -> bool) -> usize {
        let told = |share: &Share| {
            self.shares_told.set(self.shares_told.get() + 1);
            take(share.clone())
        };
        let _ = self.shares.iter().skip(from).all(told);
        self.shares.len()
    }

    fn share(&self, name: &str) -> Option<Share> {
        self.shares.iter().find(|share| share.name.eq_ignore_ascii_case(name)).cloned()
    }

    fn may_administer(&self) -> bool {
        self.may_administer
    }

    fn sessions(&self, from: usize, take: &mut dyn FnMut(Session) -> bool) -> usize {
        let _ = self.sessions.iter().skip(from).cloned().all(take);
        self.sessions.len()
    }

    fn files(&self, from: usize, take: &mut dyn FnMut(OpenFile) -> bool) -> usize {
        let _ = self.files.iter().skip(from).cloned().all(take);
        self.files.len()
    }

    fn server(&self) -> Server {
        self.server.clone()
    }

    fn now(&self) -> FileTime {
        self.now
    }
}

impl Service for Fake {
    fn may_hold(&self, bytes: usize) -> bool {
        bytes <= self.held_bytes_max
    }

    fn join(&self, group: u32) -> u32 {
        group.max(1)
    }

    fn open(&self, object: Object, granted: u32) -> Option<Handle> {
        self.handles.borrow_mut().open(object, granted)
    }

    fn find(&self, handle: Handle) -> Option<Opened> {
        self.handles.borrow().find(handle)
    }

    fn close(&self, handle: Handle) -> bool {
        self.handles.borrow_mut().close(handle)
    }
}
