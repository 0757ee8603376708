//! Signing or sealing takes much of the shards' time.

use server::admin::{Protection, Sum};

use super::evidence::{Evidence, SessionFacts, Shard};
use super::time::{Time, sum};
use super::{Found, Kind, percent};

/// It is a cause from this part of the shards' time on,
const PART_MIN: f64 = 0.2;
/// where a shard is at work so much of the time.
const BUSY_MIN: f64 = 0.5;

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let busiest = evidence.shards.iter().map(Shard::busy).fold(0.0, f64::max);
    let computed = evidence.shards.iter().map(|shard| shard.ran).sum::<f64>() * evidence.active.as_secs_f64();
    let each = evidence.sessions.iter().filter_map(|session| cost(session, evidence));
    let costs: Vec<(&str, f64, f64)> = each.collect();
    let (seconds, bytes) = costs.iter().fold((0.0, 0.0), |(seconds, bytes), cost| (seconds + cost.1, bytes + cost.2));
    let part = if computed > 0.0 { (seconds / computed).min(1.0) } else { 0.0 };
    if part < PART_MIN || busiest < BUSY_MIN {
        return None;
    }
    let (algorithm, ..) = costs.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let verb = if algorithm.contains("GCM") || algorithm.contains("CCM") { "Sealing" } else { "Signing" };
    let advice = match (verb, *algorithm) {
        ("Sealing", algorithm) if algorithm.contains("CCM") => {
            "let the client speak SMB 3.1.1: it seals with AES-GCM then, which costs a fraction of it"
        }
        ("Sealing", _) => {
            "multilane server set sealing enabled, and `multilane share update SHARE --seal off`   # where the network is trusted"
        }
        (_, "AES-GMAC") => {
            "multilane server set signing enabled   # where the network is trusted, and clients do not ask for it"
        }
        _ => {
            "let the client speak SMB 3.1.1 with AES-GMAC (Windows 11, Windows Server 2022, Linux 5.18): it signs at a fraction of the cost"
        }
    };
    Some(
        Found::new(Kind::Protection, part * time.rest)
            .says(format!(
                "{verb} with {algorithm} is about {} of what the shards compute: {:.0} MiB a second.",
                percent(part),
                bytes / evidence.active.as_secs_f64().max(1e-9) / f64::from(1 << 20)
            ))
            .says(format!("The busiest shard has work {} of the time.", percent(busiest)))
            .shows("part_of_cpu", part)
            .shows("cpu_seconds", seconds)
            .shows("mib", bytes / f64::from(1 << 20))
            .shows("busiest_shard", busiest)
            .mended_by(advice),
    )
}

/// The algorithm that protects a session, the seconds that this took, and the bytes.
fn cost<'a>(session: &'a SessionFacts, evidence: &Evidence) -> Option<(&'a str, f64, f64)> {
    let view = &session.view;
    let is_sealed = view.protection == Protection::Sealed
        || evidence.shares.iter().any(|share| share.view.seal_required && view.shares.contains(&share.view.name));
    let algorithm = match (is_sealed, view.protection) {
        (true, _) => view.cipher.as_deref()?,
        (false, Protection::Signed) => view.signing.as_str(),
        (false, _) => return None,
    };
    let bytes = sum(&session.counts, Sum::ReceivedBytes) + sum(&session.counts, Sum::SentBytes);
    let nanos = evidence.protection.get(algorithm)?;
    Some((algorithm, bytes * nanos / 1e9, bytes))
}
