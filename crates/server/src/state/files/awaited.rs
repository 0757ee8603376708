//! Who keeps others waiting: the breaks of oplocks and leases that are not acknowledged yet, for operators.

use std::sync::Arc;

use super::{FileEntry, FileTable};
use crate::state::caching::Unacknowledged;

/// The breaks of one file that others wait for.
pub(crate) struct AwaitedBreaks {
    /// How many requests wait at the file.
    pub(crate) waiting: usize,
    /// Who has not acknowledged.
    pub(crate) holders: Vec<Unacknowledged>,
}

impl FileTable {
    /// Those of all files, of `count_max` holders at most. Locks one file after the other, for a moment each.
    pub(crate) fn awaited_breaks(&self, count_max: usize) -> Vec<AwaitedBreaks> {
        let mut found = Vec::new();
        let mut left = count_max;
        for part in &self.parts {
            let cached: Vec<Arc<FileEntry>> = part.lock().values().filter(|file| file.is_cached()).cloned().collect();
            for file in &cached {
                let Some(breaks) = file.awaited_breaks(left) else { continue };
                left -= breaks.holders.len();
                found.push(breaks);
                if left == 0 {
                    return found;
                }
            }
        }
        found
    }
}

impl FileEntry {
    fn awaited_breaks(&self, count_max: usize) -> Option<AwaitedBreaks> {
        let state = self.state.lock();
        let waiting = state.waiting.count();
        if waiting == 0 {
            return None;
        }
        let holders = state.caches.unacknowledged(count_max);
        (!holders.is_empty()).then_some(AwaitedBreaks { waiting, holders })
    }
}
