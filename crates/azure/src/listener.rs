//! Who connects by HTTP: taken, bounded, and answered.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use control::{Keys, KnownCatalog, Operations, ShareGauges};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::answer::{Answer, failed, finish, without_body};
use crate::auth::{self, Known, Policy, Way};
use crate::failure::{Code, Failure};
use crate::management::{self, Management};
use crate::operations::{Ask, Operation, PUT_MAX, Service};
use crate::query::Query;
use crate::sessions::Sessions;
use crate::target::Target;

/// Connections at a time; who comes beyond them waits.
const CONNECTIONS_MAX: usize = 256;
/// Bodies that are held at a time, in bytes.
const BODIES_MAX: usize = 64 << 20;
/// How long a head may take, which is also how long a connection may stay without a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a body may take.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of a head.
const HEAD_BYTES: usize = 64 << 10;
/// The pause after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// What the interface is of.
pub struct Source {
    /// The accounts and shares.
    pub catalog: KnownCatalog,
    /// What may be done with the server.
    pub operations: Operations,
    /// Where it serves SMB on this machine.
    pub smb: SocketAddr,
    /// What is known of the shares.
    pub gauges: ShareGauges,
    /// Where what the server has done is kept.
    pub archive: PathBuf,
    /// The resource group of the management interface.
    pub group: String,
}

/// The running interface. It ends when this is dropped.
pub struct Rest {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rest {
    /// Listens and serves. Port 0 takes a free one. Fails where the address cannot be had, or no thread.
    pub fn start(address: SocketAddr, source: Source) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (catalog, operations) = (source.catalog.clone(), source.operations.clone());
        let management = Management::new(catalog, operations, source.gauges, source.archive, source.group);
        let sessions = Sessions::new(source.smb, source.catalog.clone());
        let service = Arc::new(Service { catalog: source.catalog, operations: source.operations, sessions });
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("rest".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(socket, Arc::new(Front { service, management, bodies: Arc::new(Semaphore::new(BODIES_MAX)), asked: AtomicU64::new(1) })) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Rest { address, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Nothing there waits for anything but sockets. One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

/// What all connections share.
struct Front {
    service: Arc<Service>,
    management: Management,
    bodies: Arc<Semaphore>,
    asked: AtomicU64,
}

async fn serve(socket: TcpListener, front: Arc<Front>) {
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(cause) => return not_accepted(&cause),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => drop(tokio::spawn(attend(stream, peer.ip(), Arc::clone(&front), place))),
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

/// Answers one connection's requests, one after the other.
async fn attend(stream: TcpStream, peer: IpAddr, front: Arc<Front>, _place: OwnedSemaphorePermit) {
    // Answers are whole: a small one need not wait for the next.
    let _ = stream.set_nodelay(true);
    let answers = service_fn(move |request: Request<Incoming>| {
        let front = Arc::clone(&front);
        async move { Ok::<Answer, std::convert::Infallible>(front.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), answers);
    // What went wrong is the other side's to know: it has an answer, or has gone.
    let _ = connection.await;
}

impl Front {
    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Answer {
        let id = format!("{:016x}", self.asked.fetch_add(1, Ordering::Relaxed));
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if management::is_for(host, request.uri().path(), request.uri().query()) {
            let origin = format!("http://{host}");
            return self.management.answer(request, &id, &origin).await;
        }
        let header = |name: &str| request.headers().get(name).cloned();
        let (client_id, version) = (header("x-ms-client-request-id"), header("x-ms-version"));
        let method = request.method().clone();
        let answer = self.carried_out(request, peer).await;
        let mut answer = without_body(&method, answer.unwrap_or_else(|failure| failed(&failure)));
        finish(&mut answer, &id, client_id.as_ref(), version.as_ref());
        answer
    }

    /// Does what is asked, where it is proved that it may be.
    async fn carried_out(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Answer, Failure> {
        let (parts, body) = request.into_parts();
        let way = Way { peer, is_secure: false, at: Timestamp::now() };
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
        let query = Query::parse(parts.uri.query().unwrap_or_default())?;
        let catalog = &self.service.catalog;
        let target = Target::parse(&host, parts.uri.path(), |name| catalog.has_account(name))?;
        // Nothing is read of the body for who has proved nothing, or may not do it.
        let by = auth::prove(&parts, &query, &target, way, catalog)?;
        let operation = Operation::of(&parts.method, &target, &query, &parts.headers)?;
        by.allows(operation)?;
        let source = auth::source(&by, operation, (&target, &parts.headers), way, catalog)?;
        let (body, held) = self.body(&parts.method, parts.headers.get(CONTENT_LENGTH), body).await?;
        let is_path_style = parts.uri.path().trim_start_matches('/').starts_with(&target.account);
        let endpoint =
            if is_path_style { format!("http://{host}/{}", target.account) } else { format!("http://{host}") };
        let overrides = by.overrides().clone();
        let ask = Ask { by, operation, target, source, query, headers: parts.headers, body, endpoint, _held: held };
        // Whoever leaves in the middle must leave nothing open.
        let doing = tokio::spawn(Arc::clone(&self.service).perform(ask));
        let done = doing.await;
        let mut answer =
            done.unwrap_or_else(|_| Err(Failure::new(Code::InternalError, "The request failed in the server.")))?;
        if matches!(operation, Operation::GetFile | Operation::GetFileProperties) {
            overrides.apply(&mut answer);
        }
        Ok(answer)
    }

    /// The body, once there is room for it.
    async fn body(
        &self,
        method: &Method,
        length: Option<&hyper::header::HeaderValue>,
        body: Incoming,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Failure> {
        let length = length.and_then(|value| value.to_str().ok()).map(str::parse::<u64>);
        let length = match length {
            Some(Ok(length)) => length,
            None if method == Method::PUT || method == Method::POST => {
                return Err(Failure::new(Code::MissingContentLengthHeader, "The header Content-Length is missing."));
            }
            None => 0,
            Some(Err(_)) => return Err(Failure::header("Content-Length", "a number")),
        };
        if length > PUT_MAX {
            return Err(Failure::new(Code::RequestBodyTooLarge, "A body has 4 MiB at most."));
        }
        if length == 0 {
            return Ok((Bytes::new(), None));
        }
        let busy = || Failure::new(Code::ServerBusy, "The server holds as much as it may; try again.");
        let gone = || {
            Failure::new(Code::InvalidHeaderValue, "The body is not as long as Content-Length says, or took too long.")
        };
        let held = Arc::clone(&self.bodies).acquire_many_owned(length as u32).await.map_err(|_| busy())?;
        let read = timeout(BODY_WITHIN, Limited::new(body, length as usize).collect());
        let read = read.await.map_err(|_| gone())?.map_err(|_| gone())?.to_bytes();
        Ok((read, Some(held)))
    }
}

impl Known for KnownCatalog {
    fn keys(&self, account: &str) -> Option<Keys> {
        KnownCatalog::keys(self, account)
    }

    /// No share has policies yet.
    fn policy(&self, _account: &str, _share: &str, _id: &str) -> Option<Policy> {
        None
    }
}
