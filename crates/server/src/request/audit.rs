//! Tells the audit log of requests of the slow path when their answers are decided ([`crate::state::audit`]). What is read and written is not told here but
//! when its open ends; of READ and WRITE only refusals are.
//!
//! Only a request that its session has proved is told, so that nobody is said to have done what somebody else sent.

mod names;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wire::command::create::{CreateAction, CreateDisposition, CreateOptions, CreateRequest};
use wire::command::ioctl::{CtlCode, IoctlRequest};
use wire::command::read::ReadRequest;
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest};
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::command::tree_connect::TreeConnectRequest;
use wire::command::write::WriteRequest;
use wire::context::create::name;
use wire::fscc::FileClass;
use wire::fscc::ioctl::Reparse;
use wire::fscc::rename::{Rename, RenameFlags};
use wire::header::Header;
use wire::ids::{Command, SessionId};
use wire::security::access;
use wire::status::Status;

use self::names::{action_name, disposition_name, in_text, parts_of_descriptor, text_of};
use crate::command::connection::Connection;
use crate::command::context::{Context, Outcome};
use crate::command::link_target;
use crate::request::admission::Request;
use crate::state::audit::{
    AuditActor, AuditClass, AuditClasses, AuditEvent, AuditIds, AuditOrigin, AuditOrigins, AuditPlace, AuditProof,
    shortened,
};
use crate::state::auditing::of_open;
use crate::state::configuration::Configuration;
use crate::state::counters::{Api, ResponseType};
use crate::state::in_flight::InFlight;
use crate::state::open::Open;
use crate::state::session::Session;
use crate::state::tree::Tree;

/// A request that may have to be told, until its answer is decided. One that changes something and is never answered, as its connection was lost, is told, too:
/// what it changes may be changed.
pub(super) struct Audited<'a> {
    connection: &'a Connection,
    request: &'a Request,
    tree: Option<Arc<Tree>>,
    open: Option<Arc<Open>>,
    /// Of one that changes or opens something: what it asks for, which is told whatever comes of it.
    prepared: Option<Box<Prepared>>,
}

struct Prepared {
    /// The classes that the request is of, as far as can be said before it is carried out.
    classes: AuditClasses,
    event: AuditEvent,
}

/// What is seen of a request that has been carried out.
pub(super) struct Seen<'a> {
    pub(super) message: &'a [u8],
    pub(super) outcome: &'a Outcome,
    pub(super) in_flight: &'a InFlight,
    /// The tree connect that it has made or had.
    pub(super) tree: Option<&'a Tree>,
}

impl Seen<'_> {
    fn status(&self) -> Status {
        self.outcome.as_ref().map_or_else(|refusal| refusal.status, |reply| reply.status)
    }
}

impl<'a> Audited<'a> {
    /// `None` for a request that has nothing to do with what is audited, as nearly all are.
    pub(super) fn of(
        connection: &'a Connection,
        request: &'a Request,
        context: &Context,
        message: &[u8],
    ) -> Option<Self> {
        let command = request.header.command;
        let audited = |open, prepared| Audited { connection, request, tree: context.tree.clone(), open, prepared };
        if matches!(command, Command::SESSION_SETUP | Command::TREE_CONNECT) {
            let is_on = connection.server.configuration.load().audits_sign_in(None);
            return is_on.then(|| audited(None, None));
        }
        let tree = context.tree.as_ref().filter(|tree| !tree.audit().is_empty())?;
        let session = &context.channel.as_ref()?.session;
        let prepared = match command {
            Command::CREATE => Some(create(message, &connection.server.origins)?),
            Command::SET_INFO => set_info(message),
            Command::IOCTL => ioctl(message),
            Command::TREE_DISCONNECT => Some(AuditClasses::of(AuditClass::SignIn).into()),
            Command::READ | Command::WRITE | Command::QUERY_DIRECTORY | Command::QUERY_INFO => None,
            _ => return None,
        };
        let open = context.open.clone();
        // What a CREATE is of is known when it is done.
        let is_told = |asked: &Asked| command == Command::CREATE || !asked.classes.and(tree.audit()).is_empty();
        let prepared = prepared.filter(is_told).map(|asked| {
            let class = asked.classes.and(tree.audit()).strongest().unwrap_or(AuditClass::Read);
            let mut event = request.event(connection, class, session);
            event.place.share = Some(Arc::clone(&tree.place));
            event.minor = asked.minor;
            event.detail = asked.detail;
            event.place.path = asked.path;
            event.place.new_path = asked.new_path;
            event.actor = event.actor.on_behalf_of(asked.origin);
            if let Some(open) = &open {
                on_open(&mut event, open);
            }
            Box::new(Prepared { classes: asked.classes, event })
        });
        Some(audited(open, prepared))
    }

    /// The event that is told of it, but for how long it took; `None` where nothing is.
    pub(super) fn event(mut self, seen: &Seen<'_>) -> Option<AuditEvent> {
        let prepared = self.prepared.take();
        let mut event = match self.request.header.command {
            Command::SESSION_SETUP => self.signed_in(seen)?,
            Command::TREE_CONNECT => self.connected(seen)?,
            _ => match prepared {
                Some(prepared) => self.finished(*prepared, seen)?,
                None => self.refused(seen)?,
            },
        };
        event.time = SystemTime::now();
        event.ends_with(seen.status());
        Some(event)
    }

    fn session(&self) -> Option<&Arc<Session>> {
        Some(&self.request.channel.as_ref()?.session)
    }

    /// One that opens or changes something.
    fn finished(&self, prepared: Prepared, seen: &Seen<'_>) -> Option<AuditEvent> {
        let Prepared { mut classes, mut event } = prepared;
        let status = seen.status();
        if !status.is_error() {
            match self.request.header.command {
                Command::CREATE => classes = self.opened(&mut event, seen)?,
                Command::SET_INFO if event.place.new_path.is_some() => {
                    if event.minor.contains("Rename") {
                        // As it is kept, and not as it was asked for.
                        event.place.new_path = Some(self.open.as_ref()?.file().ok()?.name());
                    }
                    classes = AuditClasses::of(AuditClass::Write);
                    event.detail.clear();
                    if let Some(replaced) = seen.in_flight.replaced() {
                        classes = classes.with(AuditClass::Delete);
                        event.ids.replaced = Some(of_open::number(replaced));
                        event.detail = "replaced what had the name".into();
                    }
                }
                _ => {}
            }
        }
        let class = classes.and(self.tree.as_ref()?.audit()).strongest()?;
        (event.class, event.category) = (class, class.into());
        Some(event)
    }

    /// Completes what is told of a CREATE that was done; gives what it was.
    fn opened(&self, event: &mut AuditEvent, seen: &Seen<'_>) -> Option<AuditClasses> {
        let reply = seen.outcome.as_ref().ok()?;
        let asked = CreateRequest::decode(seen.message).ok()?;
        let action = reply.body.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let action = CreateAction(action.unwrap_or(CreateAction::OPENED.0));
        let open = reply.open.and_then(|id| self.session()?.open(id));
        let granted = open.as_ref().map_or(asked.desired_access.0, |open| open.granted.bits());
        if let Some(open) = &open {
            on_open(event, open);
            event.detail = format!("granted access {granted:#x}, {}", event.detail);
        }
        let is_directory = open.as_ref().and_then(|open| Some(open.file().ok()?.kind == store::Kind::Directory));
        event.minor = action_name(action, is_directory.unwrap_or(false)).into();
        let mut classes = AuditClasses::of_granted(granted);
        if action != CreateAction::OPENED {
            classes = classes.with(AuditClass::Write);
        }
        if asked.options.contains(CreateOptions::DELETE_ON_CLOSE) {
            classes = classes.with(AuditClass::Delete);
        }
        if action == CreateAction::CREATED && asked.contexts.find(name::SD_BUFFER).is_some() {
            classes = classes.with(AuditClass::Security);
        }
        Some(classes)
    }

    /// One that is told only where it is refused.
    fn refused(&self, seen: &Seen<'_>) -> Option<AuditEvent> {
        let status = seen.status();
        let (tree, open) = (self.tree.as_ref()?, self.open.as_ref()?);
        let (class, minor, detail) = match self.request.header.command {
            Command::READ if status.is_error() && status != Status::END_OF_FILE => {
                let asked = ReadRequest::decode(seen.message).ok();
                let range = asked.map(|asked| range(u64::from(asked.length), asked.offset));
                (AuditClass::Read, "", range.unwrap_or_default())
            }
            Command::WRITE if status.is_error() => {
                let asked = WriteRequest::decode(seen.message).ok();
                let range = asked.map(|asked| range(asked.data.len() as u64, asked.offset));
                (AuditClass::Write, "", range.unwrap_or_default())
            }
            Command::IOCTL if status.is_error() => {
                (AuditClass::Write, copy_name(IoctlRequest::decode(seen.message).ok()?.ctl_code)?, String::new())
            }
            Command::QUERY_DIRECTORY | Command::QUERY_INFO if is_denied(status) => {
                (AuditClass::Read, "", String::new())
            }
            _ => return None,
        };
        if !tree.audits(class) || open.file().is_err() {
            return None;
        }
        let mut event = self.request.event(self.connection, class, self.session()?);
        event.place.share = Some(Arc::clone(&tree.place));
        (event.minor, event.detail) = (minor.into(), detail);
        on_open(&mut event, open);
        Some(event)
    }

    fn connected(&self, seen: &Seen<'_>) -> Option<AuditEvent> {
        let asked = TreeConnectRequest::decode(seen.message).ok();
        let path = asked.map(|asked| in_text(asked.path)).unwrap_or_default();
        let configuration = self.connection.server.configuration.load();
        let mut event = self.request.event(self.connection, AuditClass::SignIn, self.session()?);
        if let Some(tree) = seen.tree.filter(|_| !seen.status().is_error()) {
            event.ids.tree = Some(tree.id.0);
            event.place.share = Some(Arc::clone(&tree.place));
            return tree.audits(AuditClass::SignIn).then_some(event);
        }
        let name = path.rsplit('\\').next().unwrap_or_default();
        let share = share_of(&configuration, name);
        event.place.share = Some(share.map_or_else(|| Arc::from(shortened(name)), |share| share.name.as_str().into()));
        // Who asks for what is not there may be looking for what is.
        share.is_none_or(|share| share.audit.contains(AuditClass::SignIn)).then_some(event)
    }

    fn signed_in(&self, seen: &Seen<'_>) -> Option<AuditEvent> {
        let (request, status) = (self.request, seen.status());
        if status == Status::MORE_PROCESSING_REQUIRED {
            return None;
        }
        let configuration = self.connection.server.configuration.load();
        let session = seen.outcome.as_ref().ok().and_then(|reply| reply.session);
        let channel = session.filter(|_| !status.is_error()).and_then(|id| self.connection.channel(id));
        let mut event = AuditEvent::new(AuditClass::SignIn, Api::SessionSetup.name());
        event.command = Some(request.header.command.0);
        event.ids = AuditIds { session: Some(session.unwrap_or(request.session_id).0), ..request.ids() };
        event.place.server.clone_from(&configuration.settings.server_name);
        let binds = SessionSetupRequest::decode(seen.message)
            .is_ok_and(|asked| asked.flags.contains(SessionSetupFlags::BINDING) && request.session_id != SessionId(0));
        event.minor = match (binds, &request.channel) {
            (true, _) => "ChannelBind",
            (false, Some(_)) => "SessionRenew",
            (false, None) => "SessionBegin",
        }
        .into();
        let caller = Some(Arc::clone(&self.connection.caller));
        let is_told = match &channel {
            Some(channel) => {
                let user = channel.session.user.load();
                event.actor = AuditActor::of(&user, caller);
                configuration.audits_sign_in(Some(&user.account))
            }
            None => {
                event.actor.caller = caller;
                event.actor.user = seen.in_flight.claimed_user().map(|user| shortened(&user));
                event.actor.proof = AuditProof::Claimed;
                true
            }
        };
        event.actor.dialect = self.connection.negotiation.borrow().dialect().map(|dialect| dialect.0);
        is_told.then_some(event)
    }
}

impl Drop for Audited<'_> {
    fn drop(&mut self) {
        let Some(mut prepared) = self.prepared.take() else { return };
        if self.tree.as_ref().is_none_or(|tree| prepared.classes.and(tree.audit()).is_empty()) {
            return;
        }
        prepared.event.time = SystemTime::now();
        prepared.event.ends_with(Status::CONNECTION_DISCONNECTED);
        self.connection.server.audit.record(prepared.event);
    }
}

/// Tells of a request that took so long.
pub(super) fn tell(connection: &Connection, event: Option<AuditEvent>, time: Duration) {
    if let Some(event) = event {
        connection.server.audit.record(AuditEvent { duration: Some(time), ..event });
    }
}

/// A WRITE of a session.
pub(super) struct RefusedWrite<'a> {
    pub(super) header: &'a Header,
    pub(super) session: &'a Session,
    pub(super) open: &'a Open,
    pub(super) offset: u64,
    pub(super) count: usize,
}

/// Tells of a WRITE among others that were made together, and that was refused or failed. What failed may have been made in part.
pub(super) fn refused_write(connection: &Connection, write: &RefusedWrite<'_>, status: Status, time: Duration) {
    let open = write.open;
    if !open.tree.audits(AuditClass::Write) || open.file().is_err() {
        return;
    }
    let session = write.session;
    let mut event = event_of(write.header, session.id, (connection, AuditClass::Write), session);
    event.place.share = Some(Arc::clone(&open.tree.place));
    event.detail = range(write.count as u64, write.offset);
    on_open(&mut event, open);
    event.time = SystemTime::now();
    event.ends_with(status);
    tell(connection, Some(event), time);
}

impl Request {
    /// An event of its session.
    fn event(&self, connection: &Connection, class: AuditClass, session: &Session) -> AuditEvent {
        event_of(&self.header, self.session_id, (connection, class), session)
    }

    fn ids(&self) -> AuditIds {
        ids_of(&self.header, self.session_id)
    }
}

fn event_of(
    header: &Header,
    session_id: SessionId,
    (connection, class): (&Connection, AuditClass),
    session: &Session,
) -> AuditEvent {
    let mut event = AuditEvent::new(class, Api::of(header.command).name());
    event.command = Some(header.command.0);
    event.actor = AuditActor::of(&session.user.load(), Some(Arc::clone(&connection.caller)));
    event.actor.dialect = Some(session.dialect.0);
    event.ids = ids_of(header, session_id);
    let server = connection.server.configuration.load().settings.server_name.clone();
    event.place = AuditPlace { server, ..AuditPlace::default() };
    event
}

fn ids_of(header: &Header, session_id: SessionId) -> AuditIds {
    let has_tree = !matches!(header.command, Command::SESSION_SETUP | Command::TREE_CONNECT);
    AuditIds {
        session: Some(session_id.0),
        tree: has_tree.then(|| header.tree_id().0),
        message: Some(header.message_id.0),
        credits: Some(header.credit_charge.max(1)),
        ..AuditIds::default()
    }
}

/// What a request asks for.
struct Asked {
    classes: AuditClasses,
    minor: std::borrow::Cow<'static, str>,
    detail: String,
    path: Option<String>,
    new_path: Option<String>,
    /// Who asks by another protocol.
    origin: Option<Arc<AuditOrigin>>,
}

impl From<AuditClasses> for Asked {
    fn from(classes: AuditClasses) -> Self {
        Asked { classes, minor: "".into(), detail: String::new(), path: None, new_path: None, origin: None }
    }
}

fn create(message: &[u8], origins: &AuditOrigins) -> Option<Asked> {
    let asked = CreateRequest::decode(message).ok()?;
    let mut classes = AuditClasses::of_desired(asked.desired_access.0);
    let takes_up = [name::DURABLE_HANDLE_RECONNECT, name::DURABLE_HANDLE_RECONNECT_V2]
        .iter()
        .any(|of| asked.contexts.find(of).is_some());
    if takes_up || asked.desired_access.0 & access::MAXIMUM_ALLOWED != 0 {
        // Whatever is granted, or was.
        classes = classes.with(AuditClass::Read).with(AuditClass::Write);
    }
    if asked.disposition != CreateDisposition::OPEN {
        classes = classes.with(AuditClass::Write);
        if asked.contexts.find(name::SD_BUFFER).is_some() {
            classes = classes.with(AuditClass::Security);
        }
    }
    let goes = asked.options.contains(CreateOptions::DELETE_ON_CLOSE);
    if goes {
        classes = classes.with(AuditClass::Delete);
    }
    let mut detail = format!("desired access {:#x}", asked.desired_access.0);
    if goes {
        detail.push_str(", delete on close");
    }
    Some(Asked {
        minor: disposition_name(asked.disposition).into(),
        detail,
        path: Some(shortened(&in_text(asked.name))),
        origin: origins.of(&asked.contexts).map(|speaker| speaker.load_full()),
        ..classes.into()
    })
}

fn set_info(message: &[u8]) -> Option<Asked> {
    let asked = SetInfoRequest::decode(message).ok()?;
    let of = |class| Asked::from(AuditClasses::of(class));
    if asked.info_type == InfoType::SECURITY {
        let detail = parts_of_descriptor(asked.security_information());
        return Some(Asked { minor: "SecurityInformation".into(), detail, ..of(AuditClass::Security) });
    }
    if asked.info_type != InfoType::FILE {
        return None;
    }
    let class = asked.class.file();
    let (minor, changes) = names::set_information(class)?;
    let mut told = Asked { minor: minor.into(), ..of(changes) };
    match class {
        FileClass::RENAME | FileClass::RENAME_EX | FileClass::LINK => {
            let is_extended = class == FileClass::RENAME_EX;
            let rename = if is_extended { Rename::decode_ex(asked.buffer) } else { Rename::decode(asked.buffer) };
            let rename = rename.ok()?;
            told.new_path = Some(shortened(&in_text(rename.name)));
            if rename.flags.contains(RenameFlags::REPLACE_IF_EXISTS) {
                told.classes = told.classes.with(AuditClass::Delete);
                told.detail = "to replace what has the name".into();
            }
        }
        FileClass::DISPOSITION | FileClass::DISPOSITION_EX => {
            let flags = asked.buffer.first().copied().unwrap_or(0);
            told.detail = if flags & 1 != 0 { "to be deleted" } else { "not to be deleted" }.into();
        }
        FileClass::END_OF_FILE | FileClass::ALLOCATION => {
            let length = asked.buffer.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            told.detail = length.map(|length| format!("{length:#x} bytes")).unwrap_or_default();
        }
        _ => {}
    }
    Some(told)
}

fn ioctl(message: &[u8]) -> Option<Asked> {
    let request = IoctlRequest::decode(message).ok()?;
    let code = request.ctl_code;
    if matches!(code, CtlCode::SET_REPARSE_POINT | CtlCode::DELETE_REPARSE_POINT) {
        // What had the name goes, and what takes its place has another descriptor.
        let classes = AuditClasses::of(AuditClass::Write).with(AuditClass::Delete).with(AuditClass::Security);
        return Some(Asked { minor: text_of(code).into(), detail: leads_to(&request), ..classes.into() });
    }
    let changes = matches!(
        code,
        CtlCode::SET_ZERO_DATA | CtlCode::SET_SPARSE | CtlCode::FILE_LEVEL_TRIM | CtlCode::SET_COMPRESSION
    );
    changes.then(|| Asked { minor: text_of(code).into(), ..AuditClasses::of(AuditClass::Write).into() })
}

/// Where a link is to lead.
fn leads_to(request: &IoctlRequest<'_>) -> String {
    let target = Reparse::decode(request.input).ok().and_then(|point| link_target::asked(&point).ok());
    target.map(|target| format!("to lead to {}", shortened(&target))).unwrap_or_default()
}

/// The name of a control code that copies: what it copies is counted as if it were read and written.
fn copy_name(code: CtlCode) -> Option<&'static str> {
    Some(match code {
        CtlCode::SRV_COPYCHUNK => "FSCTL_SRV_COPYCHUNK",
        CtlCode::SRV_COPYCHUNK_WRITE => "FSCTL_SRV_COPYCHUNK_WRITE",
        CtlCode::DUPLICATE_EXTENTS_TO_FILE => "FSCTL_DUPLICATE_EXTENTS_TO_FILE",
        CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX => "FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX",
        _ => return None,
    })
}

/// Says which open an event is about.
fn on_open(event: &mut AuditEvent, open: &Open) {
    let Ok(file) = open.file() else { return };
    let ids = of_open::ids(open, file);
    event.ids = AuditIds { open: ids.open, file: ids.file, tree: ids.tree, ..event.ids };
    event.place.path = Some(file.name());
    event.actor = std::mem::take(&mut event.actor).on_behalf_of(open.origin());
}

/// As Azure writes it.
fn range(length: u64, offset: u64) -> String {
    format!("{length:#x} bytes at offset {offset:#x}")
}

/// True where its user may not do that.
fn is_denied(status: Status) -> bool {
    ResponseType::of(status, None) == ResponseType::AuthorizationError
}

fn share_of<'a>(configuration: &'a Configuration, name: &str) -> Option<&'a crate::state::configuration::Share> {
    let folded = store::fold(name);
    configuration.shares.iter().find(|share| store::fold(&share.name) == folded)
}
