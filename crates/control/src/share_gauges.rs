//! What is known of each share without asking anybody: for who looks often, and must wait neither for the catalog's disk nor for a folder's.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use server::admin::{LimitUse, ShareLimit};
use store::{RamStore, Space, Store};

use crate::served_folder::ServedFolder;
use crate::{Provisioned, ShareLimits};

/// The shares of the last configuration. A copy sees the same, and the ones after it.
#[derive(Clone, Default)]
pub struct ShareGauges(Arc<Mutex<Arc<[Gauge]>>>);

/// A share at one moment.
#[derive(Clone, Debug)]
pub struct ShareReading {
    /// Its name.
    pub share: String,
    /// Whether clients can connect to it.
    pub is_served: bool,
    /// What it is provisioned with, if it is.
    pub provisioned: Option<Provisioned>,
    /// The operator's own limits.
    pub limits: ShareLimits,
    /// How its requests have met its limits.
    pub used: LimitUse,
    /// Bytes that its store has in all, and bytes that may still be written; `None` where that is not known.
    pub space: Option<(u64, u64)>,
    /// Bytes that its own files take: of a RAM disk, and of a folder with a quota; `None` where that is not counted.
    pub used_bytes: Option<u64>,
}

/// Where a share is read.
pub(crate) struct Gauge {
    pub(crate) share: String,
    pub(crate) is_served: bool,
    pub(crate) provisioned: Option<Provisioned>,
    pub(crate) limits: ShareLimits,
    pub(crate) limit: Option<Arc<ShareLimit>>,
    pub(crate) space: SpaceGauge,
}

/// Who tells how full a store is.
pub(crate) enum SpaceGauge {
    Folder(Arc<ServedFolder>),
    /// Its files go with the share.
    Ram(Weak<RamStore>),
    Nobody,
}

impl ShareGauges {
    /// All shares of the configuration that is served, by name.
    pub fn read(&self) -> Vec<ShareReading> {
        let gauges = Arc::clone(&self.0.lock());
        gauges.iter().map(Gauge::read).collect()
    }

    /// There is another configuration.
    pub(crate) fn replace(&self, gauges: impl Iterator<Item = Gauge>) {
        let gauges = gauges.collect();
        let before = std::mem::replace(&mut *self.0.lock(), gauges);
        drop(before);
    }
}

impl Gauge {
    fn read(&self) -> ShareReading {
        ShareReading {
            share: self.share.clone(),
            is_served: self.is_served,
            provisioned: self.provisioned,
            limits: self.limits,
            used: self.limit.as_ref().map(|limit| limit.usage()).unwrap_or_default(),
            space: self.space.read().map(|space| (space.total_bytes, space.free_bytes)),
            used_bytes: self.space.used_bytes(),
        }
    }
}

impl SpaceGauge {
    fn read(&self) -> Option<Space> {
        match self {
            SpaceGauge::Folder(folder) => folder.space(),
            SpaceGauge::Ram(disk) => disk.upgrade()?.space().ok(),
            SpaceGauge::Nobody => None,
        }
    }

    pub(crate) fn used_bytes(&self) -> Option<u64> {
        match self {
            SpaceGauge::Folder(folder) => folder.used_bytes(),
            SpaceGauge::Ram(disk) => disk.upgrade().map(|disk| disk.used_bytes()),
            SpaceGauge::Nobody => None,
        }
    }
}
