//! `multilane top` on a running server.

mod served;

use std::thread;
use std::time::Duration;

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
