//! Totals are bounded, and what is beyond their bound is not lost.

use std::sync::Arc;

use crate::state::counters::cell::{Answered, Cell};
use crate::state::counters::counts::Counts;
use crate::state::counters::totals::Totals;
use crate::state::counters::{Api, ResponseType};

#[test]
fn names_beyond_the_bound_count_together() {
    let cell = Cell::new();
    cell.count(&Answered::one(Api::Echo));
    let one = cell.read();
    let mut totals = Totals::of_at_most(10);
    for name in (0..1_000).chain(0..10) {
        totals.add(&name, &one);
    }
    let requests = |counts: &Arc<Counts>| counts.requests(Api::Echo, ResponseType::Success);
    assert_eq!(totals.named().count(), 10);
    assert!(totals.named().all(|(name, counts)| *name < 10 && requests(counts) == 2));
    assert_eq!(requests(totals.others()), 990);
}
