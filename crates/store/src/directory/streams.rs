//! The named streams of a file or directory.

use std::sync::Arc;

use crate::copy::check_stream_name;
use crate::directory::calls::fsync;
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::keep::{LONG_STREAM, SECURITY_SIDE, STREAM, Subject};
use crate::directory::side::SideName;
use crate::directory::stream::StreamNode;
use crate::directory::stream_value::{Body, StreamValue, VALUE_BYTES_MAX, key};
use crate::directory::{data, folder, security, side};
use crate::{Error, NamedNode, Node, Replace, StreamEntry, TakeStream, Use, fold};

/// A stream as it is kept.
pub(super) struct Kept {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) id: side::Id,
    pub(super) held: Held,
}

/// Where a stream's data are.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// In the attribute, so many bytes.
    Here(u64),
    /// In a side file, which may be another file's.
    Side(SideName),
}

/// Shows them with their lengths until `take` wants no more.
pub(super) fn list(file: &OpenFile, take: TakeStream<'_>) -> Result<(), Error> {
    let unit = u64::from(file.volume.unit_bytes.max(1));
    let subject = file.subject();
    for key in subject.keys()? {
        let Some(kept) = kept(&subject, key)? else { continue };
        let (length, allocated) = match kept.held {
            Held::Here(length) => (length, length.next_multiple_of(unit)),
            Held::Side(side) => match side::open(&file.volume, &side, Use::Read) {
                Ok(fd) => {
                    let stat = folder::stat(fd).map_err(error)?;
                    (stat.stx_size, stat.stx_blocks * 512)
                }
                Err(_) => continue,
            },
        };
        if take(StreamEntry { name: kept.name, length, allocated }).is_break() {
            break;
        }
    }
    Ok(())
}

/// Opens one.
pub(super) fn open(file: &OpenFile, name: &str) -> Result<Option<NamedNode>, Error> {
    let Some(kept) = find(&file.subject(), name)? else { return Ok(None) };
    let name = kept.name.clone();
    Ok(Some((name, Arc::new(StreamNode::new(file.again()?, kept)))))
}

/// Makes an empty one. [`Error::Full`] too where the file system has no room for more attributes of this file: ext4
/// has 4 KiB for all names and values.
pub(super) fn create(file: &OpenFile, name: &str) -> Result<Arc<dyn Node>, Error> {
    file.volume.check_writable()?;
    check_stream_name(name)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    if find(&subject, name)?.is_some() {
        return Err(Error::Exists);
    }
    let id = side::new_id()?;
    let (key, long_name) = key(name, id);
    let saved = save(&subject, &key, &StreamValue { id, name: long_name, body: Body::Here(&[]) });
    saved.map_err(|error| if error == Error::TooLarge { Error::Full } else { error })?;
    let kept = Kept { key, name: name.to_owned(), id, held: Held::Here(0) };
    Ok(Arc::new(StreamNode::new(file.again()?, kept)))
}

/// Gives one another name.
pub(super) fn rename(file: &OpenFile, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
    file.volume.check_writable()?;
    check_stream_name(to)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let kept = find(&subject, from)?.ok_or(Error::NotFound)?;
    let taken = find(&subject, to)?.filter(|taken| taken.id != kept.id);
    if taken.is_some() && replace == Replace::No {
        return Err(Error::Exists);
    }
    let mut bytes = [0; VALUE_BYTES_MAX];
    let value = load(&subject, &kept.key, &mut bytes)?.ok_or(Error::NotFound)?;
    let (new_key, long_name) = key(to, kept.id);
    let renamed = StreamValue { name: long_name, ..value };
    let Some(taken) = taken else {
        save(&subject, &new_key, &renamed)?;
        return if new_key == kept.key { Ok(()) } else { subject.erase(&kept.key).map(|_| ()) };
    };
    let mut lost = [0; VALUE_BYTES_MAX];
    let lost = load(&subject, &taken.key, &mut lost)?.ok_or(Error::NotFound)?;
    move_over(&subject, (&kept.key, &new_key, &renamed), &taken.key).inspect_err(|_| {
        // What had the name has it again: there was room for it before.
        if new_key != taken.key && new_key != kept.key {
            let _ = subject.erase(&new_key);
        }
        let _ = save(&subject, &taken.key, &lost);
    })?;
    forget_data(&subject, &taken);
    Ok(())
}

/// Moves a stream's value from one key to another in the place of a third, which may be that other.
fn move_over(
    subject: &Subject<'_>,
    (from, to, value): (&str, &str, &StreamValue<'_>),
    taken: &str,
) -> Result<(), Error> {
    if taken != to {
        subject.erase(taken)?;
    }
    save(subject, to, value)?;
    if from != to {
        subject.erase(from)?;
    }
    Ok(())
}

/// Removes one.
pub(super) fn remove(file: &OpenFile, name: &str) -> Result<(), Error> {
    file.volume.check_writable()?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let kept = find(&subject, name)?.ok_or(Error::NotFound)?;
    erase(&subject, &kept)
}

/// All side files that a file owns.
pub(super) fn sides(subject: &Subject<'_>) -> Result<Vec<SideName>, Error> {
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
    sides.retain(|side| subject.owns(side));
    Ok(sides)
}

/// All streams as they are kept.
pub(super) fn all(subject: &Subject<'_>) -> Result<Vec<Kept>, Error> {
    let mut found = Vec::new();
    for key in subject.keys()? {
        found.extend(kept(subject, key)?);
    }
    Ok(found)
}

/// Writes a stream's value.
pub(super) fn save(subject: &Subject<'_>, key: &str, value: &StreamValue<'_>) -> Result<(), Error> {
    let mut bytes = [0; VALUE_BYTES_MAX];
    let length = value.encode(&mut bytes).ok_or(Error::TooLarge)?;
    subject.save(key, &bytes[..length])
}

/// Reads a stream's value; `None` where there is none, or one that is not ours.
pub(super) fn load<'a>(
    subject: &Subject<'_>,
    key: &str,
    bytes: &'a mut [u8; VALUE_BYTES_MAX],
) -> Result<Option<StreamValue<'a>>, Error> {
    match subject.load(key, bytes) {
        Ok(Some(length)) => Ok(bytes.get(..length).and_then(StreamValue::decode)),
        Ok(None) | Err(Error::TooLarge) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Moves data out of the attribute; gives the side file.
pub(super) fn move_out(
    subject: &Subject<'_>,
    key: &str,
    value: &StreamValue<'_>,
    inline: &[u8],
) -> Result<rustix::fd::OwnedFd, Error> {
    let owner = Some(subject.owner()?);
    let side = SideName { id: value.id, owner };
    let fd = side::create(subject.volume, &side)?;
    let move_data = || {
        data::write(&fd, inline, 0).map_err(error)?;
        if !inline.is_empty() {
            // The disk may have been asked to keep what the attribute holds: it has it here before that is gone.
            fsync(&fd).map_err(error)?;
            side::sync(subject.volume)?;
        }
        save(subject, key, &StreamValue { body: Body::Side(owner), ..*value })
    };
    match move_data() {
        Ok(()) => Ok(fd),
        Err(error) => {
            side::remove(subject.volume, &side);
            Err(error)
        }
    }
}

fn find(subject: &Subject<'_>, name: &str) -> Result<Option<Kept>, Error> {
    if check_stream_name(name).is_err() {
        return Ok(None);
    }
    let (exact, _) = key(name, [0; 16]);
    if let Some(kept) = kept(subject, exact)? {
        return Ok(Some(kept));
    }
    let folded = fold(name);
    for key in subject.keys()? {
        // Only a long name has to be looked for behind its key.
        if key.strip_prefix(STREAM).is_some_and(|short| fold(short) != folded) {
            continue;
        }
        if let Some(kept) = kept(subject, key)?.filter(|kept| fold(&kept.name) == folded) {
            return Ok(Some(kept));
        }
    }
    Ok(None)
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
    Ok(Some(Kept { key, name, id, held }))
}

fn erase(subject: &Subject<'_>, kept: &Kept) -> Result<(), Error> {
    subject.erase(&kept.key)?;
    forget_data(subject, kept);
    Ok(())
}

/// Removes the data of a stream that has gone, where they are this file's.
fn forget_data(subject: &Subject<'_>, kept: &Kept) {
    match kept.held {
        Held::Side(side) if subject.owns(&side) => side::remove(subject.volume, &side),
        Held::Side(_) | Held::Here(_) => {}
    }
}
