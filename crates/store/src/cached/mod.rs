//! A cache of what is known of the files of a store: names, those that are not there among them, metadata, security descriptors, extended
//! attributes, whether there are streams; and open nodes, which opens of a file share as long as none of them changes its data.
//!
//! It is right at all times, by these rules:
//!
//! - What a file system of this machine holds is known only as long as the kernel tells of changes of it ([`news`]), and is believed only by
//!   who has heard all news since it was asked. Where nobody tells, it is believed for a time ([`Belief`]), or for good where nobody else changes it.
//! - What this server changes is forgotten before it is changed, for all stores over the file system, whether or not they believe anything
//!   themselves; and what is asked for while it is changed is not kept ([`stripes`]).
//! - An answer is kept only where nothing has changed since before it was asked for.
//! - The length and times of a file whose data is being changed through this server are asked for each time.
//! - A file is known by its number and its time of birth, so that another that gets its number is another file.
//! - Nothing is kept of symbolic links, nor of what lies on another mount than the root.
//!
//! What is looked for once leaves no more than a mark where a watch would be needed: going through a large tree fills nothing.

mod bounds;
mod changing;
mod closers;
mod entry;
mod extras;
mod kept;
mod known;
mod listed;
mod lists;
mod marks;
mod named;
mod names;
mod news;
mod node;
mod stripes;
mod walk;
mod watching;
mod writers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

pub use self::bounds::CacheBounds;
pub use self::entry::Belief;
use self::entry::Entry;
use self::kept::Home;
pub use self::known::Known;
use self::node::CachedNode;
use self::walk::Walked;
use crate::{Error, Facts, Guard, Identity, Listener, Node, Reach, Resolved, SharePath, Space, Store, Use, waiting};

/// A store of which what is known is kept.
pub struct CachedStore {
    shared: Arc<Shared>,
}

/// What the store and its nodes have in common.
struct Shared {
    store: Arc<dyn Store>,
    known: Arc<Known>,
    belief: RwLock<Belief>,
    is_on: AtomicBool,
    /// What is known to this store is kept under this number.
    home: Home,
    /// The root, as it was found last.
    root: Mutex<Option<Arc<Entry>>>,
}

/// How often it is looked whether there is room for one more descriptor, and how often at most.
const ROOM_LOOK_EVERY: Duration = Duration::from_millis(1);
const ROOM_LOOKS_MAX: usize = 50;

/// Whether a call may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    May,
    Never,
}

impl CachedStore {
    /// Keeps in `known` what is known of `store`. What nobody tells changes of is believed as `belief` says. It is on.
    pub fn new(store: Arc<dyn Store>, known: Arc<Known>, belief: Belief) -> Self {
        let home = known.settle();
        let (belief, is_on) = (RwLock::new(belief), AtomicBool::new(true));
        let shared = Shared { store, known, belief, is_on, home, root: Mutex::default() };
        CachedStore { shared: Arc::new(shared) }
    }

    /// Has it believe what is known and keep what it is told, from now on; or ask the store each time.
    pub fn switch(&self, is_on: bool) {
        let was_on = self.shared.is_on.swap(is_on, Ordering::SeqCst);
        if was_on && !is_on {
            self.shared.known.let_go_of(self.shared.home);
        }
    }

    /// Has it believe from now on as long as that what nobody tells changes of.
    pub fn believe(&self, belief: Belief) {
        if belief == Belief::Lasting && self.belief() != Belief::Lasting {
            // Others may have changed what is known before they did so no longer.
            self.forget();
        }
        *self.shared.belief.write() = belief;
    }

    /// How long that is believed.
    pub fn belief(&self) -> Belief {
        self.shared.belief()
    }

    /// Forgets everything, of other stores, too: another folder has taken the place of the one that is served.
    pub fn forget(&self) {
        self.shared.known.forget_all();
        self.shared.known.drop_gone(None);
    }

    fn resolve_by(&self, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
        let shared = &self.shared;
        if shared.is_on() {
            match shared.walk(path, usage, wait)? {
                Walked::To(resolved) => return Ok(resolved),
                Walked::Astray => {}
            }
        }
        let look = || match wait {
            Wait::May => shared.store.resolve(path, usage),
            Wait::Never => shared.store.try_resolve(path, usage),
        };
        Ok(match shared.with_room(look)? {
            Resolved::Found { node, path } => {
                Resolved::Found { node: CachedNode::found(shared, node, is_dotted(path.name())), path }
            }
            Resolved::Missing { parent, path } => {
                let dotted = path.parent().is_some_and(|parent| is_dotted(parent.name()));
                Resolved::Missing { parent: CachedNode::found(shared, parent, dotted), path }
            }
        })
    }
}

impl Drop for CachedStore {
    fn drop(&mut self) {
        // What is kept open keeps the store's file system in use.
        self.shared.known.leave(self.shared.home);
    }
}

impl Shared {
    fn belief(&self) -> Belief {
        *self.belief.read()
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// What is known of a file that was found, if anything.
    fn entry(&self, node: &dyn Node) -> Option<Arc<Entry>> {
        if self.is_on() { self.known.entry(node.identity(), node.birth()) } else { None }
    }

    /// Opens something, if need be in the place of what is only kept open for others.
    fn with_room<T>(&self, open: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match open() {
            Err(Error::TooManyOpen) if self.known.descriptors() > 0 => {
                self.known.close_all(Some(self.home));
                let mut answer = open();
                // What other stores kept is being closed.
                for _ in 0..ROOM_LOOKS_MAX {
                    if !matches!(answer, Err(Error::TooManyOpen)) || !waiting::is_allowed() {
                        break;
                    }
                    thread::sleep(ROOM_LOOK_EVERY);
                    answer = open();
                }
                answer
            }
            answer => answer,
        }
    }
}

/// Files show HIDDEN that were opened by such a name.
fn is_dotted(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with('.'))
}

impl Store for CachedStore {
    fn facts(&self) -> Facts {
        self.shared.store.facts()
    }

    fn space(&self) -> Result<Space, Error> {
        self.shared.store.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.resolve_by(path, usage, Wait::May)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.resolve_by(path, usage, Wait::Never)
    }

    fn volume_at(&self, path: &SharePath) -> u64 {
        self.shared.store.volume_at(path)
    }

    fn lineage(&self, path: &SharePath) -> Vec<Identity> {
        self.shared.store.lineage(path)
    }

    fn root(&self) -> Identity {
        self.shared.store.root()
    }

    fn above(&self) -> Vec<Identity> {
        self.shared.store.above()
    }

    fn place_of(&self, path: &SharePath) -> Option<PathBuf> {
        self.shared.store.place_of(path)
    }

    fn path_at(&self, place: &Path) -> Option<SharePath> {
        self.shared.store.path_at(place)
    }

    fn watch(
        &self,
        path: &SharePath,
        of: Identity,
        reach: Reach,
        listener: Arc<dyn Listener>,
    ) -> Result<Option<Guard>, Error> {
        self.shared.store.watch(path, of, reach, listener)
    }
}
