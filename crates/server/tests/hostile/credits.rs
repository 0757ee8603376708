//! Message ids and credits that were not given (MS-SMB2 3.3.5.2.3, 3.3.5.2.5).

use wire::command::echo::EchoRequest;
use wire::command::read::ReadRequest;
use wire::ids::{Command, MessageId};
use wire::status::Status;

use crate::peer::{End, Peer};
use crate::served;

#[test]
fn a_payload_that_credits_do_not_pay_for_is_refused() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let file_id = peer.open("file");
        for (charge, length) in [(0, 65_537), (1, 65_537), (1, 1 << 20), (15, 1 << 20), (1, u32::MAX)] {
            let mut header = peer.header(Command::READ);
            header.credit_charge = charge;
            peer.message_id += u64::from(charge).saturating_sub(1);
            let request = ReadRequest { file_id, length, ..ReadRequest::default() };
            let message = peer.complete(header, |body| request.encode(body));
            assert_eq!(peer.end_of(&message), End::Answered(Status::INVALID_PARAMETER), "{charge} for {length}");
        }
        assert!(peer.is_alive());
    });
}

#[test]
fn message_ids_that_were_used_or_never_granted_end_the_connection() {
    served(|address| {
        for id in [0, 1, 8_192 * 4, 1 << 40, u64::MAX - 1, u64::MAX] {
            let mut peer = Peer::signed_in(address);
            let mut header = peer.header(Command::ECHO);
            header.message_id = MessageId(id);
            let message = peer.complete(header, |body| EchoRequest.encode(body));
            assert_eq!(peer.end_of(&message), End::Disconnected, "{id}");
        }
    });
}

#[test]
fn a_charge_of_more_ids_than_were_granted_ends_the_connection() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let mut header = peer.header(Command::ECHO);
        header.credit_charge = u16::MAX;
        let message = peer.complete(header, |body| EchoRequest.encode(body));
        assert_eq!(peer.end_of(&message), End::Disconnected);
    });
}

#[test]
fn an_unknown_command_is_refused() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        for command in [0x14, 0x42, 0xFFFF] {
            let message = peer.message(Command(command), |body| EchoRequest.encode(body));
            assert_eq!(peer.end_of(&message), End::Answered(Status::INVALID_PARAMETER), "{command:#x}");
        }
        assert!(peer.is_alive());
    });
}
