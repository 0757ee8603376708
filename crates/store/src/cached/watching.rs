//! Whether the kernel tells of changes of a file's data: own changes are no news, and telling of them takes the kernel longer than to make them.

use rustix::fd::BorrowedFd;

use super::entry::{Entry, Facts, ToldBy, Watch};
use super::known::Known;
use crate::{Identity, Keeping, Kind, Node};

impl Known {
    /// The data of a file is changed through `node` from now on, until [`Known::end_writing`].
    pub(super) fn begin_writing(&self, file: Identity, node: &dyn Node) {
        self.writers.begin(file);
        // Who has asked before must not note what it is told after this has ended.
        self.stripes.changed(self.slot(file));
        let Some(entry) = self.entries.get(&file) else { return };
        let mut facts = entry.facts.lock();
        facts.metadata = None;
        if !self.is_alive(&entry) || !entry.is_of(node.birth()) || node.kind() == Kind::Stream {
            return;
        }
        // Own changes are no news, and telling of them takes the kernel longer than to make them.
        if let (Some(watch), Keeping::Watched(handle)) = (facts.watch, node.keeping())
            && watch.with_data
        {
            self.tell_of_data(&mut facts, (watch, handle, entry.kind), false);
        }
    }

    pub(super) fn end_writing(&self, file: Identity) {
        self.stripes.changed(self.slot(file));
        self.writers.end(file);
    }

    /// True where the metadata of a file may be known: its data is not being changed, and the kernel tells of it where others do.
    pub(super) fn may_know_metadata(&self, entry: &Entry, keeping: Keeping<'_>) -> bool {
        if self.is_written(entry.identity) {
            return false;
        }
        let mut facts = entry.facts.lock();
        match (facts.watch, keeping) {
            (Some(watch), Keeping::Watched(handle)) if !watch.with_data => {
                self.tell_of_data(&mut facts, (watch, handle, entry.kind), true)
            }
            (Some(_), Keeping::Watched { .. }) => true,
            (None, Keeping::Untold) => entry.told_by == ToldBy::Nobody,
            _ => false,
        }
    }

    /// True where that is so already.
    pub(super) fn is_told_of_metadata(&self, entry: &Entry) -> bool {
        let tells = entry.told_by == ToldBy::Nobody || entry.facts.lock().watch.is_some_and(|watch| watch.with_data);
        tells && !self.is_written(entry.identity)
    }

    /// Has the kernel tell of changes of data as well, or no more. False where it does not as it is asked to.
    fn tell_of_data(
        &self,
        facts: &mut Facts,
        (former, handle, kind): (Watch, BorrowedFd<'_>, Kind),
        tells: bool,
    ) -> bool {
        let again = self.news().and_then(|news| news.set(handle, kind, tells).ok());
        // Where it has been given another number, what it tells would not be understood.
        let again = again.filter(|again| again.number == former.number);
        facts.watch = again.or(facts.watch);
        again.is_some()
    }

    pub(super) fn is_written(&self, file: Identity) -> bool {
        self.writers.are_there(file)
    }
}
