//! Parts of long lists: so many at a time, by their keys, whatever there is.

use std::collections::BinaryHeap;

use serde::Serialize;

/// Items of a part.
pub(crate) const PART_MAX: usize = 200;

/// A part of a list.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Part<T> {
    pub(crate) items: Vec<T>,
    /// How many there are in all.
    pub(crate) total: usize,
    /// Behind which key the next part begins; nothing where this one is the last.
    pub(crate) next: Option<String>,
}

struct Keyed<K, T>(K, T);

impl<T> Part<T> {
    /// The items with the least keys behind `after`. No more of them are held at a time than a part has.
    pub(crate) fn of<K: Ord + ToString>(
        items: impl Iterator<Item = T>,
        key: impl Fn(&T) -> K,
        after: Option<&K>,
    ) -> Self {
        let (mut total, mut behind) = (0, 0);
        let mut least = BinaryHeap::new();
        for item in items {
            total += 1;
            let key = key(&item);
            if after.is_some_and(|after| key <= *after) {
                continue;
            }
            behind += 1;
            least.push(Keyed(key, item));
            if least.len() > PART_MAX {
                least.pop();
            }
        }
        let least = least.into_sorted_vec();
        let next = least.last().filter(|_| behind > least.len()).map(|last| last.0.to_string());
        Part { items: least.into_iter().map(|Keyed(_, item)| item).collect(), total, next }
    }

    pub(crate) fn map<U>(self, change: impl FnMut(T) -> U) -> Part<U> {
        Part { items: self.items.into_iter().map(change).collect(), total: self.total, next: self.next }
    }
}

impl<K: Ord, T> Ord for Keyed<K, T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<K: Ord, T> PartialOrd for Keyed<K, T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, T> PartialEq for Keyed<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Ord, T> Eq for Keyed<K, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_say_how_many_there_are() {
        let mut numbers: Vec<u64> = (0..450).rev().collect();
        numbers.rotate_left(123);
        let part = |after: Option<u64>| Part::of(numbers.iter().copied(), |number| *number, after.as_ref());
        let first = part(None);
        assert_eq!((first.items.len(), first.total, first.next.as_deref()), (PART_MAX, 450, Some("199")));
        assert_eq!(first.items, (0..200).collect::<Vec<_>>());
        let last = part(Some(399));
        assert_eq!((last.items, last.total, last.next), ((400..450).collect::<Vec<_>>(), 450, None));
        assert_eq!(part(Some(449)), Part { items: Vec::new(), total: 450, next: None });
    }
}
