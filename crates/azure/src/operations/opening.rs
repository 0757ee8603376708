//! How files are opened for a request: with a bound on how long SMB clients may take to give up what they cache, and closed whatever comes of it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use client::{Access, Facts, File, OpenOptions, Tree};
use control::{ShareRecord, SnapshotTime};
use server::admin::NotedOrigin;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::lease::new_id;
use super::{Ask, Service, running};
use crate::auth::Proven;
use crate::failure::{Code, Failure};
use crate::target::Target;

/// How long a request waits for SMB clients to give up what they cache of a file. They may take longer, and the next request finds it done.
pub(super) const FLUSH_WITHIN: Duration = Duration::from_secs(20);

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
        // It stays open until somebody is connected to it.
        let opened = match snapshot {
            Some(at) => {
                let share = share.clone();
                Some(self.in_catalog(move |operations| operations.open_snapshot(&share, at)).await?)
            }
            None => None,
        };
        let known = self.sessions.known_share(&ask.by, share, snapshot);
        let had_to_wait = snapshot.is_some() || known.is_none();
        let tree = match known {
            Some(tree) => tree,
            None => self.reached(&ask.by, share, snapshot).await?,
        };
        let tree = tree.marked(origin.context());
        drop(opened);
        if had_to_wait {
            // The session may be of a key that took the place of the one that signed this.
            ask.prove_again(self)?;
        }
        Ok(Place { tree, share: share.id, share_name: share.name.clone(), path: place.path() })
    }

    /// Reaches it, also where whoever asks leaves in the middle: others find it reached.
    async fn reached(&self, by: &Proven, share: &ShareRecord, snapshot: Option<SnapshotTime>) -> Result<Tree, Failure> {
        let (sessions, by, share) = (Arc::clone(&self.sessions), by.clone(), share.clone());
        let reaching = running::begin(async move { sessions.share(&by, &share, snapshot).await });
        reaching.await.map_err(|_| Failure::new(Code::InternalError, "The share could not be reached."))?
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
    pub(super) async fn open(&self, options: OpenOptions) -> Result<Opened, Failure> {
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

/// An open file or directory, which is closed once nobody works with it any more: whoever asks may leave in the middle.
pub(super) struct Opened {
    file: File,
    is_closed: bool,
}

impl Opened {
    /// Closes it.
    pub(super) async fn close(mut self) -> Result<(), client::Error> {
        // Whoever leaves before that is answered has it closed once more.
        let closed = self.file.clone().close().await;
        self.is_closed = true;
        closed
    }

    /// Closes it and tells what it was then, where that is told.
    async fn close_and_look(mut self) -> Result<Option<Facts>, client::Error> {
        let closed = self.file.clone().close_and_look().await;
        self.is_closed = true;
        closed
    }

    /// It stays open.
    pub(super) fn kept(mut self) -> File {
        self.is_closed = true;
        self.file.clone()
    }
}

impl Deref for Opened {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.is_closed && Handle::try_current().is_ok() {
            let file = self.file.clone();
            drop(running::begin(async move { file.close().await }));
        }
    }
}

/// Works with a file, and closes it whatever came of that. Gives what it is then.
pub(super) async fn closing<T>(
    file: Opened,
    work: impl AsyncFnOnce(&File) -> Result<T, Failure>,
) -> Result<(T, Facts), Failure> {
    let before = file.facts();
    let done = work(&file).await;
    let closed = file.close_and_look().await;
    let done = done?;
    Ok((done, closed?.unwrap_or(before)))
}

/// Opens a name.
pub(super) async fn open(tree: &Tree, path: &str, options: OpenOptions) -> Result<Opened, Failure> {
    match timeout(FLUSH_WITHIN, opened(tree, path, options)).await {
        Ok(opened) => opened.map_err(Failure::from),
        Err(_) => Err(Failure::new(
            Code::ClientCacheFlushDelay,
            "An SMB client has the file cached and has not given that up in time; try again.",
        )),
    }
}

/// The same, however long that takes. What is opened too late is closed at once.
pub(super) async fn opened(tree: &Tree, path: &str, options: OpenOptions) -> Result<Opened, client::Error> {
    let (tree, path) = (tree.clone(), path.to_owned());
    let opening = running::begin(async move {
        let file = tree.open(&path, options).await?;
        Ok(Opened { file, is_closed: false })
    });
    let failed = |_| client::Error::Machine("the file could not be opened".to_owned());
    opening.await.map_err(failed)?
}

/// How a file, and nothing else, is opened.
pub(super) fn of_file(access: Access) -> OpenOptions {
    OpenOptions { access, directory: Some(false), wants_id: true, ..OpenOptions::default() }
}

/// How a directory, and nothing else, is opened.
pub(super) fn of_directory(access: Access) -> OpenOptions {
    OpenOptions { directory: Some(true), ..of_file(access) }
}
