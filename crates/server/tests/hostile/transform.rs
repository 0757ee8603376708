//! Sealed frames whose headers lie (MS-SMB2 3.3.5.2.1.1).

use wire::command::echo::EchoRequest;
use wire::ids::{Command, SessionId};
use wire::transform::{TRANSFORM_HEADER_LENGTH, TRANSFORM_PROTOCOL_ID};

use crate::peer::{End, Peer, put_u16, put_u32, put_u64};
use crate::served;

const ORIGINAL_MESSAGE_SIZE: usize = 36;
const FLAGS: usize = 42;
const SESSION_ID: usize = 44;

fn sealed_echo(peer: &mut Peer) -> Vec<u8> {
    let key = peer.signing_key.take();
    let message = peer.message(Command::ECHO, |body| EchoRequest.encode(body));
    peer.signing_key = key;
    peer.sealed(&message)
}

#[test]
fn a_sealed_request_is_answered_sealed() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let frame = sealed_echo(&mut peer);
        peer.send(&frame);
        let mut answer = peer.receive().unwrap();
        let opener = peer.keys.as_ref().unwrap().opener().unwrap();
        assert!(opener.open(&mut answer).is_ok());
    });
}

#[test]
fn a_size_that_lies_ends_the_connection() {
    served(|address| {
        for size in [0, 1, 67, 69, 1 << 24, u32::MAX] {
            let mut peer = Peer::signed_in(address);
            let mut frame = sealed_echo(&mut peer);
            put_u32(&mut frame, ORIGINAL_MESSAGE_SIZE, size);
            assert_eq!(peer.end_of(&frame), End::Disconnected, "{size}");
        }
    });
}

#[test]
fn flags_that_are_unknown_and_bytes_that_were_changed_end_the_connection() {
    served(|address| {
        for flags in [0, 2, u16::MAX] {
            let mut peer = Peer::signed_in(address);
            let mut frame = sealed_echo(&mut peer);
            put_u16(&mut frame, FLAGS, flags);
            assert_eq!(peer.end_of(&frame), End::Disconnected, "{flags}");
        }
        for place in [4, 20, 31, 40, TRANSFORM_HEADER_LENGTH, TRANSFORM_HEADER_LENGTH + 67] {
            let mut peer = Peer::signed_in(address);
            let mut frame = sealed_echo(&mut peer);
            frame[place] ^= 1;
            assert_eq!(peer.end_of(&frame), End::Disconnected, "byte {place}");
        }
    });
}

#[test]
fn the_session_of_nobody_or_of_another_connection_ends_the_connection() {
    served(|address| {
        let other = Peer::signed_in(address);
        for session_id in [SessionId(0), SessionId(u64::MAX), other.session_id] {
            let mut peer = Peer::signed_in(address);
            let mut frame = sealed_echo(&mut peer);
            put_u64(&mut frame, SESSION_ID, session_id.0);
            assert_eq!(peer.end_of(&frame), End::Disconnected, "{session_id:?}");
        }
    });
}

#[test]
fn sealed_frames_that_are_short_or_hold_no_message_end_the_connection() {
    served(|address| {
        for length in [4, 20, TRANSFORM_HEADER_LENGTH - 1, TRANSFORM_HEADER_LENGTH] {
            let mut peer = Peer::signed_in(address);
            let frame = sealed_echo(&mut peer);
            assert_eq!(peer.end_of(&frame[..length]), End::Disconnected, "{length}");
        }
        for inside in [&b"\xfe"[..], b"\xfeSMB", b"nothing that is SMB"] {
            let mut peer = Peer::signed_in(address);
            let frame = peer.sealed(inside);
            assert_eq!(peer.end_of(&frame), End::Disconnected);
        }
    });
}

#[test]
fn a_sealed_frame_in_a_sealed_frame_ends_the_connection() {
    served(|address| {
        let mut peer = Peer::signed_in(address);
        let inner = sealed_echo(&mut peer);
        assert_eq!(inner[..4], TRANSFORM_PROTOCOL_ID);
        let frame = peer.sealed(&inner);
        assert_eq!(peer.end_of(&frame), End::Disconnected);
    });
}

#[test]
fn a_stranger_seals_nothing() {
    served(|address| {
        for negotiated in [false, true] {
            let mut peer = if negotiated { Peer::negotiated(address) } else { Peer::connect(address) };
            let mut frame = vec![0; TRANSFORM_HEADER_LENGTH + 100];
            frame[..4].copy_from_slice(&TRANSFORM_PROTOCOL_ID);
            put_u32(&mut frame, ORIGINAL_MESSAGE_SIZE, 100);
            put_u16(&mut frame, FLAGS, 1);
            assert_eq!(peer.end_of(&frame), End::Disconnected);
        }
    });
}
