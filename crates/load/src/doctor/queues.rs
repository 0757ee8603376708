//! How cards hand over what they receive: queues, rings, offloads.

use super::Finding;
use super::facts::{Card, Facts};

/// Receive queues that a card should have where there are cores for them: one for each channel that multichannel opens over it.
const QUEUES_WANTED: usize = 4;

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let cards: Vec<&Card> = facts.cards().into_iter().filter(|card| card.is_hardware).collect();
    let mut findings: Vec<Finding> = cards.iter().map(|card| queues(card, facts.machine.cores)).collect();
    if cards.is_empty() {
        return findings;
    }
    if !facts.machine.has_ethtool {
        findings.push(Finding::note(
            "ethtool",
            "ethtool is not installed: rings, offloads and the most queues a card may have were not looked at.",
            "no program of that name is found".into(),
            "sudo apt install ethtool",
        ));
        return findings;
    }
    findings.extend(cards.iter().map(|card| ring(card)));
    findings.extend(cards.iter().map(|card| offloads(card)));
    findings
}

fn queues(card: &Card, cores: usize) -> Finding {
    const CHECK: &str = "queues";
    let Card { name, receive_queues: now, receive_queues_max: max, .. } = card;
    let most =
        max.map_or_else(|| "it does not tell how many it could have".into(), |max| format!("{} at most", max.total()));
    let evidence = format!("{name}: {now} receive queues ({most}), {cores} cores");
    let wanted = cores.min(QUEUES_WANTED);
    if *now >= wanted {
        return Finding::fine(CHECK, "Several cores share what the card receives.", evidence);
    }
    match max {
        Some(max) if max.total() > *now => Finding::problem(
            CHECK,
            "Few cores do all the receiving: the card could have more queues, and without them counts as one without RSS.",
            evidence,
            match max.combined {
                0 => format!("sudo ethtool -L {name} rx {}", max.receiving.min(cores)),
                combined => format!("sudo ethtool -L {name} combined {}", combined.min(cores)),
            },
        ),
        Some(_) | None => Finding::note(
            CHECK,
            "Few cores do all the receiving, and the card has no more queues. A virtual machine's card gets them from its host.",
            evidence,
            format!("echo {} | sudo tee /sys/class/net/{name}/queues/rx-0/rps_cpus", mask(cores)),
        ),
    }
}

/// All cores, as the kernel takes them: groups of 32 bits.
fn mask(cores: usize) -> String {
    let of = |count: usize| if count >= 32 { u32::MAX } else { (1_u32 << count) - 1 };
    let groups = (0..cores.div_ceil(32)).rev().map(|group| of(cores - group * 32));
    groups.map(|group| format!("{group:x}")).collect::<Vec<_>>().join(",")
}

fn ring(card: &Card) -> Finding {
    const CHECK: &str = "ring";
    let (name, missed) = (&card.name, card.missed_packets);
    let Some(ring) = card.receive_ring else {
        return Finding::remark(
            CHECK,
            "The card does not tell how large its receive ring is.",
            format!("{name}: {missed} packets missed"),
        );
    };
    let evidence = format!("{name}: room for {} of at most {} packets, {missed} missed", ring.now, ring.max);
    let remedy = format!("sudo ethtool -G {name} rx {}", ring.max);
    match (ring.now < ring.max, missed > 0) {
        (true, true) => Finding::problem(
            CHECK,
            "Packets were lost because the receive ring was full, and it could be larger.",
            evidence,
            remedy,
        ),
        (true, false) => {
            Finding::note(CHECK, "The receive ring could be larger; nothing was lost so far.", evidence, remedy)
        }
        (false, true) => Finding::note(
            CHECK,
            "Packets were lost although the receive ring is as large as it gets: cores take them too slowly.",
            evidence,
            format!("give it more queues, and see which cores are busy: grep {name} /proc/interrupts"),
        ),
        (false, false) => Finding::fine(CHECK, "The receive ring is as large as it gets.", evidence),
    }
}

fn offloads(card: &Card) -> Finding {
    const CHECK: &str = "offloads";
    let name = &card.name;
    let (may, fixed): (Vec<_>, Vec<_>) = card.offloads_off.iter().partition(|(_, may_change)| *may_change);
    let all: Vec<&str> = card.offloads_off.iter().map(|(name, _)| name.as_str()).collect();
    let off = all.join(", ");
    match (may.is_empty(), fixed.is_empty()) {
        (true, true) => Finding::fine(
            CHECK,
            "The card and the kernel cut and join packets.",
            format!("{name}: tso, gso, gro, rx and tx are on"),
        ),
        (false, _) => Finding::problem(
            CHECK,
            "Work that the card or the kernel could do for many packets at once is done packet by packet.",
            format!("{name}: off: {}", off),
            format!(
                "sudo ethtool -K {name} {} on",
                may.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" on ")
            ),
        ),
        (true, false) => Finding::remark(
            CHECK,
            "The card lacks some of the work that others do for many packets at once.",
            format!("{name}: off and cannot be switched on: {}", off),
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn masks_name_every_core() {
        for (cores, text) in
            [(1, "1"), (2, "3"), (16, "ffff"), (32, "ffffffff"), (40, "ff,ffffffff"), (64, "ffffffff,ffffffff")]
        {
            assert_eq!(super::mask(cores), text);
        }
    }
}
