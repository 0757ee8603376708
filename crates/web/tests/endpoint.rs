//! The endpoint over real sockets, of a server that is not there.

mod asking;
mod fake;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::{ServerHealth, ShareGauges};
use insight::exposition::LogLoss;
use web::{Metrics, Source};

use crate::asking::{Answer, answer, ask, connect};
use crate::fake::Fake;

fn metrics() -> Metrics {
    Metrics::listen("127.0.0.1:0".parse().unwrap()).unwrap()
}

fn serving(metrics: &Metrics, fake: &Arc<Fake>) {
    metrics.serve(Source {
        admin: Arc::clone(fake) as Arc<_>,
        shares: ShareGauges::default(),
        rest: Arc::default(),
        health: ServerHealth::default(),
        log: Box::new(LogLoss::default),
        version: "1.2.3",
        since: Duration::from_secs(1_764_435_121),
    });
}

fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &[&format!("GET {path} HTTP/1.1"), "Host: localhost"]).unwrap()
}

#[test]
fn health_and_metrics_follow_the_server_from_start_to_end() {
    let (metrics, fake) = (metrics(), Arc::new(Fake::default()));
    let is = |path: &str, status: u16, text: &str| {
        let answer = get(metrics.address(), path);
        assert!(answer.status == status && answer.body.contains(text), "{path}: {answer:?}");
        assert_eq!(answer.head.contains("retry-after: 1"), status == 503, "{answer:?}");
        assert!(answer.head.contains("cache-control: no-store") && answer.body.ends_with('\n'), "{answer:?}");
    };
    is("/healthz", 200, "the server starts");
    is("/readyz", 503, "the server starts");
    is("/metrics", 503, "the server starts");
    serving(&metrics, &fake);
    is("/healthz", 200, "the server is ready");
    is("/readyz", 200, "the server is ready");
    is("/metrics", 200, "multilane_sessions 3\n");
    fake.hangs.store(true, Ordering::Relaxed);
    // What was found out a moment ago is told again for a second.
    while get(metrics.address(), "/readyz").status == 200 {
        std::thread::sleep(Duration::from_millis(50));
    }
    is("/healthz", 200, "shards do not answer: 1");
    is("/readyz", 503, "shards do not answer: 1");
    is("/metrics", 200, "multilane_silent_shards 1\n");
    metrics.end();
    is("/healthz", 200, "the server was told to end");
    is("/readyz", 503, "the server was told to end");
    is("/metrics", 200, "multilane_silent_shards 0\n");
}

#[test]
fn what_is_asked_wrongly_is_told_so() {
    let metrics = metrics();
    serving(&metrics, &Arc::new(Fake::default()));
    let address = metrics.address();
    let is = |lines: &[&str], status: u16, text: &str| {
        let answer = ask(address, lines).unwrap_or_else(|| panic!("{lines:?}"));
        assert!(answer.status == status && (answer.head + &answer.body).contains(text), "{lines:?}: {status} {text}");
    };
    is(&["GET /metric HTTP/1.1", "Host: localhost"], 404, "look at /metrics");
    is(&["GET /../../etc/passwd HTTP/1.1", "Host: localhost"], 404, "look at /metrics");
    is(&["POST /metrics HTTP/1.1", "Host: localhost", "Content-Length: 0"], 405, "allow: get,head");
    is(&["DELETE /readyz HTTP/1.1", "Host: localhost"], 405, "only GET and HEAD");
    is(&["GET /metrics HTTP/1.1", "Host: example.org"], 403, "name localhost or a loopback address");
    is(&["GET http://example.org/metrics HTTP/1.1", "Host: localhost"], 403, "name localhost");
    is(
        &["GET /metrics HTTP/1.1", "Host: localhost", &format!("X: {}", "x".repeat(15 << 10))],
        200,
        "multilane_sessions",
    );
    is(&["GET /metrics HTTP/1.1", "Host: localhost", &format!("X: {}", "x".repeat(20 << 10))], 431, "");
    is(&["GET /metrics HTTP/1.1", &"X: y\r\n".repeat(500)], 431, "");
    is(&["nonsense"], 400, "");
    is(&["GET /metrics HTTP/1.0"], 200, "multilane_sessions");
    let head = ask(address, &["HEAD /metrics HTTP/1.1", "Host: localhost"]).unwrap();
    assert!(head.status == 200 && head.body.is_empty(), "{head:?}");
}

#[test]
fn the_format_is_the_one_that_is_accepted() {
    let metrics = metrics();
    serving(&metrics, &Arc::new(Fake { shares: 2, ..Fake::default() }));
    let accepting = |accept: &str| {
        ask(metrics.address(), &["GET /metrics HTTP/1.1", "Host: localhost", &format!("Accept: {accept}")]).unwrap()
    };
    let (open, classic) = (accepting("application/openmetrics-text;version=1.0.0"), accepting("text/plain"));
    assert!(open.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(classic.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    let samples =
        |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(samples(&open.body), samples(&classic.body));
    assert!(samples(&open.body).len() > 100 && open.body.ends_with("# EOF\n"));
}

#[test]
fn a_thousand_who_ask_at_once_are_answered_and_the_counters_are_read_seldom() {
    let (metrics, fake) = (metrics(), Arc::new(Fake { shares: 20, ..Fake::default() }));
    serving(&metrics, &fake);
    let address = metrics.address();
    let asking = |_| {
        let mut stream = connect(address);
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    let streams: Vec<TcpStream> = (0..1_000).map(asking).collect();
    let answers: Vec<Answer> = streams.into_iter().filter_map(answer).collect();
    let with = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(with(200) + with(503), answers.len());
    assert!(with(200) > 0, "{} of 1,000 answered", answers.len());
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.head.contains("retry-after: 1")));
    assert!(fake.reads.load(Ordering::Relaxed) <= with(200));
    assert_eq!(get(address, "/metrics").status, 200, "and the next one is");
}

#[test]
fn a_taken_port_is_an_error() {
    let metrics = metrics();
    let again = Metrics::listen(metrics.address()).err().unwrap();
    assert_eq!(again.kind(), std::io::ErrorKind::AddrInUse);
    let address = metrics.address();
    drop(metrics);
    assert_eq!(Metrics::listen(address).unwrap().address(), address, "it is free again");
}
