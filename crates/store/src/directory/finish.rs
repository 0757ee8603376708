//! Finishes what marks in the reserved folder are about ([`super::marks`]), when the folder is served again.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::{readlinkat, unlinkat};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::{Folder, Reach};
use crate::directory::leftovers::remove_link;
use crate::directory::marks::{BETWEEN, LEAVING, NAMING, PLACING, REPLACED, number_and_birth};
use crate::directory::names::{DRAFT, RESERVED, is_draft};
use crate::directory::outcome::At;
use crate::directory::passing::UsedName;
use crate::directory::side_name::ID_BYTES;
use crate::directory::stat::{born, file_type, identity, stat, stat_at};
use crate::directory::subject::{Place, Subject};
use crate::directory::volume::Volume;
use crate::directory::walk::Named;
use crate::directory::{outcome, passing, side, streams};

/// The side files of those that have a mark because they give some up, by owner.
#[derive(Default)]
pub(super) struct SidesOf(HashMap<String, Vec<String>>);

impl SidesOf {
    /// Those of all whose mark is among `names`; none are known yet.
    pub(super) fn those_that_leave(names: &[String]) -> Self {
        let owners = names.iter().filter_map(|name| name.strip_prefix(LEAVING));
        SidesOf(owners.map(|owner| (owner.to_owned(), Vec::new())).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A name in the reserved folder.
    pub(super) fn note(&mut self, name: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if let Some(sides) = name.get(2 * ID_BYTES..).and_then(|owner| self.0.get_mut(owner)) {
            sides.push(name.to_owned());
        }
    }

    fn of(&self, owner: &str) -> &[String] {
        self.0.get(owner).map_or(&[], Vec::as_slice)
    }
}

/// Finishes what was under way when the server was killed. Where that cannot be done the mark stays.
pub(super) fn finish(volume: &Arc<Volume>, folder: BorrowedFd<'_>, (mark, sides): (&str, &SidesOf)) {
    if mark.starts_with(REPLACED) {
        if let Err(error) = finish_replacing(volume, folder, mark) {
            tracing::warn!(name: "leftover_kept", %error, "{RESERVED}/{mark} leads to a file and a directory in each other's place: they cannot be put back yet");
        }
        return;
    }
    if mark.starts_with(PLACING) {
        if let Err(error) = finish_placing(volume, folder, mark) {
            tracing::warn!(name: "leftover_kept", %error, "{RESERVED}/{mark} leads to what was to take the place of something, which keeps its directory from being removed: it cannot be taken away yet");
        }
        return;
    }
    if let Err(error) = finish_naming(volume, folder, (mark, sides)) {
        tracing::warn!(name: "leftover_kept", %error, "what {RESERVED}/{mark} is about may belong to nothing and keep its room: its file is not where it was, or cannot be looked at");
    }
}

fn end(folder: BorrowedFd<'_>, mark: &str) -> Result<(), Error> {
    unlinkat(folder, mark, AtFlags::empty()).map_err(error)
}

/// Removes the side files that a mark is about and that its file does not name. [`Error::Gone`] where the file is somewhere else.
fn finish_naming(volume: &Volume, folder: BorrowedFd<'_>, (mark, sides): (&str, &SidesOf)) -> Result<(), Error> {
    let sides = sides_of(folder, (mark, sides))?;
    if sides.is_empty() {
        return end(folder, mark);
    }
    let path = readlinkat(folder, mark, Vec::new()).map_err(error)?;
    let file = volume.fence.open(path.as_bytes(), OFlags::PATH, Wait::May).map_err(error)?;
    let stat = stat(&file).map_err(error)?;
    let place = Place::Through(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let subject = Subject { volume, place, identity: identity(&stat), born: born(&stat) };
    // Who makes the side file anew has the file locked.
    let _held = volume.lock_file(subject.identity);
    if UsedName::is_used(mark) {
        return Ok(());
    }
    let (owner, named) = (subject.owner()?, streams::named(&subject)?);
    for side in sides.iter().filter(|side| !named.contains(side)) {
        if !owner.is_in(side) {
            return Err(Error::Gone);
        }
        side::unlink_named(volume, folder, side).map_err(error)?;
    }
    end(folder, mark)
}

/// The side files that a mark is about, as far as they are there and are not those of a file without a name, which go by another mark.
fn sides_of(folder: BorrowedFd<'_>, (mark, sides): (&str, &SidesOf)) -> Result<Vec<String>, Error> {
    let about = match mark.strip_prefix(NAMING) {
        Some(side) => vec![side.to_owned()],
        None => sides.of(mark.strip_prefix(LEAVING).unwrap_or_default()).to_vec(),
    };
    let mut left = Vec::new();
    for side in about {
        if is_there(folder, &side)? && !is_there(folder, &passing::nameless(&side))? {
            left.push(side);
        }
    }
    Ok(left)
}

fn is_there(folder: BorrowedFd<'_>, name: &str) -> Result<bool, Error> {
    match stat_at(folder, name.as_bytes()) {
        Err(Errno::NOENT) => Ok(false),
        answer => answer.map(|_| true).map_err(error),
    }
}

/// Puts a file that has changed places with a directory back, and the directory: nobody was told that it has replaced the file.
fn finish_replacing(volume: &Arc<Volume>, folder: BorrowedFd<'_>, mark: &str) -> Result<(), Error> {
    let path = readlinkat(folder, mark, Vec::new()).map_err(error)?;
    let path = path.as_bytes();
    let between = path.windows(BETWEEN.len()).position(|bytes| bytes == BETWEEN);
    if let Some(between) = between
        && let Some((file, name)) = look(volume, &path[..between])?
        && let Some((place, taken)) = look(volume, &path[between + BETWEEN.len()..])?
    {
        let mut held = volume.cache.hold_both(file.identity, place.identity);
        if UsedName::is_used(mark) {
            return Ok(());
        }
        let is_directory = named(&place, taken)?.is_some_and(|found| found.kind == FileType::Directory);
        let replaced = named(&file, name)?.filter(|found| is_directory && is_of(found, mark));
        if let Some(replaced) = replaced {
            held.forget(file.identity);
            held.forget(place.identity);
            outcome::rename(replaced.own, file.at(name), place.at(taken), RenameFlags::EXCHANGE).map_err(error)?;
        }
    }
    end(folder, mark)
}

/// Takes away what was to take the place of something. A directory has changed places with it before it goes: then it is put back, as nobody was told
/// that it has gone.
fn finish_placing(volume: &Arc<Volume>, folder: BorrowedFd<'_>, mark: &str) -> Result<(), Error> {
    let path = readlinkat(folder, mark, Vec::new()).map_err(error)?;
    let draft = mark.replacen(PLACING, DRAFT, 1);
    if let Some((place, taken)) = look(volume, path.as_bytes())?
        && is_draft(&draft)
    {
        let mut held = volume.cache.hold(place.identity);
        if UsedName::is_used(mark) {
            return Ok(());
        }
        held.forget(place.identity);
        let (at, taken) = (place.at(draft.as_bytes()), place.at(taken));
        match named(&place, at.name)?.map(|found| (found.kind, found)) {
            Some((FileType::RegularFile, _)) => remove_link(volume, at.folder, &draft)?,
            Some((FileType::Symlink, link)) => unlink_link(volume, at, (&draft, link))?,
            Some((FileType::Directory, own)) => match named(&place, taken.name)? {
                None => outcome::rename_to_free_name(own.own, at, taken).map_err(error)?,
                Some(link) if link.kind == FileType::Symlink => {
                    outcome::rename(own.own, at, taken, RenameFlags::EXCHANGE).map_err(error)?;
                    unlink_link(volume, at, (&draft, link))?;
                }
                Some(_) => return Err(Error::Exists),
            },
            Some(_) | None => {}
        }
    }
    end(folder, mark)
}

/// Takes a link away, and first what is kept with it.
fn unlink_link(volume: &Volume, at: At<'_>, (draft, link): (&str, Named)) -> Result<(), Error> {
    let kept = Subject { volume, place: Place::Link, identity: link.own, born: link.born };
    match kept.bury_folder() {
        Ok(()) | Err(Error::NotFound) => side::unlink_named(volume, at.folder, draft).map_err(error),
        Err(error) => Err(error),
    }
}

/// The directory that the last name of a path is in, and that name; `None` where there is no such directory.
fn look<'p>(volume: &Volume, path: &'p [u8]) -> Result<Option<(Folder<'static>, &'p [u8])>, Error> {
    let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(end) => (&path[..end], &path[end + 1..]),
        None => (&[] as &[u8], path),
    };
    match volume.fence.open(above, OFlags::PATH | OFlags::DIRECTORY, Wait::May) {
        Ok(fd) => Ok(Some((Folder::new((fd, Reach::Path)).map_err(error)?, name))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(error(errno)),
    }
}

/// What has a name, be that a link that leads nowhere.
fn named(folder: &Folder<'_>, name: &[u8]) -> Result<Option<Named>, Error> {
    let own = match stat_at(&folder.fd, name) {
        Err(Errno::NOENT) => return Ok(None),
        own => own.map_err(error)?,
    };
    let identity = identity(&own);
    Ok(Some(Named { kind: file_type(&own), own: identity, links: own.stx_nlink, born: born(&own) }))
}

/// True for the file that a mark is of.
fn is_of(found: &Named, mark: &str) -> bool {
    let is_file = matches!(found.kind, FileType::RegularFile | FileType::Symlink);
    is_file && mark.strip_prefix(REPLACED) == Some(number_and_birth(found).as_str())
}
