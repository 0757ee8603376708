//! For tests: a server that was started as its users start one, and alice, whose password is `a secret`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::Place;
use crate::started::{started, started_logging};

/// Longer than anything takes that is waited for.
const AN_AGE: Duration = Duration::from_secs(60);

/// A running server of a data folder.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn new(place: &Place) -> Self {
        Self::of(started(place, &[]))
    }

    /// The same, whose log is lines of JSON in this file.
    pub(crate) fn logging(place: &Place, log: &Path) -> Self {
        Self::of(started_logging(place, &["--log-format", "json"], File::create(log).unwrap().into()))
    }

    fn of((child, ready): (Child, Value)) -> Self {
        let port = ready["listen"][0].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
        Server { child, port }
    }

    /// Whether alice, whose password is `a secret`, can list a share.
    pub(crate) fn lets_alice_list(&self, place: &Place, share: &str) -> bool {
        let there = format!("smb://alice@127.0.0.1:{}/{share}", self.port);
        as_alice(&mut place.command(&["ls", &there])).status().unwrap().success()
    }

    /// Alice writes to a file of a share for minutes.
    pub(crate) fn alice_writes(&self, place: &Place, share: &str) -> Child {
        let map = format!("z:=smb://alice@127.0.0.1:{}/{share}", self.port);
        let words = ["diskspd", "--map", &map, "-c64K", "-b4K", "-w100", "-d300", "-W0", "z:\\file"];
        let writer = as_alice(&mut place.command(&words)).spawn().unwrap();
        // The file is made through an open of its own, which goes at once.
        let is_open = |file: &Value| file["path"] == "file" && file["open_seconds"].as_u64() >= Some(2);
        wait_until(|| place.json(&["open-files"]).as_array().unwrap().iter().any(is_open));
        writer
    }

    /// Has it read its catalog again, as SIGHUP does.
    pub(crate) fn hang_up(&self) {
        assert!(Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status().unwrap().success());
    }

    pub(crate) fn end(mut self) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn as_alice(command: &mut Command) -> &mut Command {
    command
        .env("MULTILANE_PASSWORD", "a secret")
        .env_remove("MULTILANE_USER")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + AN_AGE;
    while !is_so() {
        assert!(Instant::now() < until, "waited for in vain");
        sleep(Duration::from_millis(20));
    }
}

pub(crate) fn add_user(place: &Place, name: &str) {
    let mut command = place.command(&["user", "add", name, "--password-stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "a secret").unwrap();
    assert!(child.wait().unwrap().success());
}

/// A place whose server has made the first account and share, with alice and a RAM disk `fast`.
pub(crate) fn with_alice() -> (Place, Server) {
    let place = Place::new();
    let server = Server::new(&place);
    add_user(&place, "alice");
    place.done(&["share", "create", "fast", "--ram", "8M"]);
    (place, server)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
