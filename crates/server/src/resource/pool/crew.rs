//! The threads of a pool, in two rows. As many as there are cores stand in the front and come behind nobody; the others come behind. Work is given
//! to the front first. A thread there that hangs for [`HANGS_AFTER`] has no place any more, for it waits for a device and does not compute: another
//! one is started in it. What has lost its place so goes to the rear when it comes back and finds it taken.

use std::cell::Cell;
use std::time::{Duration, Instant};

use slab::Slab;

/// What takes longer than that is held up by a device: whoever computes so long does it in steps.
pub(super) const HANGS_AFTER: Duration = Duration::from_millis(100);

thread_local! {
    /// A thread that comes behind starts none that would not: they begin with its niceness.
    static IS_BEHIND: Cell<bool> = const { Cell::new(false) };
}

/// This thread comes behind others from now on.
pub(super) fn note_behind() {
    IS_BEHIND.set(true);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Front,
    Rear,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(Option<usize>);

impl Slot {
    pub(super) fn row(self) -> Row {
        if self.0.is_some() { Row::Front } else { Row::Rear }
    }
}

/// What a thread in the front does.
#[derive(Clone, Copy)]
enum Doing {
    /// Nothing that has to be watched.
    Rests,
    Works {
        since: Instant,
    },
    /// Its place is another's.
    Hangs,
}

/// Threads of a row that have nothing to do.
#[derive(Clone, Copy, Default)]
struct Resting {
    idle: usize,
    /// Those of them that have been called and are not awake yet.
    called: usize,
}

pub(super) struct Crew {
    threads: usize,
    resting: [Resting; 2],
    front: Slab<Doing>,
    /// How many of those should not hang.
    abreast_max: usize,
}

impl Crew {
    pub(super) fn of(abreast_max: usize) -> Self {
        Crew { threads: 0, resting: Default::default(), front: Slab::new(), abreast_max }
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn idle(&self) -> usize {
        self.resting.iter().map(|row| row.idle).sum()
    }

    /// Threads that have been called, or started, and have not begun yet.
    pub(super) fn called(&self) -> usize {
        self.resting.iter().map(|row| row.called).sum()
    }

    /// Threads in the front, with those that hang.
    #[cfg(test)]
    pub(super) fn front(&self) -> usize {
        self.front.len()
    }

    /// Threads in the front that do not hang.
    fn abreast(&self) -> usize {
        self.front.iter().filter(|(_, doing)| !matches!(doing, Doing::Hangs)).count()
    }

    /// The row of the next thread that could be called.
    pub(super) fn at_rest(&self) -> Option<Row> {
        [Row::Front, Row::Rear].into_iter().find(|&row| {
            let resting = self.resting[row as usize];
            resting.idle > resting.called
        })
    }

    /// Calls a thread that rests, of the front where there is one. None where one as good is on its way already: it calls the next.
    pub(super) fn call(&mut self) -> Option<Row> {
        let row = self.at_rest()?;
        let is_on_its_way = |row: Row| self.resting[row as usize].called > 0;
        // Who comes behind may be on its way for long, and a thread of the front is not.
        if is_on_its_way(Row::Front) || (row == Row::Rear && is_on_its_way(Row::Rear)) {
            return None;
        }
        self.resting[row as usize].called += 1;
        Some(row)
    }

    /// Counts a thread that is about to be started as one that rests and has been called.
    pub(super) fn expect(&mut self) -> Slot {
        let place = if self.abreast() < self.abreast_max && !IS_BEHIND.get() {
            Slot(Some(self.front.insert(Doing::Rests)))
        } else {
            Slot(None)
        };
        self.threads += 1;
        let row = &mut self.resting[place.row() as usize];
        (row.idle, row.called) = (row.idle + 1, row.called + 1);
        place
    }

    /// It could not be started.
    pub(super) fn forget(&mut self, place: Slot) {
        self.rise(place, true);
        self.leave(place);
    }

    /// A thread ends.
    pub(super) fn leave(&mut self, place: Slot) {
        self.threads -= 1;
        if let Some(key) = place.0 {
            self.front.remove(key);
        }
    }

    pub(super) fn rest(&mut self, place: Slot) {
        self.resting[place.row() as usize].idle += 1;
    }

    /// A thread rests no more, because it was called or for another reason.
    pub(super) fn rise(&mut self, place: Slot, was_called: bool) {
        let row = &mut self.resting[place.row() as usize];
        row.idle -= 1;
        row.called = row.called.saturating_sub(usize::from(was_called)).min(row.idle);
    }

    /// A thread begins a piece of work.
    pub(super) fn begin(&mut self, place: Slot) {
        if let Some(key) = place.0 {
            self.front[key] = Doing::Works { since: Instant::now() };
        }
    }

    /// It has done it; where it stands now.
    pub(super) fn end(&mut self, place: Slot) -> Slot {
        let Some(key) = place.0 else { return place };
        let hung = matches!(std::mem::replace(&mut self.front[key], Doing::Rests), Doing::Hangs);
        if hung && self.abreast() > self.abreast_max {
            self.front.remove(key);
            return Slot(None);
        }
        place
    }

    /// Looks who hangs. True where fewer stand in the front than could.
    pub(super) fn lacks_front(&mut self) -> bool {
        for (_, doing) in &mut self.front {
            if matches!(doing, Doing::Works { since } if since.elapsed() >= HANGS_AFTER) {
                *doing = Doing::Hangs;
            }
        }
        self.abreast() < self.abreast_max.min(self.threads) && !IS_BEHIND.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crew of this many threads, of which so many stand in the front, all at rest.
    fn at_rest(abreast: usize, threads: usize) -> Crew {
        let mut crew = Crew::of(abreast);
        let places: Vec<Slot> = (0..threads).map(|_| crew.expect()).collect();
        for place in places {
            crew.rise(place, true);
            crew.rest(place);
        }
        crew
    }

    #[test]
    fn who_is_on_its_way_is_enough_until_it_is_there() {
        let mut crew = at_rest(2, 3);
        assert_eq!(crew.call(), Some(Row::Front));
        assert_eq!(crew.call(), None, "one is on its way");
        crew.rise(Slot(Some(0)), true);
        assert_eq!(crew.call(), Some(Row::Front), "it has come, and calls the next");
        crew.rise(Slot(Some(1)), true);
        assert_eq!(crew.call(), Some(Row::Rear));
        assert_eq!(crew.call(), None);
    }

    #[test]
    fn nobody_waits_for_one_of_the_rear_where_one_of_the_front_rests() {
        let mut crew = at_rest(1, 2);
        crew.rise(Slot(Some(0)), false);
        assert_eq!(crew.call(), Some(Row::Rear));
        crew.rest(Slot(Some(0)));
        assert_eq!(crew.call(), Some(Row::Front), "the other one may be on its way for long");
    }
}
