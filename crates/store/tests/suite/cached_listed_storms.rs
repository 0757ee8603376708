//! All that can be done to what a directory has, by the server and by others, by chance: what is listed with a cache is what is listed without one.
//! `MULTILANE_SECONDS=N` has each of these go on for longer.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use store::{
    AttributeChange, Belief, CachedStore, Changes, DelayedStore, Destination, DirectoryOptions, DirectoryStore, Error,
    Kind, Known, Metadata, Name, NewNode, Node, RamStore, Replace, Resolved, SharePath, Store, Time, Use,
};

use crate::common::{Numbers, behind, bounds, exchange, listed, memory, open, try_while_others};

/// What may not be done now is not done.
type Done = Result<(), Box<dyn std::error::Error>>;
/// A name and what is told of it.
type Listed = (String, Metadata);

/// Few names, so that what is done meets. `%` stands for bytes that are no letters.
const NAMES: [&str; 14] =
    ["a", "b", "A", "c", "d1", "e.", "f%", "F%", "con", "x:y", ".dot", "\u{e9}", "\u{c9}", "long~1"];

fn on_disk(name: &str) -> PathBuf {
    let bytes = name.bytes().flat_map(|byte| if byte == b'%' { vec![0xff, 0xfe] } else { vec![byte] });
    PathBuf::from(OsString::from_vec(bytes.collect()))
}

/// Opens to write, and waits for nobody who reads a pipe.
fn to_write() -> OpenOptions {
    let mut options = File::options();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    options
}

fn found(store: &dyn Store, at: &str, usage: Use) -> Result<Arc<dyn Node>, Error> {
    match store.resolve(&SharePath::parse(at)?, usage)? {
        Resolved::Found { node, .. } => Ok(node),
        Resolved::Missing { .. } => Err(Error::NotFound),
    }
}

fn stream_of(node: &dyn Node) -> Result<Arc<dyn Node>, Error> {
    match node.extras().stream("s")? {
        Some((_, stream)) => Ok(stream),
        None => node.extras().create_stream("s"),
    }
}

/// What a listing is compared by: who reads sets the time of access.
fn compared(store: &dyn Store) -> Vec<Listed> {
    listed(store).into_iter().map(|(name, known)| (name, Metadata { access: Time(0), ..known })).collect()
}

/// What is told is the truth; otherwise it is said what differs, and whether that is told later.
fn assert_listed(cached: &dyn Store, bare: &dyn Store, after: &str) {
    let (truth, told) = (compared(bare), compared(cached));
    if told != truth {
        std::thread::sleep(Duration::from_millis(300));
        let is_late = compared(cached) == compared(bare);
        let only = |of: &[Listed], but: &[Listed]| {
            of.iter().filter(|listed| !but.contains(listed)).cloned().collect::<Vec<_>>()
        };
        let (wrong, left_out) = (only(&told, &truth), only(&truth, &told));
        panic!("{after}: told {wrong:#?} rather than {left_out:#?}; told 0.3 s later: {is_late}");
    }
}

/// Lists a directory that others change, as a client does.
fn lists(store: &dyn Store, at: &str) {
    let Ok(node) = found(store, at, Use::Read) else { return };
    let (names, mut all) = (node.names().unwrap(), Vec::new());
    let _ = names.list_all(64, &mut |entry| {
        all.push(entry.name);
        ControlFlow::Continue(())
    });
    for name in all {
        let _ = names.entry_metadata(&name);
    }
}

/// A folder with the directory `d` and one beside it, and all that serve it.
struct Served<'a> {
    place: &'a Path,
    one: &'a CachedStore,
    two: &'a CachedStore,
    /// Serves `d` itself.
    inner: &'a CachedStore,
    numbers: Numbers,
    /// What clients have open.
    held: Vec<Arc<dyn Node>>,
}

impl Served<'_> {
    fn name(&mut self) -> &'static str {
        NAMES[self.numbers.below(NAMES.len() as u64) as usize]
    }

    fn bytes(&mut self, end: u64) -> Vec<u8> {
        vec![1; self.numbers.below(end) as usize]
    }

    fn is_one_of(&mut self, count: u64) -> bool {
        self.numbers.below(count) == 0
    }

    /// Does something; says what.
    fn act(&mut self) -> String {
        let (name, other) = (self.name(), self.name());
        let (who, act, done) = match self.numbers.below(60) {
            0 => {
                let act = self.numbers.below(4);
                ("of all", act, self.act_on_all(act))
            }
            1..36 => {
                let act = self.numbers.below(18);
                ("of another program", act, self.act_as_another_program(act, name, other))
            }
            _ => {
                let act = self.numbers.below(11);
                ("of the server", act, self.act_as_the_server(act, name, other))
            }
        };
        format!("act {act} {who} with {name} and {other}, {done:?}")
    }

    fn act_as_another_program(&mut self, act: u64, name: &str, other: &str) -> Done {
        let (d, o) = (self.place.join("d"), self.place.join("o"));
        let at = d.join(on_disk(name));
        let to = if self.is_one_of(3) { o.join(on_disk(other)) } else { d.join(on_disk(other)) };
        match act {
            0 | 1 => to_write().create(true).truncate(true).open(&at)?.write_all(&self.bytes(5_000))?,
            2 | 3 => fs::remove_file(&at)?,
            4 => fs::rename(&at, &to)?,
            5 => exchange(&at, &to)?,
            6 => fs::hard_link(&at, &to)?,
            7 => to_write().append(true).open(&at)?.write_all(b"more")?,
            8 => to_write().open(&at)?.set_len(self.numbers.below(9_000))?,
            9 => fs::set_permissions(&at, Permissions::from_mode(if self.is_one_of(2) { 0o444 } else { 0o644 }))?,
            10 => {
                let file = to_write().open(&at)?;
                if file.metadata()?.is_file() {
                    let seconds = self.numbers.below(1 << 30);
                    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
                }
            }
            // Seldom: it takes the place of a file.
            11 if self.is_one_of(10) => symlink(if self.is_one_of(2) { "a" } else { "../o/b" }, &at)?,
            11 => fs::remove_file(&at)?,
            12 => fs::create_dir(&at)?,
            13 => fs::remove_dir(&at)?,
            14 => drop(to_write().create(true).open(at.join("inside"))?),
            15 => fs::remove_file(at.join("inside"))?,
            16 => fs::rename(o.join(on_disk(other)), &at)?,
            _ => mknodat(CWD, &at, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?,
        }
        Ok(())
    }

    fn act_as_the_server(&mut self, act: u64, name: &str, other: &str) -> Done {
        let store = if self.is_one_of(2) { self.one } else { self.two };
        let at = format!("d\\{name}");
        let opened = |usage| found(store, &at, usage);
        match act {
            0 => drop(store.create(&SharePath::parse(&at)?, FILE)?),
            1 => {
                let node = opened(Use::ReadWrite)?;
                node.write_at(&self.bytes(100), self.numbers.below(8_000))?;
                if self.is_one_of(2) {
                    self.held.push(node);
                }
            }
            2 => self.held.clear(),
            3..=5 => names_change(store, act, name, other)?,
            6 => opened(Use::ReadWrite)?.extras().set_extended("EA", &self.bytes(50))?,
            7 => {
                let stream = stream_of(&*opened(Use::ReadWrite)?)?;
                stream.prepare(Use::ReadWrite)?;
                stream.write_at(&self.bytes(5_000), 0)?;
                if self.is_one_of(3) {
                    self.held.push(stream);
                }
            }
            8 => {
                let attributes = AttributeChange::setting(if self.is_one_of(2) { 1 } else { 3 });
                opened(Use::ReadWrite)?.change(&Changes { attributes, ..Changes::default() })?;
            }
            9 => opened(Use::ReadWrite)?.set_length(self.numbers.below(10_000))?,
            _ => drop(self.inner.create(&SharePath::parse(name)?, DIRECTORY)?),
        }
        Ok(())
    }

    /// What is done to the directory itself, or to a cache.
    fn act_on_all(&mut self, act: u64) -> Done {
        let d = self.place.join("d");
        match act {
            // Another directory takes its place, and all that it has.
            0 if self.is_one_of(8) => {
                let aside = self.place.join("aside");
                fs::rename(&d, &aside)?;
                fs::create_dir(&d)?;
                for entry in fs::read_dir(&aside)? {
                    let entry = entry?;
                    fs::rename(entry.path(), d.join(entry.file_name()))?;
                }
                fs::remove_dir(aside)?;
            }
            0 => {}
            1 => {
                let aside = self.place.join("aside");
                fs::rename(&d, &aside)?;
                fs::rename(&aside, &d)?;
            }
            _ => {
                let store = if self.is_one_of(2) { self.one } else { self.two };
                store.switch(false);
                store.switch(true);
            }
        }
        Ok(())
    }
}

const FILE: NewNode<'static> = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
const DIRECTORY: NewNode<'static> = NewNode { kind: Kind::Directory, ..FILE };

/// Has a name removed, moved or linked through the directory.
fn names_change(store: &dyn Store, act: u64, name: &str, other: &str) -> Result<(), Error> {
    let node = found(store, &format!("d\\{name}"), Use::Metadata)?;
    let directory = found(store, "d", Use::Metadata)?;
    let (name, other) = (Name::new(name)?, Name::new(other)?);
    let to = Destination { directory: &*directory, name: &other };
    match act {
        3 => directory.names()?.remove(&name, node.identity()),
        4 => directory.names()?.rename(&name, node.identity(), to, Replace::Yes),
        _ => node.link(to, Replace::Yes),
    }
}

/// A storm in a folder, with so many that list.
fn storm_in(place: &Path, listers: usize) {
    ["d", "o"].iter().for_each(|name| fs::create_dir(place.join(name)).unwrap());
    let known = Known::new(bounds(8 << 20));
    let (one, two, inner) = (behind(&known, place), behind(&known, place), behind(&known, &place.join("d")));
    let bare = DirectoryStore::open(place, DirectoryOptions::default()).unwrap();
    let _open_all_the_time = open(&one, "d", Use::Read);
    let client = |number| {
        let served: [(&dyn Store, &str); 3] = [(&one, "d"), (&two, "d"), (&inner, "")];
        let (store, at) = served[number % served.len()];
        lists(store, at);
        ["d\\a", "d\\b", "d\\d1"].iter().for_each(|at| drop(found(&two, at, Use::Read)));
    };
    let mut served =
        Served { place, one: &one, two: &two, inner: &inner, numbers: Numbers::of(listers as u64), held: Vec::new() };
    try_while_others(listers, client, |step| {
        let done = served.act();
        for (of, store) in [("one", &one), ("two", &two)] {
            assert_listed(store, &bare, &format!("step {step}, {done}, by {of}"));
        }
    });
}

#[test]
fn a_storm_that_nobody_else_lists_in() {
    storm_in(memory().path(), 0);
}

#[test]
fn a_storm_in_memory() {
    storm_in(memory().path(), 4);
}

#[test]
fn a_storm_on_a_disk() {
    storm_in(tempfile::tempdir().unwrap().path(), 3);
}

/// Does something in a store that the server alone changes.
fn act_alone(store: &CachedStore, numbers: &mut Numbers, held: &mut Vec<Arc<dyn Node>>) -> (String, Result<(), Error>) {
    let name = ["a", "b", "A", "c", "\u{e9}"][numbers.below(5) as usize];
    let other = ["a", "b", "B", "c", "\u{c9}"][numbers.below(5) as usize];
    let at = format!("d\\{name}");
    let act = numbers.below(8);
    let mut done = || {
        let create = |new| store.create(&SharePath::parse(&at)?, new).map(drop);
        let opened = || found(store, &at, Use::ReadWrite);
        match act {
            0 => create(FILE)?,
            1 => create(DIRECTORY)?,
            3 | 4 => names_change(store, act, name, other)?,
            5 => {
                let node = opened()?;
                node.write_at(&[1; 10], numbers.below(5_000))?;
                if numbers.below(2) == 0 {
                    held.push(node);
                }
            }
            6 => opened()?.set_length(numbers.below(5_000))?,
            7 => stream_of(&*opened()?)?.write_at(&[1; 10], numbers.below(100))?,
            _ => held.clear(),
        }
        Ok(())
    };
    let done = done();
    (format!("act {act} with {name} and {other}"), done)
}

#[test]
fn a_storm_in_what_is_far_away_and_the_servers_alone() {
    let disk: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    let far = Arc::new(DelayedStore::with_wait(Arc::clone(&disk), std::thread::yield_now));
    let store = CachedStore::new(far, Known::new(bounds(4 << 20)), Belief::Lasting);
    drop(store.create(&SharePath::parse("d").unwrap(), DIRECTORY).unwrap());
    let (mut numbers, mut held) = (Numbers::of(1), Vec::new());
    try_while_others(
        3,
        |_| drop(listed(&store)),
        |step| {
            let done = act_alone(&store, &mut numbers, &mut held);
            assert_listed(&store, &*disk, &format!("step {step}, {done:?}"));
        },
    );
}
