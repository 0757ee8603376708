//! Metrics that are sent to a collector of OpenTelemetry (OTLP/HTTP, JSON), now and then, by a thread of its own.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Method, Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use insight::exposition::{self, Exposition};
use serde::Deserialize;
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
/// Bytes of a collector's answer that are looked at.
const ANSWER_BYTES_MAX: usize = 16 << 10;
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
    pub fn start(
        collector: Collector,
        every: Duration,
        source: Source,
        identity: exposition::Sender,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, mut stopped) = oneshot::channel::<()>();
        let mut sender =
            Sender { collector, source, identity, exposition: Exposition::default(), fails: false, refused: None };
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
    identity: exposition::Sender,
    /// The last one was not taken.
    fails: bool,
    /// What of the last one was not taken.
    refused: Option<Refused>,
}

/// What a collector has not taken of a request that it took (OTLP's ExportMetricsPartialSuccess).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Refused {
    /// As text: JSON has 64-bit numbers so. Some collectors write a number.
    #[serde(deserialize_with = "digits")]
    rejected_data_points: u64,
    error_message: String,
}

/// An answer of OTLP's (ExportMetricsServiceResponse).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Taken {
    partial_success: Option<Refused>,
}

fn digits<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| serde::de::Error::custom("no count"))
}

/// What an answer says was not taken. One that is no JSON says nothing: that is no reason to send anything again.
fn refused(answer: &[u8]) -> Option<Refused> {
    let taken: Taken = serde_json::from_slice(answer).unwrap_or_default();
    taken.partial_success.filter(|refused| *refused != Refused::default())
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
            Ok(refused) => {
                if std::mem::take(&mut self.fails) {
                    info!(name: "metrics_pushed_again", collector = %self.collector, "the collector takes metrics again");
                }
                // The same is not said each minute.
                if let Some(Refused { rejected_data_points: points, error_message: error }) = &refused
                    && self.refused != refused
                {
                    warn!(name: "metrics_partly_refused", collector = %self.collector, points, error, "the collector takes metrics, but not all of them");
                }
                self.refused = refused;
            }
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
        self.exposition.otlp(&observed, &self.identity, now).ok()
    }
}

/// Gives what the collector says that it has not taken.
async fn post(collector: &Collector, body: String) -> Result<Option<Refused>, NotTaken> {
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
    let told = match answer {
        Ok(answer) if answer.status().is_success() => {
            // What is longer says nothing.
            let body = to_bytes(Body::new(answer.into_body()), ANSWER_BYTES_MAX).await;
            Ok(body.ok().and_then(|body| refused(&body)))
        }
        Ok(answer) => Err(NotTaken::Refused(answer.status())),
        Err(cause) => Err(cause.into()),
    };
    connection.abort();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_does_not_take_is_heard() {
        let said = |text: &str| refused(text.as_bytes()).map(|it| (it.rejected_data_points, it.error_message));
        let partial = r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too many labels"}}"#;
        assert_eq!(said(partial), Some((7, "too many labels".to_owned())));
        assert_eq!(said(r#"{"partialSuccess":{"rejectedDataPoints":7}}"#), Some((7, String::new())));
        assert_eq!(said(r#"{"partialSuccess":{"errorMessage":"old"}}"#), Some((0, "old".to_owned())), "a warning");
        for nothing in ["", "{}", "ok", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":null}"#, "[1]"] {
            assert_eq!(said(nothing), None, "{nothing}");
        }
    }

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
