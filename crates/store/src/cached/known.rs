//! What is known of the files and names of all stores that share it, within bounds. What is known of a file is known by its number, whatever
//! share or name it is reached by: a change through one is seen through all.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Equivalent, Lifecycle, Weighter};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use super::arrival;
use super::changing::{Changing, Part};
use super::closers::Closers;
use super::entry::{Belief, Entry, Facts, KEPT_BYTES_MAX, ToldBy, Watch};
use super::kept::{Home, KeptNodes};
use super::lists::Lists;
use super::marks::Marks;
use super::news::News;
use super::stripes::{Asked, Slot, Stripes};
use super::writers::Writers;
use crate::{Identity, Keeping, Kind, Node, Seen, Time, fold};

/// What an entry takes, with its place in the table and all that may be kept of it.
const ENTRY_BYTES: u64 = (size_of::<Entry>() + 64 + KEPT_BYTES_MAX) as u64;
/// What the kernel holds for an inode that is watched.
const WATCH_BYTES: u64 = 1088;
/// What a name takes besides its letters.
const NAME_BYTES: u64 = 224;
/// Is no name: a directory that was listed has a mark under it.
const AS_A_WHOLE: &str = "/";
/// So long is believed at most that a directory of a file system of this machine does not have a name.
const MISSING_AGE_MAX: Duration = Duration::from_secs(2);
/// Of the inodes that a user may have watched this part.
const WATCHES_PART: u64 = 4;

/// How much may be known.
#[derive(Clone, Copy, Debug)]
pub struct CacheBounds {
    /// Bytes for what is known of files and names, as well as can be told.
    pub bytes: u64,
    /// Descriptors that are kept open.
    pub descriptors: usize,
    /// Where a file gets a higher number so many are in use that none is kept open.
    pub highest_descriptor: i32,
    /// Keep what is looked for the first time already, though that may take a watch: for tests.
    pub learns_at_once: bool,
}

impl Default for CacheBounds {
    /// For a process of which nothing is known.
    fn default() -> Self {
        CacheBounds { bytes: 64 << 20, descriptors: 256, highest_descriptor: 512, learns_at_once: false }
    }
}

impl CacheBounds {
    /// Bytes for what is known of files, of names, and of which names a directory has.
    fn parts(&self) -> (u64, u64, u64) {
        (self.bytes / 2, self.bytes / 8 * 3, self.bytes / 8)
    }

    /// What is charged for a file that the kernel tells of: so much that no more are known than it lets be watched.
    fn watched_charge(&self) -> u64 {
        let watches = (watches_max() / WATCHES_PART).max(1);
        (ENTRY_BYTES + WATCH_BYTES).max(self.parts().0.div_ceil(watches))
    }
}

/// What is known.
pub struct Known {
    /// Which one this is in the process.
    id: u64,
    entries: Cache<Identity, Arc<Entry>, OfEntry, DefaultHashBuilder, Evicted>,
    names: Cache<NameKey, Arc<Record>, OfName, DefaultHashBuilder, Evicted>,
    pub(super) lists: Lists,
    watched_charge: AtomicU64,
    pub(super) kept: KeptNodes,
    closers: Closers,
    pub(super) stripes: Stripes,
    writers: Writers,
    hasher: DefaultHashBuilder,
    /// How often everything was forgotten.
    era: AtomicU64,
    /// Numbers for what is known of the names of directories.
    numbers: AtomicU64,
    /// What was looked for once.
    marks: Marks,
    news: OnceLock<Option<News>>,
    told_of_no_watch: AtomicBool,
    learns_at_once: bool,
    me: Weak<Known>,
}

/// A name in a directory, whatever its case, as a store has it: what is mounted below is another store's another way.
#[derive(PartialEq, Eq, Hash)]
struct NameKey {
    home: Home,
    directory: Identity,
    folded: Box<str>,
}

/// The same to look it up.
#[derive(Hash)]
struct NameRef<'a> {
    home: Home,
    directory: Identity,
    folded: &'a str,
}

impl Equivalent<NameKey> for NameRef<'_> {
    fn equivalent(&self, key: &NameKey) -> bool {
        self.home == key.home && self.directory == key.directory && self.folded == &*key.folded
    }
}

/// What a name was found to lead to.
pub(super) struct Record {
    /// As it was asked for.
    pub(super) spelling: Box<str>,
    /// As it is stored.
    pub(super) stored: Box<str>,
    pub(super) leads: Leads,
    /// Those of the directory's names.
    numbers: (u64, u64),
    asked: Instant,
}

/// What a name leads to.
#[derive(Clone)]
pub(super) enum Leads {
    /// This file or directory.
    To(Arc<Entry>),
    /// Nothing has it.
    Nowhere,
    /// Something of which nothing is kept: behind a symbolic link, on another file system.
    Elsewhere,
}

#[derive(Clone)]
struct OfEntry;

impl Weighter<Identity, Arc<Entry>> for OfEntry {
    fn weight(&self, _: &Identity, entry: &Arc<Entry>) -> u64 {
        entry.charge
    }
}

#[derive(Clone)]
struct OfName;

impl Weighter<NameKey, Arc<Record>> for OfName {
    fn weight(&self, key: &NameKey, record: &Arc<Record>) -> u64 {
        // What it leads to stays as long as this does, though it may have had to make room itself.
        let leads = if matches!(record.leads, Leads::To(_)) { size_of::<Entry>() } else { 0 };
        NAME_BYTES + (key.folded.len() + record.spelling.len() + record.stored.len() + leads) as u64
    }
}

/// Gathers what had to make room.
#[derive(Clone)]
struct Evicted;

impl Lifecycle<NameKey, Arc<Record>> for Evicted {
    type RequestState = Vec<(NameKey, Arc<Record>)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: NameKey, record: Arc<Record>) {
        evicted.push((key, record));
    }
}

impl Lifecycle<Identity, Arc<Entry>> for Evicted {
    type RequestState = Vec<Arc<Entry>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _: Identity, entry: Arc<Entry>) {
        evicted.push(entry);
    }
}

impl Known {
    /// Nothing is known yet.
    pub fn new(bounds: CacheBounds) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let (entry_bytes, name_bytes, list_bytes) = bounds.parts();
        let hasher = DefaultHashBuilder::default();
        let items = |bytes: u64, each: u64| usize::try_from(bytes / each).unwrap_or(usize::MAX).max(1);
        Arc::new_cyclic(|me| Known {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            entries: Cache::with(items(entry_bytes, ENTRY_BYTES), entry_bytes, OfEntry, hasher.clone(), Evicted),
            names: Cache::with(items(name_bytes, NAME_BYTES + 64), name_bytes, OfName, hasher.clone(), Evicted),
            lists: Lists::new(list_bytes),
            watched_charge: AtomicU64::new(bounds.watched_charge()),
            kept: KeptNodes::new(bounds),
            closers: Closers::default(),
            stripes: Stripes::default(),
            writers: Writers::default(),
            hasher,
            era: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            marks: Marks::default(),
            news: OnceLock::new(),
            told_of_no_watch: AtomicBool::new(false),
            learns_at_once: bounds.learns_at_once,
            me: Weak::clone(me),
        })
    }

    /// That of this process, which all its stores share.
    pub fn of_process() -> Arc<Self> {
        static OF_PROCESS: LazyLock<Arc<Known>> = LazyLock::new(|| Known::new(CacheBounds::default()));
        Arc::clone(&OF_PROCESS)
    }

    /// Keeps no more than that from now on. To be called before anything is known: what has to go goes without its watch.
    pub fn limit(&self, bounds: CacheBounds) {
        let (entries, names, lists) = bounds.parts();
        self.watched_charge.store(bounds.watched_charge(), Ordering::Relaxed);
        self.entries.set_capacity(entries);
        self.names.set_capacity(names);
        self.lists.limit(lists);
        self.kept.limit(bounds);
        self.drop_gone(None);
    }

    /// Bytes that are held, as well as can be told.
    pub fn bytes(&self) -> u64 {
        let beyond = self.watched_charge.load(Ordering::Relaxed) - (ENTRY_BYTES + WATCH_BYTES);
        let watched = self.news().map_or(0, News::count) as u64;
        self.entries.weight().saturating_sub(watched * beyond) + self.names.weight() + self.lists.bytes()
    }

    /// True where one more file may be known without others having to go, and without taking the last watches from who needs them more.
    pub(super) fn has_room(&self) -> bool {
        let entry = self.watched_charge.load(Ordering::Relaxed);
        self.entries.weight() + entry <= self.entries.capacity() / 10 * 9
            && self.names.weight() + NAME_BYTES <= self.names.capacity() / 10 * 9
    }

    fn charge(&self, told_by: ToldBy) -> u64 {
        match told_by {
            ToldBy::Kernel => self.watched_charge.load(Ordering::Relaxed),
            ToldBy::Nobody => ENTRY_BYTES,
        }
    }

    /// Descriptors that are kept open.
    pub fn descriptors(&self) -> usize {
        self.kept.count()
    }

    /// Has what is kept open closed, so that others can be opened: by this thread what the store kept for which it works.
    pub(super) fn close_all(&self, own: Option<Home>) {
        self.kept.let_go_of_all();
        self.drop_gone(own);
    }

    /// Has what is kept open closed, soon, so that others can be opened.
    pub fn make_room(&self) {
        self.close_all(None);
    }

    /// A number for a store, of which something is known until [`Known::leave`].
    pub(super) fn settle(&self) -> Home {
        let home = Home(self.numbers.fetch_add(1, Ordering::SeqCst));
        self.kept.settle(home);
        home
    }

    pub(super) fn leave(&self, home: Home) {
        self.kept.leave(home);
        self.drop_gone(None);
    }

    /// Keeps nothing open any longer for one of them. It is closed soon, without this waiting for it.
    pub(super) fn let_go_of(&self, home: Home) {
        self.kept.let_go_of(home);
        self.drop_gone(None);
    }

    /// Closes what `own` keeps open no longer, and has all else closed that nobody does. To be called with nothing locked.
    pub(super) fn drop_gone(&self, own: Option<Home>) {
        let gone = self.kept.take_gone();
        if !gone.is_empty() {
            self.closers.close(gone, own);
        }
    }

    /// Hears what others have changed, unless this thread has since it was given something to do.
    pub(super) fn hear(&self, own: Home) {
        if !arrival::has_heard(self.id) {
            self.hear_now(own);
            arrival::note_heard(self.id);
        }
    }

    /// Hears what others have changed until now.
    pub(super) fn hear_now(&self, own: Home) {
        if self.take_news() {
            self.drop_gone(Some(own));
        }
    }

    /// The same for who drops nothing itself. True where there was something.
    pub(super) fn take_news(&self) -> bool {
        self.news().is_some_and(|news| news.hear(self))
    }

    /// What the kernel tells, once something is known.
    fn news(&self) -> Option<&News> {
        self.news.get()?.as_ref()
    }

    pub(super) fn is_alive(&self, entry: &Entry) -> bool {
        entry.is_alive(self.era.load(Ordering::SeqCst))
    }

    /// Forgets everything.
    pub(super) fn forget_all(&self) {
        self.era.fetch_add(1, Ordering::SeqCst);
        self.kept.let_go_of_all();
        self.names.clear();
        self.lists.clear();
        // What is still there is not believed; its watches go as it is known anew or makes room.
    }

    fn hash(&self, what: impl Hash) -> u64 {
        self.hasher.hash_one(what)
    }

    /// Where what is known of a file falls.
    pub(super) fn slot(&self, file: Identity) -> Slot {
        Slot::of(self.hash(file))
    }

    /// Where a name in a directory falls, which is given in the form in which names compare.
    pub(super) fn slot_of_name(&self, directory: Identity, folded: &str) -> Slot {
        Slot::of(self.hash((directory, folded)))
    }

    /// True where a name was looked for in a directory before, as far as that is remembered. What is looked for once leaves no more than a mark.
    pub(super) fn was_looked_for(&self, directory: Identity, name: &str) -> bool {
        self.learns_at_once || self.marks.set(self.hash((directory, fold(name))))
    }

    /// A name that was looked for and was not there has become a file's, which nobody has used yet.
    pub(super) fn unmark(&self, directory: Identity, folded: &str) {
        self.marks.clear(self.hash((directory, folded)));
    }

    /// Notes that a directory was listed as a whole.
    pub(super) fn note_listed(&self, directory: Identity) {
        self.marks.set(self.hash((directory, AS_A_WHOLE)));
    }

    /// True where a directory was listed as a whole before, as far as that is remembered.
    pub(super) fn was_listed(&self, directory: Identity) -> bool {
        self.learns_at_once || self.marks.has(self.hash((directory, AS_A_WHOLE)))
    }

    /// What is known of a file, where something is.
    pub(super) fn entry(&self, file: Identity, birth: Option<Time>) -> Option<Arc<Entry>> {
        let entry = self.entries.get(&file)?;
        (self.is_alive(&entry) && entry.is_of(birth)).then_some(entry)
    }

    /// The same, from now on known where nothing was. `None` where nothing may be kept of it.
    pub(super) fn entry_of(&self, seen: Seen<'_>, own: Home) -> Option<Arc<Entry>> {
        let (handle, told_by) = match seen.keeping {
            Keeping::Nothing => return None,
            Keeping::Watched(handle) => (Some(handle), ToldBy::Kernel),
            Keeping::Untold => (None, ToldBy::Nobody),
        };
        if let Some(entry) = self.entry(seen.identity, seen.birth) {
            return Some(entry);
        }
        let news = self.news.get_or_init(|| self.begin_to_hear()).as_ref()?;
        let mut watched = news.lock();
        if let Some(entry) = self.entry(seen.identity, seen.birth) {
            return Some(entry);
        }
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let era = self.era.load(Ordering::SeqCst);
        let what = (seen.identity, seen.kind, seen.birth);
        let entry = Arc::new(Entry::new(what, (told_by, self.charge(told_by)), era, number));
        if let Some(former) = self.entries.remove(&entry.identity).map(|(_, former)| former) {
            self.let_go(news, &mut watched, &former);
        }
        if let Some(handle) = handle
            && let Err(error) = news.watch(&mut watched, handle, &entry)
        {
            if error == Errno::NOSPC && !self.told_of_no_watch.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "the kernel watches no more files: of others nothing is kept in memory (fs.inotify.max_user_watches)"
                );
            }
            return None;
        }
        let mut evicted = Vec::new();
        self.entries.insert_with_lifecycle(entry.identity, Arc::clone(&entry), &mut evicted);
        for other in evicted {
            self.let_go(news, &mut watched, &other);
        }
        drop(watched);
        self.drop_gone(Some(own));
        self.is_alive(&entry).then_some(entry)
    }

    fn let_go(&self, news: &News, watched: &mut super::news::Watched, entry: &Arc<Entry>) {
        entry.end();
        self.kept.let_go(entry.identity);
        news.unwatch(watched, entry);
    }

    fn begin_to_hear(&self) -> Option<News> {
        let begun = News::begin();
        let begun = begun.and_then(|news| news.start(Weak::clone(&self.me)).map(|()| news));
        begun.inspect_err(|error| tracing::warn!(%error, "nothing is kept in memory of files: changes by other programs cannot be heard of")).ok()
    }

    /// What a name in a directory was found to lead to.
    pub(super) fn name(&self, home: Home, directory: &Entry, name: &str, belief: Belief) -> Option<Arc<Record>> {
        let record = self.names.get(&NameRef { home, directory: directory.identity, folded: &fold(name) })?;
        (*record.spelling == *name && self.is_believed(&record, directory, belief)).then_some(record)
    }

    /// True where what a name in a directory was found to lead to may be believed.
    pub(super) fn is_believed(&self, record: &Record, directory: &Entry, belief: Belief) -> bool {
        let (found, missing) = directory.names();
        directory.holds(record.asked, belief)
            && match &record.leads {
                Leads::To(entry) => record.numbers.0 == found && self.is_alive(entry),
                Leads::Elsewhere => record.numbers.0 == found,
                // Where others make a name while this server changes the directory the store itself may see it later, in another case.
                Leads::Nowhere => {
                    record.numbers.1 == missing
                        && (directory.told_by == ToldBy::Nobody || record.asked.elapsed() < MISSING_AGE_MAX)
                }
            }
    }

    /// What a name was known to lead to, however long ago that was asked for.
    pub(super) fn former(&self, home: Home, directory: &Entry, name: &str) -> Option<Arc<Record>> {
        self.any_spelling(home, directory, name).filter(|record| *record.spelling == *name)
    }

    /// The same of whatever spelling of the name was asked for.
    pub(super) fn any_spelling(&self, home: Home, directory: &Entry, name: &str) -> Option<Arc<Record>> {
        self.names.peek(&NameRef { home, directory: directory.identity, folded: &fold(name) })
    }

    /// Notes what a name was found to lead to, and gives it back noted, where nobody has changed that since it was asked for.
    pub(super) fn note_name(
        &self,
        (home, directory): (Home, &Entry),
        (spelling, stored): (&str, &str),
        leads: Leads,
        (asked, numbers, at): (Asked, (u64, u64), Instant),
    ) -> Option<Arc<Record>> {
        let record = Record { spelling: spelling.into(), stored: stored.into(), leads, numbers, asked: at };
        let (key, record) =
            (NameKey { home, directory: directory.identity, folded: fold(spelling).into() }, Arc::new(record));
        let mut evicted = Vec::new();
        {
            // Every change of a name is noted before this is locked.
            let _facts = directory.facts.lock();
            if !self.is_alive(directory) || directory.names() != numbers || !self.stripes.holds(asked) {
                return None;
            }
            self.names.insert_with_lifecycle(key, Arc::clone(&record), &mut evicted);
        }
        for (key, other) in evicted {
            self.name_evicted(&key, &other);
        }
        Some(record)
    }

    /// Where nothing leads to a directory any more it is not known: the kernel tells of its end by its name alone, as long as it is open.
    fn name_evicted(&self, key: &NameKey, record: &Record) {
        let Leads::To(entry) = &record.leads else { return };
        // What was known of a name before is evicted by what is known now.
        let leads_there = |now: Arc<Record>| matches!(&now.leads, Leads::To(other) if Arc::ptr_eq(other, entry));
        let key = NameRef { home: key.home, directory: key.directory, folded: &key.folded };
        if entry.kind == Kind::Directory && !self.names.peek(&key).is_some_and(leads_there) {
            self.end(entry);
        }
    }

    /// Others have made or removed a name, or moved it.
    pub(super) fn name_changed(&self, directory: &Entry, name: &str) {
        let folded = fold(name);
        self.stripes.changed(self.slot_of_name(directory.identity, &folded));
        self.stripes.changed(self.slot(directory.identity));
        let former = self.forget_name(directory.identity, &folded);
        directory.facts.lock().forget_metadata();
        for record in former {
            if let Leads::To(entry) = &record.leads {
                self.attributes_changed(entry);
            }
        }
    }

    /// Others have changed the data of a file.
    pub(super) fn data_changed(&self, entry: &Entry) {
        self.stripes.changed(self.slot(entry.identity));
        entry.facts.lock().forget_metadata();
    }

    /// Others have changed something else about a file or directory: who may pass it, or how many names it has.
    pub(super) fn attributes_changed(&self, entry: &Entry) {
        self.stripes.changed(self.slot(entry.identity));
        entry.renew_names(self.numbers.fetch_add(1, Ordering::SeqCst));
        entry.facts.lock().clear();
        self.kept.let_go(entry.identity);
    }

    /// It is not what it was, or not where it was.
    pub(super) fn end(&self, entry: &Entry) {
        self.stripes.changed(self.slot(entry.identity));
        entry.end();
        self.kept.let_go(entry.identity);
    }

    /// Gives what it was known to lead to.
    pub(super) fn forget_name(&self, directory: Identity, folded: &str) -> Vec<Arc<Record>> {
        let entry = self.entries.get(&directory);
        let _facts = entry.as_ref().map(|entry| entry.facts.lock());
        let mut former = Vec::new();
        // What is known of names is known with the directory.
        if let Some(entry) = &entry {
            self.kept.for_each_home(|home| {
                former.extend(self.names.remove(&NameRef { home, directory, folded }).map(|(_, record)| record));
            });
            if !folded.is_ascii() {
                // It may be what the file system finds by other letters, too.
                entry.renew_missing(self.numbers.fetch_add(1, Ordering::SeqCst));
            }
        }
        former
    }

    /// Nothing is known any more of a file that has lost a name, or its last.
    pub(super) fn forget_file(&self, file: Identity, own: Home) {
        // What is kept open is kept with its entry.
        let Some(entry) = self.entries.get(&file) else { return };
        entry.end();
        if let Some(news) = self.news() {
            let mut watched = news.lock();
            self.entries.remove_if(&file, |now| Arc::ptr_eq(now, &entry));
            news.unwatch(&mut watched, &entry);
        }
        self.kept.let_go(file);
        self.drop_gone(Some(own));
    }

    /// What is known of a file that is being changed.
    pub(super) fn forget_facts(&self, file: Identity, part: Part) {
        let Some(entry) = self.entries.get(&file) else { return };
        let mut facts = entry.facts.lock();
        match part {
            Part::Metadata => facts.forget_metadata(),
            Part::Everything | Part::Existence => facts.clear(),
        }
    }

    /// To be held while something is changed through this server.
    pub(super) fn changing(&self, by: Home) -> Changing<'_> {
        Changing::of(self, by)
    }

    /// The data of a file is changed through `node` from now on, until [`Known::end_writing`].
    pub(super) fn begin_writing(&self, file: Identity, node: &dyn Node) {
        self.writers.begin(file);
        // Who has asked before must not note what it is told after this has ended.
        self.stripes.changed(self.slot(file));
        let Some(entry) = self.entries.get(&file) else { return };
        let mut facts = entry.facts.lock();
        facts.metadata = None;
        if !self.is_alive(&entry) || !entry.is_of(node.birth()) || node.kind() == Kind::Stream {
            return;
        }
        // Own changes are no news, and telling of them takes the kernel longer than to make them.
        if let (Some(watch), Keeping::Watched(handle)) = (facts.watch, node.keeping())
            && watch.with_data
        {
            self.tell_of_data(&mut facts, (watch, handle, entry.kind), false);
        }
    }

    pub(super) fn end_writing(&self, file: Identity) {
        self.stripes.changed(self.slot(file));
        self.writers.end(file);
    }

    /// True where the metadata of a file may be known: its data is not being changed, and the kernel tells of it where others do.
    pub(super) fn may_know_metadata(&self, entry: &Entry, keeping: Keeping<'_>) -> bool {
        if self.is_written(entry.identity) {
            return false;
        }
        let mut facts = entry.facts.lock();
        match (facts.watch, keeping) {
            (Some(watch), Keeping::Watched(handle)) if !watch.with_data => {
                self.tell_of_data(&mut facts, (watch, handle, entry.kind), true)
            }
            (Some(_), Keeping::Watched { .. }) => true,
            (None, Keeping::Untold) => entry.told_by == ToldBy::Nobody,
            _ => false,
        }
    }

    /// True where that is so already.
    pub(super) fn is_told_of_metadata(&self, entry: &Entry) -> bool {
        let tells = entry.told_by == ToldBy::Nobody || entry.facts.lock().watch.is_some_and(|watch| watch.with_data);
        tells && !self.is_written(entry.identity)
    }

    /// Has the kernel tell of changes of data as well, or no more. False where it does not as it is asked to.
    fn tell_of_data(
        &self,
        facts: &mut Facts,
        (former, handle, kind): (Watch, BorrowedFd<'_>, Kind),
        tells: bool,
    ) -> bool {
        let again = self.news().and_then(|news| news.set(handle, kind, tells).ok());
        // Where it has been given another number, what it tells would not be understood.
        let again = again.filter(|again| again.number == former.number);
        facts.watch = again.or(facts.watch);
        again.is_some()
    }

    pub(super) fn is_written(&self, file: Identity) -> bool {
        self.writers.are_there(file)
    }
}

/// How many inodes a user may have watched.
fn watches_max() -> u64 {
    let told = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    told.ok().and_then(|told| told.trim().parse().ok()).unwrap_or(8192)
}
