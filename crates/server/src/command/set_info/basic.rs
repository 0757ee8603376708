//! FileBasicInformation: times and attributes (MS-FSA 2.1.5.15.2).

use store::{AttributeChange, Changes, Kind, Metadata, Time};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::FileAttributes;
use wire::fscc::file::Basic;
use wire::ids::FileTime;
use wire::security::access::WRITE_ATTRIBUTES;
use wire::status::Status;

use super::{change, require_length};
use crate::command::context::Context;
use crate::state::attributes::SETTABLE;
use crate::state::breaks;
use crate::state::frozen_times::FrozenTimes;
use crate::state::refusal::Refusal;

/// "The file system does not change it through this open any more."
const FREEZE: u64 = -1_i64 as u64;
/// "The file system changes it again."
const THAW: u64 = -2_i64 as u64;
/// What may not change of a share's root.
const FIXED_IN_ROOT: u32 = FileAttributes::HIDDEN.0 | FileAttributes::SYSTEM.0;

pub(super) async fn set(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    let (open, file) = context.file()?;
    require_length(buffer, Basic::LENGTH)?;
    open.require(WRITE_ATTRIBUTES)?;
    let asked = Basic::decode(buffer)?;
    check(&asked, file.kind)?;
    context.require_writable()?;
    change(context, move |job| {
        let file = job.file()?;
        let base = file.base();
        let known = base.metadata()?;
        file.frozen_times.change(|frozen| {
            let (changes, held) = plan(&asked, &known, frozen, file.path.now().is_root());
            if changes != Changes::default() {
                base.change(&changes)?;
            }
            Ok::<_, store::Error>(held)
        })?;
        job.server.watches.changed(&job.open, changed(&asked));
        breaks::looks_different(&job.server, &job.open);
        Ok(())
    })
    .await
}

/// What who watches the directory is told to have changed (MS-FSA 2.1.5.15.2).
fn changed(asked: &Basic) -> CompletionFilter {
    let parts = [
        (asked.attributes.0 != 0, CompletionFilter::ATTRIBUTES),
        (explicit(asked.creation).is_some(), CompletionFilter::CREATION),
        (explicit(asked.access).is_some(), CompletionFilter::LAST_ACCESS),
        (explicit(asked.write).is_some(), CompletionFilter::LAST_WRITE),
    ];
    parts.into_iter().filter(|(set, _)| *set).fold(CompletionFilter::NONE, |all, (_, part)| all | part)
}

fn check(asked: &Basic, kind: Kind) -> Result<(), Status> {
    let times = [asked.creation, asked.access, asked.write, asked.change];
    if times.iter().any(|time| (time.0 as i64) < THAW as i64) {
        return Err(Status::INVALID_PARAMETER);
    }
    let wrong = match kind {
        Kind::Directory => FileAttributes::TEMPORARY,
        Kind::File | Kind::Stream => FileAttributes::DIRECTORY,
    };
    if asked.attributes.intersects(wrong) { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
}

/// What to change, and what the open holds fast afterwards: a time that was set is held too.
fn plan(asked: &Basic, known: &Metadata, held: FrozenTimes, is_root: bool) -> (Changes, FrozenTimes) {
    let frozen = FrozenTimes {
        access: held_time(asked.access, known.access, held.access),
        write: held_time(asked.write, known.write, held.write),
        change: held_time(asked.change, known.change, held.change),
    };
    let changes = Changes {
        attributes: attributes(asked.attributes, is_root),
        creation: explicit(asked.creation),
        access: explicit(asked.access),
        write: explicit(asked.write),
        change: frozen.change,
    };
    (changes, frozen)
}

fn attributes(asked: FileAttributes, is_root: bool) -> AttributeChange {
    if asked.is_empty() {
        return AttributeChange::default();
    }
    let settable = if is_root { SETTABLE & !FIXED_IN_ROOT } else { SETTABLE };
    AttributeChange { clear: settable, set: asked.0 & settable }
}

fn held_time(asked: FileTime, known: Time, held: Option<Time>) -> Option<Time> {
    match asked.0 {
        0 => held,
        FREEZE => Some(held.unwrap_or(known)),
        THAW => None,
        time => Some(Time(time)),
    }
}

fn explicit(asked: FileTime) -> Option<Time> {
    match asked.0 {
        0 | FREEZE | THAW => None,
        time => Some(Time(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Identity;

    fn known() -> Metadata {
        Metadata {
            kind: Kind::File,
            is_link: false,
            identity: Identity { volume: 1, file: 2 },
            attributes: FileAttributes::ARCHIVE.0 | FileAttributes::SPARSE_FILE.0,
            creation: Time(1),
            access: Time(2),
            write: Time(3),
            change: Time(4),
            length: 0,
            allocated: 0,
            links: 1,
        }
    }

    #[test]
    fn nothing_asked_for_is_nothing_changed() {
        let (changes, frozen) = plan(&Basic::default(), &known(), FrozenTimes::default(), false);
        assert_eq!((changes, frozen), (Changes::default(), FrozenTimes::default()));
    }

    #[test]
    fn times_are_set_frozen_and_thawed() {
        let asked = Basic { creation: FileTime(9), write: FileTime(FREEZE), change: FileTime(7), ..Basic::default() };
        let (changes, frozen) = plan(&asked, &known(), FrozenTimes::default(), false);
        let expected = Changes { creation: Some(Time(9)), change: Some(Time(7)), ..Changes::default() };
        assert_eq!(changes, expected);
        assert_eq!(frozen, FrozenTimes { access: None, write: Some(Time(3)), change: Some(Time(7)) });
        let thaw = Basic { write: FileTime(THAW), change: FileTime(THAW), ..Basic::default() };
        assert_eq!(plan(&thaw, &known(), frozen, false), (Changes::default(), FrozenTimes::default()));
    }

    #[test]
    fn normal_clears_and_sparse_stays() {
        let asked = Basic { attributes: FileAttributes::NORMAL, ..Basic::default() };
        let attributes = plan(&asked, &known(), FrozenTimes::default(), false).0.attributes;
        assert_eq!(attributes.apply(known().attributes), FileAttributes::SPARSE_FILE.0);
        let hidden = Basic { attributes: FileAttributes::HIDDEN | FileAttributes::READONLY, ..Basic::default() };
        let of_root = plan(&hidden, &known(), FrozenTimes::default(), true).0.attributes;
        let after = of_root.apply(known().attributes);
        assert_eq!(after, FileAttributes::SPARSE_FILE.0 | FileAttributes::READONLY.0);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let with = |attributes, write| Basic { attributes, write: FileTime(write), ..Basic::default() };
        assert!(check(&with(FileAttributes::DIRECTORY, 0), Kind::Directory).is_ok());
        assert!(check(&with(FileAttributes::NONE, FREEZE), Kind::File).is_ok());
        let refused = [
            (with(FileAttributes::DIRECTORY, 0), Kind::File),
            (with(FileAttributes::TEMPORARY, 0), Kind::Directory),
            (with(FileAttributes::NONE, -3_i64 as u64), Kind::File),
            (with(FileAttributes::NONE, 1 << 63), Kind::File),
        ];
        for (asked, kind) in refused {
            assert_eq!(check(&asked, kind), Err(Status::INVALID_PARAMETER));
        }
    }
}
