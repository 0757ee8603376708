//! The end of the interface: nobody comes any more, and who has asked something stays until that is answered.

use std::pin::pin;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::sync::watch::{Receiver, Sender};

/// Says when the end begins, and knows when nobody stays.
#[derive(Clone)]
pub(super) struct Ending(Sender<bool>);

/// Held by whatever has to end by itself.
#[derive(Clone)]
pub(crate) struct Stays(Receiver<bool>);

impl Default for Ending {
    fn default() -> Self {
        Ending(Sender::new(false))
    }
}

impl Ending {
    pub(super) fn stays(&self) -> Stays {
        Stays(self.0.subscribe())
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

impl Stays {
    /// Does something until the end begins; `None` where that was sooner.
    pub(super) async fn until_end<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stays = self.0.clone();
        // An error: what says so is gone, which is the end, too.
        let ends = stays.wait_for(|ends| *ends);
        match select(pin!(work), pin!(ends)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}
