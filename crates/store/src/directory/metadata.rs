//! Attributes and times of a file: the kernel's, and what is kept beside them.
//!
//! Where nothing is kept, a file shows ARCHIVE, READONLY where its owner may not write it, and HIDDEN where its name
//! begins with a dot. Nothing is kept of a file that was made with just what it would show anyway. READONLY is kept,
//! never turned into the file's mode; where that mode keeps the server from writing the file, it cannot keep
//! attributes of it either. Times have the precision of the file system (nanoseconds, shown as 100 ns); ext4 keeps
//! 1901 to 2446, XFS 1901 to 2486, and the kernel moves what lies outside to the nearest it can keep.

use rustix::fd::AsRawFd;
use rustix::fs::{AtFlags, CWD};
use rustix::fs::{FileType, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_OMIT};

use crate::directory::calls::{futimens, utimensat};
use crate::directory::errno::error;
use crate::directory::file::{OpenFile, kind};
use crate::directory::keys::RECORD;
use crate::directory::record::{ChangeTime, RECORD_BYTES, Record};
use crate::directory::remembered::Asker;
use crate::directory::stat::{Stamp, birth, file_type, identity};
use crate::directory::subject::Subject;
use crate::directory::undo::Undo;
use crate::{AttributeChange, Attributes, Changes, Error, Kind, Metadata, Time, Waits, waiting};

const READONLY: Attributes = 0x1;
const HIDDEN: Attributes = 0x2;
const ARCHIVE: Attributes = 0x20;
const OWNER_WRITES: u16 = 0o200;
/// What is never stored: DIRECTORY and NORMAL.
const DERIVED: Attributes = 0x10 | 0x80;

/// How far the clock of the file system may be from ours, in 100 ns: 20 ms, two ticks of a slow kernel.
const CLOCK_DISTANCE: u64 = 200_000;

/// How often a change time is set again where setting it took longer than that.
const TRIES_MAX: usize = 8;

/// Metadata of a file from what the kernel knows and what is kept.
pub(super) fn assemble(stat: &Statx, dotted: bool, record: &Record) -> Result<Metadata, Error> {
    let kind = kind(stat).ok_or(Error::Denied)?;
    let is_link = file_type(stat) == FileType::Symlink;
    let is_file = kind == Kind::File && !is_link;
    let (write, changed) = (time(&stat.stx_mtime), time(&stat.stx_ctime));
    let kept = record.change.filter(|change| changed <= change.until);
    Ok(Metadata {
        kind,
        is_link,
        identity: identity(stat),
        attributes: record.attributes.unwrap_or_else(|| unkept(kind, stat.stx_mode, dotted)),
        creation: record.creation.or(birth(stat)).unwrap_or(write.min(changed)),
        access: time(&stat.stx_atime),
        write,
        change: kept.map_or(changed, |change| change.time),
        length: if is_file { stat.stx_size } else { 0 },
        allocated: if is_file { stat.stx_blocks * 512 } else { 0 },
        links: stat.stx_nlink,
    })
}

/// What is kept of a file.
pub(super) fn record(subject: &Subject<'_>) -> Result<Record, Error> {
    let mut bytes = [0; RECORD_BYTES];
    match subject.load(RECORD, &mut bytes) {
        Ok(Some(length)) => Ok(bytes.get(..length).map(Record::decode).unwrap_or_default()),
        Ok(None) | Err(Error::TooLarge) => Ok(Record::default()),
        Err(error) => Err(error),
    }
}

/// The same to be shown: a file that the server may not read shows what it is, as if nothing were kept.
pub(super) fn record_to_show(subject: &Subject<'_>) -> Result<Record, Error> {
    match record(subject) {
        Err(Error::Denied) => Ok(Record::default()),
        answer => answer,
    }
}

fn keep(subject: &Subject<'_>, record: &Record) -> Result<(), Error> {
    subject.save(RECORD, &record.encode()).map_err(lacks_room)
}

/// A record is so small that one for which there is no room tells of a full disk.
pub(super) fn lacks_room(error: Error) -> Error {
    if error == Error::TooLarge { Error::Full } else { error }
}

/// Metadata of an open file.
pub(super) fn of(file: &OpenFile) -> Result<Metadata, Error> {
    with(file, &file.stat()?, Asker::Anybody)
}

/// The same as it was opened, where nobody has asked for that before but who asks a disk for those that must not wait.
pub(super) fn as_opened(file: &OpenFile) -> Result<Metadata, Error> {
    let is_ahead = file.waits == Waits::ForData && waiting::is_allowed();
    let mut opened = file.opened.lock();
    let found = if is_ahead { opened.clone() } else { opened.take() };
    drop(opened);
    match found {
        Some(stat) => with(file, &stat, Asker::Create),
        None => of(file),
    }
}

fn with(file: &OpenFile, stat: &Statx, asker: Asker) -> Result<Metadata, Error> {
    let record = file.record.ask(file, Stamp::of(stat), asker, || record_to_show(&file.subject()), |_| true)?;
    assemble(stat, file.dotted, &record)
}

/// The attributes of a file of which nothing is kept.
pub(super) fn unkept(kind: Kind, mode: u16, dotted: bool) -> Attributes {
    let hidden = if dotted { HIDDEN } else { 0 };
    match kind {
        Kind::Directory => hidden,
        Kind::File | Kind::Stream if mode & OWNER_WRITES == 0 => hidden | ARCHIVE | READONLY,
        Kind::File | Kind::Stream => hidden | ARCHIVE,
    }
}

/// Keeps the attributes of a new file, where it would not show them anyway. Gives what is kept.
pub(super) fn begin(file: &OpenFile, attributes: Attributes) -> Result<Record, Error> {
    let attributes = attributes & !DERIVED;
    if attributes == unkept(file.kind, OWNER_WRITES, file.dotted) && file.born != 0 {
        return Ok(Record::default());
    }
    let creation = if file.born == 0 { Some(Time::now()) } else { None };
    let record = Record { attributes: Some(attributes), creation, change: None };
    keep(&file.subject(), &record).map(|()| record)
}

/// Changes attributes and times.
pub(super) fn change(file: &OpenFile, changes: &Changes) -> Result<(), Error> {
    file.volume.check_writable()?;
    let known = |time: Option<Time>| time.filter(|time| *time != Time(0));
    let (access, write) = (known(changes.access), known(changes.write));
    let set_kernels = || if access.is_some() || write.is_some() { set_times(file, access, write) } else { Ok(()) };
    let (creation, changed) = (known(changes.creation), known(changes.change));
    // Of a symbolic link nothing is kept but what the file system keeps.
    if file.is_link || changes.attributes.is_nothing() && creation.is_none() && changed.is_none() {
        return set_kernels();
    }
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let mut record = record(&subject)?;
    if !changes.attributes.is_nothing() {
        record.attributes = Some(changes.attributes.apply(attributes(file, &record)?) & !DERIVED);
    }
    record.creation = creation.or(record.creation);
    set_kernels()?;
    for _ in 0..TRIES_MAX {
        let until = Time(Time::now().0 + CLOCK_DISTANCE);
        record.change = changed.map(|time| ChangeTime { time, until });
        keep(&subject, &record)?;
        if record.change.is_none() || time(&file.stat()?.stx_ctime) <= until {
            break;
        }
    }
    Ok(())
}

/// Changes attribute bits, as a part of a change that may have to be undone. What is kept with the file is locked.
pub(super) fn change_attributes(
    file: &OpenFile,
    subject: &Subject<'_>,
    change: AttributeChange,
    undo: &mut Undo,
) -> Result<(), Error> {
    let mut record = record(subject)?;
    let before = attributes(file, &record)?;
    let after = change.apply(before) & !DERIVED;
    record.attributes = Some(after);
    record.change = None;
    undo.change_record(subject, &record, (before, after))
}

/// The attributes of a file of which that is kept.
fn attributes(file: &OpenFile, record: &Record) -> Result<Attributes, Error> {
    match record.attributes {
        Some(kept) => Ok(kept),
        None => Ok(unkept(file.kind, file.stat()?.stx_mode, file.dotted)),
    }
}

/// Sets the times that the file system keeps.
pub(super) fn set_times(file: &OpenFile, access: Option<Time>, write: Option<Time>) -> Result<(), Error> {
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let timespec = |time: Option<Time>| {
        time.map_or(omitted, |time| {
            let (seconds, nanoseconds) = time.to_unix();
            Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
        })
    };
    let times = Timestamps { last_access: timespec(access), last_modification: timespec(write) };
    match file.readable() {
        Some(fd) => futimens(fd, &times),
        None => utimensat(CWD, format!("/proc/self/fd/{}", file.fd().as_raw_fd()), &times, AtFlags::empty()),
    }
    .map_err(error)
}

fn time(stamp: &StatxTimestamp) -> Time {
    Time::from_unix(stamp.tv_sec, stamp.tv_nsec)
}
