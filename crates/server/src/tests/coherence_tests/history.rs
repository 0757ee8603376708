//! What clients saw of one block of a file, and whether one order of it all explains that.
//!
//! Every write has a value of its own, so that each value has a cluster: its write and the reads that gave it. From the first end in
//! a cluster to its last beginning the block must have had that value: a forward zone. Where everything in a cluster overlaps, the block
//! had the value at some moment of that overlap: a backward zone. The history is linearizable exactly where no two forward zones
//! overlap, no backward zone lies within a forward one, and no read ends before its write begins (Gibbons and Korach, "Testing shared
//! memories", 1997).

use std::collections::BTreeMap;

/// A moment: every event has one of its own. The last one is never.
pub(super) type Moment = u64;
pub(super) const NEVER: Moment = Moment::MAX;

/// One finished operation, or a write that nobody knows the end of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) client: u8,
    pub(super) block: u64,
    pub(super) value: u64,
    pub(super) is_write: bool,
    pub(super) began: Moment,
    pub(super) ended: Moment,
}

/// The writes and reads of one value.
struct Cluster {
    value: u64,
    written: Option<Event>,
    first_end: Moment,
    last_beginning: Moment,
    first_read_end: Moment,
}

impl Cluster {
    fn is_forward(&self) -> bool {
        self.first_end < self.last_beginning
    }

    fn zone(&self) -> (Moment, Moment) {
        (self.first_end.min(self.last_beginning), self.first_end.max(self.last_beginning))
    }
}

/// What is wrong with the events of a file that was all zeros; `None` where one order explains them.
pub(super) fn fault(events: &[Event]) -> Option<String> {
    let mut blocks: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    events.iter().for_each(|event| blocks.entry(event.block).or_default().push(*event));
    blocks.into_iter().find_map(|(block, events)| of_block(&events).map(|fault| format!("block {block}: {fault}")))
}

fn of_block(events: &[Event]) -> Option<String> {
    let clusters = clusters(events);
    for cluster in &clusters {
        let Some(write) = cluster.written else { return Some(format!("{} was never written", cluster.value)) };
        if cluster.first_read_end < write.began {
            return Some(format!("{} was read before it was written", cluster.value));
        }
    }
    for one in clusters.iter().filter(|cluster| cluster.is_forward()) {
        for other in clusters.iter().filter(|other| other.value != one.value) {
            let ((from, to), (other_from, other_to)) = (one.zone(), other.zone());
            let overlap = from < other_to && other_from < to;
            let inside = from < other_from && other_to < to;
            if if other.is_forward() { overlap } else { inside } {
                return Some(told(one, other, events));
            }
        }
    }
    None
}

fn clusters(events: &[Event]) -> Vec<Cluster> {
    let zeros = Event { client: 0, block: 0, value: 0, is_write: true, began: 0, ended: 0 };
    let mut clusters: BTreeMap<u64, Cluster> = BTreeMap::new();
    for event in std::iter::once(&zeros).chain(events) {
        let cluster = clusters.entry(event.value).or_insert(Cluster {
            value: event.value,
            written: None,
            first_end: NEVER,
            last_beginning: 0,
            first_read_end: NEVER,
        });
        cluster.first_end = cluster.first_end.min(event.ended);
        cluster.last_beginning = cluster.last_beginning.max(event.began);
        if event.is_write {
            cluster.written = Some(*event);
        } else {
            cluster.first_read_end = cluster.first_read_end.min(event.ended);
        }
    }
    // What may never have been done need not be explained.
    clusters.into_values().filter(|cluster| cluster.first_end != NEVER).collect()
}

fn told(one: &Cluster, other: &Cluster, events: &[Event]) -> String {
    let mut concerned: Vec<_> =
        events.iter().filter(|event| event.value == one.value || event.value == other.value).collect();
    concerned.sort_by_key(|event| event.began);
    let lines = concerned.iter().map(|event| {
        let what = if event.is_write { "writes" } else { "reads" };
        format!("  {}..{} client {} {what} {}", event.began, event.ended, event.client, event.value)
    });
    format!("{} and {} took turns\n{}", one.value, other.value, lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(is_write: bool, value: u64, began: Moment, ended: Moment) -> Event {
        Event { client: 1, block: 0, value, is_write, began, ended }
    }

    #[test]
    fn stale_reads_lost_writes_and_values_from_nowhere_are_found() {
        let (w, r) = (true, false);
        let good =
            [event(w, 1, 1, 4), event(r, 0, 2, 3), event(r, 1, 2, 9), event(w, 2, 5, NEVER), event(r, 1, 10, 11)];
        assert_eq!(fault(&good), None);
        assert!(fault(&[event(w, 1, 1, 2), event(r, 0, 3, 4)]).is_some(), "a stale read");
        assert!(fault(&[event(w, 1, 1, 2), event(w, 2, 3, 4), event(r, 1, 5, 6)]).is_some(), "a lost write");
        assert!(fault(&[event(w, 1, 1, 9), event(r, 1, 2, 3), event(r, 0, 4, 5)]).is_some(), "back in time");
        assert!(fault(&[event(r, 3, 1, 2)]).is_some(), "from nowhere");
        assert!(fault(&[event(r, 1, 1, 2), event(w, 1, 3, 4)]).is_some(), "before it was written");
        let both = [event(w, 1, 1, 10), event(w, 2, 1, 10), event(r, 1, 11, 12), event(r, 2, 13, 14)];
        assert!(fault(&both).is_some(), "both cannot be last");
    }
}
