//! A break of an oplock or lease on its way to its client (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::sync::Arc;

use crate::state::caching::{Holder, Notice, NoticeKind};
use crate::state::files::FileEntry;

/// A notice of a file: whoever loses it sends it again.
#[derive(Clone)]
pub(crate) struct BreakNotice {
    pub(crate) file: Arc<FileEntry>,
    pub(crate) notice: Arc<Notice>,
}

impl BreakNotice {
    /// What clients are told of the caching of `file`.
    pub(crate) fn new(file: &Arc<FileEntry>, notice: Notice) -> Self {
        BreakNotice { file: Arc::clone(file), notice: Arc::new(notice) }
    }

    /// True for what is said of a lease.
    pub(crate) fn is_of_client(&self) -> bool {
        match self.notice.kind {
            NoticeKind::Oplock { .. } => false,
            NoticeKind::Lease { .. } => true,
        }
    }

    /// Whose caching breaks.
    pub(crate) fn holders(&self) -> impl Iterator<Item = Holder> {
        let of_lease = match self.notice.kind {
            NoticeKind::Oplock { .. } => None,
            NoticeKind::Lease { id, .. } => Some(self.file.holders_of(id)),
        };
        self.notice.holder.clone().into_iter().chain(of_lease.into_iter().flatten())
    }

    /// True where the client has to answer and has not.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.notice.kind.must_acknowledge() && self.file.awaits_answer(&self.notice.kind)
    }
}
