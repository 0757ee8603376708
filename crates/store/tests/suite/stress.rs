//! Many clients at once, and a server that is killed under them: what is left once all files are removed is nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use store::{DirectoryOptions, DirectoryStore, Error, Kind, Node, Renewal, Replace, Resolved, Store, Use};

use crate::common::{Numbers, new, path};

const CLIENTS: u64 = 12;
/// Few files, so that clients meet.
const FILES: u64 = 6;
const LARGE: usize = 9_000;
/// Has this program be the server that is killed, in the folder that it names.
const SERVES: &str = "MULTILANE_TEST_SERVES";

fn find(store: &DirectoryStore, name: &str) -> Result<Arc<dyn Node>, Error> {
    match store.resolve(&path(name), Use::ReadWrite)? {
        Resolved::Found { node, .. } => Ok(node),
        Resolved::Missing { .. } => Err(Error::NotFound),
    }
}

/// Does something of what clients do. Others may have been faster.
fn do_something(store: &DirectoryStore, numbers: &mut Numbers) -> Result<(), Error> {
    let name = |number: u64| format!("file{number}");
    let (one, other) = (name(numbers.below(FILES)), name(numbers.below(FILES)));
    let stream = format!("stream{}", numbers.below(3));
    let file = || find(store, &one);
    match numbers.below(10) {
        0..=2 => store.create(&path(&one), new(Kind::File)).map(drop),
        3 | 4 => {
            let file = file()?;
            let stream = file.extras().create_stream(&stream)?;
            stream.write_at(&[1; LARGE], 0)
        }
        5 => file()?.extras().set_security(&vec![1; 40_000 + 40_000 * numbers.below(2) as usize]),
        6 => file()?.renew(&Renewal::default()).map_err(|failed| failed.error),
        7 => file()?.extras().rename_stream(&stream, "stream0", Replace::Yes),
        8 => store.rename(&path(&one), &path(&other), file()?.identity(), Replace::Yes),
        _ => store.remove(&path(&one), file()?.identity()),
    }
}

fn use_until(store: &DirectoryStore, seed: u64, is_over: impl Fn() -> bool + Sync) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut numbers = Numbers::of(seed * CLIENTS + client);
                while !is_over() {
                    let _ = do_something(store, &mut numbers);
                }
            });
        }
    });
}

/// Removes all files; gives what is left in the reserved folder.
fn left_behind(store: &DirectoryStore, folder: &Path) -> Vec<String> {
    for number in 0..FILES {
        let name = format!("file{number}");
        if let Ok(file) = find(store, &name) {
            store.remove(&path(&name), file.identity()).unwrap();
        }
    }
    let names = std::fs::read_dir(folder.join(".multilane")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lock").collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn clients_that_meet_leave_nothing() {
    for seed in 0..4 {
        let folder = folder();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let clock = thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            over.store(true, Ordering::Relaxed);
        });
        use_until(&store, seed, || is_over.load(Ordering::Relaxed));
        clock.join().unwrap();
        assert_eq!(left_behind(&store, folder.path()), [""; 0]);
    }
}

/// No test, but the server that the next one kills.
#[test]
fn the_server_that_is_killed() {
    let Ok(folder) = std::env::var(SERVES) else { return };
    let store = DirectoryStore::open(Path::new(&folder), DirectoryOptions::default()).unwrap();
    println!("serves");
    use_until(&store, u64::from(std::process::id()), || false);
}

#[test]
fn a_server_that_is_killed_under_its_clients_leaves_nothing_once_the_folder_is_served_again() {
    let folder = folder();
    for round in 0..8 {
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stress::the_server_that_is_killed", "--nocapture"])
            .env(SERVES, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(150 + 17 * round));
        server.kill().unwrap();
        server.wait().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let mut left = left_behind(&store, folder.path());
        // Side files of files without a name go on a thread of their own.
        for _ in 0..200 {
            if left.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
            left = left_behind(&store, folder.path());
        }
        assert_eq!(left, [""; 0], "round {round}");
    }
}
