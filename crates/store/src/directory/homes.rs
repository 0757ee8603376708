//! Where side files may lie: in the reserved folder of the root that the file is reached through, as a rule. Where shares' folders lie in each
//! other, or another program has moved the file from one to another, in that of another root: of one that the file lies in, which need not be served any
//! more, or of one that this process serves on the same file system. Random ids make it safe to look for them there.
//!
//! None is lost before all of that was looked at. What cannot be looked at is an error.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::directory::calls::{open, openat, readlinkat};
use crate::directory::errno::opening;
use crate::directory::names::RESERVED;
use crate::directory::reserved;
use crate::directory::roots::{outwards, served};
use crate::directory::stat::{identity, stat};
use crate::directory::subject::{Place, Subject};
use crate::{Error, Identity, Waits, waiting};

/// How often the directories are looked at that a file lies in, while other programs move them.
const LOOKS_MAX: usize = 8;

/// Who else may write there might have put anything in the place of a side file.
const OTHERS_WRITE: u16 = 0o022;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The reserved folder of a root.
pub(super) struct Home {
    pub(super) folder: OwnedFd,
    /// The root's file system.
    pub(super) volume: u64,
}

impl Home {
    /// True where both are one.
    pub(super) fn is(&self, other: &Home) -> bool {
        let [own, others] = [self, other].map(|home| stat(&home.folder).map(|stat| identity(&stat)));
        self.volume == other.volume && own.is_ok() && own == others
    }
}

/// Asks where a side file of `subject` may lie until that is found; `None` where it is lost. [`Error::WouldBlock`] where that has to be waited for.
pub(super) fn ask<T>(
    subject: &Subject<'_>,
    mut ask: impl FnMut(&Home) -> Result<T, Errno>,
) -> Result<Option<T>, Error> {
    Ok(find(subject, |home| ask(home))?.map(|(_, answer)| answer))
}

/// The same with the place.
pub(super) fn find<T>(
    subject: &Subject<'_>,
    mut ask: impl FnMut(&Home) -> Result<T, Errno>,
) -> Result<Option<(Home, T)>, Error> {
    let volume = subject.volume;
    if volume.waits != Waits::Never && !waiting::is_allowed() {
        return Err(Error::WouldBlock);
    }
    let mut ask = |folder: OwnedFd, volume: u64| {
        let home = Home { folder, volume };
        match ask(&home) {
            Err(Errno::NOENT) => Ok(None),
            answer => answer.map(|answer| Some((home, answer))).map_err(opening),
        }
    };
    if let Some(own) = reserved::folder(volume, false)?
        && let Some(found) = ask(own, volume.identity.volume)?
    {
        return Ok(Some(found));
    }
    // What lies elsewhere may have to be waited for, also where this is memory.
    if !waiting::is_allowed() {
        return Err(Error::WouldBlock);
    }
    match find_above(subject, &mut ask)? {
        None => find_served(subject, &mut ask),
        found => Ok(found),
    }
}

/// Looks in the directories that the file lies in, outwards.
fn find_above<T>(
    subject: &Subject<'_>,
    ask: &mut impl FnMut(OwnedFd, u64) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let link = link(subject);
    for _ in 0..LOOKS_MAX {
        let place = place(&link);
        let start = directory(&link, place.as_deref()).map_err(opening)?;
        let start = start.as_ref().map_or(subject.volume.fence.root(), AsFd::as_fd);
        for found in outwards(start) {
            let (identity, directory) = match found {
                // Where we may not look no server of ours has kept anything.
                Err(Errno::ACCESS) => break,
                found => found.map_err(opening)?,
            };
            if let Some(home) = home(&directory, identity, subject.volume.identity)?
                && let Some(found) = ask(home, identity.volume)?
            {
                return Ok(Some(found));
            }
        }
        if self::place(&link) == place {
            return Ok(None);
        }
    }
    // They are moved all the time.
    Err(Error::Io(Errno::BUSY.raw_os_error()))
}

/// True where the file lies in no other folder that is served.
pub(super) fn has_one_root(subject: &Subject<'_>) -> Result<bool, Error> {
    let link = link(subject);
    let start = directory(&link, place(&link).as_deref()).map_err(opening)?;
    let start = start.as_ref().map_or(subject.volume.fence.root(), AsFd::as_fd);
    let roots: Vec<Identity> = served().iter().map(|root| root.identity).collect();
    let is_another = |found: Identity| found != subject.volume.identity && roots.contains(&found);
    Ok(!outwards(start).map_while(Result::ok).any(|(identity, _)| is_another(identity)))
}

/// Looks in the other folders that are served on the file's own file system, or on the root's.
fn find_served<T>(
    subject: &Subject<'_>,
    ask: &mut impl FnMut(OwnedFd, u64) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let own = subject.volume.identity;
    for root in served() {
        let is_near = [own.volume, subject.identity.volume].contains(&root.identity.volume);
        if !is_near || root.identity == own {
            continue;
        }
        if let Some(home) = reserved(root.fence.root())?
            && let Some(found) = ask(home, root.identity.volume)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The reserved folder of a directory that is no known root, where it is one of a server like us.
fn home(directory: &OwnedFd, identity: Identity, own: Identity) -> Result<Option<OwnedFd>, Error> {
    if identity == own {
        return Ok(None);
    }
    let Some(home) = reserved(directory)? else { return Ok(None) };
    let found = stat(&home).map_err(opening)?;
    let is_ours = [geteuid().as_raw(), 0].contains(&found.stx_uid) && found.stx_mode & OTHERS_WRITE == 0;
    Ok(is_ours.then_some(home))
}

/// The reserved folder of a directory, which is not read itself: whose it is can be told of one that may not be.
fn reserved(directory: impl AsFd) -> Result<Option<OwnedFd>, Error> {
    match openat(directory, RESERVED, OFlags::PATH | OFlags::NOFOLLOW | DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        answer => answer.map(Some).map_err(opening),
    }
}

/// The link of `/proc` to the file, or to the directory that its name is in.
fn link(subject: &Subject<'_>) -> Vec<u8> {
    match &subject.place {
        Place::Open(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes(),
        Place::Through(link) => link.clone().into_bytes(),
        Place::Named(path) => above(path).to_vec(),
        Place::Link => Vec::new(),
    }
}

/// Where the file is on this machine now, as well as the kernel can tell.
pub(super) fn path(subject: &Subject<'_>) -> Option<Vec<u8>> {
    let mut path = place(&link(subject))?;
    if let Place::Named(named) = &subject.place {
        path.extend_from_slice(named.get(above(named).len()..)?);
    }
    Some(path)
}

fn above(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |end| &path[..end.max(1)])
}

/// Where it leads now.
fn place(link: &[u8]) -> Option<Vec<u8>> {
    readlinkat(CWD, link, Vec::new()).ok().map(|place| place.into_bytes())
}

/// The directory that the file lies in, or is; `None` where that is gone.
fn directory(link: &[u8], place: Option<&[u8]>) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::PATH | DIRECTORY;
    let found = match open(link, flags, Mode::empty()) {
        Err(Errno::NOTDIR) => open(above(place.unwrap_or_default()), flags | OFlags::NOFOLLOW, Mode::empty()),
        answer => answer,
    };
    match found {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::directory::{DirectoryOptions, DirectoryStore};
    use crate::waiting::{Forbidden, forbid};
    use crate::{Error, Kind, NewNode, Node, Renewal, Resolved, SharePath, Store, Use};

    /// Does what a thread does that must not wait.
    fn without_waiting<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let work = || {
            forbid(Forbidden::Panics);
            work()
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn who_must_not_wait_looks_in_the_own_folder_alone() {
        let memory = Path::new("/dev/shm");
        if !memory.is_dir() {
            return;
        }
        let folder = tempfile::tempdir_in(memory).unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        let open = |path: &Path| DirectoryStore::open(path, DirectoryOptions::default()).unwrap();
        let (outer, inner) = (open(folder.path()), open(&folder.path().join("inner")));
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        let made = inner.create(&SharePath::parse("file").unwrap(), new).unwrap();
        made.extras().create_stream("s").unwrap().write_at(&[1; 9_000], 0).unwrap();
        let path = SharePath::parse("inner\\file").unwrap();
        let Resolved::Found { node: seen, .. } = outer.resolve(&path, Use::ReadWrite).unwrap() else { panic!() };
        let read =
            |node: &dyn Node| node.extras().stream("s").and_then(|found| found.unwrap().1.try_read_at(&mut [0], 0));
        assert_eq!(without_waiting(|| read(&*made)), Ok(1));
        let changes: [&(dyn Fn() -> Result<(), Error> + Sync); 4] = [
            &|| read(&*seen).map(drop),
            &|| seen.extras().create_stream("s").map(drop),
            &|| seen.extras().remove_stream("s"),
            &|| seen.renew(&Renewal::default()).map_err(|failed| failed.error),
        ];
        for change in changes {
            let change = || {
                let _held = seen.try_hold().unwrap();
                change()
            };
            assert_eq!(without_waiting(change), Err(Error::WouldBlock));
        }
        assert_eq!(read(&*seen), Ok(1), "nothing went");
        // What is open answers at once: it lies in the same memory.
        let stream = seen.extras().stream("s").unwrap().unwrap().1;
        stream.prepare(Use::ReadWrite).unwrap();
        stream.read_at(&mut [0], 0).unwrap();
        assert_eq!(without_waiting(|| stream.try_read_at(&mut [0; 9_000], 0)), Ok(9_000));
        let write = || {
            let _held = stream.try_hold().unwrap();
            stream.write_at(&[2], 0)
        };
        without_waiting(write).unwrap();
    }
}
