//! Closes opens whose client did not return in time (MS-SMB2 3.3.2.2, 3.3.2.4, 3.3.6.2, 3.3.6.4). One task for the server.

use std::future::pending;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::Shared;

/// Runs as long as its runtime.
pub(crate) async fn scavenge(server: Arc<Shared>) {
    loop {
        let expired = server.durables.take_expired(Instant::now());
        for open in &expired {
            tracing::info!(open = open.id.0, user = %open.user.name, share = %open.tree.share, "an open was not reclaimed in time");
        }
        server.close_on_pool(expired);
        let next = server.durables.next_deadline();
        let time = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = time => {}
            () = server.durables.changed.notified() => {}
        }
    }
}
