//! Files that are being made beside those whose places they take. As long as one is there the data folder has a record of it, so that one that was left, for the
//! server was killed or ended meanwhile, goes when it starts again. What has another number by then is somebody else's, and stays.

use std::fs::{DirBuilder, OpenOptions, read_dir};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::{Access, File, Sharing, Status};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::Service;
use super::opening::{Place, of_file};

/// How long the data folder may take for a record, and how many there may be that wait for it: where it hangs files are made without one.
const NOTED_WITHIN: Duration = Duration::from_secs(1);
const WAIT_MAX: usize = 8;
/// How often it is tried to remove what was left: a share may not be there yet, or somebody may have the file open.
const TRIES: u32 = 6;
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The longest record: a path of 4,095 bytes whose characters are all escaped, and numbers.
const RECORD_BYTES_MAX: u64 = 32 << 10;

/// The records.
pub(crate) struct Unfinished {
    folder: PathBuf,
    waiting: Arc<Semaphore>,
}

/// What is recorded of one file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    account: String,
    /// The number of the share.
    share: i64,
    /// As SMB has it.
    path: String,
    /// The number of the file.
    file: u64,
}

/// The record of a file that is there.
pub(super) struct Noted {
    record: PathBuf,
}

impl Unfinished {
    /// Records are kept in this folder, which is made when there is one.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Unfinished { folder, waiting: Arc::new(Semaphore::new(WAIT_MAX)) }
    }

    /// Records a file that was just made. Where that cannot be done it is made all the same: it stays only where the server is killed meanwhile.
    pub(super) async fn note(&self, account: &str, place: &Place, file: &File) -> Option<Noted> {
        let name = place.path.rsplit('\\').next().unwrap_or_default();
        let record = Record {
            account: account.to_owned(),
            share: place.share,
            path: place.path.clone(),
            file: file.id()?.disk_file_id,
        };
        let waits = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let (folder, to) = (self.folder.clone(), self.folder.join(name));
        let noted = Noted { record: to.clone() };
        let write = tokio::task::spawn_blocking(move || {
            let _waits = waits;
            let written = DirBuilder::new().recursive(true).mode(0o700).create(folder).and_then(|()| {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
                file.write_all(&serde_json::to_vec(&record)?)
            });
            written.inspect_err(
                |error| tracing::debug!(%error, "a file that is being made for the REST interface is not recorded"),
            )
        });
        timeout(NOTED_WITHIN, write).await.ok()?.ok()?.ok().map(|()| noted)
    }

    /// What was left when this server started.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        read_dir(&self.folder).map_or_else(|_| Vec::new(), |all| all.flatten().map(|one| one.path()).collect())
    }
}

impl Noted {
    /// The file has the place of another one, or is gone.
    pub(super) async fn end(self) {
        forget(self.record).await;
    }
}

/// Where that fails it is found at the next start that there is no such file.
async fn forget(record: PathBuf) {
    let _ = timeout(NOTED_WITHIN, tokio::task::spawn_blocking(move || std::fs::remove_file(record))).await;
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
                Left::Nothing => forget(path).await,
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
    let read = tokio::task::spawn_blocking(move || -> io::Result<Option<Record>> {
        use std::io::Read;
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text).ok())
    });
    let Ok(Ok(read)) = read.await else { return Left::Maybe };
    // One that was not written to its end is of a file into which nothing was written.
    let Some(record) = read else { return Left::Nothing };
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
    let is_it = file.id().is_some_and(|id| id.disk_file_id == record.file);
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
