//! Who has said that a file goes, where that is audited: of which of its names, or of which stream.

use store::fold;

use super::links::may_be_one;
use super::{FileEntry, Link, Removal};
use crate::state::audit::AuditArming;
use crate::state::open_id::OpenId;

/// What somebody has said is to go.
#[derive(PartialEq, Eq)]
pub(super) enum Armed {
    /// A name of the file, as far as names were told apart.
    Name(Option<Link>),
    /// A stream, folded.
    Stream(String),
}

impl FileEntry {
    /// Notes who has said that the stream of an open, or the name that it was made by, goes.
    pub(crate) fn arm(&self, open: OpenId, stream: &str, who: AuditArming) {
        let what = match stream {
            "" => Armed::Name(self.state.lock().link_of(open)),
            stream => Armed::Stream(fold(stream)),
        };
        self.armings.note(what, who);
    }

    /// Forgets who has said so of what stays after all.
    pub(crate) fn disarm(&self) {
        let state = self.state.lock();
        let _stays = self.armings.take(|what| match what {
            Armed::Name(link) => !state.is_link_pending(link.as_ref()),
            Armed::Stream(stream) => !state.pending.as_ref().is_some_and(|pending| pending.streams.contains(stream)),
        });
    }

    /// Who has said so of what is removed, or was to be.
    pub(crate) fn armed_by(&self, removal: &Removal) -> Vec<AuditArming> {
        self.armings.take(|what| match (what, removal) {
            (Armed::Name(armed), Removal::File(link)) => may_be_one(armed.as_ref(), link.as_ref()),
            (Armed::Stream(armed), Removal::Stream(stream)) => *armed == fold(stream),
            _ => false,
        })
    }

    /// A name of the file is another one now.
    pub(super) fn armed_name_renamed(&self, from: &Link, to: &Link) {
        self.armings.rename(|what| match what {
            Armed::Name(Some(link)) if link == from => *link = to.clone(),
            _ => {}
        });
    }

    /// A stream has another name now; both are folded.
    pub(super) fn armed_stream_renamed(&self, from: &str, to: &str) {
        self.armings.rename(|what| match what {
            Armed::Stream(stream) if stream == from => to.clone_into(stream),
            _ => {}
        });
    }
}
