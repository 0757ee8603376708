//! The id of an open (MS-SMB2 3.3.1.10, Open.FileId).

use wire::ids::FileId;

/// Names an open on this server, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpenId(pub(crate) u64);

impl OpenId {
    /// How it looks on the wire.
    pub(crate) fn file_id(self) -> FileId {
        FileId { persistent: self.0, volatile: self.0 }
    }

    /// The open that a client means, `None` where the two halves were not given together.
    pub(crate) fn from_file_id(file_id: FileId) -> Option<Self> {
        (file_id.persistent == file_id.volatile).then_some(OpenId(file_id.volatile))
    }
}
