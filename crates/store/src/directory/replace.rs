//! Has something else take the place of a file in one step: a symbolic link, or an empty file. Whatever fails, and whenever the server is killed, the name
//! leads to the one or to the other.

use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Gid, RenameFlags, Uid};
use rustix::io::Errno;

use crate::directory::calls::{chownat, symlinkat};
use crate::directory::errno::{error, opening};
use crate::directory::file::{OpenFile, link_target};
use crate::directory::folder::Folder;
use crate::directory::last_name::Losing;
use crate::directory::marks::Mark;
use crate::directory::names::{append_disk, to_shown};
use crate::directory::node::FileNode;
use crate::directory::outcome::{self, At};
use crate::directory::passing::Draft;
use crate::directory::remove;
use crate::directory::stat::stat_at;
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{UnixOwner, create};
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
    let target = match new {
        Replacement::Link(target) => Some(stored(target)?),
        Replacement::File => None,
    };
    let (folder, wanted) = directory.wanted(name)?;
    let mut held = volume.cache.hold(folder.identity);
    let (disk, named) = remove::stored(volume, &mut held, &folder, &wanted, |disk| walk::named(&folder, disk))?;
    if named.own != expected {
        return Err(Error::NotFound);
    }
    let replacing = Replacing { volume, folder: &folder, disk: &disk, named: &named };
    let replaced = match &target {
        Some(target) => replacing.by_link(target),
        None => replacing.by_file(),
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
    fn by_link(&self, target: &[u8]) -> Result<OpenFile, Error> {
        self.by(|at| {
            symlinkat(target, at.folder, at.name).map_err(error)?;
            self.given_to_owner(at)?;
            self.open(at)
        })
    }

    fn by_file(&self) -> Result<OpenFile, Error> {
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
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
            self.put(at, made.identity)?;
            Ok(made)
        });
        if made.is_err() && outcome::unlink(at, AtFlags::empty()).is_err() {
            mark.into_iter().for_each(Mark::leave);
        }
        made
    }

    /// Whose new files are, new links are.
    fn given_to_owner(&self, at: At<'_>) -> Result<(), Error> {
        let Some(UnixOwner { uid, gid }) = self.volume.owner else { return Ok(()) };
        chownat(at.folder, at.name, Uid::from_raw(uid), Gid::from_raw(gid)).map_err(error)
    }

    fn open(&self, at: At<'_>) -> Result<OpenFile, Error> {
        let opened = walk::open_in(self.volume, self.folder, at.name, Use::Metadata).map_err(opening)?;
        let made = OpenFile::new(self.volume, opened.fd, opened.reach, self.disk.starts_with(b"."))?;
        // Another program may have put something else there, whose data a client must not come to have by this.
        if made.is_link { Ok(made) } else { Err(Error::Denied) }
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

    /// A file that has data, or other names, would lose them.
    fn check_is_empty_file(&self) -> Result<(), Error> {
        if self.named.kind != FileType::RegularFile {
            return Ok(());
        }
        let found = stat_at(&self.folder.fd, self.disk).map_err(error)?;
        match (found.stx_size, found.stx_nlink) {
            (0, 1) => Ok(()),
            (0, _) => Err(Error::TooManyLinks),
            _ => Err(Error::NotEmpty),
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

#[cfg(test)]
mod tests {
    use super::*;

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
