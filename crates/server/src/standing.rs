//! Opens that had to wait for others to give up what they cache, until they are in: nobody who is faster is granted what would have them
//! wait once more, so that each waits for one break at most, whoever else wants in.

use std::sync::Arc;

use parking_lot::Mutex;
use store::Identity;

use crate::caching::LeaseId;
use crate::open::OpenId;

/// The table is split so that shards seldom meet.
const PARTS: usize = 64;

/// The places of all files. As many as requests may be in flight.
#[derive(Clone)]
pub(crate) struct Places(Arc<Vec<Mutex<Vec<Place>>>>);

/// Which open it is, of which file, and its lease.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    open: OpenId,
    file: Identity,
    lease: Option<LeaseId>,
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
        let place = Place { open, file, lease };
        self.part(file).lock().push(place);
        Standing { places: self.clone(), place }
    }

    /// True where an open of another lease has a place at the file.
    pub(crate) fn others_stand(&self, file: Identity, lease: Option<LeaseId>) -> bool {
        self.part(file).lock().iter().any(|place| place.file == file && place.lease != lease)
    }

    fn part(&self, file: Identity) -> &Mutex<Vec<Place>> {
        &self.0[file.file as usize % PARTS]
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.places.part(self.place.file).lock().retain(|place| *place != self.place);
    }
}
