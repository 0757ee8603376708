//! The named streams of a file or directory.

use std::collections::{BTreeMap, HashSet};

use crate::copy::check_stream_name;
use crate::directory::calls::fsync;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::keys::{LONG_STREAM, SECURITY_SIDE, STREAM};
use crate::directory::leaving::Leaving;
use crate::directory::marks::Mark;
use crate::directory::quota::Growth;
use crate::directory::reserved;
use crate::directory::side::{Removable, Whose};
use crate::directory::side_name::{self, SideName};
use crate::directory::stat::stat;
use crate::directory::stream_value::{Body, Stays, StreamValue, VALUE_BYTES_MAX, key};
use crate::directory::subject::Subject;
use crate::directory::undo::Undo;
use crate::directory::{data, security, side};
use crate::{Error, Replace, StreamEntry, TakeStream, Use, fold, waiting};

/// A stream as it is kept.
pub(super) struct Kept {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) id: side_name::Id,
    pub(super) held: Held,
    pub(super) stays: Stays,
}

impl Kept {
    /// Its side file, by its name on the disk.
    fn side(&self) -> Option<(String, SideName)> {
        match self.held {
            Held::Here(_) => None,
            Held::Side(side) => Some((side.on_disk(), side)),
        }
    }
}

/// Where a stream's data are.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// In the attribute, so many bytes.
    Here(u64),
    /// In a side file, which may be another file's.
    Side(SideName),
}

/// Among how many keys a thread looks that must not wait. Behind each of a stream with a long name is a call of the kernel.
const KEYS_AT_ONCE_MAX: usize = 64;

/// Shows them with their lengths until `take` wants no more. [`Error::WouldBlock`] where there are many and this thread must not wait.
pub(super) fn list(file: &OpenFile, take: TakeStream<'_>) -> Result<(), Error> {
    let unit = u64::from(file.volume.unit_bytes.max(1));
    let subject = file.subject();
    check_are_few(&subject.keys()?)?;
    for kept in all(&subject)? {
        let (length, allocated) = match kept.held {
            Held::Here(length) => (length, length.next_multiple_of(unit)),
            Held::Side(side) => match side::open(&subject, &side, Use::Read) {
                Ok(opened) => {
                    let stat = stat(opened.fd).map_err(error)?;
                    (stat.stx_size, stat.stx_blocks * 512)
                }
                Err(Error::Gone) if side::look(&subject, &side)?.is_none() => continue,
                Err(error) => return Err(error),
            },
        };
        if take(StreamEntry { name: kept.name, length, allocated }).is_break() {
            break;
        }
    }
    Ok(())
}

/// Gives one another name.
pub(super) fn rename(file: &OpenFile, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
    file.volume.check_writable()?;
    check_stream_name(to)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let (kept, _) = find(&subject, from)?.ok_or(Error::NotFound)?;
    let taken = make_way(&subject, to)?.filter(|taken| taken.id != kept.id);
    if taken.is_some() && replace == Replace::No {
        return Err(Error::Exists);
    }
    settle(&subject, &kept)?;
    let (new_key, long_name) = key(to, kept.id);
    let Some(taken) = taken else { return move_to(&subject, &kept.key, &new_key, long_name) };
    // What has the name loses it in one step: it is written over at its own key.
    let data = data_of(&subject, &taken)?;
    let data = if settle(&subject, &taken)? == Shared::No { data } else { None };
    let leaving = Leaving::begin(&subject, data.into_iter().collect())?;
    let in_value = if taken.key.starts_with(LONG_STREAM) { to } else { "" };
    if let Err(error) = move_to(&subject, &kept.key, &taken.key, in_value) {
        // What says that it failed may have been done.
        match load(&subject, &taken.key, &mut [0; VALUE_BYTES_MAX]).map(|value| value.map(|value| value.id)) {
            Ok(Some(id)) if id == taken.id => {}
            Ok(_) => leaving.remove(),
            Err(_) => leaving.leave(),
        }
        return Err(error);
    }
    leaving.remove();
    // In its old spelling it is found as well.
    let _ = move_to(&subject, &taken.key, &new_key, long_name);
    Ok(())
}

/// Moves a stream's value to another key, which may be its own, and has it hold `name`. It is there or here whatever fails, and
/// whenever the server is killed: see [`Stays`].
fn move_to(subject: &Subject<'_>, from: &str, to: &str, name: &str) -> Result<(), Error> {
    let mut bytes = [0; VALUE_BYTES_MAX];
    let value = load(subject, from, &mut bytes)?.ok_or(Error::NotFound)?;
    let moved = StreamValue { name, stays: Stays::Here, ..value };
    if from == to {
        return save(subject, to, &moved);
    }
    save(subject, from, &StreamValue { stays: Stays::Moves, ..value })?;
    if let Err(error) = save(subject, to, &moved) {
        // What is kept beside a file may be there though the disk has not said so.
        let mut there = [0; VALUE_BYTES_MAX];
        if load(subject, to, &mut there)?.is_none_or(|there| there.id != value.id) {
            let _ = save(subject, from, &StreamValue { stays: Stays::Here, ..value });
            return Err(error);
        }
    }
    // Where that fails it is nobody's from now on.
    let _ = subject.erase(from);
    Ok(())
}

/// Whether another key that stays leads to a stream's data as well. No server of ours leaves that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    Yes,
    No,
}

/// Erases the keys that a stream has left, before it leaves its own: they would be it again. Those of a file that has more than can be listed are not
/// known: it can lose the streams whose names somebody knows all the same.
fn settle(subject: &Subject<'_>, stream: &Kept) -> Result<Shared, Error> {
    let mut shared = Shared::No;
    for other in every_listed(subject)?.unwrap_or_default() {
        if other.id != stream.id || other.key == stream.key {
            continue;
        }
        match other.stays {
            Stays::Here => shared = Shared::Yes,
            Stays::Moves => drop(subject.erase(&other.key)?),
        }
    }
    Ok(shared)
}

/// Removes one.
pub(super) fn remove(file: &OpenFile, name: &str) -> Result<(), Error> {
    file.volume.check_writable()?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let kept = look_for(&subject, name)?.ok_or(Error::NotFound)?;
    let data = data_of(&subject, &kept)?;
    let sides = if settle(&subject, &kept)? == Shared::No { data } else { None };
    Leaving::begin(&subject, sides.into_iter().collect())?.remove_with(&subject, &kept.key)
}

/// All streams of a file, which are about to go, also those whose side files cannot be opened or are lost. Of a file that has more keys than can be
/// listed only the side files go: what is in attributes stays, under names that who knows them may remove.
pub(super) struct Going<'a> {
    keys: Vec<String>,
    sides: Leaving<'a>,
}

impl<'a> Going<'a> {
    /// Looks for all that has to go. What is kept with the file is locked until it has gone.
    pub(super) fn all(subject: &Subject<'a>) -> Result<Self, Error> {
        let Some(mut all) = every_listed(subject)? else { return Going::unlisted(subject) };
        // The keys that streams have left go before their own: they would be it again.
        all.sort_by_key(|kept| kept.stays == Stays::Here);
        let sides: BTreeMap<String, SideName> = all.iter().filter_map(Kept::side).collect();
        let sides = Leaving::begin(subject, side::all_removable(subject, sides.into_values())?)?;
        Ok(Going { keys: all.into_iter().map(|kept| kept.key).collect(), sides })
    }

    fn unlisted(subject: &Subject<'a>) -> Result<Self, Error> {
        let descriptor = security::side_name(subject)?.map(|side| side.on_disk());
        let mut sides = side::owned(subject)?;
        sides.retain(|side| descriptor.as_deref() != Some(side.name()));
        Ok(Going { keys: Vec::new(), sides: Leaving::unmarked(sides) })
    }

    /// Has nothing lead to them any more.
    pub(super) fn erase(&self, subject: &Subject<'_>, undo: &mut Undo) -> Result<(), Error> {
        self.keys.iter().try_for_each(|key| undo.change(subject, key, None))
    }

    /// Removes their data.
    pub(super) fn remove(self) {
        self.sides.remove();
    }

    /// Whether something leads to them cannot be told.
    pub(super) fn leave(self) {
        self.sides.leave();
    }
}

/// All side files that a file owns, to be removed with it.
pub(super) fn sides<'a>(subject: &Subject<'a>) -> Result<Vec<Removable<'a>>, Error> {
    sides_but(subject, &[])
}

/// The same but for those that were removed.
pub(super) fn sides_but<'a>(subject: &Subject<'a>, gone: &[Removable<'_>]) -> Result<Vec<Removable<'a>>, Error> {
    let gone: HashSet<&str> = gone.iter().map(Removable::name).collect();
    match named_sides(subject) {
        // More keys than can be listed: they are found by whose they are.
        Err(Error::TooLarge) => {
            let mut left = side::owned(subject)?;
            left.retain(|side| !gone.contains(side.name()));
            Ok(left)
        }
        named => {
            side::all_removable(subject, named?.into_iter().filter(|side| !gone.contains(side.on_disk().as_str())))
        }
    }
}

/// The names on the disk of the side files that a file names.
pub(super) fn named(subject: &Subject<'_>) -> Result<Vec<String>, Error> {
    Ok(named_sides(subject)?.iter().map(SideName::on_disk).collect())
}

fn named_sides(subject: &Subject<'_>) -> Result<Vec<SideName>, Error> {
    let mut sides = Vec::new();
    let mut bytes = [0; VALUE_BYTES_MAX];
    for key in subject.keys()? {
        if key == SECURITY_SIDE {
            sides.extend(security::side_name(subject)?);
        } else if key.starts_with(STREAM) || key.starts_with(LONG_STREAM) {
            let value = load(subject, &key, &mut bytes)?;
            sides.extend(value.and_then(|value| value.side()));
        }
    }
    Ok(sides)
}

/// All streams as they are kept.
pub(super) fn all(subject: &Subject<'_>) -> Result<Vec<Kept>, Error> {
    let every = every(subject)?;
    let left: Vec<bool> = every.iter().map(|kept| has_left(kept, &every)).collect();
    Ok(every.into_iter().zip(left).filter_map(|(kept, left)| (!left).then_some(kept)).collect())
}

/// True where a stream is not at this key any more, but at another.
fn has_left(kept: &Kept, every: &[Kept]) -> bool {
    let is_it = |other: &Kept| other.stays == Stays::Here || other.key < kept.key;
    kept.stays == Stays::Moves && every.iter().any(|other| other.id == kept.id && other.key != kept.key && is_it(other))
}

/// All that is kept of streams, with the keys that they have left.
fn every(subject: &Subject<'_>) -> Result<Vec<Kept>, Error> {
    let mut found = Vec::new();
    for key in subject.keys()? {
        found.extend(kept(subject, key)?);
    }
    Ok(found)
}

/// The same; `None` where there are more keys than can be listed.
fn every_listed(subject: &Subject<'_>) -> Result<Option<Vec<Kept>>, Error> {
    match every(subject) {
        Err(Error::TooLarge) => Ok(None),
        every => every.map(Some),
    }
}

/// Writes a stream's value.
pub(super) fn save(subject: &Subject<'_>, key: &str, value: &StreamValue<'_>) -> Result<(), Error> {
    let mut bytes = [0; VALUE_BYTES_MAX];
    let length = value.encode(&mut bytes).ok_or(Error::TooLarge)?;
    subject.save(key, &bytes[..length])
}

/// The same in the place of another value, which is there again where that fails: what says that it failed may have been done.
pub(super) fn replace(
    subject: &Subject<'_>,
    key: &str,
    before: &StreamValue<'_>,
    after: &StreamValue<'_>,
) -> Result<(), Error> {
    save(subject, key, after).inspect_err(|_| {
        let mut there = [0; VALUE_BYTES_MAX];
        if load(subject, key, &mut there).is_ok_and(|there| there == Some(*after)) {
            let _ = save(subject, key, before);
        }
    })
}

/// Writes a value that is to name the side file that was made for the stream's data; see [`Subject::save_naming`].
pub(super) fn save_naming(
    subject: &Subject<'_>,
    (side, mark): (&SideName, Option<Mark>),
    key: &str,
    value: &StreamValue<'_>,
) -> Result<(), Error> {
    let mut bytes = [0; VALUE_BYTES_MAX];
    let value = StreamValue { body: Body::Side(side.owner), ..*value };
    let length = value.encode(&mut bytes).ok_or(Error::TooLarge)?;
    side::save_naming(subject, (side, mark), key, &bytes[..length])
}

/// Reads a stream's value; `None` where there is none, or one that is not ours.
pub(super) fn load<'a>(
    subject: &Subject<'_>,
    key: &str,
    bytes: &'a mut [u8; VALUE_BYTES_MAX],
) -> Result<Option<StreamValue<'a>>, Error> {
    let length = load_bytes(subject, key, bytes)?;
    Ok(length.and_then(|length| StreamValue::decode(&bytes[..length])))
}

/// The same as it is kept; gives how many bytes it has.
pub(super) fn load_bytes(
    subject: &Subject<'_>,
    key: &str,
    bytes: &mut [u8; VALUE_BYTES_MAX],
) -> Result<Option<usize>, Error> {
    match subject.load(key, bytes) {
        Ok(length) => Ok(length.filter(|length| *length <= bytes.len())),
        Err(Error::TooLarge) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Moves data out of the attribute; gives the side file.
pub(super) fn move_out(
    subject: &Subject<'_>,
    key: &str,
    value: &StreamValue<'_>,
    inline: &[u8],
) -> Result<Descriptor, Error> {
    let owner = Some(subject.owner()?);
    let side = SideName { id: value.id, owner };
    let mark = Mark::naming(subject, &side)?;
    let make = || {
        let fd = side::create(subject.volume, &side)?;
        let growth = Growth::Write { offset: 0, length: inline.len() as u64 };
        subject.volume.account(subject.identity, &fd, growth, || data::write(&fd, inline, 0))?;
        if !inline.is_empty() {
            // The disk may have been asked to keep what the attribute holds: it has it here before that is gone.
            fsync(&fd).map_err(error)?;
            reserved::sync(subject.volume)?;
        }
        Ok(fd)
    };
    let fd = match make() {
        Ok(fd) => fd,
        Err(error) => {
            side::take_back(subject.volume, &side, mark);
            return Err(error);
        }
    };
    save_naming(subject, (&side, mark), key, value)?;
    Ok(fd)
}

/// [`Error::WouldBlock`] where there are more than a thread looks at that must not wait, in memory, too.
fn check_are_few(keys: &[String]) -> Result<(), Error> {
    if keys.len() > KEYS_AT_ONCE_MAX && !waiting::is_allowed() { Err(Error::WouldBlock) } else { Ok(()) }
}

/// What has a name, and whose its data are. A stream whose side file is lost is none. [`Error::WouldBlock`] as [`list`].
pub(super) fn find(subject: &Subject<'_>, name: &str) -> Result<Option<(Kept, Whose)>, Error> {
    let mut lost = None;
    loop {
        let Some(kept) = look_for(subject, name)? else { return Ok(None) };
        if let Some(whose) = whose(subject, &kept)? {
            return Ok(Some((kept, whose)));
        }
        // It may have been replaced just now, and its side file removed with that.
        if lost.replace(kept.id) == Some(kept.id) {
            return Ok(None);
        }
    }
}

/// What has a name that another stream is to get. One whose side file is lost gives it up.
pub(super) fn make_way(subject: &Subject<'_>, name: &str) -> Result<Option<Kept>, Error> {
    match look_for(subject, name)? {
        Some(lost) if whose(subject, &lost)?.is_none() => {
            settle(subject, &lost)?;
            subject.erase(&lost.key)?;
            Ok(None)
        }
        found => Ok(found),
    }
}

/// Whose a stream's data are; `None` where they are lost.
fn whose(subject: &Subject<'_>, kept: &Kept) -> Result<Option<Whose>, Error> {
    match &kept.held {
        Held::Side(side) => side::look(subject, side),
        Held::Here(_) => Ok(Some(Whose::Own)),
    }
}

/// What has a name, whether its data are there or not.
fn look_for(subject: &Subject<'_>, name: &str) -> Result<Option<Kept>, Error> {
    if check_stream_name(name).is_err() {
        return Ok(None);
    }
    let (exact, _) = key(name, [0; 16]);
    if let Some(kept) = kept(subject, exact)?.filter(|kept| kept.stays == Stays::Here) {
        return Ok(Some(kept));
    }
    let folded = fold(name);
    let mut moving = None;
    let keys = subject.keys()?;
    check_are_few(&keys)?;
    for key in keys {
        // Only a long name has to be looked for behind its key.
        if key.strip_prefix(STREAM).is_some_and(|short| fold(short) != folded) {
            continue;
        }
        match kept(subject, key)?.filter(|kept| fold(&kept.name) == folded) {
            Some(kept) if kept.stays == Stays::Moves => moving = Some(kept),
            None => {}
            found => return Ok(found),
        }
    }
    let Some(kept) = moving else { return Ok(None) };
    Ok(if has_left(&kept, &every(subject)?) { None } else { Some(kept) })
}

fn kept(subject: &Subject<'_>, key: String) -> Result<Option<Kept>, Error> {
    let short = key.strip_prefix(STREAM);
    if short.is_none() && !key.starts_with(LONG_STREAM) {
        return Ok(None);
    }
    let mut bytes = [0; VALUE_BYTES_MAX];
    let Some(value) = load(subject, &key, &mut bytes)? else { return Ok(None) };
    let name = short.unwrap_or(value.name).to_owned();
    let id = value.id;
    let held = match value.body {
        Body::Here(data) => Held::Here(data.len() as u64),
        Body::Side(owner) => Held::Side(SideName { id, owner }),
    };
    let stays = value.stays;
    Ok(Some(Kept { key, name, id, held, stays }))
}

/// The data of a stream that is to go, where they are this file's and have a file of their own.
fn data_of<'a>(subject: &Subject<'a>, kept: &Kept) -> Result<Option<Removable<'a>>, Error> {
    match &kept.held {
        Held::Side(side) => side::removable(subject, side),
        Held::Here(_) => Ok(None),
    }
}
