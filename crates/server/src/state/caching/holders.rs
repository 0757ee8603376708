//! The opens that share a grant. An oplock has one, most leases too, and some leases as many as a user may have.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::state::open_id::OpenId;
use crate::state::session_link::SessionLink;

use super::Holder;

/// By their ids; the first of them needs no tree.
#[derive(Default)]
pub(super) struct Holders {
    first: Option<Holder>,
    more: BTreeMap<OpenId, Arc<SessionLink>>,
}

impl Holders {
    pub(super) fn of(holder: Holder) -> Self {
        Holders { first: Some(holder), more: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn first(&self) -> Option<&Holder> {
        self.first.as_ref()
    }

    pub(super) fn contains(&self, open: OpenId) -> bool {
        self.first.as_ref().is_some_and(|first| first.open == open) || self.more.contains_key(&open)
    }

    pub(super) fn insert(&mut self, holder: Holder) {
        let Some(first) = &mut self.first else {
            self.first = Some(holder);
            return;
        };
        let later = if holder.open < first.open { std::mem::replace(first, holder) } else { holder };
        self.more.insert(later.open, later.line);
    }

    pub(super) fn remove(&mut self, open: OpenId) {
        if self.first.as_ref().is_some_and(|first| first.open == open) {
            self.first = self.more.pop_first().map(|(open, line)| Holder { open, line });
        } else {
            self.more.remove(&open);
        }
    }

    /// Their ids.
    pub(super) fn opens(&self) -> impl Iterator<Item = OpenId> {
        self.first.iter().map(|first| first.open).chain(self.more.keys().copied())
    }

    /// Those whose ids are above `after`, the lowest first.
    pub(super) fn after(&self, after: OpenId) -> impl Iterator<Item = Holder> {
        let first = self.first.iter().filter(move |first| first.open > after).cloned();
        let more = self.more.range((Bound::Excluded(after), Bound::Unbounded));
        first.chain(more.map(|(open, line)| Holder { open: *open, line: Arc::clone(line) }))
    }
}
