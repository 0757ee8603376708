//! One open's watch on a directory (MS-FSA 2.1.1.8): from its first request on it hears of what changes. Requests are answered in their
//! order (2.1.5.11.1).

use std::sync::Arc;

use store::Reach;
use tokio::sync::oneshot;
use wire::fscc::notify::ChangeWriter;
use wire::status::Status;

use super::directory::{Answering, Asked, Directory, Listen, News};
use super::log::{Noted, Where};
use crate::state::open_id::OpenId;

/// The watch.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(super) open: OpenId,
    pub(super) reach: Reach,
    pub(super) directory: Arc<Directory>,
}

/// What a request hears.
pub(crate) enum Told {
    /// These.
    Changes(Vec<Arc<Noted>>),
    /// More than there is room for.
    TooMany,
    /// Nothing, and nothing will come.
    Ended(Status),
}

/// A request that waits. Dropped before it was answered, it gives up its place.
pub(crate) struct WatchWait {
    watch: Watch,
    ticket: u64,
    answer: oneshot::Receiver<News>,
    heard: bool,
}

impl Told {
    /// As a request with `room` bytes hears it: the changes as FILE_NOTIFY_INFORMATION (MS-FSCC 2.7.1) where all of them fit.
    pub(crate) fn encode(self, room: usize) -> (Status, Vec<u8>) {
        let changes = match self {
            Told::TooMany => return (Status::NOTIFY_ENUM_DIR, Vec::new()),
            Told::Ended(status) => return (status, Vec::new()),
            Told::Changes(changes) => changes,
        };
        let mut bytes = Vec::new();
        let mut writer = ChangeWriter::new(&mut bytes, room);
        let fits = changes.iter().all(|change| writer.push(change.action, &change.name));
        if fits { (Status::SUCCESS, bytes) } else { Told::TooMany.encode(room) }
    }
}

impl Watch {
    /// What is to be asked of the store, so that it tells of other programs' changes in this place; `is_first` is the request that asks first.
    pub(crate) fn ask_store(&self, place: Where, is_first: bool) -> Listen {
        self.directory.ask_store(self.open, place, is_first)
    }

    /// True for the first request of the watch.
    pub(crate) fn asks_first(&self) -> bool {
        self.directory.asks_first(self.open)
    }

    /// True where changes in this place are told.
    pub(crate) fn reaches(&self, place: Where) -> bool {
        place.is_reached(self.reach)
    }

    /// What there is to tell with `room` bytes, or a place to wait at.
    pub(crate) fn take(&self, room: usize) -> Result<News, WatchWait> {
        self.take_more(None, room)
    }

    /// The same for a request that was told nothing `before` that it may hear: it keeps its place before the later ones.
    pub(crate) fn take_more(&self, before: Option<Answering>, room: usize) -> Result<News, WatchWait> {
        match self.directory.ask(self.open, room, before) {
            Asked::Told(news) => Ok(news),
            Asked::Waits { ticket, answer } => Err(WatchWait { watch: self.clone(), ticket, answer, heard: false }),
        }
    }

    /// What was taken is not told.
    pub(crate) fn lose(&self) {
        self.directory.give_up(self.open, u64::MAX);
    }
}

impl WatchWait {
    /// Ends when there is something to tell. Safe to drop and call again.
    pub(crate) async fn end(&mut self) -> News {
        let news = (&mut self.answer).await;
        self.heard = true;
        news.unwrap_or((Told::Ended(Status::NOTIFY_CLEANUP), None))
    }
}

impl Drop for WatchWait {
    fn drop(&mut self) {
        if !self.heard {
            self.watch.directory.give_up(self.watch.open, self.ticket);
        }
    }
}
