//! What is watched with inotify and for whom, in memory. Each directory is known by its name in the one above it, so that a path is
//! kept once for each wish and not for each directory.
//!
//! A wish reaches a directory that is its root, or that lies in one that it reaches as a tree. So what reaches a directory is a
//! connected part of the tree, and the way up from it ends at the root of a wish.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use rustix::fs::inotify;

use crate::directory::inotify::{Ends, below};
use crate::{Identity, Listener, Reach, SharePath};

/// The most directories that one store watches, each as often as watches reach it: some 50 MiB of kernel memory.
const WATCHED_MAX: usize = 1 << 16;
/// How many directories a user of the machine may watch, of which all stores together take half: other programs of that user need some, too.
const OF_USER: &str = "/proc/sys/fs/inotify/max_user_watches";
/// As many as the kernel allows at least where it does not say.
const OF_USER_LEAST: usize = 8_192;
/// How many all stores watch.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static WATCHED_IN_ALL_MAX: LazyLock<usize> = LazyLock::new(|| in_all(std::fs::read_to_string(OF_USER).ok().as_deref()));
/// Bytes that a directory is taken to cost each watch that reaches it: its places in tables and the longest name. It is charged
/// whatever the name is, so that a directory can be renamed at no cost.
const DIRECTORY_BYTES: u64 = 1 << 10;
/// Bytes of the longest path that is told: more than a path that can be opened has, as clients see it.
const PATH_BYTES_MAX: usize = 16 << 10;

pub(super) struct Table {
    ends: Arc<Ends>,
    directories: HashMap<i32, Directory>,
    /// Each directory behind the one that it lies in.
    below: BTreeSet<(i32, i32)>,
    wishes: HashMap<u64, Wish>,
    next: u64,
    watched: usize,
}

/// A directory that is watched.
struct Directory {
    identity: Identity,
    /// The one it lies in, where that is watched too and was looked into, and its name there.
    above: Option<(i32, Box<str>)>,
    /// The wishes that reach it, in order.
    wishes: Vec<u64>,
}

/// What somebody wants to hear of.
pub(super) struct Wish {
    pub(super) root: i32,
    pub(super) path: SharePath,
    pub(super) reach: Reach,
    pub(super) listener: Arc<dyn Listener>,
}

/// A directory, as it was known at a moment.
pub(super) struct WatchedDirectory {
    pub(super) number: i32,
    pub(super) identity: Identity,
    pub(super) path: SharePath,
    /// The wishes that reach it.
    pub(super) wishes: Vec<u64>,
    /// The directories on the way to it, in the order of their numbers, and how long their paths are.
    levels: Vec<(i32, usize)>,
}

/// What became of a directory that was to be watched.
#[derive(Default)]
pub(super) struct Entered {
    /// Wishes that it is not watched for, as there is no room.
    pub(super) refused: Vec<u64>,
    /// It is watched.
    pub(super) is_watched: bool,
}

/// What all stores may watch where the kernel says this.
fn in_all(of_user: Option<&str>) -> usize {
    of_user.and_then(|text| text.trim().parse().ok()).unwrap_or(OF_USER_LEAST) / 2
}

impl Drop for Table {
    fn drop(&mut self) {
        WATCHED.fetch_sub(self.watched, Ordering::Relaxed);
    }
}

impl Table {
    pub(super) fn new(ends: &Arc<Ends>) -> Self {
        Table {
            ends: Arc::clone(ends),
            directories: HashMap::new(),
            below: BTreeSet::new(),
            wishes: HashMap::new(),
            next: 0,
            watched: 0,
        }
    }

    /// Adds a wish for the directory `number`; `None` where there is no room.
    pub(super) fn wish(&mut self, identity: Identity, wish: Wish) -> Option<u64> {
        let (id, number) = (self.next, wish.root);
        self.next += 1;
        let holds = wish.listener.hold(wish.path.as_str().len() as u64);
        self.wishes.insert(id, wish);
        self.know(number, identity);
        if holds && self.reach(number, id) {
            return Some(id);
        }
        self.wishes.remove(&id);
        self.let_go_if_unwished(number);
        None
    }

    /// A wish ends; gives it, to be dropped where nothing is locked.
    pub(super) fn leave(&mut self, id: u64) -> Option<Wish> {
        let wish = self.wishes.remove(&id)?;
        self.settle(wish.root);
        Some(wish)
    }

    pub(super) fn wish_of(&self, id: u64) -> Option<&Wish> {
        self.wishes.get(&id)
    }

    /// All who want to hear of whole trees.
    pub(super) fn trees(&self) -> impl Iterator<Item = &Wish> {
        self.wishes.values().filter(|wish| wish.reach == Reach::Tree)
    }

    pub(super) fn all(&self) -> Vec<u64> {
        self.wishes.keys().copied().collect()
    }

    /// Those of some wishes that are for whole trees.
    pub(super) fn trees_among(&self, wishes: &[u64]) -> Vec<u64> {
        let is_tree = |id: &&u64| self.wishes.get(id).is_some_and(|wish| wish.reach == Reach::Tree);
        wishes.iter().filter(is_tree).copied().collect()
    }

    /// The directory `number`, which inotify watches, lies in `above` and is called `name` there. It is watched for those of `wishes`
    /// that reach that one. `None` where the two would lie in each other: not all that happened is known yet.
    pub(super) fn enter(
        &mut self,
        number: i32,
        identity: Identity,
        above: i32,
        name: &str,
        wishes: &[u64],
    ) -> Option<Entered> {
        self.know(number, identity);
        let mut entered = Entered::default();
        if self.is_on_the_way(number, above) {
            self.let_go_if_unwished(number);
            return None;
        }
        let reaches = self.directories.get(&above).map(|above| above.wishes.clone()).unwrap_or_default();
        for id in self.trees_among(wishes) {
            if reaches.binary_search(&id).is_ok() && !self.reach(number, id) {
                entered.refused.push(id);
            }
        }
        entered.is_watched = !self.let_go_if_unwished(number);
        if entered.is_watched {
            self.place_in(number, above, name);
        }
        Some(entered)
    }

    /// What lies in `above` and is called `name` there, where it was looked into.
    pub(super) fn child(&self, above: i32, name: &str) -> Option<i32> {
        let is_called = |number: &i32| {
            let directory = self.directories.get(number);
            directory.and_then(|directory| directory.above.as_ref()).is_some_and(|(_, known)| **known == *name)
        };
        // One that is gone may be known still: the last one counts.
        self.below.range((above, i32::MIN)..=(above, i32::MAX)).rev().map(|(_, number)| *number).find(is_called)
    }

    /// A directory lies elsewhere now.
    pub(super) fn moved(&mut self, number: i32, above: i32, name: &str) {
        if self.directories.contains_key(&above) && !self.is_on_the_way(number, above) {
            self.place_in(number, above, name);
        } else {
            self.moved_away(number);
        }
    }

    /// A directory lies in none that is watched.
    pub(super) fn moved_away(&mut self, number: i32) {
        if let Some((above, _)) = self.directories.get_mut(&number).and_then(|directory| directory.above.take()) {
            self.below.remove(&(above, number));
        }
        self.settle(number);
    }

    /// A directory is gone, or its watch is.
    pub(super) fn gone(&mut self, number: i32) {
        let wishes = self.directories.get(&number).map(|directory| directory.wishes.clone()).unwrap_or_default();
        wishes.iter().for_each(|id| self.unreach(number, *id));
        if self.let_go_if_unwished(number) {
            self.children(number).into_iter().for_each(|below| self.settle(below));
        }
    }

    /// Gives wishes at or below `from` the path that they have now. Those that have no room for it are no longer fulfilled: gives them.
    pub(super) fn rename(&mut self, from: &SharePath, to: &SharePath) -> Vec<u64> {
        let mut refused = Vec::new();
        for (id, wish) in &mut self.wishes {
            let Some(rest) = below(&wish.path, from) else { continue };
            let mut moved = to.clone();
            rest.split('\\').filter(|name| !name.is_empty()).for_each(|name| moved.push(name));
            let (before, now) = (wish.path.as_str().len() as u64, moved.as_str().len() as u64);
            if now > before && !wish.listener.hold(now - before) {
                refused.push(*id);
                continue;
            }
            wish.listener.let_go(before.saturating_sub(now));
            wish.path = moved;
        }
        for id in &refused {
            if let Some(wish) = self.wishes.get_mut(id) {
                // Nothing is its root.
                let root = std::mem::replace(&mut wish.root, -1);
                self.settle(root);
            }
        }
        refused
    }

    /// Where a directory is; `None` where it is not watched, or its path is too long.
    pub(super) fn place(&self, number: i32) -> Option<WatchedDirectory> {
        let directory = self.directories.get(&number)?;
        let (mut ways, mut bytes, mut at) = (Vec::new(), 0, number);
        let top = loop {
            let known = self.directories.get(&at)?;
            let Some((above, name)) = &known.above else { break known };
            bytes += name.len() + 1;
            if bytes > PATH_BYTES_MAX {
                return None;
            }
            ways.push((at, &**name));
            at = *above;
        };
        let wishes = top.wishes.iter().filter_map(|id| self.wishes.get(id));
        let mut path = wishes.into_iter().find(|wish| wish.root == at)?.path.clone();
        let mut levels = vec![(at, path.as_str().len())];
        for (number, name) in ways.into_iter().rev() {
            path.push(name);
            levels.push((number, path.as_str().len()));
        }
        levels.sort_unstable();
        Some(WatchedDirectory { number, identity: directory.identity, path, wishes: directory.wishes.clone(), levels })
    }

    /// The wishes that reach a directory.
    pub(super) fn wishes_at(&self, number: i32) -> &[u64] {
        self.directories.get(&number).map_or(&[], |directory| &directory.wishes)
    }

    fn know(&mut self, number: i32, identity: Identity) {
        self.directories.entry(number).or_insert_with(|| Directory { identity, above: None, wishes: Vec::new() });
    }

    /// A wish reaches a directory; false where there is no room.
    fn reach(&mut self, number: i32, id: u64) -> bool {
        let (Some(directory), Some(wish)) = (self.directories.get_mut(&number), self.wishes.get(&id)) else {
            return true;
        };
        let Err(index) = directory.wishes.binary_search(&id) else { return true };
        let is_full = self.watched >= WATCHED_MAX || WATCHED.load(Ordering::Relaxed) >= *WATCHED_IN_ALL_MAX;
        if is_full || !wish.listener.hold(DIRECTORY_BYTES) {
            return false;
        }
        directory.wishes.insert(index, id);
        self.watched += 1;
        WATCHED.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn unreach(&mut self, number: i32, id: u64) {
        let Some(directory) = self.directories.get_mut(&number) else { return };
        let Ok(index) = directory.wishes.binary_search(&id) else { return };
        directory.wishes.remove(index);
        self.watched -= 1;
        WATCHED.fetch_sub(1, Ordering::Relaxed);
        if let Some(wish) = self.wishes.get(&id) {
            wish.listener.let_go(DIRECTORY_BYTES);
        }
    }

    /// Watches a directory no longer that no wish reaches; true where none does.
    fn let_go_if_unwished(&mut self, number: i32) -> bool {
        match self.directories.get(&number) {
            Some(directory) if !directory.wishes.is_empty() => return false,
            Some(_) | None => {}
        }
        if let Some((above, _)) = self.directories.remove(&number).and_then(|directory| directory.above) {
            self.below.remove(&(above, number));
        }
        // It may have gone by itself.
        let _ = inotify::remove_watch(&self.ends.inotify, number);
        true
    }

    fn place_in(&mut self, number: i32, above: i32, name: &str) {
        let Some(directory) = self.directories.get_mut(&number) else { return };
        if directory.above.as_ref().is_some_and(|(known, called)| *known == above && **called == *name) {
            return;
        }
        if let Some((before, _)) = directory.above.replace((above, name.into())) {
            self.below.remove(&(before, number));
        }
        self.below.insert((above, number));
        self.settle(number);
    }

    /// True where `number` is `from` or lies above it.
    fn is_on_the_way(&self, number: i32, from: i32) -> bool {
        let mut at = from;
        while at != number {
            let Some((above, _)) = self.directories.get(&at).and_then(|directory| directory.above.as_ref()) else {
                return false;
            };
            at = *above;
        }
        true
    }

    fn children(&self, number: i32) -> Vec<i32> {
        self.below.range((number, i32::MIN)..=(number, i32::MAX)).map(|(_, below)| *below).collect()
    }

    /// Something changed at a directory or above it: it, and what is below, is watched for what reaches it still.
    fn settle(&mut self, from: i32) {
        let mut left = vec![from];
        while let Some(number) = left.pop() {
            let Some(directory) = self.directories.get(&number) else { continue };
            let above = directory.above.as_ref().map(|(above, _)| *above);
            let is_placed = above.is_some_and(|above| self.directories.contains_key(&above));
            let reaches = above.map_or(&[][..], |above| self.wishes_at(above));
            let stays = |id: &u64| {
                let comes_down = |wish: &Wish| wish.reach == Reach::Tree && reaches.binary_search(id).is_ok();
                self.wishes.get(id).is_some_and(|wish| wish.root == number || comes_down(wish))
            };
            let go: Vec<u64> = directory.wishes.iter().filter(|id| !stays(id)).copied().collect();
            if go.is_empty() && number != from && is_placed {
                continue;
            }
            if let Some(above) = above.filter(|_| !is_placed) {
                self.below.remove(&(above, number));
                self.directories.entry(number).and_modify(|directory| directory.above = None);
            }
            go.iter().for_each(|id| self.unreach(number, *id));
            left.extend(self.children(number));
            self.let_go_if_unwished(number);
        }
    }
}

impl WatchedDirectory {
    /// Where it lies for who made a wish; `None` where the wish does not reach it.
    pub(super) fn inside(&self, wish: &Wish) -> Option<&str> {
        match wish.reach {
            _ if wish.root == self.number => Some(""),
            Reach::Directory => None,
            Reach::Tree => {
                let found = self.levels.binary_search_by_key(&wish.root, |(number, _)| *number).ok()?;
                let rest = self.path.as_str().get(self.levels[found].1..)?;
                Some(rest.strip_prefix('\\').unwrap_or(rest))
            }
        }
    }

    /// The uppermost directory on the way to it that is known.
    pub(super) fn top(&self) -> i32 {
        self.levels.iter().min_by_key(|(_, bytes)| *bytes).map_or(self.number, |(number, _)| *number)
    }

    /// The path of a name in it.
    pub(super) fn joined(&self, name: &str) -> SharePath {
        let mut path = self.path.clone();
        path.push(name);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_the_machines_user_may_watch_is_left_to_other_programs() {
        assert_eq!(in_all(Some("1000\n")), 500);
        assert_eq!([in_all(None), in_all(Some("many"))], [OF_USER_LEAST / 2; 2]);
    }
}
