//! Frames that are cut, that lie about their length, or that are no SMB2.

use wire::command::echo::EchoRequest;
use wire::header::Flags;
use wire::ids::Command;

use crate::peer::{End, Peer, framed, put_u16};
use crate::served;

#[test]
fn frames_that_are_no_smb2_message_end_the_connection() {
    served(|address| {
        let mut right = Peer::connect(address).negotiate_message();
        right[0] = 0xFC;
        let compressed = right.clone();
        right[0] = 0xFE;
        let mut wrong_size = right.clone();
        put_u16(&mut wrong_size, 4, 65);
        let frames: [&[u8]; 8] = [
            b"",
            b"\xfe",
            b"\xfeSMB",
            &right[..63],
            &compressed,
            &wrong_size,
            b"GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\nAccept: */*\r\n\r\n",
            b"\xffSMB\x73 an SMB1 message that is no NEGOTIATE ........................",
        ];
        for frame in frames {
            assert_eq!(Peer::connect(address).end_of(frame), End::Disconnected, "{frame:?}");
        }
    });
}

#[test]
fn a_first_byte_other_than_zero_ends_the_connection() {
    served(|address| {
        let mut peer = Peer::connect(address);
        peer.send_bytes(&[0x81, 0, 0, 0x44]);
        assert_eq!(peer.end(), End::Disconnected);
    });
}

#[test]
fn a_stranger_s_frame_above_the_limit_ends_the_connection_at_once() {
    served(|address| {
        let mut peer = Peer::connect(address);
        peer.send_bytes(&[0, 0xFF, 0xFF, 0xFF]);
        assert_eq!(peer.end(), End::Disconnected);
    });
}

#[test]
fn a_frame_above_the_limit_ends_a_client_s_connection_too() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        peer.send_bytes(&[0, 0xFF, 0xFF, 0xFF]);
        assert_eq!(peer.end(), End::Disconnected);
    });
}

#[test]
fn connections_that_go_away_in_the_middle_of_a_frame_leave_nothing_behind() {
    served(|address| {
        for _ in 0..100 {
            let mut peer = Peer::connect(address);
            let message = peer.negotiate_message();
            peer.send_bytes(&(message.len() as u32 + 1).to_be_bytes());
            peer.send_bytes(&message);
        }
    });
}

#[test]
fn a_message_that_says_it_is_a_response_ends_the_connection() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let mut header = peer.header(Command::ECHO);
        header.flags |= Flags::SERVER_TO_REDIR;
        let message = peer.complete(header, |body| EchoRequest.encode(body));
        assert_eq!(peer.end_of(&message), End::Disconnected);
    });
}

#[test]
fn requests_in_one_segment_are_each_answered_and_so_are_those_cut_into_bytes() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let frames: Vec<u8> =
            (0..20).flat_map(|_| framed(&peer.message(Command::ECHO, |body| EchoRequest.encode(body)))).collect();
        peer.send_bytes(&frames);
        (0..20).for_each(|_| drop(peer.receive().unwrap()));
        for byte in framed(&peer.message(Command::ECHO, |body| EchoRequest.encode(body))) {
            peer.send_bytes(&[byte]);
        }
        assert!(peer.receive().is_some());
    });
}
