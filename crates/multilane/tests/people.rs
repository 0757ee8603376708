//! People of the built server: what commands say of them and of their sessions.

#[allow(dead_code)]
mod alice;
#[allow(dead_code)]
mod place;
mod started;

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::alice::with_alice;
use crate::place::Place;

/// What `user passwd alice` says, with the password that she has.
fn given_the_same_password(place: &Place) -> String {
    let mut command = place.command(&["user", "passwd", "alice", "--password-stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "secret").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_say_how_many_sessions_have_ended_and_end_those_of_one_user() {
    let (place, server) = with_alice();
    assert_eq!(place.done(&["user", "disable", "alice"]), "alice: disabled; there was no session\n");
    assert_eq!(place.done(&["user", "enable", "alice"]), "alice: enabled\n");
    let mut writer = server.alice_writes(&place, "fast");
    assert_eq!(given_the_same_password(&place), "alice: has another password; no session has ended\n");
    assert_eq!(
        place.done(&["user", "rename", "alice", "alice"]),
        "alice: was alice; the SID stays; no session has ended\n"
    );
    let refused = place.refused(&["close", "sessions", "--user", "nobody"], 1);
    assert!(refused.contains("\"nobody\" has no session"), "{refused}");
    assert_eq!(place.done(&["close", "sessions", "--user", "ALICE"]), "closed 1 session of ALICE\n");
    let _ = writer.kill();
    let _ = writer.wait();
    let mut writer = server.alice_writes(&place, "fast");
    let said = place.done(&["user", "expire", "alice", "2020-01-01"]);
    assert_eq!(said, "alice: has expired at 2020-01-02T00:00:00Z; 1 session has ended\n");
    let said = place.done(&["user", "enable", "alice"]);
    assert!(said.contains("enabled, but it has expired: `multilane user expire alice never`"), "{said}");
    let _ = writer.kill();
    let _ = writer.wait();
    server.end();
    assert_eq!(
        place.done(&["user", "disable", "alice"]),
        "alice: disabled; no server runs, which could have sessions\n"
    );
}

#[test]
fn a_user_is_shown_with_shares_and_a_group_keeps_its_rights_under_another_name() {
    let place = Place::with_account();
    alice::add_user(&place, "alice");
    place.done(&["share", "create", "hr", "--ram", "1M"]);
    place.done(&["share", "create", "open", "--ram", "1M"]);
    place.done(&["group", "create", "staff"]);
    place.done(&["group", "add", "staff", "alice"]);
    place.done(&["share", "grant", "open", "everyone", "read"]);
    // A note tells that it is closed to others.
    assert!(place.run(&["share", "grant", "hr", "staff", "change"]).status.success());
    assert_eq!(place.done(&["group", "rename", "staff", "crew"]), "renamed group crew\n");
    let shown = place.json(&["user", "show", "alice"]);
    let shares = json!([{ "share": "hr", "right": "change" }, { "share": "open", "right": "read" }]);
    assert_eq!((&shown["groups"], &shown["shares"]), (&json!(["crew"]), &shares));
    let said = place.done(&["user", "show", "alice"]);
    assert!(said.contains("shares:   hr (change), open (read)\n"), "{said}");
    assert!(place.done(&["user", "list"]).contains("never"));
    let share = place.json(&["share", "show", "hr"]);
    assert_eq!(share["may_connect"], json!([{ "who": "crew", "right": "change" }]));
    let said = place.done(&["share", "show", "hr"]);
    assert!(said.contains("connect      crew (change), and the keys of account abc\n"), "{said}");
    // Nobody sits at a terminal who could be asked.
    place.done(&["group", "delete", "crew"]);
    assert_eq!(place.json(&["user", "show", "alice"])["shares"], json!([{ "share": "open", "right": "read" }]));
    let taken = place.refused(&["user", "create", "Domain Users", "--password-stdin"], 2);
    assert!(taken.contains("means somebody else to clients"), "{taken}");
}
