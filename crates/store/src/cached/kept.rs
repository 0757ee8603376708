//! Nodes that are kept open, for opens of the same store to share. Closing one may take long, or hang: nothing is dropped here while anything is
//! locked, but gathered first ([`KeptNodes::take_gone`]), and closed by [`super::closers`].

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};

use super::bounds::CacheBounds;
use super::closers::Gone;
use super::entry::Entry;
use crate::{Identity, Keeping, Kind, Node, Use};

/// Which store something is known to: what another one has open is judged, counted and fenced in by that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Home(pub(super) u64);

/// The nodes.
pub(super) struct KeptNodes {
    nodes: Cache<(Home, Identity), Kept, UnitWeighter, DefaultHashBuilder, Evicted>,
    highest_descriptor: AtomicI32,
    homes: RwLock<Vec<Home>>,
    /// What is kept no longer and not dropped yet.
    gone: Mutex<Vec<Gone>>,
}

/// Gathers what had to make room.
#[derive(Clone)]
struct Evicted;

impl Lifecycle<(Home, Identity), Kept> for Evicted {
    type RequestState = Vec<Gone>;

    fn on_evict(&self, evicted: &mut Self::RequestState, (home, _): (Home, Identity), kept: Kept) {
        evicted.push((home, kept.node));
    }
}

#[derive(Clone)]
struct Kept {
    entry: Weak<Entry>,
    node: Arc<dyn Node>,
    usage: Use,
    dotted: bool,
    /// Where nobody tells that the file was removed, since when it is kept.
    since: Option<Instant>,
}

/// True for nodes that several opens may have: nothing is changed through them, and no listing stands in them.
pub(super) fn is_shareable(kind: Kind, usage: Use) -> bool {
    match kind {
        Kind::Directory => usage == Use::Metadata,
        Kind::File | Kind::Stream => usage < Use::ReadWrite,
    }
}

impl KeptNodes {
    pub(super) fn new(bounds: CacheBounds) -> Self {
        let count = bounds.descriptors;
        KeptNodes {
            nodes: Cache::with(count, count as u64, UnitWeighter, DefaultHashBuilder::default(), Evicted),
            highest_descriptor: AtomicI32::new(bounds.highest_descriptor),
            homes: RwLock::default(),
            gone: Mutex::default(),
        }
    }

    pub(super) fn limit(&self, bounds: CacheBounds) {
        self.nodes.set_capacity(bounds.descriptors as u64);
        self.highest_descriptor.store(bounds.highest_descriptor, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// A store begins to keep nodes.
    pub(super) fn settle(&self, home: Home) {
        self.homes.write().push(home);
    }

    /// It ends.
    pub(super) fn leave(&self, home: Home) {
        self.homes.write().retain(|other| *other != home);
        self.let_go_of(home);
    }

    /// Keeps nothing of it open any longer.
    pub(super) fn let_go_of(&self, home: Home) {
        self.let_go_if(|(of, _), _| *of == home);
    }

    /// Calls `each` with every store there is.
    pub(super) fn for_each_home(&self, each: impl FnMut(Home)) {
        self.homes.read().iter().copied().for_each(each);
    }

    /// An open node of a file, for that use.
    pub(super) fn get(&self, home: Home, entry: &Arc<Entry>, usage: Use, dotted: bool) -> Option<Arc<dyn Node>> {
        let kept = self.nodes.get(&(home, entry.identity)).filter(|_| is_shareable(entry.kind, usage))?;
        let is_meant = std::ptr::eq(kept.entry.as_ptr(), Arc::as_ptr(entry)) && kept.dotted == dotted;
        (is_meant && kept.usage >= usage).then_some(kept.node)
    }

    /// Keeps an open node for others, and not for long where it `ages`.
    pub(super) fn keep(
        &self,
        home: Home,
        entry: &Arc<Entry>,
        node: &Arc<dyn Node>,
        (usage, dotted): (Use, bool),
        ages: bool,
    ) {
        let descriptor = match node.keeping() {
            Keeping::Watched(descriptor) => Some(descriptor),
            Keeping::Nothing | Keeping::Untold => node.descriptor(),
        };
        let number = descriptor.map_or(0, |descriptor| descriptor.as_raw_fd());
        if number > self.highest_descriptor.load(Ordering::Relaxed) {
            // Those that others want are the lowest that are free.
            return self.let_go_of_all();
        }
        let since = ages.then(Instant::now);
        let kept = Kept { entry: Arc::downgrade(entry), node: Arc::clone(node), usage, dotted, since };
        let (key, mut evicted) = ((home, entry.identity), Vec::new());
        // What has that place would be dropped by the table.
        evicted.extend(self.nodes.remove(&key).map(|(_, former)| (home, former.node)));
        self.nodes.insert_with_lifecycle(key, kept, &mut evicted);
        if !evicted.is_empty() {
            self.gone.lock().extend(evicted);
        }
    }

    /// Keeps a file open no longer.
    pub(super) fn let_go(&self, file: Identity) {
        self.for_each_home(|home| self.let_go_in(home, file));
    }

    /// The same for one store alone.
    pub(super) fn let_go_in(&self, home: Home, file: Identity) {
        if let Some((_, kept)) = self.nodes.remove(&(home, file)) {
            self.gone.lock().push((home, kept.node));
        }
    }

    pub(super) fn let_go_of_all(&self) {
        let all: Vec<_> = self.nodes.drain().map(|((home, _), kept)| (home, kept.node)).collect();
        self.gone.lock().extend(all);
    }

    /// Lets go of what has aged so long.
    pub(super) fn let_go_of_aged(&self, age: Duration) {
        self.let_go_if(|_, kept| kept.since.is_some_and(|since| since.elapsed() >= age));
    }

    fn let_go_if(&self, is_meant: impl Fn(&(Home, Identity), &Kept) -> bool) {
        let meant: Vec<_> = self.nodes.iter().filter(|(key, kept)| is_meant(key, kept)).map(|(key, _)| key).collect();
        let removed = meant.iter().filter_map(|key| self.nodes.remove(key));
        let gone: Vec<_> = removed.map(|((home, _), kept)| (home, kept.node)).collect();
        self.gone.lock().extend(gone);
    }

    /// What is to be dropped by who holds no lock.
    pub(super) fn take_gone(&self) -> Vec<Gone> {
        std::mem::take(&mut *self.gone.lock())
    }
}
