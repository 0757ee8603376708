//! `multilane top` on a running server.

mod served;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::served::Served;

#[test]
fn top_shows_what_is_done_meanwhile_and_nothing_else() {
    let served = Served::new();
    let look = |arguments: &[&str]| {
        let shown = served.program(&[&["top", "--once"], arguments].concat()).output().unwrap();
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        shown.stdout
    };
    let shown: Value = serde_json::from_slice(&look(&["--json"])).unwrap();
    assert_eq!(shown["server"]["requests"], 0);
    let copied = thread::scope(|scope| {
        let copying = scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            let file = served.folder.path().join("file");
            std::fs::write(&file, vec![7; 3 << 20]).unwrap();
            let to = format!("smb://local@127.0.0.1:{}/share/file", served.port);
            let mut copy = served.program(&["cp", file.to_str().unwrap(), &to]);
            copy.env("MULTILANE_PASSWORD", &served.password).output().unwrap()
        });
        let shown: Value = serde_json::from_slice(&look(&["--json", "--seconds", "5"])).unwrap();
        let copied = copying.join().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        shown
    });
    let of = |list: &str, name: &str| {
        let all = copied[list].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} of {all:?}")).clone()
    };
    for numbers in [of("shares", "share"), of("users", "local"), of("clients", "127.0.0.1"), copied["server"].clone()] {
        let mib = numbers["written_mib_s"].as_f64().unwrap() * copied["seconds"].as_f64().unwrap();
        assert!((mib - 3.0).abs() < 0.001, "{mib}");
        assert!(numbers["p99_us"].as_f64().unwrap() > 0.0);
    }
    assert!(String::from_utf8(look(&[])).unwrap().contains("THROTTLED"));
}

#[test]
fn top_needs_a_server() {
    let served = Served::new();
    let mut elsewhere = served.program(&["top", "--once"]);
    let folder = tempfile::tempdir().unwrap();
    let shown = elsewhere.env("MULTILANE_DATA", folder.path()).output().unwrap();
    assert_eq!(shown.status.code(), Some(1));
}

/// In a terminal that `script` makes, from util-linux.
#[test]
fn the_live_view_shows_the_server_and_leaves_the_terminal_as_it_was() {
    let served = Served::new();
    let mut script = Command::new("script");
    let top = format!("stty rows 40 cols 120; exec '{}' top", env!("CARGO_BIN_EXE_multilane"));
    script
        .args(["-qec", &top, "/dev/null"])
        .env("MULTILANE_DATA", served.folder.path().join("data"))
        .env("TERM", "xterm");
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut shown) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut screen = Vec::new();
    let begun = Instant::now();
    let mut until = |text: &str| {
        while !String::from_utf8_lossy(&screen).contains(text) {
            let mut more = [0; 4096];
            let length = shown.read(&mut more).unwrap();
            // It writes each second.
            assert!(
                length > 0 && begun.elapsed() < Duration::from_secs(60),
                "no {text} in {}",
                String::from_utf8_lossy(&screen)
            );
            screen.extend_from_slice(&more[..length]);
        }
        screen.clear();
    };
    // Only what changes is written: single words are looked for. The first numbers, the list of sessions, the keys; then the terminal is left.
    until("sign-ins");
    for (key, text) in [("4", "SESSION"), ("?", "another"), ("xq", "\u{1b}[?1049l")] {
        keys.write_all(key.as_bytes()).unwrap();
        until(text);
    }
    assert!(script.wait().unwrap().success());
}

#[test]
fn the_live_view_needs_a_terminal() {
    let served = Served::new();
    let refused = served.program(&["top"]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && error.contains("multilane top --once"), "{error}");
}
