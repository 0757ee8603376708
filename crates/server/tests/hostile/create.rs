//! CREATEs whose names, contexts and descriptors lie (MS-SMB2 3.3.5.9).

use std::net::SocketAddr;

use wire::codec::utf16_bytes;
use wire::command::create::CreateRequest;
use wire::context::create::{CreateContextsBuilder, name};
use wire::ids::Command;
use wire::status::Status;

use crate::peer::{End, Peer, create, put_u16, put_u32};
use crate::served;

const NAME_OFFSET: usize = 108;
const NAME_LENGTH: usize = 110;
const CONTEXTS_OFFSET: usize = 112;
const CONTEXTS_LENGTH: usize = 116;

const REFUSED: End = End::Answered(Status::INVALID_PARAMETER);

fn named(address: SocketAddr, name: &[u8]) -> End {
    let mut peer = Peer::signed_in(address);
    let message = peer.message(Command::CREATE, |body| create(name).encode(body));
    peer.end_of(&message)
}

fn spoiled(address: SocketAddr, spoil: impl FnOnce(&mut Vec<u8>)) -> End {
    Peer::signed_in(address).spoiled(Command::CREATE, |body| create(&utf16_bytes("name")).encode(body), spoil)
}

/// A CREATE with one context, spoiled by `spoil`, which is told where the context begins.
fn with_context(address: SocketAddr, name: &[u8], data: &[u8], spoil: impl FnOnce(&mut Vec<u8>, usize)) -> End {
    let mut builder = CreateContextsBuilder::new();
    builder.add(name, data);
    let text = utf16_bytes("name");
    let request = CreateRequest { contexts: builder.contexts(), ..create(&text) };
    Peer::signed_in(address).spoiled(
        Command::CREATE,
        |body| request.encode(body),
        |message| {
            let start = u32::from_le_bytes(message[CONTEXTS_OFFSET..CONTEXTS_OFFSET + 4].try_into().unwrap());
            spoil(message, start as usize);
        },
    )
}

#[test]
fn names_outside_the_message_are_refused() {
    served(|address| {
        for offset in [0, 1, 63, 60_000, u16::MAX] {
            assert_eq!(spoiled(address, |message| put_u16(message, NAME_OFFSET, offset)), REFUSED, "at {offset}");
        }
        for length in [1, 7, 60_000, u16::MAX] {
            assert_eq!(spoiled(address, |message| put_u16(message, NAME_LENGTH, length)), REFUSED, "{length} long");
        }
    });
}

#[test]
fn names_that_no_file_can_have_are_refused() {
    served(|address| {
        let invalid = End::Answered(Status::OBJECT_NAME_INVALID);
        assert_eq!(named(address, &[b'a', 0, 0x00, 0xD8]), invalid, "a lone high surrogate");
        assert_eq!(named(address, &[0x00, 0xDC, b'a', 0]), invalid, "a lone low surrogate");
        for name in ["a\0b", "a*b", "a/b", "a\\\\b", "..", "..\\..\\etc\\passwd", "a\\..\\b", "a:b:c:d"] {
            let end = named(address, &utf16_bytes(name));
            assert!(matches!(end, End::Answered(status) if status.0 >> 30 == 3), "{name:?}: {end:?}");
        }
        assert_eq!(named(address, &utf16_bytes("\\name")), REFUSED);
        let end = named(address, &utf16_bytes(&"x".repeat(30_000)));
        assert!(matches!(end, End::Answered(status) if status.0 >> 30 == 3), "{end:?}");
        let end = named(address, &utf16_bytes(&"a\\".repeat(15_000)));
        assert!(matches!(end, End::Answered(status) if status.0 >> 30 == 3), "{end:?}");
    });
}

#[test]
fn contexts_outside_the_message_are_refused() {
    served(|address| {
        for offset in [1, 60, 60_000, u32::MAX] {
            let end = with_context(address, name::QUERY_MAXIMAL_ACCESS, &[], |message, _| {
                put_u32(message, CONTEXTS_OFFSET, offset);
            });
            assert_eq!(end, REFUSED, "at {offset}");
        }
        for length in [1, 15, 60_000, u32::MAX] {
            let end = with_context(address, name::QUERY_MAXIMAL_ACCESS, &[], |message, _| {
                put_u32(message, CONTEXTS_LENGTH, length);
            });
            assert_eq!(end, REFUSED, "{length} long");
        }
    });
}

#[test]
fn a_context_that_leaves_the_others_is_refused() {
    served(|address| {
        let spoil = |spoil: &dyn Fn(&mut Vec<u8>, usize)| {
            with_context(address, name::QUERY_MAXIMAL_ACCESS, &[0; 8], |message, at| spoil(message, at))
        };
        for next in [1, 4, 8, 60_000, 0xFFFF_FFF8, u32::MAX] {
            assert_eq!(spoil(&|message, at| put_u32(message, at, next)), REFUSED, "Next {next}");
        }
        for offset in [0, 15, 60_000, u16::MAX] {
            assert_eq!(spoil(&|message, at| put_u16(message, at + 4, offset)), REFUSED, "NameOffset {offset}");
        }
        for length in [60_000, u16::MAX] {
            assert_eq!(spoil(&|message, at| put_u16(message, at + 6, length)), REFUSED, "NameLength {length}");
        }
        for offset in [60_000, u16::MAX] {
            assert_eq!(spoil(&|message, at| put_u16(message, at + 10, offset)), REFUSED, "DataOffset {offset}");
        }
        for length in [60_000, u32::MAX] {
            assert_eq!(spoil(&|message, at| put_u32(message, at + 12, length)), REFUSED, "DataLength {length}");
        }
    });
}

#[test]
fn a_security_descriptor_that_lies_is_refused() {
    served(|address| {
        let descriptor = |offset_of_dacl: u32, acl: &[u8]| {
            let mut bytes = vec![1, 0, 0x04, 0x80];
            bytes.extend([0; 12]);
            bytes.extend(offset_of_dacl.to_le_bytes());
            bytes.extend(acl);
            bytes
        };
        let many_aces = [2, 0, 8, 0, 0xFF, 0xFF, 0, 0];
        let long_acl = [2, 0, 0xFF, 0xFF, 0, 0, 0, 0];
        let long_ace = [2, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0];
        let lies = [
            descriptor(0xFFFF_FF00, &[]),
            descriptor(20, &[]),
            descriptor(2, &many_aces),
            descriptor(20, &many_aces),
            descriptor(20, &long_acl),
            descriptor(20, &long_ace),
            vec![1],
        ];
        for lie in lies {
            let end = with_context(address, name::SD_BUFFER, &lie, |_, _| {});
            let refused = matches!(end, End::Answered(Status::INVALID_PARAMETER | Status::INVALID_SECURITY_DESCR));
            assert!(refused, "{lie:?}: {end:?}");
        }
    });
}

#[test]
fn extended_attributes_whose_chain_lies_are_refused() {
    served(|address| {
        let ea = |next: u32, name_length: u8, value_length: u16| {
            let mut bytes = next.to_le_bytes().to_vec();
            bytes.extend([0, name_length]);
            bytes.extend(value_length.to_le_bytes());
            bytes.extend(b"NAME\0value");
            bytes
        };
        for lie in [ea(0xFFFF_FFF0, 4, 5), ea(4, 4, 5), ea(0, 255, 5), ea(0, 4, u16::MAX), ea(1000, 4, 5), vec![0; 3]] {
            let end = with_context(address, name::EA_BUFFER, &lie, |_, _| {});
            assert!(matches!(end, End::Answered(status) if status.0 >> 30 >= 2), "{lie:?}: {end:?}");
        }
    });
}
