//! The names of a file. What is deleted is the name that an open was made by (MS-FSA Open.Link): the others stay, and so does who came
//! by them.
//!
//! Most files have one name, and then there is nothing to tell apart. Of those with several each open knows its own, and where a name is
//! about to go, those learn theirs that were made while there was but one.

use std::collections::HashMap;
use std::sync::Arc;

use store::{Error, Identity, SharePath, Store, fold};

use super::FileEntry;
use super::state::FileState;
use crate::state::open_id::OpenId;

/// One of a file's names, through whatever share it is seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    directory: Identity,
    /// Folded.
    name: String,
}

impl Link {
    /// A name in a directory.
    pub(crate) fn new(directory: Identity, name: &str) -> Self {
        Link { directory, name: fold(name) }
    }

    /// The name that `path` leads to. May wait for the store.
    pub(crate) fn at(store: &dyn Store, path: &SharePath) -> Result<Self, Error> {
        let (directory, name) = store.directory_of(path)?;
        Ok(Link::new(directory.identity(), name.as_str()))
    }
}

/// True where these are one name, or may be: who does not know its name came while there was but one.
pub(super) fn may_be_one(one: Option<&Link>, other: Option<&Link>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

impl FileEntry {
    /// Has every open know its name: the file has several, and one of them is about to go. May wait for stores.
    pub(crate) fn learn_links(&self) {
        let claims = |state: &FileState| {
            let unknown = state.claims.without_link();
            unknown.map(|claim| (claim.open, Arc::clone(&claim.store), Arc::clone(&claim.names))).collect::<Vec<_>>()
        };
        let unknown = claims(&self.state.lock());
        // Of those that one store has, most were made by one path.
        let mut found = HashMap::new();
        for (open, store, names) in unknown {
            let path = SharePath::clone(&names.now());
            let at = found.entry((Arc::as_ptr(&store), path.clone()));
            let link = at.or_insert_with_key(|(_, path)| Link::at(&*store, path).ok());
            if let Some(link) = link {
                self.state.lock().claims.change(open, |claim| {
                    // Where it was renamed meanwhile, that is another one.
                    if **claim.names.now() == path {
                        claim.link = Some(link.clone());
                    }
                });
            }
        }
    }

    /// True where names of the file are told apart.
    pub(crate) fn tells_names(&self) -> bool {
        self.state.lock().tells_names()
    }

    /// A name of the file is another one now. Where it was marked to go, that is.
    pub(super) fn link_renamed(&self, from: &Link, to: &Link) {
        let mut state = self.state.lock();
        state.claims.link_renamed(from, to);
        if let Some(pending) = &mut state.pending {
            pending.links.renamed(from, to);
        }
        self.armed_name_renamed(from, to);
    }

    /// True where the name goes with its last open.
    pub(crate) fn is_link_pending(&self, link: &Link) -> bool {
        self.state.lock().is_link_pending(Some(link))
    }
}

impl FileState {
    /// The name that an open was made by.
    pub(super) fn link_of(&self, open: OpenId) -> Option<Link> {
        self.claims.get(open).and_then(|claim| claim.link.clone())
    }

    /// True where names are told apart: there were several when somebody opened the file.
    pub(super) fn tells_names(&self) -> bool {
        self.claims.has_links() || self.pending.as_ref().is_some_and(|pending| pending.links.has_names())
    }

    pub(super) fn is_link_pending(&self, link: Option<&Link>) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.links.contains(link))
    }
}
