//! Audit events of opens: one that ends, what goes with it, and who said that it is to go.

use std::sync::Arc;
use std::time::SystemTime;

use store::{Error, Identity, Kind};
use wire::status::Status;

use crate::state::audit::{
    AuditActor, AuditArming, AuditClass, AuditClasses, AuditEnd, AuditEvent, AuditIds, AuditOrigin, AuditPlace,
    AuditProof,
};
use crate::state::counters::Api;
use crate::state::files::{FileEntry, Removal};
use crate::state::open::{FileOpen, Open};
use crate::state::refusal::status_of;
use crate::state::removal::{Fate, LastOpen};
use crate::state::shared::Shared;
use crate::state::tree::Tree;
use crate::state::user::User;

impl AuditActor {
    /// The user of a session.
    pub(crate) fn of(user: &User, caller: Option<Arc<str>>) -> Self {
        AuditActor {
            caller,
            user: Some(user.name.clone()),
            account: Some(user.account.clone()),
            sid: Some(user.sid().to_string()),
            proof: if user.is_anonymous { AuditProof::Anonymous } else { AuditProof::Ntlm },
            dialect: None,
            origin: None,
        }
    }

    /// The same user, on behalf of who asks by another protocol.
    pub(crate) fn on_behalf_of(self, origin: Option<Arc<AuditOrigin>>) -> Self {
        let Some(origin) = origin else { return self };
        AuditActor {
            caller: Some(Arc::clone(&origin.caller)),
            user: Some(origin.requester.clone()),
            proof: origin.proof,
            origin: Some(origin),
            ..self
        }
    }
}

impl AuditPlace {
    /// A share's place.
    pub(crate) fn of(server: &Shared, tree: &Tree) -> Self {
        let server = server.configuration.load().settings.server_name.clone();
        AuditPlace { server, share: Some(Arc::clone(&tree.place)), path: None, new_path: None }
    }
}

impl AuditEvent {
    /// Says what came of it.
    pub(crate) fn ends_with(&mut self, status: Status) {
        self.status = status.0;
        self.status_name = status.to_string();
    }
}

/// Tells of an open that leaves its file, with what was read and written through it.
pub(crate) fn closed(server: &Shared, open: &Open, file: &FileOpen) {
    let (moved, asked) = (file.audited.moved(), open.tree.audit());
    let told = asked.and(AuditClasses::of_granted(open.granted.bits())).strongest();
    let did = match (moved.reads, moved.writes) {
        (0, 0) => None,
        (_, 0) => Some(AuditClass::Read),
        (_, _) => Some(AuditClass::Write),
    };
    let Some(class) = did.or(told) else { return };
    let mut event = AuditEvent::new(class, Api::Close.name());
    event.minor = if file.kind == Kind::Directory { "DirectoryClose" } else { "FileClose" }.into();
    event.moved = Some(moved);
    event.end = Some(open.end.get());
    event.actor = open.ended_by();
    event.place = AuditPlace { path: Some(file.name()), ..AuditPlace::of(server, &open.tree) };
    event.ids = ids(open, file);
    event.ends_with(Status::SUCCESS);
    server.audit.record(event);
}

/// Somebody says from `caller` by an open that its stream, or the name that it was made by, goes when it is closed.
pub(crate) fn armed(open: &Open, file: &FileOpen, caller: Option<&Arc<str>>) {
    if open.tree.audits(AuditClass::Delete) {
        let (time, origin) = (SystemTime::now(), open.origin());
        let (user, caller) = match &origin {
            Some(origin) => (origin.requester.clone(), Some(Arc::clone(&origin.caller))),
            None => (open.user.name.clone(), caller.cloned()),
        };
        let who = AuditArming { time, user, caller, open: open.id.0, origin };
        file.file.arm(open.id, &file.stream_name(), who);
    }
}

/// Tells of a file, a name of one, or a stream that goes with an open, or is to go and stays.
pub(crate) fn removed(
    server: &Shared,
    last: &LastOpen,
    file: &FileEntry,
    (removal, name): (&Removal, &str),
    fate: Result<Fate, Error>,
) {
    if !last.tree.audits(AuditClass::Delete) {
        return;
    }
    let kind = match removal {
        Removal::Nothing => return,
        Removal::File(_) => last.base.kind(),
        Removal::Stream(_) => Kind::Stream,
    };
    let mut event = AuditEvent::new(AuditClass::Delete, Api::Close.name());
    event.minor = match kind {
        Kind::File => "FileCloseAndDelete",
        Kind::Directory => "DirectoryCloseAndDelete",
        Kind::Stream => "StreamCloseAndDelete",
    }
    .into();
    event.armed_by = file.armed_by(removal);
    event.place = AuditPlace { path: Some(name.to_owned()), ..AuditPlace::of(server, &last.tree) };
    match &last.open {
        Some(open) => {
            event.actor = open.ended_by();
            event.end = Some(open.end.get());
            event.ids = AuditIds { open: Some(open.id.0), ..AuditIds::default() };
            event.ids.tree = Some(open.tree.id.0);
            event.ids.session = open.line.session().map(|id| id.0);
        }
        None => event.end = Some(AuditEnd::Server),
    }
    event.ids.file = Some(number(last.base.identity()));
    match fate {
        Ok(Fate::Removed) => event.ends_with(Status::SUCCESS),
        Ok(Fate::Stays(error)) => {
            event.ends_with(status_of(error));
            event.detail = "nothing was removed".to_owned();
        }
        Err(error) => event.ends_with(status_of(error)),
    }
    server.audit.record(event);
}

/// The numbers of an open.
pub(crate) fn ids(open: &Open, file: &FileOpen) -> AuditIds {
    AuditIds {
        session: open.line.session().map(|id| id.0),
        tree: Some(open.tree.id.0),
        open: Some(open.id.0),
        file: Some(number(file.node.identity())),
        ..AuditIds::default()
    }
}

/// What `smbFileId` has.
pub(crate) fn number(identity: Identity) -> u64 {
    identity.file
}
