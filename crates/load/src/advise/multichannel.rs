//! Whether multichannel should be on.

use super::model::{CHEAP, Cost, bound};
use super::{
    Advice, GAIN_MIN, Gain, Measured, Offer, Quantity, SMALL_BYTES, SMALL_LOSS, Subject, Surroundings, Verdict,
    Workload,
};
use super::{costs, range, ways};
use crate::figures;

/// What sharing the work between connections costs at most, of the gain.
const SHARING_LOSS: f64 = 0.2;

/// From a measurement where there is one, or else from the model.
pub(super) fn advice(workload: &Workload, around: &Surroundings) -> Advice {
    match &around.measured {
        Some(measured) if around.multichannel == Offer::On => by_measurement(measured),
        Some(_) | None => by_model(workload, around),
    }
}

fn by_measurement(measured: &Measured) -> Advice {
    let gain = match measured.channels {
        // What the rounds differ by is chance.
        0..=1 => Gain::none(),
        2.. => Gain { low: measured.ratio_low, high: measured.ratio_high, of: Quantity::Requests },
    };
    let (verdict, action, reason) = match measured.ratio {
        _ if measured.channels < 2 => (
            Verdict::Either,
            "Multichannel may stay as it is.",
            "There is only one channel with it, too: the interfaces of both sides suggest no more.",
        ),
        ratio if ratio >= GAIN_MIN && measured.ratio_low > 1.0 => {
            (Verdict::On, "Have multichannel on.", "It was faster in every round.")
        }
        ratio if ratio <= 1.0 / GAIN_MIN && measured.ratio_high < 1.0 => {
            (Verdict::Off, "Have multichannel off for this workload.", "It was slower in every round.")
        }
        _ => (
            Verdict::Either,
            "Multichannel may be on: it does no harm here, and a session with several channels outlives a broken one.",
            "The rounds do not agree on a difference, or it is smaller than what chance makes of it.",
        ),
    };
    let evidence = vec![
        format!(
            "measured in {} rounds of {:.1} s each way: {} requests a second with one channel, {} with several ({})",
            measured.rounds,
            measured.run.as_secs_f64(),
            figures::count(measured.one_channel_iops),
            figures::count(measured.several_channels_iops),
            figures::so_many(measured.channels, "channel")
        ),
        format!("ratio {:.2}, from {:.2} to {:.2}", measured.ratio, measured.ratio_low, measured.ratio_high),
    ];
    let (action, reason) = (action.to_owned(), reason.to_owned());
    Advice { subject: Subject::Multichannel(verdict), action, gain, reason, evidence, source: "measured here" }
}

fn by_model(workload: &Workload, around: &Surroundings) -> Advice {
    let channels = around.channels_usable();
    let costs = costs(workload, around);
    let iops = |channels, cost| bound(workload, around, channels, cost).iops;
    let (low, high) = range(costs.iter().map(|cost| iops(channels, *cost) / iops(1, *cost)));
    let gain = Gain { low: 1.0 + (low - 1.0) * (1.0 - SHARING_LOSS), high, of: Quantity::Requests };
    let (verdict, gain, reason) = judged(workload, around, gain);
    Advice {
        subject: Subject::Multichannel(verdict),
        action: action(verdict, around),
        gain,
        reason,
        evidence: evidence(workload, around, &costs),
        source: ways::GUIDANCE,
    }
}

fn evidence(workload: &Workload, around: &Surroundings, costs: &[Cost]) -> Vec<String> {
    let channels = around.channels_usable();
    let mut evidence = around.assumed.clone();
    evidence.push(format!(
        "{} over {} of interfaces, {} each; {} here",
        figures::so_many(channels, "channel"),
        figures::so_many(around.pairs, "pair"),
        figures::link(around.link_bits_per_second),
        figures::so_many(around.cores, "core")
    ));
    for cost in costs {
        let text = |channels| bound(workload, around, channels, *cost).text(workload, around);
        evidence.push(format!("over one channel{}: {}", cost.text(), text(1)));
        if channels > 1 {
            evidence.push(format!("over {channels}{}: {}", cost.text(), text(channels)));
        }
    }
    evidence
}

/// What the model's gain comes to once it is known what clients do.
fn judged(workload: &Workload, around: &Surroundings, gain: Gain) -> (Verdict, Gain, String) {
    let is_small_on_one = workload.files == 1 && workload.block_bytes < SMALL_BYTES;
    let low = if is_small_on_one { SMALL_LOSS } else { gain.low };
    match () {
        () if around.channels_usable() < 2 => {
            let reason =
                "The interfaces of both sides suggest one channel only: one link, without several receive queues.";
            (Verdict::Either, Gain::none(), reason.into())
        }
        () if workload.in_flight() <= 1.0 => {
            let reason = "One request at a time uses one channel at a time. Windows' client loses up to a tenth by it; Multilane's \
                          keeps to one channel.";
            (Verdict::Either, Gain { low: SMALL_LOSS, high: 1.0, of: gain.of }, reason.into())
        }
        () if gain.high < GAIN_MIN => {
            let cost = costs(workload, around).first().copied().unwrap_or(CHEAP);
            let held_back = bound(workload, around, 1, cost).text(workload, around);
            (
                Verdict::Either,
                Gain { low, ..gain },
                format!("One channel is not what holds this back, but {held_back}."),
            )
        }
        () => {
            let reason =
                "Each channel is served by a core and a receive queue of its own, or goes over a link of its own.";
            (Verdict::On, Gain { low, ..gain }, reason.into())
        }
    }
}

/// What to do about multichannel, given how it stands.
fn action(verdict: Verdict, around: &Surroundings) -> String {
    match (verdict, around.multichannel) {
        (Verdict::On, Offer::OffAtServer) => {
            "Switch multichannel on at the server: `multilane account update ACCOUNT --multichannel on`, `server multi channel support = yes` \
             for Samba, or the SMB settings of the storage account."
                .into()
        }
        (Verdict::On, Offer::On | Offer::Unknown) => "Have multichannel on.".into(),
        (Verdict::Off, _) => "Have multichannel off for this workload.".into(),
        (Verdict::Either, _) => "Multichannel may stay as it is.".into(),
    }
}
