//! The thread that reads inotify for a store: waits, gathers what comes within a moment, and tells it.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{ReadFlags, Reader};
use rustix::io::Errno;

use crate::directory::fence::Wait;
use crate::directory::foreign::{Ends, Foreign, Quiet, Wish, below};
use crate::directory::names::{is_reserved, to_name};
use crate::directory::walk;
use crate::{Error, Foreign as Change, Identity, Kind, Reach, Resolved, SharePath, Use, What};

/// What comes within this time is told together, and who made a change himself has said so by then.
const MOMENT: Duration = Duration::from_millis(100);
/// What one `read` fills.
const BUFFER_BYTES: usize = 16 << 10;
/// The most events that are told together.
const EVENTS_MAX: usize = 1 << 14;

/// Names and their directories.
type Found = HashSet<(Identity, String)>;

/// One event, its directory looked up.
struct Event {
    number: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<String>,
}

/// Starts the thread.
pub(super) fn start(foreign: &Arc<Foreign>) -> Result<(), Error> {
    let (ends, quiet) = (Arc::clone(&foreign.ends), Arc::downgrade(foreign));
    let spawned = thread::Builder::new().name("multilane-watch".into()).spawn(move || run(&ends, &quiet));
    spawned.map(drop).map_err(|fault| Error::Io(fault.raw_os_error().unwrap_or(0)))
}

fn run(ends: &Ends, quiet: &Quiet) {
    let mut found_before = Found::new();
    loop {
        let mut waiting = [PollFd::new(&ends.inotify, PollFlags::IN), PollFd::new(&ends.stop, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !waiting[1].revents().is_empty() {
            return;
        }
        thread::sleep(MOMENT);
        let Some(foreign) = quiet.upgrade() else { return };
        let events = read_all(ends);
        let mut found = std::mem::take(&mut found_before);
        let older = found.clone();
        foreign.tell(&events, &mut found);
        // What does not come with the next events was made before its directory was watched.
        found.retain(|name| !older.contains(name));
        found_before = found;
    }
}

fn read_all(ends: &Ends) -> Vec<Event> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut reader = Reader::new(&ends.inotify, &mut buffer);
    let mut events = Vec::new();
    while events.len() < EVENTS_MAX {
        match reader.next() {
            Ok(event) => events.push(Event {
                number: event.wd(),
                flags: event.events(),
                cookie: event.cookie(),
                name: event.file_name().and_then(|name| Some(to_name(name.to_bytes())?.as_str().to_owned())),
            }),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    events
}

impl Event {
    fn kind(&self) -> Kind {
        if self.flags.contains(ReadFlags::ISDIR) { Kind::Directory } else { Kind::File }
    }

    fn is(&self, flags: ReadFlags) -> bool {
        self.flags.intersects(flags)
    }
}

/// The directory of an event.
#[derive(Clone)]
struct Place {
    identity: Identity,
    path: SharePath,
    wishes: Vec<u64>,
}

impl Foreign {
    /// Tells of events. `found` are names that were found by looking, of which events may come yet.
    fn tell(&self, events: &[Event], found: &mut Found) {
        for (position, event) in events.iter().enumerate() {
            if event.is(ReadFlags::QUEUE_OVERFLOW) {
                let all: Vec<_> = self.table.lock().wishes.keys().copied().collect();
                self.lose(&all);
                continue;
            }
            if event.is(ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED) {
                self.directory_went(event.number);
                continue;
            }
            let (Some(place), Some(name)) = (self.place(event.number), &event.name) else { continue };
            if is_reserved(name) {
                continue;
            }
            let is_pair = |other: &&Event| other.cookie == event.cookie && other.is(ReadFlags::MOVED_TO);
            if event.is(ReadFlags::MOVED_FROM) {
                let pair = events[position..].iter().find(is_pair);
                self.moved_from(&place, name, event, pair);
            } else if event.is(ReadFlags::MOVED_TO) {
                let from = |other: &Event| other.cookie == event.cookie && other.is(ReadFlags::MOVED_FROM);
                // What moved with it is no news.
                self.enter_new(&place, name, event.kind());
                if !events[..position].iter().any(|other| from(other) && other.number == event.number) {
                    self.say(&place, name, event.kind(), What::Came);
                }
            } else if event.is(ReadFlags::CREATE) {
                // What was made in it before it was watched is found by looking.
                let new = self.enter_new(&place, name, event.kind());
                if !found.remove(&(place.identity, name.clone())) {
                    self.say(&place, name, event.kind(), What::Came);
                }
                for (place, name, kind) in new {
                    self.say(&place, &name, kind, What::Came);
                    found.insert((place.identity, name));
                }
            } else if event.is(ReadFlags::DELETE) {
                self.say(&place, name, event.kind(), What::Went);
            } else if event.is(ReadFlags::CLOSE_WRITE | ReadFlags::ATTRIB) {
                self.changed(&place, name);
            }
        }
    }

    fn place(&self, number: i32) -> Option<Place> {
        let table = self.table.lock();
        let directory = table.directories.get(&number)?;
        Some(Place { identity: directory.identity, path: directory.path.clone(), wishes: directory.wishes.clone() })
    }

    /// A name went elsewhere: where that is watched too, what is below it is known by its new path.
    fn moved_from(&self, place: &Place, name: &str, event: &Event, pair: Option<&Event>) {
        let from = joined(&place.path, name);
        let to = pair.and_then(|pair| Some((self.place(pair.number)?, pair.name.as_deref()?, pair.number)));
        if event.kind() == Kind::Directory {
            match &to {
                Some((place, name, _)) => self.rename(&from, &joined(&place.path, name)),
                None => self.leave_tree(&from),
            }
        }
        match &to {
            Some((_, new, number)) if *number == event.number && !is_reserved(new) => {
                self.say(place, name, event.kind(), What::Renamed { to: new });
            }
            Some(_) | None => self.say(place, name, event.kind(), What::Went),
        }
    }

    /// A name appeared: where it is a directory in trees that are watched, it is watched too. Gives what is in it.
    fn enter_new(&self, place: &Place, name: &str, kind: Kind) -> Vec<(Place, String, Kind)> {
        let mut found = Vec::new();
        if kind != Kind::Directory {
            return found;
        }
        let table = self.table.lock();
        let is_tree = |wish: &&u64| table.wishes.get(wish).is_some_and(|wish| wish.reach == Reach::Tree);
        let trees: Vec<u64> = place.wishes.iter().filter(is_tree).copied().collect();
        drop(table);
        if !trees.is_empty() {
            self.enter_tree(&joined(&place.path, name), &trees, &mut |seen| {
                let place = Place { identity: seen.directory, path: seen.path.clone(), wishes: trees.clone() };
                found.push((place, seen.name.to_owned(), seen.kind));
            });
        }
        found
    }

    fn changed(&self, place: &Place, name: &str) {
        let path = joined(&place.path, name);
        if let Ok(Resolved::Found { node, .. }) = walk::resolve(&self.volume, &path, Use::Metadata, Wait::May) {
            self.say(place, name, node.kind(), What::Changed { file: node.identity() });
        }
    }

    fn directory_went(&self, number: i32) {
        let mut table = self.table.lock();
        if let Some(directory) = table.directories.remove(&number) {
            table.forget(directory.wishes.len());
        }
    }

    fn say(&self, place: &Place, name: &str, kind: Kind, what: What<'_>) {
        let table = self.table.lock();
        let heard: Vec<_> = place
            .wishes
            .iter()
            .filter_map(|wish| table.wishes.get(wish))
            .filter_map(|wish| Some((Arc::clone(&wish.listener), inside(place, wish)?.to_owned())))
            .collect();
        drop(table);
        for (listener, inside) in heard {
            listener.hear(Change { directory: place.identity, inside: &inside, name, kind, what });
        }
    }
}

/// Where the directory of an event lies for who made a wish.
fn inside<'a>(place: &'a Place, wish: &Wish) -> Option<&'a str> {
    match wish.reach {
        _ if wish.root == place.identity => Some(""),
        Reach::Directory => None,
        Reach::Tree => below(&place.path, &wish.path),
    }
}

fn joined(directory: &SharePath, name: &str) -> SharePath {
    let mut path = directory.clone();
    path.push(name);
    path
}
