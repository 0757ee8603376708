//! Who waits to hear of changes in which directory (MS-FSA 2.1.1.8, Volume.ChangeNotifyList), and who is told of a change (2.1.4.1).
//! Directories are known by their identity: what several shares over one folder have is one, whatever it is called at the moment.

mod foreign;
mod own;
mod report;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use store::{Identity, Kind, Reach, Resolved, SharePath, Store, Use};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::notify::Action;
use wire::ids::SessionId;
use wire::status::Status;

use crate::budget::Budget;
use crate::open::OpenId;

pub(crate) use foreign::listen;
use own::Own;
pub(crate) use report::{Untold, data_changed, flushed, wrote};
pub(crate) use watch::{Told, Wait, Watch};

/// The most directories that one session watches at a time: each may keep as much as [`watch`] allows.
const WATCHES_MAX: usize = 1_024;

/// All watches of the server.
pub(crate) struct Watches {
    /// How many there are: read where a change is made, so that one that nobody watches costs nothing more.
    count: AtomicUsize,
    /// How many of them watch what is below their directory too.
    trees: AtomicUsize,
    table: Mutex<Table>,
    /// What was done through the server lately, where stores tell of it too.
    own: Arc<Own>,
    started: Instant,
}

#[derive(Default)]
struct Table {
    by_open: HashMap<OpenId, Arc<Watch>>,
    by_directory: HashMap<Identity, Vec<Arc<Watch>>>,
    by_session: HashMap<SessionId, usize>,
}

/// What the first request of an open says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) open: OpenId,
    pub(crate) session: SessionId,
    pub(crate) directory: Identity,
    pub(crate) filter: CompletionFilter,
    pub(crate) reach: Reach,
    /// OutputBufferLength.
    pub(crate) room: usize,
}

/// A change of one name in a directory.
struct Change<'a> {
    action: Action,
    filter: CompletionFilter,
    name: &'a str,
    /// For a stream of it: which.
    stream: Option<&'a str>,
}

impl Watches {
    pub(crate) fn new() -> Self {
        Watches {
            count: AtomicUsize::new(0),
            trees: AtomicUsize::new(0),
            table: Mutex::default(),
            own: Arc::default(),
            started: Instant::now(),
        }
    }

    /// True where nobody watches anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// The watch of an open: the first wish makes it, later ones find it as it is (MS-SMB2 3.3.1.3).
    /// What it keeps is charged to `bytes`.
    pub(crate) fn watch(&self, wish: Wish, bytes: &Arc<Budget>) -> Result<Arc<Watch>, Status> {
        let mut table = self.table.lock();
        if let Some(watch) = table.by_open.get(&wish.open) {
            return Ok(Arc::clone(watch));
        }
        let held = table.by_session.entry(wish.session).or_default();
        if *held >= WATCHES_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        *held += 1;
        let watch = Arc::new(Watch::new(wish, bytes));
        table.by_open.insert(wish.open, Arc::clone(&watch));
        table.by_directory.entry(wish.directory).or_default().push(Arc::clone(&watch));
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
        if let Some(watch) = removed {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.trees.fetch_sub(usize::from(watch.wish.reach == Reach::Tree), Ordering::Relaxed);
            watch.end(Status::NOTIFY_CLEANUP);
        }
    }

    /// Tells who watches `directory` that it goes: there will be no changes in it (MS-FSA Open.ChangeNotifyDirectoryMarkedDeleted).
    pub(crate) fn directory_goes(&self, directory: Identity) {
        if self.is_idle() {
            return;
        }
        let watches = self.table.lock().by_directory.get(&directory).cloned().unwrap_or_default();
        watches.iter().for_each(|watch| watch.end(Status::DELETE_PENDING));
    }

    /// Tells of changes in the directory `parent`, all at once. May wait for the store.
    fn report(&self, store: &dyn Store, parent: &SharePath, changes: &[Change<'_>]) {
        let depth = parent.names().count();
        let lineage = if self.trees.load(Ordering::Relaxed) > 0 {
            store.lineage(parent).into_iter().enumerate().collect()
        } else {
            identity(store, parent).map(|identity| (depth, identity)).into_iter().collect::<Vec<_>>()
        };
        if let Some((_, parent)) = lineage.last().filter(|(level, _)| *level == depth) {
            changes.iter().for_each(|change| self.own.did(*parent, change.name, change.action));
        }
        for (level, identity) in lineage {
            let watches = self.table.lock().by_directory.get(&identity).cloned().unwrap_or_default();
            let reaches = |watch: &&Arc<Watch>| level == depth || watch.wish.reach == Reach::Tree;
            for watch in watches.iter().filter(reaches) {
                let seen = changes.iter().filter(|change| watch.wish.filter.intersects(change.filter));
                watch.add(seen.map(|change| (change.action, change.name_from(parent, level))));
            }
        }
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

impl Change<'_> {
    /// The name as who watches the directory `level` steps below the root sees it.
    fn name_from(&self, parent: &SharePath, level: usize) -> String {
        let mut name = String::new();
        for step in parent.names().skip(level) {
            name.push_str(step);
            name.push('\\');
        }
        name.push_str(self.name);
        if let Some(stream) = self.stream {
            name.push(':');
            name.push_str(stream);
        }
        name
    }
}

impl Table {
    fn remove(&mut self, open: OpenId) -> Option<Arc<Watch>> {
        let watch = self.by_open.remove(&open)?;
        if let Some(held) = self.by_session.get_mut(&watch.wish.session) {
            *held -= 1;
            if *held == 0 {
                self.by_session.remove(&watch.wish.session);
            }
        }
        if let Some(watches) = self.by_directory.get_mut(&watch.wish.directory) {
            watches.retain(|other| !Arc::ptr_eq(other, &watch));
            if watches.is_empty() {
                self.by_directory.remove(&watch.wish.directory);
            }
        }
        Some(watch)
    }
}
