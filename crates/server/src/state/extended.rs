//! Lists of extended attributes, or of names of them, as clients send them (FILE_FULL_EA_INFORMATION, MS-FSCC 2.4.16).

use std::collections::BTreeMap;

use store::{ExtendedAttribute, effort, fold};
use wire::fscc::ea::{NEED_EA, full_eas, name_is_valid};
use wire::status::Status;

/// The longest list that is read, in bytes: no file has more, and what is read takes many times as much.
pub(crate) const LIST_BYTES_MAX: usize = 64 << 10;
/// So many are looked at while a name of a path is followed.
const LOOKED_AT_IN_STEP: usize = 2;

/// The attributes that a list asks for by their names without regard to case. Of several of one name the last counts.
pub(crate) type Asked = BTreeMap<String, ExtendedAttribute>;

/// How many a list has, each of them well formed (MS-FSA 2.1.5.15.6). Nothing of them is kept: what a list is made of takes many times as much
/// as it does.
pub(crate) fn count(list: &[u8], damaged: Status) -> Result<usize, Status> {
    let mut count = 0;
    for attribute in each(list, damaged) {
        attribute?;
        count += 1;
    }
    effort::note(count / LOOKED_AT_IN_STEP);
    Ok(count)
}

/// What a list asks for that was counted before.
pub(crate) fn read(list: &[u8]) -> Asked {
    let well_formed = each(list, Status::EA_LIST_INCONSISTENT).map_while(Result::ok);
    last_of_each(well_formed.map(|(name, value)| (name.to_owned(), value.to_vec())))
}

/// Of several of one name the last.
pub(crate) fn last_of_each(attributes: impl IntoIterator<Item = ExtendedAttribute>) -> Asked {
    attributes.into_iter().map(|attribute| (fold(&attribute.0), attribute)).collect()
}

/// Names and values. What is no list is refused with `damaged`.
fn each(list: &[u8], damaged: Status) -> impl Iterator<Item = Result<(&str, &[u8]), Status>> {
    full_eas(list).map(move |ea| {
        let ea = ea.map_err(|_| damaged)?;
        let name = std::str::from_utf8(ea.name).ok().filter(|_| name_is_valid(ea.name));
        let name = name.filter(|_| ea.flags & !NEED_EA == 0).ok_or(Status::INVALID_EA_NAME)?;
        Ok((name, ea.value))
    })
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
        let count = |list: &[u8]| count(list, Status::EA_LIST_INCONSISTENT);
        assert_eq!(count(&list(&[(0, b"a", b"1"), (NEED_EA, b"b", b"")])), Ok(2));
        assert_eq!(count(&list(&[(0, b"a", b"1"), (1, b"b", b"")])), Err(Status::INVALID_EA_NAME));
        assert_eq!(count(&list(&[(0, b"a*", b"1")])), Err(Status::INVALID_EA_NAME));
        assert_eq!(count(&[1, 2, 3]), Err(Status::EA_LIST_INCONSISTENT));
        assert_eq!(count(&[]), Ok(0));
    }

    #[test]
    fn of_one_name_in_any_case_the_last_counts() {
        let asked = read(&list(&[(0, b"One", b"1"), (0, b"two", b"2"), (0, b"ONE", b"3")]));
        let asked: Vec<_> = asked.into_values().collect();
        assert_eq!(asked, [("ONE".to_owned(), b"3".to_vec()), ("two".to_owned(), b"2".to_vec())]);
    }
}
