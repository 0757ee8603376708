//! Going through a tree that is to be watched, a slice at a time. Between two slices nothing is open: what is still to be looked into
//! is kept as numbers of directories that are watched already.

use rustix::fd::AsFd;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Kind;
use crate::directory::folder::Reached;
use crate::directory::inotify::Foreign;
use crate::directory::inotify_table::WatchedDirectory;
use crate::directory::listing::{Listed, names_from};
use crate::directory::names::{is_reserved, to_name};
use crate::directory::stat::{file_type, stat_at};

/// How many names are looked at in one slice, and what a directory counts for that is opened.
const SLICE_NAMES: usize = 1_024;
const NAMES_OF_DIRECTORY: usize = 16;

/// What of some trees is to be looked into.
pub(super) struct Walk {
    /// Where it began, if at one place.
    top: Option<i32>,
    /// Directories to look into: each is watched, so there are no more than are watched at all.
    left: Vec<i32>,
    /// The one that is being looked into, and where its names go on.
    current: Option<(i32, u64)>,
    /// The wish that it is for. Else it is for all that reach what it goes through.
    wish: Option<u64>,
}

/// A name in a directory that is watched from now on.
pub(super) struct Seen<'a> {
    pub(super) place: &'a WatchedDirectory,
    pub(super) name: &'a str,
    pub(super) kind: Kind,
}

impl Walk {
    /// For one wish, from its root on.
    pub(super) fn for_wish(root: i32, wish: u64) -> Self {
        Walk { top: Some(root), left: vec![root], current: None, wish: Some(wish) }
    }

    /// For all wishes for trees that reach a directory.
    pub(super) fn from(top: i32) -> Self {
        Walk { top: Some(top), left: vec![top], current: None, wish: None }
    }

    /// For all wishes for trees, from their roots on.
    pub(super) fn of_all(roots: Vec<i32>) -> Self {
        Walk { top: None, left: roots, current: None, wish: None }
    }

    pub(super) fn top(&self) -> Option<i32> {
        self.top
    }

    /// Watches more of it and calls `seen` with every name; false where all of it is watched, or nobody wishes so any more.
    pub(super) fn go_on(&mut self, foreign: &Foreign, seen: &mut dyn FnMut(&Seen<'_>)) -> bool {
        let mut names = 0;
        while names < SLICE_NAMES {
            let Some(current) = self.current.take().or_else(|| Some((self.left.pop()?, 0))) else { return false };
            names += NAMES_OF_DIRECTORY + self.look_into(foreign, current, seen);
        }
        self.current.is_some() || !self.left.is_empty()
    }

    /// Gives how many names were looked at.
    fn look_into(&mut self, foreign: &Foreign, (number, at): (i32, u64), seen: &mut dyn FnMut(&Seen<'_>)) -> usize {
        let table = foreign.table.lock();
        let mut wishes = table.trees_among(table.wishes_at(number));
        wishes.retain(|wish| self.wish.is_none_or(|only| only == *wish));
        let place = table.place(number);
        drop(table);
        if wishes.is_empty() {
            return 0;
        }
        let opened = place.and_then(|place| Some((foreign.reopen(&place).ok()?, place)));
        let Some((found, mut place)) = opened else {
            foreign.lose(&wishes);
            return 0;
        };
        let Some(folder) = found else {
            foreign.lose_unless_told(&place, &wishes);
            return 0;
        };
        place.wishes.clone_from(&wishes);
        let (mut count, mut is_lost, mut is_full) = (0, false, false);
        let listed = names_from(folder.fd.as_fd(), at, |listed| {
            count += 1;
            let Some((name, kind)) = shown(&folder, &listed) else { return };
            if kind == Kind::Directory && !is_full && !wishes.is_empty() {
                count += NAMES_OF_DIRECTORY;
                match foreign.enter((number, &folder), (listed.name, &name), &mut wishes) {
                    Ok(below) => self.left.extend(below),
                    Err(errno) => {
                        is_full |= matches!(errno, Errno::NOSPC | Errno::NOMEM);
                        is_lost = true;
                    }
                }
            }
            seen(&Seen { place: &place, name: &name, kind });
        });
        if is_lost || listed.is_err() {
            foreign.lose(&wishes);
        }
        match listed {
            _ if is_full || wishes.is_empty() => self.left.clear(),
            Ok(next) => self.current = next.map(|next| (number, next)),
            Err(_) => {}
        }
        count
    }
}

fn shown(folder: &Reached, listed: &Listed<'_>) -> Option<(String, Kind)> {
    let name = to_name(listed.name).filter(|name| !is_reserved(name.as_str()))?;
    let kind = match listed.kind {
        FileType::Unknown => file_type(&stat_at(&folder.fd, listed.name).ok()?),
        known => known,
    };
    let kind = if kind == FileType::Directory { Kind::Directory } else { Kind::File };
    Some((name.as_str().to_owned(), kind))
}
