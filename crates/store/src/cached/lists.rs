//! Which names directories have, within bounds. That a list is what a directory has now is known with the directory ([`super::entry`]).

use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::{Entry as Listed, Identity};

/// What a list takes beside its names.
const LIST_BYTES: u64 = 128;
/// What a name takes beside its letters: its own part and that of the allocator.
const NAME_BYTES: u64 = (size_of::<Listed>() + 16) as u64;
/// One list has this part of all bytes at most.
const PART_MAX: u64 = 4;
/// Each has an equal part of the bytes, and keeps no list that is larger. They are used once a listing.
const SHARDS: usize = 2;

pub(super) struct Lists(Cache<Identity, Arc<[Listed]>, OfList>);

#[derive(Clone)]
struct OfList;

impl Weighter<Identity, Arc<[Listed]>> for OfList {
    fn weight(&self, _: &Identity, list: &Arc<[Listed]>) -> u64 {
        list.iter().map(|listed| NAME_BYTES + listed.name.as_str().len() as u64).sum::<u64>() + LIST_BYTES
    }
}

impl Lists {
    pub(super) fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / (LIST_BYTES + 16 * NAME_BYTES)).unwrap_or(usize::MAX).max(1);
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(items).weight_capacity(bytes).shards(SHARDS);
        let options = options.build().expect("all that has to be said was said");
        Lists(Cache::with_options(options, OfList, DefaultHashBuilder::default(), Default::default()))
    }

    /// Keeps no more than so many bytes from now on.
    pub(super) fn limit(&self, bytes: u64) {
        self.0.set_capacity(bytes);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }

    pub(super) fn clear(&self) {
        self.0.clear();
    }

    /// Keeps what a directory has. `None` where it has too many names.
    pub(super) fn keep(&self, directory: Identity, names: Vec<Listed>) -> Option<Arc<[Listed]>> {
        let list: Arc<[Listed]> = names.into();
        if OfList.weight(&directory, &list) > self.0.capacity() / PART_MAX {
            return None;
        }
        self.0.insert(directory, Arc::clone(&list));
        Some(list)
    }

    /// Notes that what is known of a directory's names was of use.
    pub(super) fn touch(&self, directory: Identity) {
        self.0.get(&directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    #[test]
    fn the_longest_list_is_kept_whatever_the_machine_is_like() {
        let lists = Lists::new((64 << 20) / 8);
        let name = |number| Name::new(&format!("a name of thirty-one letters {number:04}")).unwrap();
        let names: Vec<_> = (0..4_096).map(|file| Listed { name: name(file), file }).collect();
        let directory = Identity { volume: 1, file: 1 };
        let kept = lists.keep(directory, names).unwrap();
        assert!(lists.0.get(&directory).is_some_and(|list| Arc::ptr_eq(&list, &kept)));
    }
}
