//! What was recorded and is not in the archive yet: it waits there until the archive can be written.

use std::collections::BTreeMap;
use std::path::Path;

use crate::monitor::archive::{Archive, ArchiveError};
use crate::monitor::record::Record;

/// Minutes that wait at most: an hour.
const MINUTES_MAX: usize = 60;
/// Records of single shares that wait at most, but for those of one minute. One of a share that is used in every way takes some 10 KiB.
const RECORDS_MAX: usize = 4_096;

/// The minutes that wait, by when they began.
#[derive(Debug, Default)]
pub struct Backlog {
    waiting: BTreeMap<i64, BTreeMap<String, Record>>,
    /// How many minutes more there were, which count for the oldest of them.
    merged: u64,
}

impl Backlog {
    /// Adds what was recorded in the minute that begins then, of each share. Where too much waits already, the oldest minute has what the second oldest had, too.
    pub fn add(&mut self, begin: i64, records: BTreeMap<String, Record>) {
        add_all(self.waiting.entry(begin).or_default(), records);
        while self.is_too_long()
            && let (Some((oldest, mut sum)), Some((_, second))) = (self.waiting.pop_first(), self.waiting.pop_first())
        {
            add_all(&mut sum, second);
            self.waiting.insert(oldest, sum);
            self.merged += 1;
        }
    }

    /// Writes what waits, the oldest first. What could not be written waits on.
    ///
    /// The file is open for that moment only: it may be removed, or its disk be full, at any time.
    pub fn write(&mut self, path: &Path) -> Result<(), ArchiveError> {
        let mut archive = Archive::open(path)?;
        while let Some(oldest) = self.waiting.first_entry() {
            archive.add(*oldest.key(), oldest.get())?;
            oldest.remove();
            self.merged = 0;
        }
        Ok(())
    }

    /// How many minutes wait, with those that count for the oldest.
    pub fn minutes(&self) -> u64 {
        self.waiting.len() as u64 + self.merged
    }

    /// How many of them count for the oldest, for there was no room for them.
    pub fn merged(&self) -> u64 {
        self.merged
    }

    fn is_too_long(&self) -> bool {
        let records: usize = self.waiting.values().map(BTreeMap::len).sum();
        self.waiting.len() > MINUTES_MAX || (self.waiting.len() > 1 && records > RECORDS_MAX)
    }
}

fn add_all(sum: &mut BTreeMap<String, Record>, records: BTreeMap<String, Record>) {
    for (share, record) in records {
        sum.entry(share).or_default().add(&record);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::monitor::interval::Interval;
    use crate::monitor::metric::Metric;

    /// One of each share, which was measured once.
    fn records(shares: usize) -> BTreeMap<String, Record> {
        let mut record = Record::default();
        record.add_level(Metric::FileShareMaxUsedIops, 1.0);
        (0..shares).map(|share| (share.to_string(), record.clone())).collect()
    }

    /// The minutes or hours that are kept, with how often anything was measured in them.
    fn kept(path: &Path, interval: Interval) -> Vec<(i64, u64)> {
        let mut found: BTreeMap<i64, u64> = BTreeMap::new();
        let archive = Archive::open_to_read(path).unwrap();
        let note = |begin, _: &str, record: &Record| {
            *found.entry(begin).or_default() += record.levels.values().map(|level| level.count).sum::<u64>();
        };
        archive.read(interval, &(0..i64::MAX), note).unwrap();
        found.into_iter().collect()
    }

    #[test]
    fn what_cannot_be_written_is_written_later_under_its_own_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        let mut backlog = Backlog::default();
        fs::create_dir(&path).unwrap();
        for begin in [3_480, 3_540, 3_600] {
            backlog.add(begin, records(2));
            backlog.write(&path).unwrap_err();
        }
        assert_eq!((backlog.minutes(), backlog.merged()), (3, 0));
        fs::remove_dir(&path).unwrap();
        backlog.add(3_600, records(1));
        backlog.write(&path).unwrap();
        assert_eq!(kept(&path, Interval::MINUTE), [(3_480, 2), (3_540, 2), (3_600, 3)]);
        assert_eq!(kept(&path, Interval::HOUR), [(0, 4), (3_600, 3)]);
        // It is written once.
        assert_eq!(backlog.minutes(), 0);
        backlog.write(&path).unwrap();
        assert_eq!(kept(&path, Interval::HOUR), [(0, 4), (3_600, 3)]);
    }

    #[test]
    fn what_waits_for_more_than_an_hour_counts_for_the_oldest_minute() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        let mut backlog = Backlog::default();
        (0..100).for_each(|minute| backlog.add(minute * 60, records(1)));
        assert_eq!((backlog.minutes(), backlog.merged()), (100, 40));
        backlog.write(&path).unwrap();
        let kept = kept(&path, Interval::MINUTE);
        assert_eq!(kept[..2], [(0, 41), (41 * 60, 1)]);
        assert_eq!((kept.len(), backlog.minutes()), (60, 0));
    }

    #[test]
    fn many_shares_wait_for_fewer_minutes() {
        let mut backlog = Backlog::default();
        (0..10).for_each(|minute| backlog.add(minute * 60, records(RECORDS_MAX / 4)));
        assert_eq!((backlog.waiting.len(), backlog.minutes()), (4, 10));
        // More shares than that do not keep it from going on.
        (10..12).for_each(|minute| backlog.add(minute * 60, records(RECORDS_MAX * 2)));
        assert_eq!((backlog.waiting.len(), backlog.minutes()), (1, 12));
    }
}
