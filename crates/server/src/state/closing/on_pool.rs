//! Closing opens that no session has any more, on the pool and on threads: stores may have to be waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use store::threads;
use tokio::sync::oneshot;

use super::Closing;
use crate::resource::pool::{Device, QueueKey};
use crate::state::audit::{AuditEnd, SessionEnd};
use crate::state::durable::{Farewell, Keeping, Parting};
use crate::state::files::Then;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::session::Session;
use crate::state::shared::Shared;

/// How long who ends a session, a tree connect or an open of another waits until what was open is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// Opens that are closed in one turn of the pool.
const CLOSED_TOGETHER: usize = 64;

impl Shared {
    /// Closes an open that waits for its client, because it stands in somebody's way: its oplock or lease breaks, or its share mode
    /// conflicts and it caches no handle. Its claim on the file goes a little later. Not to be called with a file's state locked.
    pub(crate) fn close_disconnected(self: &Arc<Self>, id: OpenId) -> Farewell {
        let Some(open) = self.durables.find(id) else { return Farewell::NotHere };
        let keeping = open.file().map_or(Keeping::Not, |file| file.durability.keeping());
        match keeping {
            Keeping::Persistent(_) => Farewell::Stays,
            Keeping::Resilient(_) => Farewell::CachesNothing,
            Keeping::Not | Keeping::Durable(_) => match self.durables.take(id) {
                Some(open) => {
                    open.end.say(AuditEnd::GaveWay);
                    self.close_on_pool(vec![open]);
                    Farewell::Closing
                }
                None => Farewell::NotHere,
            },
        }
    }

    /// Forgets a session ([`Shared::part`]), and closes on the pool what does not outlive it.
    pub(crate) fn end_session(self: &Arc<Self>, session: &Session, parting: Parting, end: impl Into<SessionEnd>) {
        let rest = self.part(session, parting, end);
        self.close_on_pool(rest);
    }

    /// Closes opens that no session has any more, on the pool: stores may have to be waited for.
    pub(crate) fn close_on_pool(self: &Arc<Self>, opens: Vec<Arc<Open>>) {
        drop(self.begin_closing(opens));
    }

    /// The same, and waits until they are closed: for two seconds at most. Where a disk hangs that goes on by itself; until then others wait
    /// for what is in their way, and what the opens hold is their user's.
    pub(crate) async fn close_soon(self: &Arc<Self>, opens: Vec<Arc<Open>>) {
        let closing = self.begin_closing(opens);
        let all = async {
            for closed in closing {
                // It is dropped.
                let _ = closed.await;
            }
        };
        let _ = tokio::time::timeout(CLOSED_WITHIN, all).await;
    }

    /// Closes opens on threads for each volume, and waits for that for so long at most: one that hangs keeps no other's from closing, nor does the
    /// server's own folder those that are not recorded.
    pub(crate) fn close_within(self: &Arc<Self>, opens: Vec<Arc<Open>>, patience: Duration) {
        let until = std::time::Instant::now() + patience;
        let (done, closed) = std::sync::mpsc::channel();
        let is_recorded = |open: &Arc<Open>| open.file().is_ok_and(|file| file.file.is_recorded());
        let (recorded, others) = opens.into_iter().partition(is_recorded);
        for opens in [recorded, others].into_iter().flat_map(|opens| by_turn(opens).into_values()) {
            let (server, done) = (Arc::clone(self), done.clone());
            let close = move || {
                opens.iter().for_each(|open| open.close(&server));
                let _ = done.send(());
            };
            if let Err(error) = threads::start(Builder::new().name("multilane-close".to_owned()), close) {
                tracing::error!(name: "thread_not_started", %error, "no thread to close what is open on a share");
            }
        }
        drop(done);
        let left = || until.saturating_duration_since(std::time::Instant::now());
        // Ends with the last thread, too: nobody sends any more then.
        while closed.recv_timeout(left()).is_ok() {}
    }

    /// Has the pool close opens, those of each volume in a turn of their own.
    fn begin_closing(self: &Arc<Self>, opens: Vec<Arc<Open>>) -> Vec<oneshot::Receiver<()>> {
        for open in &opens {
            open.ends();
            if let Ok(file) = open.file() {
                file.file.goes(open.id);
            }
        }
        let mut closing = Vec::new();
        for (queue_key, opens) in by_turn(opens) {
            for opens in opens.chunks(CLOSED_TOGETHER) {
                closing.push(self.close_in_turn(queue_key, opens));
            }
        }
        closing
    }

    /// Has the pool close opens when all that was begun through them is made.
    fn close_in_turn(self: &Arc<Self>, queue_key: QueueKey, opens: &[Arc<Open>]) -> oneshot::Receiver<()> {
        let (closed, receiver) = oneshot::channel();
        // Dropped with the last of them.
        let closed = Arc::new(closed);
        let closing = |open: &Arc<Open>| {
            let closed = Arc::clone(&closed);
            Closing::new(Arc::clone(open)).telling(Box::new(move |_| drop(closed))).in_turn()
        };
        let closing: Vec<_> = opens.iter().map(closing).collect();
        let server = Arc::clone(self);
        let close: Then = Box::new(move || server.close_in_turns(queue_key, closing));
        let after = |then: Then, open: &Arc<Open>| -> Then {
            let open = Arc::clone(open);
            Box::new(move || open.end_with(then))
        };
        opens.iter().fold(close, after)();
        receiver
    }
}

/// Opens by the turn that closing them takes: what has to be told of them is their user's work.
fn by_turn(opens: Vec<Arc<Open>>) -> BTreeMap<QueueKey, Vec<Arc<Open>>> {
    let mut sorted: BTreeMap<QueueKey, Vec<Arc<Open>>> = BTreeMap::new();
    for open in opens {
        let device = open.file().map_or(Device::Processor, |file| Device::Volume(file.node.identity().volume));
        let queue_key = QueueKey { device, user: open.user.number, session: 0 };
        sorted.entry(queue_key).or_default().push(open);
    }
    sorted
}
