//! The other ways to go faster: each is a change of the workload or of its surroundings, tried on the model.

use std::time::Duration;

use super::model::{CHEAP, Limit, bound};
use super::{
    Advice, GAIN_MIN, Gain, IN_FLIGHT_ENOUGH, Quantity, SMALL_BYTES, SMALL_LOSS, Subject, Surroundings, Workload,
};
use super::{gain, share};
use crate::figures;

/// Microsoft's advice for SMB shares and multichannel.
pub(crate) const GUIDANCE: &str =
    "Microsoft's guidance on SMB Multichannel performance (Azure Files); MS-SMB2 3.2.5.14.11";
const LITTLE: &str = "Little's law: requests a second are at most those in flight divided by the latency";
/// The largest requests that are worth the wait.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// The latency of a server in the same data centre, and that of one in the same rack.
const NEAR: Duration = Duration::from_micros(200);
/// What lies in the same zone is so much nearer than what lies in the same region only.
const ZONE: f64 = 0.7;

/// Every way that gives something.
pub(crate) fn ways(workload: &Workload, around: &Surroundings) -> Vec<Advice> {
    let all = [
        in_flight(workload, around),
        files(workload, around),
        block_size(workload, around),
        clients(workload, around),
        share_size(workload, around),
        distance(workload, around),
    ];
    all.into_iter().flatten().filter(|advice| advice.gain.high >= GAIN_MIN).collect()
}

/// Requests with another workload, or elsewhere, to those of now.
fn with(workload: &Workload, around: &Surroundings, then: (&Workload, &Surroundings), of: Quantity) -> Gain {
    let (other, elsewhere) = then;
    let (low, high) = gain(workload, around, |cost| bound(other, elsewhere, elsewhere.channels_now(), cost).iops);
    let larger = match of {
        Quantity::Requests => 1.0,
        Quantity::Bytes => f64::from(other.block_bytes) / f64::from(workload.block_bytes),
    };
    Gain { low: low * larger, high: high * larger, of }
}

/// What holds the workload back now, in words.
fn held_back(workload: &Workload, around: &Surroundings) -> String {
    let now = bound(workload, around, around.channels_now(), costs_first(workload, around));
    format!("now: {}", now.text(workload, around))
}

fn costs_first(workload: &Workload, around: &Surroundings) -> super::Cost {
    super::costs(workload, around).first().copied().unwrap_or(CHEAP)
}

fn in_flight(workload: &Workload, around: &Surroundings) -> Option<Advice> {
    let mut wider = *workload;
    let mut best = with(workload, around, (&wider, around), Quantity::Requests);
    while wider.in_flight() * f64::from(around.clients) < IN_FLIGHT_ENOUGH {
        let next = Workload { threads: wider.threads.saturating_mul(2), ..wider };
        let more = with(workload, around, (&next, around), Quantity::Requests);
        if more.high < best.high * GAIN_MIN {
            break;
        }
        (wider, best) = (next, more);
    }
    (wider != *workload).then(|| Advice {
        subject: Subject::InFlight,
        action: format!(
            "Have {} requests in flight instead of {}: {} threads, or more requests of each.",
            figures::count(wider.in_flight()),
            figures::count(workload.in_flight()),
            wider.threads
        ),
        gain: best,
        reason: "Too few requests are on their way to keep the server busy while answers travel.".into(),
        evidence: vec![held_back(workload, around)],
        source: LITTLE,
    })
}

fn files(workload: &Workload, around: &Surroundings) -> Option<Advice> {
    let now = bound(workload, around, around.channels_now(), costs_first(workload, around));
    if now.limit == Limit::Files {
        let wider = Workload { files: workload.files.saturating_mul(2), ..*workload };
        return Some(Advice {
            subject: Subject::Files,
            action: format!("Spread the work over {} files or more.", wider.files),
            gain: with(workload, around, (&wider, around), Quantity::Requests),
            reason: format!(
                "The service gives one file {} requests a second at most.",
                figures::count(share::FILE_IOPS)
            ),
            evidence: vec![held_back(workload, around)],
            source: share::SOURCE,
        });
    }
    let is_crowded = workload.files == 1 && workload.in_flight() > 1.0 && workload.block_bytes < SMALL_BYTES;
    (is_crowded && around.channels_now() > 1).then(|| Advice {
        subject: Subject::Files,
        action: "Spread the work over several files.".into(),
        gain: Gain { low: 1.0, high: 1.0 / SMALL_LOSS, of: Quantity::Requests },
        reason: "Small requests of many threads to one file are in each other's way in some clients and servers, above all over several \
                 channels."
            .into(),
        evidence: vec![format!("one file, {} a request", figures::bytes(workload.block_bytes))],
        source: GUIDANCE,
    })
}

fn block_size(workload: &Workload, around: &Surroundings) -> Option<Advice> {
    let mut wider = *workload;
    let mut best = with(workload, around, (&wider, around), Quantity::Bytes);
    while wider.block_bytes < BLOCK_BYTES_MAX {
        let next = Workload { block_bytes: wider.block_bytes.saturating_mul(4).min(BLOCK_BYTES_MAX), ..wider };
        let more = with(workload, around, (&next, around), Quantity::Bytes);
        if more.high < best.high * GAIN_MIN {
            break;
        }
        (wider, best) = (next, more);
    }
    (wider != *workload).then(|| Advice {
        subject: Subject::BlockSize,
        action: format!(
            "Ask for {} at once instead of {}, where the program moves more than it needs single blocks.",
            figures::bytes(wider.block_bytes),
            figures::bytes(workload.block_bytes)
        ),
        gain: best,
        reason: "Each request costs the same whatever it moves; larger ones move more for it, and each takes longer."
            .into(),
        evidence: vec![held_back(workload, around)],
        source: "throughput is requests a second times their size",
    })
}

fn clients(workload: &Workload, around: &Surroundings) -> Option<Advice> {
    let now = bound(workload, around, around.channels_now(), costs_first(workload, around));
    let more = Surroundings { clients: around.clients.saturating_mul(2), ..around.clone() };
    let gain = with(workload, around, (workload, &more), Quantity::Requests);
    // A server's own limits are not known; that two machines get twice as much is the most there can be.
    let gain = Gain { low: 1.0, ..gain };
    (!matches!(now.limit, Limit::Share | Limit::Files)).then(|| Advice {
        subject: Subject::Clients,
        action: format!("Do it from {} machines at once.", more.clients),
        gain,
        reason:
            "Each machine has cores, links and requests in flight of its own. The server's limits stay what they are."
                .into(),
        evidence: vec![held_back(workload, around)],
        source: GUIDANCE,
    })
}

fn share_size(workload: &Workload, around: &Surroundings) -> Option<Advice> {
    let now = bound(workload, around, around.channels_now(), costs_first(workload, around));
    let gib = around.provisioned_gib.filter(|_| now.limit == Limit::Share)?;
    let most = *share::PROVISIONED_GIB.end();
    let of = |gib| Surroundings { provisioned_gib: Some(gib), ..around.clone() };
    let is_short = |around: &Surroundings| {
        bound(workload, around, around.channels_now(), costs_first(workload, around)).limit == Limit::Share
    };
    let mut larger = gib.max(1);
    while larger < most && is_short(&of(larger)) {
        larger = larger.saturating_mul(2).min(most);
    }
    let elsewhere = of(larger);
    let (limits, then) = (share::ShareLimits::of(gib), share::ShareLimits::of(larger));
    let shown = |limits: &share::ShareLimits| {
        format!("{} requests a second, {}", figures::count(limits.iops), figures::rate(limits.bytes_per_second))
    };
    Some(Advice {
        subject: Subject::ShareSize,
        action: format!("Provision {larger} GiB instead of {gib}; what lies between gives its part."),
        gain: with(workload, around, (workload, &elsewhere), Quantity::Requests),
        reason: "The service gives a share requests and bytes a second by its size.".into(),
        evidence: vec![
            format!("{gib} GiB: {}; {larger} GiB: {}", shown(&limits), shown(&then)),
            format!(
                "while there are burst credits, {gib} GiB give {} requests a second",
                figures::count(limits.burst_iops)
            ),
        ],
        source: share::SOURCE,
    })
}

fn distance(workload: &Workload, around: &Surroundings) -> Option<Advice> {
    let near = if around.is_azure { around.latency.mul_f64(ZONE) } else { NEAR };
    if around.latency <= near {
        return None;
    }
    let elsewhere = Surroundings { latency: near, ..around.clone() };
    Some(Advice {
        subject: Subject::Distance,
        action: match around.is_azure {
            true => "Place the machine in the zone of the storage account.".into(),
            false => format!(
                "Bring machine and server together: {} is usual within a data centre.",
                figures::milliseconds(NEAR)
            ),
        },
        gain: with(workload, around, (workload, &elsewhere), Quantity::Requests),
        reason: "The same requests in flight come back sooner.".into(),
        evidence: vec![format!("latency {}", figures::milliseconds(around.latency)), held_back(workload, around)],
        source: LITTLE,
    })
}
