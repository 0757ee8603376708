//! A share that the session is connected to (MS-SMB2 3.2.1.4), and what is done by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use wire::command::create::{CreateDisposition, CreateOptions, ShareAccess};
use wire::command::tree_connect::{ShareFlags, ShareType};
use wire::ids::TreeId;
use wire::security::access;
use wire::status::Status;

use crate::command::query_directory::Entry;
use crate::command::query_info::Facts;
use crate::command::{create, tree_connect};
use crate::error::Error;
use crate::file::File;
use crate::perform::Way;
use crate::session::Shared;

/// A share. Clones are the same one.
#[derive(Clone)]
pub struct Tree {
    pub(crate) state: Arc<TreeState>,
}

/// What its opens share.
pub(crate) struct TreeState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) share: String,
    kind: ShareType,
    id: AtomicU32,
    is_sealed: AtomicBool,
}

/// What an open may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look at attributes and times.
    Attributes,
    /// Read data, or list a directory.
    Read,
    /// Read and write data.
    Write,
    /// Delete or rename.
    Delete,
    /// Read and write data, and delete or rename.
    WriteAndDelete,
}

/// What an open does where the name exists, and where it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Opens what exists.
    Open,
    /// Makes what does not exist.
    Create,
    /// Opens, or makes.
    OpenOrCreate,
    /// Makes, and empties what exists. A file keeps its attributes and streams.
    Overwrite,
}

/// What others may do with a file while an open is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Open it for whatever they like.
    Everything,
    /// Open it for reading.
    Reading,
    /// Not open it.
    Nothing,
}

/// How to open a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// What the open may do.
    pub access: Access,
    /// Whether to make the name.
    pub disposition: Disposition,
    /// A directory, and nothing else (`true`); a file, and nothing else (`false`); or whatever it is.
    pub directory: Option<bool>,
    /// What others may do meanwhile.
    pub sharing: Sharing,
    /// The server keeps the open for a while when every connection is lost.
    pub durable: bool,
    /// What a link says rather than where it leads.
    pub link_itself: bool,
    /// The server answers a write once it is on its disk.
    pub write_through: bool,
    /// The server is to keep nothing of the file in memory.
    pub unbuffered: bool,
    /// In which order it will be read, as far as is known.
    pub scan: Scan,
}

/// In which order a file will be read; the server may read ahead, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scan {
    /// Nobody knows.
    #[default]
    Unknown,
    /// From its beginning to its end.
    Sequential,
    /// Here and there.
    Random,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            access: Access::Read,
            disposition: Disposition::Open,
            directory: None,
            sharing: Sharing::Everything,
            durable: false,
            link_itself: false,
            write_through: false,
            unbuffered: false,
            scan: Scan::Unknown,
        }
    }
}

impl OpenOptions {
    pub(crate) fn access_mask(&self) -> u32 {
        // No SYNCHRONIZE: a directory lends the right to see attributes, and nothing can be waited for over the network.
        let look = access::READ_ATTRIBUTES;
        let write = access::READ_DATA | access::WRITE_DATA | access::APPEND_DATA | access::WRITE_ATTRIBUTES;
        match self.access {
            Access::Attributes => look,
            Access::Read => look | access::READ_DATA | access::READ_EA,
            Access::Write => look | write,
            Access::Delete => look | access::DELETE,
            Access::WriteAndDelete => look | write | access::DELETE,
        }
    }

    pub(crate) fn share_access(&self) -> ShareAccess {
        match self.sharing {
            Sharing::Everything => ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            Sharing::Reading => ShareAccess::READ,
            Sharing::Nothing => ShareAccess::NONE,
        }
    }

    pub(crate) fn create_disposition(&self) -> CreateDisposition {
        match self.disposition {
            Disposition::Open => CreateDisposition::OPEN,
            Disposition::Create => CreateDisposition::CREATE,
            // What exists is emptied through the open, see [`File::open`].
            Disposition::OpenOrCreate | Disposition::Overwrite => CreateDisposition::OPEN_IF,
        }
    }

    pub(crate) fn create_options(&self) -> CreateOptions {
        let kind = match self.directory {
            Some(true) => CreateOptions::DIRECTORY_FILE,
            Some(false) => CreateOptions::NON_DIRECTORY_FILE,
            None => CreateOptions::NONE,
        };
        let scan = match self.scan {
            Scan::Unknown => CreateOptions::NONE,
            Scan::Sequential => CreateOptions::SEQUENTIAL_ONLY,
            Scan::Random => CreateOptions::RANDOM_ACCESS,
        };
        let flags = [
            (self.link_itself, CreateOptions::OPEN_REPARSE_POINT),
            (self.write_through, CreateOptions::WRITE_THROUGH),
            (self.unbuffered, CreateOptions::NO_INTERMEDIATE_BUFFERING),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(kind | scan, |options, (_, flag)| options | flag)
    }
}

impl Tree {
    pub(crate) async fn connect(shared: &Arc<Shared>, share: &str) -> Result<Tree, Error> {
        TreeState::connect(shared, share, ShareType::DISK).await.map(|state| Tree { state })
    }

    /// The share's name.
    pub fn share(&self) -> &str {
        &self.state.share
    }

    /// The share wants everything encrypted, whatever the session says.
    pub fn is_sealed(&self) -> bool {
        self.state.is_sealed()
    }

    /// Opens a name, with `\` or `/` between its parts; the share's root where it is empty.
    pub async fn open(&self, path: &str, options: OpenOptions) -> Result<File, Error> {
        File::open(&self.state, &wire_path(path), options).await
    }

    /// What a name stands for.
    pub async fn facts(&self, path: &str) -> Result<Facts, Error> {
        create::look(&self.state, &wire_path(path)).await
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

impl TreeState {
    /// Connects to a share, which must be of that kind.
    pub(crate) async fn connect(shared: &Arc<Shared>, share: &str, kind: ShareType) -> Result<Arc<Self>, Error> {
        let state = Arc::new(TreeState {
            shared: Arc::clone(shared),
            share: share.to_owned(),
            kind,
            id: AtomicU32::new(0),
            is_sealed: AtomicBool::new(false),
        });
        // Before it is there, so that no reconnect passes it over.
        shared.know_tree(&state);
        let body = tree_connect::body(&shared.host, share);
        let answer = shared.perform(&tree_connect::ask(&body)).await?;
        state.take(&answer)?;
        Ok(state)
    }

    pub(crate) fn id(&self) -> TreeId {
        TreeId(self.id.load(Ordering::Acquire))
    }

    /// The share wants everything encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Relaxed)
    }

    /// Connects to the share in a new session.
    pub(crate) async fn connect_again(&self, way: &Way, seal: bool) -> Result<(), Error> {
        let body = tree_connect::body(&self.shared.host, &self.share);
        let answer = way.ask(&tree_connect::ask(&body), seal, false).await;
        self.take(&answer.map_err(crate::perform::Failed::into_error)?)
    }

    fn take(&self, answer: &crate::message::Answer) -> Result<(), Error> {
        if answer.status() != Status::SUCCESS {
            return Err(Error::refused(answer.status(), format!("connect to the share {}", self.share)));
        }
        let response = wire::command::tree_connect::TreeConnectResponse::decode(answer.message())?;
        if response.share_type != self.kind {
            return Err(Error::Lacking("a share of the right kind by that name"));
        }
        self.is_sealed.store(response.share_flags.contains(ShareFlags::ENCRYPT_DATA), Ordering::Relaxed);
        self.id.store(answer.header.tree_id().0, Ordering::Release);
        Ok(())
    }
}

/// As SMB writes paths: `\` between the parts, none around them.
pub(crate) fn wire_path(path: &str) -> String {
    path.replace('/', r"\").trim_matches('\\').to_owned()
}
