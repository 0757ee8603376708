//! Links: the size of packets, speed, duplex.

use super::Finding;
use super::facts::{Card, Facts, Path, Server};
use crate::figures;

/// From this speed on, packets of 1,500 bytes cost a core what it could do better.
const FAST: u64 = 10_000_000_000;
/// What counts as jumbo frames.
const JUMBO_BYTES: u32 = 8_000;
/// How much of the throughput slower cards that are left out may have before it is a problem.
const LEFT_OUT_MAX: f64 = 0.25;

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let cards = facts.cards();
    if cards.is_empty() {
        let why = match &facts.server {
            Some(server) if server.is_local() => "The server is on this machine: there is no link to look at.",
            Some(_) | None => "No network card is on the way, or none that this machine shows.",
        };
        return vec![Finding::remark("links", why, format!("{} interfaces are up", facts.machine.cards.len()))];
    }
    let mut findings = vec![packets(&cards, facts.server.as_ref())];
    findings.extend(cards.iter().filter(|card| card.is_half_duplex).map(|card| half_duplex(card)));
    findings.push(speeds(&cards, facts.server.as_ref()));
    findings
}

fn packets(cards: &[&Card], server: Option<&Server>) -> Finding {
    const CHECK: &str = "mtu";
    let paths = server.map_or(&[][..], |server| &server.paths);
    let mut shown: Vec<String> = cards.iter().map(|card| format!("{} {}", card.name, card.mtu)).collect();
    shown.extend(paths.iter().map(|Path { interface, address, packet_bytes }| match packet_bytes {
        Some(bytes) => format!("from {interface} to {address} {bytes}"),
        None => format!("from {interface} to {address} unknown"),
    }));
    let evidence = format!("bytes a packet: {}", shown.join(", "));
    let largest = cards.iter().map(|card| card.mtu).max().unwrap_or(0);
    let remedies: Vec<String> = cards
        .iter()
        .filter_map(|card| Some(format!("sudo ip link set dev {} mtu {}", card.name, less_than_card(card, paths)?)))
        .collect();
    if !remedies.is_empty() {
        return Finding::problem(
            CHECK,
            "The way to the server takes smaller packets than this machine's card: something between them has jumbo frames off.",
            evidence,
            format!("switch them on there, or: {}", remedies.join(" && ")),
        );
    }
    if let Some(other) = cards.iter().find(|card| card.mtu != largest) {
        return Finding::note(
            CHECK,
            "The cards differ in the size of their packets.",
            evidence,
            format!("sudo ip link set dev {} mtu {largest}", other.name),
        );
    }
    match cards.iter().find(|card| card.mtu < JUMBO_BYTES && card.link_speed.is_some_and(|speed| speed >= FAST)) {
        Some(card) => Finding::note(
            CHECK,
            "Jumbo frames are off on a fast link. They save CPU time, if everything between here and the server takes them.",
            evidence,
            format!("sudo ip link set dev {} mtu 9000, and the same on the server and on every switch", card.name),
        ),
        None => Finding::fine(CHECK, "The size of packets fits the links.", evidence),
    }
}

/// The largest packet of a card's paths, where it is less than the card's.
fn less_than_card(card: &Card, paths: &[Path]) -> Option<u32> {
    let of_card = paths.iter().filter(|path| path.interface == card.name);
    of_card.filter_map(|path| path.packet_bytes).min().filter(|bytes| *bytes < card.mtu)
}

fn half_duplex(card: &Card) -> Finding {
    Finding::problem(
        "duplex",
        "The link sends or receives, but not both at once: cable, card and switch do not agree.",
        format!("{} duplex half", card.name),
        format!("change the cable, and: sudo ethtool -s {} autoneg on", card.name),
    )
}

/// Only the fastest pairs are used (MS-SMB2 3.2.5.14.11): what is slower carries nothing.
fn speeds(cards: &[&Card], server: Option<&Server>) -> Finding {
    const CHECK: &str = "speed";
    let known: Vec<(&str, u64)> = match server {
        Some(server) if !server.ways.is_empty() => {
            server.ways.iter().map(|way| (way.name.as_str(), way.link_speed)).collect()
        }
        Some(_) | None => cards.iter().filter_map(|card| Some((card.name.as_str(), card.link_speed?))).collect(),
    };
    let shown: Vec<String> = known.iter().map(|(name, speed)| format!("{name} {}", figures::link(*speed))).collect();
    let evidence = if known.is_empty() { "no card tells its speed".into() } else { shown.join(", ") };
    let fastest = known.iter().map(|(_, speed)| *speed).max().unwrap_or(0);
    let (used, left_out): (Vec<_>, Vec<_>) = known.into_iter().partition(|(_, speed)| *speed == fastest);
    let sum = |of: &[(&str, u64)]| of.iter().map(|(_, speed)| *speed as f64).sum::<f64>();
    let Some((slow, _)) = left_out.first() else {
        return Finding::fine(CHECK, "The links are of one speed.", evidence);
    };
    let what = "The links differ in speed: multichannel uses the fastest only.";
    let remedy = format!(
        "give the slower ones the same speed (sudo ethtool {slow} shows what they can do), or do not count on them"
    );
    match sum(&left_out) > sum(&used) * LEFT_OUT_MAX {
        true => Finding::problem(CHECK, what, evidence, remedy),
        false => Finding::note(CHECK, what, evidence, remedy),
    }
}
