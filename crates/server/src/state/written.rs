//! Who watches a directory is told of data that were written: now and then, and by the pool where that may wait.

use std::sync::Arc;

use store::Waits;
use wire::ids::SessionId;

use crate::resource::pool::QueueKey;
use crate::state::open::Open;
use crate::state::shared::Shared;

/// Where a file stands below more directories than these, others do not wait for the thread that made the change until all are told.
const LEVELS_AT_ONCE_MAX: usize = 16;

/// Data was written through an open, by a session. Told of now and then only.
pub(crate) fn wrote(server: &Arc<Shared>, open: &Arc<Open>, writer: SessionId) {
    let (false, Ok(file)) = (server.watches.is_idle(), open.file()) else { return };
    if server.watches.note_write(file) {
        data_changed(server, open, writer);
    }
}

/// What was written through an open is on the disk: who was not told of it is told now.
pub(crate) fn flushed(server: &Arc<Shared>, open: &Arc<Open>, writer: SessionId) {
    if server.watches.has_untold_data(open) {
        data_changed(server, open, writer);
    }
}

/// Data, or the length, of an open file changed, by a session. Never waits: the pool is asked to tell of it in the session's turn. It is
/// asked once, however much changes until it begins; where the open closes first, its close tells.
pub(crate) fn data_changed(server: &Arc<Shared>, open: &Arc<Open>, writer: SessionId) {
    if server.watches.is_idle() {
        return;
    }
    let Ok(file) = open.file() else { return };
    if file.node.waits() == Waits::Never && file.path.now().names().nth(LEVELS_AT_ONCE_MAX).is_none() {
        return server.watches.data_changed(open);
    }
    if !server.watches.asks_to_tell_of_data(file) {
        return;
    }
    let queue_key = QueueKey { session: writer.0, ..QueueKey::of_user(file.node.identity().volume, open.user.number) };
    let (server_of, open) = (Arc::clone(server), Arc::clone(open));
    server.pool.submit(queue_key, Box::new(move || server_of.watches.tell_of_data(&open)));
}
