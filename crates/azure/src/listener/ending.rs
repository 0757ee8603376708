//! The end of the interface: nobody comes any more, strangers and who has asked nothing go at once, and who has asked something stays until that is
//! answered.

use std::pin::pin;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::sync::watch::{Receiver, Sender};

/// Says when the end begins, and knows when nobody stays.
#[derive(Clone)]
pub(super) struct Ending(Sender<bool>);

/// Held by whatever the end waits for.
#[derive(Clone)]
pub(crate) struct Awaited(Receiver<bool>);

impl Default for Ending {
    fn default() -> Self {
        Ending(Sender::new(false))
    }
}

impl Ending {
    pub(super) fn awaited(&self) -> Awaited {
        Awaited(self.0.subscribe())
    }

    /// Begins the end, and waits until nobody stays, for so long at most.
    pub(super) fn begin(&self, runtime: &Runtime, patience: Duration) {
        self.0.send_replace(true);
        let (tell, told) = sync_channel(1);
        let ending = self.0.clone();
        runtime.spawn(async move {
            ending.closed().await;
            let _ = tell.send(());
        });
        // An error: some stay, and are cut off.
        let _ = told.recv_timeout(patience);
    }
}

impl Awaited {
    /// Does something until the end begins; `None` where that was sooner.
    pub(super) async fn until_end<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut told = self.0.clone();
        // An error: what says so is gone, which is the end, too.
        let ends = told.wait_for(|ends| *ends);
        match select(pin!(work), pin!(ends)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Instant;

    use tokio::runtime::Builder;
    use tokio::sync::oneshot::channel;

    use super::*;

    #[test]
    fn the_end_is_heard_of_and_waits_for_who_stays_and_no_longer_than_it_may() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let (patience, short) = (Duration::from_secs(60), Duration::from_millis(50));
        let ending = Ending::default();
        let (stays, (tell, told)) = (ending.awaited(), channel());
        runtime.spawn(async move {
            assert_eq!(stays.until_end(async { 1 }).await, Some(1));
            let heard = stays.until_end(pending::<()>()).await.is_none();
            // It does something more before it leaves.
            tokio::task::yield_now().await;
            tell.send(heard).unwrap();
            drop(stays);
        });
        let begun = Instant::now();
        ending.begin(&runtime, patience);
        assert!(begun.elapsed() < patience);
        assert_eq!(runtime.block_on(told), Ok(true));
        let stuck = ending.awaited();
        let begun = Instant::now();
        ending.begin(&runtime, short);
        assert!(begun.elapsed() >= short);
        drop(stuck);
    }
}
