//! What is known of a share that the session is connected to (MS-SMB2 3.2.1.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use wire::command::tree_connect::{ShareFlags, ShareType, TreeConnectResponse};
use wire::ids::TreeId;
use wire::status::Status;

use crate::error::Error;
use crate::message::Answer;
use crate::shared::Shared;

/// What the opens of a tree share.
pub(crate) struct TreeState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) share: String,
    kind: ShareType,
    id: AtomicU32,
    is_sealed: AtomicBool,
}

impl TreeState {
    /// A share of that kind which is to be connected to.
    pub(crate) fn new(shared: &Arc<Shared>, share: &str, kind: ShareType) -> Self {
        TreeState {
            shared: Arc::clone(shared),
            share: share.to_owned(),
            kind,
            id: AtomicU32::new(0),
            is_sealed: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> TreeId {
        TreeId(self.id.load(Ordering::Acquire))
    }

    /// The share wants everything encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Relaxed)
    }

    /// The server has answered: what it calls the share from now on.
    pub(crate) fn take(&self, answer: &Answer) -> Result<(), Error> {
        if answer.status() != Status::SUCCESS {
            return Err(Error::refused(answer.status(), format!("connect to the share {}", self.share)));
        }
        let response = TreeConnectResponse::decode(answer.message())?;
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
