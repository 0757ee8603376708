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
    writeln!(child.stdin.take().unwrap(), "a secret").unwrap();
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
    // Nobody sits at a terminal who could be asked: what cannot be undone wants --force.
    for words in [["group", "delete", "crew"], ["user", "delete", "alice"]] {
        let refused = place.refused(&words, 1);
        assert!(refused.contains("stays as it is") && refused.contains("--force"), "{refused}");
    }
    let share = place.json(&["share", "show", "hr"]);
    assert_eq!(share["may_connect"], json!([{ "who": "crew", "right": "change" }]));
    let said = place.done(&["share", "show", "hr"]);
    assert!(said.contains("connect      crew (change), and the keys of account abc\n"), "{said}");
    place.done(&["group", "delete", "crew", "--force"]);
    let said = place.done(&["share", "show", "hr"]);
    assert!(said.contains("connect      nobody but the keys of account abc\n"), "{said}");
    assert_eq!(place.json(&["user", "show", "alice"])["shares"], json!([{ "share": "open", "right": "read" }]));
    let taken = place.refused(&["user", "create", "Domain Users", "--password-stdin"], 2);
    assert!(taken.contains("means somebody else to clients"), "{taken}");
}

#[test]
fn a_new_password_has_as_many_characters_as_the_server_wants() {
    let place = Place::with_account();
    alice::add_user(&place, "alice");
    let passwd = |password: &str| {
        let mut command = place.command(&["user", "passwd", "alice", "--password-stdin"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = passwd("seven77");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("7 characters") && said.contains("8 at least") && said.contains("password-length-min"),
        "{said}"
    );
    assert_eq!(passwd("größer 8").0, Some(0), "characters count, not bytes");
    place.done(&["server", "set", "password-length-min", "12"]);
    let settings = place.json(&["server", "settings"]);
    let kept = settings.as_array().unwrap().iter().find(|one| one["name"] == "password-length-min").unwrap();
    assert_eq!((&kept["value"], &kept["from"], &kept["live"]), (&json!("12"), &json!("server set"), &json!(true)));
    assert_eq!(passwd("eleven chars").0, Some(0));
    assert_eq!(passwd("eleven char").0, Some(2));
    assert!(place.refused(&["server", "set", "password-length-min", "65"], 2).contains("1 to 64"));
    place.done(&["server", "set", "password-length-min", "1"]);
    assert_eq!(passwd("1").0, Some(0));
    place.done(&["server", "unset", "password-length-min"]);
    assert_eq!(passwd("1").0, Some(2));
}
