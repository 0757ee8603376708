//! `multilane compare --metadata` as its users run it: what it writes, that every operation succeeded, and that it leaves nothing behind.

mod served;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::served::Served;

const WORKLOADS: [&str; 5] = ["create", "open", "stat", "delete", "small-files"];
/// Few and short turns.
const SMALL: [&str; 15] = [
    "compare",
    "--metadata",
    "--quick",
    "--clients",
    "1",
    "--clients",
    "2",
    "--files",
    "120",
    "--rounds",
    "1",
    "--seconds",
    "0.05",
    "--outstanding",
    "2",
];

fn command(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
    command.args(SMALL).args(arguments).env("TMPDIR", folder.path());
    command.env_remove("MULTILANE_USER").env_remove("MULTILANE_DATA").env_remove("MULTILANE_PASSWORD");
    command.stdin(Stdio::null());
    command
}

fn report(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// All cases of a server with this caching, each of which did something that took a time and went over the network.
fn check_cases(report: &Value, server: &str, caching: &Value) {
    let of = |case: &&Value| case["server"] == server && case["caching"] == *caching;
    let cases: Vec<&Value> = report["cases"].as_array().unwrap().iter().filter(of).collect();
    let expected = WORKLOADS.iter().flat_map(|workload| [(*workload, 1), (*workload, 2)]);
    let found = cases.iter().map(|case| (case["workload"].as_str().unwrap(), case["clients"].as_i64().unwrap()));
    assert!(found.eq(expected), "{cases:?}");
    for case in cases {
        let latency = ["mean_us", "p50_us", "p99_us"].map(|name| case["latency"][name].as_f64().unwrap());
        assert!(latency.iter().all(|latency| *latency > 0.0) && latency[1] <= latency[2], "{case}");
        assert!(case["operations"].as_u64().unwrap() > 0, "{case}");
        assert!(case["operations_per_second_median"].as_f64().unwrap() > 0.0, "{case}");
        let bytes = case["network_bytes_per_operation"].as_f64().unwrap();
        let data = if case["workload"] == "small-files" { 4096.0 } else { 0.0 };
        assert!((data + 200.0..data + 4096.0).contains(&bytes), "requests and their answers: {case}");
        let moved = case["operations_per_second_median"].as_f64().unwrap() * bytes / f64::from(1 << 20);
        assert!((moved / case["network_mibps_median"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{case}");
        assert_eq!((&case["depth"], &case["rounds"]), (&2.into(), &1.into()));
    }
}

#[test]
fn it_measures_each_workload_with_caching_off_and_on_and_says_that_the_store_is_simulated() {
    let (folder, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [html, markdown] =
        ["result.html", "result.md"].map(|name| results.path().join(name).to_str().unwrap().to_owned());
    let written = ["--store-latency", "0.5", "--json", "-", "--html", &html, "--markdown", &markdown];
    let report = report(&mut command(&folder, &written));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");

    assert_eq!(report["cases"].as_array().unwrap().len(), WORKLOADS.len() * 2 * 2, "workloads, clients, caching");
    check_cases(&report, "multilane", &"off".into());
    check_cases(&report, "multilane", &"on".into());
    let made = |case: &&Value| case["workload"] == "create";
    for case in report["cases"].as_array().unwrap().iter().filter(made) {
        assert!(
            case["latency"]["p50_us"].as_f64().unwrap() > 500.0,
            "whatever is cached, a file is made far away: {case}"
        );
    }
    let effects = report["effects"].as_array().unwrap();
    assert_eq!(effects.len(), WORKLOADS.len() * 2);
    for effect in effects {
        for name in ["latency_mean", "latency_p99", "operations_per_second", "network_mibps", "chance"] {
            let ratio = ["low", "median", "high"].map(|end| effect[name][end].as_f64().unwrap());
            assert!(ratio[0] > 0.0 && ratio[0] <= ratio[1] && ratio[1] <= ratio[2], "{name}: {effect}");
        }
    }
    let method = &report["method"];
    assert_eq!((&method["files"], &method["folders"], &method["depth"]), (&120.into(), &2.into(), &2.into()));
    assert_eq!(method["store_latency_ms"], 0.5);
    assert!(method["description"].as_str().unwrap().contains("simulated"), "{method}");
    assert!(report["servers"][0]["about"].as_str().unwrap().contains("simulated latency of 0.5 ms"));
    assert!(report["notes"][0].as_str().unwrap().contains("is simulated"));
    assert_eq!((&report["is_complete"], &report["against"]), (&true.into(), &Value::Array(vec![])));

    let page = fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert_eq!(page.matches("<svg").count(), WORKLOADS.len() * 3, "latency, IOPS and throughput of each workload");
    assert!(page.contains("caching off") && page.contains("caching on") && page.contains("is simulated"));
    let document = fs::read_to_string(&markdown).unwrap();
    assert!(document.contains(&format!("multilane {} --store-latency 0.5\n", SMALL.join(" "))), "{document}");
}

#[test]
fn a_server_that_runs_is_measured_as_it_is_and_keeps_no_file() {
    let (folder, served) = (tempfile::tempdir().unwrap(), Served::new());
    let other = format!("smb://local@127.0.0.1:{}/share", served.port);
    let mut command = command(&folder, &["--json", "-", "--against", &other]);
    let report = report(command.env("MULTILANE_PASSWORD", &served.password));
    let name = format!("127.0.0.1:{}", served.port);
    check_cases(&report, "multilane", &"on".into());
    check_cases(&report, &name, &Value::Null);
    let against = report["against"].as_array().unwrap();
    assert_eq!(against.len(), WORKLOADS.len() * 2 * 2, "workloads, clients, caching of ours");
    assert!(against.iter().all(|row| row["operations_per_second"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0)));
    let list = served.program(&["ls", &other]).env("MULTILANE_PASSWORD", &served.password).output().unwrap();
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    assert!(!String::from_utf8_lossy(&list.stdout).contains("multilane-compare"), "nothing is left on it");
}

#[test]
fn options_of_the_other_comparison_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (&["--workload", "mt-multi"][..], "--workload"),
        (&["--channels", "2"], "--channels"),
        (&["--clients", "65"], "--clients"),
        (&["--store-latency", "0"], "milliseconds"),
        (&["--server", "smb://a@b/c", "--store-latency", "1"], "--store-latency"),
    ] {
        let output = command(&folder, arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(told), "{arguments:?}: {complaint}");
    }
    let alone =
        Command::new(env!("CARGO_BIN_EXE_multilane")).args(["compare", "--store-latency", "1"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "it needs --metadata");
}
