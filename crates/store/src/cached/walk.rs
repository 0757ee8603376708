//! From names to nodes by what is known, and learning what is not.

use std::sync::Arc;
use std::time::Instant;

use super::entry::{Belief, Entry, ToldBy};
use super::kept::is_shareable;
use super::named::{Leads, Record};
use super::node::{CachedNode, Opened, own};
use super::{Shared, Wait, is_dotted};
use crate::{Error, Kind, Name, NamedNode, Names, Node, Resolved, Seen, SharePath, Use, effort, fold};

/// Longer paths are left to the store, which refuses some.
const PATH_BYTES_MAX: usize = 1024;

/// Where a path led.
pub(super) enum Walked {
    To(Resolved),
    /// By what is known that cannot be told.
    Astray,
}

/// What was learned of a name, and what is open for it.
type Learned = (Arc<Record>, Option<Opened>);

/// How far a path was followed.
struct Way {
    at: Arc<Entry>,
    /// The name that led there begins with a dot.
    dotted: bool,
    stored: SharePath,
}

impl Way {
    fn enter(&mut self, next: &Arc<Entry>, stored: &str) {
        self.stored.push(stored);
        (self.at, self.dotted) = (Arc::clone(next), is_dotted(Some(stored)));
    }
}

/// What a name in a directory leads to, for some use.
pub(super) enum Child {
    Found { stored: Arc<Record>, node: Arc<dyn Node> },
    Missing,
    Unknown,
}

impl Shared {
    /// Follows a path by what is known. What is not is asked for name by name and kept, where it was looked for before or that costs no watch.
    pub(super) fn walk(self: &Arc<Self>, path: &SharePath, usage: Use, wait: Wait) -> Result<Walked, Error> {
        if path.as_str().len() > PATH_BYTES_MAX {
            return Ok(Walked::Astray);
        }
        self.known.hear(self.home);
        let Some(root) = self.root(wait)? else { return Ok(Walked::Astray) };
        let mut way = Way { at: Arc::clone(&root), dotted: false, stored: SharePath::root() };
        let mut names = path.names().peekable();
        while let Some(name) = names.next() {
            effort::note(1);
            let is_last = names.peek().is_none();
            let usage = if is_last { usage } else { Use::Metadata };
            let known = self.known.name(self.home, &way.at, name, self.belief());
            let usage = match known.as_ref().map(|record| &record.leads) {
                Some(Leads::To(entry)) => self.least_use(entry, usage),
                Some(Leads::Nowhere | Leads::Elsewhere) | None => usage,
            };
            // What was kept before and is not open is worth it, too.
            let is_worth_learning = known.is_some() || self.is_worth_learning(&way.at, name);
            let (record, opened) = match known.and_then(|record| self.open_for(record, usage)) {
                Some(learned) => learned,
                None if is_worth_learning => match self.learn(&way, name, usage, wait)? {
                    Some(learned) => learned,
                    None => return Ok(Walked::Astray),
                },
                None if is_last => {
                    let directory = Arc::clone(&way.at);
                    let asked = self.ask(way, name, usage, wait);
                    if matches!(asked, Err(Error::WouldBlock)) {
                        // It is asked for again where that may wait, and was looked for once by then.
                        self.known.unmark(directory.identity, &fold(name));
                    }
                    return asked;
                }
                None => return Ok(Walked::Astray),
            };
            match &record.leads {
                Leads::To(next) => {
                    way.enter(next, &record.stored);
                    if let Some(opened) = opened.filter(|_| is_last) {
                        let node = CachedNode::opened(self, opened, (Arc::clone(next), way.dotted));
                        return Ok(Walked::To(Resolved::Found { node, path: way.stored }));
                    }
                }
                Leads::Nowhere if is_last => {
                    let Some(parent) = self.node(&way.at, way.dotted, Use::Metadata) else { return Ok(Walked::Astray) };
                    way.stored.push(name);
                    return Ok(Walked::To(Resolved::Missing { parent, path: way.stored }));
                }
                Leads::Nowhere | Leads::Elsewhere => return Ok(Walked::Astray),
            }
        }
        Ok(match self.node(&way.at, way.dotted, self.least_use(&way.at, usage)) {
            Some(node) => Walked::To(Resolved::Found { node, path: way.stored }),
            None => Walked::Astray,
        })
    }

    /// True where what a name leads to is to be kept: it was looked for before, or that costs no watch.
    fn is_worth_learning(&self, directory: &Entry, name: &str) -> bool {
        directory.told_by == ToldBy::Nobody || self.known.was_looked_for(directory.identity, name)
    }

    /// What something has to be opened for, for that use: no directory whose names are in memory is opened to read them.
    fn least_use(&self, entry: &Entry, usage: Use) -> Use {
        let is_to_list = usage == Use::Read && entry.kind == Kind::Directory;
        if is_to_list && entry.list(self.belief()).is_some() { Use::Metadata } else { usage }
    }

    /// What a name leads to with what is open for that use. `None` where something would have to be open and is not.
    fn open_for(&self, record: Arc<Record>, usage: Use) -> Option<Learned> {
        let open = match &record.leads {
            Leads::To(entry) => {
                let node = self.kept(entry, usage, is_dotted(Some(&record.stored)))?;
                Some(Opened { node, is_shared: true })
            }
            Leads::Nowhere | Leads::Elsewhere => None,
        };
        Some((record, open))
    }

    /// What is known of the root, which is kept open.
    fn root(&self, wait: Wait) -> Result<Option<Arc<Entry>>, Error> {
        let identity = self.store.root();
        let known = self.root.lock().clone();
        let is_good = |root: &Arc<Entry>| {
            root.identity == identity && self.known.is_alive(root) && self.kept(root, Use::Metadata, false).is_some()
        };
        if let Some(root) = known.filter(is_good) {
            return Ok(Some(root));
        }
        let path = SharePath::root();
        let found = match wait {
            Wait::May => self.store.resolve(&path, Use::Metadata),
            Wait::Never => self.store.try_resolve(&path, Use::Metadata),
        };
        let Resolved::Found { node, .. } = found? else { return Ok(None) };
        let root = self.known.entry_of(Seen::of(&*node), self.home);
        if let Some(root) = &root {
            self.keep(root, &node, Use::Metadata, false);
        }
        self.root.lock().clone_from(&root);
        Ok(root)
    }

    fn kept(&self, entry: &Arc<Entry>, usage: Use, dotted: bool) -> Option<Arc<dyn Node>> {
        self.known.kept.get(self.home, entry, usage, dotted)
    }

    fn keep(&self, entry: &Arc<Entry>, node: &Arc<dyn Node>, usage: Use, dotted: bool) {
        let ages = entry.told_by == ToldBy::Nobody && self.belief() != Belief::Lasting;
        self.known.kept.keep(self.home, entry, node, (usage, dotted), ages);
        // Who has ended it meanwhile, or switched this off, may have looked before.
        if !self.known.is_alive(entry) {
            self.known.kept.let_go(entry.identity);
        } else if !self.is_on() {
            self.known.kept.let_go_in(self.home, entry.identity);
        }
        self.known.drop_gone(Some(self.home));
    }

    /// A node of what is known, for that use: one that is kept open.
    pub(super) fn node(self: &Arc<Self>, entry: &Arc<Entry>, dotted: bool, usage: Use) -> Option<Arc<dyn Node>> {
        let node = self.kept(entry, usage, dotted)?;
        Some(CachedNode::opened(self, Opened { node, is_shared: true }, (Arc::clone(entry), dotted)))
    }

    /// Asks what a name leads to in the directory that the way has come to, and keeps that. Gives what is opened for it, too. `None` where it
    /// is not kept.
    fn learn(&self, way: &Way, name: &str, usage: Use, wait: Wait) -> Result<Option<Learned>, Error> {
        let directory = &way.at;
        if directory.kind != Kind::Directory {
            return Ok(None);
        }
        let Some(node) = self.kept(directory, Use::Metadata, way.dotted) else { return Ok(None) };
        let (Ok(names), Ok(wanted)) = (node.names(), Name::new(name)) else { return Ok(None) };
        let slot = self.known.slot_of_name(directory.identity, &fold(name));
        let (numbers, at) = (directory.names(), Instant::now());
        let Some(asked) = self.known.stripes.ask(slot) else { return Ok(None) };
        let note = |stored: &str, leads| {
            self.known.note_name((self.home, directory), (name, stored), leads, (asked, numbers, at))
        };
        if wait == Wait::May
            && let Some(former) = self.known.former(self.home, directory, name)
            && let Some((known, open)) = self.open_for(former, usage)
            && let Leads::To(entry) = &known.leads
            && self.known.is_alive(entry)
            && names.has(&wanted, entry.identity).unwrap_or(false)
        {
            // It leads where it led, and that is open.
            return Ok(note(&known.stored, known.leads.clone()).map(|record| (record, open)));
        }
        let (stored, child) = match self.child_of(names, &wanted, usage, wait) {
            Ok(Some((stored, child))) => (stored, Some(child)),
            Ok(None) if has_one_spelling(name) && self.is_still_there(directory, &*node) => (name.to_owned(), None),
            Err(Error::WouldBlock) => return Err(Error::WouldBlock),
            // The store says it better.
            Ok(None) | Err(_) => return Ok(None),
        };
        // Others hear of the name as it is stored.
        if fold(name) != fold(&stored) {
            return Ok(None);
        }
        let leads = match &child {
            Some(child) => self.known.entry_of(Seen::of(&**child), self.home).map_or(Leads::Elsewhere, Leads::To),
            None => Leads::Nowhere,
        };
        // Before the name is noted: what is removed after that is let go of.
        if let (Leads::To(entry), Some(child)) = (&leads, &child)
            && is_shareable(entry.kind, usage)
        {
            self.keep(entry, child, usage, is_dotted(Some(&stored)));
        }
        let noted = note(&stored, leads.clone());
        if let (None, Leads::To(entry)) = (&noted, &leads) {
            self.known.kept.let_go(entry.identity);
            self.known.drop_gone(Some(self.home));
        }
        let is_shared = matches!(&leads, Leads::To(entry) if is_shareable(entry.kind, usage));
        Ok(noted.map(|record| (record, child.map(|node| Opened { node, is_shared }))))
    }

    /// Asks what the last name of a path leads to, in the directory that is open, and keeps nothing of it.
    fn ask(self: &Arc<Self>, way: Way, name: &str, usage: Use, wait: Wait) -> Result<Walked, Error> {
        let Way { at, dotted, mut stored } = way;
        let Some(parent) = self.node(&at, dotted, Use::Metadata).filter(|_| at.kind == Kind::Directory) else {
            return Ok(Walked::Astray);
        };
        let (Ok(names), Ok(wanted)) = (own(&*parent).names(), Name::new(name)) else { return Ok(Walked::Astray) };
        let found = match self.child_of(names, &wanted, usage, wait) {
            Ok(found) => found,
            Err(Error::WouldBlock) => return Err(Error::WouldBlock),
            // The store says it better.
            Err(_) => return Ok(Walked::Astray),
        };
        Ok(match found {
            Some((shown, node)) => {
                stored.push(&shown);
                let node = CachedNode::found(self, node, is_dotted(Some(&shown)));
                Walked::To(Resolved::Found { node, path: stored })
            }
            // Others may be shown as something else.
            None if name.is_ascii() && self.is_still_there(&at, own(&*parent)) => {
                stored.push(name);
                Walked::To(Resolved::Missing { parent, path: stored })
            }
            None => Walked::Astray,
        })
    }

    fn child_of(&self, names: &dyn Names, name: &Name, usage: Use, wait: Wait) -> Result<Option<NamedNode>, Error> {
        self.with_room(|| match wait {
            Wait::May => names.child(name, usage),
            Wait::Never => names.try_child(name, usage),
        })
    }

    /// False where a directory has gone. Of all but the root that is told by the directory above.
    fn is_still_there(&self, directory: &Entry, node: &dyn Node) -> bool {
        directory.identity != self.store.root() || node.metadata().is_ok_and(|known| known.links > 0)
    }

    /// What a name in an open directory leads to, as far as that is known.
    pub(super) fn child(self: &Arc<Self>, directory: &Entry, name: &str, usage: Use) -> Child {
        let Some(record) = self.known.name(self.home, directory, name, self.belief()) else { return Child::Unknown };
        match &record.leads {
            Leads::To(entry) => self
                .node(entry, is_dotted(Some(&record.stored)), usage)
                .map_or(Child::Unknown, |node| Child::Found { stored: Arc::clone(&record), node }),
            Leads::Nowhere => Child::Missing,
            Leads::Elsewhere => Child::Unknown,
        }
    }
}

/// False for names that a file system may find by other letters: a short name of a longer one, a name without what stands at its end.
fn has_one_spelling(name: &str) -> bool {
    name.is_ascii() && !name.contains('~') && !name.ends_with(['.', ' '])
}
