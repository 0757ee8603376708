//! A share that the session is connected to (MS-SMB2 3.2.1.4), and what is done by name.

use std::sync::Arc;

use wire::command::tree_connect::ShareType;
use wire::context::create::OnDiskId;

use crate::command::query_directory::Entry;
use crate::command::query_info::Facts;
use crate::command::{create, tree_connect, tree_disconnect};
use crate::error::Error;
use crate::file::File;
use crate::mark::Mark;
use crate::options::{Access, Disposition, OpenOptions};
use crate::shared::Shared;
use crate::tree_state::{TreeState, wire_path};

/// A share. Clones are the same one.
#[derive(Clone)]
pub struct Tree {
    pub(crate) state: Arc<TreeState>,
    mark: Option<Mark>,
}

impl Tree {
    pub(crate) async fn connect(shared: &Arc<Shared>, share: &str) -> Result<Tree, Error> {
        tree_connect::connect(shared, share, ShareType::DISK).await.map(|state| Tree { state, mark: None })
    }

    /// The same share, where each CREATE has one more create context: of this name, with these data (MS-SMB2 2.2.13.2).
    pub fn marked(&self, (name, data): (&'static [u8], [u8; 16])) -> Tree {
        Tree { state: Arc::clone(&self.state), mark: Some(Mark::new(name, data)) }
    }

    /// True where nobody else has it, and nothing is open on it.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    /// Leaves the share (3.2.4.22), which closes all that is open on it.
    pub async fn disconnect(self) -> Result<(), Error> {
        tree_disconnect::disconnect(&self.state).await
    }

    /// The share's name.
    pub fn share(&self) -> &str {
        &self.state.share
    }

    /// The number by which the server knows the session; `None` while there is none.
    pub fn session_id(&self) -> Option<u64> {
        self.state.shared.state.lock().identity.as_ref().map(|identity| identity.session_id.0)
    }

    /// The share wants everything encrypted, whatever the session says.
    pub fn is_sealed(&self) -> bool {
        self.state.is_sealed()
    }

    /// Opens a name, with `\` or `/` between its parts; the share's root where it is empty.
    pub async fn open(&self, path: &str, options: OpenOptions) -> Result<File, Error> {
        File::open((&self.state, self.mark), &wire_path(path), options).await
    }

    /// What a name stands for.
    pub async fn facts(&self, path: &str) -> Result<Facts, Error> {
        create::look((&self.state, self.mark), &wire_path(path), false).await.map(|(facts, _)| facts)
    }

    /// The same, and the server's number for it, where it has one.
    pub async fn facts_and_id(&self, path: &str) -> Result<(Facts, Option<OnDiskId>), Error> {
        create::look((&self.state, self.mark), &wire_path(path), true).await
    }

    /// Where a symbolic link leads; `None` where it is another kind of reparse point.
    pub async fn link(&self, path: &str) -> Result<Option<String>, Error> {
        let options = OpenOptions { access: Access::Attributes, link_itself: true, ..OpenOptions::default() };
        let link = self.open(path, options).await?;
        let target = link.link().await;
        link.close().await?;
        target
    }

    /// What is in a directory, without `.` and `..`.
    pub async fn entries(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let directory = self.open(path, OpenOptions { directory: Some(true), ..OpenOptions::default() }).await?;
        let entries = directory.entries("*").await;
        directory.close().await?;
        entries
    }

    /// Makes a directory. One that exists is an error.
    pub async fn make_directory(&self, path: &str) -> Result<(), Error> {
        let options = OpenOptions { disposition: Disposition::Create, directory: Some(true), ..OpenOptions::default() };
        self.open(path, options).await?.close().await
    }

    /// Removes a file or an empty directory.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        let options = OpenOptions { access: Access::Delete, link_itself: true, ..OpenOptions::default() };
        let file = self.open(path, options).await?;
        let removed = file.delete_on_close().await;
        let closed = file.close().await;
        removed.and(closed)
    }

    /// Gives a file or directory another name in the share, in place of a file that has it where `replace`.
    pub async fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), Error> {
        let options = OpenOptions { access: Access::Delete, link_itself: true, ..OpenOptions::default() };
        let file = self.open(from, options).await?;
        let renamed = file.rename(to, replace).await;
        let closed = file.close().await;
        renamed.and(closed)
    }
}
