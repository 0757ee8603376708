//! What of the changes that a watch hears its user may see. The names in a directory are told to who may list it. So a change below is told to
//! who may list each directory on the way from the watched one, and on a share that lists by access to who may read them, and what changed.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use store::{Error, Identity, Kind, Name, Node, Reach, SharePath, Store, Use};
use wire::fscc::notify::Action;
use wire::security::access::{FILE_GENERIC_READ, READ_DATA};
use wire::status::Status;

use super::Watches;
use super::gone::{Before, Gone};
use super::log::Noted;
use crate::state::authorization::may_look;
use crate::state::descriptors::{At, Descriptor, Descriptors, Reading, Rights};
use crate::state::open::Open;
use crate::state::user::User;

/// How many names are looked at before others have their turn.
const LOOKS_AT_ONCE: usize = 64;

/// True where not all that changes in what is open, so far below it, may be told to who has it open.
pub(crate) fn is_judged(open: &Open, reach: Reach) -> bool {
    !open.user.has_full_control() && (reach == Reach::Tree || open.tree.lists_by_access())
}

/// Judges the changes one after the other. May wait for the store.
pub(crate) struct Sight {
    gone: Arc<Gone>,
    descriptors: Arc<Descriptors>,
    open: Arc<Open>,
    user: Arc<User>,
    watched: Arc<dyn Node>,
    path: SharePath,
    by_access: bool,
    changes: std::vec::IntoIter<Arc<Noted>>,
    seen: Vec<Arc<Noted>>,
    /// Ways below the watched directory on which all directories may be listed, and none was another one since.
    listed: HashSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Seen,
    Hidden,
    /// What a name meant then is not known any more.
    Unknown,
}

/// Where a way led when the change was made.
struct Reached {
    directory: Identity,
    /// It is there yet.
    now: Option<Arc<dyn Node>>,
    path: SharePath,
    /// Nothing on the way has gone since.
    stays: bool,
}

impl Sight {
    /// True where the user of `open` may see all of these.
    pub(crate) fn is_whole(open: &Open, changes: &[Arc<Noted>]) -> bool {
        let is_below = |change: &Arc<Noted>| !split(&change.name).0.is_empty();
        open.user.has_full_control() || !open.tree.lists_by_access() && !changes.iter().any(is_below)
    }

    /// What the user of `open`, a directory, may see of these.
    pub(crate) fn of(watches: &Watches, open: &Arc<Open>, changes: Vec<Arc<Noted>>) -> Result<Self, Status> {
        let file = open.file()?;
        Ok(Sight {
            gone: Arc::clone(&watches.gone),
            descriptors: Arc::clone(&watches.descriptors),
            open: Arc::clone(open),
            user: open.tree.user_now(&open.user),
            watched: Arc::clone(&file.node),
            path: SharePath::clone(&file.path.now()),
            by_access: open.tree.lists_by_access(),
            changes: changes.into_iter(),
            seen: Vec::new(),
            listed: HashSet::new(),
        })
    }

    /// Judges some; breaks with what may be told, or `None` where that cannot be said: the directory is to be listed anew.
    pub(crate) fn go_on(&mut self) -> ControlFlow<Option<Vec<Arc<Noted>>>> {
        let mut looks = LOOKS_AT_ONCE;
        while looks > 0 {
            let Some(change) = self.changes.next() else {
                return ControlFlow::Break(Some(std::mem::take(&mut self.seen)));
            };
            let by = self.decides(&change);
            match self.judge(&by, &mut looks) {
                Verdict::Seen => self.seen.push(change),
                Verdict::Hidden => {}
                Verdict::Unknown => return ControlFlow::Break(None),
            }
        }
        ControlFlow::Continue(())
    }

    /// By what a change is judged: of a rename the new name, which what was renamed has now.
    fn decides(&self, change: &Arc<Noted>) -> Arc<Noted> {
        let next = self.changes.as_slice().first();
        let is_renamed = |next: &&Arc<Noted>| {
            change.action == Action::RENAMED_OLD_NAME
                && next.action == Action::RENAMED_NEW_NAME
                && split(&next.name).0 == split(&change.name).0
        };
        Arc::clone(next.filter(is_renamed).unwrap_or(change))
    }

    fn judge(&mut self, change: &Noted, looks: &mut usize) -> Verdict {
        let (way, name) = split(&change.name);
        if !self.by_access && (way.is_empty() || self.listed.contains(way)) {
            return Verdict::Seen;
        }
        let (directory, now) = (self.watched.identity(), Some(Arc::clone(&self.watched)));
        let mut place = Reached { directory, now, path: self.path.clone(), stays: true };
        for directory in way.split('\\').filter(|name| !name.is_empty()) {
            *looks = looks.saturating_sub(1);
            match self.enter(&mut place, directory, change.gone) {
                Verdict::Seen => {}
                verdict => return verdict,
            }
        }
        if place.stays {
            self.listed.insert(way.to_owned());
        }
        if self.by_access { self.enter(&mut place, name, change.gone) } else { Verdict::Seen }
    }

    /// Goes on to `name`, and judges what had it when a change was made: what has it now, where nothing has `gone` from there since. Where that is
    /// not the one that had it then, or may be another one, it is not known.
    fn enter(&self, place: &mut Reached, name: &str, gone: u64) -> Verdict {
        let Ok(name) = Name::new(name) else { return Verdict::Unknown };
        let now = match place.now.as_ref().map(|directory| directory.names()?.child(&name, Use::Metadata)) {
            None | Some(Ok(None) | Err(Error::NotDirectory | Error::Gone | Error::NotFound)) => None,
            Some(Ok(Some((_, node)))) => Some(node),
            Some(Err(_)) => return Verdict::Unknown,
        };
        place.path = place.path.join(&name);
        let before = self.gone.after(gone, place.directory, name.as_str());
        let rights = match (before, &now) {
            (Before::Nothing, Some(node)) => {
                place.directory = node.identity();
                let store = self.open.tree.store();
                let read = |store: &Arc<dyn Store>| {
                    let at = At { store: &**store, node: &**node, path: &place.path };
                    let share = &self.open.tree.share;
                    self.descriptors.rights(at, share, &self.user, Reading::Whole).ok()
                };
                store.and_then(read)
            }
            (Before::One(former), None) => {
                place.directory = former.identity;
                place.stays = false;
                Some(Descriptor::of_stored(former.descriptor.as_deref(), former.kind).rights(&self.user))
            }
            // It is there, and another one was: which is meant cannot be told.
            (Before::One(_), Some(_)) | (Before::Nothing, None) | (Before::Unknown, _) => None,
        };
        place.now = now.filter(|node| node.kind() == Kind::Directory);
        match rights {
            Some(rights) if self.may_see(rights) => Verdict::Seen,
            Some(_) => Verdict::Hidden,
            None => Verdict::Unknown,
        }
    }

    fn may_see(&self, rights: Rights) -> bool {
        let desired = if self.by_access { FILE_GENERIC_READ } else { READ_DATA };
        may_look(&self.user, self.open.tree.access_max(), desired, &|| Ok(rights))
    }
}

/// The way to the directory in which something changed, and what its name is there, without the name of a stream.
fn split(name: &str) -> (&str, &str) {
    let (way, last) = name.rsplit_once('\\').unwrap_or(("", name));
    (way, last.split_once(':').map_or(last, |(file, _)| file))
}
