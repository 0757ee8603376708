//! Opens that had to wait for others to give up what they cache, until they are in: nobody who is faster is granted what would have them
//! wait once more, so that each waits for one break at most, whoever else wants in.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use store::Identity;

use crate::caching::LeaseId;
use crate::open::OpenId;

/// The table is split so that shards seldom meet.
const PARTS: usize = 64;

/// The places of all files. As many as requests may be in flight.
#[derive(Clone)]
pub(crate) struct Places(Arc<Vec<Mutex<Part>>>);

/// The lease of each.
type Part = BTreeMap<Place, Option<LeaseId>>;

/// Which open it is, and of which file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: Identity,
    open: OpenId,
}

/// A place, given up when dropped.
pub(crate) struct Standing {
    places: Places,
    place: Place,
}

impl Places {
    pub(crate) fn new() -> Self {
        Places(Arc::new((0..PARTS).map(|_| Mutex::default()).collect()))
    }

    /// Gives an open a place.
    pub(crate) fn stand(&self, file: Identity, open: OpenId, lease: Option<LeaseId>) -> Standing {
        let place = Place { file, open };
        self.part(file).lock().insert(place, lease);
        Standing { places: self.clone(), place }
    }

    /// True where an open of another lease has a place at the file.
    pub(crate) fn others_stand(&self, file: Identity, lease: Option<LeaseId>) -> bool {
        let of_file = Place { file, open: OpenId(0) }..=Place { file, open: OpenId(u64::MAX) };
        self.part(file).lock().range(of_file).any(|(_, other)| *other != lease)
    }

    fn part(&self, file: Identity) -> &Mutex<Part> {
        &self.0[file.file as usize % PARTS]
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.places.part(self.place.file).lock().remove(&self.place);
    }
}
