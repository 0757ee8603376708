//! Which shard serves a connection: the one that has fewest; and no two channels of a session are on one shard while another has none of
//! them, so that one client gets every core.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many connections each shard has.
pub(crate) struct Placement(Vec<AtomicUsize>);

impl Placement {
    /// That of `shards` shards without connections.
    pub(crate) fn new(shards: usize) -> Self {
        Placement((0..shards).map(|_| AtomicUsize::new(0)).collect())
    }

    /// The connections of each.
    pub(crate) fn connections(&self) -> Vec<usize> {
        self.0.iter().map(|connections| connections.load(Ordering::Relaxed)).collect()
    }

    /// The shard for a new connection.
    pub(crate) fn least(&self) -> usize {
        self.least_of(|_| true).unwrap_or(0)
    }

    /// Where a connection on the shard `here` goes to become a channel of a session that has others on `taken`; `None` where it stays.
    pub(crate) fn better(&self, here: usize, taken: &[usize]) -> Option<usize> {
        taken.contains(&here).then(|| self.least_of(|shard| !taken.contains(&shard))).flatten()
    }

    /// A shard has one connection more.
    pub(crate) fn enter(&self, shard: usize) {
        if let Some(connections) = self.0.get(shard) {
            connections.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A shard has one connection less.
    pub(crate) fn leave(&self, shard: usize) {
        if let Some(connections) = self.0.get(shard) {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn least_of(&self, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        let meant = self.connections().into_iter().enumerate().filter(|(shard, _)| is_meant(*shard));
        meant.min_by_key(|(_, connections)| *connections).map(|(shard, _)| shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_moves_to_the_emptiest_shard_that_has_no_other() {
        let placement = Placement::new(4);
        for (shard, connections) in [(0, 5), (1, 3), (2, 1), (3, 2)] {
            (0..connections).for_each(|_| placement.enter(shard));
        }
        assert_eq!(placement.least(), 2);
        assert_eq!(placement.better(0, &[]), None);
        assert_eq!(placement.better(0, &[1, 2]), None, "it is alone where it is");
        assert_eq!(placement.better(0, &[0]), Some(2));
        assert_eq!(placement.better(0, &[0, 2]), Some(3));
        assert_eq!(placement.better(3, &[0, 1, 2, 3]), None, "none is free");
        placement.leave(0);
        assert_eq!(placement.connections(), [4, 3, 1, 2]);
    }
}
