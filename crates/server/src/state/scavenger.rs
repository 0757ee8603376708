//! Closes opens whose client did not return in time (MS-SMB2 3.3.2.2, 3.3.2.4, 3.3.6.2, 3.3.6.4), and removes records of closed ones that the disk
//! did not let go. One task for the server.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::resource::pool::QueueKey;
use crate::state::audit::AuditEnd;
use crate::state::shared::Shared;

/// How often a record that could not be removed is tried again.
const TRIED_EVERY: Duration = Duration::from_secs(2);

/// Runs as long as its runtime.
pub(crate) async fn scavenge(server: Arc<Shared>) {
    let mut try_at = None;
    loop {
        let expired = server.durables.take_expired(Instant::now());
        for open in &expired {
            open.end.say(AuditEnd::NotReclaimed);
            tracing::info!(name: "open_expired", open = open.id.0, user = %open.user.name, share = %open.tree.share, "an open was not reclaimed in time");
        }
        server.close_on_pool(expired);
        if try_at.is_some_and(|at| at <= Instant::now()) {
            server.pool.submit(QueueKey::OWN, Box::new(server.durables.removal_of_stale_records()));
            try_at = None;
        }
        if server.durables.has_stale_records() {
            try_at.get_or_insert_with(|| Instant::now() + TRIED_EVERY);
        }
        let next = server.durables.next_deadline().into_iter().chain(try_at).min();
        let time = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = time => {}
            () = server.durables.changed() => {}
        }
    }
}
