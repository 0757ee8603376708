//! What an operator and a service manager see of a running server: its log, its status, its signs of life.

mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(60);

/// A server whose log is JSON.
struct Server<'a> {
    place: &'a Place,
    child: Child,
    port: u16,
}

impl<'a> Server<'a> {
    fn new(place: &'a Place) -> Self {
        Server::with(place, &[])
    }

    fn with(place: &'a Place, environment: &[(&str, &str)]) -> Self {
        let mut command = place.command(&["serve", "--json", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let port = ready["listen"][0].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
        Server { place, child, port }
    }

    /// Lists a share, which may be refused.
    fn list(&self, share: &str, password: &str) -> bool {
        let at = format!("smb://local@127.0.0.1:{}/{share}", self.port);
        self.place.command(&["ls", &at]).env("MULTILANE_PASSWORD", password).output().unwrap().status.success()
    }

    /// Connects and sends what is not SMB, until the server ends that.
    fn break_the_protocol(&self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"\0\0\0\x04none").unwrap();
        let _ = stream.read(&mut [0; 8]);
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Ends the server, and gives its log.
    fn end(mut self) -> Vec<Value> {
        self.signal("-TERM");
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success());
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_name<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|line| line["event"] == name).collect()
}

#[test]
fn the_log_as_json_has_stable_fields() {
    let place = Place::new();
    let server = Server::new(&place);
    let key = place.json(&["account", "keys", "local"])["key1"].as_str().unwrap().to_owned();
    assert!(!server.list("share", "a wrong password"));
    assert!(server.list("share", &key));
    assert!(!server.list("nowhere", &key));
    server.break_the_protocol();
    place.done(&["share", "create", "tiny", "--ram", "1M"]);
    let big = place.place.path().join("big");
    fs::write(&big, vec![1; 4 << 20]).unwrap();
    let at = format!("smb://local@127.0.0.1:{}/tiny/big", server.port);
    let mut put = place.command(&["put", big.to_str().unwrap(), &at]);
    assert!(!put.env("MULTILANE_PASSWORD", &key).output().unwrap().status.success(), "a full disk takes nothing");
    let log = server.end();
    for line in &log {
        for name in ["timestamp", "level", "event", "target", "message"] {
            assert!(line[name].is_string(), "{name} in {line}");
        }
    }
    for (name, fields) in [
        ("serving", &["version", "listen", "data", "shares"][..]),
        ("sign_in_refused", &["peer", "user", "reason"]),
        ("signed_in", &["peer", "session", "user", "account", "dialect"]),
        ("share_refused", &["peer", "session", "user", "share", "reason"]),
        ("share_full", &["peer", "session", "user", "share", "path", "command"]),
        ("protocol_broken", &["peer", "reason"]),
    ] {
        let lines = with_name(&log, name);
        assert!(!lines.is_empty(), "{name} in {log:?}");
        fields.iter().for_each(|field| assert!(!lines[0][field].is_null(), "{field} in {}", lines[0]));
    }
    assert!(with_name(&log, "signed_in")[0]["session"].is_string());
    assert_eq!(with_name(&log, "share_refused")[0]["share"], "nowhere");
    assert_eq!(log.last().unwrap()["event"], "ended");
    assert!(!log.iter().any(|line| line.to_string().contains(&key)), "no key is ever logged");
}

#[test]
fn what_strangers_cause_is_written_or_counted() {
    let place = Place::new();
    let server = Server::new(&place);
    (0..400).for_each(|_| server.break_the_protocol());
    let log = server.end();
    let written = with_name(&log, "protocol_broken").len() as u64;
    let left_out = with_name(&log, "log_lines_left_out");
    let left_out: u64 = left_out
        .iter()
        .filter(|line| line["what"] == "protocol_broken")
        .map(|line| line["lines"].as_u64().unwrap())
        .sum();
    assert_eq!(written + left_out, 400);
    assert!(left_out > 0 && written >= 200, "{written} {left_out}");
}

#[test]
fn the_filter_of_the_log_changes_while_the_server_runs() {
    let place = Place::new();
    let server = Server::new(&place);
    assert_eq!(place.json(&["log", "level"]), json!({ "filter": "info" }));
    server.break_the_protocol();
    place.done(&["log", "level", "server=debug,warn"]);
    server.break_the_protocol();
    assert!(place.refused(&["log", "level", "bogus"], 2).contains("off, error, warn, info, debug, trace"));
    assert_eq!(place.json(&["log", "level"]), json!({ "filter": "server=debug,warn" }));
    place.done(&["log", "level", "off"]);
    server.break_the_protocol();
    let log = server.end();
    assert_eq!(with_name(&log, "protocol_broken").len(), 2);
    assert_eq!(log.iter().filter(|line| line["message"] == "connection ended").count(), 1);
    assert_eq!(with_name(&log, "log_filter_changed")[0]["to"], "server=debug,warn");
    assert!(with_name(&log, "ended").is_empty(), "nothing is logged any more");
}

#[test]
fn a_log_needs_a_server_and_journald_a_journal() {
    let place = Place::with_account();
    assert!(place.refused(&["log", "level"], 1).contains("no server runs"));
    if fs::exists("/run/systemd/journal/socket").unwrap() {
        return;
    }
    let refused = place.refused(&["serve", "--listen", "127.0.0.1:0", "--log-format", "journald"], 1);
    assert!(refused.contains("there is no journal"), "{refused}");
}

/// The state that `multilane status` tells, and its exit code.
fn status(place: &Place) -> (Value, i32) {
    let output = place.command(&["status", "--json"]).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
}

#[test]
fn status_tells_scripts_by_its_exit_code_how_the_server_is() {
    let place = Place::new();
    let is = |state: &str, code: i32| {
        let (told, exit_code) = status(&place);
        assert_eq!((told["state"].as_str(), exit_code), (Some(state), code), "{told}");
        told
    };
    assert!(is("no_data_folder", 5)["remedy"].as_str().unwrap().starts_with("start the server once"));
    fs::create_dir(&place.data).unwrap();
    fs::write(place.data.join("metrics.db"), "").unwrap();
    let told = is("no_data_folder", 5);
    assert!(told["problem"].as_str().unwrap().contains("metrics.db"), "{told}");
    assert!(told["remedy"].as_str().unwrap().starts_with("restore a backup"), "a server has run: {told}");
    let other = String::from_utf8(place.run(&["share", "list"]).stderr).unwrap();
    assert!(other.contains(told["remedy"].as_str().unwrap()), "{other}");
    let text = String::from_utf8(place.run(&["status"]).stdout).unwrap();
    assert!(text.contains(told["remedy"].as_str().unwrap()), "{text}");
    fs::remove_dir_all(&place.data).unwrap();
    place.done(&["account", "create", "abc"]);
    is("not_running", 3);

    let server = Server::new(&place);
    let told = is("ready", 0);
    assert_eq!(told["process"], server.child.id());
    assert_eq!(told["listen"], json!([format!("127.0.0.1:{}", server.port)]));
    for number in ["up_seconds", "sessions", "opens", "connections", "shards"] {
        assert!(told[number].is_u64(), "{number} in {told}");
    }
    assert_eq!((told["version"].as_str(), &told["silent_shards"]), (Some(env!("CARGO_PKG_VERSION")), &json!([])));
    let text = String::from_utf8(place.command(&["status"]).output().unwrap().stdout).unwrap();
    assert!(text.starts_with("state       the server is ready\n") && text.contains("listens on  127.0.0.1:"), "{text}");

    server.signal("-STOP");
    is("silent", 4);
    server.signal("-CONT");
    is("ready", 0);
    server.end();
    is("not_running", 3);

    // A server that has its folder, and no socket yet or no more.
    let lock = File::options().write(true).open(place.data.join("lock")).unwrap();
    lock.lock().unwrap();
    fs::write(place.data.join("lock"), "17\n").unwrap();
    is("starting", 4);
    fs::write(place.data.join("lock"), "17 ending\n").unwrap();
    assert_eq!(is("stopping", 4)["process"], 17);

    let wrong = place.command(&["status", "--bogus"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

/// What the service manager is told, until `wanted` comes.
fn told(manager: &UnixDatagram, wanted: &str) -> Vec<String> {
    let until = Instant::now() + AN_AGE;
    let mut all: Vec<String> = Vec::new();
    let mut message = [0; 4096];
    while !all.iter().any(|line| line == wanted) {
        assert!(Instant::now() < until, "{wanted} in {all:?}");
        let count = manager.recv(&mut message).unwrap();
        all.extend(std::str::from_utf8(&message[..count]).unwrap().lines().map(str::to_owned));
    }
    all
}

#[test]
fn a_service_manager_is_told_of_the_start_of_life_of_reloads_and_of_the_end() {
    let place = Place::new();
    let path = place.place.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(AN_AGE)).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "2000000")];
    let began = Instant::now();
    let server = Server::with(&place, &environment);
    let address = format!("STATUS=Serves 1 shares on 127.0.0.1:{}.", server.port);
    assert_eq!(told(&manager, &address), ["READY=1", &address]);
    // A quarter of what the watchdog waits is between two. On a busy machine they may be read later, together.
    (0..5).for_each(|_| assert_eq!(told(&manager, "WATCHDOG=1"), ["WATCHDOG=1"]));
    assert!(began.elapsed() > Duration::from_millis(1900), "five signs of life in {:?}", began.elapsed());

    server.signal("-HUP");
    let reloading = told(&manager, "RELOADING=1");
    assert!(reloading.iter().any(|line| line.starts_with("MONOTONIC_USEC=")), "{reloading:?}");
    let reloaded = told(&manager, "READY=1");
    assert!(reloaded.contains(&"STATUS=Serves what the catalog says.".to_owned()), "{reloaded:?}");

    let end = thread::scope(|scope| {
        let end = scope.spawn(|| told(&manager, "STOPPING=1"));
        server.end();
        end.join().unwrap()
    });
    assert_eq!(
        end.iter().filter(|line| *line != "WATCHDOG=1" && !line.starts_with("STATUS=")).collect::<Vec<_>>(),
        ["STOPPING=1"]
    );
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 64]).is_err(), "nothing is said behind the end");
}

/// The events that the program logs at the levels error, warn and info: name, level and fields.
fn events_in(text: &str) -> Vec<(String, &'static str, BTreeSet<String>)> {
    let mut events = Vec::new();
    for level in ["error", "warn", "info"] {
        let call = format!("{level}!(");
        let macros = text.match_indices(&call).map(|(at, found)| &text[at + found.len()..]);
        for words in macros.map(words_of) {
            let name = words[0].strip_prefix("name: \"").and_then(|rest| rest.strip_suffix('"'));
            let name = name.unwrap_or_else(|| panic!("an event of level {level} has no name: {words:?}")).to_owned();
            let field = |word: &String| {
                let field = word.split('=').next().unwrap_or_default().trim().trim_start_matches(['%', '?']).to_owned();
                (!field.is_empty() && !field.starts_with('"')).then_some(field)
            };
            events.push((name, level, words[1..].iter().filter_map(field).collect()));
        }
    }
    events
}

/// The arguments of a macro, whose text begins behind its parenthesis.
fn words_of(text: &str) -> Vec<String> {
    let (mut words, mut depth, mut quoted, mut escaped) = (vec![String::new()], 1, false, false);
    for letter in text.chars() {
        match letter {
            '"' if !escaped => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        match letter {
            _ if depth == 0 => break,
            ',' if depth == 1 && !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.iter().map(|word| word.trim().to_owned()).collect()
}

/// All sources below a folder, without their tests.
fn sources(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if !entry.to_str().unwrap().contains("tests") && entry.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            found.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn every_event_has_a_name_and_stands_in_the_documentation() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut logged: BTreeMap<String, (&str, BTreeSet<String>)> = BTreeMap::new();
    for (name, level, fields) in folders.flat_map(|folder| sources(&folder)).flat_map(|text| events_in(&text)) {
        let known = logged.entry(name.clone()).or_insert((level, BTreeSet::new()));
        assert_eq!(known.0, level, "{name} has one level");
        known.1.extend(fields);
    }
    let document = fs::read_to_string(crates.join("../docs/LOGS.md")).unwrap();
    let bare = |text: &str| text.trim().trim_matches('`').to_owned();
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeMap<String, (String, BTreeSet<String>)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            let fields = cells[3].split(',').map(bare).filter(|field| !field.is_empty()).collect();
            (bare(cells[1]), (bare(cells[2]), fields))
        })
        .collect();
    let logged: BTreeMap<_, _> =
        logged.into_iter().map(|(name, (level, fields))| (name, (level.to_owned(), fields))).collect();
    for (name, event) in &logged {
        assert_eq!(documented.get(name), Some(event), "{name} in docs/LOGS.md");
    }
    for name in documented.keys() {
        assert!(logged.contains_key(name), "nothing logs {name} of docs/LOGS.md");
    }
}
