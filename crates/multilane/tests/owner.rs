//! Root's commands on a data folder that is another user's: a package's server has a user of its own. Who is not root tests that it may not.

#[allow(dead_code)]
mod place;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

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
