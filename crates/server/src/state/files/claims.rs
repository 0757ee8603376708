//! The opens of one file. Most files have one, and some have as many as a user may have: then nobody who opens, closes or changes the
//! file looks at them all. What others ask of them is counted as they come and go.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use store::Store;
use wire::security::access::{READ_ATTRIBUTES, READ_CONTROL, SYNCHRONIZE, WRITE_ATTRIBUTES};

use super::links::{Link, may_be_one};
use crate::state::caching::LeaseId;
use crate::state::files::share_modes::Modes;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;

/// So many are looked at one by one: with more there is an index.
const FEW_MAX: usize = 8;
/// With so few again there is none.
const FEW_AGAIN: usize = 4;

/// Rights that break no oplock: to look at attributes and change them (MS-FSA 2.1.4.12, OPEN).
const QUIET_FOR_OPLOCKS: u32 = READ_ATTRIBUTES | WRITE_ATTRIBUTES | SYNCHRONIZE;
/// Rights that break no lease.
const QUIET_FOR_LEASES: u32 = QUIET_FOR_OPLOCKS | READ_CONTROL;

/// What one open has of a file.
pub(super) struct Claim {
    pub(super) open: OpenId,
    pub(super) stream: String,
    pub(super) access: u32,
    pub(super) share: u32,
    pub(super) names: Arc<OpenPath>,
    pub(super) store: Arc<dyn Store>,
    pub(super) lease: Option<LeaseId>,
    /// The name that it was made by, where the file has several.
    pub(super) link: Option<Link>,
    /// The open, where a record of it is kept.
    pub(super) recorded: Weak<Open>,
    /// It survived the server, and its client is not back.
    pub(super) is_restored: bool,
    /// Nobody has the open any more: it closes soon.
    pub(super) is_going: bool,
}

/// The claims of one file.
#[derive(Default)]
pub(super) struct Claims {
    list: List,
    /// How many were looked at one by one.
    looks: Cell<usize>,
}

enum List {
    Few(Vec<Claim>),
    Many(Box<Many>),
}

/// Many claims, and what is asked of them.
#[derive(Default)]
struct Many {
    claims: BTreeMap<OpenId, Claim>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    streams: BTreeMap<String, OfStream>,
    /// Those that know the name they were made by.
    links: BTreeMap<Link, usize>,
    /// Those that do not.
    without_link: usize,
    /// Those that close soon, by their lease.
    going: BTreeMap<LeaseId, usize>,
    /// Those of named streams that keep the file from being deleted.
    keeping: usize,
}

/// What is counted of the opens of one stream.
#[derive(Default)]
struct OfStream {
    all: usize,
    /// Those in the way of others who would cache writes.
    loud: usize,
    /// Of these those that have a lease.
    leased: BTreeMap<LeaseId, usize>,
    /// There are 64 modes at most, and seldom more than three.
    modes: Vec<(Modes, usize)>,
}

impl Claim {
    pub(super) fn modes(&self) -> Modes {
        Modes::of(self.access, self.share)
    }

    /// Who looks at attributes alone and caches nothing is in nobody's way.
    fn is_loud(&self) -> bool {
        breaks_leases(self.access) || self.lease.is_some()
    }

    fn keeps_file(&self) -> bool {
        !self.stream.is_empty() && self.modes().keeps_from_deletion()
    }

    /// True where an open of `stream` with these modes cannot be beside this one.
    fn conflicts_with(&self, stream: &str, modes: Modes) -> bool {
        match (self.stream.as_str(), stream) {
            (held, wanted) if held == wanted => modes.conflict_with(self.modes()),
            ("", _) => self.modes().delete_under(modes),
            (_, "") => modes.delete_under(self.modes()),
            _ => false,
        }
    }
}

impl Claims {
    pub(super) fn len(&self) -> usize {
        match &self.list {
            List::Few(few) => few.len(),
            List::Many(many) => many.claims.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many claims were looked at one by one since this was asked last.
    pub(super) fn take_looks(&self) -> usize {
        self.looks.take()
    }

    /// Every one of them, one by one.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.looked_at(self.len());
        let (few, many) = match &self.list {
            List::Few(few) => (Some(few.iter()), None),
            List::Many(many) => (None, Some(many.claims.values())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// Those that do not know the name they were made by.
    pub(super) fn without_link(&self) -> impl Iterator<Item = &Claim> {
        let there_are = match &self.list {
            List::Few(_) => true,
            List::Many(many) => many.counts.without_link > 0,
        };
        let all = there_are.then(|| self.iter());
        all.into_iter().flatten().filter(|claim| claim.link.is_none())
    }

    /// True where an open knows the name that it was made by.
    pub(super) fn has_links(&self) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| claim.link.is_some()),
            List::Many(many) => !many.counts.links.is_empty(),
        }
    }

    pub(super) fn get(&self, open: OpenId) -> Option<&Claim> {
        match &self.list {
            List::Few(few) => few.iter().find(|claim| claim.open == open),
            List::Many(many) => many.claims.get(&open),
        }
    }

    pub(super) fn insert(&mut self, claim: Claim) {
        match &mut self.list {
            List::Few(few) => {
                if few.is_empty() {
                    // Most files have one: a vector that grows by itself begins with room for four.
                    few.reserve_exact(1);
                }
                few.push(claim);
                if few.len() > FEW_MAX {
                    let mut many = Box::<Many>::default();
                    few.drain(..).for_each(|claim| many.insert(claim));
                    self.list = List::Many(many);
                }
            }
            List::Many(many) => many.insert(claim),
        }
    }

    pub(super) fn remove(&mut self, open: OpenId) -> Option<Claim> {
        match &mut self.list {
            List::Few(few) => {
                let position = few.iter().position(|claim| claim.open == open)?;
                Some(few.remove(position))
            }
            List::Many(many) => {
                let claim = many.claims.remove(&open)?;
                many.counts.leaves(&claim);
                if many.claims.len() <= FEW_AGAIN {
                    self.list = List::Few(std::mem::take(&mut many.claims).into_values().collect());
                }
                Some(claim)
            }
        }
    }

    /// Changes the claim of an open, where it has one.
    pub(super) fn change(&mut self, open: OpenId, change: impl FnOnce(&mut Claim)) {
        match &mut self.list {
            List::Few(few) => {
                if let Some(claim) = few.iter_mut().find(|claim| claim.open == open) {
                    change(claim);
                }
            }
            List::Many(many) => {
                if let Some(claim) = many.claims.get_mut(&open) {
                    many.counts.leaves(claim);
                    change(claim);
                    many.counts.enters(claim);
                }
            }
        }
    }

    /// Changes those that `is_meant`, for which it looks at all.
    fn change_where(&mut self, is_meant: impl Fn(&Claim) -> bool, change: impl Fn(&mut Claim)) {
        self.looked_at(self.len());
        match &mut self.list {
            List::Few(few) => few.iter_mut().filter(|claim| is_meant(claim)).for_each(change),
            List::Many(many) => {
                for claim in many.claims.values_mut().filter(|claim| is_meant(claim)) {
                    many.counts.leaves(claim);
                    change(claim);
                    many.counts.enters(claim);
                }
            }
        }
    }

    /// A stream has another name.
    pub(super) fn stream_renamed(&mut self, from: &str, to: &str) {
        if self.has_stream(from) {
            self.change_where(|claim| claim.stream == from, |claim| to.clone_into(&mut claim.stream));
        }
    }

    /// A name of the file is another one now.
    pub(super) fn link_renamed(&mut self, from: &Link, to: &Link) {
        let is_known = match &self.list {
            List::Few(_) => true,
            List::Many(many) => many.counts.links.contains_key(from),
        };
        if is_known {
            self.change_where(|claim| claim.link.as_ref() == Some(from), |claim| claim.link = Some(to.clone()));
        }
    }

    /// True where the stream has opens.
    pub(super) fn has_stream(&self, stream: &str) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| claim.stream == stream),
            List::Many(many) => many.counts.streams.contains_key(stream),
        }
    }

    /// True where named streams have opens.
    pub(super) fn has_named_streams(&self) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| !claim.stream.is_empty()),
            // The unnamed one comes first.
            List::Many(many) => many.counts.streams.last_key_value().is_some_and(|(name, _)| !name.is_empty()),
        }
    }

    /// True where the file is open by the name.
    pub(super) fn is_open_by(&self, link: Option<&Link>) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| may_be_one(claim.link.as_ref(), link)),
            List::Many(many) => {
                many.counts.without_link > 0 || link.is_none_or(|link| many.counts.links.contains_key(link))
            }
        }
    }

    /// True where another open of the stream, of no lease or another one, is in the way of caching writes.
    pub(super) fn has_loud_others(&self, stream: &str, lease: Option<LeaseId>) -> bool {
        match &self.list {
            List::Few(few) => {
                let of_stream = few.iter().filter(|claim| claim.stream == stream && claim.is_loud());
                of_stream.filter(|claim| lease.is_none() || claim.lease != lease).count() > 0
            }
            List::Many(many) => {
                let Some(of_stream) = many.counts.streams.get(stream) else { return false };
                let own = lease.and_then(|lease| of_stream.leased.get(&lease)).copied().unwrap_or(0);
                of_stream.loud > own
            }
        }
    }

    /// True where an open of the lease waits for being closed.
    pub(super) fn is_lease_going(&self, lease: LeaseId) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| claim.is_going && claim.lease == Some(lease)),
            List::Many(many) => many.counts.going.contains_key(&lease),
        }
    }

    /// True where share modes keep an open of the stream with these from being made (MS-FSA 2.1.5.1.2.1, 2.1.5.1.2.2).
    pub(super) fn conflict_with(&self, stream: &str, modes: Modes) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| claim.conflicts_with(stream, modes)),
            List::Many(many) => {
                let counts = &many.counts;
                counts.modes_of(stream).any(|held| modes.conflict_with(held))
                    || match stream {
                        "" => modes.deletes() && counts.keeping > 0,
                        _ => counts.modes_of("").any(|held| held.delete_under(modes)),
                    }
            }
        }
    }

    /// True where an open of the stream has these modes.
    pub(super) fn has_modes(&self, stream: &str, modes: Modes) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(|claim| claim.stream == stream && claim.modes() == modes),
            List::Many(many) => many.counts.modes_of(stream).any(|held| held == modes),
        }
    }

    /// True where a named stream has an open that does not share its deletion.
    pub(super) fn keep_streams(&self) -> bool {
        match &self.list {
            List::Few(few) => few.iter().any(Claim::keeps_file),
            List::Many(many) => many.counts.keeping > 0,
        }
    }

    /// True where one of those that share modes make stand in the way survived the server, and its client is not back.
    pub(super) fn conflict_with_restored(&self, stream: &str, modes: Modes) -> bool {
        self.conflict_with(stream, modes)
            && self.iter().any(|claim| claim.is_restored && claim.conflicts_with(stream, modes))
    }

    /// True where share modes of opens of the stream alone are in the way.
    pub(super) fn conflict_within(&self, stream: &str, modes: Modes) -> bool {
        match &self.list {
            List::Few(few) => {
                few.iter().filter(|claim| claim.stream == stream).any(|claim| modes.conflict_with(claim.modes()))
            }
            List::Many(many) => many.counts.modes_of(stream).any(|held| modes.conflict_with(held)),
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
    fn insert(&mut self, claim: Claim) {
        self.counts.enters(&claim);
        self.claims.insert(claim.open, claim);
    }
}

impl Counts {
    fn modes_of(&self, stream: &str) -> impl Iterator<Item = Modes> {
        self.streams.get(stream).into_iter().flat_map(|of_stream| of_stream.modes.iter().map(|(modes, _)| *modes))
    }

    fn enters(&mut self, claim: &Claim) {
        match self.streams.get_mut(&claim.stream) {
            Some(of_stream) => of_stream.enters(claim),
            None => self.streams.entry(claim.stream.clone()).or_default().enters(claim),
        }
        match &claim.link {
            Some(link) => one_more(&mut self.links, link),
            None => self.without_link += 1,
        }
        if let Some(lease) = claim.lease.filter(|_| claim.is_going) {
            one_more(&mut self.going, &lease);
        }
        self.keeping += usize::from(claim.keeps_file());
    }

    fn leaves(&mut self, claim: &Claim) {
        if let Some(of_stream) = self.streams.get_mut(&claim.stream) {
            of_stream.leaves(claim);
            if of_stream.all == 0 {
                self.streams.remove(&claim.stream);
            }
        }
        match &claim.link {
            Some(link) => one_less(&mut self.links, link),
            None => self.without_link -= 1,
        }
        if let Some(lease) = claim.lease.filter(|_| claim.is_going) {
            one_less(&mut self.going, &lease);
        }
        self.keeping -= usize::from(claim.keeps_file());
    }
}

impl OfStream {
    fn enters(&mut self, claim: &Claim) {
        self.all += 1;
        self.loud += usize::from(claim.is_loud());
        if let Some(lease) = claim.lease {
            one_more(&mut self.leased, &lease);
        }
        let modes = claim.modes();
        match self.modes.iter_mut().find(|(held, _)| *held == modes) {
            Some((_, count)) => *count += 1,
            None => self.modes.push((modes, 1)),
        }
    }

    fn leaves(&mut self, claim: &Claim) {
        self.all -= 1;
        self.loud -= usize::from(claim.is_loud());
        if let Some(lease) = claim.lease {
            one_less(&mut self.leased, &lease);
        }
        let modes = claim.modes();
        if let Some((_, count)) = self.modes.iter_mut().find(|(held, _)| *held == modes) {
            *count -= 1;
        }
        self.modes.retain(|(_, count)| *count > 0);
    }
}

fn one_more<K: Ord + Clone>(counts: &mut BTreeMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) => *count += 1,
        None => drop(counts.insert(key.clone(), 1)),
    }
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

pub(super) fn breaks_oplocks(access: u32) -> bool {
    access & !QUIET_FOR_OPLOCKS != 0
}

pub(super) fn breaks_leases(access: u32) -> bool {
    access & !QUIET_FOR_LEASES != 0
}
