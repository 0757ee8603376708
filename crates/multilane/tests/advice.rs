//! `multilane advise` and `multilane doctor`, against the built server on a loopback port.

mod served;

use std::process::{Output, Stdio};

use serde_json::Value;

use crate::served::Served;

/// The program as a client of a server.
fn run(served: &Served, arguments: &[&str]) -> Output {
    let mut command = served.program(arguments);
    command.env("MULTILANE_PASSWORD", &served.password).env_remove("MULTILANE_USER").output().unwrap()
}

/// What it prints as JSON, and its exit code.
fn json(served: &Served, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = run(served, &[arguments, &["--json"]].concat());
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let shown = serde_json::from_slice(&output.stdout);
    (shown.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {complaint}")), output.status.code())
}

fn refused(served: &Served, arguments: &[&str], code: i32) -> String {
    let output = run(served, arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
    assert!(complaint.contains("error: "), "{complaint}");
    complaint
}

fn at(served: &Served, path: &str) -> String {
    format!("smb://local@127.0.0.1:{}{path}", served.port)
}

fn switch(served: &Served, multichannel: &str) {
    let arguments = ["account", "update", "local", "--multichannel", multichannel];
    assert!(served.program(&arguments).stdout(Stdio::null()).status().unwrap().success());
}

fn share_ram(served: &Served, name: &str) {
    let arguments = ["share", "create", name, "--ram", "256M"];
    assert!(served.program(&arguments).stdout(Stdio::null()).status().unwrap().success());
}

/// The findings of one check.
fn of<'a>(shown: &'a Value, check: &str) -> Vec<&'a Value> {
    shown["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check).collect()
}

fn is_empty(served: &Served, share: &str) -> bool {
    json(served, &["ls", &at(served, share)]).0.as_array().unwrap().is_empty()
}

#[test]
fn a_server_with_multichannel_off_is_found() {
    let served = Served::new();
    switch(&served, "off");
    let (shown, code) = json(&served, &["doctor", &at(&served, "/share")]);
    let found = of(&shown, "multichannel");
    assert_eq!((found.len(), &found[0]["severity"]), (1, &"problem".into()), "{shown}");
    assert!(found[0]["remedy"].as_str().unwrap().contains("--multichannel on"), "{shown}");
    assert_eq!((code, shown["problems"].as_u64().unwrap() > 0), (Some(1), true));
    switch(&served, "on");
    let (shown, _) = json(&served, &["doctor", &at(&served, "/share")]);
    assert_eq!(of(&shown, "multichannel")[0]["severity"], "ok", "{shown}");
}

#[test]
fn a_client_with_multichannel_off_is_found() {
    let served = Served::new();
    let (shown, code) = json(&served, &["doctor", &at(&served, ""), "--channels", "1"]);
    let found = of(&shown, "multichannel");
    assert!(code == Some(1) && found[0]["what"].as_str().unwrap().contains("at this client"), "{shown}");
}

#[test]
fn addresses_that_are_told_but_cannot_be_reached_are_found() {
    let served = Served::with(&["--advertise", "127.0.0.2", "--advertise", "127.0.0.1"]);
    let (shown, code) = json(&served, &["doctor", &at(&served, "")]);
    let problems: Vec<_> = of(&shown, "addresses").into_iter().filter(|found| found["severity"] == "problem").collect();
    assert_eq!((code, problems.len()), (Some(1), 1), "{shown}");
    assert!(problems[0]["what"].as_str().unwrap().contains("127.0.0.2"), "{shown}");
}

#[test]
fn every_finding_has_its_evidence_and_every_problem_its_remedy() {
    let served = Served::new();
    for arguments in [&["doctor"][..], &["doctor", &at(&served, ""), "--seal"]] {
        let (shown, code) = json(&served, arguments);
        let findings = shown["findings"].as_array().unwrap();
        let problems = findings.iter().filter(|finding| finding["severity"] == "problem");
        assert_eq!(shown["problems"], problems.clone().count(), "{shown}");
        assert_eq!(code, Some(i32::from(shown["problems"] != 0)), "{shown}");
        assert!(findings.iter().all(|finding| !finding["evidence"].as_str().unwrap().is_empty()), "{shown}");
        assert!(problems.into_iter().all(|finding| finding["remedy"].is_string()), "{shown}");
    }
    let (shown, _) = json(&served, &["doctor", &at(&served, ""), "--seal"]);
    assert!(of(&shown, "sealing")[0]["evidence"].as_str().unwrap().contains("AES-128-GCM in use"), "{shown}");
}

#[test]
fn a_disk_is_judged_only_where_a_file_may_be_written_and_none_stays() {
    let served = Served::new();
    share_ram(&served, "ram");
    let (shown, _) = json(&served, &["doctor", &at(&served, "/share")]);
    assert_eq!(of(&shown, "disk")[0]["severity"], "note", "{shown}");
    let with_file = ["doctor", &at(&served, "/share"), "--write-test", "--ram-share", "ram"];
    let (shown, _) = json(&served, &with_file);
    assert!(of(&shown, "disk")[0]["evidence"].as_str().unwrap().contains("RAM disk"), "{shown}");
    assert!(is_empty(&served, "/share") && is_empty(&served, "/ram"));
}

#[test]
fn advice_follows_from_a_description_alone() {
    let served = Served::new();
    let described = ["advise", "--threads", "1", "--files", "1", "--block", "4K", "--write", "100"];
    let (shown, code) = json(&served, &described);
    assert_eq!((code, &shown["multichannel"]), (Some(0), &"either".into()), "{shown}");
    assert_eq!(shown["workload"]["block_bytes"], 4096);
    let advice = shown["advice"].as_array().unwrap();
    let subjects: Vec<_> = advice.iter().map(|advice| advice["subject"]["name"].as_str().unwrap()).collect();
    assert!(subjects.contains(&"multichannel") && subjects.contains(&"in_flight"), "{shown}");
    for advice in advice {
        let (low, high) = (advice["gain"]["low"].as_f64().unwrap(), advice["gain"]["high"].as_f64().unwrap());
        assert!(low > 0.0 && low <= high, "{advice}");
        assert!(!advice["evidence"].as_array().unwrap().is_empty() && !advice["source"].is_null(), "{advice}");
    }
    let text = String::from_utf8(run(&served, &described).stdout).unwrap();
    assert!(text.starts_with("Multichannel: ") && text.contains("\n1. "), "{text}");
}

#[test]
fn advice_for_a_server_says_what_is_off_there() {
    let served = Served::new();
    switch(&served, "off");
    let (shown, _) = json(&served, &["advise", &at(&served, "")]);
    assert_eq!(shown["surroundings"]["multichannel"], "off_at_server", "{shown}");
    assert!(shown["surroundings"]["latency_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_workload_is_tried_with_one_channel_and_with_several_and_leaves_nothing() {
    let served = Served::new();
    share_ram(&served, "ram");
    assert!(run(&served, &["mkdir", &at(&served, "/ram/deep")]).status.success());
    let tried = ["advise", &at(&served, "/ram/deep"), "--measure", "--channels", "3", "--files", "2", "--write", "50"];
    let (shown, _) = json(&served, &tried);
    let measured = &shown["surroundings"]["measured"];
    assert_eq!((&measured["channels"], &measured["rounds"]), (&3.into(), &5.into()), "{shown}");
    let of = |name: &str| measured[name].as_f64().unwrap();
    assert!(
        of("ratio_low") <= of("ratio") && of("ratio") <= of("ratio_high") && of("one_channel_iops") > 0.0,
        "{shown}"
    );
    assert!(is_empty(&served, "/ram/deep"));
}

#[test]
fn bad_input_is_told_in_a_sentence() {
    let served = Served::new();
    let absent = "smb://local@127.0.0.1:1/share";
    let (nobody, no_share) = (format!("smb://nobody@127.0.0.1:{}/share", served.port), at(&served, "/nothing"));
    for (command, code) in [("doctor", 2), ("advise", 1)] {
        assert!(refused(&served, &[command, absent], code).contains("check the server's name and port"));
        assert!(refused(&served, &[command, &nobody], code).contains("check the user name and the password"));
        assert!(refused(&served, &[command, &no_share], code).contains("check the name of the share"));
        assert!(refused(&served, &[command, "nas"], 2).contains("smb://"));
    }
    assert!(refused(&served, &["doctor", &at(&served, ""), "--write-test"], 2).contains("needs a share"));
    assert!(refused(&served, &["advise", &at(&served, ""), "--measure"], 2).contains("needs a share"));
    assert!(refused(&served, &["advise", "--measure"], 2).contains("SERVER"));
    for wrong in [["--block", "0"], ["--block", "9M"], ["--threads", "0"], ["--write", "101"], ["--provisioned", "7"]] {
        refused(&served, &["advise", wrong[0], wrong[1]], 2);
    }
}
