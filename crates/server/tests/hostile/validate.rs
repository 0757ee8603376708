//! VALIDATE_NEGOTIATE_INFO: a NEGOTIATE that somebody changed on its way (MS-SMB2 3.3.5.15.12).

use std::net::SocketAddr;

use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::command::negotiate::{Capabilities, SecurityMode};
use wire::fscc::ioctl::{ValidateNegotiate, ValidateNegotiateResult};
use wire::ids::{Command, Dialect, FileId, Guid};
use wire::status::Status;

use crate::peer::{CLIENT_GUID, End, Peer};
use crate::served;

/// What a client tells of its NEGOTIATE.
#[derive(Clone)]
struct Told {
    capabilities: Capabilities,
    guid: Guid,
    security_mode: SecurityMode,
    dialects: Vec<Dialect>,
    room: u32,
}

impl Told {
    fn rightly(dialect: Dialect) -> Told {
        let (capabilities, security_mode) = (Capabilities::NONE, SecurityMode::NONE);
        Told { capabilities, guid: CLIENT_GUID, security_mode, dialects: vec![dialect], room: 24 }
    }

    fn input(&self) -> Vec<u8> {
        let mut input = Vec::new();
        ValidateNegotiate::encode(self.capabilities, self.guid, self.security_mode, &self.dialects, &mut input);
        input
    }
}

fn validate(peer: &mut Peer, room: u32, input: &[u8]) -> Vec<u8> {
    let request = IoctlRequest {
        ctl_code: CtlCode::VALIDATE_NEGOTIATE_INFO,
        file_id: FileId::ANY,
        max_output_response: room,
        flags: IoctlFlags::IS_FSCTL,
        input,
        ..IoctlRequest::default()
    };
    peer.message(Command::IOCTL, |body| request.encode(body))
}

fn end_of(address: SocketAddr, told: &Told) -> End {
    let mut peer = Peer::signed_in_with(address, Dialect::SMB_3_0_2);
    let message = validate(&mut peer, told.room, &told.input());
    peer.end_of(&message)
}

#[test]
fn who_tells_the_same_is_told_what_the_server_said() {
    served(|address| {
        for dialect in [Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_0_2] {
            let mut peer = Peer::signed_in_with(address, dialect);
            let message = validate(&mut peer, 24, &Told::rightly(dialect).input());
            peer.send(&message);
            let response = peer.receive().unwrap();
            let result = ValidateNegotiateResult::decode(IoctlResponse::decode(&response).unwrap().output).unwrap();
            assert_eq!((result.dialect, result.server), (dialect, Guid([7; 16])));
        }
    });
}

#[test]
fn who_tells_something_else_loses_the_connection() {
    served(|address| {
        let right = Told::rightly(Dialect::SMB_3_0_2);
        assert_eq!(end_of(address, &right), End::Answered(Status::SUCCESS));
        let others = [
            Told { capabilities: Capabilities::ENCRYPTION, ..right.clone() },
            Told { guid: Guid([8; 16]), ..right.clone() },
            Told { security_mode: SecurityMode::SIGNING_ENABLED, ..right.clone() },
            Told { dialects: vec![], ..right.clone() },
            Told { dialects: vec![Dialect::SMB_3_0_2, Dialect::SMB_3_1_1], ..right.clone() },
            Told { room: 23, ..right.clone() },
        ];
        for told in others {
            assert_eq!(end_of(address, &told), End::Disconnected);
        }
    });
}

#[test]
fn who_tells_less_than_all_loses_the_connection() {
    served(|address| {
        let input = Told::rightly(Dialect::SMB_3_0_2).input();
        for length in 0..input.len() {
            let mut peer = Peer::signed_in_with(address, Dialect::SMB_3_0_2);
            let message = validate(&mut peer, 24, &input[..length]);
            assert_eq!(peer.end_of(&message), End::Disconnected, "{length}");
        }
    });
}
