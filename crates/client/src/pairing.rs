//! Which of this machine's interfaces go with which of the server's (MS-SMB2 3.2.5.14.11 with note 198 of its Appendix A).

use std::net::IpAddr;

use wire::fscc::ioctl::{Interface, InterfaceCapability};

use crate::LocalInterface;
use crate::settings::{Channels, Settings};

/// A local and a server interface that connections run between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// This machine's; `None` leaves the way out to the routes.
    pub local: Option<LocalInterface>,
    /// The server's.
    pub remote: Interface,
    /// The server's address.
    pub address: IpAddr,
    /// Connections it should have.
    pub connections: usize,
}

impl Pair {
    /// Bits per second of the slower side.
    pub fn link_speed(&self) -> u64 {
        self.local.as_ref().map_or(u64::MAX, |local| local.link_speed).min(self.remote.link_speed)
    }

    /// Both sides spread what they receive over several queues.
    pub fn has_rss(&self) -> bool {
        self.remote.capability.contains(InterfaceCapability::RSS_CAPABLE)
            && self.local.as_ref().is_none_or(|local| local.has_rss)
    }

    /// Both ends are on one network: no router is asked to bring them together.
    pub fn is_direct(&self) -> bool {
        let shared = |local: &LocalInterface| common_bits(local.address, self.address) >= u32::from(local.prefix_bits);
        self.local.as_ref().is_some_and(shared)
    }
}

/// The pairs to use, with the connections of each, at most as many as the settings allow in all. Empty where the server tells of no
/// address that this machine could reach.
pub fn pairs(local: &[LocalInterface], remote: &[Interface], settings: &Settings) -> Vec<Pair> {
    let mut pairs = candidates(local, remote);
    // A pair on one network is certain to have a link of its own; the others would all leave by the default route.
    keep_if_any(&mut pairs, Pair::is_direct);
    keep_if_any(&mut pairs, Pair::has_rss);
    let fastest = pairs.iter().map(Pair::link_speed).max();
    pairs.retain(|pair| Some(pair.link_speed()) == fastest);
    spread(&mut pairs);
    let maximum = settings.maximum_connection_count_per_server;
    match settings.channels {
        Channels::Automatic => {
            for pair in &mut pairs {
                pair.connections = match pair.has_rss() {
                    true => settings.connection_count_per_rss_network_interface,
                    false => settings.connection_count_per_network_interface,
                };
            }
            share(&mut pairs, maximum);
        }
        Channels::Exactly(count) => {
            pairs.iter_mut().for_each(|pair| pair.connections = count);
            share(&mut pairs, count.min(maximum));
        }
    }
    pairs
}

/// Every local with every server address of the same family and kind.
fn candidates(local: &[LocalInterface], remote: &[Interface]) -> Vec<Pair> {
    let usable = remote.iter().filter(|interface| interface.index != 0);
    let mut pairs = Vec::new();
    for (remote, address) in usable.filter_map(|interface| Some((*interface, interface.address?))) {
        if is_link_local(address) {
            continue;
        }
        let goes = |local: &&LocalInterface| {
            local.address.is_ipv4() == address.is_ipv4()
                && local.address.is_loopback() == address.is_loopback()
                && !is_link_local(local.address)
        };
        // An address of this machine is reached from itself.
        let own = local.iter().find(|local| local.address == address);
        let ways: Vec<_> = own.map_or_else(|| local.iter().filter(goes).collect(), |own| vec![own]);
        pairs.extend(ways.iter().map(|local| Pair { local: Some((*local).clone()), remote, address, connections: 0 }));
        if ways.is_empty() && local.is_empty() {
            pairs.push(Pair { local: None, remote, address, connections: 0 });
        }
    }
    pairs
}

/// One pair for each of the larger side's interfaces: the same link twice carries no more.
fn spread(pairs: &mut Vec<Pair>) {
    let mut used: Vec<(Option<u32>, u32)> = Vec::new();
    let index = |pair: &Pair| (pair.local.as_ref().map(|local| local.index), pair.remote.index);
    pairs.retain(|pair| {
        let (local, remote) = index(pair);
        let is_new = !used.iter().any(|(other, theirs)| *other == local || *theirs == remote);
        if is_new {
            used.push((local, remote));
        }
        is_new
    });
}

/// Leaves `maximum` connections, taken from all pairs in turn.
fn share(pairs: &mut Vec<Pair>, maximum: usize) {
    let wanted: Vec<usize> = pairs.iter().map(|pair| pair.connections).collect();
    pairs.iter_mut().for_each(|pair| pair.connections = 0);
    let mut rest = maximum.min(wanted.iter().sum());
    while rest > 0 {
        for (pair, wanted) in pairs.iter_mut().zip(&wanted) {
            if rest > 0 && pair.connections < *wanted {
                pair.connections += 1;
                rest -= 1;
            }
        }
    }
    pairs.retain(|pair| pair.connections > 0);
}

fn keep_if_any(pairs: &mut Vec<Pair>, is_better: impl Fn(&Pair) -> bool) {
    if pairs.iter().any(&is_better) {
        pairs.retain(is_better);
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Leading bits that two addresses have in common; none where their families differ.
fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(index: u32, address: &str, gigabits: u64, has_rss: bool) -> LocalInterface {
        let link_speed = gigabits * 1_000_000_000;
        let address = address.parse().unwrap();
        LocalInterface { name: format!("c{index}"), index, address, prefix_bits: 24, link_speed, has_rss }
    }

    fn remote(index: u32, address: &str, gigabits: u64, has_rss: bool) -> Interface {
        let capability = if has_rss { InterfaceCapability::RSS_CAPABLE } else { InterfaceCapability::NONE };
        Interface { index, capability, link_speed: gigabits * 1_000_000_000, address: Some(address.parse().unwrap()) }
    }

    fn shown(pairs: &[Pair]) -> Vec<(u32, u32, usize)> {
        pairs.iter().map(|pair| (pair.local.as_ref().unwrap().index, pair.remote.index, pair.connections)).collect()
    }

    #[test]
    fn four_links_make_four_pairs_of_one_connection() {
        let locals: Vec<_> = (1..5).map(|i| local(i, &format!("10.99.{i}.2"), 10, false)).collect();
        let remotes: Vec<_> = (1..5).map(|i| remote(i + 10, &format!("10.99.{i}.1"), 10, false)).collect();
        let pairs = pairs(&locals, &remotes, &Settings::default());
        assert_eq!(shown(&pairs), [(1, 11, 1), (2, 12, 1), (3, 13, 1), (4, 14, 1)]);
    }

    #[test]
    fn interfaces_with_rss_go_before_faster_ones_without() {
        let locals = [local(1, "10.0.1.2", 10, true), local(2, "10.0.2.2", 100, false)];
        let remotes = [remote(1, "10.0.1.1", 10, true), remote(2, "10.0.2.1", 100, false)];
        assert_eq!(shown(&pairs(&locals, &remotes, &Settings::default())), [(1, 1, 4)]);
    }

    #[test]
    fn only_the_fastest_of_a_kind_are_used() {
        let locals = [local(1, "10.0.1.2", 1, false), local(2, "10.0.2.2", 10, false)];
        let remotes = [remote(1, "10.0.1.1", 10, false), remote(2, "10.0.2.1", 10, false)];
        assert_eq!(shown(&pairs(&locals, &remotes, &Settings::default())), [(2, 2, 1)]);
    }

    #[test]
    fn link_local_addresses_and_index_zero_are_passed_over() {
        let locals = [local(1, "10.0.1.2", 1, false), local(1, "169.254.7.7", 1, false)];
        let remotes = [remote(1, "169.254.1.1", 1, false), remote(0, "10.0.1.1", 1, false)];
        assert!(pairs(&locals, &remotes, &Settings::default()).is_empty());
    }

    #[test]
    fn the_maximum_is_shared_out_in_turn() {
        let locals: Vec<_> = (1..4).map(|i| local(i, &format!("10.99.{i}.2"), 10, true)).collect();
        let remotes: Vec<_> = (1..4).map(|i| remote(i, &format!("10.99.{i}.1"), 10, true)).collect();
        let settings = Settings { maximum_connection_count_per_server: 5, ..Settings::default() };
        assert_eq!(shown(&pairs(&locals, &remotes, &settings)), [(1, 1, 2), (2, 2, 2), (3, 3, 1)]);
    }

    #[test]
    fn an_exact_number_asks_no_interface_for_its_kind() {
        let locals = [local(1, "127.0.0.1", 10, false)];
        let remotes = [remote(1, "127.0.0.1", 10, false)];
        let settings = Settings { channels: Channels::Exactly(4), ..Settings::default() };
        assert_eq!(shown(&pairs(&locals, &remotes, &settings)), [(1, 1, 4)]);
    }

    #[test]
    fn routed_servers_are_reached_from_the_machines_address() {
        let locals = [local(1, "192.168.7.2", 10, false)];
        let remotes = [remote(3, "10.0.0.1", 10, false), remote(4, "10.0.1.1", 10, false)];
        assert_eq!(shown(&pairs(&locals, &remotes, &Settings::default())), [(1, 3, 1)]);
    }
}
