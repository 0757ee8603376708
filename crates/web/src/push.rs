//! Metrics that are sent to a collector of OpenTelemetry (OTLP/HTTP, JSON), now and then, by a thread of its own.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Method, Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use insight::exposition::Exposition;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::http::NICENESS;
use crate::source::Source;

/// How long a collector may take over one request, and over the last one.
const PATIENCE: Duration = Duration::from_secs(10);
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// Where OTLP has metrics, where an address says nothing else.
const PATH: &str = "/v1/metrics";
/// The port of OTLP/HTTP.
const PORT: u16 = 4318;

/// Where a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    host: String,
    port: u16,
    path: String,
}

/// What is no address of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCollector {
    /// It is to be spoken to by TLS, or by something else.
    #[error("metrics are sent by http:// alone: have a collector on this machine send them on")]
    Scheme,
    /// It is no address.
    #[error("use an address such as http://127.0.0.1:4318/v1/metrics")]
    Malformed,
}

impl FromStr for Collector {
    type Err = NoCollector;

    fn from_str(text: &str) -> Result<Self, NoCollector> {
        let uri: Uri = text.parse().map_err(|_| NoCollector::Malformed)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(NoCollector::Malformed);
        };
        if scheme != "http" {
            return Err(NoCollector::Scheme);
        }
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(NoCollector::Malformed);
        }
        let path = uri.path_and_query().map(|path| path.as_str()).filter(|path| *path != "/").unwrap_or(PATH);
        // An address of IPv6 stands in brackets there, and without them where it is connected to.
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        Ok(Collector { host, port: authority.port_u16().unwrap_or(PORT), path: path.to_owned() })
    }
}

impl std::fmt::Display for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Collector { host, port, path } = self;
        if host.contains(':') {
            write!(f, "http://[{host}]:{port}{path}")
        } else {
            write!(f, "http://{host}:{port}{path}")
        }
    }
}

/// The thread that sends. It ends with this, and sends once more then.
pub struct Push {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Push {
    /// Begins to send what is known of a server to a collector, `every` so often. Fails where there is no thread.
    pub fn start(collector: Collector, every: Duration, source: Source) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, mut stopped) = oneshot::channel::<()>();
        let mut sender = Sender { collector, source, exposition: Exposition::default(), fails: false };
        let thread = thread::Builder::new().name("metrics-push".to_owned()).spawn(move || {
            // Where that is not allowed it is a thread like others.
            let _ = rustix::process::nice(NICENESS);
            runtime.block_on(async {
                loop {
                    let is_last = tokio::select! {
                        () = sleep(every) => false,
                        _ = &mut stopped => true,
                    };
                    let patience = if is_last { LAST_PATIENCE } else { PATIENCE };
                    // What the server is told meanwhile it hears afterwards: that is how long its end may take.
                    sender.send(patience).await;
                    if is_last {
                        return;
                    }
                }
            });
        })?;
        Ok(Push { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Nothing there waits for longer than its patience. One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

struct Sender {
    collector: Collector,
    source: Source,
    exposition: Exposition,
    /// The last one was not taken.
    fails: bool,
}

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the collector answers {0}")]
    Refused(StatusCode),
    #[error("the collector does not answer in time")]
    Late,
    #[error("the request cannot be made")]
    Unmade,
}

impl Sender {
    /// Sends the numbers as they are now. They are totals, so that the next ones have what was not taken.
    async fn send(&mut self, patience: Duration) {
        let outcome = match self.body() {
            Some(body) => timeout(patience, post(&self.collector, body)).await.unwrap_or(Err(NotTaken::Late)),
            None => Err(NotTaken::Unmade),
        };
        match outcome {
            Ok(()) if self.fails => {
                self.fails = false;
                info!(name: "metrics_pushed_again", collector = %self.collector, "the collector takes metrics again");
            }
            Ok(()) => {}
            Err(error) if !self.fails => {
                self.fails = true;
                warn!(name: "metrics_not_pushed", collector = %self.collector, %error, "the collector does not take metrics; they are sent again and again");
            }
            Err(_) => {}
        }
    }

    fn body(&mut self) -> Option<String> {
        let silent = self.source.silent_shards().len();
        let observed = Arc::new(self.source.observe(silent));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        self.exposition.otlp(&observed, now).ok()
    }
}

async fn post(collector: &Collector, body: String) -> Result<(), NotTaken> {
    let stream = TcpStream::connect((collector.host.as_str(), collector.port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let host = match collector.host.contains(':') {
        true => format!("[{}]:{}", collector.host, collector.port),
        false => format!("{}:{}", collector.host, collector.port),
    };
    let request = Request::builder().method(Method::POST).uri(&collector.path);
    let request = request.header(HOST, host).header(CONTENT_TYPE, "application/json").body(Body::from(body));
    let answer = sender.send_request(request.map_err(|_| NotTaken::Unmade)?).await;
    connection.abort();
    let status = answer?.status();
    if status.is_success() { Ok(()) } else { Err(NotTaken::Refused(status)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_an_address_of_http() {
        let said = |text: &str| text.parse::<Collector>().map(|collector| collector.to_string());
        assert_eq!(said("http://127.0.0.1").as_deref(), Ok("http://127.0.0.1:4318/v1/metrics"));
        assert_eq!(said("http://collector:9/x/y?z=1").as_deref(), Ok("http://collector:9/x/y?z=1"));
        assert_eq!(said("http://[::1]:4318/").as_deref(), Ok("http://[::1]:4318/v1/metrics"));
        assert_eq!(said("https://collector"), Err(NoCollector::Scheme));
        for wrong in ["", "collector", "127.0.0.1:4318", "http://", "http://me:secret@collector", "/v1/metrics"] {
            assert_eq!(said(wrong), Err(NoCollector::Malformed), "{wrong}");
        }
    }
}
