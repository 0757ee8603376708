//! The commands of docs/ADMINISTRATION.md, as they stand there, on servers that are in the state that each section speaks of.

#[allow(dead_code)]
mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::place::Place;

/// Stands in for systemd: starts, stops and restarts the server of the data folder.
const SYSTEMCTL: &str = r#"#!/bin/sh
set -eu
case "$*" in *" multilane" | *" multilane.socket multilane.service") ;; *) exit 1 ;; esac
case "$1" in
start)
    : >"$RUN/ready" # of the start before, as long as the server has not opened it
    multilane serve --listen 127.0.0.1:0 >"$RUN/ready" 2>"$RUN/log" &
    echo $! >"$RUN/pid"
    until grep -q serves "$RUN/ready"; do kill -0 "$(cat "$RUN/pid")"; sleep 0.05; done ;;
stop)
    kill "$(cat "$RUN/pid")"
    while kill -0 "$(cat "$RUN/pid")" 2>/dev/null; do sleep 0.05; done
    rm "$RUN/pid" ;;
restart)
    "$0" stop multilane
    "$0" start multilane ;;
esac
"#;

/// Stands in for rsync where there is none.
const RSYNC: &str = r#"#!/bin/sh
set -eu
for word; do from=${to-}; to=$word; done
case " $* " in *" --delete "*) find "$to" -mindepth 1 -delete ;; esac
cp -a "$from." "$to"
"#;

/// A machine with a server, and what the guide calls `$DATA` and `$BACKUP`.
struct Machine {
    place: Place,
    backup: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let place = Place::new();
        let (run, backup) = (place.place.path().join("run"), place.place.path().join("backup"));
        for folder in [&run, &backup] {
            fs::create_dir(folder).unwrap();
        }
        for (name, script) in [("systemctl", SYSTEMCTL), ("rsync", RSYNC)] {
            fs::write(run.join(name), script).unwrap();
            fs::set_permissions(run.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Machine { place, backup }
    }

    /// Runs commands as somebody does who types them, until one fails.
    fn types(&self, commands: &str) -> Output {
        let run = self.place.place.path().join("run");
        let program = Path::new(env!("CARGO_BIN_EXE_multilane")).parent().unwrap();
        let path = format!("{}:{}:{}", run.display(), program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-euc", commands]).env("PATH", path).env("RUN", run).env("MULTILANE_DATA", &self.place.data);
        shell.env("DATA", &self.place.data).env("BACKUP", &self.backup).env("NEW", self.place.place.path().join("new"));
        shell.env("PASSWORD", "a secret").stdin(Stdio::null());
        shell.output().unwrap()
    }

    fn does(&self, commands: &str) -> String {
        let output = self.types(commands);
        let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{commands}\n{said}\n{complaint}");
        said.into_owned()
    }

    /// Starts the server for the first time, with something in its catalog.
    fn with_server() -> Self {
        let machine = Machine::new();
        machine.does("systemctl start multilane; multilane account create projects >\"$RUN/said\"");
        machine
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.types("[ ! -e \"$RUN/pid\" ] || kill -9 \"$(cat \"$RUN/pid\")\"");
    }
}

/// The commands of a section, block by block.
fn section(title: &str) -> Vec<String> {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ADMINISTRATION.md")).unwrap();
    let text = guide.split("\n## ").find(|section| section.lines().next() == Some(title));
    let text = text.unwrap_or_else(|| panic!("there is no section {title}"));
    let blocks = text.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned());
    let blocks: Vec<String> = blocks.collect();
    assert!(!blocks.is_empty(), "{title} has no commands");
    blocks
}

/// All that the commands of a section say.
fn rehearse(machine: &Machine, title: &str) -> String {
    section(title).iter().map(|block| machine.does(block)).collect()
}

#[test]
fn backup() {
    let machine = Machine::with_server();
    let said = rehearse(&machine, "Backup");
    assert!(said.contains("projects") && !machine.backup.join("try").exists(), "{said}");
    assert_eq!(fs::read_dir(&machine.backup).unwrap().count(), 2);
}

#[test]
fn restore() {
    let machine = Machine::with_server();
    machine.does("multilane backup \"$BACKUP/multilane.db\"; multilane account create later >\"$RUN/said\"");
    let good = fs::read(machine.backup.join("multilane.db")).unwrap();
    let said = rehearse(&machine, "Restore");
    assert!(said.contains("nothing is wrong with"), "{said}");
    let accounts = machine.does("multilane account list");
    assert!(accounts.contains("projects") && !accounts.contains("later"), "{accounts}");
    // Nothing is lost: neither the backup, nor what it took the place of.
    assert_eq!(fs::read(machine.backup.join("multilane.db")).unwrap(), good);
    machine.does("multilane restore --force \"$DATA/catalog.db.before-restore\"");
    assert!(machine.does("multilane account list").contains("later"));
}

#[test]
fn settings() {
    let machine = Machine::with_server();
    let said = rehearse(&machine, "Settings");
    assert!(said.contains("sealing is required"), "{said}");
    let last = said.lines().rev().find(|line| line.starts_with("channels-max")).unwrap();
    assert!(last.contains('8') && last.contains("multilane.toml line 1"), "{last}");
    let sealing = said.lines().rev().find(|line| line.starts_with("sealing")).unwrap();
    assert!(sealing.contains("required") && sealing.contains("server set"), "{sealing}");
}

#[test]
fn a_share_for_time_machine() {
    let machine = Machine::with_server();
    let said = rehearse(&machine, "A share for Time Machine");
    assert!(said.contains("2048 GiB") || said.contains("2 TiB"), "{said}");
    let share = machine.place.json(&["share", "show", "macs"]);
    assert_eq!((&share["time_machine"], &share["quota_gib"]), (&true.into(), &2048.into()));
    machine.does("multilane share update macs --time-machine 3T");
    assert_eq!(machine.place.json(&["share", "show", "macs"])["quota_gib"], 3072);
    machine.does("multilane share update macs --time-machine off");
    let share = machine.place.json(&["share", "show", "macs"]);
    assert_eq!((&share["time_machine"], &share["quota_gib"]), (&false.into(), &3072.into()));
    assert!(!machine.types("multilane share update macs --time-machine 1T --quota 2T").status.success());
}

#[test]
fn moving_the_data_folder() {
    let machine = Machine::with_server();
    if !may_mount(&machine) {
        return;
    }
    fs::write(machine.place.data.join("share/file"), "kept").unwrap();
    until_unmounted(&machine, || {
        let said = rehearse(&machine, "Move the data folder");
        assert!(said.contains("nothing is wrong with"), "{said}");
        assert_eq!(fs::read_to_string(machine.place.data.join("documents/file")).unwrap(), "kept");
        assert_eq!(machine.place.json(&["status"])["problems"], serde_json::json!([]));
    });
}

#[test]
fn people() {
    let machine = Machine::with_server();
    let said = rehearse(&machine, "People");
    assert!(said.contains("shares:   share (change)") && said.contains("staff  group  change"), "{said}");
    let users = machine.place.json(&["user", "list"]);
    assert_eq!(users.as_array().unwrap().iter().map(|user| &user["name"]).collect::<Vec<_>>(), ["alice.miller"]);
    assert_eq!(machine.place.json(&["share", "grants", "share"])["grants"][0]["who"], "crew");
}

#[test]
fn to_a_larger_disk() {
    let machine = Machine::with_server();
    let new = machine.place.place.path().join("new");
    fs::create_dir(&new).unwrap();
    fs::write(machine.place.data.join("share/file"), "kept").unwrap();
    let said = rehearse(&machine, "To a larger disk");
    assert!(said.contains("nothing is wrong with") && said.contains("problem      none"), "{said}");
    assert_eq!(fs::read_to_string(new.join("file")).unwrap(), "kept");
    assert_eq!(machine.place.json(&["status"])["problems"], serde_json::json!([]));
}

#[test]
fn upgrade() {
    let machine = Machine::new();
    let data = &machine.place.data;
    fs::create_dir_all(data.join("share")).unwrap();
    fs::set_permissions(data, fs::Permissions::from_mode(0o700)).unwrap();
    let older = include_str!("rehearsal/catalog-schema-10.sql");
    let older = older.replace("DATA", fs::canonicalize(data).unwrap().to_str().unwrap());
    rusqlite::Connection::open(data.join("catalog.db")).unwrap().execute_batch(&older).unwrap();
    // The older version is this one here, whose first start raises the catalog.
    machine.does("systemctl start multilane");
    assert!(data.join("catalog.db.schema-10").exists());
    let said = rehearse(&machine, "Upgrade");
    assert!(said.contains("nothing is wrong with"), "{said}");
    assert!(machine.does("multilane user list").contains("alice"));
}

#[test]
fn who_may_sign_in() {
    let machine = Machine::with_server();
    machine.does("echo a secret | multilane user create alice --password-stdin --account local");
    let said = rehearse(&machine, "Who may sign in");
    for part in ["lock-for", "alice: was not locked", "2001:db8::/32", "go on until", "user 1001 and group 100"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn a_broken_catalog() {
    let machine = Machine::with_server();
    machine.does("multilane backup \"$BACKUP/multilane.db\"");
    fs::write(machine.place.data.join("catalog.db"), "broken").unwrap();
    let said = rehearse(&machine, "A broken catalog");
    assert!(said.contains("wrong: ") && said.contains("it ended with 3"), "{said}");
    assert!(said.contains("nothing is wrong with") && said.contains("the server is ready"), "{said}");
    assert!(machine.does("multilane account list").contains("projects"));
}

/// Whether something can be mounted here; what needs it is left out elsewhere.
fn may_mount(machine: &Machine) -> bool {
    let probe = "mkdir \"$RUN/probe\"; mount --bind \"$RUN/probe\" \"$RUN/probe\" && umount \"$RUN/probe\"";
    let may = machine.types(probe).status.success();
    assert!(may || std::env::var_os("CI").is_none(), "nothing can be mounted here");
    if !may {
        eprintln!("skipped: nothing can be mounted here");
    }
    may
}

/// Does something with a data folder on which a file system is mounted, or comes to be, and takes that away whatever comes of it.
fn until_unmounted(machine: &Machine, work: impl FnOnce()) {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    machine.types("[ ! -e \"$RUN/pid\" ] || kill -9 \"$(cat \"$RUN/pid\")\"");
    let unmounted = machine.types("umount -l \"$DATA\"").status.success();
    if let Err(cause) = done {
        std::panic::resume_unwind(cause);
    }
    assert!(unmounted, "nothing was mounted");
}

#[test]
fn a_full_disk() {
    let machine = Machine::new();
    let data = machine.place.data.clone();
    fs::create_dir(&data).unwrap();
    if !may_mount(&machine) {
        return;
    }
    machine.does("mount -t tmpfs -o mode=700,size=4m tmpfs \"$DATA\"");
    until_unmounted(&machine, || {
        machine.does("systemctl start multilane; dd if=/dev/zero of=\"$DATA/catalog.db.before-restore\" bs=512 2>\"$RUN/full\" || true");
        let refused = machine.types("multilane account create another");
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && complaint.contains("free some space"), "{complaint}");
        let said = rehearse(&machine, "A full disk");
        assert!(said.contains("catalog.db.before-restore") && said.contains("nothing is wrong with"), "{said}");
        machine.does("multilane account create another; systemctl stop multilane");
    });
}
