//! Who waits to hear of changes in which directory (MS-FSA 2.1.1.8, Volume.ChangeNotifyList), and who is told of a change (2.1.4.1).
//! Directories are known by their identity: what several shares over one folder have is one, whatever it is called at the moment.
//!
//! A change costs whoever makes it the same, however many watch: it is written down once for each directory that is watched
//! (`log.rs`), and who waits is told by others (`directory.rs`).

mod directory;
mod foreign;
mod gone;
mod log;
mod name;
mod own;
mod report;
mod sight;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use store::{Identity, Kind, Reach, Resolved, SharePath, Store, Use, effort};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;
use wire::status::Status;

use crate::resource::budgets::UserBudgets;
use crate::resource::pool::Pool;
use crate::state::descriptors::Descriptors;
use crate::state::open_id::OpenId;

use directory::Directory;
pub(crate) use directory::{Asking, Ear, Listen, News};
use gone::Gone;
pub(crate) use log::Where;
use name::Names;
use own::Own;
pub(crate) use sight::{Sight, is_judged};
pub(crate) use watch::{Told, Watch, WatchWait};

/// What it takes to tell who watches one directory of a change, in names of a path followed.
const STEPS_OF_A_TELLING: usize = 2;
/// How many directories are looked up before others may look.
const LOOKED_UP_AT_ONCE: usize = 64;

/// All watches of the server.
pub(crate) struct Watches {
    /// How many there are: read where a change is made, so that one that nobody watches costs nothing more.
    count: AtomicUsize,
    /// How many of them watch what is below their directory too: read where that is not looked up by the volume.
    trees: AtomicUsize,
    table: Mutex<Table>,
    /// What was done through the server lately, where stores tell of it too.
    own: Arc<Own>,
    /// By what is judged who may hear of changes where a name means something else by now.
    gone: Arc<Gone>,
    started: Instant,
    /// What had no descriptor of its own when it went has the one that its directory passed on.
    descriptors: Arc<Descriptors>,
    /// Tells those who wait, where they are many.
    pub(crate) pool: Pool,
}

#[derive(Default)]
struct Table {
    by_open: HashMap<OpenId, Watch>,
    /// Each with how many watch it, and how many of these its tree.
    by_directory: HashMap<Identity, (Arc<Directory>, usize, usize)>,
    /// By volume: how many watch a tree that begins there.
    trees: HashMap<u64, usize>,
}

/// What the first request of an open says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) open: OpenId,
    pub(crate) directory: Identity,
    pub(crate) filter: CompletionFilter,
    pub(crate) reach: Reach,
    /// OutputBufferLength.
    pub(crate) room: usize,
    /// What it is told is judged first ([`is_judged`]).
    pub(crate) is_judged: bool,
}

/// A change of one name in a directory.
struct Change<'a> {
    action: Action,
    filter: CompletionFilter,
    name: &'a str,
    /// For a stream of it: which.
    stream: Option<&'a str>,
    /// How many names had gone when it was made ([`Gone`]).
    gone: u64,
}

impl Watches {
    /// No watches yet. Where many wait, `pool` tells them.
    pub(crate) fn new(pool: Pool, descriptors: Arc<Descriptors>) -> Self {
        Watches {
            count: AtomicUsize::new(0),
            trees: AtomicUsize::new(0),
            table: Mutex::default(),
            own: Arc::default(),
            gone: Arc::default(),
            started: Instant::now(),
            descriptors,
            pool,
        }
    }

    /// True where nobody watches anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// The watch of an open: the first wish makes it, later ones find it as it is (MS-SMB2 3.3.1.3).
    /// It counts for its user, who pays for what is kept.
    pub(crate) fn watch(&self, wish: Wish, user: &UserBudgets) -> Result<Watch, Status> {
        let table = &mut *self.table.lock();
        if let Some(watch) = table.by_open.get(&wish.open) {
            return Ok(watch.clone());
        }
        let held = user.watch().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let known = table.by_directory.entry(wish.directory);
        let (directory, all, trees) = known.or_insert_with(|| (Directory::new(wish.directory, &self.pool), 0, 0));
        *all += 1;
        *trees += usize::from(wish.reach == Reach::Tree);
        if wish.reach == Reach::Tree {
            *table.trees.entry(wish.directory.volume).or_default() += 1;
        }
        directory.enter(&wish, &user.bytes, held);
        let watch = Watch { open: wish.open, reach: wish.reach, directory: Arc::clone(directory) };
        table.by_open.insert(wish.open, watch.clone());
        // With the marks of opens that close in one order: either the close finds the watch, or the watch finds the open closed.
        self.count.fetch_add(1, Ordering::SeqCst);
        self.trees.fetch_add(usize::from(wish.reach == Reach::Tree), Ordering::Relaxed);
        Ok(watch)
    }

    /// Ends the watch of an open that closes: its requests are answered with NOTIFY_CLEANUP (MS-FSA 2.1.5.5).
    pub(crate) fn close(&self, open: OpenId) {
        if self.is_idle() {
            return;
        }
        let removed = self.table.lock().remove(open);
        let Some((watch, trees_left)) = removed else { return };
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.trees.fetch_sub(usize::from(watch.reach == Reach::Tree), Ordering::Relaxed);
        watch.directory.leave(open);
        if watch.reach == Reach::Tree && trees_left == 0 {
            watch.directory.forget_tree();
        }
    }

    /// Tells who watches `directory` that it goes: there will be no changes in it (MS-FSA Open.ChangeNotifyDirectoryMarkedDeleted).
    pub(crate) fn directory_goes(&self, directory: Identity) {
        if let Some(directory) = self.watched(directory) {
            directory.end(Status::DELETE_PENDING);
        }
    }

    fn watched(&self, directory: Identity) -> Option<Arc<Directory>> {
        if self.is_idle() {
            return None;
        }
        self.table.lock().by_directory.get(&directory).map(|(directory, ..)| Arc::clone(directory))
    }

    /// Tells of changes in the directory `parent`, all at once. May wait for the store.
    fn report(&self, store: &dyn Store, parent: &SharePath, changes: &[Change<'_>]) {
        let depth = parent.names().count();
        let (first, lineage) = self.lineage(store, parent, depth);
        if let Some(parent) = lineage.get(depth - first) {
            changes.iter().for_each(|change| self.own.did(*parent, change.name, change.action));
        }
        let watched = self.watched_of(&lineage, depth - first);
        effort::note(STEPS_OF_A_TELLING * watched.len() * changes.len());
        let mut names: Vec<_> = changes.iter().map(|change| Names::new(parent, change.name, change.stream)).collect();
        for (step, directory) in watched {
            let level = first + step;
            let place = if level == depth { Where::Here } else { Where::Below };
            directory.add(place, changes, |index| names[index].seen_from(level));
        }
    }

    /// The directories that may have somebody to tell of a change in `parent`, which is the last, and the level of the first.
    fn lineage(&self, store: &dyn Store, parent: &SharePath, depth: usize) -> (usize, Vec<Identity>) {
        let root = store.facts().volume;
        if !self.has_trees(Some(root)) {
            let found = identity(store, parent);
            // Another volume is mounted between the root and it. There may be more than one.
            let crosses = found.is_none_or(|parent| parent.volume != root);
            if !crosses || !self.has_trees(None) {
                return (depth, found.into_iter().collect());
            }
        }
        (0, store.lineage(parent))
    }

    /// True where somebody watches a tree that begins on a volume; on any, where none is named.
    fn has_trees(&self, volume: Option<u64>) -> bool {
        let any = self.trees.load(Ordering::Relaxed) > 0;
        any && volume.is_none_or(|volume| self.table.lock().trees.contains_key(&volume))
    }

    /// Which directories of a lineage have somebody to tell of a change in the one at `last`, with their places in it.
    fn watched_of(&self, lineage: &[Identity], last: usize) -> Vec<(usize, Arc<Directory>)> {
        let mut watched = Vec::new();
        for (part, identities) in lineage.chunks(LOOKED_UP_AT_ONCE).enumerate() {
            let table = self.table.lock();
            for (step, identity) in (part * LOOKED_UP_AT_ONCE..).zip(identities) {
                if let Some((directory, _, trees)) = table.by_directory.get(identity)
                    && (step == last || *trees > 0)
                {
                    watched.push((step, Arc::clone(directory)));
                }
            }
        }
        watched
    }
}

fn identity(store: &dyn Store, path: &SharePath) -> Option<Identity> {
    match store.resolve(path, Use::Metadata) {
        Ok(Resolved::Found { node, .. }) => Some(node.identity()),
        Ok(Resolved::Missing { .. }) | Err(_) => None,
    }
}

fn name_filter(kind: Kind) -> CompletionFilter {
    match kind {
        Kind::Directory => CompletionFilter::DIR_NAME,
        Kind::File | Kind::Stream => CompletionFilter::FILE_NAME,
    }
}

impl Table {
    /// Takes a watch out; gives how many watch the tree of its directory still.
    fn remove(&mut self, open: OpenId) -> Option<(Watch, usize)> {
        let watch = self.by_open.remove(&open)?;
        let identity = watch.directory.identity();
        let (_, all, trees) = self.by_directory.get_mut(&identity)?;
        *all -= 1;
        *trees -= usize::from(watch.reach == Reach::Tree);
        let (all, trees) = (*all, *trees);
        if watch.reach == Reach::Tree
            && let Entry::Occupied(mut of_volume) = self.trees.entry(identity.volume)
        {
            *of_volume.get_mut() -= 1;
            if *of_volume.get() == 0 {
                of_volume.remove();
            }
        }
        if all == 0 {
            self.by_directory.remove(&identity);
        }
        Some((watch, trees))
    }
}
