//! The server's side of the admin socket: a thread for each command under way, so that none waits for who says nothing.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use server::admin::Admin;
use tracing::{info, warn};

use super::{PART_MAX, REQUEST_BYTES_MAX, Reply, Request};
use crate::problems::hanging;
use crate::reload::reload;
use crate::views::{BusyFile, Interface, LockedUser, OpenFile, Session, Status};
use crate::{By, Control, DataFolder, Error, NoSnapshotTime, Operations, SettingView, counters};

/// Files that are told of as the busiest.
const BUSY_FILES_MAX: usize = 200;
/// How long a client may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections at a time. Beyond that the one ends that has been silent for longest.
const CONNECTIONS_MAX: usize = 32;
/// The pause after an accept that failed, so that a full file table does not spin the thread.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is looked whether there is room for the socket, where there was none.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// How long shards have to answer who asks for the server's status.
const SHARDS_ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// What is logged, and the way to change that.
pub trait LogFilter: Send + Sync {
    /// The filter now.
    fn now(&self) -> String;

    /// Has another one from now on. An error says what a filter may be.
    fn set(&self, filter: &str) -> Result<(), Error>;
}

/// Says where the time of the last minute went.
pub trait Explain: Send + Sync {
    /// What was found of a share or session, or of the share that suffers most. An error says that there is no such thing.
    fn why(&self, about: Option<&str>) -> Result<Value, Error>;
}

/// What the server's status tells besides sessions and opens, and its log.
pub struct Facts {
    /// When the server started.
    pub started: Instant,
    /// The same by the clock on the wall.
    pub since: Timestamp,
    /// The addresses it listens on.
    pub listen: Vec<SocketAddr>,
    /// Where it tells its metrics, if it does.
    pub metrics: Option<SocketAddr>,
    /// Where its page is, if it has one.
    pub page: Option<SocketAddr>,
    /// The URL of its REST interface, without an account, if it has one.
    pub rest: Option<String>,
    /// The program's version.
    pub version: &'static str,
    /// What is logged.
    pub log_filter: Arc<dyn LogFilter>,
    /// Where the time went.
    pub explain: Arc<dyn Explain>,
    /// Whether the other end of the connection between these addresses, the server's and the client's, seems to be gone.
    pub is_dead: fn(&str, &str) -> bool,
}

/// The open admin socket. Dropping it ends its thread and removes the file.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Desk {
    operations: Operations,
    control: Arc<Mutex<Control>>,
    admin: Arc<dyn Admin>,
    facts: Facts,
    visitors: Mutex<Vec<Arc<Visitor>>>,
}

/// One connection.
struct Visitor {
    stream: UnixStream,
    /// It has said what it wants, and waits for the answer.
    served: AtomicBool,
}

impl AdminSocket {
    /// Opens the socket in `folder`, whose lock the caller holds: a socket that is there already is a dead server's. Where the disk has no room
    /// for it, it is opened when there is some.
    pub fn open(
        folder: &DataFolder,
        control: Arc<Mutex<Control>>,
        admin: Arc<dyn Admin>,
        facts: Facts,
    ) -> Result<Self, Error> {
        let path = folder.socket();
        let listener = match bind(&path) {
            Ok(listener) => Some(listener),
            Err(cause) if is_full(&cause) => {
                warn!(name: "admin_socket_waits", error = %cause, "no room for the admin socket: commands do not reach the server until there is some");
                None
            }
            Err(cause) => return Err(Error::system("open the admin socket", &path, &cause)),
        };
        let ending = Arc::new(AtomicBool::new(false));
        let operations = Operations::new(folder, &control, Arc::clone(&admin));
        let desk = Arc::new(Desk { operations, control, admin, facts, visitors: Mutex::default() });
        let ended = Arc::clone(&ending);
        let place = path.clone();
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            if let Some(listener) = listener.or_else(|| bind_later(&place, &ended)) {
                desk.serve(&listener, &ended);
            }
        });
        let thread = thread.map_err(|e| Error::machine(format!("no thread for the admin socket: {e}"), "try again"))?;
        Ok(AdminSocket { path, ending, thread: Some(thread) })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        // It looks whether there is room for the socket, or waits in accept, where a connection wakes it. Where that fails it has ended, or
        // ends with the process.
        thread.thread().unpark();
        if UnixStream::connect(&self.path).is_ok() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

impl Desk {
    fn serve(self: &Arc<Self>, listener: &UnixListener, ending: &AtomicBool) {
        loop {
            let accepted = listener.accept();
            if ending.load(Ordering::Acquire) {
                return;
            }
            if let Err(cause) = accepted.and_then(|(stream, _)| self.welcome(stream)) {
                warn!(name: "admin_connection_refused", error = %cause, "admin socket: a connection was not taken");
                thread::sleep(PAUSE);
            }
        }
    }

    /// Attends to a connection on a thread of its own.
    fn welcome(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        let visitor = Arc::new(Visitor { stream, served: AtomicBool::new(false) });
        let mut visitors = self.visitors.lock();
        if visitors.len() >= CONNECTIONS_MAX {
            let silent = visitors.iter().position(|visitor| !visitor.served.load(Ordering::Acquire));
            let Some(silent) = silent else { return Err(io::Error::other("too many commands are under way")) };
            let _ = visitors.remove(silent).stream.shutdown(Shutdown::Both);
        }
        visitors.push(Arc::clone(&visitor));
        drop(visitors);
        let (desk, attended) = (Arc::clone(self), Arc::clone(&visitor));
        let spawned = thread::Builder::new().name("admin-command".to_owned()).spawn(move || {
            if let Err(cause) = desk.attend(&attended) {
                warn!(name: "admin_command_unanswered", error = %cause, "admin socket: a command was not answered");
            }
            desk.forget(&attended);
        });
        if spawned.is_err() {
            self.forget(&visitor);
        }
        spawned.map(drop)
    }

    fn forget(&self, visitor: &Arc<Visitor>) {
        self.visitors.lock().retain(|known| !Arc::ptr_eq(known, visitor));
    }

    /// Answers request after request of one connection.
    fn attend(&self, visitor: &Visitor) -> io::Result<()> {
        let stream = &visitor.stream;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(Hurried { stream, until: Instant::now() });
        loop {
            visitor.served.store(false, Ordering::Release);
            reader.get_mut().until = Instant::now() + PATIENCE;
            let mut line = Vec::new();
            reader.by_ref().take(REQUEST_BYTES_MAX).read_until(b'\n', &mut line)?;
            visitor.served.store(true, Ordering::Release);
            if line.is_empty() {
                return Ok(());
            }
            if line.pop() != Some(b'\n') {
                return Err(ErrorKind::InvalidData.into());
            }
            match serde_json::from_slice(&line) {
                Ok(request) => self.answer(stream, &request)?,
                Err(e) => {
                    let what = format!("the request is not understood: {e}");
                    reply(stream, Err::<(), _>(Error::argument(what, "use this version's program")))?;
                }
            }
        }
    }

    fn answer(&self, stream: &UnixStream, request: &Request) -> io::Result<()> {
        let admin = &*self.admin;
        match request {
            Request::Reload => reply(stream, reload(&self.control, admin)),
            Request::Status => reply(stream, Ok(self.status())),
            Request::Sessions => reply_in_parts(stream, admin.sessions().map(|session| self.session(session.into()))),
            Request::OpenFiles => reply_in_parts(stream, admin.opens().map(OpenFile::from)),
            Request::Interfaces => {
                reply(stream, Ok(admin.interfaces().into_iter().map(Interface::from).collect::<Vec<_>>()))
            }
            Request::Settings => reply(stream, Ok(self.settings())),
            Request::LogFilter => reply(stream, Ok(self.facts.log_filter.now())),
            Request::SetLogFilter { filter } => {
                let log_filter = &self.facts.log_filter;
                reply(stream, log_filter.set(filter).map(|()| log_filter.now()))
            }
            Request::Counters => reply_in_parts(stream, counters::parts(admin.counters())),
            Request::BusyFiles { within } => {
                let within = Duration::from_millis((*within).into());
                let files = admin.busy_files(within, BUSY_FILES_MAX).into_iter().map(BusyFile::from);
                reply(stream, Ok(files.collect::<Vec<_>>()))
            }
            Request::Why { about } => reply(stream, self.facts.explain.why(about.as_deref())),
            Request::LockedUsers => reply_in_parts(stream, admin.locked_users().into_iter().map(LockedUser::from)),
            Request::UnlockUser { relative_id } => {
                reply(stream, Ok(self.operations.unlock_user(By::Command, *relative_id)))
            }
            Request::TakeSnapshot { share } => {
                reply(stream, share.parse().and_then(|share| self.operations.take_snapshot_named(&share)))
            }
            Request::DeleteSnapshot { share, time } => reply(stream, self.delete_snapshot(share, time)),
            Request::CloseSession { id } => reply(stream, self.operations.close_session(By::Command, *id)),
            Request::CloseOpen { id } => reply(stream, self.operations.close_open(By::Command, *id)),
        }
    }

    fn delete_snapshot(&self, share: &str, time: &str) -> Result<(), Error> {
        let wrong =
            |cause: NoSnapshotTime| Error::argument(format!("{time:?} is no snapshot's time"), cause.to_string());
        self.operations.delete_snapshot_named(&share.parse()?, time.parse().map_err(wrong)?)
    }

    /// Says of each channel whether its client answers, as the kernel sees that.
    fn session(&self, mut session: Session) -> Session {
        for channel in &mut session.channels {
            channel.dead = (self.facts.is_dead)(&channel.local, &channel.peer);
        }
        session
    }

    fn settings(&self) -> Vec<SettingView> {
        let mut settings = self.control.lock().settings();
        let logged = self.facts.log_filter.now();
        settings.iter_mut().for_each(|setting| setting.follow_log(&logged));
        settings
    }

    fn status(&self) -> Status {
        let silent_shards = self.admin.silent_shards(SHARDS_ANSWER_WITHIN);
        let hanging = hanging(&*self.admin);
        let control = self.control.lock();
        Status {
            version: self.facts.version.to_owned(),
            process: std::process::id(),
            since: format!("{:.0}", self.facts.since),
            up_seconds: self.facts.started.elapsed().as_secs(),
            listen: self.facts.listen.iter().map(SocketAddr::to_string).collect(),
            metrics: self.facts.metrics.as_ref().map(SocketAddr::to_string),
            page: self.facts.page.as_ref().map(SocketAddr::to_string),
            rest: self.facts.rest.clone(),
            sessions: self.admin.session_count(),
            opens: self.admin.open_count(),
            locked_users: self.admin.locked_users().len(),
            connections: self.admin.connections(),
            silent_shards,
            catalog_damage: control.catalog_damage(),
            problems: [control.problems(), &hanging].concat(),
            limits: control.limits_in_use(),
            audit: self.admin.audit().into(),
        }
    }
}

/// A stream of which all must have come by a moment, however many reads that takes.
struct Hurried<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Read for Hurried<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(into)
    }
}

/// Sends an answer of one line.
fn reply<T: Serialize>(stream: &UnixStream, result: Result<T, Error>) -> io::Result<()> {
    send(stream, &Reply::from(result))
}

/// Sends an answer part by part, and holds no more than one of them.
fn reply_in_parts<T: Serialize>(stream: &UnixStream, items: impl Iterator<Item = T>) -> io::Result<()> {
    let mut part = Vec::with_capacity(PART_MAX);
    for item in items {
        if part.len() == PART_MAX {
            send(stream, &Reply::More { result: &part })?;
            part.clear();
        }
        part.push(item);
    }
    send(stream, &Reply::Done { result: &part })
}

fn send<T: Serialize>(mut stream: &UnixStream, line: &Reply<T>) -> io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Opens the socket when there is room for it; `None` where it is wanted no more.
fn bind_later(path: &Path, ending: &AtomicBool) -> Option<UnixListener> {
    loop {
        thread::park_timeout(LOOKED_EVERY);
        if ending.load(Ordering::Acquire) {
            return None;
        }
        if let Ok(listener) = bind(path) {
            info!(name: "admin_socket_opened", "there is room for the admin socket now");
            return Some(listener);
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        Ok(()) | Err(_) => {}
    }
    // Until the mode is set, the data folder's own mode keeps others out.
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}
