//! Ranges that may overlap, each of an open: which of them reaches another range, in logarithmic time.
//!
//! A treap: a search tree by first byte, and a heap by priorities that nobody outside can guess, so that no order of coming makes it
//! deep. Each node knows the last byte that its subtree reaches, and whether one open has all of it.

use std::cmp::Ordering;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::LockId;
use crate::state::open_id::OpenId;

/// Where a node stands.
type Index = u32;
/// No node.
const NONE: Index = Index::MAX;

/// A range and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) first: u64,
    /// The last byte, which is part of it.
    pub(super) last: u64,
    pub(super) id: LockId,
    pub(super) open: OpenId,
}

/// What is looked for: a range that begins at `begins_by` or before and reaches `reaches` or beyond. With the last and the first byte of
/// a range these are the ones that overlap it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) begins_by: u64,
    pub(super) reaches: u64,
}

/// The ranges.
#[derive(Default)]
pub(super) struct Intervals {
    nodes: Vec<Node>,
    free: Vec<Index>,
    root: Option<Index>,
    chance: Option<RandomState>,
}

struct Node {
    interval: Interval,
    priority: u32,
    left: Index,
    right: Index,
    /// The furthest last byte in the subtree.
    furthest: u64,
    /// The open that has all of the subtree.
    only: Option<OpenId>,
}

impl Interval {
    /// The order of the tree.
    fn compare(&self, other: &Interval) -> Ordering {
        (self.first, self.id).cmp(&(other.first, other.id))
    }

    fn is_found(&self, reach: Reach, not_of: Option<OpenId>) -> bool {
        self.first <= reach.begins_by && self.last >= reach.reaches && Some(self.open) != not_of
    }
}

impl Intervals {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Adds a range. Its id is a new one.
    pub(super) fn insert(&mut self, interval: Interval) {
        let index = self.add(interval);
        let root = self.insert_below(self.root(), index);
        self.root = Some(root);
    }

    /// Removes a range that was added.
    pub(super) fn remove(&mut self, interval: &Interval) {
        let root = self.remove_below(self.root(), interval);
        self.root = (root != NONE).then_some(root);
        if self.root.is_none() {
            (self.nodes, self.free) = Default::default();
        }
    }

    /// Removes everything of an open, of which `count` ranges are here.
    pub(super) fn remove_all(&mut self, open: OpenId, gone: impl Iterator<Item = Interval>, count: usize) {
        // One walk through all costs as much as some removals.
        const WALK_PAYS: usize = 16;
        if count * WALK_PAYS < self.len() {
            gone.for_each(|interval| self.remove(&interval));
            return;
        }
        let mut left = Vec::with_capacity(self.len() - count);
        self.walk(|interval| {
            if interval.open != open {
                left.push(*interval);
            }
        });
        let chance = self.chance.take();
        *self = Intervals { chance, ..Intervals::default() };
        self.fill(&left);
    }

    /// One that is looked for, not of the open `not_of`. Logarithmic; where `not_of` is given that holds for ranges that do not overlap
    /// each other.
    pub(super) fn find(&self, reach: Reach, not_of: Option<OpenId>) -> Option<LockId> {
        self.find_below(self.root(), reach, not_of)
    }

    fn find_below(&self, mut at: Index, reach: Reach, not_of: Option<OpenId>) -> Option<LockId> {
        while let Some(node) = self.node(at) {
            if node.furthest < reach.reaches || (node.only.is_some() && node.only == not_of) {
                return None;
            }
            if let Some(found) = self.find_below(node.left, reach, not_of) {
                return Some(found);
            }
            let reaches_left = self.node(node.left).is_some_and(|left| left.furthest >= reach.reaches);
            if node.interval.first > reach.begins_by || (reaches_left && not_of.is_none()) {
                // What reaches so far on the left begins too late, and so does all that follows.
                return None;
            }
            if node.interval.is_found(reach, not_of) {
                return Some(node.interval.id);
            }
            at = node.right;
        }
        None
    }

    fn root(&self) -> Index {
        self.root.unwrap_or(NONE)
    }

    fn node(&self, index: Index) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    fn insert_below(&mut self, at: Index, new: Index) -> Index {
        let Some(node) = self.node(at) else { return new };
        let wanted = &self.nodes[new as usize];
        if wanted.priority > node.priority {
            let interval = wanted.interval;
            let (left, right) = self.split(at, &interval);
            (self.nodes[new as usize].left, self.nodes[new as usize].right) = (left, right);
            self.sum_up(new);
            return new;
        }
        let (left, right) = (node.left, node.right);
        if wanted.interval.compare(&node.interval) == Ordering::Less {
            self.nodes[at as usize].left = self.insert_below(left, new);
        } else {
            self.nodes[at as usize].right = self.insert_below(right, new);
        }
        self.sum_up(at);
        at
    }

    fn remove_below(&mut self, at: Index, gone: &Interval) -> Index {
        let Some(node) = self.node(at) else { return NONE };
        let (left, right) = (node.left, node.right);
        match gone.compare(&node.interval) {
            Ordering::Equal => {
                self.free.push(at);
                return self.merge(left, right);
            }
            Ordering::Less => self.nodes[at as usize].left = self.remove_below(left, gone),
            Ordering::Greater => self.nodes[at as usize].right = self.remove_below(right, gone),
        }
        self.sum_up(at);
        at
    }

    /// What stands before `interval` and what does not.
    fn split(&mut self, at: Index, interval: &Interval) -> (Index, Index) {
        let Some(node) = self.node(at) else { return (NONE, NONE) };
        let (left, right) = (node.left, node.right);
        if node.interval.compare(interval) == Ordering::Less {
            let (before, after) = self.split(right, interval);
            self.nodes[at as usize].right = before;
            self.sum_up(at);
            (at, after)
        } else {
            let (before, after) = self.split(left, interval);
            self.nodes[at as usize].left = after;
            self.sum_up(at);
            (before, at)
        }
    }

    /// Joins two trees, all of the first one before the second.
    fn merge(&mut self, before: Index, after: Index) -> Index {
        match (self.node(before), self.node(after)) {
            (None, _) => after,
            (_, None) => before,
            (Some(first), Some(second)) if first.priority >= second.priority => {
                let right = self.merge(first.right, after);
                self.nodes[before as usize].right = right;
                self.sum_up(before);
                before
            }
            (Some(_), Some(second)) => {
                let left = self.merge(before, second.left);
                self.nodes[after as usize].left = left;
                self.sum_up(after);
                after
            }
        }
    }

    fn sum_up(&mut self, at: Index) {
        let Some(node) = self.node(at) else { return };
        let (mut furthest, mut only) = (node.interval.last, Some(node.interval.open));
        for below in [node.left, node.right] {
            if let Some(below) = self.node(below) {
                furthest = furthest.max(below.furthest);
                only = only.filter(|open| below.only == Some(*open));
            }
        }
        let node = &mut self.nodes[at as usize];
        (node.furthest, node.only) = (furthest, only);
    }

    /// Shows every range, in order.
    fn walk(&self, mut each: impl FnMut(&Interval)) {
        let (mut above, mut at) = (Vec::new(), self.root());
        loop {
            while let Some(node) = self.node(at) {
                above.push(at);
                at = node.left;
            }
            let Some(node) = above.pop().and_then(|index| self.node(index)) else { return };
            each(&node.interval);
            at = node.right;
        }
    }

    /// Builds the tree of ranges in order: each stands to the right of those before it, and above those of less priority.
    fn fill(&mut self, ordered: &[Interval]) {
        self.nodes.reserve_exact(ordered.len());
        let mut edge: Vec<Index> = Vec::new();
        for interval in ordered {
            let new = self.add(*interval);
            let mut below = NONE;
            while let Some(at) = edge.pop_if(|at| self.nodes[*at as usize].priority < self.nodes[new as usize].priority)
            {
                self.sum_up(at);
                below = at;
            }
            self.nodes[new as usize].left = below;
            if let Some(above) = edge.last() {
                self.nodes[*above as usize].right = new;
            }
            edge.push(new);
        }
        self.root = edge.first().copied();
        for at in edge.into_iter().rev() {
            self.sum_up(at);
        }
    }

    /// Makes a node that stands nowhere yet.
    fn add(&mut self, interval: Interval) -> Index {
        let priority = self.chance.get_or_insert_with(RandomState::new).hash_one(interval.id.0) as u32;
        let new =
            Node { interval, priority, left: NONE, right: NONE, furthest: interval.last, only: Some(interval.open) };
        match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = new;
                index
            }
            None => {
                self.nodes.push(new);
                (self.nodes.len() - 1) as Index
            }
        }
    }
}
