//! Persistent opens that are recorded and not made anew yet: what is known of their files, so that nobody gets at these before.

use std::collections::HashMap;

use store::{Identity, Node, fold};

use super::record::{Record, RecordedName, may_be_one};
use crate::state::authorization::GrantedAccess;

/// They are found by the number that each file has in its file system.
#[derive(Default)]
pub(super) struct Expected {
    by_file: HashMap<u64, Vec<Known>>,
    count: usize,
}

struct Known {
    open: u64,
    /// `None` in records of versions that did not have it.
    volume: Option<u64>,
    born: Option<u64>,
    names: Vec<RecordedName>,
    keeps_others_out: bool,
}

impl Expected {
    /// The open of this record is awaited.
    pub(super) fn insert(&mut self, record: &Record) {
        let known = Known {
            open: record.open,
            volume: record.volume,
            born: record.born,
            names: record.known_names().collect(),
            keeps_others_out: GrantedAccess::recorded(record.granted).keeps_others_out_before_it_is_back(),
        };
        self.by_file.entry(record.file).or_default().push(known);
        self.count += 1;
    }

    /// The open has been made anew, or is lost.
    pub(super) fn remove(&mut self, record: &Record) {
        let Some(known) = self.by_file.get_mut(&record.file) else { return };
        let before = known.len();
        known.retain(|known| known.open != record.open);
        self.count -= before - known.len();
        if known.is_empty() {
            self.by_file.remove(&record.file);
        }
    }

    /// A file was made, and has the number of one that was recorded: that one is gone.
    pub(super) fn made(&mut self, file: Identity) {
        if let Some(known) = self.by_file.get_mut(&file.file) {
            let before = known.len();
            known.retain(|known| known.volume != Some(file.volume));
            self.count -= before - known.len();
            if known.is_empty() {
                self.by_file.remove(&file.file);
            }
        }
    }

    /// How many are awaited.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// True where an open of this file is awaited that keeps others out: of the `stream`, or of any where that is `None`. `name` is the last of the path that was
    /// asked for.
    ///
    /// After the machine was started anew a volume may have another number. Then the file's own number and its name have to do.
    pub(super) fn has(&self, node: &dyn Node, name: &str, stream: Option<&str>) -> bool {
        let file = node.identity();
        let of_number = self.by_file.get(&file.file).into_iter().flatten();
        let mut in_the_way = of_number.filter(|known| known.keeps_others_out && may_be_one(known.born, node.birth()));
        in_the_way.any(|known| {
            known.names.iter().any(|recorded| {
                let is_stream = stream.is_none_or(|stream| fold(stream) == fold(&recorded.stream));
                let last = recorded.path.rsplit('\\').next().unwrap_or_default();
                is_stream && (known.volume == Some(file.volume) || fold(last) == fold(name))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Kind, NewNode, RamStore, SharePath, Store, Time};
    use wire::security::access::{DELETE, FILE_ALL, READ_ATTRIBUTES, READ_DATA, WRITE_OWNER};

    use super::*;

    /// A file on a RAM disk, which knows no births.
    fn file() -> Arc<dyn Node> {
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        RamStore::new(1 << 20).create(&SharePath::parse("b").unwrap(), new).unwrap()
    }

    fn record(open: u64, node: &dyn Node, volume: Option<u64>, stream: &str) -> Record {
        let file = node.identity().file;
        Record {
            open,
            volume,
            file,
            path: r"a\b".into(),
            stream: stream.into(),
            granted: FILE_ALL,
            ..Record::default()
        }
    }

    fn expected(records: &[Record]) -> Expected {
        let mut expected = Expected::default();
        records.iter().for_each(|record| expected.insert(record));
        expected
    }

    #[test]
    fn a_file_is_known_by_its_number_whatever_its_name() {
        let file = file();
        let own = record(1, &*file, Some(file.identity().volume), "");
        let awaited = expected(std::slice::from_ref(&own));
        assert!(awaited.has(&*file, "link", Some("")));
        assert!(!awaited.has(&*file, "link", Some("stream")));
        let other = expected(&[Record { file: own.file + 1, ..own }]);
        assert!(!other.has(&*file, "b", Some("")));
    }

    #[test]
    fn an_open_that_looks_at_attributes_keeps_nobody_out_before_it_is_back() {
        let file = file();
        for (granted, in_the_way) in [(READ_ATTRIBUTES | WRITE_OWNER, false), (READ_DATA, true), (DELETE, true)] {
            let record = Record { granted, ..record(1, &*file, Some(file.identity().volume), "") };
            let expected = expected(std::slice::from_ref(&record));
            assert_eq!((expected.has(&*file, "b", Some("")), expected.count()), (in_the_way, 1), "{granted:x}");
        }
    }

    #[test]
    fn a_file_whose_volume_has_another_number_is_known_by_its_own_and_its_name() {
        let file = file();
        for volume in [None, Some(4)] {
            let expected = expected(&[record(1, &*file, volume, "Stream")]);
            assert!(expected.has(&*file, "B", Some("sTREAM")));
            assert!(expected.has(&*file, "B", None));
            assert!(!expected.has(&*file, "other", None));
        }
    }

    #[test]
    fn what_is_made_anew_or_whose_number_another_file_has_is_awaited_no_longer() {
        let file = file();
        let own = Some(file.identity().volume);
        let records = [record(1, &*file, own, ""), record(2, &*file, own, ""), record(3, &*file, Some(4), "")];
        let mut expected = expected(&records);
        expected.remove(&records[0]);
        expected.remove(&records[0]);
        assert_eq!(expected.count(), 2);
        expected.made(file.identity());
        assert_eq!(expected.count(), 1, "the volume may be another one");
        expected.remove(&records[1]);
        expected.remove(&records[2]);
        assert_eq!((expected.count(), expected.by_file.len()), (0, 0));
    }

    #[test]
    fn a_file_of_the_same_number_that_was_made_at_another_time_is_another_one() {
        assert!(may_be_one(Some(7), Some(Time(7))));
        assert!(!may_be_one(Some(7), Some(Time(8))));
        assert!(may_be_one(None, Some(Time(8))) && may_be_one(Some(7), None));
    }
}
