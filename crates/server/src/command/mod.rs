//! One file a command: `handle(context, request) -> Outcome` (MS-SMB2 3.3.5.4 to 3.3.5.22). A new one has its number in `wire/src/ids.rs`, its messages in
//! `wire/src/command/`, what it needs in `request/admission.rs`, and its arm here.

mod breaking;
pub(crate) mod cancel;
mod change_notify;
mod close;
pub(crate) mod connection;
pub(crate) mod context;
pub(crate) mod create;
mod flush;
pub(crate) mod ioctl;
pub(crate) mod link_target;
mod lock;
mod logoff;
pub(crate) mod migrated;
pub(crate) mod negotiate;
pub(crate) mod negotiation;
mod oplock_break;
pub(crate) mod proof;
mod query_directory;
mod query_info;
pub(crate) mod read;
mod recorded;
pub(crate) mod session_setup;
mod set_info;
pub(crate) mod setup;
pub(crate) mod steps;
mod tree_connect;
mod tree_disconnect;
pub(crate) mod write;
pub(crate) mod write_through;
#[cfg(test)]
mod write_through_tests;

use wire::command as message;
use wire::header::Header;
use wire::ids::Command;
use wire::status::Status;

use crate::command::connection::Connection;
use crate::command::context::{Context, Outcome, Reply};
use crate::state::refusal::Refusal;

/// Decodes a request and hands it to its command. What the machine or a disk could not do for it is in the log.
pub(crate) async fn dispatch(context: &Context, command: Command, bytes: &[u8]) -> Outcome {
    let outcome = hand_over(context, command, bytes).await;
    if let Err(Refusal { fault: Some(fault), .. }) = &outcome {
        let share = context.tree().map(|tree| tree.share.to_string()).unwrap_or_default();
        let path = match command {
            Command::CREATE => message::create::CreateRequest::decode(bytes).ok().and_then(|asked| asked.name.decode()),
            _ => context.file().ok().map(|(_, file)| file.name()),
        };
        let path = path.unwrap_or_default();
        tell_fault(context, command, *fault, &share, &path);
    }
    outcome
}

/// What a disk lacks is told by itself: to make room is the operator's to do.
fn tell_fault(context: &Context, command: Command, error: store::Error, share: &str, path: &str) {
    let peer = &context.connection.peer;
    let (session, user) = match context.session() {
        Ok(session) => (session.id.0, session.user.load().name.clone()),
        Err(_) => (0, String::new()),
    };
    match error {
        store::Error::Full => {
            tracing::warn!(name: "share_full", peer, session, user, share, path, ?command, "no room is left in a share: its disk or its quota is full");
        }
        _ => {
            tracing::warn!(name: "request_failed", %error, peer, session, user, share, path, ?command, "this machine failed a request");
        }
    }
}

async fn hand_over(context: &Context, command: Command, bytes: &[u8]) -> Outcome {
    match command {
        Command::NEGOTIATE => negotiate::handle(context, bytes),
        Command::SESSION_SETUP => session_setup::handle(context, bytes).await,
        Command::LOGOFF => logoff::handle(context).await,
        Command::TREE_CONNECT => {
            tree_connect::handle(context, message::tree_connect::TreeConnectRequest::decode(bytes)?)
        }
        Command::TREE_DISCONNECT => tree_disconnect::handle(context).await,
        Command::CREATE => create::handle(context, message::create::CreateRequest::decode(bytes)?).await,
        Command::CLOSE => close::handle(context, message::close::CloseRequest::decode(bytes)?).await,
        Command::FLUSH => flush::handle(context, message::flush::FlushRequest::decode(bytes)?).await,
        Command::READ => read::handle(context, message::read::ReadRequest::decode(bytes)?).await,
        Command::WRITE => write::handle(context, message::write::WriteRequest::decode(bytes)?).await,
        Command::LOCK => lock::handle(context, message::lock::LockRequest::decode(bytes)?).await,
        Command::IOCTL => ioctl::handle(context, message::ioctl::IoctlRequest::decode(bytes)?).await,
        Command::ECHO => echo(bytes),
        Command::QUERY_DIRECTORY => {
            query_directory::handle(context, message::query_directory::QueryDirectoryRequest::decode(bytes)?).await
        }
        Command::CHANGE_NOTIFY => {
            change_notify::handle(context, message::change_notify::ChangeNotifyRequest::decode(bytes)?).await
        }
        Command::QUERY_INFO => query_info::handle(context, message::query_info::QueryInfoRequest::decode(bytes)?).await,
        Command::SET_INFO => set_info::handle(context, message::set_info::SetInfoRequest::decode(bytes)?).await,
        Command::OPLOCK_BREAK => {
            oplock_break::handle(context, message::oplock_break::OplockBreakRequest::decode(bytes)?)
        }
        _ => Err(Status::INVALID_PARAMETER.into()),
    }
}

/// ECHO (3.3.5.17).
fn echo(bytes: &[u8]) -> Outcome {
    message::echo::EchoRequest::decode(bytes)?;
    let mut body = Vec::new();
    message::echo::EchoResponse.encode(&mut body);
    Ok(Reply::new(body))
}

/// Lets the commands that set a connection or session up see their response as it leaves: it is part of the pre-auth hash (3.3.5.4,
/// 3.3.5.5), all but the last one of a SESSION_SETUP.
pub(crate) fn after_response(connection: &Connection, command: Command, response: &[u8]) {
    match command {
        Command::NEGOTIATE => connection.negotiation.borrow_mut().hash(response),
        Command::SESSION_SETUP => {
            if let Ok(header) = Header::decode(response)
                && header.status == Status::MORE_PROCESSING_REQUIRED
                && let Some(setup) = connection.setups.borrow_mut().get_mut(&header.session_id)
            {
                setup.hash(response);
            }
        }
        _ => {}
    }
}
