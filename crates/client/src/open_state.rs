//! What is known of an open file or directory (MS-SMB2 3.2.1.6).

use std::sync::Arc;

use parking_lot::Mutex;
use wire::ids::{FileId, Guid};

use crate::error::Error;
use crate::handshake::random_bytes;
use crate::mark::Mark;
use crate::options::OpenOptions;
use crate::tree_state::TreeState;

/// What is needed to ask for something of an open, and to take it up again.
pub(crate) struct OpenState {
    pub(crate) tree: Arc<TreeState>,
    pub(crate) path: String,
    pub(crate) options: OpenOptions,
    pub(crate) mark: Option<Mark>,
    /// Names the CREATE, for its replay and for taking the open up again.
    pub(crate) create_guid: Guid,
    pub(crate) lease_key: Guid,
    /// The name that it was given since.
    renamed: Mutex<Option<String>>,
    held: Mutex<Held>,
}

/// What the server has for an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nothing yet.
    Not,
    /// An open, kept for a while where every connection is lost.
    Open { id: FileId, is_durable: bool },
    /// Nothing any more: every connection was lost.
    Lost,
}

impl OpenState {
    /// What is to be opened.
    pub(crate) fn new(tree: &Arc<TreeState>, path: &str, options: OpenOptions) -> Result<Self, Error> {
        Ok(OpenState {
            tree: Arc::clone(tree),
            path: path.to_owned(),
            options,
            mark: None,
            create_guid: Guid(random_bytes()?),
            lease_key: Guid(random_bytes()?),
            renamed: Mutex::new(None),
            held: Mutex::new(Held::Not),
        })
    }

    /// The same, with a create context of the application's own.
    pub(crate) fn marked(self, mark: Option<Mark>) -> Self {
        OpenState { mark, ..self }
    }

    /// The open as the server names it now.
    pub(crate) fn file_id(&self) -> Result<FileId, Error> {
        match *self.held.lock() {
            Held::Open { id, .. } => Ok(id),
            // A CREATE has no open, and says so with a body that does not ask for it.
            Held::Not => Ok(FileId::ANY),
            Held::Lost => Err(Error::OpenLost(self.path.clone())),
        }
    }

    /// The name that the server has for it, as far as is known.
    pub(crate) fn name(&self) -> String {
        self.renamed.lock().clone().unwrap_or_else(|| self.path.clone())
    }

    /// What the server may keep where every connection is lost, and whether it was asked to; `None` where nothing is open.
    pub(crate) fn kept(&self) -> Option<(FileId, bool)> {
        match *self.held.lock() {
            Held::Not | Held::Lost => None,
            Held::Open { id, is_durable } => Some((id, is_durable)),
        }
    }

    /// It has been opened.
    pub(crate) fn opened(&mut self, id: FileId, is_durable: bool) {
        *self.held.get_mut() = Held::Open { id, is_durable };
    }

    /// It was taken up in a new session, under this id.
    pub(crate) fn taken_up(&self, id: FileId) {
        *self.held.lock() = Held::Open { id, is_durable: true };
    }

    /// The server has nothing for it any more.
    pub(crate) fn lost(&self) {
        *self.held.lock() = Held::Lost;
    }

    /// It has another name, given by itself.
    pub(crate) fn was_renamed(&self, to: String) {
        *self.renamed.lock() = Some(to);
    }
}
