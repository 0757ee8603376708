//! What a continuously available share answers for is on the disk: all its opens write through (MS-SMB2 3.3.5.9), and not data alone. A
//! client that finds its opens again after the power was lost believes that everything it was answered is there.

use std::sync::Arc;

use wire::command::write::WriteFlags;

use crate::command::context::Context;
use crate::state::refusal::Refusal;

impl Context {
    /// True where what the request changes is on the disk before it is answered: on a continuously available share, for clients that know of
    /// persistent opens.
    pub(crate) fn writes_through(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.is_continuous)
            && self.connection.negotiation.borrow().has_persistent_opens()
    }

    /// Has the disk keep what was changed of the open file, where the share answers for that, or the open was asked to.
    pub(crate) async fn write_through(&self) -> Result<(), Refusal> {
        let (_, file) = self.file()?;
        if !self.writes_through() && !file.writes_through(WriteFlags::NONE) {
            return Ok(());
        }
        let node = Arc::clone(&file.node);
        Ok(self.work(move || node.sync()).await??)
    }
}
