//! The text, against a parser of the two formats that knows nothing of how it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::monitor::Totals;
use server::admin::{
    Api, AuditCounts, Authentication, CountersRow, CountersView, Counts, Events, LatencyKind, LimitUse, MemoryUse,
    ResponseType, Scope, StoreWait,
};

use super::shares::SHARES_MAX;
use super::*;

/// A sample by its whole name and its labels.
type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// What a text says.
#[derive(Debug, Default)]
struct Parsed {
    /// Kinds by name, as the text has them.
    kinds: BTreeMap<String, String>,
    help: BTreeMap<String, String>,
    units: BTreeMap<String, String>,
    samples: Samples,
}

impl Parsed {
    fn of(text: &str) -> Self {
        let mut parsed = Parsed::default();
        for line in text.lines() {
            match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
                ["#", "EOF"] => assert!(text.ends_with("# EOF\n")),
                ["#", "TYPE", name, kind] => assert!(parsed.kinds.insert(name.into(), kind.into()).is_none(), "{name}"),
                ["#", "HELP", name, help] => assert!(parsed.help.insert(name.into(), help.into()).is_none(), "{name}"),
                ["#", "UNIT", name, unit] => assert!(parsed.units.insert(name.into(), unit.into()).is_none(), "{name}"),
                _ => parsed.sample(line),
            }
        }
        parsed
    }

    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let pairs = labels.strip_suffix('"').into_iter().flat_map(|labels| labels.split("\","));
        let labels = pairs.map(|pair| pair.split_once("=\"").unwrap()).map(|(key, value)| (key.into(), value.into()));
        let key = (name.to_owned(), labels.collect());
        assert!(self.samples.insert(key, value.parse().unwrap()).is_none(), "{line} is there twice");
    }

    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.samples.get(&(name.to_owned(), labels.collect())).copied()
    }

    fn of_name(&self, name: &str) -> usize {
        self.samples.keys().filter(|(known, _)| known == name).count()
    }
}

/// Numbers at their slots: those of requests, in the order of APIs and responses, and those of latencies behind all others.
fn counts(requests: &[(Api, ResponseType, u64)], latencies: &[(LatencyKind, Duration, u64)]) -> Counts {
    let mut slots: Vec<(u16, u64)> = Vec::new();
    for (api, response, count) in requests {
        slots.push(((*api as usize * ResponseType::ALL.len() + *response as usize) as u16, *count));
    }
    let sums = Api::ALL.len() * ResponseType::ALL.len();
    let begin = sums + Api::ALL.len() * server::admin::Sum::ALL.len();
    for (kind, time, count) in latencies {
        let bucket = (0..server::admin::LATENCY_BUCKETS)
            .find(|bucket| server::admin::latency_bucket(*bucket).contains(time))
            .unwrap();
        slots.push(((begin + *kind as usize * server::admin::LATENCY_BUCKETS + bucket) as u16, *count));
    }
    slots.sort_unstable();
    let counts = Counts::from_parts(slots, vec![(0xC000_0034, 3), (0xC0DE_F00D, 2), (u32::MAX, 1)]).unwrap();
    assert!(requests.iter().all(|(api, response, count)| counts.requests(*api, *response) == *count));
    counts
}

fn observed(rows: Vec<CountersRow>, shares: Vec<ObservedShare>) -> Arc<Observed> {
    let events = Events { sign_ins: 5, sign_ins_refused: 2, breaks: 7, channels_bound: 4, channels_lost: 1 };
    Arc::new(Observed {
        version: "1.2.3",
        since: Duration::from_millis(1_764_435_121_250),
        counters: CountersView { at: Duration::from_secs(9), start: 1, events, rows },
        sessions: 3,
        opens: 12,
        connections: vec![2, 1],
        silent_shards: 1,
        memory: MemoryUse { used_bytes: 1 << 20, allowed_bytes: 1 << 30 },
        log: LogLoss { left_out: 8, lost: 9 },
        audit: AuditCounts { written: 20, lost: 5, lost_refused: 3 },
        catalog_is_damaged: true,
        locked_users: 4,
        data_available: Some(6 << 30),
        shares,
        rest: Totals::from([((String::from("media"), "GetFile", ResponseType::ClientOtherError), 3)]),
    })
}

fn row(scope: Scope, counts: Counts) -> CountersRow {
    CountersRow { scope, counts }
}

fn share(name: &str) -> Scope {
    Scope::Share { name: Some(name.to_owned()), authentication: Authentication::Ntlm }
}

/// A server in which everything is that can be.
fn full() -> Arc<Observed> {
    use ResponseType::{ServerOtherError, Success};
    let of_media = counts(
        &[(Api::Read, Success, 40), (Api::Read, ServerOtherError, 1), (Api::Create, Success, 2)],
        &[(LatencyKind::Read, Duration::from_micros(63), 30), (LatencyKind::Read, Duration::from_micros(64), 10)],
    );
    let others = counts(&[(Api::Write, Success, 6)], &[]);
    let of_none = counts(&[(Api::Negotiate, Success, 9)], &[(LatencyKind::Other, Duration::from_secs(60), 9)]);
    let rows = vec![
        row(Scope::Server, of_media.clone()),
        row(Scope::Share { name: None, authentication: Authentication::ALL[0] }, of_none),
        row(share("media"), of_media.clone()),
        row(Scope::Share { name: Some("media".to_owned()), authentication: Authentication::ALL[0] }, of_media),
        row(Scope::User { name: "alice".to_owned(), account: "local".to_owned() }, others.clone()),
        row(Scope::Client("192.0.2.77".parse().ok()), others.clone()),
        row(Scope::OtherShares { authentication: Authentication::Ntlm }, others),
    ];
    let limits = ObservedLimits {
        iops: Some(3_000),
        burst_iops: Some(10_000),
        burst_credits_max: Some(25_200_000),
        bytes: Some(100 << 20),
        user_iops: Some(500),
        user_bytes: Some(50 << 20),
        provisioned_bytes: Some(32 << 30),
    };
    let used = LimitUse { credits: 7, delayed_reads: 11, ..LimitUse::default() };
    let waits = Some(StoreWait { count: 8, longest: Duration::from_millis(75_500) });
    let space = Some(ObservedSpace { total: 32 << 30, free: 31 << 30 });
    let shares = vec![
        ObservedShare {
            name: "media".to_owned(),
            is_served: true,
            is_faulty: true,
            limits,
            used,
            space,
            used_bytes: Some(3 << 20),
            waits,
        },
        ObservedShare { name: "idle".to_owned(), ..ObservedShare::default() },
    ];
    observed(rows, shares)
}

fn text(observed: &Arc<Observed>, format: Format) -> String {
    Exposition::default().text(observed, format).unwrap()
}

#[test]
fn numbers_stand_at_their_metrics() {
    let text = text(&full(), Format::OpenMetrics);
    let parsed = Parsed::of(&text);
    let is = |name: &str, labels: &[(&str, &str)], value: f64| {
        assert_eq!(parsed.get(&format!("multilane_{name}"), labels), Some(value), "{name} {labels:?}\n{text}");
    };
    is("build_info", &[("version", "1.2.3")], 1.0);
    is("start_time_seconds", &[], 1_764_435_121.25);
    is("connections", &[("shard", "1")], 1.0);
    is("sign_ins_refused_total", &[], 2.0);
    is("log_lines_lost_total", &[], 9.0);
    is("audit_events_written_total", &[], 20.0);
    is("audit_events_lost_total", &[("kind", "done")], 2.0);
    is("audit_events_lost_total", &[("kind", "refused")], 3.0);
    is("errors_total", &[("status", "STATUS_OBJECT_NAME_NOT_FOUND")], 3.0);
    is("errors_total", &[("status", "other")], 3.0);
    let read = |response| [("share", "media"), ("api", "Read"), ("response", response)];
    is("requests_total", &read("Success"), 80.0);
    is("requests_total", &[("share", "*"), ("api", "Write"), ("response", "Success")], 6.0);
    is("requests_total", &[("share", ""), ("api", "Negotiate"), ("response", "Success")], 9.0);
    is("server_errors_total", &[("share", "media"), ("response", "ServerOtherError")], 2.0);
    is("server_errors_total", &[("share", "idle"), ("response", "ServerBusyError")], 0.0);
    let reads = |bound| [("share", "media"), ("kind", "read"), ("le", bound)];
    is("request_duration_seconds_bucket", &reads("0.000064"), 60.0);
    is("request_duration_seconds_bucket", &reads("0.000128"), 80.0);
    is("request_duration_seconds_bucket", &reads("+Inf"), 80.0);
    is("request_duration_seconds_count", &[("share", "media"), ("kind", "read")], 80.0);
    is("request_duration_seconds_bucket", &[("share", ""), ("kind", "other"), ("le", "4.194304")], 0.0);
    is("request_duration_seconds_bucket", &[("share", ""), ("kind", "other"), ("le", "+Inf")], 9.0);
    is("share_throttled_requests_total", &[("share", "media"), ("limit", "read")], 11.0);
    is("share_served", &[("share", "media")], 1.0);
    is("share_store_waiting", &[("share", "media")], 8.0);
    is("share_store_longest_wait_seconds", &[("share", "media")], 75.5);
    is("share_store_waiting", &[("share", "idle")], 0.0);
    is("share_served", &[("share", "idle")], 0.0);
    is("share_burst_credits", &[("share", "media")], 7.0);
    is("share_limit_bytes_per_second", &[("share", "media")], f64::from(100 << 20));
    is("share_used_bytes", &[("share", "media")], f64::from(3 << 20));
    is("share_available_bytes", &[("share", "media")], 31.0 * f64::from(1 << 30));
    assert_eq!(parsed.of_name("multilane_share_burst_credits"), 1, "who has no bursts has no credits");
    assert!(!text.contains("alice") && !text.contains("192.0.2.77") && !text.contains("local"));
}

#[test]
fn what_is_done_for_rest_is_work_and_neither_asked_nor_an_error() {
    use ResponseType::Success;
    let smb = counts(&[(Api::Create, Success, 2)], &[]);
    let inside = counts(&[(Api::Create, Success, 5)], &[(LatencyKind::Metadata, Duration::from_micros(63), 5)]);
    let mut all = smb.clone();
    all.add(&inside);
    let scope = Scope::Share { name: Some("media".to_owned()), authentication: Authentication::Inside };
    let text = text(
        &observed(vec![row(Scope::Server, all), row(share("media"), smb), row(scope, inside)], Vec::new()),
        Format::Classic,
    );
    let parsed = Parsed::of(&text);
    let is = |name: &str, labels: &[(&str, &str)], value: f64| {
        assert_eq!(parsed.get(&format!("multilane_{name}"), labels), Some(value), "{name} {labels:?}\n{text}");
    };
    let asked = |api, response| [("share", "media"), ("api", api), ("response", response)];
    is("requests_total", &asked("Create", "Success"), 2.0);
    is("rest_requests_total", &asked("GetFile", "ClientOtherError"), 3.0);
    is("request_duration_seconds_count", &[("share", "media"), ("kind", "metadata")], 5.0);
    // Each has made as many errors.
    is("errors_total", &[("status", "other")], 3.0);
}

#[test]
fn both_formats_have_the_same_samples_and_types_by_their_rules() {
    let (open, classic) = (text(&full(), Format::OpenMetrics), text(&full(), Format::Classic));
    assert!(open.ends_with("# EOF\n") && !classic.contains("# EOF") && !classic.contains("# UNIT"));
    let (open, classic) = (Parsed::of(&open), Parsed::of(&classic));
    assert_eq!(open.samples, classic.samples);
    for family in FAMILIES {
        let (name, base) = (family.name(), family.base());
        let (in_open, in_classic) = match family.kind {
            Kind::Counter => ("counter", "counter"),
            Kind::Gauge => ("gauge", "gauge"),
            Kind::Histogram => ("histogram", "histogram"),
            Kind::Info => ("info", "gauge"),
        };
        assert_eq!(open.kinds.get(&base).map(String::as_str), Some(in_open), "{base}");
        assert_eq!(classic.kinds.get(&name).map(String::as_str), Some(in_classic), "{name}");
        assert_eq!(open.help[&base], family.help);
        assert_eq!(classic.help[&name], family.help);
        if let Some(unit) = open.units.get(&base) {
            assert!(base.ends_with(&format!("_{unit}")), "{base}");
        }
    }
    assert_eq!((open.kinds.len(), classic.kinds.len()), (FAMILIES.len(), FAMILIES.len()));
}

#[test]
fn every_sample_is_of_a_metric_and_has_its_labels() {
    let parsed = Parsed::of(&text(&full(), Format::OpenMetrics));
    let mut seen = BTreeSet::new();
    for (name, labels) in parsed.samples.keys() {
        let of = |family: &&Family| match family.kind {
            Kind::Histogram => ["_bucket", "_sum", "_count"].iter().any(|part| *name == family.name() + part),
            Kind::Counter | Kind::Gauge | Kind::Info => *name == family.name(),
        };
        let family = FAMILIES.iter().find(of).unwrap_or_else(|| panic!("{name}"));
        let labels: BTreeSet<&str> = labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
        assert_eq!(labels, family.labels.iter().copied().collect(), "{name}");
        seen.insert(family.name());
    }
    let missing: Vec<_> = FAMILIES.iter().filter(|family| !seen.contains(&family.name())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn shares_beyond_the_bound_count_together_and_keep_to_their_place() {
    let mut exposition = Exposition::default();
    let one = || counts(&[(Api::Read, ResponseType::Success, 1)], &[]);
    let mut of = |names: std::ops::Range<usize>| {
        let rows = names.map(|number| row(share(&format!("s{number}")), one())).collect();
        let shares = vec![ObservedShare { name: "s5000".to_owned(), ..ObservedShare::default() }];
        Parsed::of(&exposition.text(&observed(rows, shares), Format::OpenMetrics).unwrap())
    };
    let success = |share| [("share", share), ("api", "Read"), ("response", "Success")];
    let requests = |parsed: &Parsed, share| parsed.get("multilane_requests_total", &success(share));
    // The share of the configuration has its name first.
    let first = of(0..SHARES_MAX + 10);
    assert_eq!((requests(&first, "s0"), requests(&first, "*")), (Some(1.0), Some(11.0)));
    assert_eq!(first.of_name("multilane_share_served"), 1);
    let second = of(SHARES_MAX - 2..SHARES_MAX + 20);
    let last = format!("s{}", SHARES_MAX - 2);
    assert_eq!((requests(&second, &last), requests(&second, "*")), (Some(1.0), Some(21.0)));
    assert_eq!(requests(&second, &format!("s{}", SHARES_MAX - 1)), None, "it had no place the first time");
}

#[test]
fn the_documentation_has_every_metric() {
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md")).unwrap();
    let bare = |text: &str| text.trim().trim_matches('`').to_owned();
    let rows = document.lines().filter(|line| line.starts_with("| `multilane_"));
    let documented: Vec<(String, String, BTreeSet<String>)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            assert!(cells[4].trim().ends_with('.'), "{row}");
            (bare(cells[1]), bare(cells[2]), cells[3].split(',').map(bare).filter(|label| !label.is_empty()).collect())
        })
        .collect();
    let told = FAMILIES.iter().map(|family| {
        let kind = format!("{:?}", family.kind).to_lowercase();
        (family.name(), kind, family.labels.iter().map(|label| (*label).to_owned()).collect::<BTreeSet<_>>())
    });
    let told: Vec<_> = told.collect();
    for metric in &told {
        assert!(documented.contains(metric), "{metric:?} in docs/METRICS.md");
    }
    for metric in &documented {
        assert!(told.contains(metric), "nothing tells {metric:?} of docs/METRICS.md");
    }
    assert_eq!(documented.len(), told.len(), "none is there twice");
}

/// The names of metrics in a text.
fn named_in(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    words.filter(|word| word.starts_with("multilane_")).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards");
    let known: BTreeSet<String> = FAMILIES
        .iter()
        .flat_map(|family| match family.kind {
            Kind::Histogram => ["_bucket", "_sum", "_count"].map(|part| family.name() + part).to_vec(),
            Kind::Counter | Kind::Gauge | Kind::Info => vec![family.name()],
        })
        .collect();
    let alerts = fs::read_to_string(folder.join("alerts.yml")).unwrap();
    let waited = BTreeSet::from(["multilane_waited_seconds_total".to_owned()]);
    assert!(named_in(&alerts).is_superset(&waited));
    let text = fs::read_to_string(folder.join("multilane.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expressions: Vec<&str> = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(expressions.len() > 20 && expressions.iter().all(|one| !named_in(one).is_empty()));
    for name in named_in(&alerts).union(&named_in(&text)) {
        assert!(known.contains(name), "{name}");
    }
}
