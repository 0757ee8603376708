//! What goes with its last open: names of a file, and named streams. A file may have as many of either as a user may have opens, so that
//! nobody goes through them all for one that comes or goes.

use std::collections::{BTreeMap, BTreeSet};

use super::Removal;
use super::links::Link;
use crate::state::open_id::OpenId;

/// What of a file is delete-pending. Most files have nothing.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) links: PendingLinks,
    pub(super) streams: PendingStreams,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty() && self.streams.is_empty()
    }
}

/// The names that go when nobody has the file open by them any more (Link.IsDeleted).
#[derive(Default)]
pub(super) struct PendingLinks {
    /// The name of a file that has no other.
    only: Option<PendingLink>,
    named: BTreeMap<Link, PendingLink>,
}

#[derive(Default)]
pub(super) struct PendingLink {
    /// The opens of which the first to close takes it away, whoever else has it open (Link.DeleteUsingPosixSemantics).
    pub(super) by: BTreeSet<OpenId>,
    /// It is being removed just now.
    is_going: bool,
}

impl PendingLinks {
    fn is_empty(&self) -> bool {
        self.only.is_none() && self.named.is_empty()
    }

    /// True where the name goes, or may be one that does: who does not know its name came while there was but one.
    pub(super) fn contains(&self, link: Option<&Link>) -> bool {
        self.only.is_some()
            || match link {
                Some(link) => self.named.contains_key(link),
                None => !self.named.is_empty(),
            }
    }

    /// Marks the name to go.
    pub(super) fn mark(&mut self, link: Option<Link>) -> &mut PendingLink {
        if self.only.is_some() {
            return self.only.get_or_insert_default();
        }
        match link {
            Some(link) => self.named.entry(link).or_default(),
            None => match self.named.first_entry() {
                Some(first) => first.into_mut(),
                None => self.only.get_or_insert_default(),
            },
        }
    }

    /// The name is to stay.
    pub(super) fn unmark(&mut self, link: Option<&Link>) {
        self.only = None;
        // Without a name those that have one are others'.
        if let Some(link) = link {
            self.named.remove(link);
        }
    }

    /// True where some of the names that go are told apart.
    pub(super) fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// A name that is marked to go is another one now.
    pub(super) fn renamed(&mut self, from: &Link, to: &Link) {
        if from != to
            && self.named.get(from).is_some_and(|pending| !pending.is_going)
            && let Some(moved) = self.named.remove(from)
        {
            self.named.entry(to.clone()).or_default().by.extend(moved.by);
        }
    }

    /// Begins to remove what the departure of an open that was made by the name `link` removes: with the last one, or where it was to go
    /// with that open whoever else has it.
    pub(super) fn begin_removal(&mut self, link: Option<&Link>, open: OpenId, is_open: bool) -> Removal {
        let is_due = |pending: &PendingLink| !pending.is_going && (!is_open || pending.by.contains(&open));
        if let Some(only) = self.only.as_mut().filter(|only| is_due(only)) {
            only.is_going = true;
            return Removal::File(None);
        }
        let due = match link {
            Some(link) => {
                self.named.get_mut(link).map(|pending| (link, pending)).filter(|(_, pending)| is_due(pending))
            }
            None => self.named.iter_mut().find(|(_, pending)| is_due(pending)),
        };
        let Some((link, pending)) = due else { return Removal::Nothing };
        pending.is_going = true;
        Removal::File(Some(link.clone()))
    }

    /// The removal of this name, or of the only one, was tried.
    pub(super) fn removed(&mut self, link: Option<&Link>) {
        match link {
            Some(link) if self.named.get(link).is_some_and(|pending| pending.is_going) => drop(self.named.remove(link)),
            Some(_) => {}
            None => drop(self.only.take_if(|only| only.is_going)),
        }
    }
}

/// The named streams that go with their last open (MS-FSA Stream.IsDeleted).
#[derive(Default)]
pub(super) struct PendingStreams {
    names: BTreeSet<String>,
    /// Those that nobody has open any more, and that nobody removes yet.
    closed: BTreeSet<String>,
}

impl PendingStreams {
    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn contains(&self, stream: &str) -> bool {
        self.names.contains(stream)
    }

    pub(super) fn insert(&mut self, stream: &str) {
        if !self.names.contains(stream) {
            self.names.insert(stream.to_owned());
        }
    }

    /// It is to stay, or has gone.
    pub(super) fn remove(&mut self, stream: &str) {
        self.names.remove(stream);
        self.closed.remove(stream);
    }

    /// A stream that somebody has open has another name.
    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        if self.names.remove(from) {
            self.names.insert(to.to_owned());
        }
    }

    /// Nobody has the stream open any more.
    pub(super) fn closed(&mut self, stream: &str) {
        if self.names.contains(stream) {
            self.closed.insert(stream.to_owned());
        }
    }

    /// Begins to remove one that nobody has open any more.
    pub(super) fn begin_removal(&mut self) -> Removal {
        self.closed.pop_first().map_or(Removal::Nothing, Removal::Stream)
    }
}
