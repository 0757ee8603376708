//! Files that are being made beside those whose places they take. As long as one is there the data folder has a record of it, so that one that was left, for the
//! server was killed or ended meanwhile, goes when it starts again. A record has two lines: where the file will be, before it is made, and then its number, before
//! something is in it. What has another number later is somebody else's, and stays; without a number what is not empty stays, and what is not as old as its record.

use std::fs::{DirBuilder, OpenOptions, read_dir, remove_file};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use client::{Access, File, FileTime, Sharing, Status};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::Service;
use super::opening::{Place, of_file};

/// How long the data folder may take for a record, and how many there may be that wait for it: where it hangs files are made without one.
const NOTED_WITHIN: Duration = Duration::from_secs(1);
const WAIT_MAX: usize = 8;
/// How often it is tried to remove what was left: a share may not be there yet, or somebody may have the file open.
const TRIES: u32 = 6;
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// What was made so long before or after its record began is another file; in units of 100 ns.
const AS_OLD_WITHIN: u64 = 10 * 10_000_000;
/// The longest record: a path of 4,095 bytes whose characters are all escaped, and numbers.
const RECORD_BYTES_MAX: u64 = 32 << 10;

/// The records.
pub(crate) struct Unfinished {
    folder: PathBuf,
    waiting: Arc<Semaphore>,
}

/// Where a file will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    account: String,
    /// The number of the share.
    share: i64,
    /// As SMB has it.
    path: String,
    /// When it is made, as SMB has times.
    made: u64,
}

/// The record of a file that is there, or is about to be.
pub(super) struct Noted {
    record: PathBuf,
    waiting: Arc<Semaphore>,
}

impl Unfinished {
    /// Records are kept in this folder, which is made when there is one.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Unfinished { folder, waiting: Arc::new(Semaphore::new(WAIT_MAX)) }
    }

    /// Records a file that is about to be made. Where that cannot be done it is made all the same: it stays only where the server is killed meanwhile.
    pub(super) async fn note(&self, account: &str, place: &Place) -> Option<Noted> {
        let name = place.path.rsplit('\\').next().unwrap_or_default();
        let made = FileTime::from(SystemTime::now()).0;
        let record = Record { account: account.to_owned(), share: place.share, path: place.path.clone(), made };
        let mut line = serde_json::to_vec(&record).ok()?;
        line.push(b'\n');
        let (folder, record) = (self.folder.clone(), self.folder.join(name));
        let to = record.clone();
        let write = move || {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?.write_all(&line)
        };
        in_time(&self.waiting, write).await?;
        Some(Noted { record, waiting: Arc::clone(&self.waiting) })
    }

    /// What was left when this server started.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        read_dir(&self.folder).map_or_else(|_| Vec::new(), |all| all.flatten().map(|one| one.path()).collect())
    }
}

impl Noted {
    /// It is made, and nothing is in it yet.
    pub(super) async fn made(&self, file: &File) {
        let (Some(id), record) = (file.id(), self.record.clone()) else { return };
        let line = format!("{}\n", id.disk_file_id);
        let add = move || {
            let mut file = OpenOptions::new().append(true).open(record)?;
            file.write_all(line.as_bytes())?;
            // The file itself is on its disk soon, whatever becomes of the power.
            file.sync_data()
        };
        let _ = in_time(&self.waiting, add).await;
    }

    /// The file has the place of another one, or is gone. Where this fails the next start finds that there is no such file.
    pub(super) async fn end(self) {
        let record = self.record;
        let _ = in_time(&self.waiting, move || remove_file(record)).await;
    }
}

/// Does something that waits for the data folder; nothing where too much waits for that.
async fn in_time(waiting: &Arc<Semaphore>, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Option<()> {
    let waits = Arc::clone(waiting).try_acquire_owned().ok()?;
    let working = spawn_blocking(move || {
        let _waits = waits;
        work()
    });
    let done = timeout(NOTED_WITHIN, working).await.ok()?.ok()?;
    done.inspect_err(
        |error| tracing::debug!(%error, "a file that is being made for the REST interface is not recorded"),
    )
    .ok()
}

/// What a record says: where its file is, and the number of that if it is known.
fn parsed(text: &[u8]) -> Option<(Record, Option<u64>)> {
    let (record, rest) = text.split_at(text.iter().position(|byte| *byte == b'\n')?);
    // A number without an end may be a part of one.
    let number =
        std::str::from_utf8(rest).ok().and_then(|rest| rest.strip_prefix('\n')?.strip_suffix('\n')?.parse().ok());
    Some((serde_json::from_slice(record).ok()?, number))
}

/// Whether something may still be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Maybe,
}

/// Removes what was left.
pub(crate) async fn sweep(service: Arc<Service>, mut records: Vec<PathBuf>) {
    for _ in 0..TRIES {
        let mut still = Vec::new();
        for path in records {
            match removed(&service, path.clone()).await {
                Left::Nothing => drop(spawn_blocking(move || remove_file(path)).await),
                Left::Maybe => still.push(path),
            }
        }
        records = still;
        if records.is_empty() {
            return;
        }
        sleep(AGAIN_AFTER).await;
    }
    tracing::debug!(
        count = records.len(),
        "files that were being made for the REST interface are left until the next start"
    );
}

async fn removed(service: &Service, path: PathBuf) -> Left {
    let read = spawn_blocking(move || {
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut text).map(|_| text)
    });
    let Ok(Ok(text)) = read.await else { return Left::Maybe };
    // Before it was whole nothing was made.
    let Some((record, number)) = parsed(&text) else { return Left::Nothing };
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
    let is_it = match number {
        Some(number) => file.id().is_some_and(|id| id.disk_file_id == number),
        None => {
            let facts = file.facts();
            facts.end_of_file == 0 && facts.created.0.abs_diff(record.made) <= AS_OLD_WITHIN
        }
    };
    let deleted = if is_it { file.delete_on_close().await } else { Ok(()) };
    let closed = file.close().await;
    if deleted.and(closed).is_err() {
        return Left::Maybe;
    }
    if is_it {
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
    fn a_record_that_was_cut_short_names_no_file_or_no_number() {
        let record = Record { account: "work".into(), share: 7, path: "a\\~b.tmp".into(), made: 9 };
        let mut text = serde_json::to_vec(&record).unwrap();
        let line = text.len();
        text.extend_from_slice(b"\n1234\n");
        for cut in 0..text.len() {
            let wanted = (cut > line).then(|| (record.clone(), None));
            assert_eq!(parsed(&text[..cut]), wanted, "{cut}");
        }
        assert_eq!(parsed(&text), Some((record, Some(1234))));
    }
}
