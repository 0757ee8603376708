//! The names of a file. What is deleted is the name that an open was made by (MS-FSA Open.Link): the others stay, and so does who came
//! by them.
//!
//! Most files have one name, and then there is nothing to tell apart. Of those with several each open knows its own, and where a name is
//! about to go, those learn theirs that were made while there was but one.

use std::sync::Arc;

use store::{Error, Identity, SharePath, Store, fold};

use super::FileEntry;
use super::state::FileState;
use crate::open::OpenId;

/// One of a file's names, through whatever share it is seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    directory: Identity,
    /// Folded.
    name: String,
}

/// A name that goes when nobody has the file open by it any more (Link.IsDeleted).
#[derive(Debug)]
pub(super) struct PendingLink {
    /// Which; `None` where the file has no other.
    pub(super) link: Option<Link>,
    /// The opens of which the first to close takes it away, whoever else has it open (Link.DeleteUsingPosixSemantics).
    pub(super) by: Vec<OpenId>,
    /// It is being removed just now.
    pub(super) is_going: bool,
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
            let unknown = state.claims.iter().filter(|claim| claim.link.is_none());
            unknown.map(|claim| (claim.open, Arc::clone(&claim.store), Arc::clone(&claim.names))).collect::<Vec<_>>()
        };
        let unknown = claims(&self.state.lock());
        for (open, store, names) in unknown {
            let path = names.lock().clone();
            let Ok(link) = Link::at(&*store, &path) else { continue };
            self.state.lock().claims.change(open, |claim| claim.link = Some(link));
        }
    }

    /// A name of the file is another one now.
    pub(super) fn link_renamed(&self, from: &Link, to: &Link) {
        self.state.lock().claims.link_renamed(from, to);
    }
}

impl FileState {
    /// The name that an open was made by.
    pub(super) fn link_of(&self, open: OpenId) -> Option<Link> {
        self.claims.get(open).and_then(|claim| claim.link.clone())
    }

    pub(super) fn is_link_pending(&self, link: Option<&Link>) -> bool {
        self.pending_links.iter().any(|pending| may_be_one(pending.link.as_ref(), link))
    }

    /// Marks the name to go.
    pub(super) fn mark(&mut self, link: Option<Link>) -> &mut PendingLink {
        let marked = self.pending_links.iter().position(|pending| may_be_one(pending.link.as_ref(), link.as_ref()));
        let index = marked.unwrap_or_else(|| {
            self.pending_links.push(PendingLink { link, by: Vec::new(), is_going: false });
            self.pending_links.len() - 1
        });
        &mut self.pending_links[index]
    }

    /// The name is to stay.
    pub(super) fn unmark(&mut self, link: Option<&Link>) {
        self.pending_links.retain(|pending| !may_be_one(pending.link.as_ref(), link));
    }
}
