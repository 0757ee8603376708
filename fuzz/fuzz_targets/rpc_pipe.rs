//! The srvsvc pipe: what a client writes, in pieces whose lengths the input gives, and what a client reads of a server.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::rpc::client::{self, Answer};
use wire::rpc::fake::Fake;
use wire::rpc::server::{Conversation, Refused};
use wire::rpc::srvsvc::{Share, ShareKind, decode_listing};
use wire::rpc::{Syntax, SyntaxId};

/// What a pipe may hold: a call and its answer, but not every one.
const HELD_BYTES_MAX: usize = 16 << 10;

/// A server without accounts, of which nobody is an administrator.
fn two_shares() -> Fake {
    let share = |name: &str, kind| Share { name: name.into(), kind, ..Share::default() };
    let shares = vec![share("Data", ShareKind::DISK_TREE), share("IPC$", ShareKind::IPC_SPECIAL)];
    Fake { shares, may_ask: false.into(), may_administer: false, held_bytes_max: HELD_BYTES_MAX, ..Fake::default() }
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    match mode % 4 {
        0 => serve(bytes, Conversation::new("srvsvc")),
        1 => {
            let mut pipe = Conversation::new("srvsvc");
            let interface = if mode & 4 == 0 { SyntaxId::SRVSVC } else { SyntaxId::WKSSVC };
            pipe.feed(&client::bind(&interface), &two_shares()).expect("a good bind");
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
    let server = two_shares();
    while let Some((length, rest)) = bytes.split_first() {
        let (piece, later) = rest.split_at(rest.len().min(usize::from(*length)));
        if let Err(Refused::Closed(_)) = pipe.feed(piece, &server) {
            return;
        }
        while let Some(taken) = pipe.take(100) {
            assert!(taken.bytes.len() <= 100);
            if pipe.proceed(&server).is_err() {
                return;
            }
        }
        assert_eq!(pipe.readable_bytes(), 0);
        bytes = later;
    }
}
