//! The thread that looks at the counters every ten seconds, keeps the last minute, and says where its time went.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use control::{Error, Explain, KnownCatalog, MetadataCaching, ProvisionModel, ShareRecord};
use insight::why::{About, Answer, Cause, Path, Plan, ProvisionedBy, causes};
use insight::{ChannelName, History, KEPT, LOOK_EVERY, Look, Minute, Now};
use parking_lot::Mutex;
use serde_json::Value;
use server::admin::{Admin, CountersView, Scope, SessionView};

use super::machine;

/// A channel that moves less between two looks is no bottleneck: its connection is not asked for.
const MUCH_BYTES: u64 = 8 << 20;
/// Connections that are asked for at a look.
const PATHS_MAX: usize = 1024;
/// Names in a sentence that says which there are.
const NAMED_MAX: usize = 10;

/// The thread, until this is dropped.
pub(crate) struct Observer {
    observed: Arc<Observed>,
    _goes_on: Sender<()>,
}

/// What it has seen.
struct Observed {
    admin: Arc<dyn Admin>,
    catalog: KnownCatalog,
    history: Mutex<History>,
    /// What signing and sealing cost: measured when that is first asked.
    protection: OnceLock<BTreeMap<String, f64>>,
}

impl Observer {
    /// Looks from now on.
    pub(crate) fn start(admin: Arc<dyn Admin>, catalog: KnownCatalog) -> io::Result<Self> {
        let observed = Arc::new(Observed { admin, catalog, history: Mutex::default(), protection: OnceLock::new() });
        let (goes_on, end) = channel::<()>();
        let looks = Arc::clone(&observed);
        thread::Builder::new().name("multilane-look".to_owned()).spawn(move || {
            loop {
                looks.look_again();
                if end.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Observer { observed, _goes_on: goes_on })
    }

    /// Who says where the time went.
    pub(crate) fn explains(&self) -> Arc<dyn Explain> {
        Arc::clone(&self.observed) as Arc<dyn Explain>
    }
}

impl Observed {
    fn look_again(&self) {
        let counters = self.admin.counters();
        let movers = self.history.lock().movers(&counters, MUCH_BYTES);
        let look = self.look(counters, movers);
        self.history.lock().add(look);
    }

    /// What is seen just now; `movers` are the channels whose connections are asked for.
    fn look(&self, counters: CountersView, movers: Vec<Scope>) -> Look {
        let busy = movers.into_iter().take(PATHS_MAX).filter_map(|scope| match scope {
            Scope::Channel { session, peer, local, .. } => {
                let (_, busy) = machine::path(&local, &peer)?;
                Some(((session, peer), busy))
            }
            _ => None,
        });
        let busy = busy.collect();
        let shares = self.admin.shares().into_iter().filter(|share| !share.delayed.is_empty());
        let machine::Threads { shards, pool } = machine::threads();
        Look {
            counters,
            shards,
            pool,
            throttled: machine::throttled(),
            delayed: shares.map(|share| (share.name, share.delayed)).collect(),
            busy,
            breaks: self.admin.awaited_breaks(),
        }
    }

    fn minute(&self) -> Minute {
        let counters = self.admin.counters();
        let movers = self.history.lock().movers(&counters, 0);
        let look = self.look(counters, movers);
        let shares = self.admin.shares();
        let sessions: Vec<SessionView> = self.admin.sessions().collect();
        let (slices, throttled_for) = {
            let history = self.history.lock();
            let of = |name: &String| Some((name.clone(), history.throttled_for(name, &look)?));
            (history.up_to(&look), shares.iter().filter_map(|share| of(&share.name)).collect())
        };
        let now = Now {
            paths: paths(&sessions),
            shares,
            sessions,
            interfaces: self.admin.interfaces(),
            throttled_for,
            plans: plans(&self.catalog),
            protection: self.protection.get_or_init(machine::protection_costs).clone(),
            time: Some(machine::time_of_day()),
        };
        Minute::of(slices, now)
    }

    /// The share or session of that name, or the share that suffers most; `None` where nobody did anything.
    fn about(minute: &Minute, name: Option<&str>) -> Result<Option<(About, Vec<Cause>)>, Error> {
        let judged = |about: About| {
            let causes = causes(&minute.evidence(&about));
            (about, causes)
        };
        if let Some(name) = name {
            let about = minute.find(name).ok_or_else(|| unknown(minute, name))?;
            return Ok(Some(judged(about)));
        }
        let all = minute.busy_shares().into_iter().map(|name| judged(About::Share(name.to_owned())));
        Ok(all.max_by(|a, b| suffering(&a.1).total_cmp(&suffering(&b.1))))
    }
}

/// What shares have by the catalog.
fn plans(catalog: &KnownCatalog) -> HashMap<String, Plan> {
    let caching = catalog.accounts().into_iter().filter(|account| account.metadata_caching == MetadataCaching::On);
    let caching: HashSet<String> = caching.map(|account| account.name).collect();
    let plan = |share: ShareRecord| {
        let provisioned = share.provisioned.map(|of| match of.model {
            ProvisionModel::V1 => ProvisionedBy::Size,
            ProvisionModel::V2 => ProvisionedBy::Parts,
        });
        (share.name, Plan { provisioned, caches_metadata: caching.contains(&share.account) })
    };
    catalog.shares().into_iter().map(plan).collect()
}

impl Explain for Observed {
    fn why(&self, about: Option<&str>) -> Result<Value, Error> {
        let minute = self.minute();
        let found = Observed::about(&minute, about)?;
        let covers = minute.covers();
        let requests = found.as_ref().map_or(0, |(about, _)| minute.evidence(about).counts.all_requests());
        let (about, causes) = found.map_or((None, Vec::new()), |(about, causes)| (Some(about.named()), causes));
        let is_short = covers + LOOK_EVERY / 2 < KEPT;
        let answer = Answer { about, seconds: covers.as_secs_f64(), is_short, requests, causes };
        serde_json::to_value(&answer)
            .map_err(|cause| Error::machine(format!("cannot write JSON: {cause}"), "report this"))
    }
}

/// How much of a share's time its causes explain.
fn suffering(causes: &[Cause]) -> f64 {
    causes.iter().map(|cause| cause.share).fold(0.0, f64::max)
}

fn paths(sessions: &[SessionView]) -> HashMap<ChannelName, Path> {
    let channels =
        sessions.iter().flat_map(|session| session.channels.iter().map(move |channel| (session.id, channel)));
    let known = channels.take(PATHS_MAX).filter_map(|(session, channel)| {
        let (path, _) = machine::path(&channel.local, &channel.peer)?;
        Some(((session, channel.peer.clone()), path))
    });
    known.collect()
}

fn unknown(minute: &Minute, name: &str) -> Error {
    let shares: Vec<&str> = minute.shares().take(NAMED_MAX + 1).collect();
    let remedy = match shares.as_slice() {
        [] => "no share is served; `multilane sessions` shows the sessions".to_owned(),
        few if few.len() <= NAMED_MAX => {
            format!("the shares are {}; `multilane sessions` shows the numbers of sessions", few.join(", "))
        }
        _ => "`multilane share list` shows the shares, and `multilane sessions` the numbers of sessions".to_owned(),
    };
    Error::missing(format!("there is no share and no session {name}"), remedy)
}
