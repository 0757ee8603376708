//! The lsarpc and samr pipes, and srvsvc's sessions and files: calls with parameters that the input gives, and with handles that are open.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::rpc::client;
use wire::rpc::fake::Fake;
use wire::rpc::handles::{AccountDomain, Object};
use wire::rpc::pdu::FRAGMENT_BYTES_MAX;
use wire::rpc::server::Conversation;
use wire::rpc::srvsvc::{OpenFile, Session};
use wire::rpc::{Syntax, SyntaxId, lsarpc, samr, srvsvc};

const HELD_BYTES_MAX: usize = 4 << 20;

/// A server with some users and a local group, all of whose handles are open.
fn town() -> Fake {
    let session = Session { client: "10.0.0.1".into(), user: "zoe".into(), ..Session::default() };
    let file = OpenFile { path: r"data\file".into(), user: "zoe".into(), ..OpenFile::default() };
    let town =
        Fake { sessions: vec![session; 9], files: vec![file; 9], held_bytes_max: HELD_BYTES_MAX, ..Fake::town() };
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
        town.handles.borrow_mut().open(object, u32::MAX);
    }
    town
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
    while pipe.is_working() {
        pipe.proceed(&town).expect("its own fragments");
    }
    let mut answered = 0;
    while let Some(taken) = pipe.take(usize::MAX) {
        answered += taken.bytes.len();
    }
    assert!(answered > 0 && pipe.readable_bytes() == 0);
});
