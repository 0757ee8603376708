//! What a command needs before it runs: a session, a tree connect, an open. A table with one row a command
//! (MS-SMB2 3.3.5.2.9, 3.3.5.2.11 and the first lines of each 3.3.5.x), and how a request on the slow path gets what its row says.

use std::ops::Range;
use std::rc::Rc;

use wire::codec::Reader;
use wire::header::{Flags, Header};
use wire::ids::{Command, FileId, SessionId, TreeId};
use wire::status::Status;

use crate::command::connection::{Connection, Disconnect};
use crate::command::context::{Context, Outcome};
use crate::command::proof::{Proof, SealingNeed};
use crate::resource::slice::Slice;
use crate::state::credits;
use crate::state::in_flight::InFlight;
use crate::state::open_id::OpenId;
use crate::state::session::{Channel, Session};
use crate::state::tree::Tree;

/// One command's needs.
pub(crate) struct Row {
    pub(crate) session: NeedsSession,
    pub(crate) tree: bool,
    /// Where its FileId stands, in bytes from the start of the message.
    pub(crate) file_id: Option<usize>,
    /// Where the lengths stand that its credits must cover: of what is sent, and of what is asked for.
    sent_length: Option<usize>,
    asked_length: Option<usize>,
}

/// Whether a command is carried out in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedsSession {
    Always,
    /// It makes one, or has none.
    Never,
    /// Where its header names one, or it is signed (3.3.5.17).
    WhereNamed,
}

impl NeedsSession {
    /// True where a request with this header, which means `session`, needs one.
    pub(crate) fn is_needed(self, header: &Header, session: SessionId) -> bool {
        match self {
            NeedsSession::Always => true,
            NeedsSession::Never => false,
            NeedsSession::WhereNamed => session != SessionId(0) || header.flags.contains(Flags::SIGNED),
        }
    }
}

/// The row of a command; `None` for one that clients may not send.
pub(crate) fn row(command: Command) -> Option<Row> {
    let none = Row { session: NeedsSession::Always, tree: true, file_id: None, sent_length: None, asked_length: None };
    let on_open = |offset| Row { file_id: Some(offset), ..none };
    Some(match command {
        Command::NEGOTIATE | Command::SESSION_SETUP => Row { session: NeedsSession::Never, tree: false, ..none },
        Command::ECHO => Row { session: NeedsSession::WhereNamed, tree: false, ..none },
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

/// The payload of a request of `command` ([`Row::payload_bytes`]).
pub(super) fn payload_bytes(command: Command, message: &[u8]) -> u64 {
    row(command).map_or(0, |row| row.payload_bytes(message))
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

/// The session that an unsealed message means, where the request before it, which no CANCEL is, means `before`.
pub(crate) fn session_meant(header: &Header, before: Option<SessionId>) -> SessionId {
    let related = header.flags.contains(Flags::RELATED_OPERATIONS);
    before.filter(|_| related).unwrap_or(header.session_id)
}

/// What a request is related to.
pub(super) struct Relation {
    pub(super) session_id: SessionId,
    /// Related, but to nothing: to no request, or to one that is so itself. It is refused (3.3.5.2.7.2).
    is_orphan: bool,
}

impl Relation {
    pub(super) fn after(before: Option<&Request>, header: &Header, sealed: Option<&Rc<Channel>>) -> Self {
        let related = header.flags.contains(Flags::RELATED_OPERATIONS);
        let is_orphan = related && before.is_none_or(|before| before.is_orphan);
        let session_id = match sealed {
            Some(channel) => channel.session.id,
            None => session_meant(header, before.map(|before| before.session_id)),
        };
        Relation { session_id, is_orphan }
    }
}

/// One request of a frame.
pub(super) struct Request {
    pub(super) range: Range<usize>,
    pub(super) header: Header,
    pub(super) session_id: SessionId,
    /// Related, but to nothing.
    pub(super) is_orphan: bool,
    pub(super) channel: Option<Rc<Channel>>,
    pub(super) proof: Proof,
    /// What was found wrong on arrival.
    pub(super) verdict: Result<(), Status>,
}

/// What one request of a chain leaves to those related to it.
#[derive(Default)]
pub(super) struct Carried {
    session: bool,
    tree: Option<TreeId>,
    pub(super) open: Option<OpenId>,
    failed: Option<Status>,
}

impl Carried {
    /// The tree connect that the request before had, or has found.
    pub(super) fn tree(&self) -> Option<TreeId> {
        self.tree
    }

    /// After the request that had this outcome: a failed CREATE leaves its status, and no open (3.3.5.2.7.2).
    pub(super) fn note(&mut self, command: Command, outcome: &Outcome) {
        if command == Command::CREATE {
            self.open = None;
        }
        match outcome {
            Ok(reply) => {
                self.tree = reply.tree.or(self.tree);
                self.open = reply.open.or(self.open);
                self.failed = None;
            }
            Err(refusal) => self.failed = Some(refusal.status),
        }
    }
}

impl Request {
    /// As it arrives: `place` is what it is related to, `proof` what its message proves. What is wrong with it is its verdict.
    pub(super) fn admit(
        connection: &Connection,
        (header, range): (Header, Range<usize>),
        message: &[u8],
        place: Relation,
        proof: Proof,
    ) -> Result<Request, Disconnect> {
        let Relation { session_id, is_orphan } = place;
        let row = row(header.command);
        // 3.3.5.2.2.
        if connection.negotiation.borrow().dialect().is_none() && header.command != Command::NEGOTIATE {
            return Err(Disconnect("a request before NEGOTIATE"));
        }
        let mut verdict = Ok(());
        if is_orphan || row.is_none() {
            verdict = Err(Status::INVALID_PARAMETER);
        }
        let (large, charge) = (connection.negotiation.borrow().has_large_mtu(), connection.charge(&header));
        if large && row.is_some_and(|row| !credits::covers(charge, row.payload_bytes(message))) {
            verdict = Err(Status::INVALID_PARAMETER);
        }
        if matches!(proof, Proof::Forged) {
            verdict = Err(Status::ACCESS_DENIED);
        }
        let channel = connection.channel(session_id);
        Ok(Request { range, header, session_id, is_orphan, channel, proof, verdict })
    }

    pub(super) fn is_related(&self) -> bool {
        self.header.flags.contains(Flags::RELATED_OPERATIONS)
    }

    /// Finds what the request needs, or the status that says what is missing. The session and
    /// tree that it finds are those of what is related to it, even where its open is not found.
    pub(super) fn enter(
        &self,
        connection: &Rc<Connection>,
        frame: &Slice,
        carried: &mut Carried,
        in_flight: &Rc<InFlight>,
    ) -> Result<Context, Status> {
        let tree_before = carried.tree.take();
        self.verdict?;
        let row = row(self.header.command).ok_or(Status::INVALID_PARAMETER)?;
        let message = &frame[self.range.clone()];
        let related = self.is_related();
        let channel = self.channel.clone().filter(|channel| !channel.session.has_ended());
        let mut context = Context {
            connection: Rc::clone(connection),
            channel,
            proof: self.proof.clone(),
            tree: None,
            right: None,
            open: None,
            session_id: self.session_id,
            replay: self.header.flags.contains(Flags::REPLAY_OPERATION),
            channel_sequence: self.header.channel_sequence(),
            in_flight: Rc::clone(in_flight),
            message: frame.part(self.range.clone()),
        };
        if !row.session.is_needed(&self.header, self.session_id) {
            carried.session = context.channel.is_some();
            carried.tree = tree_before;
            return Ok(context);
        }
        if related && !carried.session {
            return Err(Status::INVALID_PARAMETER);
        }
        carried.session = context.channel.is_some();
        let session = &context.channel.as_ref().ok_or(Status::USER_SESSION_DELETED)?.session;
        self.proof.check_session(session)?;
        if row.tree {
            let id = if related { tree_before.ok_or(Status::INVALID_PARAMETER)? } else { self.header.tree_id() };
            let tree = session.tree(id).ok_or(Status::NETWORK_NAME_DELETED)?;
            self.proof
                .check(session, SealingNeed::required_where(tree.requires_sealing()))
                .inspect_err(|_| self.tell_unsealed(connection, session, &tree))?;
            context.check_host(&tree)?;
            context.right = Some(tree.right());
            context.tree = Some(tree);
            carried.tree = Some(id);
        } else {
            carried.tree = tree_before;
        }
        if let Some(offset) = row.file_id {
            let meant = file_ref(message, offset, related).ok_or(Status::INVALID_PARAMETER)?;
            let open = match meant {
                FileRef::Nothing if self.header.command == Command::IOCTL => return Ok(context),
                FileRef::Nothing | FileRef::Unknown => None,
                FileRef::Related if carried.open.is_none() => {
                    return Err(carried.failed.unwrap_or(Status::FILE_CLOSED));
                }
                FileRef::Related => carried.open.and_then(|id| session.open(id)),
                FileRef::Open(id) => session.open(id),
            };
            let open = open.ok_or(Status::FILE_CLOSED)?;
            if context.tree.as_ref().is_some_and(|tree| tree.id != open.tree.id) {
                return Err(Status::FILE_CLOSED);
            }
            open.used();
            context.open = Some(open);
        }
        Ok(context)
    }

    /// Tells why a client gets nowhere that connected to a share before this was one that is sealed.
    fn tell_unsealed(&self, connection: &Connection, session: &Session, tree: &Tree) {
        if !self.proof.seals(session) && tree.is_first_unsealed() {
            tracing::info!(
                name: "share_refused", peer = %connection.peer, session = session.id.0, user = %session.user.load().name,
                share = &*tree.share, reason = "its requests are not encrypted, which the share wants by now", "a share was refused",
            );
        }
    }
}
