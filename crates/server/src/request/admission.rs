//! What a command needs before it runs: a session, a tree connect, an open. A table with one row a command
//! (MS-SMB2 3.3.5.2.9, 3.3.5.2.11 and the first lines of each 3.3.5.x).

use wire::codec::Reader;
use wire::header::{Flags, Header};
use wire::ids::{Command, FileId, SessionId};

use crate::state::open::OpenId;

/// One command's needs.
pub(crate) struct Row {
    pub(crate) session: Session,
    pub(crate) tree: bool,
    /// Where its FileId stands, in bytes from the start of the message.
    pub(crate) file_id: Option<usize>,
    /// Where the lengths stand that its credits must cover: of what is sent, and of what is asked for.
    sent_length: Option<usize>,
    asked_length: Option<usize>,
}

/// Whether a command is carried out in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    Needed,
    /// It makes one, or has none.
    NotNeeded,
    /// Where its header names one, or it is signed (3.3.5.17).
    WhereNamed,
}

impl Session {
    /// True where a request with this header, which means `session`, needs one.
    pub(crate) fn is_needed(self, header: &Header, session: SessionId) -> bool {
        match self {
            Session::Needed => true,
            Session::NotNeeded => false,
            Session::WhereNamed => session != SessionId(0) || header.flags.contains(Flags::SIGNED),
        }
    }
}

/// The row of a command; `None` for one that clients may not send.
pub(crate) fn row(command: Command) -> Option<Row> {
    let none = Row { session: Session::Needed, tree: true, file_id: None, sent_length: None, asked_length: None };
    let on_open = |offset| Row { file_id: Some(offset), ..none };
    Some(match command {
        Command::NEGOTIATE | Command::SESSION_SETUP => Row { session: Session::NotNeeded, tree: false, ..none },
        Command::ECHO => Row { session: Session::WhereNamed, tree: false, ..none },
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

    /// How much the request asks to be answered with.
    pub(crate) fn asked_bytes(&self, message: &[u8]) -> u32 {
        self.asked_length.and_then(|offset| Reader::at(message, offset).u32().ok()).unwrap_or(0)
    }
}

/// Which open a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileRef {
    /// None at all: the file id of an IOCTL on the server itself.
    Nothing,
    /// The one that an earlier request of the chain opened.
    Related,
    /// This one.
    Open(OpenId),
    /// One that cannot exist.
    Unknown,
}

/// Reads the FileId of a request. `None` where the message is too short to have one. What a related request has there counts for nothing:
/// "the values used for FileId, SessionId, and TreeId MUST be the ones used in processing the previous operation" (3.3.5.2.7.2).
pub(crate) fn file_ref(message: &[u8], offset: usize, related: bool) -> Option<FileRef> {
    let file_id = FileId::decode(&mut Reader::at(message, offset)).ok()?;
    Some(match file_id {
        _ if related => FileRef::Related,
        FileId::ANY => FileRef::Nothing,
        named => OpenId::from_file_id(named).map_or(FileRef::Unknown, FileRef::Open),
    })
}
