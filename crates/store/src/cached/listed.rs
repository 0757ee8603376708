//! What is known of the names that a listing shows. A directory that was listed as a whole before has its names kept, and what each of them leads
//! to, as long as nothing else has to go for that. For that nothing is opened, mounted or waited for: what has the name is told of by the kernel
//! from then on, its metadata is asked for by its name, and all of that is void where the directory has had news of the name by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::entry::{Belief, Dated, Entry, ToldBy};
use super::named::Leads;
use super::node::CachedNode;
use super::stripes::Asked;
use super::{Shared, is_dotted};
use crate::node::list_on;
use crate::{Cursor, Entry as Listed, Error, Kind, Metadata, Name, Names, Node, Seen, Take, fold};

/// Directories that have more names are asked each time.
const NAMES_MAX: usize = 4_096;

/// A listing of an open directory.
#[derive(Default)]
pub(super) struct Listing {
    /// What its names lead to is kept.
    learns: AtomicBool,
    /// What is listed piece by piece, where the node is not its own: some file systems know their place by an open file's position alone.
    in_pieces: Mutex<Option<Arc<dyn Node>>>,
}

/// What a directory has, while it is found out.
struct Finding<'a> {
    entry: &'a Arc<Entry>,
    names: Vec<Listed>,
    /// The directory was asked for them.
    asked: Asked,
    at: Instant,
}

impl CachedNode {
    /// Lists all names: those that are known, or what there is, which is known from then on.
    pub(super) fn list_whole(&self, pieces_max: usize, take: Take<'_>) -> Result<bool, Error> {
        let entry = self.believed().filter(|entry| self.shared.is_told(entry));
        if let Some(list) = entry.and_then(|entry| self.shared.known_list(entry)) {
            self.listing.learns.store(true, Ordering::Relaxed);
            return Ok(list.iter().cloned().try_for_each(take).is_continue());
        }
        let mut finding = entry.and_then(|entry| self.shared.begin_finding(entry));
        self.listing.learns.store(finding.is_some(), Ordering::Relaxed);
        let node = self.to_list()?;
        let (mut cursor, mut count) = (Cursor::default(), 0);
        let is_all = list_on(node.names()?, &mut cursor, pieces_max, &mut |listed| {
            count += 1;
            if let Some(finding) = finding.as_mut().filter(|_| count <= NAMES_MAX) {
                finding.names.push(listed.clone());
            }
            take(listed)
        })?;
        if !is_all {
            self.listing.learns.store(false, Ordering::Relaxed);
        } else if let Some(entry) = entry.filter(|_| count <= NAMES_MAX) {
            self.shared.known.note_listed(entry.identity);
            finding.into_iter().for_each(|found| self.shared.end_finding(found));
        }
        Ok(is_all)
    }

    /// Lists some names.
    pub(super) fn list_piece(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        let former = self.listing.in_pieces.lock().take().filter(|_| *cursor != Cursor::default());
        let node = former.map_or_else(|| self.to_list(), Ok)?;
        let more = node.names()?.list(cursor, take)?;
        if more && self.is_shared {
            *self.listing.in_pieces.lock() = Some(node);
        }
        Ok(more)
    }

    /// Metadata of a name that a listing has shown.
    pub(super) fn listed(&self, name: &Name) -> Result<Metadata, Error> {
        let names = self.own().names()?;
        match self.believed() {
            Some(entry) => self.shared.listed(entry, names, name, self.listing.learns.load(Ordering::Relaxed)),
            None => names.entry_metadata(name),
        }
    }
}

impl Shared {
    /// True where what others change of a file is told, or nobody does.
    fn is_told(&self, entry: &Entry) -> bool {
        entry.told_by == ToldBy::Kernel || self.belief() == Belief::Lasting
    }

    /// Which names a directory has, where that is known.
    fn known_list(&self, directory: &Entry) -> Option<Arc<[Listed]>> {
        let list = directory.list(self.belief())?;
        self.known.lists.touch(directory.identity);
        Some(list)
    }

    /// To find out which names a directory has, where it was listed before.
    fn begin_finding<'a>(&self, entry: &'a Arc<Entry>) -> Option<Finding<'a>> {
        if !self.known.was_listed(entry.identity) {
            return None;
        }
        let asked = self.known.stripes.ask(self.known.slot(entry.identity))?;
        Some(Finding { entry, names: Vec::new(), asked, at: Instant::now() })
    }

    fn end_finding(&self, found: Finding<'_>) {
        let (known, entry) = (&self.known, found.entry);
        let Some(list) = known.lists.keep(entry.identity, found.names) else { return };
        // What has come while it was listed is not among them.
        known.hear_now(self.home);
        let mut facts = entry.facts.lock();
        if known.is_alive(entry) && known.stripes.holds(found.asked) {
            facts.names = Some(Dated::new(Arc::downgrade(&list), found.at));
        }
    }

    fn listed(&self, directory: &Entry, names: &dyn Names, name: &Name, learns: bool) -> Result<Metadata, Error> {
        let (known, belief) = (&self.known, self.belief());
        let record = known.any_spelling(self.home, directory, name.as_str());
        let is_its = record.as_ref().is_some_and(|record| *record.stored == *name.as_str());
        let is_believed = record.as_ref().is_some_and(|record| known.is_believed(record, directory, belief));
        match record.as_ref().map(|record| &record.leads) {
            Some(Leads::To(entry)) if is_its => {
                let kept = if is_believed { entry.metadata(is_dotted(Some(name.as_str())), belief) } else { None };
                if let Some(metadata) = kept {
                    return Ok(metadata);
                }
                if self.is_told(directory) && known.is_alive(entry) && known.is_told_of_metadata(entry) {
                    let spelling = record.as_ref().map_or(name.as_str(), |record| &record.spelling);
                    return self.learn_listed((directory, names), (spelling, name), Some(entry));
                }
            }
            // Of that nothing is kept; or another name, which is the same in another case, has its place.
            Some(_) if is_believed => return names.entry_metadata(name),
            Some(_) | None => {}
        }
        if learns && self.is_told(directory) && known.has_room() {
            self.learn_listed((directory, names), (name.as_str(), name), None)
        } else {
            names.entry_metadata(name)
        }
    }

    /// Asks for the metadata of a name, and keeps that, and what the name leads to. That is `former`, of which the kernel tells already, or it is
    /// to be found out. It is kept under the spelling that it is asked for by.
    fn learn_listed(
        &self,
        (directory, names): (&Entry, &dyn Names),
        (spelling, name): (&str, &Name),
        former: Option<&Arc<Entry>>,
    ) -> Result<Metadata, Error> {
        let known = &self.known;
        let (numbers, at) = (directory.names(), Instant::now());
        let Some(of_name) = known.stripes.ask(known.slot_of_name(directory.identity, &fold(name.as_str()))) else {
            return names.entry_metadata(name);
        };
        let (found, told) = match former {
            Some(entry) => {
                let asked = self.begin_to_ask(entry, || known.is_told_of_metadata(entry));
                (Found::Known(Arc::clone(entry), asked), names.entry_metadata(name)?)
            }
            None => {
                let mut found = Found::Unknowable;
                let told = names.entry_metadata_after(name, &mut |seen| found = self.begin_to_know(seen))?;
                (found, told)
            }
        };
        // What has the name by now is told of the directory.
        known.hear_now(self.home);
        let note =
            |leads| known.note_name((self.home, directory), (spelling, name.as_str()), leads, (of_name, numbers, at));
        let (entry, of_file) = match found {
            Found::Known(entry, asked) => (entry, asked),
            Found::Unknowable => {
                note(Leads::Elsewhere);
                return Ok(told);
            }
            Found::JustWritten => return Ok(told),
        };
        let is_noted = told.identity == entry.identity && note(Leads::To(Arc::clone(&entry))).is_some();
        if !is_noted {
            // The kernel tells of a directory's end by its name alone: nothing is known of one that no name is known of.
            if former.is_none() && entry.kind == Kind::Directory {
                known.end(&entry);
                known.drop_gone(Some(self.home));
            }
            return Ok(told);
        }
        let Some(of_file) = of_file else { return Ok(told) };
        let mut facts = entry.facts.lock();
        if known.is_alive(&entry) && known.stripes.holds(of_file) && !known.is_written(entry.identity) {
            facts.metadata = Some(Dated::new((told, is_dotted(Some(name.as_str()))), at));
        }
        Ok(told)
    }

    /// What has a name, from now on known.
    fn begin_to_know(&self, seen: Seen<'_>) -> Found {
        let known = &self.known;
        if known.is_written(seen.identity) {
            return Found::JustWritten;
        }
        let Some(entry) = known.entry_of(seen, self.home) else { return Found::Unknowable };
        let asked = self.begin_to_ask(&entry, || known.may_know_metadata(&entry, seen.keeping));
        Found::Known(entry, asked)
    }

    /// To ask for the metadata of a file, where changes of that are told. That is looked at after the count of its changes: who begins to write it has
    /// the kernel tell of its data no more.
    fn begin_to_ask(&self, entry: &Entry, is_told: impl FnOnce() -> bool) -> Option<Asked> {
        self.known.stripes.ask(self.known.slot(entry.identity)).filter(|_| is_told())
    }
}

/// What has a name.
enum Found {
    /// This, of which the metadata may be known where it was asked for.
    Known(Arc<Entry>, Option<Asked>),
    /// Nothing may be kept of it.
    Unknowable,
    /// It is being written.
    JustWritten,
}
