//! Sign-ins whose tokens lie, and sign-ins that cross (MS-SMB2 3.3.5.5).

use std::net::SocketAddr;

use secure::spnego::Initiator;
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest};
use wire::ids::{Command, SessionId};
use wire::status::Status;

use crate::peer::{End, Peer, put_u16};
use crate::served;

const BUFFER_OFFSET: usize = 76;
const BUFFER_LENGTH: usize = 78;

fn request(token: &[u8]) -> SessionSetupRequest<'_> {
    SessionSetupRequest { security_buffer: token, ..SessionSetupRequest::default() }
}

fn token_end(address: SocketAddr, token: &[u8]) -> End {
    let mut peer = Peer::negotiated(address);
    let message = peer.message(Command::SESSION_SETUP, |body| request(token).encode(body));
    peer.end_of(&message)
}

fn refuses(end: End) -> bool {
    matches!(end, End::Answered(Status::INVALID_PARAMETER | Status::LOGON_FAILURE))
}

#[test]
fn a_token_outside_the_message_is_refused() {
    served(|address| {
        let (_, token) = Initiator::begin();
        for (field, value) in [
            (BUFFER_OFFSET, 0),
            (BUFFER_OFFSET, 63),
            (BUFFER_OFFSET, 60_000),
            (BUFFER_OFFSET, u16::MAX),
            (BUFFER_LENGTH, 60_000),
            (BUFFER_LENGTH, u16::MAX),
        ] {
            let mut peer = Peer::negotiated(address);
            let end = peer.spoiled(
                Command::SESSION_SETUP,
                |body| request(&token).encode(body),
                |message| put_u16(message, field, value),
            );
            assert!(refuses(end), "{field} {value}: {end:?}");
        }
    });
}

#[test]
fn no_token_and_nonsense_are_refused() {
    served(|address| {
        let nonsense: [&[u8]; 6] = [
            b"",
            b"\0",
            b"NTLMSSP\0",
            b"\x60\x84\xff\xff\xff\xff",
            b"\xa1\x07\x30\x05\xa0\x03\x0a\x01\x00",
            &[0xFF; 60_000],
        ];
        for token in nonsense {
            let end = token_end(address, token);
            assert!(refuses(end), "{} bytes: {end:?}", token.len());
        }
    });
}

#[test]
fn a_deeply_nested_token_is_refused() {
    served(|address| {
        for tag in [0x30, 0x60, 0xA0] {
            let mut token = Vec::new();
            while token.len() < 20_000 {
                let length = token.len();
                let mut outer = match length {
                    0..=0x7F => vec![tag, length as u8],
                    0x80..=0xFF => vec![tag, 0x81, length as u8],
                    _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
                };
                outer.extend(token);
                token = outer;
            }
            let end = token_end(address, &token);
            assert!(refuses(end), "{end:?}");
        }
    });
}

#[test]
fn a_token_cut_anywhere_is_refused() {
    served(|address| {
        let (_, token) = Initiator::begin();
        for length in 0..token.len() {
            let end = token_end(address, &token[..length]);
            assert!(refuses(end), "{length}: {end:?}");
        }
    });
}

#[test]
fn sign_ins_that_cross_on_one_connection_each_have_their_own_hash() {
    served(|address| {
        let mut peer = Peer::negotiated(address);
        let mut begun = Vec::new();
        for _ in 0..3 {
            peer.session_id = SessionId(0);
            let (initiator, message) = peer.begin(SessionSetupFlags::NONE);
            begun.push((initiator, peer.preauth.clone(), peer.exchange(&message)));
        }
        begun.reverse();
        for (mut initiator, hash, challenge) in begun {
            (peer.signing_key, peer.preauth) = (None, hash);
            assert_eq!(peer.finish_sign_in(&mut initiator, &challenge), Status::SUCCESS);
            assert!(peer.is_alive(), "signed with the keys of this session");
        }
    });
}

#[test]
fn a_wrong_password_is_refused_and_the_session_with_it() {
    served(|address| {
        let mut peer = Peer::negotiated(address);
        peer.terms.password = "wrong";
        assert_eq!(peer.sign_in(), Status::LOGON_FAILURE);
        let (_, token) = Initiator::begin();
        let message = peer.message(Command::SESSION_SETUP, |body| request(&token).encode(body));
        assert_eq!(peer.end_of(&message), End::Answered(Status::USER_SESSION_DELETED));
        peer.session_id = SessionId(0);
        let message = peer.message(Command::SESSION_SETUP, |body| request(&token).encode(body));
        assert_eq!(peer.end_of(&message), End::Answered(Status::MORE_PROCESSING_REQUIRED));
    });
}

#[test]
fn sign_ins_that_are_never_finished_are_bounded() {
    served(|address| {
        let mut peer = Peer::negotiated(address);
        let mut last = None;
        for _ in 0..100 {
            let (_, token) = Initiator::begin();
            let message = peer.message(Command::SESSION_SETUP, |body| request(&token).encode(body));
            last = Some(peer.end_of(&message));
        }
        assert_eq!(last, Some(End::Answered(Status::INSUFFICIENT_RESOURCES)));
    });
}

#[test]
fn a_bind_to_a_session_of_another_does_not_harm_it() {
    served(|address| {
        let mut victim = Peer::signed_in(address);
        let mut peer = Peer::negotiated(address);
        peer.session_id = victim.session_id;
        let (_, token) = Initiator::begin();
        let bind = SessionSetupRequest { flags: SessionSetupFlags::BINDING, ..request(&token) };
        let message = peer.message(Command::SESSION_SETUP, |body| bind.encode(body));
        assert!(matches!(peer.end_of(&message), End::Answered(status) if status.0 >> 30 == 3));
        assert!(victim.is_alive());
    });
}

#[test]
fn the_previous_session_of_somebody_is_not_ended_by_who_cannot_sign_in() {
    served(|address| {
        let mut victim = Peer::signed_in(address);
        let mut peer = Peer::negotiated(address);
        let (_, token) = Initiator::begin();
        let thief = SessionSetupRequest { previous_session_id: victim.session_id, ..request(&token) };
        let message = peer.message(Command::SESSION_SETUP, |body| thief.encode(body));
        peer.end_of(&message);
        drop(peer);
        assert!(victim.is_alive());
    });
}
