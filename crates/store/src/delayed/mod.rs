//! A store that is as far away as another machine: each call that a client of a remote file system sends to its server takes a given time
//! first. For measurements of what such a store costs, and what a cache in front of it gives.
//!
//! These wait, once each, however much they do: following a path, looking up, making, removing, renaming and linking names, listing a
//! piece of a directory, opening for more than before ([`Node::prepare`]), looking at metadata, reading and changing data, syncing, and all
//! that is kept beside the data: security descriptors, extended attributes, streams. Copies wait once: such a server copies by itself. What
//! is made of several calls, as [`Store::rename`] is, waits for each.
//!
//! These do not wait, because a client of a remote file system has them in memory: what a node is, which file it is and when that was made;
//! metadata for who looks right after opening ([`Node::metadata_as_resolved`]), which came with the answer to that; opening for no more than
//! before; the directory above an open directory; and closing, which is sent without waiting for an answer.
//!
//! Threads that must not wait are not kept waiting: [`Node::waits`] is [`Waits::Always`], and calls named `try_…` give
//! [`Error::WouldBlock`]. The metadata of each name of a listing is a call of its own ([`Names::entry_metadata`]).

mod node;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::node::DelayedNode;
use crate::{Error, Facts, Guard, Identity, Listener, Node, Reach, Resolved, SharePath, Space, Store, Use, waiting};

/// A store behind a simulated distance.
pub struct DelayedStore {
    store: Arc<dyn Store>,
    distance: Distance,
}

/// What lies between, and is waited for in each call. Clones are the same.
#[derive(Clone)]
struct Distance(Arc<dyn Fn() + Send + Sync>);

impl Distance {
    fn wait(&self, call: &str) {
        waiting::may_wait(call);
        (self.0)();
    }
}

impl DelayedStore {
    /// `store`, each call of which takes `latency` longer that a remote store would be asked. Nobody else is to serve it, in particular not
    /// without the distance: such copies of overlapping ranges of one file might not be seen to overlap.
    pub fn new(store: Arc<dyn Store>, latency: Duration) -> Self {
        DelayedStore::with_wait(store, move || thread::sleep(latency))
    }

    /// The same with something else to wait for, such as a test's count of calls.
    pub fn with_wait(store: Arc<dyn Store>, wait: impl Fn() + Send + Sync + 'static) -> Self {
        DelayedStore { store, distance: Distance(Arc::new(wait)) }
    }

    fn node(&self, node: Arc<dyn Node>, usage: Use) -> Arc<dyn Node> {
        DelayedNode::open(node, usage, &self.distance)
    }
}

impl Store for DelayedStore {
    fn facts(&self) -> Facts {
        Facts { never_blocks: false, ..self.store.facts() }
    }

    fn space(&self) -> Result<Space, Error> {
        self.distance.wait("space");
        self.store.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.distance.wait("resolve");
        Ok(match self.store.resolve(path, usage)? {
            Resolved::Found { node, path } => Resolved::Found { node: self.node(node, usage), path },
            Resolved::Missing { parent, path } => Resolved::Missing { parent: self.node(parent, Use::Metadata), path },
        })
    }

    fn try_resolve(&self, _path: &SharePath, _usage: Use) -> Result<Resolved, Error> {
        Err(Error::WouldBlock)
    }

    fn volume_at(&self, path: &SharePath) -> u64 {
        self.store.volume_at(path)
    }

    fn lineage(&self, path: &SharePath) -> Vec<Identity> {
        self.distance.wait("lineage");
        self.store.lineage(path)
    }

    fn root(&self) -> Identity {
        self.store.root()
    }

    fn above(&self) -> Vec<Identity> {
        self.store.above()
    }

    fn place_of(&self, path: &SharePath) -> Option<PathBuf> {
        self.store.place_of(path)
    }

    fn path_at(&self, place: &Path) -> Option<SharePath> {
        self.store.path_at(place)
    }

    fn watch(
        &self,
        path: &SharePath,
        of: Identity,
        reach: Reach,
        listener: Arc<dyn Listener>,
    ) -> Result<Option<Guard>, Error> {
        self.distance.wait("watch");
        self.store.watch(path, of, reach, listener)
    }
}
