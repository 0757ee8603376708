//! What the cache tells is what the store would have told: at once on file systems of this machine, whoever changes something.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::fs::{XattrFlags, setxattr};
use store::{
    AttributeChange, Belief, CacheBounds, CachedStore, Changes, DelayedStore, DirectoryOptions, DirectoryStore, Error,
    Kind, Known, Metadata, NewNode, Node, RamStore, Replace, Resolved, SharePath, Store, Time, Use,
};
use tempfile::TempDir;

use crate::common::{all_entries, counted_far_away, path};

/// Few, so that they meet. No two are the same name in different case: of these the store itself hears some time later.
const NAMES: [&str; 6] = ["a", "b", "LONGNA~1", "a\u{308}", "\u{e4}", ".c"];
const DIRECTORIES: [&str; 4] = ["", "one", "two", "one\\three"];
/// Operations of the usual run. `MULTILANE_STEPS` sets another number.
const STEPS: u64 = 40_000;

const BOUNDS: CacheBounds =
    CacheBounds { bytes: 4 << 20, descriptors: 24, highest_descriptor: i32::MAX, learns_at_once: true };

/// A folder, or a RAM disk, that shares of one server are on: as the store tells of it, and as the cache does.
struct Folder {
    /// Where other programs find it, if anywhere.
    place: Option<TempDir>,
    truth: Arc<dyn Store>,
    cached: CachedStore,
    /// Another share of the server over the same folder, of an account that caches nothing.
    other: CachedStore,
    random: Xoshiro256StarStar,
    /// Files that somebody has open.
    open: Vec<Arc<dyn Node>>,
}

impl Folder {
    fn new(place: &Path, bounds: CacheBounds, seed: u64) -> Self {
        let place = tempfile::tempdir_in(place).unwrap();
        let open =
            || -> Arc<dyn Store> { Arc::new(DirectoryStore::open(place.path(), DirectoryOptions::default()).unwrap()) };
        let shares = [open(), open(), open()];
        Folder::of(Some(place), shares, (bounds, Belief::For(Duration::from_secs(1))), seed)
    }

    fn far_away(bounds: CacheBounds, seed: u64) -> Self {
        let disk: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
        let far = || -> Arc<dyn Store> { Arc::new(DelayedStore::with_wait(Arc::clone(&disk), || {})) };
        let shares = [far(), far(), far()];
        Folder::of(None, shares, (bounds, Belief::Lasting), seed)
    }

    fn of(
        place: Option<TempDir>,
        shares: [Arc<dyn Store>; 3],
        (bounds, belief): (CacheBounds, Belief),
        seed: u64,
    ) -> Self {
        let known = Known::new(bounds);
        let [truth, one, other] = shares;
        let behind = |store| CachedStore::new(store, Arc::clone(&known), belief);
        let (cached, other) = (behind(one), behind(other));
        other.switch(false);
        for directory in &DIRECTORIES[1..] {
            truth
                .create(&path(directory), NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None })
                .unwrap();
        }
        let random = Xoshiro256StarStar::seed_from_u64(seed);
        Folder { place, truth, cached, other, random, open: Vec::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn any_path(&mut self) -> String {
        let (directory, name) = (DIRECTORIES[self.below(DIRECTORIES.len())], NAMES[self.below(NAMES.len())]);
        if directory.is_empty() { name.to_owned() } else { format!("{directory}\\{name}") }
    }

    /// Another program does something.
    fn other_program(&mut self) {
        let (one, other) = (self.any_path(), self.any_path());
        let Some(root) = self.place.as_ref().map(|place| place.path().to_owned()) else { return };
        let on_disk = |path: &str| root.join(path.replace('\\', "/"));
        let (one, other) = (on_disk(&one), on_disk(&other));
        let (what, length) = (self.below(13), self.below(9000) as u64);
        // Whether it can be done is not the question.
        let _ = match what {
            0 => File::create(&one).map(drop),
            1 => File::create_new(&one).map(drop),
            2 => fs::remove_file(&one),
            3 => fs::rename(&one, &other),
            4 => fs::hard_link(&one, &other),
            5 => OpenOptions::new().write(true).open(&one).and_then(|file| file.set_len(length)),
            6 => OpenOptions::new().write(true).open(&one).and_then(|file| file.write_all_at(b"data", length)),
            7 => fs::set_permissions(&one, fs::Permissions::from_mode(if length % 2 == 0 { 0o400 } else { 0o600 })),
            8 => fs::create_dir(&one),
            9 => fs::remove_dir(&one),
            10 => {
                let key = ["user.multilane.sd", "user.multilane", "user.other"][length as usize % 3];
                let value = vec![length as u8; length as usize % 40];
                setxattr(&one, key, &value, XattrFlags::empty()).map_err(Into::into)
            }
            11 => File::open(&one).and_then(|file| {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(length);
                let times = FileTimes::new().set_modified(time);
                // Of a directory the kernel does not tell that its time of writing was set alone.
                let is_directory = file.metadata()?.is_dir();
                file.set_times(if is_directory { times.set_accessed(time) } else { times })
            }),
            _ => {
                let directories: Vec<_> = DIRECTORIES[1..].iter().map(|name| on_disk(name)).collect();
                let at = length as usize % directories.len();
                let away = root.join("away");
                fs::rename(&directories[at], &away).and_then(|()| fs::rename(&away, &directories[at]))
            }
        };
    }

    /// A client of the server does something, through one of its shares.
    fn client(&mut self) {
        let (one, other) = (self.any_path(), self.any_path());
        let (what, number, through) = (self.below(12), self.below(9000), self.below(3));
        let store: &dyn Store = if through == 0 { &self.other } else { &self.cached };
        let (one, other) = (path(&one), path(&other));
        let found = |usage| match store.resolve(&one, usage) {
            Ok(Resolved::Found { node, .. }) => Ok(node),
            Ok(Resolved::Missing { .. }) => Err(Error::NotFound),
            Err(error) => Err(error),
        };
        let act = || -> Result<Option<Arc<dyn Node>>, Error> {
            match what {
                0 => {
                    let security = [None, Some(b"descriptor".as_slice())][number % 2];
                    let new = NewNode { kind: Kind::File, attributes: number as u32 & 0x27, security, owner: None };
                    return store.create(&one, new).map(Some);
                }
                1 => store.remove(&one, found(Use::Metadata)?.identity())?,
                2 => store.rename(&one, &other, found(Use::Metadata)?.identity(), Replace::No)?,
                3 => store.rename(&one, &other, found(Use::Metadata)?.identity(), Replace::Yes)?,
                4 => store.link(&one, &other, found(Use::Metadata)?.identity(), Replace::No)?,
                5 => return found([Use::Metadata, Use::Read, Use::ReadWrite][number % 3]).map(Some),
                6 => found(Use::Metadata)?.extras().set_security(&vec![number as u8; number % 600])?,
                7 => found(Use::Metadata)?.change(&Changes {
                    attributes: AttributeChange::to(number as u32 & 0x27),
                    write: Some(Time(130_000_000_000_000_000 + number as u64)),
                    ..Changes::default()
                })?,
                8 => found(Use::Metadata)?.extras().set_extended("key", &vec![1; number % 30])?,
                9 => drop(found(Use::Metadata)?.extras().create_stream("stream")?),
                10 => found(Use::Metadata)?.extras().remove_stream("stream")?,
                _ => {
                    let node = found(Use::Read)?;
                    node.prepare(Use::ReadWrite)?;
                    node.write_at(&[number as u8; 100], number as u64)?;
                    return Ok(Some(node));
                }
            }
            Ok(None)
        };
        if let Ok(Some(node)) = act() {
            self.open.push(node);
        }
    }

    /// Somebody who has a file open does something with it, or closes it.
    fn opener(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.below(self.open.len());
        let number = self.below(9000);
        let node = &self.open[at];
        match self.random.next_u64() % 4 {
            0 => drop(node.write_at(&[number as u8; 10], number as u64)),
            1 => drop(node.set_length(number as u64)),
            _ => drop(self.open.swap_remove(at)),
        }
    }

    /// What anybody is told of what stands at a path.
    fn told(store: &dyn Store, asked: &SharePath, usage: Use) -> Told {
        let followed = match store.resolve(asked, usage)? {
            Resolved::Missing { parent, path } => return Ok((path, parent.metadata()?.identity.file, None)),
            Resolved::Found { node, path } => (node, path),
        };
        let (node, path) = followed;
        Ok((path, node.identity().file, Some(of_node(&*node)?)))
    }

    /// Compares what is listed of a directory.
    fn list(&mut self, step: u64) {
        let asked = path(DIRECTORIES[self.below(DIRECTORIES.len())]);
        let listed = |store: &dyn Store| {
            let Resolved::Found { node, .. } = store.resolve(&asked, Use::Read)? else { return Ok(Vec::new()) };
            let mut listed = Vec::new();
            for entry in all_entries(&*node)? {
                let known = node.names()?.entry_metadata(&entry.name)?;
                listed.push((entry.name.as_str().to_owned(), Metadata { access: Time(0), ..known }));
            }
            listed.sort_by(|one, other| one.0.cmp(&other.0));
            Ok::<_, Error>(listed)
        };
        let (cached, truth) = (listed(&self.cached), listed(&*self.truth));
        assert!(cached == truth, "step {step}: names in {asked}:\n{cached:x?}\n{truth:x?}");
    }

    /// Compares what is told of a path.
    fn look(&mut self, step: u64) {
        let asked = path(&self.any_path());
        let usage = [Use::Metadata, Use::Read, Use::ReadWrite][self.below(3)];
        let (cached, truth) = (Folder::told(&self.cached, &asked, usage), Folder::told(&*self.truth, &asked, usage));
        assert!(cached == truth, "step {step}: {asked} for {usage:?}:\n{cached:x?}\n{truth:x?}");
        if !self.open.is_empty() {
            let at = self.below(self.open.len());
            let node = &self.open[at];
            let told = of_node(&**node);
            self.cached.switch(false);
            let truth = of_node(&**node);
            self.cached.switch(true);
            assert!(told == truth, "step {step}: what is open:\n{told:x?}\n{truth:x?}");
        }
    }
}

/// The stored path, the number, and what is told of what is there.
type Told = Result<(SharePath, u64, Option<OfNode>), Error>;
/// Metadata but for the time of last access, the descriptor, the extended attributes, the streams.
type OfNode = (Metadata, Result<Option<Vec<u8>>, Error>, Vec<(String, Vec<u8>)>, Vec<String>);

fn of_node(node: &dyn Node) -> Result<OfNode, Error> {
    let metadata = Metadata { access: Time(0), ..node.metadata()? };
    let extras = node.extras();
    let streams = extras.streams()?.into_iter().map(|stream| stream.name).collect();
    Ok((metadata, extras.security(), extras.extended()?, streams))
}

fn steps() -> u64 {
    let asked = std::env::var("MULTILANE_STEPS").ok();
    asked.map_or(STEPS, |asked| asked.parse().expect("MULTILANE_STEPS is a number"))
}

/// Does so many things at random, and compares after each what is told of something.
fn compare(mut folder: Folder) {
    for step in 0..steps() {
        match folder.below(4) {
            0 => folder.other_program(),
            1 => folder.client(),
            2 => folder.opener(),
            _ => {}
        }
        folder.look(step);
        if step % 8 == 0 {
            folder.list(step);
        }
        if folder.open.len() > 12 {
            folder.open.remove(0);
        }
    }
}

/// With room for everything, and with next to none.
fn compare_with_room_and_without(folder: impl Fn(CacheBounds, u64) -> Folder) {
    for (seed, bounds) in [BOUNDS, CacheBounds { bytes: 48 << 10, descriptors: 2, ..BOUNDS }].into_iter().enumerate() {
        compare(folder(bounds, seed as u64));
    }
}

#[test]
fn what_another_program_changes_in_memory_is_never_believed_otherwise() {
    compare_with_room_and_without(|bounds, seed| Folder::new(Path::new("/dev/shm"), bounds, seed));
}

#[test]
fn what_another_program_changes_on_a_disk_is_never_believed_otherwise() {
    compare_with_room_and_without(|bounds, seed| Folder::new(&std::env::temp_dir(), bounds, seed));
}

#[test]
fn what_the_server_changes_far_away_is_never_believed_otherwise() {
    compare_with_room_and_without(Folder::far_away);
}

/// Opens what stands at a path, asks what a client asks that opens it, and closes it.
fn open(store: &CachedStore, asked: &str) {
    let Resolved::Found { node, .. } = store.resolve(&path(asked), Use::Read).unwrap() else { panic!("{asked}") };
    drop((node.metadata_as_resolved().unwrap(), node.extras().security().unwrap(), node.metadata().unwrap()));
}

#[test]
fn what_is_known_is_asked_for_no_more() {
    let (store, asked) = counted_far_away(BOUNDS, Belief::Lasting);
    let directory = NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
    store.create(&path("one"), directory).unwrap();
    store.create(&path("one\\file"), NewNode { kind: Kind::File, ..directory }).unwrap();
    open(&store, "one\\file");
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..10 {
        open(&store, "one\\file");
        assert!(matches!(store.resolve(&path("one\\none"), Use::Read), Ok(Resolved::Missing { .. })));
    }
    // The name that is not there, once.
    assert_eq!(asked.load(Ordering::SeqCst), before + 1);
    store.switch(false);
    open(&store, "one\\file");
    assert!(asked.load(Ordering::SeqCst) > before + 1);
}

#[test]
fn what_is_believed_for_a_time_is_asked_for_once_in_that_time() {
    let (store, asked) = counted_far_away(BOUNDS, Belief::For(Duration::from_millis(100)));
    let directory = NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
    store.create(&path("one"), directory).unwrap();
    store.create(&path("one\\file"), NewNode { kind: Kind::File, ..directory }).unwrap();
    for _ in 0..3 {
        // The directory and the file by name, its metadata, its descriptor, and no more than that.
        let before = asked.load(Ordering::SeqCst);
        for _ in 0..10 {
            open(&store, "one\\file");
        }
        let asked = asked.load(Ordering::SeqCst) - before;
        assert!(asked <= 8, "{asked}");
        std::thread::sleep(Duration::from_millis(150));
    }
}

#[test]
fn what_is_believed_for_no_time_is_asked_for_each_time() {
    let (store, asked) = counted_far_away(BOUNDS, Belief::For(Duration::ZERO));
    let file = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
    store.create(&path("file"), file).unwrap();
    open(&store, "file");
    for _ in 0..3 {
        let before = asked.load(Ordering::SeqCst);
        open(&store, "file");
        // The name, the descriptor, and the metadata as often as it is wanted.
        assert!(asked.load(Ordering::SeqCst) >= before + 4);
    }
}

#[test]
fn what_was_known_before_nobody_else_changed_anything_is_asked_for_once_more() {
    let (store, asked) = counted_far_away(BOUNDS, Belief::For(Duration::from_millis(1)));
    let file = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
    store.create(&path("file"), file).unwrap();
    open(&store, "file");
    let opening = || {
        let before = asked.load(Ordering::SeqCst);
        open(&store, "file");
        asked.load(Ordering::SeqCst) - before
    };
    for again in ["at first", "after others were allowed to"] {
        store.believe(Belief::Lasting);
        assert!(opening() > 0, "{again}");
        store.believe(Belief::Lasting);
        assert_eq!(opening(), 0, "{again}");
        store.believe(Belief::For(Duration::ZERO));
        assert!(opening() > 0, "{again}");
    }
}

#[test]
fn nothing_is_kept_open_where_many_descriptors_are_in_use() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"data").unwrap();
    let kept = |highest_descriptor| {
        let known = Known::new(CacheBounds { highest_descriptor, ..BOUNDS });
        let store = Arc::new(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
        let cached = CachedStore::new(store, Arc::clone(&known), Belief::Lasting);
        open(&cached, "file");
        open(&cached, "file");
        known.descriptors()
    };
    assert_eq!((kept(i32::MAX), kept(2)), (2, 0), "the root and the file, or nothing");
}

#[test]
fn what_is_made_and_used_once_is_not_watched_and_what_is_used_again_is() {
    let folder = tempfile::tempdir().unwrap();
    let known = Known::new(CacheBounds { learns_at_once: false, ..BOUNDS });
    let store = Arc::new(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
    let cached = CachedStore::new(store, Arc::clone(&known), Belief::Lasting);
    open(&cached, "");
    let before = known.bytes();
    for number in 0..50 {
        let name = format!("file{number}");
        assert!(matches!(cached.resolve(&path(&name), Use::Read), Ok(Resolved::Missing { .. })));
        drop(
            cached
                .create(&path(&name), NewNode { kind: Kind::File, attributes: 0, security: None, owner: None })
                .unwrap(),
        );
        open(&cached, &name);
    }
    assert_eq!(known.bytes(), before);
    open(&cached, "file7");
    assert!(known.bytes() > before);
}
