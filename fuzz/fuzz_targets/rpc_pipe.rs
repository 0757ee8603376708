//! The srvsvc pipe: what a client writes, in pieces whose lengths the input gives, and what a client reads of a server.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ids::FileTime;
use wire::rpc::client::{self, Answer};
use wire::rpc::handles::{Handle, Object, Opened};
use wire::rpc::names::{Account, AccountKind, Listed, Names};
use wire::rpc::server::{Conversation, Refused};
use wire::rpc::service::Service;
use wire::rpc::srvsvc::{OpenFile, Server, Session, Share, ShareKind, Srvsvc, decode_listing};
use wire::rpc::{Syntax, SyntaxId};
use wire::security::Sid;

struct Two;

/// What a pipe may hold: a call and its answer, but not every one.
const HELD_BYTES_MAX: usize = 16 << 10;

impl Srvsvc for Two {
    fn shares(&self, from: usize, take: &mut dyn FnMut(Share) -> bool) -> usize {
        let share = |name: &str, kind| Share { name: name.into(), kind, ..Share::default() };
        let both = [share("Data", ShareKind::DISK_TREE), share("IPC$", ShareKind::IPC_SPECIAL)];
        let _ = both.into_iter().skip(from).all(take);
        2
    }

    fn share(&self, name: &str) -> Option<Share> {
        (name == "Data").then(Share::default)
    }

    fn may_administer(&self) -> bool {
        false
    }

    fn sessions(&self, _from: usize, _take: &mut dyn FnMut(Session) -> bool) -> usize {
        0
    }

    fn files(&self, _from: usize, _take: &mut dyn FnMut(OpenFile) -> bool) -> usize {
        0
    }

    fn server(&self) -> Server {
        Server { name: "SERVER".into(), ..Server::default() }
    }

    fn now(&self) -> FileTime {
        FileTime(u64::MAX)
    }
}

/// There are no accounts.
impl Names for Two {
    fn may_ask(&self) -> bool {
        false
    }

    fn domain_name(&self) -> String {
        String::new()
    }

    fn domain_sid(&self) -> Sid {
        Sid::NOBODY
    }

    fn workgroup(&self) -> String {
        String::new()
    }

    fn caller(&self) -> u32 {
        0
    }

    fn account(&self, _relative_id: u32) -> Option<Account> {
        None
    }

    fn account_of_name(&self, _name: &str) -> Option<Account> {
        None
    }

    fn accounts(&self, _kind: AccountKind, _which: Listed, _take: &mut dyn FnMut(Account) -> bool) -> usize {
        0
    }

    fn aliases_of(&self, _relative_id: u32) -> Vec<u32> {
        Vec::new()
    }

    fn members_of(&self, _relative_id: u32, _max: usize) -> Vec<u32> {
        Vec::new()
    }
}

impl Service for Two {
    fn may_hold(&self, bytes: usize) -> bool {
        bytes <= HELD_BYTES_MAX
    }

    fn join(&self, group: u32) -> u32 {
        group.max(1)
    }

    fn open(&self, _object: Object, _granted: u32) -> Option<Handle> {
        None
    }

    fn find(&self, _handle: Handle) -> Option<Opened> {
        None
    }

    fn close(&self, _handle: Handle) -> bool {
        false
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    match mode % 4 {
        0 => serve(bytes, Conversation::new("srvsvc")),
        1 => {
            let mut pipe = Conversation::new("srvsvc");
            let interface = if mode & 4 == 0 { SyntaxId::SRVSVC } else { SyntaxId::WKSSVC };
            pipe.feed(&client::bind(&interface), &Two).expect("a good bind");
            serve(bytes, pipe);
        }
        2 => {
            let _ = client::bound(bytes);
            let _ = Answer::new(1).fragment(bytes);
        }
        _ => {
            let syntax = if mode & 4 == 0 { Syntax::Ndr32 } else { Syntax::Ndr64 };
            let _ = decode_listing(bytes, syntax);
        }
    }
});

fn serve(mut bytes: &[u8], mut pipe: Conversation) {
    while let Some((length, rest)) = bytes.split_first() {
        let (piece, later) = rest.split_at(rest.len().min(usize::from(*length)));
        if let Err(Refused::Closed(_)) = pipe.feed(piece, &Two) {
            return;
        }
        while let Some(taken) = pipe.take(100) {
            assert!(taken.bytes.len() <= 100);
            if pipe.proceed(&Two).is_err() {
                return;
            }
        }
        assert_eq!(pipe.readable_bytes(), 0);
        bytes = later;
    }
}
