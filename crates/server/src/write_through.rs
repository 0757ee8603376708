//! What a continuously available share answers for is on the disk: all its opens write through (MS-SMB2 3.3.5.9), and not data alone. A
//! client that finds its opens again after the power was lost believes that everything it was answered is there.

use std::sync::Arc;

use store::{Error, Node, SharePath, Store};

use crate::context::Context;
use crate::refusal::Refusal;

impl Context {
    /// True where what the request changes is on the disk before it is answered: on a continuously available share, for clients that know of
    /// persistent opens.
    pub(crate) fn writes_through(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.is_continuous)
            && self.connection.negotiation.borrow().has_persistent_opens()
    }

    /// Has the disk keep what was changed of the open file, where the share answers for that.
    pub(crate) async fn write_through(&self) -> Result<(), Refusal> {
        if !self.writes_through() {
            return Ok(());
        }
        let (_, file) = self.file()?;
        let node = Arc::clone(&file.node);
        Ok(self.work(move || node.sync()).await??)
    }
}

/// Has the disk keep a new node and its name in `directory`.
pub(crate) fn keep_name(directory: &dyn Node, node: &dyn Node) -> Result<(), Error> {
    node.sync()?;
    directory.sync()
}

/// Has the disk keep that a name has gone.
pub(crate) fn keep_removal(store: &dyn Store, path: &SharePath) -> Result<(), Error> {
    match store.directory_of(path) {
        Ok((directory, _)) => directory.sync(),
        // Its directory has gone, too.
        Err(Error::NotFound | Error::PathNotFound | Error::NotDirectory | Error::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}
