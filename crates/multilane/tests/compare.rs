//! `multilane compare` as its users run it: what it writes, what it says of bad targets, and that it leaves nothing behind.

mod served;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::served::Served;

/// Few and short runs.
const SMALL: [&str; 16] = [
    "compare",
    "--quick",
    "--op",
    "read",
    "--protection",
    "plain",
    "--channels",
    "2",
    "--rounds",
    "1",
    "--seconds",
    "0.1",
    "--file-size",
    "1M",
    "--threads",
    "1",
];
const ENDLESS: [&str; 13] = [
    "compare",
    "--workload",
    "st-single",
    "--op",
    "write",
    "--block",
    "4K",
    "--rounds",
    "1000",
    "--seconds",
    "3600",
    "--file-size",
    "1M",
];

/// A folder that everything temporary goes to.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let temporary = self.folder.path().join("temporary");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
        command.args(arguments).env("TMPDIR", temporary).env_remove("MULTILANE_USER").env_remove("MULTILANE_DATA");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Neither files nor processes of servers are left.
    fn is_clean(&self) {
        let temporary = self.folder.path().join("temporary");
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "no file is left");
        let mark = temporary.to_str().unwrap().as_bytes();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            assert!(!line.windows(mark.len()).any(|part| part == mark), "{:?} is left", String::from_utf8_lossy(&line));
        }
    }

    fn refused(&self, arguments: &[&str], password: &str, code: i32) -> String {
        let output = self.command(arguments).env("MULTILANE_PASSWORD", password).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
        self.is_clean();
        complaint
    }
}

fn place(served: &Served) -> String {
    format!("smb://local@127.0.0.1:{}/share", served.port)
}

/// Names of a comparison's files on a server's share.
fn left_on(served: &Served) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![served.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) | Err(_) if name.starts_with("multilane-compare-") => names.push(name),
                Ok(_) | Err(_) => {}
            }
        }
    }
    names
}

/// Waits until a comparison uses its files.
fn under_way(served: &Served, child: &mut Child) {
    while left_on(served).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        std::thread::yield_now();
    }
}

fn interrupt(child: &Child) {
    let process = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(process, Signal::INT).unwrap();
}

#[test]
fn it_writes_a_case_for_each_combination_and_a_page_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let [json, html, markdown] = ["result.json", "result.html", "result.md"].map(|name| bench.path(name));
    let output = bench.run(&[&SMALL[..], &["--json", &json, "--html", &html, "--markdown", &markdown]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    bench.is_clean();

    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4 * 3 * 2, "workloads, blocks, channel counts");
    for case in cases {
        for name in ["workload", "op", "protection", "server"] {
            assert!(case[name].is_string(), "{name}: {case}");
        }
        for name in
            ["block_bytes", "channels", "iops_median", "mibps_median", "client_cpu_us_per_op", "server_cpu_us_per_op"]
        {
            assert!(case[name].is_number(), "{name}: {case}");
        }
        for name in ["ratio_to_one_channel_median", "ratio_low", "ratio_high"] {
            assert!(case[name].as_f64().is_some_and(|ratio| ratio > 0.0), "{name}: {case}");
        }
        let moved = case["iops_median"].as_f64().unwrap() * case["block_bytes"].as_f64().unwrap() / f64::from(1 << 20);
        assert!((moved / case["mibps_median"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{case}");
        assert!(case["latency"]["p50_us"].as_f64() <= case["latency"]["p999_us"].as_f64(), "{case}");
        let shares: Vec<f64> = case["channel_shares"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(shares.len() as u64, case["channels"].as_u64().unwrap(), "{case}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{case}");
    }
    assert_eq!((&report["is_complete"], &report["network"]["name"]), (&true.into(), &"plain".into()));
    assert_eq!(report["summary"]["never_worse"][0]["cases"], 4 * 3);
    let limits = report["raw_limit"].as_array().unwrap();
    assert_eq!(limits.len(), 3 * 2, "blocks and connections: {limits:?}");
    assert!(limits.iter().all(|limit| limit["reached"][0]["part_median"].as_f64().is_some_and(|part| part > 0.0)));
    assert!(report["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0));

    let page = fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.matches("<svg").count() >= 4 * 4, "IOPS, throughput, latency and CPU time of each workload");
    assert_eq!(
        page.matches("<figure>").count(),
        page.matches("<table>").count() - 2,
        "each has its table; two more have all cases and all limits"
    );
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http") && !outside.contains("<script"), "it needs nothing else");

    let document = fs::read_to_string(&markdown).unwrap();
    assert!(document.contains(&format!("```\nmultilane {}\n```\n", SMALL.join(" "))), "{document}");
    assert_eq!(document.matches("\n| st-multi | read |").count(), 3, "a row for each block: {document}");
    assert!(document.contains("### Against plain TCP\n"), "{document}");
}

#[test]
fn json_goes_to_standard_output_and_nothing_else_does() {
    let bench = Bench::new();
    let few = ["--workload", "st-single", "--block", "4K", "--json", "-"];
    let output = bench.run(&[&SMALL[..], &few].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["cases"].as_array().unwrap().len(), 2);
    let before = ["--json", "compare"];
    let output = bench.run(&[&before, &SMALL[1..], &few[..4]].concat());
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
}

#[test]
fn servers_that_run_are_measured_in_turn_and_keep_no_file() {
    let (bench, first, second) = (Bench::new(), Served::new(), Served::new());
    fs::create_dir_all(bench.path("x")).unwrap();
    // Both have an account `local`, each with a key of its own: the second is asked with the first's.
    let user = |served: &Served| {
        let mut add = served.program(&["user", "create", "guestbook", "--password-stdin"]);
        let mut child = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"the same on both\n").unwrap();
        assert!(child.wait().unwrap().success());
        format!("smb://guestbook@127.0.0.1:{}/share", served.port)
    };
    let (one, other) = (user(&first), user(&second));
    let few = ["--workload", "st-multi", "--block", "4K", "--json", "-", "--server", &one, "--against", &other];
    let mut command = bench.command(&[&SMALL[..], &few].concat());
    let output = command.env("MULTILANE_PASSWORD", "the same on both").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let against = report["summary"]["against"].as_array().unwrap();
    assert_eq!(against.len(), 2, "one and two channels: {against:?}");
    assert!(against.iter().all(|row| row["ratio_median"].as_f64().is_some_and(|ratio| ratio > 0.0)));
    let notes = report["notes"].to_string();
    assert_eq!(notes.matches("insists on signing").count(), 2, "once for each server: {notes}");
    assert!(report["cases"][0]["server_cpu_us_per_op"].is_null(), "only a server that we started tells its CPU time");
    assert_eq!((left_on(&first), left_on(&second)), (vec![], vec![]));
    bench.is_clean();
}

#[test]
fn bad_targets_get_a_sentence_and_leave_nothing_behind() {
    let (bench, served) = (Bench::new(), Served::new());
    let at = place(&served);
    let refused = |target: &str, password: &str, code| {
        bench.refused(&[&SMALL[..], &["--server", target]].concat(), password, code)
    };
    assert!(refused(&at, "wrong", 1).contains("password"));
    assert!(refused("smb://local@127.0.0.1:1/share", "x", 1).contains("port"));
    assert!(refused(&at.replace("/share", "/other"), &served.password, 1).contains("share"));
    assert!(refused(&format!("{at}/no/such/folder"), &served.password, 1).contains("path"));
    assert!(refused("nas", "x", 2).contains("smb://"));
    let read_only = ["share", "update", "share", "--read-only", "on"];
    assert!(served.program(&read_only).stdout(Stdio::null()).status().unwrap().success());
    assert!(!refused(&at, &served.password, 1).is_empty());
    let ours = |arguments: &[&str], code| bench.refused(&[&["compare"], arguments].concat(), "", code);
    assert!(ours(&["--network", "ring"], 2).contains("d32s-v3"));
    let away = bench.refused(&["compare", "--network", "rss", "--against", &at], &served.password, 2);
    assert!(away.contains("--network"), "{away}");
    assert!(ours(&["--block", "1000"], 2).contains("512"));
    assert!(ours(&["--file-size", "4K"], 2).contains("--file-size"));
    assert!(ours(&["--channels", "33"], 2).contains("--channels"));
    assert!(ours(&["--json", "/no/such/folder/x"], 1).contains("path"));
    assert!(ours(&["--json", "-", "--markdown", "-"], 2).contains("--markdown"));
}

#[test]
fn a_server_that_stops_in_the_middle_ends_the_comparison() {
    let (bench, mut served) = (Bench::new(), Served::new());
    let at = place(&served);
    let mut command = bench.command(&[&ENDLESS[..], &["--server", &at]].concat());
    let mut child = command.env("MULTILANE_PASSWORD", &served.password).spawn().unwrap();
    under_way(&served, &mut child);
    served.child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("\nhelp: "), "{complaint}");
    bench.is_clean();
}

#[test]
fn ctrl_c_ends_it_and_leaves_nothing_behind() {
    let (bench, served) = (Bench::new(), Served::new());
    let at = place(&served);
    let mut command = bench.command(&[&ENDLESS[..], &["--against", &at]].concat());
    let mut child = command.env("MULTILANE_PASSWORD", &served.password).spawn().unwrap();
    // Our own server runs by then, too.
    under_way(&served, &mut child);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left_on(&served), Vec::<String>::new());
    bench.is_clean();
}

/// Namespaces that a process made.
fn namespaces(owner: u32) -> usize {
    let mark = format!("multilane-{owner}.");
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    names.filter(|name| name.file_name().to_string_lossy().starts_with(&mark)).count()
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("only root can make network namespaces");
    }
    root
}

#[test]
fn a_simulated_network_lies_between_client_and_server_and_goes() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let few = ["--workload", "st-single", "--block", "64K", "--network", "quad", "--json", "-"];
    let child = bench.command(&[&SMALL[..], &few].concat()).spawn().unwrap();
    let owner = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["network"]["name"], "quad");
    assert!(report["network"]["description"].as_str().is_some_and(|text| text.contains("four links")));
    assert_eq!(report["cases"].as_array().unwrap().len(), 2, "{}", report["notes"]);
    assert_eq!(namespaces(owner), 0);
    bench.is_clean();
}

#[test]
fn ctrl_c_removes_a_simulated_network() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let mut child = bench.command(&[&ENDLESS[..], &["--network", "rss"]].concat()).spawn().unwrap();
    while namespaces(child.id()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        std::thread::yield_now();
    }
    interrupt(&child);
    let owner = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(namespaces(owner), 0);
    bench.is_clean();
}

#[test]
fn samba_is_started_beside_it_and_taken_away() {
    if !Path::new("/usr/sbin/smbd").exists() {
        eprintln!("Samba is not installed");
        return;
    }
    let bench = Bench::new();
    let few = ["--workload", "st-single", "--block", "4K", "--against", "samba", "--json", "-"];
    let output = bench.run(&[&SMALL[..], &few].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    bench.is_clean();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["servers"][1]["name"], "samba");
    assert!(report["cases"].as_array().unwrap().iter().all(|case| case["server_cpu_us_per_op"].is_number()));
    assert_eq!(report["summary"]["against"].as_array().unwrap().len(), 2, "{}", report["notes"]);
}
