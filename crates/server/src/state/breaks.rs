//! Oplock and lease breaks on their way: notices go to the clients (MS-SMB2 3.3.4.6, 3.3.4.7), operations wait for the answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Identity, Resolved, SharePath, Store, Use};
use wire::command::oplock_break::{LeaseBreakFlags, LeaseBreakNotification, OplockBreak, OplockBreakNotification};
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, MessageId, SessionId, TreeId};

use crate::state::break_notice::BreakNotice;
use crate::state::caching::{
    ACKNOWLEDGE_WITHIN, Actor, CacheKind, Granted, LeaseId, NoticeKind, Notices, Operation, Unacknowledged,
};
use crate::state::counters::happened;
use crate::state::durable::Farewell;
use crate::state::files::FileEntry;
use crate::state::mailbox::{Mailbox, Notification};
use crate::state::open::{FileOpen, Open};
use crate::state::open_id::OpenId;
use crate::state::session::Session;
use crate::state::shared::Shared;

/// What a notification takes until it has arrived, with all that belongs to it.
const NOTIFICATION_BYTES: u64 = 512;

/// A range of a file is locked: nobody may read it from memory any more (MS-FSA 2.1.5.8). As much work as so many bytes.
pub(crate) fn range_locked(server: &Arc<Shared>, file: &FileOpen) -> u64 {
    if !file.file.is_cached() {
        return 0;
    }
    let (_, notices) = file.file.contend(&file.stream_name(), file.actor, Operation::Change);
    let cost = notices.cost();
    send(server, &file.file, notices);
    cost
}

/// The data of a file has changed: what others have read of it is no longer true. Told before the change is answered, so that nobody
/// who read the old data keeps it. As much work as so many bytes.
pub(crate) fn data_changed(server: &Arc<Shared>, file: &FileOpen) -> u64 {
    file.has_written.store(true, Ordering::Relaxed);
    range_locked(server, file)
}

/// A directory's entry came, went or changed: who caches the directory's listing is told. `by` is the lease on the directory that the
/// client who changed it named as its own. May wait for the store, where there are leases on directories at all.
pub(crate) fn entry_changed(server: &Arc<Shared>, store: &dyn Store, path: &SharePath, by: Option<LeaseId>) {
    if !server.files.has_directory_leases() {
        return;
    }
    let Some(parent) = path.parent() else { return };
    if let Ok(Resolved::Found { node, .. }) = store.resolve(&parent, Use::Metadata) {
        entry_of_changed(server, node.identity(), by);
    }
}

/// The same of what is open: its size, times or attributes are others in its directory.
pub(crate) fn looks_different(server: &Arc<Shared>, open: &Open) {
    if let (Ok(file), Some(store)) = (open.file(), open.tree.store()) {
        entry_changed(server, &**store, &file.path.now(), file.parent_lease);
    }
}

/// The same where the directory is known.
pub(crate) fn entry_of_changed(server: &Arc<Shared>, directory: Identity, by: Option<LeaseId>) {
    if !server.files.has_directory_leases() {
        return;
    }
    if let Some(file) = server.files.find(directory) {
        let nobody = Actor { open: OpenId(0), lease: by };
        let (_, notices) = file.contend("", nobody, Operation::ChangeOfEntry);
        send(server, &file, notices);
    }
}

/// Says in the log who has not answered in time, and has lost what it cached.
pub(crate) fn tell_unanswered(server: &Shared, silent: &Unacknowledged) {
    let Some(holder) = server.view_break(silent, 0) else { return };
    let what = match holder.kind {
        CacheKind::Oplock => "oplock",
        CacheKind::Lease => "lease",
    };
    tracing::warn!(
        name: "break_unanswered",
        peer = holder.peer, session = holder.session, user = holder.user, share = holder.share, path = holder.path, what,
        seconds = ACKNOWLEDGE_WITHIN.as_secs(),
        "a client did not give up what it cached of a file, though told to: others waited for it, and it caches nothing of it any more"
    );
}

/// Sends notices of one file.
pub(crate) fn send(server: &Arc<Shared>, file: &Arc<FileEntry>, notices: Notices) {
    for notice in notices.told {
        send_one(server, BreakNotice::new(file, notice));
    }
}

/// The connection that had a notice to deliver has ended: sends it on another one, unless it was answered.
pub(crate) fn send_again(server: &Arc<Shared>, notice: BreakNotice) {
    #[cfg(feature = "in-memory")]
    if crate::in_memory::lapses(crate::in_memory::Lapse::BreaksSentOnce) {
        return;
    }
    if !notice.notice.kind.must_acknowledge() || notice.awaits_answer() {
        send_one(server, notice);
    }
}

/// Leaves a notice at the first connection that takes it.
fn send_one(server: &Arc<Shared>, pending: BreakNotice) {
    let notice = &pending.notice;
    let mut sessions = pending.holders().filter_map(|holder| server.sessions.of(&holder.line));
    let taken = sessions.any(|session| deliver(server, &pending, &session));
    if taken {
        happened(&server.counters.events.breaks);
    }
    if !taken && notice.kind.must_acknowledge() {
        undeliverable(server, &pending);
    }
}

/// Sends a notice to the client of `session`: what is said of an oplock belongs to the session, what is said of a lease to the client.
fn deliver(server: &Shared, pending: &BreakNotice, session: &Session) -> bool {
    let kind = &pending.notice.kind;
    let notification = notification(pending, session);
    match kind {
        NoticeKind::Oplock { .. } => session.post(notification),
        NoticeKind::Lease { .. } if session.keeps_to_itself() => session.post(notification),
        NoticeKind::Lease { id, .. } => server.clients.post(id.client, id.user, notification),
    }
}

/// No connection leads to the client (3.3.4.6, 3.3.4.7): what it keeps without handle caching it cannot get back, so that its opens are
/// closed. Of a persistent one the break goes on: the client is told of it when it comes back, and has until the limit for that.
fn undeliverable(server: &Arc<Shared>, pending: &BreakNotice) {
    let (file, mut goes_on, mut mute) = (&pending.file, false, None);
    for holder in pending.holders() {
        match server.close_disconnected(holder.open) {
            Farewell::Closing => {}
            Farewell::Stays => goes_on = true,
            Farewell::CachesNothing => mute = Some(holder.open),
            Farewell::NotHere => {
                // Its client may have come back at this moment.
                if server.sessions.of(&holder.line).is_some_and(|session| deliver(server, pending, &session)) {
                    return;
                }
                match file.is_persistent(holder.open) {
                    true => goes_on = true,
                    false => mute = Some(holder.open),
                }
            }
        }
    }
    if let (false, Some(open)) = (goes_on, mute) {
        file.give_up_caching(open);
    }
}

/// An open that its client has got again, and what it was told that it caches.
pub(crate) struct Returned {
    pub(crate) open: Arc<Open>,
    pub(crate) told: Granted,
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned").field("open", &self.open.id).field("told", &self.told).finish()
    }
}

/// Tells the client of what breaks, behind the answer that gave it the open: "the server MUST send Open.Lease.BreakNotification"
/// (3.3.5.9.7, 3.3.5.9.12). By `mailbox` of the answer's connection where the session has a channel there, so that it comes behind the answer.
pub(crate) fn remind(
    server: &Arc<Shared>,
    returned: &Returned,
    mailbox: &Mailbox,
    has_channel: impl Fn(SessionId) -> bool,
) {
    let open = &returned.open;
    let Ok(file) = open.file() else { return };
    for notice in file.file.remind(open.id, &returned.told).told {
        let pending = BreakNotice::new(&file.file, notice);
        let session = server.sessions.of(&open.line);
        let posted = session
            .is_some_and(|session| has_channel(session.id) && mailbox.post(notification(&pending, &session)).is_ok());
        if !posted {
            send_one(server, pending);
        }
    }
}

/// The notification that tells the client of `session`, who pays for it until it has arrived: it has to be told, whatever that one has left.
fn notification(pending: &BreakNotice, session: &Session) -> Notification {
    let charge = session.budgets.bytes.overdraw(NOTIFICATION_BYTES);
    let message = message(&pending.notice.kind, session);
    Notification { session: session.id, message, pending: Some(pending.clone()), _charge: Some(charge) }
}

fn message(kind: &NoticeKind, session: &Session) -> Vec<u8> {
    let (session_id, body) = match *kind {
        NoticeKind::Oplock { open, left, .. } => {
            let broken = OplockBreak { oplock_level: left, file_id: open.file_id() };
            (session.id, OplockBreakNotification::Oplock(broken))
        }
        NoticeKind::Lease { id, epoch, held, left, must_acknowledge } => {
            let broken = LeaseBreakNotification {
                new_epoch: epoch,
                flags: if must_acknowledge { LeaseBreakFlags::ACK_REQUIRED } else { LeaseBreakFlags::NONE },
                lease_key: id.key,
                current_lease_state: held,
                new_lease_state: left,
            };
            (SessionId(0), OplockBreakNotification::Lease(broken))
        }
    };
    let header = Header {
        command: Command::OPLOCK_BREAK,
        flags: Flags::SERVER_TO_REDIR,
        message_id: MessageId::UNSOLICITED,
        route: Route::Sync { tree_id: TreeId(0) },
        session_id,
        ..Header::default()
    };
    let mut message = header.to_bytes().to_vec();
    body.encode(&mut message);
    message
}

#[cfg(test)]
mod tests;
