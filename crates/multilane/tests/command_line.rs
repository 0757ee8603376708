//! The built program as an operator and a script see it.

mod place;
#[allow(dead_code)]
mod started;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;
use crate::started::started_at;

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(60);

/// A server, ended with its test.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    log: ChildStderr,
    ready: Value,
}

impl Place {
    fn add_user(&self, name: &str, password: &[u8]) -> Output {
        let mut command = self.command(&["user", "create", name, "--password-stdin"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(password).unwrap();
        child.wait_with_output().unwrap()
    }

    fn serve(&self, arguments: &[&str]) -> Server {
        let all = [&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut child = self.command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut log = child.stderr.take().unwrap();
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut complaint = String::new();
            log.read_to_string(&mut complaint).unwrap();
            panic!("the server did not start: {complaint}");
        }
        Server { child, out, log, ready: serde_json::from_str(&line).unwrap() }
    }
}

impl Server {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends the server as a service manager does; gives what it logged.
    fn end(mut self) -> String {
        self.signal("-TERM");
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing follows the line that says it is ready");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn signals_without_a_meaning_end_nothing() {
    let place = Place::with_account();
    let server = place.serve(&[]);
    for signal in ["-USR1", "-USR2", "-HUP"] {
        server.signal(signal);
    }
    place.done(&["sessions"]);
    server.end();
}

#[test]
fn a_filter_of_the_log_that_means_nothing_is_an_error() {
    let place = Place::new();
    let refused = place.command(&["serve", "--listen", "127.0.0.1:0"]).env("MULTILANE_LOG", "bogus").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("MULTILANE_LOG") && said.contains("\"bogus\" is no level"), "{said}");
    assert!(said.contains("help: use a level (off, error, warn, info, debug, trace)"), "{said}");
    assert!(!place.data.exists(), "nothing was begun");
}

#[test]
fn first_start_makes_an_account_and_a_share() {
    let place = Place::new();
    let server = place.serve(&[]);
    assert_eq!(server.ready["shares"], json!(["share"]));
    assert_eq!(server.ready["process"], server.child.id());
    let address = server.ready["listen"][0].as_str().unwrap();
    TcpStream::connect(address).unwrap();

    let keys = place.json(&["account", "keys", "local"]);
    let log = server.end();
    for key in ["key1", "key2"] {
        let key = keys[key].as_str().unwrap();
        assert_eq!(key.len(), 88);
        assert!(!log.contains(key), "no key is ever logged");
    }
    assert!(fs::metadata(place.data.join("share")).unwrap().is_dir());
    assert_eq!(place.json(&["share", "show", "SHARE"])["account"], "local");
}

#[test]
fn start_on_a_used_folder_adds_nothing() {
    let place = Place::with_account();
    let server = place.serve(&[]);
    assert_eq!(server.ready["shares"], json!([]));
    server.end();
    assert_eq!(place.json(&["account", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn people_are_told_how_to_connect_but_no_key() {
    let place = Place::new();
    let mut child = place
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("smbclient //") {
        assert!(out.read_line(&mut text).unwrap() > 0, "{text}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for part in ["net use", "New-SmbMapping", "mount -t cifs", "mount_smbfs", "multilane account keys local --data"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let keys = place.json(&["account", "keys", "local"]);
    assert!(!text.contains(keys["key1"].as_str().unwrap()) && !text.contains(keys["key2"].as_str().unwrap()));
}

#[test]
fn running_server_takes_up_changes_at_once() {
    let place = Place::new();
    let server = place.serve(&[]);
    let files = place.place.path().join("files");
    fs::create_dir(&files).unwrap();
    let path = files.to_str().unwrap();
    place.done(&["share", "create", "files", "--path", path, "--quota", "5", "--seal", "--comment", "for all"]);
    place.done(&["share", "create", "fast", "--ram", "64M"]);
    place.done(&["account", "create", "other"]);
    assert!(place.add_user("alice", b"a secret\n").status.success());

    fs::rename(&files, place.place.path().join("gone")).unwrap();
    server.signal("-HUP");
    let problem = || place.json(&["share", "show", "files"])["problem"].clone();
    // It reads the catalog again when it comes to it.
    let until = Instant::now() + AN_AGE;
    while problem().is_null() {
        assert!(Instant::now() < until, "no problem is told");
    }
    assert!(problem().as_str().unwrap().contains("gone"));
    let shown = place.json(&["share", "show", "fast"]);
    assert_eq!(
        (&shown["kind"], &shown["ram_bytes"], &shown["problem"]),
        (&json!("ram"), &json!(64 << 20), &json!(null))
    );
    fs::rename(place.place.path().join("gone"), &files).unwrap();
    place.done(&["share", "update", "files", "--quota", "none"]);
    assert_eq!(problem(), json!(null));

    let set = |name, value| place.json(&["server", "set", name, value]);
    assert_eq!(set("sealing", "required"), json!({"setting": "sealing", "value": "required"}));
    set("busy-poll", "200us");
    set("channels-max", "8");
    let settings = place.json(&["server", "settings"]);
    assert_eq!(setting(&settings, "sealing"), ("required", "server set", true));
    assert_eq!(setting(&settings, "channels-max"), ("8", "server set", true));
    assert_eq!(setting(&settings, "signing"), ("required", "default", true));
    assert_eq!(setting(&settings, "listen"), ("127.0.0.1:0", "command line", false));
    for (name, value) in [
        ("busy-poll", "1s"),
        ("channels-max", "33"),
        ("dialect-min", "1.0"),
        ("sealing", "off"),
        ("listen", "x"),
        ("threads", "4"),
    ] {
        place.refused(&["server", "set", name, value], 2);
    }
    assert_eq!(place.json(&["server", "settings"]), settings, "what is refused changes nothing");
    set("sealing", "enabled");
    assert_eq!(place.json(&["sessions"]), json!([]));
    assert_eq!(place.json(&["open-files"]), json!([]));
    assert!(place.refused(&["close", "session", "12"], 1).contains("there is no session 12"));
    assert!(place.refused(&["close", "open", "0xc"], 1).contains("there is no open 12"));
    place.done(&["share", "delete", "files"]);
    assert!(files.is_dir());
    server.end();
}

#[test]
fn one_server_runs_on_a_folder_and_the_next_after_it() {
    let place = Place::new();
    let first = place.serve(&[]);
    let complaint = place.refused(&["serve", "--listen", "127.0.0.1:0"], 1);
    assert!(complaint.contains(&first.child.id().to_string()), "{complaint}");
    drop(first);
    assert!(place.data.join("admin.sock").exists(), "a killed server leaves its socket");
    assert!(place.refused(&["sessions"], 1).contains("no server runs"));
    let second = place.serve(&["--threads", "1", "--signing", "enabled", "--sealing", "required"]);
    place.json(&["sessions"]);
    second.end();
    assert!(!place.data.join("admin.sock").exists());
}

#[test]
fn address_in_use_is_said() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place.run(&["serve", "--listen", &address]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains(&address) && complaint.contains("help: "), "{complaint}");
}

#[test]
fn localhost_is_a_place_to_listen_and_no_other_name_is() {
    let place = Place::new();
    let (mut child, ready) = started_at(&place, "localhost:0", &[], Stdio::null());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready["listen"][0].as_str().unwrap().starts_with("127.0.0.1:"), "{ready}");
    for wrong in ["nas:4450", "localhost", "localhost:", "localhost:70000", "localhost:x"] {
        assert!(place.refused(&["serve", "--listen", wrong], 2).contains("is no place to listen"), "{wrong}");
    }
}

#[test]
fn nothing_is_made_by_looking() {
    let place = Place::new();
    for arguments in [&["account", "list"][..], &["share", "list"], &["user", "list"], &["sessions"]] {
        assert!(place.refused(arguments, 1).contains("there is no catalog"));
    }
    assert!(!place.data.exists());
}

#[test]
fn multichannel_is_switched_on_for_an_account_of_premium_files() {
    let place = Place::with_account();
    assert_eq!(place.json(&["account", "show", "abc"])["multichannel"], "off");
    assert_eq!(place.json(&["account", "update", "abc", "--multichannel", "on"])["multichannel"], "on");
    assert_eq!(place.json(&["account", "show", "abc"])["multichannel"], "on");
    assert_eq!(place.json(&["account", "update", "abc", "--multichannel", "off"])["multichannel"], "off");
    place.done(&["account", "create", "general", "--kind", "StorageV2"]);
    place.refused(&["account", "update", "general", "--multichannel", "on"], 1);
    place.refused(&["account", "update", "abc"], 2);
    place.refused(&["account", "update", "abc", "--multichannel", "perhaps"], 2);
}

#[test]
fn an_account_tells_what_of_it_is_provisioned() {
    let place = Place::new();
    place.done(&["account", "create", "prem", "--sku", "PremiumV2_LRS"]);
    place.done(&[
        "share",
        "create",
        "one",
        "--account",
        "prem",
        "--provisioned",
        "100",
        "--iops",
        "4000",
        "--mibps",
        "200",
    ]);
    let used = &place.json(&["account", "show", "prem"])["provisioned"];
    let told = ["shares", "shares_max", "gib", "iops", "iops_max", "mibps", "mibps_max"]
        .map(|name| used[name].as_u64().unwrap());
    assert_eq!(told, [1, 50, 100, 4_000, 102_400, 200, 10_340]);
    let text = place.done(&["account", "show", "prem"]);
    assert!(text.contains("1 of 50 shares") && text.contains("4000 of 102400 IOPS, 200 of 10340 MiB/s"), "{text}");
    place.done(&["account", "create", "plain"]);
    assert!(place.json(&["account", "show", "plain"])["provisioned"].is_null());
}

#[test]
fn accounts_live_and_die() {
    let place = Place::new();
    let made = place.json(&["account", "create", "projects", "--kind", "StorageV2"]);
    assert_eq!((&made["name"], &made["kind"], &made["shares"]), (&json!("projects"), &json!("StorageV2"), &json!(0)));
    assert!(made["sid"].as_str().unwrap().starts_with("S-1-5-21-"));
    assert_eq!(place.json(&["account", "show", "projects"]), made);
    assert_eq!(place.json(&["account", "list"]), json!([made]));
    assert!(place.done(&["account", "list"]).starts_with("NAME"));

    let old = place.json(&["account", "keys", "projects"]);
    let new = place.json(&["account", "keys", "projects", "--regenerate", "2"]);
    assert!(new["key1"] == old["key1"] && new["key2"] != old["key2"]);
    assert_eq!(place.json(&["account", "keys", "projects"]), new);

    place.refused(&["account", "create", "projects"], 1);
    place.refused(&["account", "keys", "nobody"], 1);
    assert_eq!(place.json(&["account", "delete", "projects"]), json!({"deleted": "projects"}));
    place.refused(&["account", "delete", "projects"], 1);
}

#[test]
fn passwords_come_from_standard_input_only() {
    let place = Place::with_account();
    let added = place.add_user("Alice", "pässword\r\nnot this\n".as_bytes());
    assert!(added.status.success());
    assert!(!String::from_utf8(added.stdout).unwrap().contains("word"));
    for (password, code) in [(&b""[..], 2), (b"\n", 2), (b"\xff\n", 2), (&[b'x'; 20_000], 2)] {
        assert_eq!(place.add_user("bob", password).status.code(), Some(code));
    }
    assert_eq!(place.add_user("ALICE", b"x\n").status.code(), Some(1));
    place.refused(&["user", "create", "bob"], 2);
    place.refused(&["user", "create", "bob", "secret", "--password-stdin"], 2);

    let users = place.json(&["user", "list"]);
    assert_eq!((&users[0]["name"], &users[0]["account"]), (&json!("Alice"), &json!("abc")));
    place.done(&["user", "delete", "aLICE", "--force"]);
    place.refused(&["user", "delete", "alice", "--force"], 1);
}

#[test]
fn shares_live_and_die_without_a_server() {
    let place = Place::with_account();
    let files = place.place.path().join("files");
    fs::create_dir(&files).unwrap();
    let path = files.to_str().unwrap();
    let made = place.json(&["share", "create", "Team", "--path", path, "--read-only"]);
    let (kept, flag) = (fs::canonicalize(&files).unwrap(), &made["read_only"]);
    assert_eq!((&made["path"], flag, &made["kind"]), (&json!(kept), &json!(true), &json!("folder")));
    assert_eq!(made["problem"], json!(null));

    let changed = place.json(&["share", "update", "team", "--read-only", "off", "--seal", "--quota", "7"]);
    let facts = (&changed["read_only"], &changed["seal_required"], &changed["quota_gib"]);
    assert_eq!(facts, (&json!(false), &json!(true), &json!(7)));
    assert_eq!(place.json(&["share", "list"]), json!([changed]));
    let apart = place.place.path().join("apart");
    fs::create_dir(&apart).unwrap();
    let owned = ["share", "create", "owned", "--path", apart.to_str().unwrap(), "--unix-owner"];
    assert_eq!(place.json(&[&owned[..], &["12345:root"]].concat())["unix_owner"], json!("12345:0"));
    let modes = ["share", "update", "owned", "--file-mode", "0640", "--directory-mode", "0750", "--unix-owner", "none"];
    let changed = place.json(&modes);
    let modes = (&changed["file_mode"], &changed["directory_mode"], &changed["unix_owner"]);
    assert_eq!(modes, (&json!("0640"), &json!("0750"), &json!(null)));
    let shown = place.done(&["share", "show", "owned"]);
    assert!(shown.contains("file mode    0640\n") && shown.contains("unix owner   the server's user\n"), "{shown}");
    assert_eq!(place.json(&["share", "update", "owned", "--file-mode", "none"])["file_mode"], json!(null));
    place.done(&["share", "create", "ram", "--ram", "1M"]);
    assert!(place.refused(&["share", "update", "ram", "--file-mode", "0640"], 2).contains("RAM disk"));
    place.done(&["share", "delete", "ram"]);
    place.done(&["share", "delete", "owned"]);
    for bad in ["12345", "4294967295:0", "0:4294967295", "nobody-is-called-so", "root:nobody-is-called-so", ":", ""] {
        place.refused(&[&owned[..], &[bad]].concat(), 2);
    }
    fs::remove_dir(&files).unwrap();
    assert!(place.done(&["share", "list"]).contains("not served"));
    assert!(place.done(&["share", "show", "TEAM"]).contains("is gone"));
    place.done(&["share", "delete", "tEAM"]);
    place.refused(&["share", "show", "team"], 1);
}

#[test]
fn a_running_server_believes_what_the_operator_says() {
    let place = Place::new();
    let server = place.serve(&["--metadata-cache", "1M"]);
    let files = place.place.path().join("files");
    fs::create_dir(&files).unwrap();
    let path = files.to_str().unwrap();
    let made = place.json(&["share", "create", "mine", "--path", path, "--exclusive"]);
    assert_eq!((&made["exclusive"], &made["problem"]), (&json!(true), &json!(null)));
    assert!(place.done(&["share", "list"]).contains("exclusive"));
    assert!(place.done(&["share", "show", "mine"]).contains("until the server changes it"));
    let changed = place.json(&["share", "update", "mine", "--exclusive", "off", "--believed", "500ms"]);
    assert_eq!((&changed["believed_ms"], &changed["problem"]), (&json!(500), &json!(null)));
    assert!(place.done(&["share", "show", "mine"]).contains("believed     500ms"));
    server.end();
}

#[test]
fn more_than_half_of_the_memory_is_refused_for_the_metadata_cache_before_anything_is_made() {
    let place = Place::new();
    for size in ["1023K", "16T", "most"] {
        let complaint = place.refused(&["serve", "--listen", "127.0.0.1:0", "--metadata-cache", size], 2);
        assert!(complaint.contains("metadata-cache") && complaint.contains("half of the memory"), "{complaint}");
    }
    assert!(!place.data.exists());
}

/// What `server settings` says of one: its value, where that comes from, and whether it changes without a restart.
fn setting<'a>(settings: &'a Value, name: &str) -> (&'a str, &'a str, bool) {
    let found = settings.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    (found["value"].as_str().unwrap_or(""), found["from"].as_str().unwrap(), found["live"].as_bool().unwrap())
}

/// A folder that hangs: nobody answers for the FUSE program that is mounted there.
struct HangingFolder(PathBuf);

impl HangingFolder {
    /// Has `folder` hang for as long as a test may take. `None` where we may not mount.
    fn at(folder: &Path) -> Option<Self> {
        let program = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0", "hangs"]);
        mount.arg(folder).stdin(program.try_clone().unwrap()).stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        thread::spawn(move || {
            thread::sleep(AN_AGE);
            // Whoever waits has an error.
            drop(program);
        });
        is_mounted.then(|| HangingFolder(folder.to_owned()))
    }
}

impl Drop for HangingFolder {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn commands_wait_two_seconds_for_folders_that_hang() {
    let place = Place::with_account();
    let (here, well) = (place.place.path().join("here"), place.place.path().join("well"));
    let (first, second) = (here.join("first"), here.join("second"));
    for (name, folder) in [("first", &first), ("second", &second), ("well", &well)] {
        fs::create_dir_all(folder).unwrap();
        place.done(&["share", "create", name, "--path", folder.to_str().unwrap()]);
    }
    let Some(_hanging) = HangingFolder::at(&here) else { return };
    let began = Instant::now();
    let complaint = place.refused(&["share", "create", "third", "--path", first.to_str().unwrap()], 1);
    assert!(complaint.contains("does not answer") && complaint.contains("try again"), "{complaint}");
    let shares = place.json(&["share", "list"]);
    let problem = |index: usize| shares[index]["problem"].as_str();
    assert!(
        problem(0).unwrap().contains("does not answer") && problem(1).unwrap().contains("does not answer"),
        "{shares}"
    );
    assert_eq!((problem(2), &shares[2]["name"]), (None, &json!("well")));
    assert!(place.done(&["share", "show", "second"]).contains("does not answer"));
    place.done(&["share", "delete", "first"]);
    assert!(began.elapsed() < AN_AGE, "who waited had an error");
}

#[test]
fn wrong_command_lines_are_told_apart_from_what_cannot_be_done() {
    let place = Place::with_account();
    let data = place.data.to_str().unwrap();
    for wrong in [
        &["account", "create", "No"][..],
        &["account", "create", "abcd", "--kind", "BlobStorage"],
        &["account", "keys", "abc", "--regenerate", "3"],
        &["share", "create"],
        &["account", "update", "abc", "--share-retention", "366"],
        &["share", "create", "a/b", "--ram", "1G"],
        &["share", "create", "IPC$", "--ram", "1G"],
        &["share", "create", "(others)", "--ram", "1G"],
        &["share", "create", "x", "--ram", "lots"],
        &["share", "create", "x", "--ram", "1G", "--path", "/"],
        &["share", "create", "x", "--ram", "1G", "--quota", "1"],
        &["share", "create", "x", "--path", data],
        &["share", "create", "x", "--path", "/nowhere/at/all"],
        &["share", "create", "x", "--path", "/", "--quota", "0"],
        &["share", "update", "x"],
        &["share", "update", "x", "--quota", "much"],
        &["serve", "--listen", "here"],
        &["serve", "--signing", "never"],
        &["serve", "--threads", "0"],
        &["serve", "--dialect-min", "1.0"],
        &["close", "session", "first"],
        &["frobnicate"],
    ] {
        let told = place.refused(wrong, 2);
        // What Rust says of numbers and addresses helps nobody.
        assert!(
            ["invalid digit", "zero for non-zero", "invalid socket"].iter().all(|raw| !told.contains(raw)),
            "{told}"
        );
    }
    place.refused(&["share", "create", "x", "--ram", "1G", "--account", "nobody"], 1);
    place.refused(&["share", "update", "x", "--seal"], 1);
}

#[test]
fn data_folder_that_others_may_enter_is_refused() {
    let place = Place::with_account();
    fs::set_permissions(&place.data, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(place.refused(&["account", "keys", "abc"], 1).contains("others may enter"));
    place.refused(&["serve", "--listen", "127.0.0.1:0"], 1);
}

#[test]
fn data_folder_of_the_command_line_wins() {
    let place = Place::with_account();
    let other = place.place.path().join("other");
    let other = other.to_str().unwrap();
    place.done(&["--data", other, "account", "create", "elsewhere"]);
    assert_eq!(place.json(&["account", "list", "--data", other])[0]["name"], "elsewhere");
    assert_eq!(place.json(&["account", "list"])[0]["name"], "abc");
}

#[test]
fn help_and_completions_are_there_for_everything() {
    let place = Place::new();
    for command in [
        &["--help"][..],
        &["serve", "--help"],
        &["account", "keys", "--help"],
        &["user", "create", "--help"],
        &["share", "create", "--help"],
    ] {
        assert!(place.done(command).contains("Example"), "{command:?}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(place.done(&["completions", shell]).contains("multilane"));
    }
    assert!(place.done(&["--version"]).starts_with("multilane "));
}

#[test]
fn reader_that_leaves_early_is_no_error() {
    let place = Place::with_account();
    let mut child = place.command(&["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
