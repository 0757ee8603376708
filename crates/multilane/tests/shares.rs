//! Shares of the built server that get another folder or name, or lie where they cannot be served.

#[allow(dead_code)]
mod alice;
mod place;
mod started;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::alice::{Server, text, wait_until, with_alice};
use crate::place::Place;

#[test]
fn a_share_without_a_named_folder_goes_with_its_files_unless_it_is_kept() {
    let place = Place::with_account();
    place.done(&["share", "create", "docs"]);
    let made = place.json(&["share", "show", "docs"])["path"].clone();
    let folder = PathBuf::from(made.as_str().unwrap());
    fs::write(folder.join("file"), "text").unwrap();
    let refused = place.refused(&["share", "delete", "docs"], 1);
    assert!(refused.contains("would go with it") && folder.join("file").exists(), "{refused}");

    place.done(&["account", "update", "abc", "--share-retention", "7"]);
    let said = place.done(&["share", "delete", "docs"]);
    assert!(said.contains("share undelete"), "{said}");
    assert!(place.done(&["share", "list"]).contains("1 deleted share is kept"));
    let kept = place.json(&["share", "list", "--deleted"]);
    assert_eq!((kept[0]["name"].as_str(), &kept[0]["path"]), (Some("docs"), &made));
    let version = kept[0]["version"].as_str().unwrap();
    place.done(&["share", "undelete", "docs", "--version", version, "--name", "papers"]);
    assert_eq!(place.json(&["share", "show", "papers"])["path"], made);
    assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "text");

    place.done(&["share", "delete", "papers"]);
    place.done(&["share", "purge", "papers", "--force"]);
    assert!(!folder.exists());
    assert_eq!(place.json(&["share", "list", "--deleted"]), json!([]));
    place.done(&["account", "update", "abc", "--share-retention", "off"]);
    place.done(&["share", "create", "docs"]);
    let said = place.done(&["share", "delete", "docs", "--force"]);
    assert!(said.contains("gone with its files") && !said.contains("--path"), "{said}");
    assert_eq!(fs::read_dir(place.data.join("shares")).unwrap().count(), 1, "but for what holds those that go");
}

#[test]
fn to_ask_nothing_about_a_snapshot_is_not_to_override_a_lease() {
    let place = Place::with_account();
    place.done(&["share", "create", "docs"]);
    let words = ["share", "delete-snapshot", "docs", "2026-01-01T00:00:00.0000000Z"];
    let refused = place.refused(&words, 1);
    assert!(refused.contains("there is no terminal to ask at") && refused.contains("say --yes where"), "{refused}");
    for option in ["--yes", "--force"] {
        let refused = place.refused(&[&words[..], &[option]].concat(), 1);
        assert!(refused.contains("has no snapshot"), "{refused}");
    }
}

#[test]
fn a_share_has_another_folder_and_another_name_and_what_is_open_is_closed_only_where_that_is_wanted() {
    let (place, server) = with_alice();
    let new = place.place.path().join("new");
    fs::create_dir(&new).unwrap();
    fs::write(new.join("here"), "").unwrap();
    let mut writer = server.alice_writes(&place, "share");
    for change in
        [&["--path", text(&new)][..], &["--name", "documents"], &["--path", text(&new), "--name", "documents"]]
    {
        let refused = place.refused(&[&["share", "update", "share"], change].concat(), 1);
        assert!(
            refused.contains("open on share share, and nothing is changed") && refused.contains("--force"),
            "{refused}"
        );
    }
    let refused = place.refused(&["share", "delete", "share"], 1);
    assert!(refused.contains("open on share share") && refused.contains("--force"), "{refused}");
    assert!(writer.try_wait().unwrap().is_none(), "nothing has ended");
    // What closes nothing is not asked for.
    place.done(&["share", "update", "share", "--comment", "ours"]);

    let words = ["share", "update", "share", "--path", text(&new), "--name", "documents", "--force"];
    place.done(&words);
    assert!(!writer.wait().unwrap().success());
    assert!(!server.lets_alice_list(&place, "share"));
    let there = format!("smb://alice@127.0.0.1:{}/documents", server.port);
    let listed = place.command(&["ls", &there]).env("MULTILANE_PASSWORD", "a secret").output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&listed).contains("here"), "{}", String::from_utf8_lossy(&listed));
    let shown = place.json(&["share", "show", "documents"]);
    assert_eq!(
        (shown["path"].as_str(), shown["comment"].as_str()),
        (Some(text(&fs::canonicalize(&new).unwrap())), Some("ours"))
    );

    let mut writer = server.alice_writes(&place, "fast");
    place.refused(&["share", "delete", "fast"], 1);
    let said = place.done(&["share", "delete", "fast", "--force"]);
    assert!(said.contains("are gone"), "{said}");
    assert!(!writer.wait().unwrap().success());
    assert!(place.done(&["share", "delete", "documents"]).contains("are still there"));
}

#[test]
fn a_share_is_given_no_folder_and_no_name_that_it_could_not_have_been_made_with() {
    let place = Place::with_account();
    let at = |name: &str| place.place.path().join(name);
    fs::create_dir(at("files")).unwrap();
    place.done(&["share", "create", "files", "--path", text(&at("files"))]);
    place.done(&["share", "create", "fast", "--ram", "1M"]);
    let shown = place.json(&["share", "list"]);
    assert!(
        place.refused(&["share", "update", "files", "--path", text(&place.data)], 2).contains("keys of every account")
    );
    assert!(
        place.refused(&["share", "update", "files", "--path", text(&at("nowhere"))], 2).contains("cannot be shared")
    );
    assert!(
        place.refused(&["share", "update", "fast", "--path", text(&at("files"))], 2).contains("RAM disk has no folder")
    );
    assert!(place.refused(&["share", "update", "files", "--name", "FAST"], 1).contains("exists already"));
    place.refused(&["share", "update", "files", "--name", "a/b"], 2);
    place.refused(&["share", "update", "nowhere", "--name", "other"], 1);
    fs::create_dir(at("logs")).unwrap();
    fs::write(place.data.join("audit-log.path"), text(&at("logs/audit.log"))).unwrap();
    assert!(place.refused(&["share", "update", "files", "--path", text(&at("logs"))], 2).contains("audit log"));
    assert_eq!(place.json(&["share", "list"]), shown);
    place.done(&["share", "update", "files", "--name", "FILES"]);
    assert_eq!(place.json(&["share", "show", "files"])["name"], "FILES", "another case is another name");
}

#[test]
fn quotas_have_letters() {
    let place = Place::with_account();
    let files = place.place.path().join("files");
    fs::create_dir(&files).unwrap();
    place.done(&["share", "create", "files", "--path", text(&files), "--quota", "500G"]);
    assert_eq!(place.json(&["share", "show", "files"])["quota_gib"], 500);
    place.done(&["share", "update", "files", "--quota", "2T"]);
    assert_eq!(place.json(&["share", "show", "files"])["quota_gib"], 2048);
    assert!(place.refused(&["share", "update", "files", "--quota", "500M"], 2).contains("500G"));
}

/// Runs the program as somebody who is not root, in a data folder of that user.
fn as_nobody(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_multilane")]);
    command.args(arguments).env("MULTILANE_DATA", &place.data).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_folder_that_the_service_may_not_write_to_is_refused_when_it_is_shared() {
    let place = Place::new();
    let files = place.place.path().join("files");
    fs::create_dir(&files).unwrap();
    // Root may write everywhere.
    let run = |arguments: &[&str]| {
        if rustix::process::geteuid().is_root() { as_nobody(&place, arguments) } else { place.run(arguments) }
    };
    if rustix::process::geteuid().is_root() {
        fs::create_dir(&place.data).unwrap();
        for path in [place.place.path(), &place.data] {
            std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
        }
        fs::set_permissions(&place.data, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::set_permissions(&files, fs::Permissions::from_mode(0o555)).unwrap();
    assert!(run(&["account", "create", "abc"]).status.success());
    let refused = run(&["share", "create", "files", "--path", text(&files)]);
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("may not write to the folder") && complaint.contains("--read-only"), "{complaint}");
    assert!(run(&["share", "create", "files", "--path", text(&files), "--read-only"]).status.success());
    let refused = run(&["share", "update", "files", "--read-only", "off"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("may not write to the folder"));
    fs::set_permissions(&files, fs::Permissions::from_mode(0o000)).unwrap();
    let checked = run(&["catalog", "check"]);
    assert_eq!(checked.status.code(), Some(3));
    assert!(String::from_utf8(checked.stdout).unwrap().contains("share \"files\": the service, which is user"));
    fs::set_permissions(&files, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(run(&["share", "update", "files", "--read-only", "off"]).status.success());
}

#[test]
fn a_data_folder_that_has_moved_serves_its_shares() {
    let (place, server) = with_alice();
    fs::write(place.data.join("share/file"), "").unwrap();
    server.end();
    let moved = Place { data: place.place.path().join("moved"), ..place };
    fs::rename(moved.place.path().join("data"), &moved.data).unwrap();
    let server = Server::new(&moved);
    assert!(server.lets_alice_list(&moved, "share"));
    assert_eq!(moved.json(&["catalog", "check"])["problems"], json!([]));
    assert_eq!(
        moved.json(&["share", "show", "share"])["path"],
        text(&fs::canonicalize(moved.data.join("share")).unwrap())
    );
}

#[test]
fn a_share_over_the_folder_of_another_is_told_with_who_may_use_either() {
    let place = Place::with_account();
    place.done(&["group", "create", "staff"]);
    let at = |name: &str| place.place.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(at("srv/hr/2026")).unwrap();
    fs::create_dir(at("srv2")).unwrap();
    // From its first moment on it is for those who are named.
    place.done(&["share", "create", "hr", "--path", &at("srv/hr"), "--grant", "staff=change"]);
    let grants = place.json(&["share", "grants", "hr"]);
    assert_eq!(grants["grants"], json!([{ "who": "staff", "kind": "group", "right": "change" }]));
    assert_eq!(grants["is_unsaid"], false);
    for (name, folder, how) in [
        ("up", "srv", "share hr has a folder that lies in this one, for staff (change)"),
        ("hr$", "srv/hr", "share hr has the same folder, for staff (change)"),
        ("deep", "srv/hr/2026", "share hr has a folder that holds this one, for staff (change)"),
    ] {
        let output = place.run(&["share", "create", name, "--path", &at(folder)]);
        let notes = String::from_utf8(output.stderr).unwrap();
        let own = format!("share {name} is for everyone of account abc (full)");
        assert!(output.status.success() && notes.contains(how) && notes.contains(&own), "{notes}");
        assert_eq!(place.json(&["share", "grants", name])["is_unsaid"], true);
    }
    place.done(&["share", "create", "apart", "--path", &at("srv2")]);
    let output = place.run(&["share", "update", "apart", "--path", &at("srv/hr")]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("note: share hr has the same folder"), "{notes}");
    let refused = place.refused(&["share", "create", "other", "--ram", "1M", "--grant", "nobody=read"], 1);
    assert!(refused.contains("there is no user or group \"nobody\""), "{refused}");
    assert!(place.refused(&["share", "show", "other"], 1).contains("no share"), "nothing half done");
    assert!(place.refused(&["share", "create", "other", "--ram", "1M", "--grant", "staff"], 2).contains("NAME=read"));
}

#[test]
fn a_share_over_a_backup_or_a_copied_data_folder_is_told_with_the_file() {
    let place = Place::with_account();
    let at = |name: &str| place.place.path().join(name).to_str().unwrap().to_owned();
    for folder in ["plain", "srv/old", "copied"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    place.done(&["backup", &at("srv/old/monday")]);
    fs::copy(place.data.join("catalog.db"), at("copied/catalog.db")).unwrap();
    // What other programs keep by SQLite is none of it.
    rusqlite::Connection::open(at("plain/other.db")).unwrap().execute_batch("CREATE TABLE one (x)").unwrap();
    place.done(&["share", "create", "plain", "--path", &at("plain")]);
    let told = |words: &[&str]| {
        let output = place.run(words);
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && notes.matches("note: ").count() == 1, "{notes}");
        notes
    };
    let notes = told(&["share", "create", "srv", "--path", &at("srv")]);
    let expected =
        format!("note: {} is a backup, or a copy of a data folder: who may read share srv may", at("srv/old/monday"));
    assert!(notes.contains(&expected), "{notes}");
    let notes = told(&["share", "update", "plain", "--path", &at("copied")]);
    assert!(notes.contains(&at("copied/catalog.db")) && notes.contains("share plain"), "{notes}");
    // Nothing else that changes looks for it again.
    place.done(&["share", "update", "plain", "--quota", "1G"]);
}

#[test]
fn what_a_deleted_share_prints_makes_it_again() {
    let place = Place::with_account();
    place.done(&["group", "create", "staff"]);
    let folder = place.place.path().join("it's here");
    fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let guarded = [
        "--seal",
        "--access-based",
        "--continuous",
        "--exclusive",
        "--audit",
        "write,delete",
        "--quota",
        "2T",
        "--iops-max",
        "100",
        "--user-mibps-max",
        "5",
        "--file-mode",
        "0640",
        "--comment",
        "for $HR only",
        "--grant",
        "staff=change,everyone=read",
    ];
    place.done(&[&["share", "create", "hr$", "--path", folder][..], &guarded].concat());
    place.done(&["share", "create", "far", "--path", "/usr", "--believed", "500ms", "--read-only"]);
    place.done(&["share", "create", "closed", "--ram", "1M"]);
    place.done(&["share", "revoke", "closed", "everyone"]);
    for name in ["hr$", "far", "closed"] {
        let seen = || (place.json(&["share", "show", name]), place.json(&["share", "grants", name]));
        let before = seen();
        let gone = place.json(&["share", "delete", name]);
        assert_eq!(gone["deleted"], name);
        for command in gone["again"].as_array().unwrap() {
            let words = command.as_str().unwrap().replacen("multilane", env!("CARGO_BIN_EXE_multilane"), 1);
            let mut shell = Command::new("sh");
            let output = shell.args(["-c", &words]).env("MULTILANE_DATA", &place.data).output().unwrap();
            assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!(seen(), before, "{gone}");
    }
    let said = place.done(&["share", "delete", "hr$"]);
    assert!(said.contains("so is .multilane") && said.contains("\n  multilane share create 'hr$' --path "), "{said}");
}

#[test]
fn a_served_folder_that_was_moved_away_is_told_until_it_is_back() {
    let place = Place::new();
    let (folder, away, log) =
        (place.place.path().join("files"), place.place.path().join("away"), place.place.path().join("log"));
    fs::create_dir(&folder).unwrap();
    let _server = Server::logging(&place, &log);
    place.done(&["share", "create", "files", "--path", text(&folder)]);
    assert_eq!(place.json(&["status"])["problems"], json!([]));
    fs::rename(&folder, &away).unwrap();
    wait_until(|| place.json(&["status"])["problems"] != json!([]));
    let told = place.json(&["status"]);
    assert_eq!((&told["problems"][0]["share"], &told["problems"][0]["served"]), (&json!("files"), &json!(true)));
    assert!(place.json(&["share", "show", "files"])["problem"].as_str().unwrap().contains(text(&folder)));
    assert!(place.done(&["share", "list"]).contains("folder unavailable"));
    fs::rename(&away, &folder).unwrap();
    wait_until(|| place.json(&["status"])["problems"] == json!([]));
    let said = fs::read_to_string(&log).unwrap();
    let told = |event: &str| said.matches(&format!("\"event\":\"{event}\"")).count();
    assert_eq!((told("folder_faulty"), told("folder_well"), told("share_not_served")), (1, 1, 0), "{said}");
}
