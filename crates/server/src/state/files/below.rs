//! Which opens are below a directory, through whatever share: shares may be over one folder, or over folders that lie in each other,
//! and then a path says nothing about another share's files. What a directory is says it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use store::{Identity, SharePath, Store};

use super::{FileEntry, FileTable};

/// Opens that a shard looks through.
const FEW: usize = 256;

impl FileTable {
    /// The files that have an open below the directory `identity`, which has the path `directory` in `store`. May wait for stores.
    pub(crate) fn opens_below(
        &self,
        store: &Arc<dyn Store>,
        directory: &SharePath,
        identity: Identity,
    ) -> Vec<Arc<FileEntry>> {
        let mut below = Vec::new();
        let _ = self.each_below(store, directory, identity, |file| {
            below.push(file);
            ControlFlow::Continue(())
        });
        below
    }

    fn each_below(
        &self,
        store: &Arc<dyn Store>,
        directory: &SharePath,
        identity: Identity,
        mut take: impl FnMut(Arc<FileEntry>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut others = Others::new(store, identity);
        for part in &self.parts {
            let files: Vec<_> = part.lock().values().cloned().collect();
            for file in files {
                // Stores are asked later: nobody waits for a store under a file's lock.
                let mut elsewhere = Vec::new();
                let here = file.state.lock().claims.iter().any(|claim| {
                    let name = claim.names.now();
                    if !Arc::ptr_eq(&claim.store, store) {
                        elsewhere.push((Arc::clone(&claim.store), name));
                        return false;
                    }
                    **name != *directory && name.is_within(directory)
                });
                if here || elsewhere.iter().any(|(other, path)| others.is_below(other, path)) {
                    take(file)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// True where an open lies below the directory, or something is being made there.
    pub(crate) fn has_opens_below(&self, store: &Arc<dyn Store>, directory: &SharePath, identity: Identity) -> bool {
        let mut others = Others::new(store, identity);
        // These first: what was made meanwhile is open then.
        self.new_names.places().iter().any(|(of, path)| match Arc::ptr_eq(of, store) {
            true => path.is_within(directory),
            false => others.is_below(of, path),
        }) || self.each_below(store, directory, identity, |_| ControlFlow::Break(())).is_break()
    }

    /// True where looking through all opens takes long enough for others to notice.
    pub(crate) fn are_many(&self) -> bool {
        let mut left = FEW;
        for part in &self.parts {
            // A file that is open has an open at least.
            let files: Vec<_> = part.lock().values().take(left + 1).cloned().collect();
            for file in files {
                let opens = file.state.lock().claims.len();
                let Some(rest) = left.checked_sub(opens.max(1)) else { return true };
                left = rest;
            }
        }
        false
    }
}

/// What is known of other shares' stores while one directory is asked for.
struct Others<'a> {
    own: &'a Arc<dyn Store>,
    directory: Identity,
    /// By the store's address.
    stores: HashMap<*const (), Other>,
}

struct Other {
    /// Its root is that of our own store, or one that this lies in.
    has_own: bool,
    /// Its root lies below the directory.
    is_below: bool,
    /// Its root is the directory.
    is_directory: bool,
    /// Whether a directory of it is the one asked for, or lies below that.
    paths: HashMap<SharePath, bool>,
}

impl<'a> Others<'a> {
    fn new(own: &'a Arc<dyn Store>, directory: Identity) -> Self {
        Others { own, directory, stores: HashMap::new() }
    }

    fn is_below(&mut self, store: &Arc<dyn Store>, path: &SharePath) -> bool {
        let other = self.stores.entry(Arc::as_ptr(store).cast()).or_insert_with(|| {
            let (own, other) = (self.own.above(), store.above());
            Other {
                has_own: other.first().is_some_and(|root| own.contains(root)),
                is_directory: other.first() == Some(&self.directory),
                is_below: other.iter().skip(1).any(|above| *above == self.directory),
                paths: HashMap::new(),
            }
        });
        // Nothing else is asked: its device may hang.
        if !other.has_own || other.is_below || other.is_directory {
            return other.is_below || (other.is_directory && !path.is_root());
        }
        let Some(parent) = path.parent() else { return false };
        *other.paths.entry(parent).or_insert_with_key(|parent| store.lineage(parent).contains(&self.directory))
    }
}
