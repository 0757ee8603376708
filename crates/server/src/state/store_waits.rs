//! What waits for stores and has not ended: an operator is told before it does, for it may never.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use crate::resource::pool::{Device, Waiting};
use crate::state::configuration::Share;
use crate::state::shared::Shared;

/// Whoever asks is told of what has waited for so long.
pub(crate) const TOLD_AFTER: Duration = Duration::from_secs(1);
/// The log is told of what has waited for so long.
const LOGGED_AFTER: Duration = Duration::from_secs(10);

/// A store hangs that has let something wait for so long.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// What waits for the store of a share and has not ended; for its disk, with what waits for other shares on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreWait {
    /// Requests, or parts of them.
    pub count: usize,
    /// How long the one that began first has waited.
    pub longest: Duration,
}

impl StoreWait {
    /// Whether that is a store that hangs, and not one that is slow.
    pub fn hangs(&self) -> bool {
        self.longest >= HANGS_AFTER
    }
}

/// The shares whose stores the log says to hang.
#[derive(Default)]
pub(crate) struct HangingStores(Mutex<BTreeSet<String>>);

/// What waits for the store of a share.
pub(crate) fn of_share(share: &Share, waits: &[Waiting]) -> Option<StoreWait> {
    let volume = share.store.facts().volume;
    let is_of = |device: Device| match device {
        Device::Volume(one) => one == volume,
        Device::Volumes(one, other) => one == volume || other == volume,
        Device::Own | Device::Interfaces | Device::Processor => false,
    };
    let own = waits.iter().filter(|waiting| is_of(waiting.device));
    let (count, longest) = own
        .fold((0, Duration::ZERO), |(count, longest), waiting| (count + waiting.count, longest.max(waiting.longest)));
    (count > 0).then_some(StoreWait { count, longest })
}

impl Shared {
    /// Tells the log which stores have begun to hang, and which answer again. To be called now and then.
    pub(crate) fn tell_hanging_stores(&self) {
        let waits = self.pool.waiting_longer(LOGGED_AFTER);
        let mut told = self.hanging_stores.0.lock();
        if waits.is_empty() && told.is_empty() {
            return;
        }
        let configuration = self.configuration.load();
        let mut hanging = BTreeSet::new();
        for share in &configuration.shares {
            let Some(StoreWait { count, longest }) = of_share(share, &waits) else { continue };
            hanging.insert(share.name.clone());
            if !told.contains(&share.name) {
                let (share, seconds) = (&share.name, longest.as_secs());
                tracing::warn!(name: "store_hangs", share, requests = count, seconds, "requests wait for the disk of a share, which does not answer");
            }
        }
        for share in told.difference(&hanging) {
            tracing::info!(name: "store_answers", share, "the disk of a share answers again");
        }
        *told = hanging;
    }
}
