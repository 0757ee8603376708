//! What `ethtool` tells of a card: rings, queues and offloads, which the kernel shows nowhere else.

use super::facts::{Card, QueuesMax, Ring};
use super::tool::{Missing, ask};

const TOOL: &str = "ethtool";
/// Its names of the offloads that matter to a file server, and those that `ethtool -K` takes.
const OFFLOADS: [(&str, &str); 5] = [
    ("tcp-segmentation-offload", "tso"),
    ("generic-segmentation-offload", "gso"),
    ("generic-receive-offload", "gro"),
    ("rx-checksumming", "rx"),
    ("tx-checksumming", "tx"),
];

/// Adds to a card what the tool tells of it. What it does not tell stays unknown.
pub(crate) async fn describe(card: &mut Card) -> Result<(), Missing> {
    card.receive_queues_max = ask(TOOL, &["-l", &card.name]).await?.and_then(|text| queues_max(&text));
    card.receive_ring = ask(TOOL, &["-g", &card.name]).await?.and_then(|text| receive_ring(&text));
    card.offloads_off = ask(TOOL, &["-k", &card.name]).await?.map(|text| offloads_off(&text)).unwrap_or_default();
    Ok(())
}

/// `ethtool -l`: queues that only receive and those that do both.
fn queues_max(text: &str) -> Option<QueuesMax> {
    let (max, _) = halves(text)?;
    let of = |name| value(max, name).map(|count| count as usize);
    match (of("RX"), of("Combined")) {
        (None, None) => None,
        (receiving, combined) => Some(QueuesMax { receiving: receiving.unwrap_or(0), combined: combined.unwrap_or(0) }),
    }
}

/// `ethtool -g`.
fn receive_ring(text: &str) -> Option<Ring> {
    let (max, now) = halves(text)?;
    Some(Ring { now: value(now, "RX")?, max: value(max, "RX")? })
}

/// `ethtool -k`: those that are off, each with whether it may be switched on.
fn offloads_off(text: &str) -> Vec<(String, bool)> {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let off = |(name, short): &(&str, &str)| {
        let state = of(name)?;
        state.starts_with("off").then(|| ((*short).to_owned(), !state.contains("[fixed]")))
    };
    OFFLOADS.iter().filter_map(off).collect()
}

/// Its two parts: what could be, and what is.
fn halves(text: &str) -> Option<(&str, &str)> {
    text.split_once("Current hardware settings:")
}

fn value(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_the_combined_and_those_that_receive() {
        let text = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t63\n\
                    Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t1\n";
        assert_eq!(queues_max(text), Some(QueuesMax { receiving: 0, combined: 63 }));
        let apart =
            "Pre-set maximums:\nRX:\t\t8\nTX:\t\t8\nOther:\t\t0\nCombined:\t0\nCurrent hardware settings:\nRX:\t\t4\n";
        assert_eq!(queues_max(apart), Some(QueuesMax { receiving: 8, combined: 0 }));
        assert_eq!(queues_max("netlink error: Operation not supported\n"), None);
    }

    #[test]
    fn rings_have_a_size_and_a_maximum() {
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t4096\n\
                    Current hardware settings:\nRX:\t\t512\nRX Mini:\tn/a\nTX:\t\t512\n";
        assert_eq!(receive_ring(text), Some(Ring { now: 512, max: 4096 }));
        assert_eq!(receive_ring("Pre-set maximums:\nRX:\t\tn/a\nCurrent hardware settings:\nRX:\t\tn/a\n"), None);
    }

    #[test]
    fn offloads_that_are_off_are_told_with_whether_that_may_change() {
        let text = "Features for eth0:\nrx-checksumming: on [fixed]\ntx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\n\
                    tcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\ngeneric-segmentation-offload: on\n\
                    generic-receive-offload: off [fixed]\nlarge-receive-offload: off [fixed]\n";
        assert_eq!(offloads_off(text), [("tso".to_owned(), true), ("gro".to_owned(), false)]);
    }
}
