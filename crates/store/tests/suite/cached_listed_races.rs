//! Others list a directory all the time while what is in it changes: what was done is told by the next listing. `MULTILANE_SECONDS=N` has each of
//! these go on for longer.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use store::{CachedStore, Known, Name, Use};

use crate::common::{all_entries, behind, bounds, exchange, listed, memory, open, try_while_others};

/// What is told is the truth; otherwise it is said what is told later.
fn assert_told<T: PartialEq + std::fmt::Debug>(when: &str, tell: impl Fn() -> T, truth: &T) {
    let told = tell();
    if told != *truth {
        std::thread::sleep(Duration::from_millis(500));
        panic!("{when}: told {told:?}, half a second later {:?}; the truth {truth:?}", tell());
    }
}

#[test]
fn what_others_write_once_the_server_has_is_listed() {
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    ["f", "g"].iter().for_each(|name| fs::write(place.path().join("d").join(name), "").unwrap());
    let store = behind(&Known::new(bounds(8 << 20)), place.path());
    let length = || listed(&store).into_iter().find(|(name, _)| name == "f").map(|(_, known)| known.length);
    try_while_others(
        3,
        |_| drop(listed(&store)),
        |round| {
            open(&store, "d\\f", Use::ReadWrite).write_at(b"x", 0).unwrap();
            for times in 0..2 {
                let truth = (2 * round + times) % 5_000 + 1;
                File::options().write(true).open(place.path().join("d/f")).unwrap().set_len(truth).unwrap();
                assert_told(&format!("round {round}"), length, &Some(truth));
            }
        },
    );
}

#[test]
fn what_was_looked_at_before_the_server_wrote_is_not_told_afterwards() {
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    let at = place.path().join("d/f");
    fs::write(&at, "").unwrap();
    let store = behind(&Known::new(bounds(8 << 20)), place.path());
    (0..4).for_each(|_| drop(listed(&store)));
    let name = Name::new("f").unwrap();
    let node = open(&store, "d", Use::Read);
    drop(all_entries(&*node).unwrap());
    let length = || node.names().unwrap().entry_metadata(&name).unwrap().length;
    let file = File::options().write(true).open(&at).unwrap();
    try_while_others(
        8,
        |_| _ = length(),
        |round| {
            let truth = 2 * round % 5_000 + 1;
            file.set_len(truth).unwrap();
            let mut writer = open(&store, "d\\f", Use::ReadWrite);
            for _ in 0..3 {
                writer.write_at(b"x", 0).unwrap();
                drop(writer);
                writer = open(&store, "d\\f", Use::ReadWrite);
            }
            drop(writer);
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            file.set_len(truth + 1).unwrap();
            assert_told(&format!("round {round}"), length, &(truth + 1));
        },
    );
}

/// The names of the directory, and how long each is, and how many names it has.
fn names_lengths_and_links(store: &CachedStore) -> Vec<(String, u64, u32)> {
    listed(store).into_iter().map(|(name, known)| (name, known.length, known.links)).collect()
}

/// Another program makes, links, writes, replaces, exchanges and removes.
fn what_others_do(place: &Path, told: impl Fn(&str, &[(&str, u64, u32)])) {
    let (d, o) = (|name: &str| place.join("d").join(name), |name: &str| place.join("o").join(name));
    fs::write(d("a"), "1").unwrap();
    told("made", &[("a", 1, 1)]);
    fs::hard_link(d("a"), o("a")).unwrap();
    told("linked", &[("a", 1, 2)]);
    fs::write(o("a"), "22").unwrap();
    told("written by another name", &[("a", 2, 2)]);
    fs::write(d("b"), "333").unwrap();
    fs::rename(d("b"), d("a")).unwrap();
    told("replaced", &[("a", 3, 1)]);
    fs::rename(o("a"), d("b")).unwrap();
    exchange(&d("a"), &d("b")).unwrap();
    told("exchanged", &[("a", 2, 1), ("b", 3, 1)]);
    fs::remove_file(d("a")).unwrap();
    told("removed", &[("b", 3, 1)]);
    fs::hard_link(d("b"), o("y")).unwrap();
    fs::remove_file(d("b")).unwrap();
    symlink("../o/y", d("b")).unwrap();
    told("a link to what had the name", &[("b", 0, 1)]);
    fs::remove_file(d("b")).unwrap();
    fs::remove_file(o("y")).unwrap();
    told("all removed", &[]);
}

fn what_others_replace_is_listed(place: &Path) {
    ["d", "o"].iter().for_each(|name| fs::create_dir(place.join(name)).unwrap());
    let known = Known::new(bounds(8 << 20));
    let (store, other) = (behind(&known, place), behind(&known, place));
    let lists = |number| {
        let node = open(if number == 0 { &other } else { &store }, "d", Use::Read);
        for entry in all_entries(&*node).unwrap() {
            // The name may be gone by now, or be a link that leads nowhere.
            let _ = node.names().unwrap().entry_metadata(&entry.name);
        }
    };
    try_while_others(3, lists, |round| {
        what_others_do(place, |what, truth| {
            let truth = truth.iter().map(|(name, length, links)| ((*name).to_owned(), *length, *links)).collect();
            assert_told(&format!("{what} in round {round}"), || names_lengths_and_links(&store), &truth);
        });
    });
}

#[test]
fn what_others_replace_is_listed_in_memory() {
    what_others_replace_is_listed(memory().path());
}

#[test]
fn what_others_replace_is_listed_on_a_disk() {
    what_others_replace_is_listed(tempfile::tempdir().unwrap().path());
}
