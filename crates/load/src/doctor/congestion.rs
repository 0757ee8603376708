//! How TCP finds its speed, and who keeps it: BBR paces, which a card's queueing discipline does for all connections (`fq`), and where
//! that is another one a timer of each connection.

use super::Finding;
use super::facts::{Card, Facts};
use crate::figures;

const CHECK: &str = "congestion";
/// Ways to find the speed that fill fast links.
const FIT: [&str; 3] = ["cubic", "bbr", "dctcp"];
/// The queueing discipline that paces for the connections.
const PACER: &str = "fq";
/// The queueing discipline that is one for each of a card's queues.
const MULTIQUEUE: &str = "mq";
/// Up to this speed, in bits per second, the timers are few: 2,000 a second.
const SLOW: u64 = 1_000_000_000;
/// From this speed on they take a good part of a core: 20,000 a second.
const FAST: u64 = 10_000_000_000;
const CUBIC: &str = "sudo sysctl -w net.ipv4.tcp_congestion_control=cubic";
const CUBIC_FOR_GOOD: &str = "echo net.ipv4.tcp_congestion_control=cubic | sudo tee /etc/sysctl.d/90-congestion.conf";

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    vec![congestion(facts)]
}

fn congestion(facts: &Facts) -> Finding {
    let Some(name) = facts.machine.congestion.as_deref() else {
        return Finding::remark(
            CHECK,
            "The kernel does not tell how TCP finds its speed.",
            "no net.ipv4.tcp_congestion_control".into(),
        );
    };
    let evidence = evidence(facts, name);
    if name.starts_with("bbr") {
        return pacing(facts, evidence);
    }
    match FIT.contains(&name) {
        true => Finding::fine(CHECK, "TCP finds its speed in a way that fits fast links.", evidence),
        false => Finding::note(
            CHECK,
            "TCP finds its speed in a way that takes long to fill a fast link after a loss.",
            evidence,
            CUBIC,
        ),
    }
}

/// What was seen, and what cannot be: a server elsewhere paces what it sends as it is set itself.
fn evidence(facts: &Facts, name: &str) -> String {
    let mut parts = vec![format!("net.ipv4.tcp_congestion_control={name}")];
    parts.extend(facts.cards().into_iter().filter_map(|card| {
        let disciplines = card.queueing_disciplines.as_ref()?;
        let speed = card.link_speed.map_or_else(|| "speed unknown".into(), figures::link);
        Some(format!("{} ({speed}): qdisc {}", card.name, disciplines.join(", ")))
    }));
    if facts.server.as_ref().is_some_and(|server| !server.is_local()) {
        parts
            .push("this decides on writes; on reads the server's own setting does, which is not seen from here".into());
    }
    parts.join("; ")
}

fn pacing(facts: &Facts, evidence: String) -> Finding {
    let remedy = |unpaced: &[&Card]| {
        let pacers: Vec<String> = unpaced.iter().map(|card| pacer(card)).collect();
        let keep = if pacers.is_empty() { String::new() } else { format!("; or, to keep BBR: {}", pacers.join("; ")) };
        format!(
            "{CUBIC} (for good: {CUBIC_FOR_GOOD}){keep}. It counts for new connections; a Linux server needs a look of its own"
        )
    };
    if facts.server.as_ref().is_some_and(|server| server.is_local()) {
        return Finding::note(
            CHECK,
            "BBR sends by a timer of each connection even within this machine. Multilane's connections are exempt; other programs' are not.",
            evidence,
            remedy(&[]),
        );
    }
    let cards = facts.cards();
    if cards.is_empty() || cards.iter().any(|card| card.queueing_disciplines.is_none()) {
        return Finding::note(
            CHECK,
            "BBR takes much processor time on fast links whose queueing discipline is not fq, and which they have could not be told.",
            evidence,
            format!("look with `tc qdisc show` (sudo apt install iproute2); where it is not fq: {}", remedy(&[])),
        );
    }
    let unpaced: Vec<&Card> = cards.into_iter().filter(|card| !is_paced(card)).collect();
    if unpaced.is_empty() {
        return Finding::fine(CHECK, "TCP finds its speed with BBR, and fq paces for all connections.", evidence);
    }
    // Where nobody knows the speed it is most likely a virtual machine's, and fast.
    let speed = unpaced.iter().map(|card| card.link_speed.unwrap_or(FAST)).fold(0, u64::saturating_add);
    match speed {
        ..=SLOW => Finding::fine(
            CHECK,
            "BBR sends by a timer of each connection, which costs little at the speed of the links.",
            evidence,
        ),
        FAST.. => Finding::problem(
            CHECK,
            "BBR sends each 64 KiB by a timer of its connection, as the queueing discipline does not pace for it: \
             that takes much processor time, most of all in virtual machines.",
            evidence,
            remedy(&unpaced),
        ),
        _ => Finding::note(
            CHECK,
            "BBR sends each 64 KiB by a timer of its connection, as the queueing discipline does not pace for it: \
             that takes some processor time at the speed of the links.",
            evidence,
            remedy(&unpaced),
        ),
    }
}

fn is_paced(card: &Card) -> bool {
    card.queueing_disciplines.iter().flatten().any(|kind| kind == PACER)
}

/// A card with several queues gets a discipline for each, so that they share no lock. One that has `mq` already keeps its disciplines
/// when it is given `mq` again, hence the step between.
fn pacer(card: &Card) -> String {
    let name = &card.name;
    let one = format!("sudo tc qdisc replace dev {name} root {PACER}");
    match card.queueing_disciplines.iter().flatten().any(|kind| kind == MULTIQUEUE) {
        true => {
            format!(
                "sudo sysctl -w net.core.default_qdisc={PACER} && {one} && sudo tc qdisc replace dev {name} root {MULTIQUEUE}"
            )
        }
        false => {
            format!("{one} (for good: echo net.core.default_qdisc={PACER} | sudo tee /etc/sysctl.d/91-qdisc.conf)")
        }
    }
}
