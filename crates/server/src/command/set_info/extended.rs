//! FileFullEaInformation: sets and removes extended attributes (MS-FSA 2.1.5.15.6).

use std::collections::{BTreeMap, HashSet};

use store::{Error, ExtendedAttribute, Failed, Left, fold};
use wire::command::change_notify::CompletionFilter;
use wire::fscc::ea::{NEED_EA, full_eas, name_is_valid};
use wire::security::access::WRITE_EA;
use wire::status::Status;

use super::{Job, change_much};
use crate::attributes::{self, EA_LIST_BYTES_MAX};
use crate::breaks;
use crate::command::query_info::packed_bytes;
use crate::context::Context;
use crate::refusal::Refusal;

/// The most bytes of all attributes of a file.
const TOTAL_BYTES_MAX: usize = (64 << 10) - 5;

/// As many bytes of work take as long as one attribute that is set.
const EA_COST: u64 = 8 << 10;

/// A longer list is read on the pool.
const LIST_BYTES_HERE_MAX: usize = 16 << 10;

pub(super) async fn set(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    let (open, _) = context.file()?;
    open.require(WRITE_EA)?;
    if buffer.len() > EA_LIST_BYTES_MAX {
        return Err(Status::EA_TOO_LARGE.into());
    }
    // What it is made of takes many times as much as it does: it is decoded where it is set.
    let is_long = buffer.len() > LIST_BYTES_HERE_MAX;
    let cost = if is_long { u64::MAX } else { read(buffer)?.len() as u64 * EA_COST };
    context.require_writable()?;
    let list = context.message.holding(buffer);
    change_much(context, cost, move |job| set_all(job, read(&list)?)).await
}

fn set_all(job: &Job, asked: Vec<ExtendedAttribute>) -> Result<(), Refusal> {
    let base = job.file()?.base();
    let (mut asked, mut total) = (Some(asked), 0);
    let set = base.change_extended(&mut |before| {
        let (bytes, asked) = after(before, asked.take().unwrap_or_default());
        total = bytes;
        (total <= TOTAL_BYTES_MAX).then_some(asked)
    });
    if total > TOTAL_BYTES_MAX {
        return Err(Status::EA_TOO_LARGE.into());
    }
    // What could not be undone has changed the file all the same.
    if !matches!(set, Err(Failed { left: Left::AsItWas, .. })) {
        job.server.files.watches.changed(&job.open, CompletionFilter::EA | CompletionFilter::ATTRIBUTES);
        attributes::archive_changed(&**base);
        breaks::looks_different(&job.server, &job.open);
    }
    set.map_err(|failed| refused(failed.error))
}

/// What a client is told.
fn refused(error: Error) -> Refusal {
    match error {
        Error::TooLarge => Status::EA_TOO_LARGE.into(),
        Error::NameInvalid => Status::INVALID_EA_NAME.into(),
        error => error.into(),
    }
}

fn read(buffer: &[u8]) -> Result<Vec<ExtendedAttribute>, Status> {
    let mut asked = Vec::new();
    for ea in full_eas(buffer) {
        let ea = ea.map_err(|_| Status::EA_LIST_INCONSISTENT)?;
        let name = std::str::from_utf8(ea.name).ok().filter(|_| name_is_valid(ea.name));
        let name = name.filter(|_| ea.flags & !NEED_EA == 0).ok_or(Status::INVALID_EA_NAME)?;
        asked.push((name.to_owned(), ea.value.to_vec()));
    }
    if asked.is_empty() { Err(Status::INVALID_PARAMETER) } else { Ok(asked) }
}

/// Bytes of all attributes there would be, and what is to be set for that: the last of each name, and no removal of what is not there.
fn after(all: &[ExtendedAttribute], asked: Vec<ExtendedAttribute>) -> (usize, Vec<ExtendedAttribute>) {
    let mut last: BTreeMap<String, ExtendedAttribute> = asked.into_iter().map(|ea| (fold(&ea.0), ea)).collect();
    let mut total = 0;
    let mut there = HashSet::new();
    for stored in all {
        let folded = fold(&stored.0);
        if !last.contains_key(&folded) {
            total += packed_bytes(std::slice::from_ref(stored));
        }
        there.insert(folded);
    }
    last.retain(|folded, (_, value)| !value.is_empty() || there.contains(folded));
    let to_set: Vec<ExtendedAttribute> = last.into_values().collect();
    total += to_set
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|ea| packed_bytes(std::slice::from_ref(ea)))
        .sum::<usize>();
    (total, to_set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::fscc::ea::{FullEa, FullEaWriter};

    fn list(eas: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = FullEaWriter::new(&mut out, 1000);
        for &(flags, name, value) in eas {
            assert!(writer.push(&FullEa { flags, name, value }));
        }
        out
    }

    #[test]
    fn lists_are_checked_before_anything_is_set() {
        assert_eq!(read(&list(&[(0, b"a", b"1"), (NEED_EA, b"b", b"")])).map(|asked| asked.len()), Ok(2));
        assert_eq!(read(&list(&[(0, b"a", b"1"), (1, b"b", b"")])), Err(Status::INVALID_EA_NAME));
        assert_eq!(read(&list(&[(0, b"a*", b"1")])), Err(Status::INVALID_EA_NAME));
        assert_eq!(read(&[1, 2, 3]), Err(Status::EA_LIST_INCONSISTENT));
        assert_eq!(read(&[]), Err(Status::INVALID_PARAMETER));
    }

    #[test]
    fn names_replace_in_any_case_and_empty_values_remove() {
        let all = [("One".to_owned(), vec![1]), ("two".to_owned(), vec![2])];
        let asked =
            |eas: &[(&str, &[u8])]| eas.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect();
        let after = |eas: &[(&str, &[u8])]| after(&all, asked(eas));
        assert_eq!(after(&[("ONE", &[3, 4]), ("Two", &[])]), (10, asked(&[("ONE", &[3, 4]), ("Two", &[])])));
        assert_eq!(after(&[("x", &[1]), ("none", &[]), ("X", &[2])]), (18 + 7, asked(&[("X", &[2])])));
        assert_eq!(after(&[("x", &[1]), ("X", &[])]), (18, vec![]));
    }

    #[test]
    fn each_of_many_names_is_judged_once() {
        let asked: Vec<ExtendedAttribute> = (0..100_000).map(|number| (format!("name{number}"), vec![1])).collect();
        let (total, to_set) = after(&[], asked.clone());
        assert_eq!((total, to_set.len()), (packed_bytes(&asked), asked.len()));
    }
}
