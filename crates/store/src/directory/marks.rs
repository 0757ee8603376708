//! Marks in the reserved folder that lead to a file: where the server is killed in the middle of a change, only the file can tell how far that came. A mark
//! is a symbolic link, made in one step, which nobody follows: it says where the file is, as a path from the share's root.
//!
//! | name in `.multilane` | what is under way | what becomes of it |
//! |---|---|---|
//! | `naming-SIDE` | the side file SIDE is made for the file at the path | it goes, unless the file names it |
//! | `leaving-VOLUME-FILE-BORN` | the file at the path, whose side files end so, gives some of them up | those go that the file does not name |
//! | `replaced-FILE-BORN` | a directory takes the place of a file and changes places with it first: the path is that which the directory had, `//`, and the file's | where the two have changed places they change back |
//! | `placing-ID` | something takes the place of what is at the path, and is called `.multilane.ID` beside it before | what is called so goes; a directory, which has changed places with a link, goes back |
//!
//! Where another program has moved the file meanwhile, or what it names cannot be read, nothing is done, and the mark of a side file stays. There is
//! none where the file system has no such links or no room for one: what that costs is told in `docs/SEMANTICS.md`.

use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::{symlinkat, unlinkat};
use crate::directory::errno::error;
use crate::directory::homes;
use crate::directory::passing::{Draft, Passing, UsedName};
use crate::directory::reserved;
use crate::directory::side_name::SideName;
use crate::directory::subject::Subject;
use crate::directory::volume::Volume;
use crate::directory::walk::Named;

/// Begins the name of the mark of a side file that no file names yet; that of the side file follows.
pub(super) const NAMING: &str = "naming-";
/// Begins the name of the mark of a file that gives side files up; their owner follows.
pub(super) const LEAVING: &str = "leaving";
/// Begins the name of the mark of a file that a directory replaces; its number and birth follow.
pub(super) const REPLACED: &str = "replaced-";
/// Begins the name of the mark of what takes a name that is taken; the id of its draft follows.
pub(super) const PLACING: &str = "placing-";
/// Between two paths. No path has it.
pub(super) const BETWEEN: &[u8] = b"//";

/// A change is under way, until this is dropped.
pub(super) struct Mark(Passing);

impl Mark {
    /// Of a side file that is about to be made for `subject`.
    pub(super) fn naming(subject: &Subject<'_>, side: &SideName) -> Result<Option<Self>, Error> {
        Mark::make(subject.volume, format!("{NAMING}{}", side.on_disk()), path_of(subject))
    }

    /// Of `subject`, which is about to name some of its side files no more.
    pub(super) fn leaving(subject: &Subject<'_>) -> Result<Option<Self>, Error> {
        Mark::make(subject.volume, format!("{LEAVING}{}", subject.owner()?.on_disk()), path_of(subject))
    }

    /// Of a file at the path `at`, which changes places with a directory at `from` before it goes.
    pub(super) fn replaced(
        volume: &Volume,
        from: Option<Vec<u8>>,
        at: Option<Vec<u8>>,
        file: &Named,
    ) -> Result<Option<Self>, Error> {
        let path = from.zip(at).map(|(from, at)| [&from, BETWEEN, &at].concat());
        Mark::make(volume, format!("{REPLACED}{}", number_and_birth(file)), path)
    }

    /// Of what is about to be made with the name of `draft`, and then takes the place of what is at the path `at`, in the same directory.
    pub(super) fn placing(volume: &Volume, at: Option<Vec<u8>>, draft: &Draft) -> Result<Option<Self>, Error> {
        Mark::make(volume, format!("{PLACING}{}", draft.id()), at)
    }

    /// `None` where there can be none.
    fn make(volume: &Volume, name: String, path: Option<Vec<u8>>) -> Result<Option<Self>, Error> {
        let Some(path) = path else { return Ok(None) };
        let folder = match reserved::folder(volume, true) {
            Ok(Some(folder)) => folder,
            Ok(None) | Err(Error::Denied | Error::Full | Error::ReadOnly) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Where this fails it may have been made: then it goes again.
        let mark = Mark(Passing::new(folder, UsedName::new(name)));
        match mark.link(&path) {
            Ok(()) => Ok(Some(mark)),
            Err(errno) if is_impossible(errno) => Ok(None),
            Err(errno) => Err(error(errno)),
        }
    }

    fn link(&self, path: &[u8]) -> Result<(), Errno> {
        let Passing { folder, name, .. } = &self.0;
        let make = || symlinkat(path, folder, name.as_str());
        match make() {
            // What has the name was left when the server was killed, and may lead elsewhere.
            Err(Errno::EXIST | Errno::INTR) => {
                unlinkat(folder, name.as_str(), AtFlags::empty())?;
                make()
            }
            answer => answer,
        }
    }

    /// How far the change came cannot be told: that is seen when the folder is served again.
    pub(super) fn leave(self) {
        self.0.leave();
    }
}

/// The path of a file from the share's root.
fn path_of(subject: &Subject<'_>) -> Option<Vec<u8>> {
    let path = homes::path(subject).and_then(|place| subject.volume.below_root(&place))?;
    // The root may have streams, too.
    Some(if path.is_empty() { b".".to_vec() } else { path })
}

/// True for what a file system without symbolic links says, and one that has no room for one.
fn is_impossible(errno: Errno) -> bool {
    let has_none = matches!(errno, Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS | Errno::ROFS);
    has_none || matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::NAMETOOLONG)
}

pub(super) fn is_mark(name: &str) -> bool {
    [NAMING, LEAVING, REPLACED, PLACING].iter().any(|begins| name.starts_with(begins))
}

pub(super) fn number_and_birth(file: &Named) -> String {
    format!("{:x}-{:x}", file.own.file, file.born)
}
