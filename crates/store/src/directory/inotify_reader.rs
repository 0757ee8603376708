//! The thread that reads inotify for a store: waits, gathers what comes within a moment, and tells it.

use std::collections::{HashSet, VecDeque};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{ReadFlags, Reader};
use rustix::io::Errno;

use crate::directory::fence::Wait;
use crate::directory::inotify::{Ends, Foreign, Quiet};
use crate::directory::inotify_table::WatchedDirectory;
use crate::directory::inotify_walk::Walk;
use crate::directory::names::{is_reserved, to_disk, to_name};
use crate::directory::resolve;
use crate::{Error, Foreign as Change, Identity, Kind, Resolved, Use, What, threads};

/// What comes within this time is told together, and who made a change himself has said so by then.
const MOMENT: Duration = Duration::from_millis(100);
/// What one `read` fills.
const BUFFER_BYTES: usize = 16 << 10;
/// The most events that are told together.
const EVENTS_MAX: usize = 1 << 14;

/// The most names that are remembered because they were found by looking.
const FOUND_MAX: usize = 1 << 12;
/// The most trees that are gone through at a time.
const WALKS_MAX: usize = 16;

/// Names and their directories.
#[derive(Clone, Default)]
struct Found(HashSet<(Identity, String)>);

/// What the thread has to do besides.
#[derive(Default)]
struct Reading {
    /// Names that were found by looking, of which events may come yet.
    found: Found,
    /// Trees that appeared and are not watched as a whole yet, and whether what is in them is to be told.
    walks: VecDeque<(Walk, News)>,
}

/// What it means for a tree that it appeared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// It was made: what is in it is told.
    Made,
    /// It came with what is in it, which is no news.
    Moved,
}

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
    let thread = thread::Builder::new().name("multilane-watch".into());
    threads::start(thread, move || run(&ends, &quiet)).map_err(|fault| Error::Io(fault.raw_os_error().unwrap_or(0)))
}

fn run(ends: &Ends, quiet: &Quiet) {
    let mut reading = Reading::default();
    loop {
        let mut waiting = [PollFd::new(&ends.inotify, PollFlags::IN), PollFd::new(&ends.stop, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut waiting, (!reading.walks.is_empty()).then_some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !waiting[1].revents().is_empty() {
            return;
        }
        let has_events = !waiting[0].revents().is_empty();
        let until = Instant::now() + MOMENT;
        while Instant::now() < until && !reading.walks.is_empty() {
            let Some(foreign) = quiet.upgrade() else { return };
            reading.go_on(&foreign);
        }
        if has_events {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        let Some(foreign) = quiet.upgrade() else { return };
        let older = reading.found.clone();
        foreign.tell(&read_all(ends), &mut reading);
        // What does not come with the next events was made before its directory was watched.
        reading.found.0.retain(|name| !older.0.contains(name));
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

impl Found {
    /// Remembers a name; false where there is no room.
    fn add(&mut self, directory: Identity, name: &str) -> bool {
        let has_room = self.0.len() < FOUND_MAX;
        if has_room {
            self.0.insert((directory, name.to_owned()));
        }
        has_room
    }
}

impl Reading {
    /// Goes on with the tree whose turn it is.
    fn go_on(&mut self, foreign: &Foreign) {
        let Some((mut walk, news)) = self.walks.pop_front() else { return };
        if self.slice(foreign, &mut walk, news) {
            self.walks.push_back((walk, news));
        }
    }

    /// Watches a directory that appeared, and what is below it. What is small is gone through at once, in the order of events.
    fn begin(&mut self, foreign: &Foreign, mut walk: Walk, news: News) {
        self.walks.retain(|(known, _)| known.top().is_none() || known.top() != walk.top());
        if self.slice(foreign, &mut walk, news) {
            self.walks.push_back((walk, news));
        }
        while self.walks.len() > WALKS_MAX {
            self.go_on(foreign);
        }
    }

    fn slice(&mut self, foreign: &Foreign, walk: &mut Walk, news: News) -> bool {
        let found = &mut self.found;
        let mut lost = Vec::new();
        let more = walk.go_on(foreign, &mut |seen| {
            if news == News::Moved {
                return;
            }
            // What is not remembered may be told a second time. Who is told to list anew misses nothing.
            if found.add(seen.place.identity, seen.name) {
                foreign.say(seen.place, seen.name, seen.kind, What::Came);
            } else if lost.is_empty() {
                lost.clone_from(&seen.place.wishes);
            }
        });
        foreign.lose(&lost);
        more
    }
}

impl Foreign {
    /// Tells of events.
    fn tell(&self, events: &[Event], reading: &mut Reading) {
        for (position, event) in events.iter().enumerate() {
            if event.is(ReadFlags::QUEUE_OVERFLOW) {
                self.overflowed(reading);
                continue;
            }
            if event.is(ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED) {
                self.table.lock().gone(event.number);
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
                let new = self.enter_new(&place, name, event.kind());
                if !events[..position].iter().any(|other| from(other) && other.number == event.number) {
                    self.say(&place, name, event.kind(), What::Came);
                }
                new.into_iter().for_each(|new| reading.begin(self, new, News::Moved));
            } else if event.is(ReadFlags::CREATE) {
                let new = self.enter_new(&place, name, event.kind());
                if !reading.found.0.remove(&(place.identity, name.clone())) {
                    self.say(&place, name, event.kind(), What::Came);
                }
                // What was made in it before it was watched is found by looking.
                new.into_iter().for_each(|new| reading.begin(self, new, News::Made));
            } else if event.is(ReadFlags::DELETE) {
                self.say(&place, name, event.kind(), What::Went);
            } else if event.is(ReadFlags::CLOSE_WRITE | ReadFlags::ATTRIB) {
                self.changed(&place, name);
            }
        }
    }

    /// Some events are missing: everybody is told, and directories that appeared meanwhile are looked for.
    fn overflowed(&self, reading: &mut Reading) {
        let table = self.table.lock();
        let all = table.all();
        let roots = table.trees().map(|wish| wish.root).collect();
        drop(table);
        self.lose(&all);
        reading.walks.clear();
        reading.begin(self, Walk::of_all(roots), News::Moved);
    }

    fn place(&self, number: i32) -> Option<WatchedDirectory> {
        let table = self.table.lock();
        let place = table.place(number);
        if place.is_none() {
            let unheard = table.wishes_at(number).to_vec();
            drop(table);
            self.lose(&unheard);
        }
        place
    }

    /// A name went elsewhere: where that is watched too, what is below it is known by its new path.
    fn moved_from(&self, place: &WatchedDirectory, name: &str, event: &Event, pair: Option<&Event>) {
        let to = pair.and_then(|pair| Some((self.place(pair.number)?, pair.name.as_deref()?)));
        if event.kind() == Kind::Directory {
            let mut table = self.table.lock();
            let refused = match &to {
                Some((to, new)) => table.rename(&place.joined(name), &to.joined(new)),
                None => Vec::new(),
            };
            match (table.child(place.number, name), &to) {
                (Some(moved), Some((to, new))) => table.moved(moved, to.number, new),
                (Some(moved), None) => table.moved_away(moved),
                (None, _) => {}
            }
            drop(table);
            self.lose(&refused);
        }
        match &to {
            Some((to, new)) if to.number == event.number && !is_reserved(new) => {
                self.say(place, name, event.kind(), What::Renamed { to: new });
            }
            Some(_) | None => self.say(place, name, event.kind(), What::Went),
        }
    }

    /// A name appeared: where it is a directory in trees that are watched, it is watched too. Gives what is left to look into.
    fn enter_new(&self, place: &WatchedDirectory, name: &str, kind: Kind) -> Option<Walk> {
        if kind != Kind::Directory {
            return None;
        }
        let mut trees = self.table.lock().trees_among(&place.wishes);
        if trees.is_empty() {
            return None;
        }
        let entered = match self.reopen(place) {
            Ok(Some(above)) => self.enter((place.number, &above), (&to_disk(name), name), &mut trees),
            Ok(None) => {
                self.lose_unless_told(place, &trees);
                return None;
            }
            Err(_) => Err(Errno::IO),
        };
        entered
            .unwrap_or_else(|_| {
                self.lose(&trees);
                None
            })
            .map(Walk::from)
    }

    fn changed(&self, place: &WatchedDirectory, name: &str) {
        let path = place.joined(name);
        if let Ok(Resolved::Found { node, .. }) = resolve::resolve(&self.volume, &path, Use::Metadata, Wait::May) {
            self.say(place, name, node.kind(), What::Changed { file: node.identity() });
        }
    }

    fn say(&self, place: &WatchedDirectory, name: &str, kind: Kind, what: What<'_>) {
        let table = self.table.lock();
        let wishes = place.wishes.iter().filter_map(|wish| table.wish_of(*wish));
        let heard: Vec<_> = wishes.filter_map(|wish| Some((Arc::clone(&wish.listener), place.inside(wish)?))).collect();
        drop(table);
        for (listener, inside) in heard {
            listener.hear(Change { directory: place.identity, inside, name, kind, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::directory::{DirectoryOptions, DirectoryStore, inotify};
    use crate::{Listener, Reach, SharePath};

    struct Deaf;

    impl Listener for Deaf {
        fn hear(&self, _change: Change<'_>) {}

        fn lose(&self) {}

        fn hold(&self, _bytes: u64) -> bool {
            true
        }

        fn let_go(&self, _bytes: u64) {}
    }

    #[test]
    fn a_directory_of_many_names_that_moves_far_down_takes_little_memory() {
        const NAMES: usize = 3_000;
        let folder = tempfile::tempdir().unwrap();
        let names = ["d".repeat(250).as_str(); 12].join("/");
        let deep = folder.path().join(&names);
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(folder.path().join("many")).unwrap();
        (0..NAMES).for_each(|name| fs::write(folder.path().join(format!("many/{name}")), b"").unwrap());
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let volume = store.volume();
        let (root, listening) = (volume.identity, inotify::Listening::default());
        let mut guard =
            inotify::watch(&listening, &volume, &SharePath::root(), root, Reach::Tree, Arc::new(Deaf)).unwrap();
        while guard.go_on() {}
        let foreign = listening.lock().upgrade().unwrap();
        let top = foreign.table.lock().trees().next().unwrap().root;
        let enter = |above: i32, name: &str| foreign.table.lock().child(above, name).unwrap();
        let below = names.split('/').fold(top, enter);

        fs::rename(folder.path().join("many"), deep.join("many")).unwrap();
        let event = |number, flags| Event { number, flags, cookie: 1, name: Some("many".into()) };
        let (from, to) = (ReadFlags::MOVED_FROM | ReadFlags::ISDIR, ReadFlags::MOVED_TO | ReadFlags::ISDIR);
        let events = [event(top, from), event(below, to)];
        let mut reading = Reading::default();
        let held = allocation_counter::measure(|| {
            foreign.tell(&events, &mut reading);
            while !reading.walks.is_empty() {
                reading.go_on(&foreign);
            }
        });
        assert!(held.bytes_max < 100_000, "{held:?}");
    }
}
