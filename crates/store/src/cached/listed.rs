//! What is known of the names that a listing shows. A directory that is listed for the second time has what each name leads to kept, as long as
//! there is room without anything else having to go: to be told of changes costs more than to ask once.

use std::sync::Arc;
use std::time::Instant;

use super::entry::{Belief, Dated, Entry, ToldBy};
use super::known::{Leads, Record};
use super::node::CachedNode;
use super::walk::Keeps;
use super::{Shared, Wait, is_dotted};
use crate::{Error, Metadata, Name, Names, Use, fold, waiting};

impl Shared {
    /// True where a directory, the listing of which begins, was listed before.
    pub(super) fn was_listed(&self, directory: &Entry) -> bool {
        // No name has that.
        self.is_told(directory) && self.known.was_looked_for(directory.identity, "/")
    }

    /// True where what others change of a directory is told, or nobody does.
    fn is_told(&self, directory: &Entry) -> bool {
        directory.told_by == ToldBy::Kernel || self.belief() == Belief::Lasting
    }

    /// Metadata of a stored name in a directory, which `names` is.
    pub(super) fn listed(
        self: &Arc<Self>,
        directory: &Entry,
        names: &dyn Names,
        name: &Name,
        learns: bool,
    ) -> Result<Metadata, Error> {
        if let Some(known) = self.metadata_of(directory, name.as_str()) {
            return Ok(known);
        }
        let former = if self.is_told(directory) {
            self.known.former(self.home, directory, name.as_str()).filter(|former| *former.stored == *name.as_str())
        } else {
            None
        };
        match former.as_deref() {
            Some(Record { leads: Leads::To(entry), .. }) if self.known.is_alive(entry) => {
                self.ask_listed(directory, names, name, entry)
            }
            // Of that nothing is kept.
            Some(Record { leads: Leads::Elsewhere, .. }) => names.entry_metadata(name),
            _ => {
                let learned = if learns { self.learn_listed(directory, names, name) } else { None };
                learned.map_or_else(|| names.entry_metadata(name), Ok)
            }
        }
    }

    /// Asks for the metadata of a name that led to `entry`, and keeps that where it still does.
    fn ask_listed(
        &self,
        directory: &Entry,
        names: &dyn Names,
        name: &Name,
        entry: &Arc<Entry>,
    ) -> Result<Metadata, Error> {
        let known = &self.known;
        let of_name = known.stripes.ask(known.slot_of_name(directory.identity, &fold(name.as_str())));
        let of_file = known.stripes.ask(known.slot(entry.identity));
        let (numbers, at) = (directory.names(), Instant::now());
        let told = names.entry_metadata(name)?;
        if told.identity != entry.identity {
            return Ok(told);
        }
        if let Some(asked) = of_name {
            let stored = (name.as_str(), name.as_str());
            known.note_name((self.home, directory), stored, Leads::To(Arc::clone(entry)), (asked, numbers, at));
        }
        if let Some(asked) = of_file {
            let mut facts = entry.facts.lock();
            // Changes of its data may not be told of since this server has changed them.
            let is_told = entry.told_by == ToldBy::Nobody || facts.watch.is_some_and(|watch| watch.with_data);
            if is_told && !known.is_written(entry.identity) && known.is_alive(entry) && known.stripes.holds(asked) {
                facts.metadata = Some(Dated::new((told, is_dotted(Some(name.as_str()))), at));
            }
        }
        Ok(told)
    }

    /// Opens what a name leads to, so that it is told of from now on, and asks for its metadata. `None` where it is not kept, or cannot be.
    fn learn_listed(self: &Arc<Self>, directory: &Entry, names: &dyn Names, name: &Name) -> Option<Metadata> {
        if !self.known.has_room(directory.told_by) {
            return None;
        }
        let wait = if waiting::is_allowed() { Wait::May } else { Wait::Never };
        let learned = self.learn_child((directory, names), name.as_str(), (Use::Metadata, wait), Keeps::Nothing);
        let (record, child) = learned.ok()??;
        let Leads::To(entry) = &record.leads else { return None };
        if *record.stored != *name.as_str() {
            return None;
        }
        let known = (Arc::clone(entry), is_dotted(Some(name.as_str())));
        CachedNode::opened(self, child?, known, Use::Metadata).metadata_as_resolved().ok()
    }
}
