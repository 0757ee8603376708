//! Backups and restores of the built server, and catalogs of other versions.

#[allow(dead_code)]
mod alice;
mod place;
mod started;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::alice::{Server, add_user, text, wait_until, with_alice};
use crate::place::Place;

/// Another place, with what a backup says.
fn restored(file: &Path) -> Place {
    let other = Place::new();
    let output = other.run(&["restore", text(file)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    other
}

#[test]
fn every_backup_that_is_made_while_things_change_restores_to_a_server_that_serves() {
    let (place, _server) = with_alice();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let (user, share, account) =
                    (format!("user{number}"), format!("ram{number}"), format!("account{number}"));
                add_user(&place, &user);
                place.done(&["share", "create", &share, "--ram", "1M"]);
                place.done(&["account", "create", &account]);
                place.done(&["account", "keys", &account, "--regenerate", "1"]);
                if number % 2 == 0 {
                    place.done(&["user", "delete", &user, "--force"]);
                    place.done(&["share", "delete", &share]);
                    place.done(&["account", "delete", &account]);
                }
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let file = place.place.path().join("backup.db");
        for round in 0..6 {
            let made = place.json(&["backup", "--force", text(&file)]);
            assert!(made["users"].as_u64() >= Some(1), "{made}");
            let other = restored(&file);
            let server = Server::new(&other);
            assert!(server.lets_alice_list(&other, "fast"), "round {round}");
            assert_eq!(
                other.json(&["share", "list"]).as_array().map(Vec::len),
                made["shares"].as_u64().map(|n| n as usize)
            );
            server.end();
        }
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_running_server_serves_what_was_restored_at_once_and_nobody_else() {
    let (place, server) = with_alice();
    let file = place.place.path().join("backup.db");
    let said = place.done(&["backup", text(&file)]);
    assert!(said.starts_with("backed up 1 account, 1 user, 0 groups, 0 operators and 2 shares to "), "{said}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    place.done(&["user", "delete", "alice", "--force"]);
    assert!(!server.lets_alice_list(&place, "fast"));
    let without_alice = place.place.path().join("without.db");
    place.done(&["backup", text(&without_alice)]);

    let output = place.run(&["restore", text(&file)]);
    let refused = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{refused}");
    assert!(refused.starts_with("opens: user alice is there again, and may sign in\n"), "{refused}");
    assert!(refused.contains("nothing is changed\nhelp: ") && refused.contains("--force"), "{refused}");
    assert!(!server.lets_alice_list(&place, "fast"));
    let output = place.run(&["restore", "--force", text(&file)]);
    let (said, warned) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && warned.is_empty(), "{warned}");
    assert!(said.contains("\nopens: user alice is there again, and may sign in\n"), "{said}");
    let kept = place.data.join("catalog.db.before-restore");
    assert!(said.contains(&format!("what was there before is kept in {}", kept.display())) && kept.exists(), "{said}");
    assert!(server.lets_alice_list(&place, "fast"));

    let mut writer = server.alice_writes(&place, "fast");
    let output = place.run(&["restore", "--json", text(&without_alice)]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["gone"], &told["back"], &told["users"]), (&json!(["alice"]), &json!([]), &json!(0)));
    assert_eq!(told["loosened"], json!([]));
    assert!(told["kept"].as_str().unwrap().ends_with("catalog.db.before-restore.2"), "{told}");
    assert!(!writer.wait().unwrap().success() && !server.lets_alice_list(&place, "fast"));
    // The commands go on with what was restored.
    add_user(&place, "alice");
    assert!(server.lets_alice_list(&place, "fast"));
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_told_in_a_sentence_and_changes_nothing() {
    let place = Place::with_account();
    let at = |name: &str| place.place.path().join(name);
    let file = at("backup.db");
    fs::create_dir(at("files")).unwrap();
    place.done(&["share", "create", "files", "--path", text(&at("files"))]);
    place.done(&["backup", text(&file)]);
    assert!(place.refused(&["backup", text(&file)], 1).contains("exists already"));
    fs::write(at("mine"), "mine").unwrap();
    assert!(place.refused(&["backup", "--force", text(&at("mine"))], 1).contains("is no backup"));
    assert!(place.refused(&["backup", text(&at("files/backup.db"))], 2).contains("share \"files\""));
    assert!(place.refused(&["backup", text(&at("nowhere/backup.db"))], 2).contains("there is no folder"));
    assert!(place.refused(&["backup"], 2).contains("FILE"));

    let whole = fs::read(&file).unwrap();
    fs::write(at("cut"), &whole[..whole.len() / 2]).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::copy(&file, at("newer")).unwrap();
    let newer = "PRAGMA user_version = 0; INSERT INTO migration (version) VALUES (9999)";
    Connection::open(at("newer")).unwrap().execute_batch(newer).unwrap();
    for (wrong, why) in [
        ("cut", "cut short or damaged"),
        ("empty", "it is empty"),
        ("mine", "SQLite did not write it"),
        ("newer", "schema 9999"),
        ("nowhere", "there is no file"),
        ("data/catalog.db", "it is the catalog itself"),
        ("files", "it is no file"),
    ] {
        let refused = place.refused(&["restore", text(&at(wrong))], 1);
        assert!(refused.contains(why) && refused.contains("\nhelp: "), "{wrong}: {refused}");
    }
    assert_eq!(place.json(&["share", "list"]).as_array().unwrap().len(), 1);
    assert!(!place.data.join("catalog.db.before-restore").exists());
}

#[test]
fn an_older_catalog_is_raised_with_a_copy_and_a_newer_one_is_refused() {
    let place = Place::new();
    fs::create_dir_all(place.data.join("share")).unwrap();
    fs::set_permissions(&place.data, fs::Permissions::from_mode(0o700)).unwrap();
    let older = include_str!("rehearsal/catalog-schema-10.sql");
    let here = fs::canonicalize(&place.data).unwrap();
    let connection = Connection::open(place.data.join("catalog.db")).unwrap();
    connection.execute_batch(&older.replace("DATA", text(&here))).unwrap();
    drop(connection);
    let output = place.run(&["account", "list", "--json"]);
    let warned = String::from_utf8(output.stderr).unwrap();
    let kept = place.data.join("catalog.db.schema-10");
    assert!(warned.contains("raised from schema 10 to ") && warned.contains(text(&kept)), "{warned}");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o7777, 0o600);
    let server = Server::new(&place);
    assert!(server.lets_alice_list(&place, "share"));
    server.end();

    let connection = Connection::open(place.data.join("catalog.db")).unwrap();
    connection.execute("INSERT INTO migration (version) VALUES (9999)", []).unwrap();
    drop(connection);
    for words in [&["account", "list"][..], &["serve", "--listen", "127.0.0.1:0"], &["backup", "/nowhere"]] {
        let refused = place.run(words);
        let complaint = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains("schema 9999") && complaint.contains("newer multilane"), "{complaint}");
    }
    let output = place.run(&["restore", text(&kept)]);
    let warned = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && warned.contains("nobody knows what is allowed again"), "{warned}");
    assert!(Server::new(&place).lets_alice_list(&place, "share"));
}

#[test]
fn a_catalog_that_was_copied_without_its_log_is_told_by_the_first_who_opens_it() {
    let place = Place::with_account();
    let other = Place::new();
    fs::create_dir(&other.data).unwrap();
    fs::set_permissions(&other.data, fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(place.data.join("catalog.db"), other.data.join("catalog.db")).unwrap();
    let warned = |words: &[&str]| String::from_utf8(other.run(words).stderr).unwrap();
    assert!(warned(&["account", "list"]).contains("without its log"));
    assert_eq!(warned(&["account", "list"]), "");
}

#[test]
fn a_broken_catalog_is_checked_by_exit_code() {
    let place = Place::with_account();
    assert!(place.done(&["catalog", "check"]).starts_with("nothing is wrong with "));
    fs::write(place.data.join("catalog.db"), "broken").unwrap();
    let checked = place.run(&["catalog", "check", "--json"]);
    let told: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((checked.status.code(), &told["holds"]), (Some(3), &Value::Null));
    assert!(told["problems"][0]["remedy"].as_str().unwrap().contains("multilane restore FILE"), "{told}");
    assert!(place.refused(&["--data", "/nowhere", "catalog", "check"], 1).contains("there is no catalog"));
}

#[test]
fn a_catalog_that_is_damaged_under_a_running_server_is_told_until_a_backup_is_restored() {
    let place = Place::new();
    let log = place.place.path().join("log");
    let server = Server::logging(&place, &log);
    for number in 0..40 {
        place.done(&["account", "create", &format!("account{number}")]);
    }
    let file = place.place.path().join("backup.db");
    place.done(&["backup", text(&file)]);
    assert_eq!(place.json(&["status"])["catalog_damage"], Value::Null);
    // What was changed last is in the file, and no longer in its log.
    wait_until(|| fs::metadata(place.data.join("catalog.db-wal")).unwrap().len() == 0);
    let catalog = fs::OpenOptions::new().write(true).open(place.data.join("catalog.db")).unwrap();
    let pages = catalog.metadata().unwrap().len() / 4096;
    for page in 1..pages {
        catalog.write_all_at(&[0x5a; 64], page * 4096).unwrap();
    }
    server.hang_up();
    wait_until(|| place.json(&["status"])["catalog_damage"] != Value::Null);
    let told = place.done(&["status"]);
    assert!(told.contains("the server is ready") && told.contains("\ncatalog     damaged: "), "{told}");
    assert!(place.run(&["restore", text(&file)]).status.success());
    wait_until(|| place.json(&["status"])["catalog_damage"] == Value::Null);
    let said = fs::read_to_string(&log).unwrap();
    for event in ["catalog_damaged", "catalog_whole"] {
        assert_eq!(said.matches(&format!("\"event\":\"{event}\"")).count(), 1, "{said}");
    }
}

#[test]
fn a_start_that_finds_no_catalog_where_a_server_has_run_says_so() {
    let place = Place::new();
    let log = place.place.path().join("log");
    Server::logging(&place, &log).end();
    let told = || fs::read_to_string(&log).unwrap().matches("\"event\":\"catalog_lost\"").count();
    assert_eq!(told(), 0, "the first start");
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        fs::remove_file(place.data.join(name)).unwrap();
    }
    Server::logging(&place, &log).end();
    assert_eq!(told(), 1);
}

#[test]
fn a_restore_tells_how_shares_that_the_backup_does_not_have_are_had_back() {
    let place = Place::with_account();
    let file = place.place.path().join("backup.db");
    place.done(&["backup", text(&file)]);
    place.done(&["share", "create", "docs"]);
    place.done(&["share", "create", "disk", "--ram", "1M"]);
    let folder = place.json(&["share", "show", "docs"])["path"].as_str().unwrap().to_owned();
    fs::write(Path::new(&folder).join("file"), "text").unwrap();

    let output = place.run(&["restore", text(&file)]);
    let warned = String::from_utf8(output.stderr).unwrap();
    let again = format!("share create docs --account abc --path {folder}");
    assert!(output.status.success() && warned.lines().count() == 2, "{warned}");
    assert!(warned.starts_with("warning: share disk is not in the backup, and is gone, as is what"), "{warned}");
    let of_docs =
        format!("share docs is not in the backup, and is gone; its files stay in {folder}: `multilane {again}`");
    assert!(warned.contains(&of_docs), "{warned}");
    let checked = place.done(&["catalog", "check"]);
    assert!(checked.starts_with("nothing is wrong with "), "{checked}");
    assert!(
        checked.contains(&format!("note: the folder {folder} belongs to no share\nhelp: share it with")),
        "{checked}"
    );
    assert_eq!(place.json(&["catalog", "check"])["unused_folders"], json!([folder]));
    place.done(&again.split(' ').collect::<Vec<_>>());
    assert_eq!(place.json(&["catalog", "check"])["unused_folders"], json!([]));
}
