//! Removing what goes with its last open: a name of a file or directory, or a stream (MS-FSA 2.1.5.5).

use std::sync::Arc;

use store::{Error, Kind, Node, Resolved, SharePath, Store, Use};

use crate::state::auditing::of_open;
use crate::state::breaks;
use crate::state::caching::LeaseId;
use crate::state::files::{FileEntry, Link, Removal};
use crate::state::open::{Open, whereabouts};
use crate::state::open_path::OpenPath;
use crate::state::shared::Shared;
use crate::state::tree::Tree;

/// What an open that has left its file knows of it.
pub(crate) struct LastOpen {
    /// The file; for a stream the one that has it.
    pub(crate) base: Arc<dyn Node>,
    /// Where the file stands.
    pub(crate) path: Arc<OpenPath>,
    pub(crate) tree: Arc<Tree>,
    /// The lease of the directory it stands in, where the open's client named one.
    pub(crate) parent_lease: Option<LeaseId>,
    /// The open, where it ends by itself and not with a CREATE that is undone.
    pub(crate) open: Option<Arc<Open>>,
}

/// What came of a removal.
pub(crate) enum Fate {
    /// It is gone.
    Removed,
    /// It was not removed, and need not be: a directory was filled meanwhile, or another program took it away.
    Stays(Error),
}

/// What was removed: through which share, where it stood, and what the disk has to keep for that: the directory, or a stream's file.
struct Removed {
    store: Arc<dyn Store>,
    path: SharePath,
    from: Arc<dyn Node>,
}

impl LastOpen {
    /// Removes what the departure of the open from `file` removes, and what is due after that. May wait for the store. Each removal is tried
    /// once: one that fails is in the log, and the name stays.
    pub(crate) fn carry_out(&self, server: &Arc<Shared>, file: &Arc<FileEntry>, first: Removal) {
        let mut next = first;
        while next != Removal::Nothing {
            // A failure is in the log.
            let _ = self.remove(server, file, &next);
            next = server.files.removed(file, &next);
        }
    }

    /// Removes one of these. Nobody else has the name until [`FileTable::removed`](crate::state::files::FileTable::removed) was told. May wait for the store.
    /// Fails where it is still there, which is then in the log.
    pub(crate) fn remove(&self, server: &Arc<Shared>, file: &Arc<FileEntry>, removal: &Removal) -> Result<(), Error> {
        let Some(store) = self.tree.store() else { return Ok(()) };
        if *removal == Removal::Nothing {
            return Ok(());
        }
        let name = self.name_of(removal);
        let fate = self.try_to_remove(server, store, removal);
        let outcome = fate.as_ref().map_or_else(|error| Err(*error), |_| Ok(()));
        of_open::removed(server, self, file, (removal, &name), fate);
        outcome
    }

    /// What is removed, as clients name it.
    fn name_of(&self, removal: &Removal) -> String {
        match removal {
            Removal::Nothing | Removal::File(_) => self.path.now().as_str().to_owned(),
            Removal::Stream(stream) => format!("{}:{stream}", self.path.now().as_str()),
        }
    }

    fn try_to_remove(&self, server: &Arc<Shared>, store: &Arc<dyn Store>, removal: &Removal) -> Result<Fate, Error> {
        let path = SharePath::clone(&self.path.now());
        let removed = match removal {
            Removal::Nothing => return Ok(Fate::Removed),
            Removal::File(link) => self.remove_file(server, store, path, link.as_ref()),
            Removal::Stream(name) => self.remove_stream(server, store, path, name),
        };
        let removed = removed.map(|Removed { store, path, from }| {
            if self.base.kind() == Kind::Directory {
                server.descriptors.inheritance.directory_changed();
            }
            let last = (&*self.base, &*self.path, &*self.tree);
            server.watches.removed(&*store, &path, last, removal);
            breaks::entry_changed(server, &*store, &path, self.parent_lease);
            from
        });
        // On a continuously available share it does not come back.
        let kept = removed.and_then(|from| if self.tree.is_continuous { from.sync() } else { Ok(()) });
        let share = &self.tree.share;
        match kept {
            Ok(()) => Ok(Fate::Removed),
            // A directory that was filled meanwhile stays (MS-FSA 2.1.5.5), and what another program took away is gone.
            Err(error @ (Error::NotEmpty | Error::NotFound | Error::PathNotFound | Error::Gone)) => {
                tracing::debug!(%error, %share, "delete on close did nothing");
                Ok(Fate::Stays(error))
            }
            Err(error) => {
                let path = self.path.name();
                tracing::warn!(name: "deletion_undone", %error, %share, path, "what was to be deleted on close is still there, or may come back after a loss of power");
                Err(error)
            }
        }
    }

    /// Removes the file's name, wherever it has moved to, through a share of its folder that can be written to; where it has several, `link`
    /// and no other.
    fn remove_file(
        &self,
        server: &Shared,
        store: &Arc<dyn Store>,
        path: SharePath,
        link: Option<&Link>,
    ) -> Result<Removed, Error> {
        let identity = self.base.identity();
        let remove = |store: &dyn Store, path: &SharePath| {
            // All in one directory, whatever its path means by now.
            let (directory, name) = store.directory_of(path)?;
            if link.is_some_and(|link| Link::new(directory.identity(), name.as_str()) != *link) {
                return Err(Error::NotFound);
            }
            directory.names()?.remove(&name, identity)?;
            Ok(directory)
        };
        let here = remove(&**store, &path);
        self.or_elsewhere(server, store, (here, path), remove)
    }

    /// The same for a stream.
    fn remove_stream(
        &self,
        server: &Shared,
        store: &Arc<dyn Store>,
        path: SharePath,
        name: &str,
    ) -> Result<Removed, Error> {
        let here = self.base.extras().remove_stream(name).map(|()| Arc::clone(&self.base));
        self.or_elsewhere(server, store, (here, path), |store, path| match store.resolve(path, Use::ReadWrite) {
            Ok(Resolved::Found { node, .. }) if node.identity() == self.base.identity() => {
                node.extras().remove_stream(name).map(|()| node)
            }
            _ => Err(Error::NotFound),
        })
    }

    /// What was removed `here`, or else elsewhere: by wherever the file has moved to, or another share of its folder.
    fn or_elsewhere(
        &self,
        server: &Shared,
        store: &Arc<dyn Store>,
        (here, path): (Result<Arc<dyn Node>, Error>, SharePath),
        remove: impl Fn(&dyn Store, &SharePath) -> Result<Arc<dyn Node>, Error>,
    ) -> Result<Removed, Error> {
        let first = match here {
            Err(error) if is_elsewhere(error) => error,
            answer => return answer.map(|from| Removed { store: Arc::clone(store), path, from }),
        };
        for (store, path) in whereabouts(&*self.base, &server.configuration.load(), store) {
            match remove(&*store, &path) {
                Err(error) if is_elsewhere(error) => {}
                answer => return answer.map(|from| Removed { store, path, from }),
            }
        }
        Err(first)
    }
}

/// True where another share of the folder may yet remove what this one did not.
fn is_elsewhere(error: Error) -> bool {
    matches!(error, Error::NotFound | Error::PathNotFound | Error::ReadOnly)
}
