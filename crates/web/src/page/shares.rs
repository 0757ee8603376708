//! Shares as the page shows them: what the catalog, their limits and the last two seconds say.

use std::collections::HashMap;
use std::time::Duration;

use control::{Problem, ShareReading, ShareRecord};
use insight::Figures;
use serde_json::{Value, json};
use server::admin::Counts;

use crate::page::list::Part;
use crate::page::readings::by_share;
use crate::page::recent::Seen;
use crate::page::source::PageSource;

/// All shares at one moment.
pub(crate) struct Shares {
    readings: Vec<ShareReading>,
    records: HashMap<String, ShareRecord>,
    problems: Vec<Problem>,
    /// What was done just now, and how long that was.
    counts: HashMap<String, Counts>,
    passed: Duration,
}

impl Shares {
    pub(crate) fn of(source: &PageSource, seen: &Seen) -> Self {
        let change = seen.change.as_ref();
        let records = source.catalog.shares().into_iter().map(|share| (share.name.clone(), share));
        Shares {
            readings: source.shares.read(),
            records: records.collect(),
            problems: source.catalog.problems_of(&*source.admin),
            counts: change.map(|change| by_share(&change.rows)).unwrap_or_default(),
            passed: change.map(|change| change.passed).unwrap_or_default(),
        }
    }

    /// Shares whose names have this text, behind the one of that name.
    pub(crate) fn part(&self, text: &str, after: Option<&String>) -> Part<Value> {
        let shares = self.readings.iter().filter(|share| share.share.to_lowercase().contains(text));
        Part::of(shares, |share| share.share.clone(), after).map(|share| self.told(share))
    }

    /// One share.
    pub(crate) fn one(&self, name: &str) -> Option<Value> {
        self.readings.iter().find(|share| share.share == name).map(|share| self.told(share))
    }

    fn told(&self, share: &ShareReading) -> Value {
        let record = self.records.get(&share.share);
        let problem = self.problems.iter().find(|one| one.share == share.share).map(|one| &one.problem);
        let counts = self.counts.get(&share.share).cloned().unwrap_or_default();
        let space = share.space.map(|(total, free)| json!({ "total": total, "left": free }));
        let provisioned = share.provisioned.map(|of| {
            json!({
                "model": of.model.as_str(),
                "gib": of.gib,
                "iops": of.iops,
                "mibps": of.mibps,
                "burst_iops": of.burst_iops,
                "burst_credits_max": of.burst_credits_max,
                "burst_credits": share.used.credits,
            })
        });
        json!({
            "name": share.share,
            "account": record.map(|record| &record.account),
            "comment": record.map(|record| &record.comment),
            "served": share.is_served,
            "problem": problem,
            "space": space,
            "used": share.used_bytes,
            "provisioned": provisioned,
            "limits": {
                "iops_max": share.limits.iops_max,
                "mibps_max": share.limits.mibps_max,
                "user_iops_max": share.limits.user_iops_max,
                "user_mibps_max": share.limits.user_mibps_max,
            },
            "waited": {
                "iops": share.used.delayed_by_requests,
                "read": share.used.delayed_reads,
                "write": share.used.delayed_writes,
                "metadata": share.used.delayed_by_metadata,
            },
            "figures": figures(&Figures::of(&counts, self.passed)),
        })
    }
}

/// Figures as the page takes them: times in milliseconds, and what each request waited for on average.
pub(crate) fn figures(figures: &Figures) -> Value {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let each = |time: Duration| if figures.requests == 0 { 0.0 } else { millis(time) / figures.requests as f64 };
    let waited = figures.waited;
    let work = figures.time.saturating_sub(waited.budget + waited.store + waited.other_client);
    json!({
        "requests": figures.requests,
        "iops": figures.iops,
        "read": figures.read_mib_s,
        "written": figures.written_mib_s,
        "p50_ms": figures.p50.map(millis),
        "p99_ms": figures.p99.map(millis),
        "errors": figures.errors,
        "throttled": figures.throttled,
        "each_ms": {
            "limit": each(waited.budget),
            "store": each(waited.store),
            "client": each(waited.other_client),
            "work": each(work),
        },
    })
}
