//! How files are opened for a request: with a bound on how long SMB clients may take to give up what they cache, and closed whatever comes of it.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use client::{Access, Facts, File, OpenOptions, Tree};
use control::{ShareRecord, SnapshotTime};
use server::admin::NotedOrigin;
use tokio::time::timeout;

use super::lease::new_id;
use super::{Ask, Service};
use crate::failure::{Code, Failure};
use crate::target::Target;

/// How long a request waits for SMB clients to give up what they cache of a file. They may take longer, and the next request finds it done.
const FLUSH_WITHIN: Duration = Duration::from_secs(20);

/// A file or directory that a request names.
pub(super) struct Place {
    pub(super) tree: Tree,
    /// The number of the share, and its name.
    pub(super) share: i64,
    pub(super) share_name: String,
    /// As SMB has it.
    pub(super) path: String,
}

impl Service {
    /// Where that is what a request names.
    pub(super) async fn place(&self, ask: &Ask) -> Result<Place, Failure> {
        let record = self.record(ask)?;
        self.place_in((ask, &ask.origin), (&record, ask.snapshot), &ask.target).await
    }

    /// A place in this share, or in a snapshot of it. What is opened there is opened on behalf of this origin.
    pub(super) async fn place_in(
        &self,
        (ask, origin): (&Ask, &NotedOrigin),
        (share, snapshot): (&ShareRecord, Option<SnapshotTime>),
        place: &Target,
    ) -> Result<Place, Failure> {
        let mut had_to_wait = snapshot.is_some();
        // It stays open until somebody is connected to it.
        let opened = match snapshot {
            Some(at) => {
                let share = share.clone();
                Some(self.in_catalog(move |operations| operations.open_snapshot(&share, at)).await?)
            }
            None => None,
        };
        let mut reaching = pin!(self.sessions.share(&ask.by, share, snapshot));
        let tree = poll_fn(|context| {
            let reached = reaching.as_mut().poll(context);
            had_to_wait |= reached.is_pending();
            reached
        });
        let tree = tree.await?.marked(origin.context());
        drop(opened);
        if had_to_wait {
            // The session may be of a key that took the place of the one that signed this.
            ask.prove_again(self)?;
        }
        Ok(Place { tree, share: share.id, share_name: share.name.clone(), path: place.path() })
    }
}

impl Place {
    /// Another name in the same directory, which nobody guesses.
    pub(super) fn beside(&self) -> Result<Place, Failure> {
        let name = format!("~{}.tmp", new_id()?);
        let path = self.path.rsplit_once('\\').map_or(name.clone(), |(directory, _)| format!("{directory}\\{name}"));
        Ok(Place { tree: self.tree.clone(), share: self.share, share_name: self.share_name.clone(), path })
    }

    /// Opens it.
    pub(super) async fn open(&self, options: OpenOptions) -> Result<File, Failure> {
        open(&self.tree, &self.path, options).await
    }

    /// Opens it, works with it, and closes it whatever came of that. Gives what it is then.
    pub(super) async fn with<T>(
        &self,
        options: OpenOptions,
        work: impl AsyncFnOnce(&File) -> Result<T, Failure>,
    ) -> Result<(T, Facts), Failure> {
        closing(self.open(options).await?, work).await
    }
}

/// Works with a file, and closes it whatever came of that. Gives what it is then.
pub(super) async fn closing<T>(
    file: File,
    work: impl AsyncFnOnce(&File) -> Result<T, Failure>,
) -> Result<(T, Facts), Failure> {
    let before = file.facts();
    let done = work(&file).await;
    let closed = file.close_and_look().await;
    let done = done?;
    Ok((done, closed?.unwrap_or(before)))
}

/// Opens a name.
pub(super) async fn open(tree: &Tree, path: &str, options: OpenOptions) -> Result<File, Failure> {
    let (tree, path) = (tree.clone(), path.to_owned());
    let mut opening = tokio::spawn(async move { tree.open(&path, options).await });
    match timeout(FLUSH_WITHIN, &mut opening).await {
        Ok(Ok(opened)) => Ok(opened?),
        Ok(Err(_)) => Err(Failure::new(Code::InternalError, "The file could not be opened.")),
        Err(_) => {
            // What is opened late is closed at once.
            tokio::spawn(async move {
                if let Ok(Ok(file)) = opening.await {
                    let _ = file.close().await;
                }
            });
            Err(Failure::new(
                Code::ClientCacheFlushDelay,
                "An SMB client has the file cached and has not given that up in time; try again.",
            ))
        }
    }
}

/// How a file, and nothing else, is opened.
pub(super) fn of_file(access: Access) -> OpenOptions {
    OpenOptions { access, directory: Some(false), wants_id: true, ..OpenOptions::default() }
}

/// How a directory, and nothing else, is opened.
pub(super) fn of_directory(access: Access) -> OpenOptions {
    OpenOptions { directory: Some(true), ..of_file(access) }
}
