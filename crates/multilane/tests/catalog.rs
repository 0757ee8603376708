//! The catalog of the built server, where something else than a command changes it.

#[allow(dead_code)]
mod served;

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::served::Served;

/// Longer than anything takes that is waited for.
const AN_AGE: Duration = Duration::from_secs(60);

fn done(served: &Served, arguments: &[&str]) -> Output {
    let output = served.program(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn add_user(served: &Served, name: &str) {
    tell_password(served, &["user", "create", name], "a secret");
}

fn tell_password(served: &Served, words: &[&str], password: &str) {
    let mut command = served.program(&[words, &["--password-stdin"]].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    assert!(child.wait().unwrap().success());
}

fn as_alice(command: &mut Command) -> &mut Command {
    command
        .env("MULTILANE_PASSWORD", "a secret")
        .env_remove("MULTILANE_USER")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

fn alice_may_sign_in(served: &Served) -> bool {
    let there = format!("smb://alice@127.0.0.1:{}/share", served.port);
    as_alice(&mut served.program(&["ls", &there])).status().unwrap().success()
}

/// Alice writes to a file for minutes.
fn alice_writes(served: &Served) -> Child {
    let map = format!("z:=smb://alice@127.0.0.1:{}/share", served.port);
    let words = ["diskspd", "--map", &map, "-c1M", "-b4K", "-w100", "-d300", "-W0", "z:\\file"];
    as_alice(&mut served.program(&words)).spawn().unwrap()
}

fn wait_until_alice_has(served: &Served, are_there: bool) {
    let until = Instant::now() + AN_AGE;
    loop {
        let sessions: Value = serde_json::from_slice(&done(served, &["sessions", "--json"]).stdout).unwrap();
        if sessions.as_array().unwrap().iter().any(|session| session["user"] == "alice") == are_there {
            return;
        }
        assert!(Instant::now() < until, "{sessions}");
        sleep(Duration::from_millis(20));
    }
}

/// Puts a copy of the catalog in its place, as a restore does.
fn replace_catalog(served: &Served) {
    let catalog = served.folder.path().join("data/catalog.db");
    let copy = catalog.with_extension("copy");
    fs::copy(&catalog, &copy).unwrap();
    for log in ["db-wal", "db-shm"] {
        fs::remove_file(catalog.with_extension(log)).unwrap();
    }
    fs::rename(&copy, &catalog).unwrap();
}

#[test]
fn a_user_who_is_removed_from_a_catalog_that_was_replaced_is_out_at_once() {
    let served = Served::new();
    add_user(&served, "alice");
    add_user(&served, "bob");
    // Where a secret goes, all of the log goes into the catalog, which so can be copied.
    done(&served, &["user", "delete", "bob", "--force"]);
    assert!(alice_may_sign_in(&served));
    let mut writer = alice_writes(&served);
    wait_until_alice_has(&served, true);
    replace_catalog(&served);
    done(&served, &["user", "delete", "alice", "--force"]);
    let may_sign_in = alice_may_sign_in(&served);
    wait_until_alice_has(&served, false);
    assert!(!writer.wait().unwrap().success() && !may_sign_in);

    add_user(&served, "alice");
    assert!(alice_may_sign_in(&served));
}

#[test]
fn who_gets_another_password_is_out_at_once_and_comes_back_with_that_alone() {
    let served = Served::new();
    add_user(&served, "alice");
    let mut writer = alice_writes(&served);
    wait_until_alice_has(&served, true);
    tell_password(&served, &["user", "passwd", "alice"], "another one");
    wait_until_alice_has(&served, false);
    assert!(!writer.wait().unwrap().success() && !alice_may_sign_in(&served));
    tell_password(&served, &["user", "passwd", "alice"], "a secret");
    assert!(alice_may_sign_in(&served));
}

#[test]
fn who_gets_another_password_with_a_grace_is_out_when_that_is_over() {
    let mut served = Served::new();
    add_user(&served, "alice");
    let mut writer = alice_writes(&served);
    wait_until_alice_has(&served, true);
    tell_password(&served, &["user", "passwd", "alice", "--grace", "1h"], "another one");
    assert!(!alice_may_sign_in(&served));
    wait_until_alice_has(&served, true);
    tell_password(&served, &["user", "passwd", "alice", "--grace", "1s"], "a third one");
    // The password that it began with has an hour; one without a grace ends all.
    sleep(Duration::from_secs(2));
    wait_until_alice_has(&served, true);
    tell_password(&served, &["user", "passwd", "alice"], "a fourth one");
    wait_until_alice_has(&served, false);
    assert!(!writer.wait().unwrap().success());

    let key = |served: &Served| {
        let there = format!("smb://local@127.0.0.1:{}/share", served.port);
        let mut command = served.program(&["ls", &there]);
        command.env("MULTILANE_PASSWORD", &served.password).env_remove("MULTILANE_USER");
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    done(&served, &["account", "keys", "local", "--regenerate", "1", "--grace", "6s"]);
    let until = Instant::now() + Duration::from_secs(6);
    assert!(key(&served), "the old key has its time");
    served.restart();
    assert!(key(&served) || Instant::now() > until, "a restart takes nothing of it");
    let patience = Instant::now() + AN_AGE;
    while key(&served) {
        assert!(Instant::now() < patience, "the time of the old key is not over");
    }
}

#[test]
fn wrong_passwords_lock_a_user_whom_an_operator_unlocks() {
    let (mut log, writer) = std::io::pipe().unwrap();
    let mut served = Served::logging(&["--busy-poll", "off"], writer);
    add_user(&served, "alice");
    done(&served, &["server", "set", "lock-after", "3"]);
    let set = done(&served, &["server", "set", "busy-poll", "200us"]);
    assert!(String::from_utf8_lossy(&set.stderr).contains("busy-poll stays off"), "{set:?}");
    let settings: Value = serde_json::from_slice(&done(&served, &["server", "settings", "--json"]).stdout).unwrap();
    let setting = |name: &str| settings.as_array().unwrap().iter().find(|setting| setting["name"] == name).unwrap();
    assert_eq!((&setting("lock-after")["value"], &setting("lock-after")["from"]), (&json!("3"), &json!("server set")));
    assert_eq!(
        (&setting("busy-poll")["value"], &setting("busy-poll")["from"]),
        (&json!("off"), &json!("command line"))
    );
    let alice = |served: &Served| -> Value {
        serde_json::from_slice(&done(served, &["user", "show", "alice", "--json"]).stdout).unwrap()
    };
    assert_eq!((&alice(&served)["standing"], &alice(&served)["locked_seconds"]), (&json!("good"), &json!(null)));
    let there = format!("smb://alice@127.0.0.1:{}/share", served.port);
    for _ in 0..3 {
        assert!(
            !as_alice(&mut served.program(&["ls", &there])).env("MULTILANE_PASSWORD", "x").status().unwrap().success()
        );
    }
    assert_eq!(alice(&served)["standing"], json!("locked"));
    assert!((800..=900).contains(&alice(&served)["locked_seconds"].as_u64().unwrap()));
    assert!(!alice_may_sign_in(&served));
    let status: Value = serde_json::from_slice(&done(&served, &["status", "--json"]).stdout).unwrap();
    assert_eq!(status["locked_users"], json!(1));
    let unlock = |served: &Served| done(served, &["user", "unlock", "ALICE"]).stdout;
    assert_eq!(String::from_utf8(unlock(&served)).unwrap(), "ALICE: unlocked\n");
    assert_eq!(String::from_utf8(unlock(&served)).unwrap(), "ALICE: was not locked\n");
    assert!(alice_may_sign_in(&served));
    served.stop();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut log, &mut text).unwrap();
    let told = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((told("a user is locked"), told("has unlocked a user")), (1, 1), "{text}");
}

#[test]
fn a_catalog_that_goes_away_is_told_once_and_changes_nothing() {
    let (mut log, writer) = std::io::pipe().unwrap();
    let mut served = Served::logging(&[], writer);
    add_user(&served, "alice");
    let catalog = served.folder.path().join("data/catalog.db");
    let away = catalog.with_extension("away");
    fs::rename(&catalog, &away).unwrap();
    let pid = served.child.id().to_string();
    for _ in 0..3 {
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        sleep(Duration::from_millis(1_500));
    }
    assert!(alice_may_sign_in(&served) && !catalog.exists());
    fs::rename(&away, &catalog).unwrap();
    done(&served, &["user", "delete", "alice", "--force"]);
    assert!(!alice_may_sign_in(&served));
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(served.child.wait().unwrap().success());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut log, &mut text).unwrap();
    let told: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(told.len() == 1 && told[0].contains("gone") && told[0].contains("restore"), "{told:?}");
}
