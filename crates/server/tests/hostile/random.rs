//! Right requests with a few bytes changed, from one seed: each is answered or ends its own connection.

use std::net::SocketAddr;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use wire::codec::utf16_bytes;
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::query_directory::QueryDirectoryRequest;
use wire::command::query_info::QueryInfoRequest;
use wire::command::read::ReadRequest;
use wire::command::set_info::SetInfoRequest;
use wire::command::write::WriteRequest;
use wire::header::HEADER_LENGTH;
use wire::ids::{Command, FileId};

use crate::peer::{End, Peer, create};
use crate::served;

const REQUESTS: usize = 4_000;

/// Chance from a seed.
struct Chance(SplitMix64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        match self.below(4) {
            0 => 0,
            1 => 0xFF,
            2 => 1 << self.below(8),
            _ => self.below(256) as u8,
        }
    }
}

fn samples(file_id: FileId) -> Vec<(Command, Vec<u8>)> {
    fn body(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        // Offsets count from the header.
        let mut message = vec![0; HEADER_LENGTH];
        encode(&mut message);
        message.split_off(HEADER_LENGTH)
    }
    let name = utf16_bytes("random");
    let elements =
        [LockElement { offset: 0, length: 9, flags: LockFlags::SHARED_LOCK | LockFlags::FAIL_IMMEDIATELY }; 3];
    let ioctl = |ctl_code, input| IoctlRequest {
        ctl_code,
        file_id,
        max_output_response: 4096,
        flags: IoctlFlags::IS_FSCTL,
        input,
        ..IoctlRequest::default()
    };
    vec![
        (Command::CREATE, body(|out| create(&name).encode(out))),
        (Command::READ, body(|out| ReadRequest { file_id, length: 4096, ..Default::default() }.encode(out))),
        (Command::WRITE, body(|out| WriteRequest { file_id, data: &[7; 100], ..Default::default() }.encode(out))),
        (
            Command::LOCK,
            body(|out| LockRequest { file_id, locks: LockElements::new(&elements), ..Default::default() }.encode(out)),
        ),
        (Command::IOCTL, body(|out| ioctl(CtlCode::SET_ZERO_DATA, &[0; 16]).encode(out))),
        (Command::IOCTL, body(|out| ioctl(CtlCode::SRV_COPYCHUNK_WRITE, &[0; 56]).encode(out))),
        (Command::QUERY_INFO, body(|out| QueryInfoRequest { file_id, ..Default::default() }.encode(out))),
        (Command::SET_INFO, body(|out| SetInfoRequest { file_id, ..Default::default() }.encode(out))),
        (Command::QUERY_DIRECTORY, body(|out| QueryDirectoryRequest { file_id, ..Default::default() }.encode(out))),
    ]
}

#[test]
fn requests_with_changed_bytes_are_answered_or_end_their_own_connection() {
    served(|address| {
        let mut chance = Chance(SplitMix64::seed_from_u64(1));
        let mut client = Client::new(address);
        for _ in 0..REQUESTS {
            let (command, right) = &client.samples[chance.below(client.samples.len())];
            let (command, mut body) = (*command, right.clone());
            for _ in 0..1 + chance.below(4) {
                let place = chance.below(body.len());
                body[place] = chance.byte();
            }
            let message = client.peer.message(command, |out| out.extend_from_slice(&body));
            if client.peer.end_of(&message) == End::Disconnected {
                client = Client::new(address);
            }
        }
        assert!(client.peer.is_alive());
    });
}

struct Client {
    peer: Peer,
    samples: Vec<(Command, Vec<u8>)>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let mut peer = Peer::signed_in(address);
        let samples = samples(peer.open("random"));
        Client { peer, samples }
    }
}

#[test]
fn negotiates_with_changed_bytes_are_answered_or_end_their_connection() {
    served(|address| {
        let mut chance = Chance(SplitMix64::seed_from_u64(0xD1B5_4A32_D192_ED03));
        for _ in 0..300 {
            let mut peer = Peer::connect(address);
            let mut message = peer.negotiate_message();
            for _ in 0..1 + chance.below(8) {
                let place = chance.below(message.len());
                message[place] = chance.byte();
            }
            peer.end_of(&message);
        }
    });
}
