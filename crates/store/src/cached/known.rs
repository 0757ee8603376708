//! What is known of the files and names of all stores that share it, within bounds. What is known of a file is known by its number, whatever
//! share or name it is reached by: a change through one is seen through all.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};
use rustix::io::Errno;

use super::bounds::{CacheBounds, ENTRY_BYTES, NAME_BYTES, WATCH_BYTES};
use super::changing::{Changing, Part};
use super::closers::Closers;
use super::entry::{Entry, ToldBy};
use super::kept::{Home, KeptNodes};
use super::lists::Lists;
use super::marks::Marks;
use super::named::{NameKey, OfName, Record};
use super::news::{News, Watched};
use super::stripes::{Slot, Stripes};
use super::writers::Writers;
use crate::{Identity, Keeping, Seen, Time, arrival, fold};

/// Is no name: a directory that was listed has a mark under it.
const AS_A_WHOLE: &str = "/";

/// What is known.
pub struct Known {
    /// Which one this is in the process.
    id: u64,
    pub(super) entries: Cache<Identity, Arc<Entry>, OfEntry, DefaultHashBuilder, Evicted>,
    pub(super) names: Cache<NameKey, Arc<Record>, OfName, DefaultHashBuilder, Evicted>,
    pub(super) lists: Lists,
    watched_charge: AtomicU64,
    pub(super) kept: KeptNodes,
    closers: Closers,
    pub(super) stripes: Stripes,
    pub(super) writers: Writers,
    hasher: DefaultHashBuilder,
    /// How often everything was forgotten.
    era: AtomicU64,
    /// Numbers for what is known of the names of directories.
    pub(super) numbers: AtomicU64,
    /// What was looked for once.
    marks: Marks,
    news: OnceLock<Option<News>>,
    told_of_no_watch: AtomicBool,
    learns_at_once: bool,
    me: Weak<Known>,
}

#[derive(Clone)]
pub(super) struct OfEntry;

impl Weighter<Identity, Arc<Entry>> for OfEntry {
    fn weight(&self, _: &Identity, entry: &Arc<Entry>) -> u64 {
        entry.charge
    }
}

/// Gathers what had to make room.
#[derive(Clone)]
pub(super) struct Evicted;

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
    pub(super) fn news(&self) -> Option<&News> {
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
                    name: "watches_used_up",
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

    fn let_go(&self, news: &News, watched: &mut Watched, entry: &Arc<Entry>) {
        entry.end();
        self.kept.let_go(entry.identity);
        news.unwatch(watched, entry);
    }

    fn begin_to_hear(&self) -> Option<News> {
        let begun = News::begin();
        let begun = begun.and_then(|news| news.start(Weak::clone(&self.me)).map(|()| news));
        begun.inspect_err(|error| tracing::warn!(name: "watches_missing", %error, "nothing is kept in memory of files: changes by other programs cannot be heard of")).ok()
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
}
