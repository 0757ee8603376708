//! What an end of a link may send, in the words of tc(8).

use super::{End, FLOW_MBIT, LINK_MBIT, METERED_MBIT, METERED_SCALE, Network};

/// Flows that a link with queues tells apart, by the low byte of the client's port.
const QUEUES: u32 = 256;
/// The client's ports on such a link. There is one for each queue: no two connections ever share a queue by chance.
pub(super) const PORTS: std::ops::RangeInclusive<u32> = 0x8000..=0x8000 + QUEUES - 1;
/// The class of what is not TCP, and of the first queue. Zero is the shaper itself.
const CLASS_OTHER: u32 = 1;
const CLASS_FIRST: u32 = 0x10;

/// Lines for `tc -batch` that shape what this end sends over `device`. Empty where it is not held back.
pub(super) fn lines(network: Network, end: End, device: &str) -> Vec<String> {
    let together = |mbit: u32| vec![format!("qdisc add dev {device} root tbf rate {mbit}mbit burst 512k latency 50ms")];
    match (network, end) {
        (Network::Quad, End::Server | End::Client) => together(LINK_MBIT),
        (Network::Rss, End::Server | End::Client) => each_flow(end, device),
        (Network::D32sV3, End::Client) => together(METERED_MBIT / METERED_SCALE),
        (Network::Plain, End::Server | End::Client) | (Network::D32sV3, End::Server) => Vec::new(),
    }
}

/// A class for each queue, and a table that finds it: one look, however many queues there are.
fn each_flow(end: End, device: &str) -> Vec<String> {
    // The low byte of the client's port, in the first four bytes of TCP: source port, destination port.
    let port_mask = match end {
        End::Client => "0x00ff0000",
        End::Server => "0x000000ff",
    };
    let class = |class: u32| {
        format!(
            "class add dev {device} parent 1: classid 1:{class:x} htb rate {FLOW_MBIT}mbit burst 256k quantum 60000"
        )
    };
    let filter = format!("filter add dev {device} parent 1: prio 1");
    let mut lines = vec![
        format!("qdisc add dev {device} root handle 1: htb default {CLASS_OTHER:x}"),
        class(CLASS_OTHER),
        format!("{filter} handle 2: protocol ip u32 divisor {QUEUES}"),
    ];
    for queue in 0..QUEUES {
        lines.push(class(CLASS_FIRST + queue));
        let to = CLASS_FIRST + queue;
        lines.push(format!("{filter} protocol ip u32 ht 2:{queue:x}: match u8 0 0 at 0 flowid 1:{to:x}"));
    }
    // 800: is the table that every packet comes to first.
    let tcp = "match ip protocol 6 0xff";
    lines.push(format!("{filter} protocol ip u32 ht 800:: {tcp} hashkey mask {port_mask} at 20 link 2:"));
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_port_of_the_client_has_a_queue_of_its_own() {
        let lines = lines(Network::Rss, End::Client, "c1");
        let class_of = |port: u32| {
            let table = format!("ht 2:{:x}: ", port & 0xff);
            let line = lines.iter().find(|line| line.contains(&table)).unwrap();
            line.rsplit_once("flowid ").unwrap().1.to_owned()
        };
        let classes: HashSet<String> = PORTS.map(class_of).collect();
        assert_eq!(classes.len(), QUEUES as usize);
        for class in classes {
            assert!(lines.iter().any(|line| line.contains(&format!("classid {class} htb"))), "{class}");
        }
    }

    #[test]
    fn what_a_metered_machine_receives_is_not_held() {
        assert!(lines(Network::D32sV3, End::Server, "s1").is_empty());
        let client = lines(Network::D32sV3, End::Client, "c1");
        assert!(client.first().is_some_and(|line| line.contains("rate 1600mbit")), "{client:?}");
    }
}
