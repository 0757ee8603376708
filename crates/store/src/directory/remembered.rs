//! What a node remembers of what is kept with its file on a local disk, or in memory, as it was last asked for. To ask the kernel may take
//! a read of the disk, though the file is open: the blocks that attributes are in leave memory as any others do. So who must not wait is
//! told what was remembered, or sent away.
//!
//! It is believed while the file's times of change are what they were, and this process has set nothing kept with the file since. Two
//! changes within one tick of the file system's clock look alike: what was asked for within a tick of the last one is believed for a tick
//! more, in which another program's change may go unseen.
//!
//! What a CREATE has asked for at its beginning its next look is told where the times say that nobody has changed the file since: no more than
//! once, and soon. What it has made itself, it is told as long as it is at that and at nothing else: who asks later may ask for what others
//! have changed within the same tick.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::arrival::{self, Errand};
use crate::directory::file::OpenFile;
use crate::directory::keys::Keep;
use crate::directory::stat::Stamp;
use crate::directory::volume::LOCAL_TICK;
use crate::{Error, Waits, waiting};

/// How long a CREATE is told what it has asked another machine for before: it waits for the pool in between.
const CREATE_MAX: Duration = Duration::from_secs(1);

/// What is remembered, if anything.
pub(super) struct Remembered<T>(Mutex<Option<Known<T>>>);

struct Known<T> {
    what: T,
    then: Then,
    /// How often this process had set something.
    sets: u64,
    asked_at: Instant,
    /// No further change can have left the times as they are.
    settled: bool,
    /// The next look is that of the CREATE which asked for it, or has made it.
    is_of_create: bool,
}

/// What tells one state of a file from another.
enum Then {
    /// It had these times.
    Had(Stamp),
    /// It was made, for this, and it was this time.
    Made(Option<Errand>, SystemTime),
}

/// For whom something is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// A CREATE that will look once more.
    Create,
    Anybody,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Remembered(Mutex::new(None))
    }
}

impl<T: Clone> Remembered<T> {
    /// Has the next who looks be told what was kept with a file as it was made. This process had set something kept with it `sets` times then.
    pub(super) fn made(&self, what: T, sets: u64) {
        let (then, asked_at) = (Then::Made(arrival::errand(), SystemTime::now()), Instant::now());
        *self.0.lock() = Some(Known { what, then, sets, asked_at, settled: false, is_of_create: true });
    }

    /// What was kept with a file that was made within the tick, for the first who asks, where that is who made it.
    pub(super) fn just_made(&self, file: &OpenFile) -> Option<T> {
        let sets = sets(file);
        let mut remembered = self.0.lock();
        let is_made = |then: &Then| matches!(then, Then::Made(errand, _) if is_still(*errand));
        let known = remembered.as_mut().filter(|known| known.sets == sets && is_made(&known.then))?;
        (std::mem::take(&mut known.is_of_create) && known.is_within_tick()).then(|| known.what.clone())
    }

    /// What `ask` gives, or would give again; for who must not wait, what it gave last, or [`Error::WouldBlock`]. The file has the times `now`. What `keeps`
    /// refuses is not remembered.
    pub(super) fn ask(
        &self,
        file: &OpenFile,
        now: Stamp,
        asker: Asker,
        ask: impl FnOnce() -> Result<T, Error>,
        keeps: impl FnOnce(&T) -> bool,
    ) -> Result<T, Error> {
        match self.told(file, now) {
            Some(known) => Ok(known),
            None => self.ask_anew(file, now, asker, ask, keeps),
        }
    }

    /// What is remembered, if it can be believed.
    fn told(&self, file: &OpenFile, now: Stamp) -> Option<T> {
        let sets = sets(file);
        let mut remembered = self.0.lock();
        let known = remembered.as_mut().filter(|known| known.sets == sets)?;
        // Of a disk who must not wait is told what was asked for, not what was written to it.
        let may_have_made = waiting::is_allowed() || file.waits == Waits::Never;
        let is_same = match known.then {
            Then::Had(then) => then == now,
            Then::Made(errand, at) => may_have_made && is_still(errand) && !now.is_behind(at),
        };
        let is_of_create = std::mem::take(&mut known.is_of_create);
        let is_believed = match file.waits {
            Waits::Always => is_of_create && known.asked_at.elapsed() < CREATE_MAX,
            // Who may wait can ask.
            Waits::Never | Waits::ForData => {
                known.settled || (is_of_create || !waiting::is_allowed()) && known.is_within_tick()
            }
        };
        if !(is_same && is_believed) {
            return None;
        }
        known.then = Then::Had(now);
        Some(known.what.clone())
    }

    /// The same as [`Remembered::ask`] of what is not known. The file had the times `then` some time before: what is given is at least that new.
    pub(super) fn ask_anew(
        &self,
        file: &OpenFile,
        then: Stamp,
        asker: Asker,
        ask: impl FnOnce() -> Result<T, Error>,
        keeps: impl FnOnce(&T) -> bool,
    ) -> Result<T, Error> {
        if file.waits == Waits::Always && asker == Asker::Anybody {
            return ask();
        }
        if file.waits == Waits::ForData && !waiting::is_allowed() {
            return Err(Error::WouldBlock);
        }
        let (sets, asked_at) = (sets(file), Instant::now());
        // What is kept beside a file changes without it.
        let tells = file.volume.keep == Keep::InAttributes && file.identity.volume == file.volume.identity.volume;
        let settled = tells && then.is_far_from(LOCAL_TICK, SystemTime::now());
        let told = ask();
        let what = told.as_ref().ok().filter(|told| keeps(told)).cloned();
        let (then, is_of_create) = (Then::Had(then), tells && asker == Asker::Create);
        *self.0.lock() = what.map(|what| Known { what, then, sets, asked_at, settled, is_of_create });
        told
    }
}

/// True where this thread is still at what it was given to do then.
fn is_still(errand: Option<Errand>) -> bool {
    errand.is_some() && errand == arrival::errand()
}

/// How often this process has set something kept with a file.
fn sets(file: &OpenFile) -> u64 {
    file.volume.locks_of(file.identity).attributes_set(file.identity)
}

impl<T> Known<T> {
    fn is_within_tick(&self) -> bool {
        self.asked_at.elapsed() < LOCAL_TICK
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::fs::{XattrFlags, setxattr};

    use super::*;
    use crate::directory::calls::again;
    use crate::directory::keys::{RECORD, SECURITY};
    use crate::directory::record::Record;
    use crate::directory::stat::stat;
    use crate::directory::{DirectoryOptions, DirectoryStore};
    use crate::waiting::{Forbidden, forbid};
    use crate::{AttributeChange, Attributes, Changes, Kind, NewNode, Node, SharePath, Store, Use};

    type Told<T> = Result<T, Error>;
    type Nodes = [Arc<dyn Node>; 2];

    /// The attributes and the descriptor of a file, for who must not wait.
    fn told(node: &dyn Node) -> (Told<Attributes>, Told<Option<Vec<u8>>>) {
        std::thread::scope(|scope| {
            let ask = || {
                forbid(Forbidden::Panics);
                (node.try_metadata().map(|known| known.attributes), node.extras().security())
            };
            scope.spawn(ask).join().unwrap()
        })
    }

    /// The same once it is remembered for good: what changed within a tick is not.
    fn settled(node: &dyn Node) -> (Attributes, Option<Vec<u8>>) {
        loop {
            let stamp = Stamp::of(&stat(node.descriptor().unwrap()).unwrap());
            if stamp.is_far_from(LOCAL_TICK * 2, SystemTime::now()) {
                return (node.metadata().unwrap().attributes, node.extras().security().unwrap());
            }
            std::thread::yield_now();
        }
    }

    /// A file on a local disk that two have open.
    fn file() -> Option<(tempfile::TempDir, Nodes)> {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 2, security: Some(b"descriptor"), owner: None };
        let (directory, name) = store.directory_of(&SharePath::parse("file").unwrap()).unwrap();
        let node = directory.names().unwrap().create(&name, new).unwrap();
        let other = directory.names().unwrap().child(&name, Use::Read).unwrap().unwrap().1;
        (node.waits() == Waits::ForData).then_some((folder, [node, other]))
    }

    #[test]
    fn who_must_not_wait_is_told_what_was_asked_for_before() {
        let Some((_folder, [node, other])) = file() else { return };
        let known = settled(&*node);
        assert_eq!(known, (2, Some(b"descriptor".to_vec())));
        assert_eq!(told(&*node), (Ok(known.0), Ok(known.1)));
        assert_eq!(told(&*other).0, Err(Error::WouldBlock), "it was never asked");
    }

    #[test]
    fn what_was_set_through_another_node_is_not_remembered_otherwise() {
        let Some((_folder, [node, other])) = file() else { return };
        for number in 0..50u8 {
            // However little time has passed.
            let _ = (node.metadata().unwrap(), node.extras().security().unwrap());
            let attributes = AttributeChange::to(u32::from(number % 2) + 2);
            other.change(&Changes { attributes, ..Changes::default() }).unwrap();
            assert_eq!(told(&*node), (Err(Error::WouldBlock), Err(Error::WouldBlock)));
            let _ = (node.metadata().unwrap(), node.extras().security().unwrap());
            other.extras().set_security(&[number; 20]).unwrap();
            assert_eq!(told(&*node), (Err(Error::WouldBlock), Err(Error::WouldBlock)));
        }
    }

    #[test]
    fn what_another_program_sets_is_not_remembered_otherwise() {
        let Some((folder, [node, _])) = file() else { return };
        let place = folder.path().join("file");
        let set = |key: &str, value: &[u8]| {
            again(|| setxattr(&place, key, value, XattrFlags::empty())).unwrap();
        };
        settled(&*node);
        set(SECURITY, b"another");
        assert_eq!(told(&*node), (Err(Error::WouldBlock), Err(Error::WouldBlock)));
        assert_eq!(settled(&*node), (2, Some(b"another".to_vec())));
        set(RECORD, &Record { attributes: Some(4), ..Record::default() }.encode());
        assert_eq!(told(&*node).0, Err(Error::WouldBlock));
        assert_eq!(settled(&*node), (4, Some(b"another".to_vec())));
        node.write_at(b"data", 0).unwrap();
        assert_eq!(told(&*node).0, Err(Error::WouldBlock), "its times are others");
    }

    #[test]
    fn a_long_descriptor_is_not_remembered() {
        let Some((_folder, [node, _])) = file() else { return };
        node.extras().set_security(&[7; 600]).unwrap();
        settled(&*node);
        assert_eq!(told(&*node), (Ok(2), Err(Error::WouldBlock)));
    }
}
