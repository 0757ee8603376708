//! Chains that leave their frame, and chains that end what their own requests stand on (MS-SMB2 3.3.5.2.7).

use wire::command::create::CreateRequest;
use wire::command::echo::EchoRequest;
use wire::command::logoff::LogoffRequest;
use wire::command::read::ReadRequest;
use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::header::{Flags, HEADER_LENGTH, Route};
use wire::ids::{Command, FileId, SessionId, TreeId};
use wire::status::Status;

use crate::peer::{End, Peer, RELATED, chained, create, headers, put_u32, unprotected};
use crate::served;

type Body<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Signed requests, one after the other in one frame.
fn chain(peer: &mut Peer, parts: &[(Command, Flags, Body<'_>)]) -> Vec<u8> {
    let mut requests = Vec::new();
    for (command, flags, body) in parts {
        let mut header = peer.header(*command);
        header.flags |= *flags;
        if flags.contains(Flags::RELATED_OPERATIONS) {
            header.session_id = SessionId(u64::MAX);
            header.route = Route::Sync { tree_id: TreeId(u32::MAX) };
        }
        requests.push(unprotected(header, body));
    }
    chained(requests, |_, message| peer.sign(message))
}

/// The statuses of a chain's responses, which may come in one frame or in several.
fn statuses(peer: &mut Peer, count: usize) -> Vec<Status> {
    let mut statuses = Vec::new();
    while statuses.len() < count {
        let frame = peer.receive().expect("the chain is answered");
        let all = headers(&frame).into_iter().map(|header| header.status);
        statuses.extend(all.filter(|status| *status != Status::PENDING));
    }
    statuses
}

fn echo(body: &mut Vec<u8>) {
    EchoRequest.encode(body);
}

fn read(body: &mut Vec<u8>, file_id: FileId) {
    ReadRequest { file_id, length: 1, ..ReadRequest::default() }.encode(body);
}

#[test]
fn a_next_command_outside_the_frame_ends_the_connection() {
    served(|address| {
        for next in [1_u32, 8, 63, 65, 68, 71, 72, 0xFFFF_FFF8, u32::MAX, 0x8000_0000] {
            let mut peer = Peer::signed_in(address);
            let end = peer.spoiled(Command::ECHO, echo, |message| put_u32(message, 20, next));
            assert_eq!(end, End::Disconnected, "{next:#x}");
        }
    });
}

#[test]
fn a_chain_that_goes_on_with_something_else_ends_the_connection() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let end = peer.spoiled(Command::ECHO, echo, |message| {
            put_u32(message, 20, 72);
            message.resize(72 + HEADER_LENGTH + 8, 0);
        });
        assert_eq!(end, End::Disconnected);
    });
}

#[test]
fn a_chain_must_not_begin_with_a_related_request() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file = peer.open("file");
        let mut header = peer.header(Command::READ);
        header.flags |= Flags::RELATED_OPERATIONS;
        let message = peer.complete(header, |body| read(body, file));
        assert_eq!(peer.end_of(&message), End::Answered(Status::INVALID_PARAMETER));
        assert!(peer.is_alive());
    });
}

#[test]
fn nothing_is_read_after_the_tree_disconnect_of_the_same_chain() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file = peer.open("file");
        let parts: [(_, _, Body<'_>); 3] = [
            (Command::TREE_DISCONNECT, Flags::NONE, &|body| TreeDisconnectRequest.encode(body)),
            (Command::READ, Flags::RELATED_OPERATIONS, &|body| read(body, file)),
            (Command::READ, Flags::NONE, &|body| read(body, file)),
        ];
        let frame = chain(&mut peer, &parts);
        peer.send(&frame);
        let gone = Status::NETWORK_NAME_DELETED;
        assert_eq!(statuses(&mut peer, 3), [Status::SUCCESS, gone, gone]);
    });
}

#[test]
fn nothing_is_read_after_the_logoff_of_the_same_chain() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file = peer.open("file");
        let parts: [(_, _, Body<'_>); 3] = [
            (Command::LOGOFF, Flags::NONE, &|body| LogoffRequest.encode(body)),
            (Command::READ, Flags::RELATED_OPERATIONS, &|body| read(body, file)),
            (Command::READ, Flags::NONE, &|body| read(body, file)),
        ];
        let frame = chain(&mut peer, &parts);
        peer.send(&frame);
        let gone = Status::USER_SESSION_DELETED;
        assert_eq!(statuses(&mut peer, 3), [Status::SUCCESS, gone, gone]);
    });
}

#[test]
fn what_is_related_to_a_create_that_failed_fails_like_it() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let name = wire::codec::utf16_bytes("missing");
        let open = CreateRequest { disposition: wire::command::create::CreateDisposition::OPEN, ..create(&name) };
        let parts: [(_, _, Body<'_>); 2] = [
            (Command::CREATE, Flags::NONE, &|body| open.encode(body)),
            (Command::READ, Flags::RELATED_OPERATIONS, &|body| read(body, RELATED)),
        ];
        let frame = chain(&mut peer, &parts);
        peer.send(&frame);
        let missing = Status::OBJECT_NAME_NOT_FOUND;
        assert_eq!(statuses(&mut peer, 2), [missing, missing]);
    });
}

#[test]
fn a_chain_as_long_as_the_credits_is_answered_request_by_request() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let body: Body<'_> = &echo;
        let frame = chain(&mut peer, &[(Command::ECHO, Flags::NONE, body); 60]);
        peer.send(&frame);
        assert_eq!(statuses(&mut peer, 60), [Status::SUCCESS; 60]);
    });
}
