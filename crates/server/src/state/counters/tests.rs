//! Totals are bounded, and what is beyond their bound is not lost.

use crate::state::counters::cell::{Answered, Cell};
use crate::state::counters::counts::Counts;
use crate::state::counters::totals::{Place, Totals};
use crate::state::counters::{Api, ResponseType};

fn one() -> Counts {
    let cell = Cell::new();
    cell.count(&Answered::one(Api::Echo));
    cell.read()
}

fn requests<K, O>(totals: &Totals<K, O>) -> Vec<(Place<K, O>, u64)>
where
    K: Ord + std::hash::Hash + Clone,
    O: Ord + std::hash::Hash + Clone,
{
    let count = |counts: &Counts| counts.requests(Api::Echo, ResponseType::Success);
    let mut each: Vec<_> = totals.each().map(|(place, counts)| (place.clone(), count(counts))).collect();
    each.sort();
    each
}

#[test]
fn names_beyond_the_bound_count_together() {
    let one = one();
    let mut totals = Totals::of_at_most(10);
    for name in (0..1_000).chain(0..10) {
        let place = totals.place(name, name % 2);
        totals.add(&place, &one);
    }
    let mut expected: Vec<_> = (0..10).map(|name| (Place::Named(name), 2)).collect();
    expected.extend([(Place::Others(0), 495), (Place::Others(1), 495)]);
    assert_eq!(requests(&totals), expected);
}

#[test]
fn a_name_keeps_its_place_from_its_first_request_on() {
    let mut totals = Totals::of_at_most(1);
    let (first, second) = (totals.place("first", ()), totals.place("second", ()));
    // In any order, and however much later they count.
    totals.add(&second, &one());
    totals.add(&first, &one());
    assert_eq!(totals.place("first", ()), first);
    assert_eq!(requests(&totals), [(Place::Named("first"), 1), (Place::Others(()), 1)]);
}
