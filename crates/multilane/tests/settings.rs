//! The options of `serve` in a file, in the environment and on the command line, and what changes them while the server runs.

mod place;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(60);

/// A server, ended with its test.
struct Server {
    child: Child,
    log: ChildStderr,
}

impl Server {
    fn started(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut log) = (BufReader::new(child.stdout.take().unwrap()), child.stderr.take().unwrap());
        let mut ready = String::new();
        out.read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let mut complaint = String::new();
            log.read_to_string(&mut complaint).unwrap();
            panic!("the server did not start: {complaint}");
        }
        Server { child, log }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Ends it; gives what it logged.
    fn end(mut self) -> String {
        self.signal("-TERM");
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `server settings` says of one: its value, and where that comes from.
fn setting(settings: &Value, name: &str) -> (String, String) {
    let found = settings.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    (found["value"].as_str().unwrap_or("").to_owned(), found["from"].as_str().unwrap().to_owned())
}

fn said(value: &str, from: &str) -> (String, String) {
    (value.to_owned(), from.to_owned())
}

/// Waits until the running server says this of a setting.
fn wait_for(place: &Place, name: &str, expected: &(String, String)) {
    let until = Instant::now() + AN_AGE;
    loop {
        let now = setting(&place.json(&["server", "settings"]), name);
        if now == *expected {
            return;
        }
        assert!(Instant::now() < until, "{name} is {now:?} and not {expected:?}");
    }
}

#[test]
fn the_command_line_counts_before_the_environment_that_before_the_file_and_that_before_what_is_kept() {
    let place = Place::with_account();
    let file = place.data.join("multilane.toml");
    let of_file = |line: usize| format!("{} line {line}", file.display());
    fs::write(&file, "sealing = \"required\"\nchannels-max = 7\nlisten = [\"127.0.0.1:0\", \"localhost:0\"]\ndialect-min = \"3.1.1\"\n").unwrap();
    place.done(&["server", "set", "channels-max", "9"]);
    place.done(&["server", "set", "busy-poll", "off"]);
    let mut command = place.command(&["serve", "--json", "--dialect-min", "3.0.2"]);
    command.env("MULTILANE_DIALECT_MIN", "2.1").env("MULTILANE_SEALING", "enabled").env("MULTILANE_LOG", "");
    command.env("MULTILANE_ADVERTISE", "203.0.113.7,rss 203.0.113.8");
    let server = Server::started(command);
    let settings = place.json(&["server", "settings"]);
    for (name, value, from) in [
        ("dialect-min", "3.0.2", "command line"),
        ("sealing", "enabled", "MULTILANE_SEALING"),
        ("advertise", "203.0.113.7,rss 203.0.113.8", "MULTILANE_ADVERTISE"),
        ("channels-max", "7", &of_file(2)),
        ("listen", "127.0.0.1:0 localhost:0", &of_file(3)),
        ("busy-poll", "off", "server set"),
        ("signing", "required", "default"),
        ("log", "info", "default"),
        ("audit-log-max", "1G", "default"),
    ] {
        assert_eq!(setting(&settings, name), said(value, from), "{name}");
    }
    assert_eq!(place.json(&["status"])["listen"].as_array().unwrap().len(), 2);
    assert!(place.done(&["server", "interfaces"]).contains("203.0.113.8"));

    // What is kept is changed, and it is said that something else counts.
    let changed = place.run(&["server", "set", "channels-max", "3"]);
    let warning = String::from_utf8(changed.stderr).unwrap();
    assert!(changed.status.success() && warning.contains("stays 7") && warning.contains(&of_file(2)), "{warning}");
    server.end();
}

#[test]
fn settings_change_in_the_running_server_and_in_those_after_it() {
    let place = Place::with_account();
    let serve = || Server::started(place.command(&["serve", "--json", "--listen", "127.0.0.1:0"]));
    let server = serve();
    let refused = place.refused(&["server", "set", "advertise-only", "on"], 2);
    assert!(refused.contains("no address at all"), "{refused}");
    for (name, values) in [
        ("signing", &["enabled"][..]),
        ("sealing", &["required"]),
        ("dialect-min", &["3.1.1"]),
        ("advertise", &["203.0.113.7,speed=25G,rss", "203.0.113.9"]),
        ("advertise-only", &["on"]),
        ("anonymous", &["reauthentication"]),
    ] {
        place.done(&[&["server", "set", name], values].concat());
        let settings = place.json(&["server", "settings"]);
        let text = values.join(" ").replace("25G", "25000000000");
        let text = if text == "on" { "true".to_owned() } else { text };
        assert_eq!(setting(&settings, name), said(&text, "server set"));
    }
    let told = place.json(&["server", "interfaces"]);
    let addresses: Vec<&str> = told.as_array().unwrap().iter().map(|one| one["address"].as_str().unwrap()).collect();
    assert_eq!(addresses, ["203.0.113.7", "203.0.113.9"]);
    let late = place.run(&["server", "set", "listen", "127.0.0.1:0"]);
    assert!(String::from_utf8(late.stderr).unwrap().contains("counts when the server starts again"));
    let complaint = place.refused(&["server", "set", "threads", "4"], 2);
    assert!(complaint.contains("threads needs a restart") && complaint.contains("`threads = ...`"), "{complaint}");
    assert!(place.refused(&["server", "set", "colour", "red"], 2).contains("there is no setting colour"));
    server.end();

    let server = serve();
    assert_eq!(setting(&place.json(&["server", "settings"]), "advertise-only"), said("true", "server set"));
    place.done(&["server", "unset", "advertise-only"]);
    place.done(&["server", "unset", "sealing"]);
    let settings = place.json(&["server", "settings"]);
    assert_eq!(setting(&settings, "sealing"), said("enabled", "default"));
    assert!(place.refused(&["server", "unset", "threads"], 2).contains("no setting that is kept"));
    server.end();
}

#[test]
fn a_reload_reads_the_file_again_and_says_what_waits_for_a_restart() {
    let place = Place::with_account();
    let file = place.data.join("multilane.toml");
    fs::write(&file, "threads = 1\n").unwrap();
    let server = Server::started(place.command(&["serve", "--json", "--listen", "127.0.0.1:0"]));
    fs::write(&file, "threads = 2\nsealing = \"required\"\nlog = \"info,server=debug\"\n").unwrap();
    server.signal("-HUP");
    wait_for(&place, "sealing", &said("required", &format!("{} line 2", file.display())));
    let settings = place.json(&["server", "settings"]);
    assert_eq!(setting(&settings, "log").0, "info,server=debug");
    assert_eq!(setting(&settings, "threads").0, "1", "that counts until the restart");
    fs::write(&file, "sealing = \"perhaps\"\n").unwrap();
    server.signal("-HUP");
    place.done(&["log", "level", "error"]);
    assert_eq!(setting(&place.json(&["server", "settings"]), "log"), said("error", "log level"));
    assert_eq!(setting(&place.json(&["server", "settings"]), "sealing").0, "required");
    let log = server.end();
    assert!(log.contains("that counts when it starts again") && log.contains("threads"), "{log}");
    assert!(log.contains("the settings file was not read again") && log.contains("line 1: sealing"), "{log}");
}

#[test]
fn a_wrong_file_starts_nothing_and_is_found_before() {
    let place = Place::new();
    let file = place.place.path().join("settings.toml");
    let path = file.to_str().unwrap();
    fs::write(&file, "\nsealing = \"on\"\n").unwrap();
    for words in [&["serve", "--config", path][..], &["serve", "--config", path, "--check-config"]] {
        let complaint = place.refused(words, 2);
        let line = format!("{path} line 2: sealing: \"on\" is not allowed");
        assert!(complaint.contains(&line) && complaint.contains("use required or enabled"), "{complaint}");
    }
    assert!(place.refused(&["serve", "--config", "/nowhere/at/all"], 1).contains("cannot be read"));
    assert!(place.refused(&["serve", "--config", "/nowhere/at/all", "--check-config"], 2).contains("cannot be read"));
    let audit_log = ["serve", "--check-config", "--audit-log", "/nowhere/at/all"];
    assert!(place.refused(&audit_log, 2).contains("the audit log /nowhere/at/all"));
    for (name, value) in
        [("MULTILANE_CHANNELS_MAX", "99"), ("MULTILANE_LOG", "loud"), ("MULTILANE_ADVERTISE_ONLY", "perhaps")]
    {
        let output = place.command(&["serve", "--check-config"]).env(name, value).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(&format!("error: {name}: ")) && complaint.contains(value), "{complaint}");
    }
    assert!(place.refused(&["serve", "--rest-tls"], 2).contains("--rest-tls means nothing without --rest\n"));
    for (text, part) in [
        ("rest-tls = true\n", "means nothing without rest\n"),
        ("advertise-only = true\n", "means nothing without advertise"),
        ("otlp-every = 5\n", "without otlp"),
        ("rest = \"0.0.0.0:1\"\n", "in the clear"),
    ] {
        fs::write(&file, text).unwrap();
        assert!(place.refused(&["serve", "--config", path, "--check-config"], 2).contains(part));
        assert!(place.refused(&["serve", "--config", path], 2).contains(part));
    }
    fs::write(&file, "otlp-every = 5\notlp = \"http://127.0.0.1:4318\"\n").unwrap();
    let checked = place.json(&["serve", "--config", path, "--check-config", "--threads", "3"]);
    assert_eq!(checked["file"], json!(path));
    assert_eq!(setting(&checked["options"], "otlp-every"), said("5", &format!("{path} line 1")));
    assert_eq!(setting(&checked["options"], "threads"), said("3", "command line"));
    assert!(!place.data.exists(), "nothing was begun");
}

#[test]
fn a_look_at_the_options_has_what_is_kept_and_says_defaults_as_values() {
    let place = Place::new();
    let look = || place.json(&["serve", "--check-config"])["options"].clone();
    assert_eq!(setting(&look(), "sealing"), said("enabled", "default"), "of a catalog that is not there yet");
    assert!(!place.data.exists(), "nothing was begun");
    place.done(&["account", "create", "abc"]);
    place.done(&["server", "set", "sealing", "required"]);
    place.done(&["server", "set", "lock-after", "10"]);
    let options = look();
    for (name, value, from) in [
        ("sealing", "required", "server set"),
        ("lock-after", "10", "server set"),
        ("signing", "required", "default"),
        ("dialect-min", "3.0", "default"),
        ("channels-max", "4", "default"),
        ("log-format", "text", "default"),
        ("audit-log", place.data.join("audit.log").to_str().unwrap(), "default"),
    ] {
        assert_eq!(setting(&options, name), said(value, from), "{name}");
    }
    for name in ["threads", "metadata-cache"] {
        assert!(
            setting(&options, name).0.trim_end_matches('M').parse::<u64>().is_ok_and(|number| number > 0),
            "{name}"
        );
    }
    let text = place.done(&["serve", "--check-config"]);
    assert!(!text.contains(" - "), "{text}");
    for hidden in ["store-latency", "burst-credits-max"] {
        assert!(!text.contains(hidden) && !place.json(&["server", "settings"]).to_string().contains(hidden), "{text}");
    }
    let told = place.done(&["serve", "--check-config", "--burst-credits-max", "7"]);
    assert!(told.contains("burst-credits-max"), "{told}");
    fs::write(place.data.join("catalog.db"), "broken").unwrap();
    place.refused(&["serve", "--check-config"], 2);
}
