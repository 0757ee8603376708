//! What would be left in the reserved folder for ever where the server is killed: links of files that are on their way to another name, or lose their last
//! one, and side files of files without a name. Their names tell what they are, and they are removed when the folder is served again. The same becomes of
//! what cannot be removed when it should be.
//!
//! | name in `.multilane` | what it is | what becomes of it |
//! |---|---|---|
//! | `.multilane.ID` | a link of a file ([`Draft`]) | it goes; where it was the last name, so do the file's side files |
//! | `nameless-SIDE`, empty | the side file SIDE is one of a file without a name ([`Nameless`]), or of none ([`leave`]) | both go |
//!
//! Other marks lead to files ([`marks`]).
//!
//! Nobody has what another process has left: files without a name end with the process, and a folder has one. What this process uses it knows.

use std::sync::{Arc, Weak};
use std::thread::Builder;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FileType;

use crate::directory::errno::error;
use crate::directory::finish::{self, SidesOf};
use crate::directory::last_name::{bury, sides_made, through};
use crate::directory::listing::each_name;
use crate::directory::names::{RESERVED, is_draft};
use crate::directory::passing::{Idle, NAMELESS, UsedName};
use crate::directory::reserved;
use crate::directory::side;
use crate::directory::stat::{self, born, file_type, identity};
use crate::directory::subject::Subject;
use crate::directory::volume::Volume;
use crate::directory::{marks, streams};
use crate::{Error, threads};
/// So many leftovers are removed before others may have the store to themselves.
const SLICE: usize = 64;

/// Removes what was left in a folder that this process alone serves. What leads to files is finished before any client can move or remove them; side
/// files of files without a name, of which there may be many, go on a thread of their own.
pub(super) fn sweep_first(volume: &Arc<Volume>) {
    if !volume.is_locked() {
        return;
    }
    let weak = Arc::downgrade(volume);
    sweep_all(&weak, |name| !is_nameless(name));
    // Where there is no thread it stays until the next time.
    let sweep_rest = move || sweep_all(&weak, is_nameless);
    let _ = threads::start(Builder::new().name("multilane-sweep".to_owned()), sweep_rest);
}

/// The same all at once.
#[cfg(test)]
pub(super) fn sweep(volume: &Weak<Volume>) {
    sweep_all(volume, |name| !is_nameless(name));
    sweep_all(volume, is_nameless);
}

fn sweep_all(volume: &Weak<Volume>, is_meant: impl Fn(&str) -> bool) {
    let look = |volume: Arc<Volume>| match leftovers(&volume, is_meant) {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::warn!(name: "leftover_kept", %error, "what was left in {RESERVED} cannot be looked for, and stays until the folder is served again");
            None
        }
    };
    let Some((found, sides)) = volume.upgrade().and_then(look) else { return };
    for slice in found.chunks(SLICE) {
        // The share may have gone meanwhile, and its folder may be served by another process then.
        let Some(volume) = volume.upgrade() else { return };
        let Ok(Some(folder)) = reserved::folder(&volume, false) else { return };
        for name in slice.iter().filter(|name| !UsedName::is_used(name)) {
            remove(&volume, &folder, (name, &sides));
        }
    }
}

fn leftovers(volume: &Volume, is_meant: impl Fn(&str) -> bool) -> Result<(Vec<String>, SidesOf), Error> {
    let (mut found, mut sides) = (Vec::new(), SidesOf::default());
    if let Some(folder) = reserved::folder(volume, false)? {
        let note = |entry: crate::directory::listing::Listed<'_>| {
            let name = std::str::from_utf8(entry.name).ok();
            found.extend(name.filter(|name| is_leftover(name) && is_meant(name)).map(str::to_owned));
        };
        each_name(&folder, note).map_err(error)?;
        // There may be many marks and many side files: these are looked through once for all of them.
        sides = SidesOf::those_that_leave(&found);
        if !sides.is_empty() {
            each_name(&folder, |entry| sides.note(entry.name)).map_err(error)?;
        }
    }
    // What goes with a file's last name goes before it is looked for by a mark.
    found.sort_by_key(|name| marks::is_mark(name));
    Ok((found, sides))
}

fn is_nameless(name: &str) -> bool {
    name.starts_with(NAMELESS)
}

fn is_leftover(name: &str) -> bool {
    is_nameless(name) || is_draft(name) || marks::is_mark(name)
}

fn remove(volume: &Arc<Volume>, folder: &OwnedFd, (name, sides): (&str, &SidesOf)) {
    match name.strip_prefix(NAMELESS) {
        Some(side) => side::remove_marked(volume, folder.as_fd(), side, name),
        None if marks::is_mark(name) => finish::finish(volume, folder.as_fd(), (name, sides)),
        None => {
            if let Err(error) = remove_link(volume, folder.as_fd(), name) {
                tracing::warn!(name: "leftover_kept", %error, "{RESERVED}/{name} may be a file's last name, and keep its room: it cannot be looked at or removed yet");
            }
        }
    }
}

/// Removes a name that counts for nothing, and what goes with its file where that has no other.
pub(super) fn remove_link(volume: &Arc<Volume>, folder: BorrowedFd<'_>, name: &str) -> Result<(), Error> {
    let file = volume.open_name(folder, name.as_bytes()).map_err(error)?;
    let stat = stat::stat(&file).map_err(error)?;
    if file_type(&stat) != FileType::RegularFile {
        return Ok(());
    }
    let subject = Subject { volume, place: through(file.as_fd()), identity: identity(&stat), born: born(&stat) };
    let locked = volume.lock_file(subject.identity);
    // From now on who has it open knows that this name counts for nothing.
    let idle = Idle::of(subject.identity, name);
    let is_last = idle.is_some() && stat::stat(&file).map_err(error)?.stx_nlink == 1;
    drop(locked);
    let bury = |sides: Vec<_>| {
        bury(&subject, &sides);
        sides
    };
    let sides = if is_last { streams::sides(&subject).map(bury) } else { Ok(Vec::new()) };
    let locked = volume.lock_file(subject.identity);
    let sides = sides.and_then(|sides| side::unlink_named(volume, folder, name).map(|()| sides).map_err(error));
    drop(idle);
    let sides = sides?;
    // Its last name but this one may have gone just now.
    let is_nameless = stat::stat(&file).is_ok_and(|stat| stat.stx_nlink == 0);
    let more = if is_nameless { sides_made(&subject, &sides)? } else { Vec::new() };
    drop(locked);
    side::remove_all(&more);
    Ok(())
}
