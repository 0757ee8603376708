//! Opens by the guid of the CREATE that made them, for its replay (MS-SMB2 3.3.5.9), and by their application instance
//! (3.3.5.9.13).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::iter::from_fn;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use store::fold;
use wire::ids::Guid;

use super::record::RecordedName;
use super::{Durables, Making};
use crate::state::open::{Open, Target};
use crate::state::open_id::OpenId;
use crate::state::open_path::{NameFollower, OpenPath};
use crate::state::session_link::SessionLink;

/// CREATEs by client and guid, and opens by application instance. Bounded by the opens there may be and the requests in flight.
#[derive(Default)]
pub(super) struct Made {
    creates: HashMap<(Guid, Guid), Creation>,
    instances: BTreeMap<InstanceKey, Arc<SessionLink>>,
}

/// An open of an application instance: those of one name stand together, and among them those of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InstanceKey {
    instance: Guid,
    /// The digest of the share and of the file's name there, folded: it takes no more room for a longer name.
    place: u64,
    client: Guid,
    open: OpenId,
}

/// An open's place among those of its application instance, which changes with its file's name.
pub(crate) struct OfInstance {
    table: Arc<Durables>,
    instance: Guid,
    client: Guid,
    open: OpenId,
    line: Arc<SessionLink>,
    share: Arc<str>,
    /// Locked before the table is.
    at: Mutex<At>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    Place(u64),
    /// The open has closed.
    Gone,
}

enum Creation {
    /// It is being done.
    UnderWay,
    /// It made this open.
    Done(Known),
}

/// An open that is found from here.
#[derive(Clone)]
struct Known {
    id: OpenId,
    line: Arc<SessionLink>,
}

/// An open's own part: how it was made, and where that is kept.
pub(super) struct Makings {
    pub(super) making: Making,
    pub(super) table: Arc<Durables>,
    /// Its place among the opens of its application instance, once it has one.
    pub(super) of_instance: OnceLock<Arc<OfInstance>>,
    /// Names that a persistent open's file may have besides its own.
    pub(super) names: Mutex<Vec<RecordedName>>,
}

/// What is known of a CREATE's guid.
pub(crate) enum Claimed {
    /// Nothing until now: it is this CREATE's.
    Ours(Reservation),
    /// Another CREATE with it is being done, or its open is on its way out of a session.
    UnderWay,
    /// One was done, and its open may be replayed or is persistent.
    Done(Arc<Open>),
}

/// A guid that belongs to a CREATE under way, given up when dropped.
pub(crate) struct Reservation {
    table: Arc<Durables>,
    key: (Guid, Guid),
    kept: bool,
}

impl Durables {
    /// Takes the guid of a CREATE, or says who has it. An open that was used since then has it no longer, unless it is persistent. `find` gives the
    /// open of an id and a link.
    pub(crate) fn claim(
        self: &Arc<Self>,
        (client, create): (Guid, Guid),
        find: impl Fn(OpenId, &SessionLink) -> Option<Arc<Open>>,
    ) -> Claimed {
        let key = (client, create);
        loop {
            let known = {
                let mut made = self.made.lock();
                match made.creates.entry(key) {
                    Entry::Occupied(taken) => match taken.get() {
                        Creation::UnderWay => return Claimed::UnderWay,
                        Creation::Done(known) => known.clone(),
                    },
                    Entry::Vacant(free) => {
                        free.insert(Creation::UnderWay);
                        return Claimed::Ours(Reservation { table: Arc::clone(self), key, kept: false });
                    }
                }
            };
            let has_it = |open: &Arc<Open>| {
                let durability = open.file().map(|file| &file.durability);
                durability.is_ok_and(|own| own.is_replayable() || own.keeping().is_persistent())
            };
            match find(known.id, &known.line) {
                Some(open) if has_it(&open) => return Claimed::Done(open),
                Some(_) => self.made.lock().forget_create(key, known.id),
                // It is between two sessions, or about to close.
                None => return Claimed::UnderWay,
            }
        }
    }

    /// The opens that other clients than `client` have of an application instance at a name in a share, each as `find` gives it by its id and link.
    /// The table is not locked between two of them.
    pub(crate) fn of_instance(
        &self,
        (instance, client): (Guid, Guid),
        (share, name): (&str, &str),
        find: impl Fn(OpenId, &SessionLink) -> Option<Arc<Open>>,
    ) -> impl Iterator<Item = Arc<Open>> {
        let place = self.place_of(share, name);
        let key = move |client, open| InstanceKey { instance, place, client, open: OpenId(open) };
        let (mut from, last) = (Bound::Included(key(Guid([0; 16]), 0)), key(Guid([0xFF; 16]), u64::MAX));
        from_fn(move || {
            loop {
                let found = {
                    let made = self.made.lock();
                    let (found, line) = made.instances.range((from, Bound::Included(last))).next()?;
                    (found.client != client).then(|| (*found, Arc::clone(line)))
                };
                let Some((found, line)) = found else {
                    // All of its own are passed over at once.
                    from = Bound::Excluded(key(client, u64::MAX));
                    continue;
                };
                from = Bound::Excluded(found);
                if let Some(open) = find(found.open, &line) {
                    return Some(open);
                }
            }
        })
    }

    fn place_of(&self, share: &str, name: &str) -> u64 {
        self.digests.hash_one((share, fold(name)))
    }

    /// How many CREATEs and opens are found from here.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        let made = self.made.lock();
        made.creates.len() + made.instances.len()
    }

    /// Has an open found by its application instance.
    pub(crate) fn note_instance(&self, open: &Open) {
        let Target::File(file) = &open.target else { return };
        let Some(makings) = &file.durability.makings else { return };
        let Some(instance) = makings.making.instance else { return };
        let of_instance = makings.of_instance.get_or_init(|| {
            Arc::new(OfInstance {
                table: Arc::clone(&makings.table),
                instance,
                client: file.durability.client,
                open: open.id,
                line: Arc::clone(&open.line),
                share: Arc::clone(&open.tree.share),
                at: Mutex::new(At::Nowhere),
            })
        });
        // First it hears of new names: what it has from then on is the latest.
        file.path.is_followed_by(Arc::clone(of_instance) as Arc<dyn NameFollower>);
        of_instance.moved(&file.path);
        file.durability.forget_if_closed(open.id);
    }
}

impl Made {
    /// Frees a CREATE's guid where this open still has it.
    fn forget_create(&mut self, key: (Guid, Guid), open: OpenId) {
        if let Entry::Occupied(taken) = self.creates.entry(key)
            && matches!(taken.get(), Creation::Done(known) if known.id == open)
        {
            taken.remove();
        }
    }
}

impl Makings {
    /// The open has closed.
    pub(super) fn forget(&self, client: Guid, open: OpenId) {
        if let Some(create) = self.making.create {
            self.table.made.lock().forget_create((client, create), open);
        }
        if let Some(of_instance) = self.of_instance.get() {
            of_instance.stand(&mut of_instance.at.lock(), At::Gone);
        }
    }
}

impl NameFollower for OfInstance {
    fn moved(&self, path: &OpenPath) {
        let mut at = self.at.lock();
        if *at == At::Gone {
            return;
        }
        let place = self.table.place_of(&self.share, &path.name());
        self.stand(&mut at, At::Place(place));
    }
}

impl OfInstance {
    fn stand(&self, at: &mut At, to: At) {
        let key = |place| InstanceKey { instance: self.instance, place, client: self.client, open: self.open };
        let mut made = self.table.made.lock();
        if let At::Place(place) = std::mem::replace(at, to) {
            made.instances.remove(&key(place));
        }
        if let At::Place(place) = to {
            made.instances.insert(key(place), Arc::clone(&self.line));
        }
    }
}

impl Reservation {
    /// The CREATE made this open.
    pub(crate) fn done(mut self, open: &Open) {
        self.kept = true;
        let known = Known { id: open.id, line: Arc::clone(&open.line) };
        self.table.made.lock().creates.insert(self.key, Creation::Done(known));
        if let Target::File(file) = &open.target {
            file.durability.forget_if_closed(open.id);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.kept {
            self.table.made.lock().creates.remove(&self.key);
        }
    }
}
