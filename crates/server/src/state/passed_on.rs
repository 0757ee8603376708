//! What stands in for the descriptor that a file or directory was never given (a program on this machine made it, or it was restored without
//! its attributes): what it would have got from the directory that it lies in, had an administrator made it there (MS-DTYP 2.5.3.4). That
//! directory may have been given none either, and has it from the one above; up to the share's root. Where that has none, too, nothing
//! is passed on.
//!
//! The directory that counts is the one that has the file, which is asked of the open file and never concluded from the path that led to it: by
//! the time that it is judged that path may lead elsewhere. Of a directory the system says in which one it lies; of a file it is asked
//! whether the directory found by its path has it.
//!
//! To ask each directory on the way for each open would take several calls of the system a level. So what a directory passes on is remembered
//! until the server changes the descriptor, name or being of any directory, and for two seconds at most: other programs change them, too.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use store::{Error, Identity, Kind, Name, Node, Resolved, SharePath, Store, Use, waiting};
use wire::security::access::{FILE_ALL, GenericMapping};
use wire::security::inherit::{self, Creator, ObjectKind};
use wire::security::{Ace, AceBody, AceFlags, Acl, SecurityDescriptor, Sid};

use crate::state::descriptors::{At, Reading, decode};

/// How long it may take until a change that another program makes is seen.
const BELIEVED_FOR: Duration = Duration::from_secs(2);
/// How many directories are remembered, and how many bytes that may take: then all are forgotten.
const DIRECTORIES_MAX: usize = 4_096;
const BYTES_MAX: usize = 4 << 20;
/// How much of that one directory may take: what is longer is asked for each time.
const BYTES_OF_ONE_MAX: usize = 256 << 10;
/// How many of the directories on one way are remembered, the lowest first.
const REMEMBERED_OF_WAY_MAX: usize = 64;
/// How many directories without a descriptor a thread goes through that must not wait, where each takes calls of the system.
const LEVELS_AT_ONCE_MAX: usize = 16;
/// How many anybody goes through: no path is so long.
const LEVELS_MAX: usize = 4_096;

/// What a directory passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PassedOn {
    /// Neither it nor a directory that it lies in was given a descriptor.
    Nothing,
    /// These descriptors.
    These { to_file: Arc<SecurityDescriptor>, to_directory: Arc<SecurityDescriptor> },
    /// What it would pass on is in a descriptor that cannot be used.
    Unusable,
}

impl PassedOn {
    /// What a directory with this descriptor passes on. Nobody is there to be asked who makes what lies in it, so that it is what an
    /// administrator of the machine would make: where nothing is inherited, that is for administrators and the system alone.
    fn by(directory: &SecurityDescriptor) -> Self {
        let who = [Sid::BUILTIN_ADMINISTRATORS, Sid::SYSTEM];
        let default = who.into_iter().map(|sid| Ace::allow(sid, FILE_ALL, AceFlags::NONE)).collect();
        let creator = Creator {
            owner: Sid::BUILTIN_ADMINISTRATORS,
            group: Sid::BUILTIN_USERS,
            default_dacl: Some(Acl { aces: default }),
        };
        let made = |kind| Arc::new(inherit::create(Some(directory), None, kind, &creator, &GenericMapping::FILE));
        PassedOn::These { to_file: made(ObjectKind::Leaf), to_directory: made(ObjectKind::Container) }
    }

    /// What a directory passes on that has this itself from the one above. After two levels or three that is always the same.
    fn below(&self) -> Self {
        match self {
            PassedOn::These { to_directory, .. } => {
                let below = PassedOn::by(to_directory);
                if below == *self { self.clone() } else { below }
            }
            PassedOn::Nothing | PassedOn::Unusable => self.clone(),
        }
    }

    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let of_body = |ace: &Ace| match &ace.body {
            AceBody::Plain { .. } => 0,
            AceBody::Opaque(bytes) => bytes.len(),
        };
        let of_list = |list: &Acl| list.aces.iter().map(|ace| size_of::<Ace>() + of_body(ace)).sum::<usize>();
        let of = |descriptor: &SecurityDescriptor| {
            let lists = descriptor.dacl.iter().chain(&descriptor.sacl);
            size_of::<SecurityDescriptor>() + lists.map(of_list).sum::<usize>()
        };
        match self {
            PassedOn::These { to_file, to_directory } => of(to_file) + of(to_directory),
            PassedOn::Nothing | PassedOn::Unusable => 0,
        }
    }
}

/// What directories pass on, as far as it is known.
#[derive(Default)]
pub(crate) struct Inheritance {
    /// How often the server has changed a directory.
    changes: AtomicU64,
    known: RwLock<Known>,
}

/// What was found when there had been so many changes.
#[derive(Default)]
struct Known {
    changes: u64,
    /// By the root of the share and the directory.
    directories: HashMap<(Identity, Identity), Entry>,
    bytes: usize,
}

struct Entry {
    /// Where it was. Another program may have moved it since.
    path: Box<str>,
    passed_on: PassedOn,
    found: Instant,
}

impl Inheritance {
    /// The server has given a directory another descriptor or name, made one or removed it: what is known of any counts no more.
    pub(crate) fn directory_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// What the directory passes on in which that lies. [`Error::WouldBlock`] for who must not wait where it would, and [`Error::Gone`] where it lies in the store no more, or is just being moved.
    pub(crate) fn above(&self, at: At<'_>, reading: Reading) -> Result<PassedOn, Error> {
        let At { store, node, path } = at;
        let above = path.parent().unwrap_or_default();
        if node.kind() == Kind::Directory {
            return node.above()?.map_or(Ok(PassedOn::Nothing), |directory| self.of(store, directory, &above, reading));
        }
        match which_has(store, node.identity(), path)? {
            Some(directory) => self.of(store, directory, &above, reading),
            None => {
                where_it_lies(store, node).and_then(|(directory, above)| self.of(store, directory, &above, reading))
            }
        }
    }

    /// What a directory passes on that `store` has at `path`. [`Error::WouldBlock`] for who must not wait where it would.
    pub(crate) fn of(
        &self,
        store: &dyn Store,
        directory: Arc<dyn Node>,
        path: &SharePath,
        reading: Reading,
    ) -> Result<PassedOn, Error> {
        let root = store.root();
        let mut paths = ways_up(path);
        let (changes, mut found) = (self.changes.load(Ordering::SeqCst), Instant::now());
        let (mut directory, mut way) = (directory, Vec::new());
        let mut passed_on = loop {
            let path = paths.next().unwrap_or_default();
            if let Some((known, found_then)) = self.known(root, directory.identity(), path) {
                if way.is_empty() {
                    return Ok(known);
                }
                found = found.min(found_then);
                break known;
            }
            way.push((directory.identity(), path));
            if let Some(passed_on) = by_own(&*directory, reading)? {
                break passed_on;
            }
            let above = match directory.above() {
                Err(Error::Gone) => return Ok(PassedOn::Unusable),
                above => above?,
            };
            let Some(above) = above else { break PassedOn::Nothing };
            directory = above;
            if way.len() == LEVELS_MAX {
                return Ok(PassedOn::Unusable);
            }
            if way.len() == LEVELS_AT_ONCE_MAX && !waiting::is_allowed() && !store.facts().never_blocks {
                return Err(Error::WouldBlock);
            }
        };
        // Who is the last of the way said it, or is where the way was known from.
        let said_it = way.last().is_some_and(|(last, _)| *last == directory.identity());
        let (mut is_settled, mut of_way) = (false, Vec::with_capacity(way.len().min(REMEMBERED_OF_WAY_MAX)));
        for (level, directory) in way.iter().enumerate().rev() {
            if !is_settled && (level + 1 < way.len() || !said_it) {
                let below = passed_on.below();
                is_settled = below == passed_on;
                passed_on = below;
            }
            if level < REMEMBERED_OF_WAY_MAX {
                of_way.push((*directory, passed_on.clone()));
            }
        }
        self.remember(root, changes, found, of_way);
        Ok(passed_on)
    }

    /// What is known of a directory, and since when.
    fn known(&self, root: Identity, directory: Identity, path: &str) -> Option<(PassedOn, Instant)> {
        let known = self.known.read();
        if known.changes != self.changes.load(Ordering::SeqCst) {
            return None;
        }
        let entry = known.directories.get(&(root, directory)).filter(|entry| *entry.path == *path)?;
        (entry.found.elapsed() < BELIEVED_FOR).then(|| (entry.passed_on.clone(), entry.found))
    }

    /// Remembers what directories pass on that were asked after so many `changes`, at that time.
    fn remember(&self, root: Identity, changes: u64, found: Instant, of_way: Vec<((Identity, &str), PassedOn)>) {
        let mut known = self.known.write();
        if changes != self.changes.load(Ordering::SeqCst) {
            return;
        }
        if known.changes != changes {
            *known = Known { changes, ..Known::default() };
        }
        for ((directory, path), passed_on) in of_way {
            let bytes = size_of::<((Identity, Identity), Entry)>() + path.len() + passed_on.bytes();
            if bytes > BYTES_OF_ONE_MAX {
                continue;
            }
            if known.directories.len() >= DIRECTORIES_MAX || known.bytes + bytes > BYTES_MAX {
                *known = Known { changes, ..Known::default() };
            }
            // What was there is counted on: all are forgotten a little sooner.
            known.bytes += bytes;
            known.directories.insert((root, directory), Entry { path: path.into(), passed_on, found });
        }
    }
}

/// The directory that has the `file` whose path this is; `None` where that has something else by now.
fn which_has(store: &dyn Store, file: Identity, path: &SharePath) -> Result<Option<Arc<dyn Node>>, Error> {
    let (Some(above), Some(name)) = (path.parent(), path.name()) else { return Ok(None) };
    let Ok(name) = Name::new(name) else { return Ok(None) };
    let directory = match resolve(store, &above) {
        Err(Error::Gone) => return Ok(None),
        directory => directory?,
    };
    let has = match waiting::is_allowed() {
        true => directory.names()?.has(&name, file)?,
        false => directory.names()?.try_child(&name, Use::Metadata)?.is_some_and(|(_, child)| child.identity() == file),
    };
    Ok(has.then_some(directory))
}

/// The directory that a file lies in to which its path did not lead, or does so no longer, and its path: the system is asked where that is.
/// [`Error::Gone`] where it lies in the store no more.
fn where_it_lies(store: &dyn Store, node: &dyn Node) -> Result<(Arc<dyn Node>, SharePath), Error> {
    if !waiting::is_allowed() && !store.facts().never_blocks {
        return Err(Error::WouldBlock);
    }
    let place = node.place().and_then(|place| store.path_at(&place)).ok_or(Error::Gone)?;
    let directory = which_has(store, node.identity(), &place)?.ok_or(Error::Gone)?;
    Ok((directory, place.parent().unwrap_or_default()))
}

/// A path, that of the directory above, and so on up to the root's.
fn ways_up(path: &SharePath) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path.as_str()), |way: &&str| way_above(way))
}

fn way_above(way: &str) -> Option<&str> {
    match way.rsplit_once('\\') {
        Some((above, _)) => Some(above),
        None => Some("").filter(|_| !way.is_empty()),
    }
}

/// The directory that a path leads to.
fn resolve(store: &dyn Store, path: &SharePath) -> Result<Arc<dyn Node>, Error> {
    let resolved = match waiting::is_allowed() {
        true => store.resolve(path, Use::Metadata),
        false => store.try_resolve(path, Use::Metadata),
    };
    match resolved {
        Ok(Resolved::Found { node, .. }) if node.kind() == Kind::Directory => Ok(node),
        Ok(_) | Err(Error::NotFound | Error::PathNotFound | Error::NotDirectory) => Err(Error::Gone),
        Err(error) => Err(error),
    }
}

/// What a directory passes on by its own descriptor; `None` where it was given none.
fn by_own(directory: &dyn Node, reading: Reading) -> Result<Option<PassedOn>, Error> {
    match reading.of(directory) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => Ok(Some(decode(&bytes).map_or(PassedOn::Unusable, |own| PassedOn::by(&own)))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::descriptors::default_descriptor;
    use store::{NewNode, RamStore, effort};

    fn path(text: &str) -> SharePath {
        SharePath::parse(text).unwrap()
    }

    /// A RAM disk with directories in each other, of which none has a descriptor.
    fn chain(levels: usize) -> (RamStore, SharePath) {
        let store = RamStore::new(64 << 20);
        let new = NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
        let ways: Vec<_> = (1..=levels).map(|level| path(&["d"].repeat(level).join("\\"))).collect();
        ways.iter().for_each(|way| drop(store.create(way, new).unwrap()));
        (store, ways.last().unwrap().clone())
    }

    fn of(inheritance: &Inheritance, store: &dyn Store, directory: &SharePath) -> Result<PassedOn, Error> {
        inheritance.of(store, resolve(store, directory)?, directory, Reading::Whole)
    }

    fn closed() -> SecurityDescriptor {
        let mut closed = default_descriptor(Kind::Directory);
        closed.dacl.as_mut().unwrap().aces.truncate(1);
        closed
    }

    fn age(inheritance: &Inheritance, by: Duration) {
        inheritance.known.write().directories.values_mut().for_each(|entry| entry.found -= by);
    }

    #[test]
    fn what_another_program_changes_is_seen_after_two_seconds() {
        let (store, lowest) = chain(3);
        let inheritance = Inheritance::default();
        let look = || of(&inheritance, &store, &lowest).unwrap();
        assert_eq!(look(), PassedOn::Nothing);
        let top = resolve(&store, &path("d")).unwrap();
        top.extras().set_security(&closed().encode().unwrap()).unwrap();
        assert_eq!(look(), PassedOn::Nothing, "it is remembered");
        // What is found by what is remembered is not believed for longer than that.
        age(&inheritance, BELIEVED_FOR / 2);
        let new = NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
        store.create(&path("d\\d\\d\\e"), new).unwrap();
        assert_eq!(of(&inheritance, &store, &path("d\\d\\d\\e")), Ok(PassedOn::Nothing));
        age(&inheritance, BELIEVED_FOR / 2);
        assert_eq!(look(), PassedOn::by(&closed()).below().below());
        assert_eq!(of(&inheritance, &store, &path("d\\d\\d\\e")), Ok(look().below()));
    }

    #[test]
    fn what_the_server_changes_is_seen_at_once_and_not_undone_by_who_looked_before() {
        let (store, lowest) = chain(1);
        let inheritance = Inheritance::default();
        assert_eq!(of(&inheritance, &store, &lowest), Ok(PassedOn::Nothing));
        let before = inheritance.changes.load(Ordering::SeqCst);
        let directory = resolve(&store, &lowest).unwrap();
        directory.extras().set_security(&closed().encode().unwrap()).unwrap();
        inheritance.directory_changed();
        inheritance.remember(
            store.root(),
            before,
            Instant::now(),
            vec![((directory.identity(), "d"), PassedOn::Nothing)],
        );
        assert_eq!(of(&inheritance, &store, &lowest), Ok(PassedOn::by(&closed())));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let directory = |file| Identity { volume: 1, file };
        let inheritance = Inheritance::default();
        let remember = |file, passed_on| {
            inheritance.remember(directory(0), 0, Instant::now(), vec![((directory(file), ""), passed_on)]);
        };
        for number in 0..=DIRECTORIES_MAX as u64 {
            remember(number, PassedOn::Nothing);
        }
        assert_eq!(inheritance.known.read().directories.len(), 1);
        let with = |entries| {
            let ace = Ace::allow(Sid::EVERYONE, FILE_ALL, AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT);
            PassedOn::by(&SecurityDescriptor { dacl: Some(Acl { aces: vec![ace; entries] }), ..closed() })
        };
        for number in 0..2_000 {
            remember(number, with(50));
            assert!(inheritance.known.read().bytes <= BYTES_MAX);
        }
        remember(1, with(3_000));
        assert_ne!(inheritance.known(directory(0), directory(1), "").map(|(known, _)| known), Some(with(3_000)));
    }

    #[test]
    fn the_way_up_costs_as_much_as_it_is_long_and_is_gone_once() {
        const LEVELS: usize = 1_000;
        let (store, lowest) = chain(LEVELS);
        let inheritance = Inheritance::default();
        resolve(&store, &path("d")).unwrap().extras().set_security(&closed().encode().unwrap()).unwrap();
        let look = |path: &SharePath| {
            let directory = resolve(&store, path).unwrap();
            effort::of(|| inheritance.of(&store, directory, path, Reading::Whole).unwrap())
        };
        let (found, steps) = look(&lowest);
        assert_eq!(found, PassedOn::by(&closed()));
        assert!(steps <= 3 * LEVELS, "{steps}");
        assert_eq!(look(&lowest), (found.clone(), 0));
        let (beside, steps) = look(&lowest.parent().unwrap());
        assert_eq!((beside, steps), (found, 0));
    }
}
