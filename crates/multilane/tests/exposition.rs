//! The metrics of a running server: what clients did is what they say.

#[allow(dead_code)]
mod place;
mod started;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::place::Place;
use crate::started::started;

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(60);

/// A server that tells metrics.
struct Served {
    place: Place,
    child: Child,
    port: u16,
    metrics: SocketAddr,
    password: String,
}

impl Served {
    fn new() -> Self {
        let place = Place::new();
        let (child, ready) = started(&place, &["--metrics", "0"]);
        let address = |value: &Value| -> SocketAddr { value.as_str().unwrap().parse().unwrap() };
        let (listen, metrics) = (address(&ready["listen"][0]), address(&ready["metrics"]));
        let password = place.json(&["account", "keys", "local"])["key1"].as_str().unwrap().to_owned();
        Served { place, child, port: listen.port(), metrics, password }
    }

    /// A client's command, which is done.
    fn client(&self, arguments: &[&str]) {
        let mut command = self.place.command(arguments);
        let output = command.env("MULTILANE_PASSWORD", &self.password).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn at(&self, path: &str) -> String {
        format!("smb://local@127.0.0.1:{}/{path}", self.port)
    }

    fn list(&self) {
        self.client(&["ls", &self.at("share")]);
    }

    /// Sends bytes, and gives the status and all that comes.
    fn exchange(&self, request: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.metrics).unwrap();
        stream.set_read_timeout(Some(AN_AGE)).unwrap();
        let _ = stream.write_all(request);
        taken(stream)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.exchange(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    /// The samples, by name and labels.
    fn scrape(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let lines = text.split_once("\r\n\r\n").unwrap().1.lines().filter(|line| !line.starts_with('#'));
        let sample =
            |line: &str| line.rsplit_once(' ').map(|(series, value)| (series.to_owned(), value.parse().unwrap()));
        lines.map(|line| sample(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn taken(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    // A reset behind the answer is an end, too.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), text)
}

/// The sum of all series of a metric whose labels have these parts.
fn sum(samples: &BTreeMap<String, f64>, name: &str, parts: &[&str]) -> f64 {
    let of_name = samples.iter().filter(|(series, _)| series.split('{').next() == Some(name));
    of_name.filter(|(series, _)| parts.iter().all(|part| series.contains(part))).map(|(_, value)| value).sum()
}

#[test]
fn what_a_client_did_is_what_the_metrics_say() {
    let served = Served::new();
    let before = served.scrape();
    assert_eq!(sum(&before, "multilane_written_bytes_total", &["share=\"share\""]), 0.0, "there from the start");
    assert!(before.contains_key("multilane_written_bytes_total{share=\"share\"}"));
    let file = served.place.place.path().join("file");
    fs::write(&file, vec![7; 3 << 20]).unwrap();
    served.client(&["cp", file.to_str().unwrap(), &served.at("share/file")]);
    let samples = served.scrape();
    let of_share = |name: &str, parts: &[&str]| sum(&samples, name, &[&["share=\"share\""], parts].concat());
    assert_eq!(of_share("multilane_written_bytes_total", &[]), f64::from(3 << 20));
    assert!(of_share("multilane_received_bytes_total", &[]) > f64::from(3 << 20));
    let writes = of_share("multilane_requests_total", &["api=\"Write\"", "response=\"Success\""]);
    assert!(writes >= 1.0);
    assert_eq!(of_share("multilane_request_duration_seconds_count", &["kind=\"write\""]), writes);
    assert_eq!(of_share("multilane_request_duration_seconds_bucket", &["kind=\"write\"", "le=\"+Inf\""]), writes);
    assert!(of_share("multilane_request_duration_seconds_sum", &["kind=\"write\""]) > 0.0);
    assert_eq!(of_share("multilane_share_served", &[]), 1.0);
    assert!(sum(&samples, "multilane_sign_ins_total", &[]) >= 1.0);
    let (used, allowed) = ("multilane_memory_used_bytes", "multilane_memory_allowed_bytes");
    assert!(sum(&samples, used, &[]) < sum(&samples, allowed, &[]));
    let version = format!("multilane_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(samples.get(&version), Some(&1.0));
    // A folder is looked at every two seconds for who asks.
    let space = || served.scrape().get("multilane_share_capacity_bytes{share=\"share\"}").copied();
    let until = std::time::Instant::now() + AN_AGE;
    while space().is_none_or(|bytes| bytes <= 0.0) {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn counters_never_go_down_whoever_comes_and_goes() {
    let served = Served::new();
    let is_counter = |series: &str| {
        ["_total", "_bucket", "_sum", "_count"].iter().any(|end| series.split('{').next().unwrap().ends_with(end))
    };
    let mut before = served.scrape();
    for round in 0..5 {
        std::thread::scope(|scope| {
            let listing = scope.spawn(|| (0..3).for_each(|_| served.list()));
            while !listing.is_finished() {
                let now = served.scrape();
                for (series, value) in before.iter().filter(|(series, _)| is_counter(series)) {
                    assert!(now.get(series).is_some_and(|later| later >= value), "round {round}: {series}");
                }
                before = now;
            }
        });
    }
    assert_eq!(sum(&before, "multilane_sign_ins_total", &[]), 15.0);
}

#[test]
fn the_address_is_shown_and_a_taken_one_is_refused() {
    let served = Served::new();
    assert_eq!(served.place.json(&["status"])["metrics"], served.metrics.to_string());
    let text = served.place.done(&["status"]);
    assert!(text.contains(&format!("metrics     http://{}/metrics\n", served.metrics)), "{text}");
    let other = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = other.run(&["serve", "--json", "--listen", "127.0.0.1:0", "--metrics", &port]);
    let refused = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{refused}");
    assert!(refused.contains(&format!("metrics cannot be told at 127.0.0.1:{port}")), "{refused}");
    assert!(refused.contains("choose another port with --metrics [ADDRESS:]PORT"), "{refused}");
    assert!(other.refused(&["serve", "--metrics", "localhost:1"], 2).contains("is no place to tell metrics"));
}

#[test]
fn without_the_option_nothing_listens_and_nothing_is_shown() {
    let place = Place::new();
    let (mut child, ready) = started(&place, &[]);
    let (status, text) = (place.json(&["status"]), place.done(&["status"]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready["metrics"].is_null() && status["metrics"].is_null() && !text.contains("metrics"), "{text}");
}

#[test]
fn a_thousand_connections_and_bad_ones_leave_the_shares_as_they_are() {
    let mut served = Served::new();
    let streams: Vec<TcpStream> = (0..1_000)
        .map(|number| {
            let mut stream = TcpStream::connect(served.metrics).unwrap();
            stream.set_read_timeout(Some(AN_AGE)).unwrap();
            // Every second one says nothing for now.
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            }
            stream
        })
        .collect();
    served.list();
    let fields = fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let resident = fields.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().trim_end_matches(" kB");
    assert!(resident.parse::<u64>().unwrap() < 256 << 10, "{resident} KiB");
    let mut answered = BTreeMap::new();
    for stream in streams {
        *answered.entry(taken(stream).0).or_insert(0) += 1;
    }
    assert!(answered.keys().all(|status| [0, 200, 408, 503].contains(status)), "{answered:?}");
    assert!(answered.get(&200).is_some_and(|count| *count > 0), "{answered:?}");
    for request in [&b"\0\xff\xfeSMB"[..], b"GET /metrics HTTP/9.9\r\n\r\n", b"GET"] {
        assert!([0, 400, 408, 505].contains(&served.exchange(request).0));
    }
    let giant =
        [b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ", vec![b'x'; 1 << 20].as_slice(), b"\r\n\r\n"].concat();
    assert!([0, 431].contains(&served.exchange(&giant).0));
    assert_eq!(served.get("/readyz").0, 200);
    served.list();
    assert!(Command::new("kill").args(["-TERM", &served.child.id().to_string()]).status().unwrap().success());
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}
