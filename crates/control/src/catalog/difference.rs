//! What two readings of the catalog have, and one of them alone.

use std::collections::BTreeMap;

use super::Snapshot;

/// What is only in the later list, what is in both, and what is only in the earlier one.
pub(crate) struct Difference<'a, T> {
    pub(crate) made: Vec<&'a T>,
    pub(crate) kept: Vec<(&'a T, &'a T)>,
    pub(crate) gone: Vec<&'a T>,
}

impl<'a, T> Difference<'a, T> {
    pub(crate) fn of<K: Ord>(before: &'a [T], now: &'a [T], key: impl Fn(&'a T) -> K) -> Self {
        let mut earlier: BTreeMap<K, &T> = before.iter().map(|one| (key(one), one)).collect();
        let (mut made, mut kept) = (Vec::new(), Vec::new());
        for one in now {
            match earlier.remove(&key(one)) {
                Some(before) => kept.push((before, one)),
                None => made.push(one),
            }
        }
        Difference { made, kept, gone: earlier.into_values().collect() }
    }
}

/// The names of users and groups by their relative ids, which stay when somebody is renamed.
pub(crate) fn names(of: &Snapshot) -> BTreeMap<u32, &str> {
    let users = of.users.iter().map(|(user, _)| (user.relative_id, user.name.as_str()));
    users.chain(of.groups.iter().map(|group| (group.relative_id, group.name.as_str()))).collect()
}
