//! The server that is told of, from its start to its end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use control::{ServerHealth, ShareGauges, ShareReading};
use insight::exposition::{LogLoss, Observed, ObservedLimits, ObservedShare, ObservedSpace};
use insight::monitor::Tally;
use parking_lot::Mutex;
use server::admin::{Admin, StoreWait};

/// How long shards have to answer.
const SHARDS_ANSWER_WITHIN: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Where everything is asked for.
pub struct Source {
    /// The server.
    pub admin: Arc<dyn Admin>,
    /// Its shares.
    pub shares: ShareGauges,
    /// What its REST interface is asked for.
    pub rest: Arc<Tally>,
    /// What may be wrong with it.
    pub health: ServerHealth,
    /// What the log does not have.
    pub log: Box<dyn Fn() -> LogLoss + Send + Sync>,
    /// The program's version.
    pub version: &'static str,
    /// When the server started, counted from 1970-01-01 UTC.
    pub since: Duration,
}

/// How far the server is.
#[derive(Clone, Default)]
pub(crate) enum Stage {
    /// It serves nobody yet.
    #[default]
    Starting,
    Serving(Arc<Source>),
    /// It was told to end, and its shards do.
    Ending(Arc<Source>),
}

/// The stage, as threads share it.
#[derive(Clone, Default)]
pub(crate) struct Stages(Arc<Mutex<Stage>>);

impl Stages {
    pub(crate) fn now(&self) -> Stage {
        self.0.lock().clone()
    }

    pub(crate) fn serve(&self, source: Source) {
        *self.0.lock() = Stage::Serving(Arc::new(source));
    }

    pub(crate) fn end(&self) {
        let mut stage = self.0.lock();
        if let Stage::Serving(source) = &*stage {
            *stage = Stage::Ending(Arc::clone(source));
        }
    }
}

impl Stage {
    /// The server as it is now; `None` before it serves.
    pub(crate) fn observe(&self) -> Option<Observed> {
        match self {
            Stage::Starting => None,
            Stage::Serving(source) => Some(source.observe(source.silent_shards().len())),
            Stage::Ending(source) => Some(source.observe(0)),
        }
    }
}

impl Source {
    /// The shards that do not answer.
    pub(crate) fn silent_shards(&self) -> Vec<usize> {
        self.admin.silent_shards(SHARDS_ANSWER_WITHIN)
    }

    pub(crate) fn observe(&self, silent_shards: usize) -> Observed {
        let served = self.admin.shares().into_iter();
        let waits: HashMap<String, StoreWait> = served.filter_map(|share| Some((share.name, share.waits?))).collect();
        let shares = self.shares.read().into_iter().map(observed);
        let problems = self.health.problems(&*self.admin).into_iter();
        let faulty: HashSet<String> = problems.filter(|one| one.served).map(|one| one.share).collect();
        let shares = shares.map(|share| ObservedShare {
            waits: waits.get(&share.name).copied(),
            is_faulty: faulty.contains(&share.name),
            ..share
        });
        Observed {
            version: self.version,
            since: self.since,
            counters: self.admin.counters(),
            sessions: self.admin.session_count(),
            opens: self.admin.open_count(),
            connections: self.admin.connections(),
            silent_shards,
            memory: self.admin.memory(),
            log: (self.log)(),
            audit: self.admin.audit(),
            catalog_is_damaged: self.health.catalog_is_damaged(),
            locked_users: self.admin.locked_users().len(),
            data_available: self.health.data_available_bytes(),
            shares: shares.collect(),
            rest: self.rest.totals(),
        }
    }
}

fn observed(share: ShareReading) -> ObservedShare {
    let (provisioned, own) = (share.provisioned, share.limits);
    let mib = |mib: u32| u64::from(mib) * MIB;
    let limits = ObservedLimits {
        iops: provisioned.map(|of| of.iops).or(own.iops_max.map(u32::from)).map(u64::from),
        burst_iops: provisioned.map(|of| of.burst_iops.into()),
        burst_credits_max: provisioned.map(|of| of.burst_credits_max),
        bytes: provisioned.map(|of| of.mibps).or(own.mibps_max.map(u32::from)).map(mib),
        user_iops: own.user_iops_max.map(|iops| u32::from(iops).into()),
        user_bytes: own.user_mibps_max.map(|mibps| mib(mibps.into())),
        provisioned_bytes: provisioned.map(|of| u64::from(of.gib) * GIB),
    };
    ObservedShare {
        name: share.share,
        is_served: share.is_served,
        is_faulty: false,
        limits,
        used: share.used,
        waits: None,
        space: share.space.map(|(total, free)| ObservedSpace { total, free }),
        used_bytes: share.used_bytes,
    }
}
