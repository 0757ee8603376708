//! Who connects by HTTP: taken, bounded, and answered.

mod answers;
mod body;
mod caller;
mod counted;
mod ending;
#[cfg(test)]
mod fairness_tests;
mod heads;
mod host;
mod in_line;
mod places;
#[cfg(test)]
mod proof_tests;
mod stays;
mod watched;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control::{CorsRule, Keys, KnownCatalog, Operations, Role, StoredPolicy};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::HOST;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use insight::monitor::Tally;
use jiff::Timestamp;
use netif::Pacing;
use server::Connector;
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::answer::{Answer, Broken, Piece, Piecewise, check_version, failed, finish, without_body};
use crate::auth::{Known, Permissions, Policy, Principal};
use crate::cors;
use crate::failure::{Code, Failure};
use crate::head::answered;
use crate::inside::Inside;
use crate::management::{self, Management};
use crate::operations::{Asked, Files, Making, Operation, Proof, Running, Service, Unfinished, sweep};
use crate::parts::{Outlet, Parts};
use crate::query::Query;
use crate::sessions::Sessions;
use crate::target::{Dots, Target};
use crate::tls::Certificate;
use crate::tokens::{self, Audience};
use crate::turns::Taker;

use self::body::Bodies;
pub(crate) use self::body::Held;
pub(crate) use self::caller::Caller;
use self::counted::Counted;
pub(crate) use self::ending::Awaited;
use self::ending::Ending;
use self::heads::Heads;
pub(crate) use self::in_line::InLine;
use self::places::Places;
use self::stays::{Doing, Stay, Turn};
use self::watched::{Leaving, Watched};

/// How long a head may take, which is also how long a connection may stay without a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of a head.
const HEAD_BYTES: usize = 64 << 10;
/// Threads that serve at most.
const THREADS_MAX: usize = 4;
/// The pause after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// What the interface is of.
pub struct Source {
    /// The accounts and shares.
    pub catalog: KnownCatalog,
    /// What may be done with the server.
    pub operations: Operations,
    /// The way to the server that has the files.
    pub smb: Connector,
    /// Where what the server has done is kept.
    pub archive: PathBuf,
    /// Where what is asked for is counted.
    pub tally: Arc<Tally>,
    /// The folder for records of files that are being made; what they tell of when it starts goes.
    pub unfinished: PathBuf,
    /// The resource group of the management interface.
    pub group: String,
    /// What it proves itself with, where it speaks HTTPS.
    pub certificate: Option<Certificate>,
}

/// An address that is listened on, with nobody there yet.
pub struct Listening {
    socket: TcpListener,
    pacing: Pacing,
    address: SocketAddr,
}

impl Listening {
    /// Listens. Port 0 takes a free one.
    pub fn on(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Listening { pacing: Pacing::lift(&socket), socket, address })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The running interface. It ends when this is dropped: nobody is taken any more, and what somebody has asked who has proved who it is, is answered for
/// [`ENDS_WITHIN`].
pub struct Rest {
    address: SocketAddr,
    runtime: Option<Runtime>,
    ending: Ending,
}

/// How long requests in flight may take when the interface ends.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How long what waits for the catalog's disk or a snapshot has then at least. It goes on until the process ends.
const ENDS_AT_LEAST_WITHIN: Duration = Duration::from_millis(250);

impl Drop for Rest {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let until = Instant::now() + ENDS_WITHIN;
        self.ending.begin(&runtime, ENDS_WITHIN);
        runtime.shutdown_timeout(until.saturating_duration_since(Instant::now()).max(ENDS_AT_LEAST_WITHIN));
    }
}

impl Rest {
    /// Serves who connects. Fails where no thread can be had.
    pub fn start(listening: Listening, source: Source) -> io::Result<Self> {
        let Listening { socket, pacing, address } = listening;
        Rest::serve((socket, address), Arc::new(Front::new(source, pacing)))
    }

    fn serve((socket, address): (TcpListener, SocketAddr), front: Arc<Front>) -> io::Result<Self> {
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(thread_count()).thread_name("rest").enable_io().enable_time();
        let runtime = threads.build()?;
        let ending = front.ending.clone();
        // Before anybody makes files.
        let left = front.service.unfinished.left();
        runtime.spawn(sweep(Arc::downgrade(&front.service), left));
        runtime.spawn(serve(socket, front));
        Ok(Rest { address, runtime: Some(runtime), ending })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// How many threads serve: one alone is busy with the downloads of one client, and many would keep the cores from SMB's clients.
fn thread_count() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX)
}

/// What all connections share.
struct Front {
    service: Arc<Service>,
    management: Management,
    tls: Option<TlsAcceptor>,
    pacing: Pacing,
    heads: Heads,
    bodies: Bodies,
    places: Places,
    ending: Ending,
    tally: Arc<Tally>,
    asked: AtomicU64,
}

async fn serve(socket: TcpListener, front: Arc<Front>) {
    let awaited = front.ending.awaited();
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(cause) => return not_accepted(&cause),
    };
    loop {
        let Some(accepted) = awaited.until_end(listener.accept()).await else { return };
        match accepted {
            Ok((stream, peer)) => {
                let Some(Some(place)) = awaited.until_end(front.places.take()).await else { return };
                front.places.enter(place, |stay| tokio::spawn(attend(stream, peer, Arc::clone(&front), stay)));
            }
            Err(cause) => {
                not_accepted(&cause);
                sleep(PAUSE).await;
            }
        }
    }
}

fn not_accepted(cause: &io::Error) {
    tracing::warn!(name: "rest_accept_failed", error = %cause, "a connection for the REST interface was not taken");
}

/// How somebody is connected.
#[derive(Clone, Copy)]
struct Connected {
    peer: SocketAddr,
    is_secure: bool,
}

impl Connected {
    fn scheme(self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }
}

/// Attends to one connection, by HTTPS where the interface speaks that.
async fn attend(stream: TcpStream, peer: SocketAddr, front: Arc<Front>, stay: Arc<Stay>) {
    let awaited = front.ending.awaited();
    // Answers are whole: a small one need not wait for the next.
    let _ = stream.set_nodelay(true);
    front.pacing.restore(&stream);
    let Some(tls) = &front.tls else {
        return talk(stream, Connected { peer, is_secure: false }, front, (stay, &awaited)).await;
    };
    let Some(accepted) = awaited.until_end(timeout(HEAD_WITHIN, tls.accept(stream))).await else { return };
    match accepted {
        Ok(Ok(stream)) => talk(stream, Connected { peer, is_secure: true }, front, (stay, &awaited)).await,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection for the REST interface is no TLS, or does not trust the certificate")
        }
        Err(_) => {}
    }
}

/// Answers one connection's requests, one after the other.
async fn talk<S: AsyncRead + Outlet>(
    stream: S,
    connected: Connected,
    front: Arc<Front>,
    (stay, awaited): (Arc<Stay>, &Awaited),
) {
    let parts = Arc::<Parts>::default();
    let leaving = Arc::<Leaving>::default();
    let watched = Watched::of(stream, Arc::clone(&stay), Arc::clone(&parts), Arc::clone(&leaving));
    let asks = Arc::clone(&stay);
    let answers = service_fn(move |request: Request<Incoming>| {
        let (front, stay, parts) = (Arc::clone(&front), Arc::clone(&asks), Arc::clone(&parts));
        let leaving = Arc::clone(&leaving);
        async move {
            leaving.sent().await;
            let mut counted = Counted::begin(&front.tally);
            let mut answer = front.answer(request, connected, (&stay, &mut counted)).await;
            let turn = answer.extensions_mut().remove::<Arc<Turn>>();
            leaving.begin(turn);
            Ok::<_, std::convert::Infallible>(answer.map(|body| Taken::by(stay, parts, leaving, (body, counted))))
        }
    });
    let mut http = http1::Builder::new();
    if S::TAKES_PARTS {
        // A copy of what stands in the place of a part would not be known.
        http.writev(true);
    }
    let connection = http
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(watched), answers);
    let mut connection = pin!(connection);
    // What went wrong is the other side's to know: it has an answer, or has gone.
    if awaited.until_end(connection.as_mut()).await.is_none() {
        // What was asked is answered, and nothing more is read. Of strangers, and of who has not asked to the end of a head, nothing is waited for.
        connection.as_mut().graceful_shutdown();
        if connection.as_mut().now_or_never().is_none() && stay.is_owed_an_answer() {
            let _ = connection.await;
        }
    }
}

impl Front {
    fn new(source: Source, pacing: Pacing) -> Self {
        let (catalog, operations) = (source.catalog.clone(), source.operations.clone());
        let management = Management::new(catalog, operations, source.archive, source.group);
        let at = source.smb.address();
        let sessions = Arc::new(Sessions::new(Arc::new(Inside(source.smb)), at, source.catalog.clone()));
        let (catalog, operations) = (source.catalog, source.operations);
        let unfinished = Unfinished::new(source.unfinished);
        Front {
            service: Arc::new(Service { catalog, operations, sessions, files: Files::default(), unfinished }),
            management,
            tls: source.certificate.map(|certificate| certificate.acceptor()),
            pacing,
            heads: Heads::default(),
            bodies: Bodies::default(),
            places: Places::of_this_process(),
            ending: Ending::default(),
            tally: source.tally,
            asked: AtomicU64::new(1),
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connected: Connected,
        (stay, counted): (&Arc<Stay>, &mut Counted),
    ) -> Answer {
        stay.does(Doing::Waiting);
        let id = format!("{:016x}", self.asked.fetch_add(1, Ordering::Relaxed));
        // All of the head that outlives what is done.
        let (method, headers) = (request.method().clone(), answered(request.headers()));
        let host = host::of(&request, connected.is_secure);
        if let Ok(host) = &host
            && management::is_for(host, request.uri().path(), request.uri().query())
        {
            let origin = format!("{}://{host}", connected.scheme());
            counted.is_of_management();
            // Its bodies are read there, and whoever sends one slowly keeps nobody out.
            stay.does(Doing::Sending);
            let caller = Caller::of(connected.peer, &self.places, stay);
            let _head = match self.heads.hold(caller.taker(), request.uri(), request.headers()) {
                Ok(head) => head,
                Err(failure) => return self.management.refused(failure, &id, &origin),
            };
            let answer = self.management.answer(request, &caller, &id, &origin).await;
            let charged = self.charged(answer, caller.taker(), stay).await;
            return charged.unwrap_or_else(|failure| self.management.refused(failure, &id, &origin));
        }
        let catalog = &self.service.catalog;
        let (path, dots) = (request.uri().path(), Dots::of_target(request.headers()));
        let target = host.and_then(|host| Target::parse(&host, path, dots));
        let rules = target.as_ref().map_or_else(|_| Vec::new(), |target| catalog.cors(&target.account));
        let account = target.as_ref().map_or("", |target| &target.account);
        let taker = Taker::of(account, connected.peer.ip());
        let answer = match target {
            Ok(_) if method == Method::OPTIONS => {
                counted.is_preflight();
                cors::preflight(&rules, request.headers())
            }
            Ok(target) => self.carried_out((request, &id), target, connected, (stay, counted)).await,
            Err(failure) => Err(failure),
        };
        let answer = match answer {
            Ok(answer) => self.charged(answer, &taker, stay).await,
            Err(failure) => Err(failure),
        };
        counted.is_answered(&answer);
        let mut answer = without_body(&method, answer.unwrap_or_else(|failure| failed(&failure)));
        cors::allow(&rules, &method, &headers, &mut answer);
        finish(&mut answer, &id, headers.get("x-ms-client-request-id"), headers.get("x-ms-version"));
        answer
    }

    /// Has an answer paid for as long as it is held for who takes it. Long ones tell something, so that nothing was changed where there is no room for one.
    async fn charged(&self, mut answer: Answer, taker: &Taker, stay: &Arc<Stay>) -> Result<Answer, Failure> {
        // Until then who made it has its turn.
        let _making = answer.extensions_mut().remove::<Making>();
        let body = match answer.body_mut() {
            Piecewise::Whole(body) => body.take(),
            Piecewise::Sent { .. } => return Ok(answer),
        };
        let Some(body) = body else { return Ok(answer) };
        stay.does(Doing::Queued);
        let body = self.places.charge(body, taker, stay).await.ok_or_else(|| {
            Failure::new(
                Code::ServerBusy,
                "The server holds as many answers as it may for who does not take them; try again.",
            )
        })?;
        *answer.body_mut() = Piecewise::Whole(Some(body));
        Ok(answer)
    }

    /// Does what is asked, where it is proved that it may be.
    async fn carried_out(
        &self,
        (request, id): (Request<Incoming>, &str),
        target: Target,
        connected: Connected,
        (stay, counted): (&Arc<Stay>, &mut Counted),
    ) -> Result<Answer, Failure> {
        let (parts, body) = request.into_parts();
        check_version(parts.headers.get("x-ms-version"))?;
        let query = Query::parse(parts.uri.query().unwrap_or_default())?;
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let line = InLine::of(&self.places, Taker::of(&target.account, connected.peer.ip()), stay);
        let mut asked = Asked {
            endpoint: target.endpoint(connected.scheme(), host),
            parts,
            target,
            query,
            body: Bytes::new(),
            peer: connected.peer,
            is_secure: connected.is_secure,
            id: id.to_owned(),
            held: Held::default(),
            line,
        };
        counted.asks(&asked, &self.service.catalog);
        // Nothing is read of the body for who has proved nothing, or may not do it. What is done is proved again, once all is there.
        let Proof { by, operation, .. } = asked.prove(&self.service.catalog).inspect_err(|failure| {
            counted.proves(asked.tell_refused(failure, counted.api(), &self.service));
        })?;
        counted.proves(by.evidence().proof);
        stay.proves();
        asked.held.head = self.heads.hold(asked.line.taker(), &asked.parts.uri, &asked.parts.headers)?;
        let gets_on = || stay.does(Doing::Sending);
        gets_on();
        let head = (&asked.parts.method, &asked.parts.headers, operation.body_max());
        let share = self.part_of(by.account(), asked.target.share.as_deref());
        (asked.body, asked.held.body) = self.bodies.read(&share, head, body, gets_on).await?;
        counted.has_come(asked.body.len());
        let busy = "The server works for as many requests of the account as it may; try again.";
        let turn = self.places.run(asked.line.taker(), stay).await;
        let turn = turn.ok_or_else(|| Failure::new(Code::ServerBusy, busy))?;
        asked.held.running = Some(Arc::new(Running::new(turn, share, self.ending.awaited())));
        let asked = Arc::new(asked);
        let mut answer = match operation {
            Operation::GetFile => self.sent(asked).await?,
            _ => self.done(asked, operation).await?,
        };
        if matches!(operation, Operation::GetFile | Operation::GetFileProperties) {
            by.overrides().apply(&mut answer);
        }
        Ok(answer)
    }

    /// Who pays for what is asked of this share. All names that no share of the account has are one part of that: there are as many as one likes.
    fn part_of(&self, account: &str, share: Option<&str>) -> Taker {
        let share = share.and_then(|share| self.service.catalog.share_of(account, share));
        Taker::of_share(account, share.as_ref().map_or("", |share| &share.name))
    }

    /// Does it. Whoever leaves in the middle, or is told that a disk does not answer, leaves nothing open: what only reads ends there, and what changes
    /// something goes on to its end.
    async fn done(&self, asked: Arc<Asked>, operation: Operation) -> Result<Answer, Failure> {
        let doing = tokio::spawn(Arc::clone(&self.service).perform(Arc::clone(&asked)));
        let _wanted = operation.only_reads().then(|| Wanted(doing.abort_handle()));
        let done = match select(doing, pin!(self.service.given_up(&asked, operation))).await {
            Either::Left((done, _)) => done,
            Either::Right((failure, _)) => return Err(failure),
        };
        done.unwrap_or_else(|_| Err(Failure::new(Code::InternalError, "The request failed in the server.")))
    }

    /// A file, as soon as it may be sent. One that is short need not wait for that.
    async fn sent(&self, asked: Arc<Asked>) -> Result<Answer, Failure> {
        loop {
            let answer = asked.line.with_turn(self.done(Arc::clone(&asked), Operation::GetFile)).await;
            let waits = answer.as_ref().is_err_and(|failure| failure.is_too_long);
            if !waits || !asked.line.wait().await {
                return answer;
            }
        }
    }
}

/// Work that ends where nobody wants it any more.
struct Wanted(AbortHandle);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer's body, and who takes it.
struct Taken {
    stay: Arc<Stay>,
    parts: Arc<Parts>,
    leaving: Arc<Leaving>,
    body: Piecewise,
    length: u64,
    counted: Counted,
}

impl Taken {
    fn by(stay: Arc<Stay>, parts: Arc<Parts>, leaving: Arc<Leaving>, (body, counted): (Piecewise, Counted)) -> Self {
        stay.does(Doing::Taking);
        Taken { stay, parts, leaving, length: body.length(), body, counted }
    }
}

impl Body for Taken {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let piece = ready!(self.body.poll_next(context));
        self.stay.does(Doing::Taking);
        if matches!(piece, Some(Err(_))) {
            self.counted.is_broken();
        }
        Poll::Ready(piece.map(|piece| {
            Ok(Frame::data(match piece? {
                Piece::Bytes(bytes) => bytes,
                Piece::File(part) => self.parts.add(part),
            }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.length())
    }
}

impl Drop for Taken {
    /// All of it is on its way.
    fn drop(&mut self) {
        self.counted.is_taken(self.length - self.body.length(), self.body.is_over());
        self.leaving.hand_over();
    }
}

impl Known for KnownCatalog {
    fn keys(&self, account: &str) -> Option<Keys> {
        KnownCatalog::keys(self, account)
    }

    fn policy(&self, account: &str, share: &str, id: &str) -> Option<Policy> {
        let kept = self.azure_share(&self.share_of(account, share)?);
        let StoredPolicy { start, expiry, permission, .. } = kept.policy(id)?.clone();
        Some(Policy { start, expiry, permissions: permission })
    }

    fn principal_of(&self, token: &str, account: &str, at: Timestamp) -> Result<Principal, String> {
        let principal =
            tokens::verify(token, (Audience::Storage, Some(account)), self, at).map_err(|wrong| wrong.to_string())?;
        Ok(Principal { permissions: permissions(&principal.roles), id: principal.application_id })
    }

    fn permissions_of(&self, principal: &str) -> Option<Permissions> {
        self.service_principal_and_key(principal).map(|(principal, _)| permissions(&principal.roles))
    }

    fn cors(&self, account: &str) -> Vec<cors::Rule> {
        let rule = |rule: CorsRule| cors::Rule {
            origins: rule.allowed_origins,
            methods: rule.allowed_methods,
            allowed_headers: rule.allowed_headers,
            exposed_headers: rule.exposed_headers,
            max_age_seconds: rule.max_age_seconds,
        };
        self.file_service(account).cors.into_iter().map(rule).collect()
    }
}

/// What roles give with shares and files.
fn permissions(roles: &[Role]) -> Permissions {
    roles.iter().fold(Permissions::default(), |all, role| {
        all.or(match role {
            Role::FileReader => Permissions::OF_READER,
            Role::FileContributor => Permissions::OF_CONTRIBUTOR,
            Role::Contributor => Permissions::OF_MANAGER,
        })
    })
}
