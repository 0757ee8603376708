//! A whole message, told apart by its own header: what decodes survives a round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::command::*;
use wire::header::Header;
use wire::ids::{Command, MessageId};

/// Decodes; what decodes is encoded and decoded to the same.
macro_rules! survives {
    ($type:ty, $message:expr) => {
        survives!($type, $message, |decoded| decoded)
    };
    ($type:ty, $message:expr, |$decoded:ident| $as_encoded:expr) => {{
        if let Ok($decoded) = <$type>::decode($message) {
            let mut again = vec![0; 64];
            $decoded.encode(&mut again);
            assert_eq!(<$type>::decode(&again), Ok($as_encoded));
            // Walks what is decoded as it is looked at.
            assert!(!format!("{:?}", $decoded).is_empty());
        }
    }};
}

fuzz_target!(|message: &[u8]| {
    let Ok(header) = Header::decode(message) else { return };
    assert_eq!(Header::decode(&header.to_bytes()), Ok(header));
    if let Ok(error) = error::ErrorResponse::decode(message) {
        error.contexts().for_each(drop);
        let _ = error::SymbolicLinkError::decode(error.data);
        survives!(error::ErrorResponse<'_>, message);
    }
    match header.is_response() {
        true => response(&header, message),
        false => request(header.command, message),
    }
});

fn request(command: Command, message: &[u8]) {
    match command {
        Command::NEGOTIATE => survives!(negotiate::NegotiateRequest<'_>, message),
        Command::SESSION_SETUP => survives!(session_setup::SessionSetupRequest<'_>, message),
        Command::LOGOFF => survives!(logoff::LogoffRequest, message),
        Command::TREE_CONNECT => survives!(tree_connect::TreeConnectRequest<'_>, message, |decoded| {
            let flags = decoded.flags.without(tree_connect::TreeConnectFlags::EXTENSION_PRESENT);
            tree_connect::TreeConnectRequest { flags, ..decoded }
        }),
        Command::TREE_DISCONNECT => survives!(tree_disconnect::TreeDisconnectRequest, message),
        Command::CREATE => survives!(create::CreateRequest<'_>, message),
        Command::CLOSE => survives!(close::CloseRequest, message),
        Command::FLUSH => survives!(flush::FlushRequest, message),
        Command::READ => survives!(read::ReadRequest<'_>, message),
        Command::WRITE => {
            if let Ok(write) = write::WriteRequest::decode(message)
                && !write.data.is_empty()
            {
                assert_eq!(&message[write.data_range()], write.data);
            }
            survives!(write::WriteRequest<'_>, message, |decoded| write::WriteRequest {
                data_offset: write::WriteRequest::DATA_OFFSET,
                ..decoded
            })
        }
        Command::LOCK => survives!(lock::LockRequest<'_>, message),
        Command::IOCTL => survives!(ioctl::IoctlRequest<'_>, message),
        Command::CANCEL => survives!(cancel::CancelRequest, message),
        Command::ECHO => survives!(echo::EchoRequest, message),
        Command::QUERY_DIRECTORY => survives!(query_directory::QueryDirectoryRequest<'_>, message),
        Command::CHANGE_NOTIFY => survives!(change_notify::ChangeNotifyRequest, message),
        Command::QUERY_INFO => {
            if let Ok(request) = query_info::QueryInfoRequest::decode(message) {
                let _ = query_info::QueryQuota::decode(request.input);
            }
            survives!(query_info::QueryInfoRequest<'_>, message)
        }
        Command::SET_INFO => survives!(set_info::SetInfoRequest<'_>, message),
        Command::OPLOCK_BREAK => survives!(oplock_break::OplockBreakRequest, message),
        _ => {}
    }
}

fn response(header: &Header, message: &[u8]) {
    match header.command {
        Command::NEGOTIATE => survives!(negotiate::NegotiateResponse<'_>, message),
        Command::SESSION_SETUP => survives!(session_setup::SessionSetupResponse<'_>, message),
        Command::LOGOFF => survives!(logoff::LogoffResponse, message),
        Command::TREE_CONNECT => survives!(tree_connect::TreeConnectResponse, message),
        Command::TREE_DISCONNECT => survives!(tree_disconnect::TreeDisconnectResponse, message),
        Command::CREATE => survives!(create::CreateResponse<'_>, message),
        Command::CLOSE => survives!(close::CloseResponse, message),
        Command::FLUSH => survives!(flush::FlushResponse, message),
        Command::READ => survives!(read::ReadResponse<'_>, message, |decoded| read::ReadResponse {
            data_offset: read::ReadResponse::DATA_OFFSET,
            ..decoded
        }),
        Command::WRITE => survives!(write::WriteResponse, message),
        Command::LOCK => survives!(lock::LockResponse, message),
        Command::IOCTL => survives!(ioctl::IoctlResponse<'_>, message),
        Command::ECHO => survives!(echo::EchoResponse, message),
        Command::QUERY_DIRECTORY => survives!(query_directory::QueryDirectoryResponse<'_>, message),
        Command::CHANGE_NOTIFY => survives!(change_notify::ChangeNotifyResponse<'_>, message),
        Command::QUERY_INFO => survives!(query_info::QueryInfoResponse<'_>, message),
        Command::SET_INFO => survives!(set_info::SetInfoResponse, message),
        Command::OPLOCK_BREAK if header.message_id == MessageId::UNSOLICITED => {
            survives!(oplock_break::OplockBreakNotification, message)
        }
        Command::OPLOCK_BREAK => survives!(oplock_break::OplockBreakResponse, message),
        Command::SERVER_TO_CLIENT_NOTIFICATION => survives!(notification::ServerToClientNotification, message),
        _ => {}
    }
}
