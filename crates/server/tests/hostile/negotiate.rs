//! NEGOTIATEs that offer nothing, too much, or what is not there (MS-SMB2 3.3.5.4).

use std::net::SocketAddr;

use wire::command::echo::EchoRequest;
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder,
    PreauthIntegrityCapabilities,
};
use wire::header::Flags;
use wire::ids::{Command, Dialect};
use wire::list::U16List;
use wire::status::Status;

use crate::peer::{End, Peer, put_u16, put_u32};
use crate::served;

const DIALECT_COUNT: usize = 66;
const CONTEXT_OFFSET: usize = 92;
const CONTEXT_COUNT: usize = 96;
/// Where the contexts of one dialect's request begin, and in each its DataLength.
const CONTEXTS: usize = 104;
const DATA_LENGTH: usize = CONTEXTS + 2;

const REFUSED: End = End::Answered(Status::INVALID_PARAMETER);

fn spoiled(address: SocketAddr, spoil: impl FnOnce(&mut Vec<u8>)) -> End {
    let mut peer = Peer::connect(address);
    let mut message = peer.negotiate_message();
    assert_eq!(message[CONTEXT_OFFSET..CONTEXT_OFFSET + 4], (CONTEXTS as u32).to_le_bytes());
    spoil(&mut message);
    peer.end_of(&message)
}

/// What becomes of a 3.1.1 client that sends these contexts.
fn with(address: SocketAddr, add: impl FnOnce(&mut NegotiateContextsBuilder)) -> End {
    let mut builder = NegotiateContextsBuilder::new();
    add(&mut builder);
    let mut peer = Peer::connect(address);
    let message = peer.negotiate_with(&[Dialect::SMB_3_1_1], &builder);
    peer.end_of(&message)
}

fn preauth(builder: &mut NegotiateContextsBuilder, hashes: &[HashAlgorithm]) {
    builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| {
        PreauthIntegrityCapabilities { hash_algorithms: U16List::new(hashes), salt: &[1; 32] }.encode(writer);
    });
}

fn encryption(builder: &mut NegotiateContextsBuilder, ciphers: &[contexts::Cipher]) {
    builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| {
        EncryptionCapabilities { ciphers: U16List::new(ciphers) }.encode(writer);
    });
}

#[test]
fn no_dialects_are_refused_and_so_are_more_than_were_sent() {
    served(|address| {
        for count in [0, 60_000, u16::MAX] {
            assert_eq!(spoiled(address, |message| put_u16(message, DIALECT_COUNT, count)), REFUSED, "{count}");
        }
    });
}

#[test]
fn dialects_that_nobody_knows_are_not_supported() {
    served(|address| {
        let mut peer = Peer::connect(address);
        let dialects = [Dialect(0), Dialect(0x0201), Dialect(0x0399), Dialect(0xFFFF)];
        let message = peer.negotiate_with(&dialects, &NegotiateContextsBuilder::new());
        assert_eq!(peer.end_of(&message), End::Answered(Status::NOT_SUPPORTED));
    });
}

#[test]
fn contexts_outside_the_message_are_refused() {
    served(|address| {
        for count in [3, 1000, u16::MAX] {
            assert_eq!(spoiled(address, |message| put_u16(message, CONTEXT_COUNT, count)), REFUSED, "count {count}");
        }
        for offset in [0, 1, 64, 60_000, u32::MAX, 0xFFFF_FFF8] {
            assert_eq!(spoiled(address, |message| put_u32(message, CONTEXT_OFFSET, offset)), REFUSED, "at {offset}");
        }
        for length in [1000, u16::MAX] {
            assert_eq!(spoiled(address, |message| put_u16(message, DATA_LENGTH, length)), REFUSED, "{length} long");
        }
        assert_eq!(spoiled(address, |message| message.truncate(CONTEXTS + 20)), REFUSED);
    });
}

#[test]
fn contexts_that_are_too_short_for_what_they_count_are_refused() {
    served(|address| {
        // HashAlgorithmCount, then CipherCount in the second context.
        assert_eq!(spoiled(address, |message| put_u16(message, CONTEXTS + 8, 1000)), REFUSED);
        assert_eq!(spoiled(address, |message| put_u16(message, CONTEXTS + 10, 1000)), REFUSED);
        for kind in [ContextType::PREAUTH_INTEGRITY_CAPABILITIES, ContextType::ENCRYPTION_CAPABILITIES] {
            let end = with(address, |builder| {
                if kind != ContextType::PREAUTH_INTEGRITY_CAPABILITIES {
                    preauth(builder, &[HashAlgorithm::SHA_512]);
                }
                builder.add(kind, |_| {});
            });
            assert_eq!(end, REFUSED);
        }
    });
}

#[test]
fn there_is_one_preauth_context_with_a_hash_that_we_know() {
    served(|address| {
        let sha_512 = [HashAlgorithm::SHA_512];
        assert_eq!(with(address, |_| {}), REFUSED);
        assert_eq!(with(address, |builder| preauth(builder, &[])), REFUSED);
        let twice = |builder: &mut NegotiateContextsBuilder| (0..2).for_each(|_| preauth(builder, &sha_512));
        assert_eq!(with(address, twice), REFUSED);
        let end = with(address, |builder| preauth(builder, &[HashAlgorithm(0x7777)]));
        assert_eq!(end, End::Answered(Status::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP));
    });
}

#[test]
fn a_second_encryption_context_is_refused_and_unknown_contexts_are_passed_over() {
    served(|address| {
        let end = with(address, |builder| {
            preauth(builder, &[HashAlgorithm::SHA_512]);
            (0..2).for_each(|_| encryption(builder, &[contexts::Cipher::AES_128_GCM]));
        });
        assert_eq!(end, REFUSED);
        let end = with(address, |builder| {
            preauth(builder, &[HashAlgorithm::SHA_512]);
            for _ in 0..40 {
                builder.add(ContextType(0x7777), |writer| writer.zeros(100));
            }
            encryption(builder, &[contexts::Cipher(0x7777)]);
        });
        assert_eq!(end, End::Answered(Status::SUCCESS));
    });
}

#[test]
fn a_second_negotiate_ends_the_connection() {
    served(|address| {
        let mut peer = Peer::negotiated(address);
        let message = peer.negotiate_message();
        assert_eq!(peer.end_of(&message), End::Disconnected);
        let mut peer = Peer::signed_in(address);
        let message = peer.negotiate_message();
        assert_eq!(peer.end_of(&message), End::Disconnected);
    });
}

#[test]
fn a_signed_negotiate_is_refused() {
    served(|address| {
        let end = spoiled(address, |message| {
            let flags = u32::from_le_bytes(message[16..20].try_into().unwrap()) | Flags::SIGNED.0;
            put_u32(message, 16, flags);
        });
        assert_eq!(end, REFUSED);
    });
}

#[test]
fn anything_before_negotiate_ends_the_connection() {
    served(|address| {
        for command in [Command::ECHO, Command::SESSION_SETUP, Command::CREATE, Command::LOGOFF] {
            let mut peer = Peer::connect(address);
            let message = peer.message(command, |body| EchoRequest.encode(body));
            assert_eq!(peer.end_of(&message), End::Disconnected, "{command:?}");
        }
    });
}
