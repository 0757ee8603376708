//! The lsarpc and samr pipes, and srvsvc's sessions and files: calls with parameters that the input gives, and with handles that are open.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use wire::ids::FileTime;
use wire::rpc::client;
use wire::rpc::handles::{AccountDomain, Handle, Handles, Object, Opened};
use wire::rpc::names::{Account, AccountKind, Listed, Names};
use wire::rpc::pdu::FRAGMENT_BYTES_MAX;
use wire::rpc::server::Conversation;
use wire::rpc::service::Service;
use wire::rpc::srvsvc::{OpenFile, Server, Session, Share, Srvsvc};
use wire::rpc::{Syntax, SyntaxId, lsarpc, samr, srvsvc};
use wire::security::Sid;

const HELD_BYTES_MAX: usize = 4 << 20;

/// A server with two users and a local group, all of whose handles are open.
struct Town(RefCell<Handles>);

fn town() -> Town {
    let mut handles = Handles::default();
    for object in [
        Object::Policy,
        Object::AccountServer,
        Object::Domain(AccountDomain::Accounts),
        Object::Domain(AccountDomain::Builtin),
        Object::User(1000),
        Object::Group(513),
        Object::Alias(AccountDomain::Accounts, 1010),
        Object::Alias(AccountDomain::Builtin, 544),
    ] {
        handles.open(object, u32::MAX);
    }
    Town(RefCell::new(handles))
}

fn account(relative_id: u32) -> Option<Account> {
    let (name, kind) = match relative_id {
        513 => ("Domain Users", AccountKind::Group),
        1000 => ("zoe", AccountKind::User),
        1001 => ("Änne", AccountKind::User),
        1010 => ("staff", AccountKind::Alias),
        _ => return None,
    };
    Some(Account { name: name.into(), relative_id, kind, is_disabled: false, is_administrator: relative_id == 1000 })
}

const ALL: [u32; 4] = [513, 1000, 1001, 1010];

impl Names for Town {
    fn may_ask(&self) -> bool {
        true
    }

    fn domain_name(&self) -> String {
        "SERVER".into()
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3]).expect("short enough")
    }

    fn workgroup(&self) -> String {
        "WORKGROUP".into()
    }

    fn caller(&self) -> u32 {
        1000
    }

    fn account(&self, relative_id: u32) -> Option<Account> {
        account(relative_id)
    }

    fn account_of_name(&self, name: &str) -> Option<Account> {
        ALL.into_iter().filter_map(account).find(|account| account.name == name)
    }

    fn accounts(&self, kind: AccountKind, which: Listed, take: &mut dyn FnMut(Account) -> bool) -> usize {
        let (from, after) = match which {
            Listed::After(after) => (0, after),
            Listed::ByName(from) => (from, 0),
        };
        let of_kind = || ALL.into_iter().filter_map(account).filter(|account| account.kind == kind);
        let _ = of_kind().skip(from).filter(|account| account.relative_id > after).all(take);
        of_kind().count()
    }

    fn aliases_of(&self, relative_id: u32) -> Vec<u32> {
        if relative_id == 1001 { vec![1010] } else { Vec::new() }
    }

    fn members_of(&self, _relative_id: u32, _max: usize) -> Vec<u32> {
        vec![1001]
    }
}

impl Srvsvc for Town {
    fn shares(&self, _from: usize, _take: &mut dyn FnMut(Share) -> bool) -> usize {
        0
    }

    fn share(&self, _name: &str) -> Option<Share> {
        None
    }

    fn may_administer(&self) -> bool {
        true
    }

    fn sessions(&self, from: usize, take: &mut dyn FnMut(Session) -> bool) -> usize {
        let _ = (from..9)
            .map(|_| Session { client: "10.0.0.1".into(), user: "zoe".into(), ..Session::default() })
            .all(take);
        9
    }

    fn files(&self, from: usize, take: &mut dyn FnMut(OpenFile) -> bool) -> usize {
        let _ = (from..9)
            .map(|_| OpenFile { path: r"data\file".into(), user: "zoe".into(), ..OpenFile::default() })
            .all(take);
        9
    }

    fn server(&self) -> Server {
        Server { name: "SERVER".into(), ..Server::default() }
    }

    fn now(&self) -> FileTime {
        FileTime(0)
    }
}

impl Service for Town {
    fn may_hold(&self, bytes: usize) -> bool {
        bytes <= HELD_BYTES_MAX
    }

    fn join(&self, group: u32) -> u32 {
        group.max(1)
    }

    fn open(&self, object: Object, granted: u32) -> Option<Handle> {
        self.0.borrow_mut().open(object, granted)
    }

    fn find(&self, handle: Handle) -> Option<Opened> {
        self.0.borrow().find(handle)
    }

    fn close(&self, handle: Handle) -> bool {
        self.0.borrow_mut().close(handle)
    }
}

fuzz_target!(|input: &[u8]| {
    let Some(([mode, operation], stub)) = input.split_first_chunk::<2>() else { return };
    let operation = u16::from(*operation);
    let syntax = if mode & 4 == 0 { Syntax::Ndr32 } else { Syntax::Ndr64 };
    let interface = match mode % 4 {
        0 => {
            let _ = lsarpc::Call::decode(lsarpc::Operation(operation), stub, syntax);
            SyntaxId::LSARPC
        }
        1 => {
            let _ = srvsvc::Call::decode(srvsvc::Operation(operation), stub, syntax);
            SyntaxId::SRVSVC
        }
        _ => {
            let _ = samr::Call::decode(samr::Operation(operation), stub, syntax);
            SyntaxId::SAMR
        }
    };
    let town = town();
    let mut pipe = Conversation::new("lsarpc");
    pipe.feed(&client::bind(&interface), &town).expect("a good bind");
    while pipe.take(usize::MAX).is_some() {}
    for fragment in client::request(1, operation, stub, FRAGMENT_BYTES_MAX) {
        if pipe.feed(&fragment, &town).is_err() {
            return;
        }
    }
    let mut answered = 0;
    while let Some(taken) = pipe.take(usize::MAX) {
        answered += taken.bytes.len();
    }
    assert!(answered > 0 && pipe.readable_bytes() == 0);
});
