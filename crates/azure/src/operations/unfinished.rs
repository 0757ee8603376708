//! Files that are being made beside the places that they will take. As long as one is there the data folder has a record of it, so that one that was left, for
//! its session has ended or the server was killed meanwhile, goes soon, or when the server starts again. Nobody guesses such a name, so what has it then is that
//! file; what somebody has changed since it was left stays.

use std::fs::{DirBuilder, OpenOptions, read_dir, remove_file, rename};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, SystemTime};

use client::{Access, FileTime, Sharing, Status};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::opening::{Place, of_file};
use super::{Service, running};
use crate::turns::{Taker, Turn, Turns};

/// How long the data folder may take for a record, and how many there may be that wait for it: where it hangs files are made without one.
const NOTED_WITHIN: Duration = Duration::from_secs(1);
const WAIT_MAX: usize = 64;
/// How long a record may take to go; it is in nobody's way, and goes at the next start.
const ENDED_WITHIN: Duration = Duration::from_secs(30);
/// How often it is tried to remove what was left: a share may not be there yet, or somebody may have the file open. Longer each time.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// How long what was asked for may take to be done for whom nobody waits any more.
const LATE_FOR: Duration = Duration::from_secs(60);
/// How many may be left at a time while the server runs: more go at the next start.
const LEFT_MAX: usize = 1024;
/// The longest record: a path of 4,095 bytes whose characters are all escaped, and numbers.
const RECORD_BYTES_MAX: u64 = 32 << 10;

/// The records.
pub(crate) struct Unfinished {
    folder: PathBuf,
    waiting: Turns,
    tell: Sender<Leftover>,
    told: Mutex<Option<Receiver<Leftover>>>,
}

/// What was left.
pub(crate) struct Leftovers {
    known: Vec<Leftover>,
    more: Option<Receiver<Leftover>>,
}

/// A file that was left.
struct Leftover {
    record: PathBuf,
    /// What changes it from then on is somebody else.
    since: FileTime,
}

impl Leftover {
    /// One that was left when the server started, now or earlier: its record then says since when.
    fn at_start(record: PathBuf) -> Self {
        let kept = record.extension().and_then(|since| since.to_str()?.parse().ok());
        let since = kept.map_or_else(|| FileTime::from(SystemTime::now()), FileTime);
        let mut named = record.clone().into_os_string();
        named.push(format!(".{}", since.0));
        let named = PathBuf::from(named);
        match kept {
            None if rename(&record, &named).is_ok() => Leftover { record: named, since },
            _ => Leftover { record, since },
        }
    }
}

/// Where a file will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    account: String,
    /// The number of the share.
    share: i64,
    /// As SMB has it.
    path: String,
}

/// The record of a file that is there, or is about to be.
pub(super) struct Noted {
    record: PathBuf,
    waiting: Turns,
    taker: Taker,
    tell: Sender<Leftover>,
}

impl Unfinished {
    /// Records are kept in this folder, which is made when there is one.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (tell, told) = channel(LEFT_MAX);
        Unfinished { folder, waiting: Turns::new(WAIT_MAX), tell, told: Mutex::new(Some(told)) }
    }

    /// Records a file that is about to be made. Where that cannot be done it is made all the same: it stays only where the server is killed meanwhile.
    pub(super) async fn note(&self, account: &str, place: &Place) -> Option<Noted> {
        let name = place.path.rsplit('\\').next().unwrap_or_default();
        let record = Record { account: account.to_owned(), share: place.share, path: place.path.clone() };
        let mut line = serde_json::to_vec(&record).ok()?;
        line.push(b'\n');
        let taker = Taker::of_share(account, &place.share_name);
        let (waiting, tell) = (self.waiting.clone(), self.tell.clone());
        let noted = Noted { record: self.folder.join(name), waiting, taker, tell };
        let turn = self.waiting.some_within(&noted.taker, 1, NOTED_WITHIN).await?;
        let (folder, to) = (self.folder.clone(), noted.record.clone());
        match timeout(NOTED_WITHIN, blocking(turn, move || written(&folder, &to, &line))).await {
            Ok(true) => Some(noted),
            Ok(false) => None,
            // It may be written by and by.
            Err(_) => {
                noted.end();
                None
            }
        }
    }

    /// What was left when this server started, and will be while it runs.
    pub(crate) fn left(&self) -> Leftovers {
        let all = read_dir(&self.folder).into_iter().flatten().flatten();
        Leftovers { known: all.map(|one| Leftover::at_start(one.path())).collect(), more: self.told.lock().take() }
    }
}

impl Noted {
    /// The file may be left, for its session has ended, or may be made only now. It goes as soon as it can.
    pub(super) fn left(self) {
        let since = FileTime::from(SystemTime::now() + LATE_FOR);
        // Where there is no room for it the next start has it go.
        let _ = self.tell.try_send(Leftover { record: self.record, since });
    }

    /// The file has its place, or is gone. Nobody waits for that: the next start finds that there is no such file.
    pub(super) fn end(self) {
        drop(running::begin(async move {
            let Some(turn) = self.waiting.some_within(&self.taker, 1, ENDED_WITHIN).await else { return };
            blocking(turn, move || remove_file(self.record)).await;
        }));
    }
}

/// Writes a record, or nothing.
fn written(folder: &Path, record: &Path, line: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(record)?.write_all(line);
    if written.is_err() {
        let _ = remove_file(record);
    }
    written
}

/// Does what waits for the data folder, in this turn. False where it failed.
async fn blocking(turn: Turn, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> bool {
    let working = spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    let done = working.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    if let Err(error) = &done {
        tracing::debug!(%error, "the record of a file that is being made for the REST interface is not as it should be");
    }
    done.is_ok()
}

/// What a record says.
fn parsed(text: &[u8]) -> Option<Record> {
    serde_json::from_slice(text.strip_suffix(b"\n")?).ok()
}

/// Whether something may still be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Maybe,
}

/// Removes what was left, and what is left from then on.
pub(crate) async fn sweep(service: Weak<Service>, left: Leftovers) {
    let (mut known, Some(mut more)) = (left.known, left.more) else { return };
    let mut pause = AGAIN_AFTER;
    loop {
        let mut still = Vec::new();
        for one in known {
            let Some(service) = service.upgrade() else { return };
            match removed(&service, &one).await {
                Left::Nothing => drop(spawn_blocking(move || remove_file(one.record)).await),
                Left::Maybe => still.push(one),
            }
        }
        known = still;
        let next = match known.is_empty() {
            true => more.recv().await,
            false => timeout(pause, more.recv()).await.ok().flatten(),
        };
        match next {
            Some(one) => {
                known.push(one);
                pause = AGAIN_AFTER;
            }
            None if known.is_empty() => return,
            None => pause = (pause * 2).min(AGAIN_AFTER_MAX),
        }
    }
}

async fn removed(service: &Service, left: &Leftover) -> Left {
    let path = left.record.clone();
    let read = spawn_blocking(move || {
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut text).map(|_| text)
    });
    let Ok(Ok(text)) = read.await else { return Left::Maybe };
    // Before it was whole nothing was made.
    let Some(record) = parsed(&text) else { return Left::Nothing };
    let is_its = |share: &control::ShareRecord| share.id == record.share && share.account == record.account;
    let Some(share) = service.catalog.shares().into_iter().find(is_its) else { return Left::Nothing };
    let Ok(tree) = service.sessions.share_for(&record.account, &share, None).await else {
        return Left::Maybe;
    };
    let alone = client::OpenOptions { sharing: Sharing::Nothing, link_itself: true, ..of_file(Access::WriteAndDelete) };
    let file = match tree.open(&record.path, alone).await {
        Ok(file) => file,
        Err(error) => {
            return match error.status() {
                Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND | Status::FILE_IS_A_DIRECTORY) => {
                    Left::Nothing
                }
                _ => Left::Maybe,
            };
        }
    };
    let facts = file.facts();
    let is_as_it_was = facts.changed.0 < left.since.0 && facts.written.0 < left.since.0;
    let deleted = if is_as_it_was { file.delete_on_close().await } else { Ok(()) };
    let closed = file.close().await;
    if deleted.and(closed).is_err() {
        return Left::Maybe;
    }
    if is_as_it_was {
        tracing::info!(
            name: "rest_leftover_removed",
            account = record.account,
            share = share.name,
            path = record.path,
            "a file that was being made when the server ended was removed"
        );
    }
    Left::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_cut_short_names_no_file() {
        let record = Record { account: "work".into(), share: 7, path: "a\\~b.tmp".into() };
        let mut text = serde_json::to_vec(&record).unwrap();
        text.push(b'\n');
        assert!((0..text.len()).all(|cut| parsed(&text[..cut]).is_none()));
        assert_eq!(parsed(&text), Some(record));
    }

    #[test]
    fn what_was_left_is_as_old_at_the_next_start() {
        let place = tempfile::tempdir().unwrap();
        let records = Unfinished::new(place.path().to_owned());
        std::fs::write(place.path().join("~a.tmp"), "line").unwrap();
        let first = Leftover::at_start(place.path().join("~a.tmp"));
        let again = records.left().known;
        assert_eq!(
            again.iter().map(|one| (&one.record, one.since)).collect::<Vec<_>>(),
            [(&first.record, first.since)]
        );
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_written_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (folder, record) = (place.path().join("records"), place.path().join("records/one"));
        written(&folder, &record, b"line\n").unwrap();
        assert!(written(&folder, &record, b"other\n").is_err(), "it is another's");
        assert_eq!(std::fs::read(record).unwrap(), b"line\n");
    }
}
