//! Names in directories, and what they lead to.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quick_cache::{Equivalent, Lifecycle, Weighter};

use super::bounds::NAME_BYTES;
use super::entry::{Belief, Entry, ToldBy};
use super::kept::Home;
use super::known::{Evicted, Known};
use super::stripes::Asked;
use crate::{Identity, Kind, fold};

/// So long is believed at most that a directory of a file system of this machine does not have a name.
const MISSING_AGE_MAX: Duration = Duration::from_secs(2);

/// A name in a directory, whatever its case, as a store has it: what is mounted below is another store's another way.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct NameKey {
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
pub(super) struct OfName;

impl Weighter<NameKey, Arc<Record>> for OfName {
    fn weight(&self, key: &NameKey, record: &Arc<Record>) -> u64 {
        // What it leads to stays as long as this does, though it may have had to make room itself.
        let leads = if matches!(record.leads, Leads::To(_)) { size_of::<Entry>() } else { 0 };
        NAME_BYTES + (key.folded.len() + record.spelling.len() + record.stored.len() + leads) as u64
    }
}

impl Lifecycle<NameKey, Arc<Record>> for Evicted {
    type RequestState = Vec<(NameKey, Arc<Record>)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: NameKey, record: Arc<Record>) {
        evicted.push((key, record));
    }
}

impl Known {
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
}
