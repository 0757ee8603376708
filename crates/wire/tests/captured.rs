//! Messages that Samba's client, server and test suite (4.17) exchanged: each decodes, and what was decoded encodes to
//! something that decodes to the same.
//!
//! `captured/messages.txt` has a comment line and a line of hexadecimal digits for each message, which is whole or an
//! element cut out of a compound. Server GUIDs are replaced.

use std::fmt::Debug;

use wire::Malformed;
use wire::command::{
    cancel, change_notify, close, create, echo, error, flush, ioctl, lock, logoff, negotiate, oplock_break,
    query_directory, query_info, read, set_info, tree_connect, tree_disconnect, write,
};
use wire::context::create::{
    AllocationSize, AppInstanceId, AppleRequest, AppleServerResponse, DurableReconnect, DurableReconnectV2,
    DurableRequestV2, Lease, MaximalAccessRequest, MaximalAccessResponse, TimewarpToken, name,
};
use wire::context::negotiate::{
    Cipher, ContextType, EncryptionCapabilities, HashAlgorithm, PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::fscc::ioctl::{CopyChunks, CopyChunksResult, ResumeKey, ValidateNegotiate, interfaces};
use wire::header::Header;
use wire::ids::{Command, Dialect, MessageId};

const MESSAGES: &str = include_str!("captured/messages.txt");

/// The messages, each with its comment.
fn messages() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let lines: Vec<&str> = MESSAGES.lines().collect();
    lines.chunks_exact(2).map(|pair| (&pair[0][2..], bytes(pair[1]))).collect::<Vec<_>>().into_iter()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    (0..hexadecimal.len()).step_by(2).map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap()).collect()
}

/// The first message whose comment is `comment`.
fn message(comment: &str) -> Vec<u8> {
    messages().find(|(found, _)| *found == comment).unwrap_or_else(|| panic!("no message {comment}")).1
}

/// Checks that the message decodes and survives being encoded.
macro_rules! survives {
    ($comment:expr, $type:ty, $message:expr) => {{
        let decoded = <$type>::decode($message).unwrap_or_else(|malformed| panic!("{}: {malformed}", $comment));
        let mut again = vec![0; 64];
        decoded.encode(&mut again);
        same($comment, <$type>::decode(&again), Ok(decoded));
    }};
}

fn same<T: Debug + PartialEq>(comment: &str, again: Result<T, Malformed>, first: Result<T, Malformed>) {
    assert_eq!(again, first, "{comment}");
}

#[test]
fn every_message_survives() {
    for (comment, message) in messages() {
        let header = Header::decode(&message).unwrap();
        assert_eq!(Header::decode(&header.to_bytes()), Ok(header), "{comment}");
        match (comment.starts_with("ERROR"), header.is_response()) {
            (true, _) => survives!(comment, error::ErrorResponse<'_>, &message),
            (false, true) => response(comment, &header, &message),
            (false, false) => request(comment, header.command, &message),
        }
    }
}

fn request(comment: &str, command: Command, message: &[u8]) {
    match command {
        Command::NEGOTIATE => survives!(comment, negotiate::NegotiateRequest<'_>, message),
        Command::LOGOFF => survives!(comment, logoff::LogoffRequest, message),
        Command::TREE_CONNECT => survives!(comment, tree_connect::TreeConnectRequest<'_>, message),
        Command::TREE_DISCONNECT => survives!(comment, tree_disconnect::TreeDisconnectRequest, message),
        Command::CREATE => survives!(comment, create::CreateRequest<'_>, message),
        Command::CLOSE => survives!(comment, close::CloseRequest, message),
        Command::FLUSH => survives!(comment, flush::FlushRequest, message),
        Command::READ => survives!(comment, read::ReadRequest<'_>, message),
        Command::WRITE => survives!(comment, write::WriteRequest<'_>, message),
        Command::LOCK => survives!(comment, lock::LockRequest<'_>, message),
        Command::IOCTL => survives!(comment, ioctl::IoctlRequest<'_>, message),
        Command::CANCEL => survives!(comment, cancel::CancelRequest, message),
        Command::ECHO => survives!(comment, echo::EchoRequest, message),
        Command::QUERY_DIRECTORY => survives!(comment, query_directory::QueryDirectoryRequest<'_>, message),
        Command::CHANGE_NOTIFY => survives!(comment, change_notify::ChangeNotifyRequest, message),
        Command::QUERY_INFO => survives!(comment, query_info::QueryInfoRequest<'_>, message),
        Command::SET_INFO => survives!(comment, set_info::SetInfoRequest<'_>, message),
        Command::OPLOCK_BREAK => survives!(comment, oplock_break::OplockBreakRequest, message),
        other => panic!("{comment}: {other:?}"),
    }
}

fn response(comment: &str, header: &Header, message: &[u8]) {
    match header.command {
        Command::NEGOTIATE => survives!(comment, negotiate::NegotiateResponse<'_>, message),
        Command::LOGOFF => survives!(comment, logoff::LogoffResponse, message),
        Command::TREE_CONNECT => survives!(comment, tree_connect::TreeConnectResponse, message),
        Command::TREE_DISCONNECT => survives!(comment, tree_disconnect::TreeDisconnectResponse, message),
        Command::CREATE => survives!(comment, create::CreateResponse<'_>, message),
        Command::CLOSE => survives!(comment, close::CloseResponse, message),
        Command::FLUSH => survives!(comment, flush::FlushResponse, message),
        Command::READ => survives!(comment, read::ReadResponse<'_>, message),
        Command::WRITE => survives!(comment, write::WriteResponse, message),
        Command::LOCK => survives!(comment, lock::LockResponse, message),
        Command::IOCTL => survives!(comment, ioctl::IoctlResponse<'_>, message),
        Command::ECHO => survives!(comment, echo::EchoResponse, message),
        Command::QUERY_DIRECTORY => survives!(comment, query_directory::QueryDirectoryResponse<'_>, message),
        Command::CHANGE_NOTIFY => survives!(comment, change_notify::ChangeNotifyResponse<'_>, message),
        Command::QUERY_INFO => survives!(comment, query_info::QueryInfoResponse<'_>, message),
        Command::SET_INFO => survives!(comment, set_info::SetInfoResponse, message),
        Command::OPLOCK_BREAK if header.message_id == MessageId::UNSOLICITED => {
            survives!(comment, oplock_break::OplockBreakNotification, message);
        }
        Command::OPLOCK_BREAK => survives!(comment, oplock_break::OplockBreakResponse, message),
        other => panic!("{comment}: {other:?}"),
    }
}

#[test]
fn every_known_create_context_decodes() {
    let mut known = 0;
    for (comment, message) in messages() {
        let (contexts, is_request) = match comment {
            _ if comment.starts_with("CREATE request") => {
                (create::CreateRequest::decode(&message).unwrap().contexts, true)
            }
            _ if comment.starts_with("CREATE response") => {
                (create::CreateResponse::decode(&message).unwrap().contexts, false)
            }
            _ => continue,
        };
        for context in contexts.iter() {
            let data = context.data;
            let decoded = match (context.name, is_request) {
                (name::LEASE, _) => Lease::decode(data).is_ok(),
                (name::DURABLE_HANDLE_REQUEST_V2, true) => DurableRequestV2::decode(data).is_ok(),
                (name::DURABLE_HANDLE_RECONNECT_V2, _) => DurableReconnectV2::decode(data).is_ok(),
                (name::DURABLE_HANDLE_RECONNECT, _) => DurableReconnect::decode(data).is_ok(),
                (name::QUERY_MAXIMAL_ACCESS, true) => MaximalAccessRequest::decode(data).is_ok(),
                (name::QUERY_MAXIMAL_ACCESS, false) => MaximalAccessResponse::decode(data).is_ok(),
                (name::ALLOCATION_SIZE, _) => AllocationSize::decode(data).is_ok(),
                (name::TIMEWARP_TOKEN, _) => TimewarpToken::decode(data).is_ok(),
                (name::APP_INSTANCE_ID, _) => AppInstanceId::decode(data).is_ok(),
                (name::APPLE, true) => AppleRequest::decode(data).is_ok(),
                (name::APPLE, false) => {
                    AppleServerResponse::decode(data).is_ok_and(|response| response.to_bytes() == data)
                }
                _ => continue,
            };
            assert!(decoded, "{comment}: {context:?}");
            known += 1;
        }
    }
    assert!(known > 20, "{known}");
}

#[test]
fn a_client_of_3_1_1_offers_what_it_can() {
    let message = message("NEGOTIATE request 3.1.1");
    let request = negotiate::NegotiateRequest::decode(&message).unwrap();
    assert!(request.dialects.contains(Dialect::SMB_3_1_1));
    let find = |context_type| request.contexts.find(context_type).unwrap();
    let preauth = PreauthIntegrityCapabilities::decode(find(ContextType::PREAUTH_INTEGRITY_CAPABILITIES)).unwrap();
    assert!(preauth.hash_algorithms.iter().eq([HashAlgorithm::SHA_512]));
    assert_eq!(preauth.salt.len(), 32);
    let encryption = EncryptionCapabilities::decode(find(ContextType::ENCRYPTION_CAPABILITIES)).unwrap();
    assert!(encryption.ciphers.contains(Cipher::AES_128_GCM));
    assert!(SigningCapabilities::decode(find(ContextType::SIGNING_CAPABILITIES)).is_ok());
}

#[test]
fn payloads_of_control_codes_decode() {
    let input = |code: &str| {
        let message = message(&format!("IOCTL request {code}"));
        ioctl::IoctlRequest::decode(&message).unwrap().input.to_vec()
    };
    let output = |code: &str| {
        let message = message(&format!("IOCTL response {code}"));
        ioctl::IoctlResponse::decode(&message).unwrap().output.to_vec()
    };
    assert_eq!(CopyChunks::decode(&input("001440f2")).unwrap().count(), 1);
    assert!(CopyChunksResult::decode(&output("001440f2")).is_ok());
    assert!(ResumeKey::decode(&output("00140078")).is_ok());
    assert!(ValidateNegotiate::decode(&input("00140204")).is_ok());
    let output = output("001401fc");
    let addresses: Vec<_> = interfaces(&output).map(|interface| interface.unwrap().address.unwrap()).collect();
    assert!(addresses.iter().any(|address| address.is_loopback()), "{addresses:?}");
}
