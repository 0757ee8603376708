//! The server's addresses as clients learn of them, to open more channels (MS-SMB2 3.3.5.15.11): those of the machine's network
//! interfaces that a client could reach, and what the operator says about them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use netif::{LocalInterface, SPEED_UNKNOWN};
use tokio::time::Instant;
use wire::fscc::ioctl::{Interface, InterfaceCapability};

use crate::state::configuration::{Advertise, OwnAddresses};

/// What was read of the machine's interfaces is used for so long: changes are seen soon, and asking often costs little.
const KEPT: Duration = Duration::from_secs(1);
/// Addresses that clients are told: an answer of 64 KiB, which is what Windows clients take, holds 431.
const ADDRESSES_MAX: usize = 256;
/// The numbers of advertised addresses that no interface has begin here; the kernel's are small.
const INDEX_FIRST: u32 = 0x1000_0000;
/// The machine's interfaces, read anew when what is known is old.
#[derive(Default)]
pub(crate) struct Interfaces {
    known: ArcSwapOption<Known>,
    /// Somebody reads them: the kernel may take seconds for that, while a driver starts anew.
    is_read: AtomicBool,
}

/// Who reads them for all who ask meanwhile, until it is dropped.
pub(crate) struct Reading(Arc<Interfaces>);

/// What was read, and when.
struct Known {
    read: Instant,
    own: Vec<LocalInterface>,
}

impl Interfaces {
    /// What to tell a client of a server that listens on `listening`, by what is known; or what reads it anew. One reads, however many ask: the
    /// others are told what was known before.
    pub(crate) fn known(
        self: &Arc<Self>,
        advertise: &Advertise,
        listening: &[SocketAddr],
    ) -> Result<Vec<Interface>, Reading> {
        let known = self.known.load();
        match known.as_ref() {
            Some(known) if known.read.elapsed() < KEPT || self.is_read.swap(true, Ordering::Relaxed) => {
                Ok(choose(&known.own, advertise, listening))
            }
            Some(_) | None => Err(Reading(Arc::clone(self))),
        }
    }

    /// The same, read anew. Waits for the kernel.
    pub(crate) fn to_tell(&self, advertise: &Advertise, listening: &[SocketAddr]) -> Vec<Interface> {
        self.to_tell_of(read(), advertise, listening)
    }

    fn to_tell_of(&self, own: Vec<LocalInterface>, advertise: &Advertise, listening: &[SocketAddr]) -> Vec<Interface> {
        let told = choose(&own, advertise, listening);
        self.known.store(Some(Arc::new(Known { read: Instant::now(), own })));
        told
    }
}

impl Reading {
    /// Waits for the kernel.
    pub(crate) fn read(self, advertise: &Advertise, listening: &[SocketAddr]) -> Vec<Interface> {
        self.0.to_tell(advertise, listening)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.is_read.store(false, Ordering::Relaxed);
    }
}

/// Reads the machine's interfaces. Where they cannot be read nothing is told, and clients stay with the address they know.
fn read() -> Vec<LocalInterface> {
    netif::of_this_machine().unwrap_or_else(|error| {
        tracing::warn!(name: "interfaces_unreadable", %error, "the network interfaces cannot be read");
        Vec::new()
    })
}

/// The addresses of the machine that clients could reach, and those of the operator, who is right where both speak of one.
fn choose(own: &[LocalInterface], advertise: &Advertise, listening: &[SocketAddr]) -> Vec<Interface> {
    let mut told: Vec<Interface> = Vec::new();
    for (position, wanted) in advertise.addresses.iter().enumerate() {
        let known = own.iter().find(|known| known.address == wanted.address);
        let index = known.map_or(INDEX_FIRST + position as u32, |known| known.index);
        let speed = wanted.bits_per_second.or(known.map(|known| known.link_speed)).unwrap_or(SPEED_UNKNOWN);
        told.push(interface(index, wanted.address, speed, wanted.rss));
    }
    match advertise.own {
        OwnAddresses::LeftOut => {}
        OwnAddresses::Told => {
            let reachable =
                |own: &&LocalInterface| is_listened_to(own.address, listening) && !is_link_local(own.address);
            let is_new = |own: &&LocalInterface| advertise.addresses.iter().all(|wanted| wanted.address != own.address);
            let (loopback, routed): (Vec<_>, Vec<_>) =
                own.iter().filter(reachable).filter(is_new).partition(|own| own.address.is_loopback());
            let own = if routed.is_empty() && told.is_empty() { loopback } else { routed };
            told.extend(own.iter().map(|own| interface(own.index, own.address, own.link_speed, own.has_rss)));
        }
    }
    told.truncate(ADDRESSES_MAX);
    told
}

fn interface(index: u32, address: IpAddr, link_speed: u64, has_rss: bool) -> Interface {
    let capability = if has_rss { InterfaceCapability::RSS_CAPABLE } else { InterfaceCapability::NONE };
    Interface { index, capability, link_speed, address: Some(address) }
}

/// True where a client that connects to `address` meets one of the listeners; `::` takes IPv4 too.
fn is_listened_to(address: IpAddr, listening: &[SocketAddr]) -> bool {
    listening.iter().any(|listener| match listener.ip() {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => true,
        ip if ip.is_unspecified() => address.is_ipv4(),
        ip => ip == address,
    })
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::configuration::AdvertisedAddress;

    fn own(index: u32, address: &str) -> LocalInterface {
        let (name, address) = (format!("link{index}"), address.parse().unwrap());
        LocalInterface { name, index, address, prefix_bits: 24, link_speed: 1_000_000_000, has_rss: false }
    }

    fn machine() -> Vec<LocalInterface> {
        let addresses = [(1, "127.0.0.1"), (1, "::1"), (2, "192.0.2.1"), (2, "2001:db8::1"), (2, "fe80::1")];
        let mut own: Vec<LocalInterface> = addresses.into_iter().map(|(index, address)| own(index, address)).collect();
        own.push(LocalInterface { has_rss: true, ..self::own(3, "198.51.100.1") });
        own.push(self::own(3, "169.254.1.1"));
        own
    }

    fn told(own: &[LocalInterface], advertise: &Advertise, listening: &[&str]) -> Vec<(u32, String, u64, bool)> {
        let listening: Vec<SocketAddr> = listening.iter().map(|address| address.parse().unwrap()).collect();
        let view = |told: &Interface| {
            let has_rss = told.capability.contains(InterfaceCapability::RSS_CAPABLE);
            (told.index, told.address.unwrap().to_string(), told.link_speed / 1_000_000, has_rss)
        };
        choose(own, advertise, &listening).iter().map(view).collect()
    }

    fn entry(index: u32, address: &str, megabits: u64, has_rss: bool) -> (u32, String, u64, bool) {
        (index, address.to_owned(), megabits, has_rss)
    }

    #[test]
    fn what_clients_can_reach_is_told() {
        let (v4, v6) = (entry(2, "192.0.2.1", 1000, false), entry(2, "2001:db8::1", 1000, false));
        let rss = entry(3, "198.51.100.1", 1000, true);
        let all = Advertise::default();
        assert_eq!(told(&machine(), &all, &["[::]:445"]), [v4.clone(), v6, rss.clone()]);
        assert_eq!(told(&machine(), &all, &["0.0.0.0:445"]), [v4.clone(), rss]);
        assert_eq!(told(&machine(), &all, &["127.0.0.1:445", "192.0.2.1:445"]), [v4]);
    }

    #[test]
    fn loopback_is_told_where_it_is_all_there_is() {
        let told = told(&machine(), &Advertise::default(), &["127.0.0.1:4450"]);
        assert_eq!(told, [entry(1, "127.0.0.1", 1000, false)]);
    }

    #[test]
    fn the_operator_adds_corrects_and_replaces() {
        let advertised = |address: &str, bits_per_second, rss| AdvertisedAddress {
            address: address.parse().unwrap(),
            bits_per_second,
            rss,
        };
        let addresses = vec![
            advertised("203.0.113.9", None, true),
            advertised("192.0.2.1", Some(25_000_000_000), true),
            advertised("127.0.0.1", None, false),
        ];
        let mut advertise = Advertise { addresses, own: OwnAddresses::Told };
        let wanted = [
            entry(INDEX_FIRST, "203.0.113.9", 10_000, true),
            entry(2, "192.0.2.1", 25_000, true),
            entry(1, "127.0.0.1", 1000, false),
        ];
        let more = [&wanted[..], &[entry(3, "198.51.100.1", 1000, true)]].concat();
        assert_eq!(told(&machine(), &advertise, &["0.0.0.0:445"]), more);
        advertise.own = OwnAddresses::LeftOut;
        assert_eq!(told(&machine(), &advertise, &["0.0.0.0:445"]), wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_told_by_all_but_one_who_reads_it_anew() {
        let (all, listening) = (Advertise::default(), ["192.0.2.1:445".parse().unwrap()]);
        let interfaces = Arc::new(Interfaces::default());
        let known = || interfaces.known(&all, &listening).ok();
        assert!(known().is_none(), "nothing is known");
        let told = interfaces.to_tell_of(machine(), &all, &listening);
        assert_eq!((told.len(), known()), (1, Some(told.clone())));
        tokio::time::advance(2 * KEPT).await;
        let Err(reading) = interfaces.known(&all, &listening) else { panic!("it is old") };
        assert_eq!(known(), Some(told), "somebody reads it");
        // Who was to read it does not get to it.
        drop(reading);
        assert!(known().is_none());
        interfaces.to_tell_of(Vec::new(), &all, &listening);
        assert_eq!(known(), Some(Vec::new()));
    }

    #[test]
    fn an_endless_list_is_cut() {
        let own: Vec<LocalInterface> =
            (0..1000).map(|last: u32| own(2, &format!("192.0.{}.{}", 2 + last / 250, last % 250))).collect();
        assert_eq!(told(&own, &Advertise::default(), &["0.0.0.0:445"]).len(), ADDRESSES_MAX);
    }
}
