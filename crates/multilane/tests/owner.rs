//! Root's commands on a data folder that is another user's: a package's server has a user of its own. Who is not root tests that it may not.

#[allow(dead_code)]
mod place;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place::Place;

/// A number that nobody has.
const OWNER: u32 = 54_321;

fn give(path: &Path) {
    chown(path, Some(OWNER), Some(OWNER)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

fn all(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { all(&path) } else { vec![path] }).collect()
}

#[test]
fn root_acts_as_the_owner_of_a_data_folder() {
    let place = Place::with_account();
    if !rustix::process::geteuid().is_root() {
        let complaint = place.refused(&["account", "list", "--data", "/"], 1);
        assert!(complaint.contains("there is no catalog in /"), "{complaint}");
        return;
    }
    fs::set_permissions(place.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    give(&place.data);
    place.done(&["account", "create", "another"]);
    assert!(place.done(&["account", "list"]).contains("another"));
    place.done(&["share", "create", "scratch", "--ram", "1M"]);
    let foreign = all(&place.data).into_iter().filter(|path| path.metadata().unwrap().uid() != OWNER);
    assert_eq!(foreign.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    // What serves is not started as somebody else in passing.
    let complaint = place.refused(&["serve", "--listen", "127.0.0.1:0"], 1);
    assert!(complaint.contains("belongs to another user (uid 54321, not 0)"), "{complaint}");
}

/// Its memory, its terminal and its environment are root's.
#[test]
fn the_owner_of_a_data_folder_cannot_look_into_roots_command() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::with_account();
    fs::set_permissions(place.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    give(&place.data);
    // The owner keeps the command waiting, to have time.
    let socket = UnixListener::bind(place.data.join("admin.sock")).unwrap();
    give(&place.data);
    let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
    command.args(["sessions", "--data"]).arg(&place.data).env("MULTILANE_PASSWORD", "a secret");
    let mut command = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _connected = socket.accept().unwrap();
    let process = format!("/proc/{}", command.id());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    assert!(uids.split_whitespace().all(|uid| uid == OWNER.to_string()), "{uids}");
    for place in ["environ", "mem", "fd/0"] {
        let as_owner =
            Command::new("head").args(["-c1", &format!("{process}/{place}")]).uid(OWNER).gid(OWNER).output().unwrap();
        assert!(String::from_utf8_lossy(&as_owner.stderr).contains("Permission denied"), "{place}: {as_owner:?}");
    }
    command.kill().unwrap();
    command.wait().unwrap();
}
