//! FileFullEaInformation: sets and removes extended attributes (MS-FSA 2.1.5.15.6).

use std::collections::HashSet;

use store::{Error, ExtendedAttribute, Failed, Left, fold};
use wire::command::change_notify::CompletionFilter;
use wire::security::access::WRITE_EA;
use wire::status::Status;

use super::{Job, change_much, change_slowly};
use crate::command::context::Context;
use crate::command::query_info::packed_bytes;
use crate::state::attributes;
use crate::state::breaks;
use crate::state::extended::{self, Asked};
use crate::state::refusal::Refusal;

/// The most bytes of all attributes of a file.
const TOTAL_BYTES_MAX: usize = (64 << 10) - 5;

/// As many bytes of work take as long as one attribute that is set.
const EA_COST: u64 = 8 << 10;

/// A longer list is read on the pool.
const LIST_BYTES_HERE_MAX: usize = 16 << 10;

pub(super) async fn set(context: &Context, buffer: &[u8]) -> Result<(), Refusal> {
    let (open, _) = context.file()?;
    open.require(WRITE_EA)?;
    if buffer.len() > extended::LIST_BYTES_MAX {
        return Err(Status::EA_TOO_LARGE.into());
    }
    let is_long = buffer.len() > LIST_BYTES_HERE_MAX;
    let cost = if is_long { None } else { Some(checked(buffer)? as u64 * EA_COST) };
    context.require_writable()?;
    // It is decoded where it is set.
    let list = context.message.holding(buffer);
    match cost {
        Some(cost) => change_much(context, cost, move |job| set_all(job, extended::read(&list))).await,
        None => {
            let set = move |job: &Job| {
                checked(&list)?;
                set_all(job, extended::read(&list))
            };
            change_slowly(context, set).await
        }
    }
}

/// How many attributes are to be set.
fn checked(list: &[u8]) -> Result<usize, Status> {
    match extended::count(list, Status::EA_LIST_INCONSISTENT)? {
        0 => Err(Status::INVALID_PARAMETER),
        count => Ok(count),
    }
}

fn set_all(job: &Job, asked: Asked) -> Result<(), Refusal> {
    let base = job.file()?.base();
    let (mut asked, mut total) = (Some(asked), 0);
    let set = base.extras().change_extended(&mut |before| {
        let (bytes, asked) = after(before, asked.take().unwrap_or_default());
        total = bytes;
        (total <= TOTAL_BYTES_MAX).then_some(asked)
    });
    if total > TOTAL_BYTES_MAX {
        return Err(Status::EA_TOO_LARGE.into());
    }
    // What could not be undone has changed the file all the same.
    if !matches!(set, Err(Failed { left: Left::AsItWas, .. })) {
        job.server.watches.changed(&job.open, CompletionFilter::EA | CompletionFilter::ATTRIBUTES);
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

/// Bytes of all attributes there would be, and what is to be set for that: what was asked for but the removal of what is not there.
fn after(all: &[ExtendedAttribute], mut asked: Asked) -> (usize, Vec<ExtendedAttribute>) {
    let mut total = 0;
    let mut there = HashSet::new();
    for stored in all {
        let folded = fold(&stored.0);
        if !asked.contains_key(&folded) {
            total += packed_bytes(std::slice::from_ref(stored));
        }
        there.insert(folded);
    }
    asked.retain(|folded, (_, value)| !value.is_empty() || there.contains(folded));
    let to_set: Vec<ExtendedAttribute> = asked.into_values().collect();
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
    use crate::state::extended::last_of_each;

    #[test]
    fn names_replace_in_any_case_and_empty_values_remove() {
        let all = [("One".to_owned(), vec![1]), ("two".to_owned(), vec![2])];
        let asked = |eas: &[(&str, &[u8])]| -> Vec<_> {
            eas.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect()
        };
        let after = |eas: &[(&str, &[u8])]| after(&all, last_of_each(asked(eas)));
        assert_eq!(after(&[("ONE", &[3, 4]), ("Two", &[])]), (10, asked(&[("ONE", &[3, 4]), ("Two", &[])])));
        assert_eq!(after(&[("x", &[1]), ("none", &[]), ("X", &[2])]), (18 + 7, asked(&[("X", &[2])])));
        assert_eq!(after(&[("x", &[1]), ("X", &[])]), (18, vec![]));
    }

    #[test]
    fn each_of_many_names_is_judged_once() {
        let asked: Vec<ExtendedAttribute> = (0..100_000).map(|number| (format!("name{number}"), vec![1])).collect();
        let (total, to_set) = after(&[], last_of_each(asked.clone()));
        assert_eq!((total, to_set.len()), (packed_bytes(&asked), asked.len()));
    }
}
