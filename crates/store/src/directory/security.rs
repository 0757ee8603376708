//! Security descriptors: kept as they are, in an attribute, or, where that has no room for one, in a side file.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::directory::calls::fsync;
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::keys::{SECURITY, SECURITY_SIDE};
use crate::directory::leaving::Leaving;
use crate::directory::marks::Mark;
use crate::directory::quota::Growth;
use crate::directory::remembered::Asker;
use crate::directory::reserved;
use crate::directory::side::Whose;
use crate::directory::side_name::{NAME_BYTES_MAX, SideName};
use crate::directory::stat::{Stamp, stat};
use crate::directory::subject::Subject;
use crate::directory::{data, side, unfinished};
use crate::{ChangeSecurity, Error, Use, Waits, waiting};

/// The longest security descriptor. An ACL has at most 64 KiB (MS-DTYP 2.4.5), and a descriptor two of them.
const DESCRIPTOR_BYTES_MAX: usize = 256 * 1024;

/// The longest descriptor that a node remembers: an open is charged for no more.
const REMEMBERED_BYTES_MAX: usize = 512;

/// A descriptor that leaves room for more on any file system, as long as nothing else is kept with the file.
const SHORT_BYTES_MAX: usize = 512;

/// How often a descriptor is looked for while others replace it.
const LOOKS_MAX: usize = 8;

/// The stored descriptor; `None` where there never was one. One that there is and that cannot be had is an error, and so is one that the
/// file did not come to have: the server was killed while it made it.
pub(super) fn load(file: &OpenFile) -> Result<Option<Vec<u8>>, Error> {
    load_within(file, DESCRIPTOR_BYTES_MAX)
}

/// The same where it has `bytes_max` at the most: [`Error::WouldBlock`] where it is longer.
pub(super) fn load_within(file: &OpenFile, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
    let has_at_most = |found: &Option<Vec<u8>>, bytes| found.as_ref().is_none_or(|found| found.len() <= bytes);
    let look = || load_with(file, bytes_max, adopt);
    let keeps = |found: &Option<Vec<u8>>| has_at_most(found, REMEMBERED_BYTES_MAX);
    let may_wait = waiting::is_allowed();
    let found = match (file.waits, if may_wait { file.security.just_made(file) } else { None }) {
        (_, Some(made)) => made,
        (Waits::ForData, None) => match if may_wait { file.times_at_open.lock().take() } else { None } {
            Some(then) => file.security.ask_anew(file, then, Asker::Anybody, look, keeps)?,
            None => file.security.ask(file, Stamp::of(&file.stat()?), Asker::Anybody, look, keeps)?,
        },
        (Waits::Never | Waits::Always, None) => look()?,
    };
    if has_at_most(&found, bytes_max) { Ok(found) } else { Err(Error::WouldBlock) }
}

/// The same with what becomes of a descriptor in a side file.
fn load_with(
    file: &OpenFile,
    bytes_max: usize,
    adopt: impl Fn(&OpenFile, &SideName, &[u8]),
) -> Result<Option<Vec<u8>>, Error> {
    let found = find(file, bytes_max, adopt)?;
    // What was finished stays so.
    if found.is_none() && file.was_unfinished && is_unfinished(file)? {
        return Err(Error::Io(Errno::IO.raw_os_error()));
    }
    Ok(found)
}

/// True where a file has the mode that those have which are being made.
pub(super) fn is_unfinished(file: &OpenFile) -> Result<bool, Error> {
    Ok(unfinished::is_unfinished(&stat(file.fd()).map_err(error)?))
}

fn find(
    file: &OpenFile,
    bytes_max: usize,
    adopt: impl Fn(&OpenFile, &SideName, &[u8]),
) -> Result<Option<Vec<u8>>, Error> {
    let subject = file.subject();
    let in_attribute = || match subject.load_within(SECURITY, bytes_max) {
        Err(Error::TooLarge) if bytes_max < DESCRIPTOR_BYTES_MAX => Err(Error::WouldBlock),
        found => found,
    };
    for _ in 0..LOOKS_MAX {
        let sets = subject.sets();
        if let Some(descriptor) = in_attribute()? {
            return Ok(Some(descriptor));
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        let length = match subject.load(SECURITY_SIDE, &mut bytes) {
            Ok(None) if subject.sets() == sets => return Ok(None),
            // Between the two looks it may have moved from a side file into the attribute.
            Ok(None) => return in_attribute(),
            Ok(Some(length)) => length,
            Err(Error::TooLarge) => break,
            Err(error) => return Err(error),
        };
        let Some(side) = SideName::decode(&bytes[..length]) else { break };
        match side::open(&subject, &side, Use::Read) {
            // It may have been replaced just now.
            Err(Error::Gone) => {}
            opened => {
                let opened = opened?;
                if bytes_max < DESCRIPTOR_BYTES_MAX && data::length(&opened.fd).map_err(error)? > bytes_max as u64 {
                    return Err(Error::WouldBlock);
                }
                let descriptor = load_side(&opened.fd)?;
                if opened.whose == Whose::Anothers {
                    adopt(file, &side, &descriptor);
                }
                return Ok(Some(descriptor));
            }
        }
    }
    Err(Error::Io(Errno::IO.raw_os_error()))
}

/// Keeps a descriptor that was copied with the file's attributes as this file's own, where that can be done now: it goes with the file
/// that it was copied from.
fn adopt(file: &OpenFile, side: &SideName, descriptor: &[u8]) {
    let subject = file.subject();
    // Who must not wait does not, in memory either: others may be changing the file.
    if !waiting::is_allowed() || file.volume.check_writable().is_err() {
        return;
    }
    let _held = file.volume.lock_file(file.identity);
    let is_unchanged = side_name(&subject) == Ok(Some(*side)) && subject.load_all(SECURITY) == Ok(None);
    if is_unchanged {
        // Until there is room it is read where it is.
        let _ = save_in_side_file(file, descriptor);
    }
}

/// True where there is a descriptor, or something that is none and is in its place.
pub(super) fn is_there(file: &OpenFile) -> Result<bool, Error> {
    let mut nothing = [0; 0];
    let subject = file.subject();
    for key in [SECURITY, SECURITY_SIDE] {
        match subject.load(key, &mut nothing) {
            Ok(None) => {}
            Err(Error::WouldBlock) => return Err(Error::WouldBlock),
            Ok(Some(_)) | Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

fn load_side(fd: &OwnedFd) -> Result<Vec<u8>, Error> {
    let length = data::length(fd).map_err(error)?.min(DESCRIPTOR_BYTES_MAX as u64);
    let mut descriptor = vec![0; usize::try_from(length).unwrap_or(0)];
    let count = data::read(fd, &mut descriptor, 0).map_err(error)?;
    descriptor.truncate(count);
    Ok(descriptor)
}

/// Has a node know the descriptor that its file was made with, when this process had set something `sets` times.
pub(super) fn made(file: &OpenFile, descriptor: &[u8], sets: u64) {
    if descriptor.len() <= REMEMBERED_BYTES_MAX {
        file.security.made(Some(descriptor.to_vec()), sets);
    }
}

/// Stores the descriptor of a new file.
pub(super) fn save_first(file: &OpenFile, descriptor: &[u8]) -> Result<(), Error> {
    // Nothing else is kept with it that would leave no room for the record.
    if descriptor.len() <= SHORT_BYTES_MAX
        && let Ok(()) = file.subject().put_back(SECURITY, descriptor)
    {
        return Ok(());
    }
    save(file, descriptor)
}

fn save(file: &OpenFile, descriptor: &[u8]) -> Result<(), Error> {
    match file.subject().save(SECURITY, descriptor) {
        Err(Error::TooLarge | Error::Full) if !file.is_link => save_in_side_file(file, descriptor),
        answer => answer,
    }
}

/// Stores what `change` makes of the descriptor there is.
pub(super) fn change(file: &OpenFile, change: ChangeSecurity<'_>) -> Result<(), Error> {
    file.volume.check_writable()?;
    let _held = file.volume.lock_file(file.identity);
    // The file gets one of its own now.
    let Some(descriptor) = change(load_with(file, DESCRIPTOR_BYTES_MAX, |_, _, _| ())) else { return Ok(()) };
    let subject = file.subject();
    let Some(old) = side_name(&subject)? else { return save(file, &descriptor) };
    let data = side::removable(&subject, &old)?;
    let leaving = Leaving::begin(&subject, data.into_iter().collect())?;
    let answer = save(file, &descriptor);
    match (answer, side_name(&subject)) {
        (Ok(()), Ok(Some(named))) if named == old => return leaving.remove_with(&subject, SECURITY_SIDE),
        (Err(_), Ok(Some(named))) if named == old => {}
        // What says that it failed may have been done.
        (_, Ok(_)) => leaving.remove(),
        (_, Err(_)) => leaving.leave(),
    }
    answer
}

fn save_in_side_file(file: &OpenFile, descriptor: &[u8]) -> Result<(), Error> {
    if descriptor.len() > DESCRIPTOR_BYTES_MAX {
        return Err(Error::TooLarge);
    }
    let subject = file.subject();
    let side = SideName::new(subject.owner()?)?;
    file.keep_while_open(side)?;
    let mark = Mark::naming(&subject, &side)?;
    // The disk has the descriptor before anything leads to it.
    let make = || {
        let fd = side::create(&file.volume, &side)?;
        let growth = Growth::Write { offset: 0, length: descriptor.len() as u64 };
        let write = || data::write(&fd, descriptor, 0).and_then(|()| fsync(&fd));
        file.volume.account(file.identity, &fd, growth, write)?;
        reserved::sync(&file.volume)
    };
    if let Err(error) = make() {
        side::take_back(&file.volume, &side, mark);
        return Err(error);
    }
    side::save_naming(&subject, (&side, mark), SECURITY_SIDE, &side.encode())?;
    subject.erase(SECURITY).map(drop)
}

/// The side file that holds the descriptor.
pub(super) fn side_name(subject: &Subject<'_>) -> Result<Option<SideName>, Error> {
    let mut bytes = [0; NAME_BYTES_MAX];
    match subject.load(SECURITY_SIDE, &mut bytes) {
        Ok(length) => Ok(length.and_then(|length| SideName::decode(&bytes[..length]))),
        Err(Error::TooLarge) => Ok(None),
        Err(error) => Err(error),
    }
}
