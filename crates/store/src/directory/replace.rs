//! Has something else take the place of a file in one step: a symbolic link, or an empty file. Whatever fails, and whenever the server is killed, the name
//! leads to the one or to the other.

use std::sync::Arc;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Gid, RenameFlags, Uid};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::directory::calls::{chown_opened, symlinkat};
use crate::directory::errno::{error, opening};
use crate::directory::file::{OpenFile, link_target};
use crate::directory::folder::Folder;
use crate::directory::last_name::{Losing, bury};
use crate::directory::marks::Mark;
use crate::directory::names::{append_disk, to_shown};
use crate::directory::node::FileNode;
use crate::directory::outcome::{self, At};
use crate::directory::passing::Draft;
use crate::directory::quota::Quota;
use crate::directory::remove;
use crate::directory::stat::{file_type, stat, stat_at};
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{UnixOwner, create, security, streams};
use crate::{Error, Identity, Kind, Name, NewNode, Node, Replacement, Use, Waits, waiting};

/// The longest target, in bytes: what the kernel takes of one (PATH_MAX less its terminator).
const TARGET_BYTES_MAX: usize = 4_095;

/// Where a symbolic link leads, as clients see it.
pub(super) fn target(file: &OpenFile) -> Result<Option<String>, Error> {
    if !file.is_link {
        return Ok(None);
    }
    if file.waits != Waits::Never && !waiting::is_allowed() {
        return Err(Error::WouldBlock);
    }
    let disk = link_target(file.fd()).map_err(error)?;
    let names: Vec<String> = disk.split(|byte| *byte == b'/').map(to_shown).collect();
    Ok(Some(names.join("/")))
}

/// A target as it is stored.
fn stored(target: &str) -> Result<Vec<u8>, Error> {
    if target.is_empty() || target.contains('\0') {
        return Err(Error::Invalid);
    }
    let mut disk = Vec::with_capacity(target.len());
    for (index, name) in target.split('/').enumerate() {
        if index > 0 {
            disk.push(b'/');
        }
        append_disk(&mut disk, name);
    }
    if disk.len() > TARGET_BYTES_MAX { Err(Error::NameInvalid) } else { Ok(disk) }
}

/// Has `new` take the place of what has the name, which is `expected`.
pub(super) fn replace_with(
    directory: &OpenFile,
    name: &Name,
    expected: Identity,
    new: Replacement<'_>,
) -> Result<Arc<dyn Node>, Error> {
    let volume = &directory.volume;
    volume.check_writable()?;
    let target = new.target.map(stored).transpose()?;
    let (folder, wanted) = directory.wanted(name)?;
    let mut held = volume.cache.hold(folder.identity);
    let (disk, named) = remove::stored(volume, &mut held, &folder, &wanted, |disk| walk::named(&folder, disk))?;
    if named.own != expected {
        return Err(Error::NotFound);
    }
    let replacing = Replacing { volume, folder: &folder, disk: &disk, named: &named };
    let replaced = match &target {
        Some(target) => replacing.by_link(target, new),
        None => replacing.by_file(new),
    };
    held.forget(folder.identity);
    replaced.map(FileNode::open)
}

/// A name that is to lead to something else.
struct Replacing<'a> {
    volume: &'a Arc<Volume>,
    folder: &'a Folder<'a>,
    disk: &'a [u8],
    named: &'a Named,
}

impl Replacing<'_> {
    fn by_link(&self, target: &[u8], new: Replacement<'_>) -> Result<OpenFile, Error> {
        let given = create::made_for(self.volume, new.owner)?;
        self.volume.quota.as_ref().map_or(Ok(()), Quota::check_room_for_unit)?;
        self.by(|at| {
            symlinkat(target, at.folder, at.name).map_err(error)?;
            let mut made = self.open(at, target, given)?;
            fill(&mut made, new.security, given).inspect_err(|_| take_away(at, &made))?;
            Ok(made)
        })
    }

    fn by_file(&self, new: Replacement<'_>) -> Result<OpenFile, Error> {
        let new = NewNode { kind: Kind::File, attributes: 0, security: new.security, owner: new.owner };
        let mut made = self.by(|at| create::make_aside(self.volume, self.folder, at.name, new))?;
        made.dotted = self.disk.starts_with(b".");
        Ok(made)
    }

    /// Has what `make` makes take the place. A mark leads to it until then: where the server is killed meanwhile it goes when the folder is served again.
    fn by(&self, make: impl FnOnce(At<'_>) -> Result<OpenFile, Error>) -> Result<OpenFile, Error> {
        let draft = Draft::new()?;
        let mark = Mark::placing(self.volume, walk::path_in(self.volume, self.folder, self.disk), &draft)?;
        let at = self.folder.at(draft.name().as_bytes());
        let made = make(at).and_then(|made| {
            self.put(at, made.identity).inspect_err(|_| take_away(at, &made))?;
            Ok(made)
        });
        if made.is_err() && outcome::unlink(at, AtFlags::empty()).is_err() {
            mark.into_iter().for_each(Mark::leave);
        }
        made
    }

    /// Opens the link that was just made. Another program may have put something else there, which a client must not come to have by this, and which
    /// must not be given away. Other machines' file systems may say that what this process makes is somebody else's: there nothing can be given away.
    fn open(&self, at: At<'_>, target: &[u8], given: Option<UnixOwner>) -> Result<OpenFile, Error> {
        let opened = walk::open_in(self.volume, self.folder, at.name, Use::Metadata).map_err(opening)?;
        let found = stat(&opened.fd).map_err(error)?;
        let is_it = file_type(&found) == FileType::Symlink
            && (given.is_none() || found.stx_uid == geteuid().as_raw())
            && found.stx_nlink == 1
            && link_target(&opened.fd).is_ok_and(|found| found == target);
        if !is_it {
            return Err(Error::Denied);
        }
        if let Some(nameless) = self.volume.nameless() {
            nameless.note_made(opened.fd.as_fd());
        }
        OpenFile::new(self.volume, opened.fd, opened.reach, self.disk.starts_with(b"."))
    }

    /// Has `new`, which is at `draft`, have the name.
    fn put(&self, draft: At<'_>, new: Identity) -> Result<(), Error> {
        match self.named.kind {
            FileType::Directory => self.put_for_directory(draft, new),
            FileType::RegularFile | FileType::Symlink => self.put_for_file(draft, new),
            _ => Err(Error::Denied),
        }
    }

    fn put_for_file(&self, draft: At<'_>, new: Identity) -> Result<(), Error> {
        let at = self.folder.at(self.disk);
        let mut losing = Losing::look(self.volume, self.folder, self.disk, (self.named, None))?;
        let locked = self.volume.lock_file(self.named.own);
        losing.look_again(at)?;
        self.check_is_empty_file()?;
        match outcome::rename(new, draft, at, RenameFlags::empty()) {
            Ok(()) => losing.gone(locked),
            Err(errno) => {
                losing.failed(locked, at);
                return Err(error(errno));
            }
        }
        Ok(())
    }

    /// A file that has data, or other names, would lose them. A link's size is that of its target.
    fn check_is_empty_file(&self) -> Result<(), Error> {
        let found = stat_at(&self.folder.fd, self.disk).map_err(error)?;
        match (found.stx_size, found.stx_nlink) {
            (1.., _) if file_type(&found) == FileType::RegularFile => Err(Error::NotEmpty),
            (_, 1) => Ok(()),
            _ => Err(Error::TooManyLinks),
        }
    }

    /// No file takes a directory's place in one step: they change places, and then the directory goes, where it is empty.
    fn put_for_directory(&self, draft: At<'_>, new: Identity) -> Result<(), Error> {
        let at = self.folder.at(self.disk);
        let losing = Losing::look(self.volume, self.folder, self.disk, (self.named, None))?;
        let locked = self.volume.lock_file(self.named.own);
        let exchanged = match outcome::rename(new, draft, at, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL) => Err(Error::Unsupported),
            answer => answer.map_err(error),
        };
        let done = exchanged.and_then(|()| {
            outcome::unlink(draft, AtFlags::REMOVEDIR).map_err(|errno| {
                let _ = outcome::rename(new, at, draft, RenameFlags::EXCHANGE);
                if errno == Errno::EXIST { Error::NotEmpty } else { error(errno) }
            })
        });
        match done {
            Ok(()) => losing.gone(locked),
            Err(_) => losing.failed(locked, at),
        }
        if done.is_ok()
            && let Some(mut own) = self.volume.cache.try_hold(self.named.own)
        {
            own.forget(self.named.own);
        }
        done
    }
}

/// Takes away what took no place, and what is kept with it.
fn take_away(draft: At<'_>, made: &OpenFile) {
    let sides = streams::sides(&made.subject()).unwrap_or_default();
    if outcome::unlink(draft, AtFlags::empty()).is_ok() {
        bury(&made.subject(), &sides);
    }
}

/// Gives a link its descriptor and its owner. Where nothing can be kept with links it has what its directory passes on.
fn fill(link: &mut OpenFile, descriptor: Option<&[u8]>, owner: Option<UnixOwner>) -> Result<(), Error> {
    let sets = link.subject().sets() + u64::from(descriptor.is_some());
    match descriptor.map_or(Ok(()), |descriptor| security::save_first(link, descriptor)) {
        Ok(()) => descriptor.into_iter().for_each(|descriptor| security::made(link, descriptor, sets)),
        Err(Error::Unsupported) => {}
        Err(error) => return Err(error),
    }
    if let Some(UnixOwner { uid, gid }) = owner {
        chown_opened(link.fd(), Uid::from_raw(uid), Gid::from_raw(gid)).map_err(error)?;
    }
    // It has changed since it was opened.
    (*link.opened.get_mut(), *link.times_at_open.get_mut()) = (None, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::directory::calls;
    use crate::directory::folder::{Folder, Reach};
    use crate::directory::{DirectoryOptions, DirectoryStore};

    #[test]
    fn what_another_put_in_the_place_of_a_new_link_is_neither_taken_nor_given_away() {
        let place = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(place.path(), DirectoryOptions::default()).unwrap();
        let volume = &store.volume();
        std::fs::write(place.path().join("secret"), "secret").unwrap();
        symlink("target", place.path().join("link")).unwrap();
        symlink("elsewhere", place.path().join("other")).unwrap();
        symlink("target", place.path().join("twice")).unwrap();
        std::fs::hard_link(place.path().join("twice"), place.path().join("again")).unwrap();
        let root = calls::open(place.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let folder = Folder::new((root, Reach::Path)).unwrap();
        let named = walk::named(&folder, b"link").unwrap();
        let replacing = Replacing { volume, folder: &folder, disk: b"link", named: &named };
        let itself = UnixOwner { uid: geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        for given in [None, Some(itself)] {
            let open =
                |name: &str| replacing.open(folder.at(name.as_bytes()), b"target", given).map(|made| made.is_link);
            assert_eq!(open("link"), Ok(true));
            for name in ["secret", "other", "twice"] {
                assert_eq!(open(name), Err(Error::Denied), "{name}");
            }
        }
    }

    #[test]
    fn targets_are_stored_as_names_are() {
        assert_eq!(stored("../a\u{F03A}b/\u{F0FF}"), Ok(b"../a:b/\xFF".to_vec()));
        assert_eq!(stored("/usr/bin"), Ok(b"/usr/bin".to_vec()));
        assert_eq!(stored(&"x".repeat(TARGET_BYTES_MAX)).map(|disk| disk.len()), Ok(TARGET_BYTES_MAX));
        assert_eq!(stored(&"x".repeat(TARGET_BYTES_MAX + 1)), Err(Error::NameInvalid));
        for target in ["", "a\0b", "\0"] {
            assert_eq!(stored(target), Err(Error::Invalid), "{target:?}");
        }
    }
}
