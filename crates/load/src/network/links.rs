//! Makes the two hosts and their links.

use super::shape::{self, PORTS};
use super::tools::run;
use super::{End, Network, Sides, address};
use crate::engine::Failure;

/// Receive queues of a card with Receive Side Scaling; more than one is what client and server look for.
const QUEUES: &str = "numrxqueues 4 numtxqueues 4";

/// Makes all that [`remove`] removes. What was made before a failure stays for that.
pub(super) fn make(sides: &Sides) -> Result<(), Failure> {
    let (server, client) = (sides.namespace(End::Server), sides.namespace(End::Client));
    for namespace in [&server, &client] {
        run("ip", &["netns", "add", namespace], &[])?;
    }
    let links: Vec<String> = (1..=sides.network.links()).map(|link| link_line(sides.network, link, &client)).collect();
    run("ip", &["-n", &server, "-batch", "-"], &links)?;
    for (end, namespace) in [(End::Server, &server), (End::Client, &client)] {
        let mut lines = vec!["link set lo up".to_owned()];
        let mut shaped = Vec::new();
        for link in 1..=sides.network.links() {
            let device = device(link, end);
            lines.push(format!("addr add {}/24 dev {device}", address(link, end)));
            lines.push(format!("link set {device} up"));
            shaped.extend(shape::lines(sides.network, end, &device));
        }
        run("ip", &["-n", namespace, "-batch", "-"], &lines)?;
        if !shaped.is_empty() {
            run("tc", &["-n", namespace, "-batch", "-"], &shaped)?;
        }
    }
    if sides.network == Network::Rss {
        let ports = format!("echo {} {} >/proc/sys/net/ipv4/ip_local_port_range", PORTS.start(), PORTS.end());
        run("ip", &["netns", "exec", &client, "sh", "-c", &ports], &[])?;
    }
    Ok(())
}

fn link_line(network: Network, link: u8, client: &str) -> String {
    let queues = match network {
        Network::Rss | Network::D32sV3 => QUEUES,
        Network::Plain | Network::Quad => "",
    };
    let (ours, theirs) = (device(link, End::Server), device(link, End::Client));
    format!("link add {ours} {queues} type veth peer name {theirs} {queues} netns {client}")
}

fn device(link: u8, end: End) -> String {
    match end {
        End::Server => format!("s{link}"),
        End::Client => format!("c{link}"),
    }
}
