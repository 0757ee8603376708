//! Opens by the guid of the CREATE that made them, for its replay (MS-SMB2 3.3.5.9), and by their application instance
//! (3.3.5.9.13).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::ids::Guid;

use super::record::RecordedName;
use super::{Durables, Making};
use crate::line::Line;
use crate::open::{Open, OpenId, Target};

/// CREATEs by client and guid, and opens by application instance. Bounded by the opens there may be and the requests in flight.
#[derive(Default)]
pub(super) struct Made {
    creates: HashMap<(Guid, Guid), Creation>,
    instances: HashMap<Guid, Vec<Known>>,
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
    line: Arc<Line>,
}

/// An open's own part: how it was made, and where that is kept.
pub(super) struct Makings {
    pub(super) making: Making,
    pub(super) table: Arc<Durables>,
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
    /// Takes the guid of a CREATE, or says who has it. An open that was used since then has it no longer, unless it is persistent.
    pub(crate) fn claim(self: &Arc<Self>, client: Guid, create: Guid) -> Claimed {
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
            match self.open_of(&known) {
                Some(open) if has_it(&open) => return Claimed::Done(open),
                Some(_) => self.made.lock().forget_create(key, known.id),
                // It is between two sessions, or about to close.
                None => return Claimed::UnderWay,
            }
        }
    }

    /// The opens of an application instance.
    pub(crate) fn of_instance(&self, instance: Guid) -> Vec<Arc<Open>> {
        let known = self.made.lock().instances.get(&instance).cloned().unwrap_or_default();
        known.iter().filter_map(|known| self.open_of(known)).collect()
    }

    /// How many CREATEs and opens are found from here.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        let made = self.made.lock();
        made.creates.len() + made.instances.len()
    }

    /// The open, in its session or waiting for one.
    fn open_of(&self, known: &Known) -> Option<Arc<Open>> {
        match known.line.session() {
            Some(session) => session.open(known.id),
            None => self.find(known.id),
        }
    }

    /// Has an open found by its application instance.
    pub(crate) fn note_instance(&self, open: &Open) {
        if let Target::File(file) = &open.target
            && let Some(instance) = file.durability.making().instance
        {
            let known = Known { id: open.id, line: Arc::clone(&open.line) };
            self.made.lock().instances.entry(instance).or_default().push(known);
            file.durability.forget_if_closed(open.id);
        }
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
        let mut made = self.table.made.lock();
        if let Some(create) = self.making.create {
            made.forget_create((client, create), open);
        }
        if let Some(instance) = self.making.instance
            && let Entry::Occupied(mut known) = made.instances.entry(instance)
        {
            known.get_mut().retain(|known| known.id != open);
            if known.get().is_empty() {
                known.remove();
            }
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
