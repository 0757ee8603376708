//! Keeps what the server has done, minute by minute, for `multilane metrics`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use control::{Control, DataFolder, ShareGauges, ShareProperties};
use insight::Change;
use insight::monitor::{Archive, ArchiveError, Backlog, Interval, Metric, Record, Tally};
use jiff::Timestamp;
use parking_lot::Mutex;
use server::admin::{Admin, Authentication, CountersView, Counts, Events, Scope};
use tracing::{error, info, warn};

/// The file in the data folder.
const FILE: &str = "metrics.db";
/// The shares that have no place of their own among the counters.
const OTHER_SHARES: &str = "(others)";

/// Where the numbers of a data folder are kept.
pub(crate) fn path(folder: &DataFolder) -> PathBuf {
    folder.path().join(FILE)
}

/// The thread that keeps them. It ends with this, and keeps what there is of the last minute.
pub(crate) struct Recorder {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins to keep what a server does that has just started.
    pub(crate) fn start(
        folder: &DataFolder,
        admin: Arc<dyn Admin>,
        control: &Arc<Mutex<Control>>,
        (gauges, rest): (ShareGauges, Arc<Tally>),
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let control = Arc::downgrade(control);
        let keeper = Keeper {
            path: path(folder),
            admin,
            control,
            gauges,
            rest,
            earlier: nothing(),
            backlog: Backlog::default(),
            is_failing: false,
            has_set_aside: false,
        };
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || keeper.run(&stopped))?;
        Ok(Recorder { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // What it panicked with is in the log.
            let _ = thread.join();
        }
    }
}

fn nothing() -> CountersView {
    CountersView { start: 0, at: Duration::ZERO, events: Events::default(), rows: Vec::new() }
}

struct Keeper {
    path: PathBuf,
    admin: Arc<dyn Admin>,
    /// Gone when the server has been told to end.
    control: Weak<Mutex<Control>>,
    gauges: ShareGauges,
    /// What the REST interface is asked for.
    rest: Arc<Tally>,
    earlier: CountersView,
    backlog: Backlog,
    is_failing: bool,
    /// Whether a damaged file was set aside since the last minute that was kept: a disk that damages the next one, too, is to be looked at.
    has_set_aside: bool,
}

impl Keeper {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let begin = Interval::MINUTE.begin(Timestamp::now().as_second());
            let next = (begin + Interval::MINUTE.duration().as_secs() as i64) * 1_000;
            let left = next.saturating_sub(Timestamp::now().as_millisecond()).max(0);
            let is_last =
                stopped.recv_timeout(Duration::from_millis(left as u64)) == Err(RecvTimeoutError::Disconnected);
            self.keep(begin);
            if is_last {
                return self.tell_what_is_lost();
            }
        }
    }

    /// Keeps what was done since the last look, as that of the minute that began then.
    fn keep(&mut self, begin: i64) {
        let later = self.admin.counters();
        let mut records = of_requests(&Change::between(&self.earlier, &later));
        self.earlier = later;
        for (share, record) in self.rest.take() {
            records.entry(share).or_default().add(&record);
        }
        self.add_levels(&mut records);
        let (minutes, merged) = (self.backlog.minutes(), self.backlog.merged());
        self.backlog.add(begin, records);
        match self.write() {
            Ok(()) => {
                self.has_set_aside = false;
                if std::mem::take(&mut self.is_failing) {
                    info!(name: "metrics_kept_again", minutes, merged, "metrics are kept again, with those of the minutes that have waited");
                }
            }
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                error!(name: "metrics_not_kept", %error, "what the server does is not kept for `multilane metrics`; tried again each minute");
            }
            Err(_) => {}
        }
    }

    /// Writes all that waits. A damaged file is set aside for it.
    fn write(&mut self) -> Result<(), ArchiveError> {
        match self.backlog.write(&self.path) {
            Err(ArchiveError::Damaged(error)) if !self.has_set_aside => {
                Archive::set_aside(&self.path)?;
                self.has_set_aside = true;
                let aside = Archive::aside(&self.path);
                warn!(name: "metrics_set_aside", %error, file = %aside.display(), "the archive of metrics was damaged: it has another name now, and a new one is begun");
                self.backlog.write(&self.path)
            }
            written => written,
        }
    }

    fn tell_what_is_lost(&self) {
        let minutes = self.backlog.minutes();
        if minutes > 0 {
            warn!(name: "metrics_lost", minutes, "what the server did in its last minutes could not be kept for `multilane metrics`");
        }
    }

    fn add_levels(&self, records: &mut BTreeMap<String, Record>) {
        let Some(control) = self.control.upgrade() else { return };
        let (shares, in_use) = {
            let control = control.lock();
            (control.shares(), control.limits_in_use())
        };
        records.entry(String::new()).or_default().add_level(Metric::FileShareCount, shares.len() as f64);
        for (share, bytes) in self.gauges.read().into_iter().filter_map(|one| Some((one.share, one.used_bytes?))) {
            records.entry(share).or_default().add_level(Metric::FileCapacity, bytes as f64);
        }
        for share in &shares {
            let properties = ShareProperties::from(share);
            let credits = in_use.iter().find(|one| one.share == share.name).map(|one| one.burst_credits as f64);
            let levels = [
                (Metric::FileShareCapacityQuota, properties.share_quota.map(|gib| f64::from(gib) * f64::from(1 << 30))),
                (Metric::FileShareProvisionedIops, properties.provisioned_iops.map(f64::from)),
                (Metric::FileShareProvisionedBandwidth, properties.provisioned_bandwidth_mibps.map(f64::from)),
                (Metric::FileShareAvailableBurstCredits, credits.filter(|_| share.provisioned.is_some())),
            ];
            for (metric, value) in levels.into_iter().filter_map(|(metric, value)| Some((metric, value?))) {
                records.entry(share.name.clone()).or_default().add_level(metric, value);
            }
        }
    }
}

/// What was done, by share; under no name what was done for none.
fn of_requests(change: &Change) -> BTreeMap<String, Record> {
    let mut records: BTreeMap<String, Record> = BTreeMap::new();
    let mut used: BTreeMap<String, Counts> = BTreeMap::new();
    for row in &change.rows {
        let Some((share, authentication)) = share_of(&row.scope) else { continue };
        // The REST interface tells of what it was asked for.
        if authentication != Authentication::Inside {
            records.entry(share.clone()).or_default().add_requests(authentication.name(), &row.counts);
        }
        used.entry(share).or_default().add(&row.counts);
    }
    for (share, counts) in used.iter().filter(|(share, _)| !share.is_empty()) {
        records.entry(share.clone()).or_default().add_use(counts, change.passed);
    }
    records
}

/// The share that a row is about, and how its users have proved who they are.
fn share_of(scope: &Scope) -> Option<(String, Authentication)> {
    match scope {
        Scope::Share { name, authentication } => Some((name.clone().unwrap_or_default(), *authentication)),
        Scope::OtherShares { authentication } => Some((OTHER_SHARES.to_owned(), *authentication)),
        _ => None,
    }
}
