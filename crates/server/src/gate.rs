//! What a command needs before it runs: a session, a tree connect, an open. A table with one row a command
//! (MS-SMB2 3.3.5.2.9, 3.3.5.2.11 and the first lines of each 3.3.5.x).

use wire::codec::Reader;
use wire::ids::{Command, Dialect, FileId};
use wire::status::Status;

use crate::open::OpenId;

/// One command's needs.
pub(crate) struct Row {
    pub(crate) session: bool,
    pub(crate) tree: bool,
    /// Where its FileId stands, in bytes from the start of the message.
    pub(crate) file_id: Option<usize>,
    /// Where the lengths stand that its credits must cover: of what is sent, and of what is asked for.
    sent_length: Option<usize>,
    asked_length: Option<usize>,
}

/// The row of a command; `None` for one that clients may not send.
pub(crate) fn row(command: Command) -> Option<Row> {
    let none = Row { session: true, tree: true, file_id: None, sent_length: None, asked_length: None };
    let on_open = |offset| Row { file_id: Some(offset), ..none };
    Some(match command {
        Command::NEGOTIATE | Command::SESSION_SETUP | Command::ECHO => Row { session: false, tree: false, ..none },
        Command::LOGOFF | Command::TREE_CONNECT | Command::OPLOCK_BREAK => Row { tree: false, ..none },
        Command::TREE_DISCONNECT | Command::CREATE => none,
        Command::CLOSE | Command::FLUSH | Command::LOCK => on_open(72),
        Command::READ => Row { asked_length: Some(68), ..on_open(80) },
        Command::WRITE => Row { sent_length: Some(68), ..on_open(80) },
        Command::IOCTL => Row { sent_length: Some(92), asked_length: Some(108), ..on_open(72) },
        Command::QUERY_DIRECTORY => Row { asked_length: Some(92), ..on_open(72) },
        Command::CHANGE_NOTIFY => Row { asked_length: Some(68), ..on_open(72) },
        Command::QUERY_INFO => Row { sent_length: Some(76), asked_length: Some(68), ..on_open(88) },
        Command::SET_INFO => Row { sent_length: Some(68), ..on_open(80) },
        _ => return None,
    })
}

impl Row {
    /// The payload that the request's credits must cover: the larger of what is sent and what is asked for (3.3.5.2.5).
    pub(crate) fn payload_bytes(&self, message: &[u8]) -> u64 {
        let length = |offset: Option<usize>| {
            offset.and_then(|offset| Reader::at(message, offset).u32().ok()).map_or(0, u64::from)
        };
        length(self.sent_length).max(length(self.asked_length))
    }
}

/// Which open a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// None at all: the file id of an IOCTL on the server itself.
    Nothing,
    /// The one that an earlier request of the chain opened.
    Related,
    /// This one.
    Open(OpenId),
    /// One that cannot exist.
    Unknown,
}

/// Reads the FileId of a request. `None` where the message is too short to have one.
pub(crate) fn meant_open(message: &[u8], offset: usize, related: bool) -> Option<Meant> {
    let file_id = FileId::decode(&mut Reader::at(message, offset)).ok()?;
    Some(match (file_id == FileId::ANY, related) {
        (true, true) => Meant::Related,
        (true, false) => Meant::Nothing,
        (false, _) => OpenId::from_file_id(file_id).map_or(Meant::Unknown, Meant::Open),
    })
}

/// Whether an unprotected request is let through (3.3.5.2.4, 3.3.5.2.5).
pub(crate) struct Protection {
    pub(crate) dialect: Dialect,
    pub(crate) sealed: bool,
    pub(crate) signed: bool,
    pub(crate) signing_required: bool,
    pub(crate) sealing_required: bool,
}

impl Protection {
    pub(crate) fn check(&self) -> Result<(), Status> {
        let seals = self.dialect >= Dialect::SMB_3_0;
        if self.sealing_required && seals && !self.sealed {
            return Err(Status::ACCESS_DENIED);
        }
        if self.signing_required && !self.sealed && !self.signed {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(())
    }
}
