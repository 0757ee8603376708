//! The oplocks and leases of one file. Most files have one, and some as many as a user may have opens: then nobody who opens, closes or
//! changes the file looks at any but those that this is in conflict with.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Instant;

use wire::context::lease::LeaseState;

use crate::state::open_id::OpenId;

use super::grant::Grant;
use super::{HANDLE, Holder, LeaseId, READ, WRITE};

/// So many are looked at one by one: with more there is an index.
const FEW_MAX: usize = 8;
/// With so few again there is none.
const FEW_AGAIN: usize = 4;
/// What operations take away.
const KINDS: [LeaseState; 3] = [READ, WRITE, HANDLE];

/// Where a grant stands. Those that came later stand behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u64);

/// All grants of one file and its streams.
#[derive(Default)]
pub(super) struct Grants {
    list: List,
    /// How many were looked at one by one.
    looks: Cell<usize>,
}

enum List {
    Few(Vec<(Slot, Grant)>),
    Many(Box<Many>),
}

/// Many grants, and how they are found.
#[derive(Default)]
struct Many {
    grants: BTreeMap<Slot, Grant>,
    by_open: BTreeMap<OpenId, Slot>,
    by_lease: BTreeMap<LeaseId, Slot>,
    found: Found,
}

/// How grants are found by what they are at the moment.
#[derive(Default)]
struct Found {
    /// Those that are being broken, by when that is over.
    by_end: BTreeSet<(Instant, Slot)>,
    streams: BTreeMap<String, OfStream>,
    last_stream: StreamNumber,
    /// Those that have something to lose, for each of [`KINDS`].
    exposing: [BTreeSet<(StreamNumber, Slot)>; 3],
}

/// Names a stream in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct StreamNumber(u64);

#[derive(Default)]
struct OfStream {
    number: StreamNumber,
    grants: usize,
    oplocks: usize,
    level_two: usize,
}

/// What a grant is found by, and that changes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Traits {
    exposed: LeaseState,
    until: Option<Instant>,
    is_oplock: bool,
    is_level_two: bool,
}

impl Traits {
    fn of(grant: &Grant) -> Self {
        Traits {
            exposed: grant.exposed(),
            until: grant.breaking.map(|breaking| breaking.until),
            is_oplock: grant.lease_id().is_none(),
            is_level_two: grant.is_level_two(),
        }
    }
}

impl Grants {
    pub(super) fn is_empty(&self) -> bool {
        match &self.list {
            List::Few(few) => few.is_empty(),
            List::Many(_) => false,
        }
    }

    /// How many grants were looked at one by one since this was asked last.
    pub(super) fn take_looks(&self) -> usize {
        self.looks.take()
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Grant> {
        match &self.list {
            List::Few(few) => few.iter().find(|(held, _)| *held == slot).map(|(_, grant)| grant),
            List::Many(many) => many.grants.get(&slot),
        }
    }

    /// The grant that an open has.
    pub(super) fn of_open(&self, open: OpenId) -> Option<Slot> {
        match &self.list {
            List::Few(few) => few.iter().find(|(_, grant)| grant.is_held_by(open)).map(|(slot, _)| *slot),
            List::Many(many) => many.by_open.get(&open).copied(),
        }
    }

    /// The grant of a lease.
    pub(super) fn of_lease(&self, id: LeaseId) -> Option<Slot> {
        match &self.list {
            List::Few(few) => few.iter().find(|(_, grant)| grant.lease_id() == Some(id)).map(|(slot, _)| *slot),
            List::Many(many) => many.by_lease.get(&id).copied(),
        }
    }

    /// Those of a stream, or of all, that have something of `taken` to lose. The oldest first.
    pub(super) fn exposing(&self, stream: Option<&str>, taken: LeaseState) -> Vec<Slot> {
        let exposing = match &self.list {
            List::Few(few) => {
                let meant = few.iter().filter(|(_, grant)| stream.is_none_or(|stream| grant.stream == stream));
                meant.filter(|(_, grant)| grant.exposed().intersects(taken)).map(|(slot, _)| *slot).collect()
            }
            List::Many(many) => many.found.exposing(stream, taken),
        };
        self.looked_at(exposing.len());
        exposing
    }

    /// True where one of a stream, or of all, that has something of `kind` to lose `is_meant`: the first such ends the search.
    pub(super) fn has_exposing(
        &self,
        stream: Option<&str>,
        kind: LeaseState,
        is_meant: impl Fn(&Grant) -> bool,
    ) -> bool {
        let looks_at = |grant: &Grant| {
            self.looked_at(1);
            is_meant(grant)
        };
        match &self.list {
            List::Few(few) => few
                .iter()
                .filter(|(_, grant)| stream.is_none_or(|stream| grant.stream == stream))
                .filter(|(_, grant)| grant.exposed().intersects(kind))
                .any(|(_, grant)| looks_at(grant)),
            List::Many(many) => {
                let Some(numbers) = many.found.numbers(stream) else { return false };
                let of_kind = KINDS.iter().zip(&many.found.exposing).filter(|(one, _)| kind.contains(**one));
                let mut slots = of_kind.flat_map(|(_, set)| within(set, numbers.clone()));
                slots.any(|slot| many.grants.get(&slot).is_some_and(looks_at))
            }
        }
    }

    /// True where an open of the stream has an oplock.
    pub(super) fn has_oplock(&self, stream: &str) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|(_, grant)| grant.stream == stream && grant.lease_id().is_none()),
            List::Many(many) => many.found.streams.get(stream).is_some_and(|of_stream| of_stream.oplocks > 0),
        }
    }

    /// True where an open of the stream has one of level II.
    pub(super) fn has_level_two(&self, stream: &str) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|(_, grant)| grant.stream == stream && grant.is_level_two()),
            List::Many(many) => many.found.streams.get(stream).is_some_and(|of_stream| of_stream.level_two > 0),
        }
    }

    /// Those whose break has had its time.
    pub(super) fn overdue(&self, now: Instant) -> Vec<Slot> {
        let is_overdue = |until: Instant| until <= now;
        match &self.list {
            List::Few(few) => {
                let broken = few.iter().filter(|(_, grant)| grant.breaking.is_some_and(|one| is_overdue(one.until)));
                broken.map(|(slot, _)| *slot).collect()
            }
            List::Many(many) => {
                let by_end = many.found.by_end.iter();
                by_end.take_while(|(until, _)| is_overdue(*until)).map(|(_, slot)| *slot).collect()
            }
        }
    }

    /// Those that are being broken, at most so many.
    pub(super) fn breaking(&self, count_max: usize) -> Vec<&Grant> {
        match &self.list {
            List::Few(few) => {
                let broken = few.iter().map(|(_, grant)| grant).filter(|grant| grant.breaking.is_some());
                broken.take(count_max).collect()
            }
            List::Many(many) => {
                let slots = many.found.by_end.iter().take(count_max);
                slots.filter_map(|(_, slot)| many.grants.get(slot)).collect()
            }
        }
    }

    pub(super) fn add(&mut self, grant: Grant) {
        match &mut self.list {
            List::Few(few) => {
                if few.is_empty() {
                    // Most files have one: a vector that grows by itself begins with room for four.
                    few.reserve_exact(1);
                }
                let slot = Slot(few.last().map_or(0, |(last, _)| last.0 + 1));
                few.push((slot, grant));
                if few.len() > FEW_MAX {
                    let mut many = Box::<Many>::default();
                    few.drain(..).for_each(|(slot, grant)| many.insert(slot, grant));
                    self.list = List::Many(many);
                }
            }
            List::Many(many) => {
                let slot = Slot(many.grants.last_key_value().map_or(0, |(last, _)| last.0 + 1));
                many.insert(slot, grant);
            }
        }
    }

    /// Changes a grant: one that is spent then is gone.
    pub(super) fn change<T>(&mut self, slot: Slot, change: impl FnOnce(&mut Grant) -> T) -> Option<T> {
        let (answer, is_spent) = match &mut self.list {
            List::Few(few) => {
                let (_, grant) = few.iter_mut().find(|(held, _)| *held == slot)?;
                (change(grant), grant.is_spent())
            }
            List::Many(many) => {
                let grant = many.grants.get_mut(&slot)?;
                let before = Traits::of(grant);
                let answer = change(grant);
                let after = Traits::of(grant);
                if before != after {
                    many.found.leaves(slot, &grant.stream, before);
                    many.found.enters(slot, &grant.stream, after);
                }
                (answer, grant.is_spent())
            }
        };
        if is_spent {
            self.remove(slot);
        }
        Some(answer)
    }

    /// An open has a grant together with others.
    pub(super) fn join(&mut self, slot: Slot, holder: Holder) {
        if let List::Many(many) = &mut self.list {
            many.by_open.insert(holder.open, slot);
        }
        self.change(slot, |grant| grant.holders.insert(holder));
    }

    /// An open has its grant no longer; the last one takes it along.
    pub(super) fn leave(&mut self, open: OpenId) {
        let Some(slot) = self.of_open(open) else { return };
        if let List::Many(many) = &mut self.list {
            many.by_open.remove(&open);
        }
        self.change(slot, |grant| grant.holders.remove(open));
    }

    /// A stream has another name.
    pub(super) fn stream_renamed(&mut self, from: &str, to: &str) {
        match &mut self.list {
            List::Few(few) => {
                let renamed = few.iter_mut().filter(|(_, grant)| grant.stream == from);
                renamed.for_each(|(_, grant)| to.clone_into(&mut grant.stream));
            }
            List::Many(many) if many.found.streams.contains_key(from) => {
                self.looks.set(self.looks.get() + many.grants.len());
                for (slot, grant) in many.grants.iter_mut().filter(|(_, grant)| grant.stream == from) {
                    let traits = Traits::of(grant);
                    many.found.leaves(*slot, from, traits);
                    to.clone_into(&mut grant.stream);
                    many.found.enters(*slot, to, traits);
                }
            }
            List::Many(_) => {}
        }
    }

    fn remove(&mut self, slot: Slot) {
        match &mut self.list {
            List::Few(few) => few.retain(|(held, _)| *held != slot),
            List::Many(many) => {
                let Some(grant) = many.grants.remove(&slot) else { return };
                many.found.leaves(slot, &grant.stream, Traits::of(&grant));
                for open in grant.holders.opens() {
                    many.by_open.remove(&open);
                }
                if let Some(id) = grant.lease_id() {
                    many.by_lease.remove(&id);
                }
                if many.grants.len() <= FEW_AGAIN {
                    self.list = List::Few(std::mem::take(&mut many.grants).into_iter().collect());
                }
            }
        }
    }

    fn looked_at(&self, count: usize) {
        self.looks.set(self.looks.get() + count);
    }
}

impl Default for List {
    fn default() -> Self {
        List::Few(Vec::new())
    }
}

impl Many {
    fn insert(&mut self, slot: Slot, grant: Grant) {
        self.by_open.extend(grant.holders.opens().map(|open| (open, slot)));
        self.by_lease.extend(grant.lease_id().map(|id| (id, slot)));
        self.found.enters(slot, &grant.stream, Traits::of(&grant));
        self.grants.insert(slot, grant);
    }
}

impl Found {
    fn exposing(&self, stream: Option<&str>, taken: LeaseState) -> Vec<Slot> {
        let Some(numbers) = self.numbers(stream) else { return Vec::new() };
        let mut slots = Vec::new();
        for (_, set) in KINDS.iter().zip(&self.exposing).filter(|(kind, _)| taken.contains(**kind)) {
            slots.extend(within(set, numbers.clone()));
        }
        // One may have several things to lose.
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The number of a stream, or those of all; `None` where nothing is cached of it.
    fn numbers(&self, stream: Option<&str>) -> Option<RangeInclusive<StreamNumber>> {
        let Some(stream) = stream else { return Some(StreamNumber(0)..=self.last_stream) };
        let number = self.streams.get(stream)?.number;
        Some(number..=number)
    }

    fn enters(&mut self, slot: Slot, stream: &str, traits: Traits) {
        if !self.streams.contains_key(stream) {
            self.last_stream.0 += 1;
            self.streams.insert(stream.to_owned(), OfStream { number: self.last_stream, ..OfStream::default() });
        }
        let Some(of_stream) = self.streams.get_mut(stream) else { return };
        of_stream.grants += 1;
        of_stream.oplocks += usize::from(traits.is_oplock);
        of_stream.level_two += usize::from(traits.is_level_two);
        for (_, set) in KINDS.iter().zip(&mut self.exposing).filter(|(kind, _)| traits.exposed.contains(**kind)) {
            set.insert((of_stream.number, slot));
        }
        self.by_end.extend(traits.until.map(|until| (until, slot)));
    }

    fn leaves(&mut self, slot: Slot, stream: &str, traits: Traits) {
        let Some(of_stream) = self.streams.get_mut(stream) else { return };
        of_stream.grants -= 1;
        of_stream.oplocks -= usize::from(traits.is_oplock);
        of_stream.level_two -= usize::from(traits.is_level_two);
        for set in &mut self.exposing {
            set.remove(&(of_stream.number, slot));
        }
        if let Some(until) = traits.until {
            self.by_end.remove(&(until, slot));
        }
        if of_stream.grants == 0 {
            self.streams.remove(stream);
        }
    }
}

fn within(set: &BTreeSet<(StreamNumber, Slot)>, streams: RangeInclusive<StreamNumber>) -> impl Iterator<Item = Slot> {
    let (first, last) = streams.into_inner();
    set.range((first, Slot(0))..=(last, Slot(u64::MAX))).map(|(_, slot)| *slot)
}
