//! Opens that had to wait for others to give up what they cache, until they are in: nobody who is faster is granted what would have them
//! wait once more, so that each waits for one break at most, whoever else wants in.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use store::Identity;

use crate::resource::by_id::ById;
use crate::state::caching::LeaseId;

/// The table is split so that shards seldom meet.
const PARTS: usize = 64;

/// The places of all files. As many as requests may be in flight.
#[derive(Clone)]
pub(crate) struct Places(Arc<Vec<Mutex<Part>>>);

type Part = ById<Identity, OfFile>;

/// Those at one file: counted by their lease, so that who opens it does not go through them all.
#[derive(Default)]
struct OfFile {
    all: usize,
    by_lease: BTreeMap<Option<LeaseId>, usize>,
}

/// A place, given up when dropped.
pub(crate) struct PendingOpen {
    places: Places,
    file: Identity,
    lease: Option<LeaseId>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Places(Arc::new((0..PARTS).map(|_| Mutex::default()).collect()))
    }

    /// Gives an open a place.
    pub(crate) fn stand(&self, file: Identity, lease: Option<LeaseId>) -> PendingOpen {
        let mut part = self.part(file).lock();
        let of_file = part.entry(file).or_default();
        of_file.all += 1;
        *of_file.by_lease.entry(lease).or_default() += 1;
        PendingOpen { places: self.clone(), file, lease }
    }

    /// True where an open of another lease has a place at the file.
    pub(crate) fn others_stand(&self, file: Identity, lease: Option<LeaseId>) -> bool {
        let part = self.part(file).lock();
        part.get(&file).is_some_and(|of_file| of_file.all > of_file.by_lease.get(&lease).copied().unwrap_or(0))
    }

    fn part(&self, file: Identity) -> &Mutex<Part> {
        &self.0[file.file as usize % PARTS]
    }
}

impl Drop for PendingOpen {
    fn drop(&mut self) {
        let mut part = self.places.part(self.file).lock();
        let Some(of_file) = part.get_mut(&self.file) else { return };
        of_file.all -= 1;
        if let Some(count) = of_file.by_lease.get_mut(&self.lease) {
            *count -= 1;
            if *count == 0 {
                of_file.by_lease.remove(&self.lease);
            }
        }
        if of_file.all == 0 {
            part.remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::ids::Guid;

    use super::*;

    #[test]
    fn who_wants_in_sees_those_of_other_leases_at_the_same_file() {
        let (places, file) = (Places::new(), |file| Identity { volume: 1, file });
        let lease =
            |key| Some(LeaseId { client: Guid([1; 16]), user: crate::state::user::UserId(1), key: Guid([key; 16]) });
        let standing = [(1, None), (1, None), (2, lease(1)), (3, lease(1)), (3, lease(2))];
        let standing = standing.map(|(number, lease)| places.stand(file(number), lease));
        let others = |number, lease| places.others_stand(file(number), lease);
        assert!(!others(1, None) && others(1, lease(1)));
        assert!(!others(2, lease(1)) && others(2, lease(2)) && others(2, None));
        assert!(others(3, lease(1)) && others(3, lease(2)));
        assert!(!others(65, lease(1)), "which is in the same part of the table as the first");
        drop(standing);
        assert!((1..4).all(|number| !others(number, lease(3))));
        assert!(places.0.iter().all(|part| part.lock().is_empty()));
    }
}
