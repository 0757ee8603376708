//! Oplock and lease breaks on their way: notices go to the clients (MS-SMB2 3.3.4.6, 3.3.4.7), operations wait for the answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use store::{Identity, Resolved, SharePath, Store, Use};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use wire::command::oplock_break::{LeaseBreakFlags, LeaseBreakNotification, OplockBreak, OplockBreakNotification};
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, MessageId, SessionId, TreeId};

use crate::state::caching::{Actor, Granted, Holder, LeaseId, Notice, NoticeKind, Notices, Operation};
use crate::state::durable::Farewell;
use crate::state::files::{FileEntry, Look};
use crate::state::mailbox::{Mailbox, Notification};
use crate::state::open::{FileOpen, Open, OpenId};
use crate::state::pending_open::PendingOpen;
use crate::state::session::Session;
use crate::state::shared::Shared;

/// What a notification takes until it has arrived, with all that belongs to it.
const NOTIFICATION_BYTES: u64 = 512;

/// An operation's wait for others to give up what they cache.
pub(crate) struct Wait {
    file: Arc<FileEntry>,
    changed: oneshot::Receiver<Look>,
    until: Instant,
    /// The place among those who want in.
    pub(crate) pending_open: Option<PendingOpen>,
    /// What has to be recorded of these first.
    pub(crate) records: Vec<Arc<Open>>,
}

impl Wait {
    /// Waits for `changed`, until `until` at most.
    pub(crate) fn new(file: Arc<FileEntry>, changed: oneshot::Receiver<Look>, until: Instant) -> Self {
        Wait { file, changed, until, pending_open: None, records: Vec::new() }
    }

    /// The same of an open, which has a place among those who want in.
    pub(crate) fn pending_open(self, pending_open: PendingOpen) -> Self {
        Wait { pending_open: Some(pending_open), ..self }
    }

    /// Waits until what these opens cache is recorded, and for nothing else.
    pub(crate) fn for_records(self, records: Vec<Arc<Open>>) -> Self {
        // A disk may be slow: those who wait for a change are not to wait for this one's look.
        let (_, nothing) = oneshot::channel();
        Wait { records, changed: nothing, ..self }
    }

    /// Ends when something has changed. At the limit ([`ACKNOWLEDGE_WITHIN`](crate::state::caching::ACKNOWLEDGE_WITHIN)) the file takes from those who
    /// have not answered what they cache ([`FileEntry::wait_is_over`]), which is such a change.
    pub(crate) async fn end(&mut self) {
        let told = match tokio::time::timeout_at(self.until.into(), &mut self.changed).await {
            Ok(told) => told,
            Err(_) => {
                self.file.wait_is_over();
                (&mut self.changed).await
            }
        };
        // The runtime asks the kernel what has come in for others, before this one looks and the next one is told.
        yield_now().await;
        drop(told);
    }

    /// True where it is told to look again.
    #[cfg(test)]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.changed.try_recv().is_ok()
    }
}

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

/// Sends notices of one file.
pub(crate) fn send(server: &Arc<Shared>, file: &Arc<FileEntry>, notices: Notices) {
    for notice in notices.told {
        send_one(server, Pending { file: Arc::clone(file), notice: Arc::new(notice) });
    }
}

/// A notice on its way: whoever loses it sends it again.
#[derive(Clone)]
pub(crate) struct Pending {
    file: Arc<FileEntry>,
    notice: Arc<Notice>,
}

impl Pending {
    /// True for what is said of a lease.
    pub(crate) fn is_of_client(&self) -> bool {
        match self.notice.kind {
            NoticeKind::Oplock { .. } => false,
            NoticeKind::Lease { .. } => true,
        }
    }

    /// Whose caching breaks.
    fn holders(&self) -> impl Iterator<Item = Holder> {
        let of_lease = match self.notice.kind {
            NoticeKind::Oplock { .. } => None,
            NoticeKind::Lease { id, .. } => Some(self.file.holders_of(id)),
        };
        self.notice.holder.clone().into_iter().chain(of_lease.into_iter().flatten())
    }

    /// True where the client has to answer and has not.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.notice.kind.must_acknowledge() && self.file.awaits_answer(&self.notice.kind)
    }

    /// The connection that had it to deliver has ended: sends it on another one, unless it was answered.
    pub(crate) fn send_again(self, server: &Arc<Shared>) {
        #[cfg(feature = "in-memory")]
        if crate::in_memory::lapses(crate::in_memory::Lapse::BreaksSentOnce) {
            return;
        }
        if !self.notice.kind.must_acknowledge() || self.awaits_answer() {
            send_one(server, self);
        }
    }
}

/// Leaves a notice at the first connection that takes it.
fn send_one(server: &Arc<Shared>, pending: Pending) {
    let notice = &pending.notice;
    let mut sessions = pending.holders().filter_map(|holder| holder.line.session());
    let taken = sessions.any(|session| deliver(server, &pending, &session));
    if !taken && notice.kind.must_acknowledge() {
        undeliverable(server, &pending);
    }
}

/// Sends a notice to the client of `session`: what is said of an oplock belongs to the session, what is said of a lease to the client.
fn deliver(server: &Shared, pending: &Pending, session: &Session) -> bool {
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
fn undeliverable(server: &Arc<Shared>, pending: &Pending) {
    let (file, mut goes_on, mut mute) = (&pending.file, false, None);
    for holder in pending.holders() {
        match server.close_disconnected(holder.open) {
            Farewell::Closing => {}
            Farewell::Stays => goes_on = true,
            Farewell::CachesNothing => mute = Some(holder.open),
            Farewell::NotHere => {
                // Its client may have come back at this moment.
                if holder.line.session().is_some_and(|session| deliver(server, pending, &session)) {
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
        let pending = Pending { file: Arc::clone(&file.file), notice: Arc::new(notice) };
        let posted = open
            .line
            .session()
            .is_some_and(|session| has_channel(session.id) && mailbox.post(notification(&pending, &session)).is_ok());
        if !posted {
            send_one(server, pending);
        }
    }
}

/// The notification that tells the client of `session`, who pays for it until it has arrived: it has to be told, whatever that one has left.
fn notification(pending: &Pending, session: &Session) -> Notification {
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
