//! Where a client comes from, as far as it matters for what its address may do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address of a peer as the connection names it, where it has one.
pub(crate) fn host_of(peer: &str) -> Option<IpAddr> {
    peer.parse().ok().map(|peer: SocketAddr| peer.ip().to_canonical())
}

/// The network that a peer controls: one IPv4 address, or a /64 of IPv6, of which everybody has all addresses who has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AddressPrefix(Option<IpAddr>);

impl AddressPrefix {
    /// That of a peer as the connection names it. Peers without an address are one.
    pub(crate) fn of(peer: &str) -> Self {
        AddressPrefix(host_of(peer).map(|host| match host {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(masked(address, 64)),
        }))
    }

    /// The site it belongs to: a /48 of IPv6, which is what providers give to one customer.
    pub(crate) fn site(self) -> Option<Self> {
        match self.0 {
            Some(IpAddr::V6(address)) => Some(AddressPrefix(Some(IpAddr::V6(masked(address, 48))))),
            Some(IpAddr::V4(_)) | None => None,
        }
    }

    /// Those who are likely to be one: a /48 of IPv6, a /24 of IPv4.
    pub(crate) fn neighbours(self) -> Self {
        AddressPrefix(self.0.map(|address| match address {
            IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8))),
            IpAddr::V6(address) => IpAddr::V6(masked(address, 48)),
        }))
    }
}

fn masked(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one() {
        let prefix = AddressPrefix::of;
        assert_eq!(prefix("192.0.2.1:1"), prefix("192.0.2.1:2"));
        assert_ne!(prefix("192.0.2.1:1"), prefix("192.0.2.2:1"));
        assert_eq!(prefix("[::ffff:192.0.2.1]:1"), prefix("192.0.2.1:1"));
        assert_eq!(prefix("[2001:db8::1]:1"), prefix("[2001:db8::ffff:0:0:1]:1"));
        assert_ne!(prefix("[2001:db8:0:1::1]:1"), prefix("[2001:db8::1]:1"));
        assert_eq!(prefix("[2001:db8:0:1::1]:1").site(), prefix("[2001:db8::1]:1").site());
        assert_eq!(prefix("192.0.2.1:1").site(), None);
        assert_eq!(prefix("192.0.2.1:1").neighbours(), prefix("192.0.2.255:1").neighbours());
        assert_ne!(prefix("192.0.2.1:1").neighbours(), prefix("192.0.3.1:1").neighbours());
        assert_eq!(prefix("[2001:db8:0:1::1]:1").neighbours(), prefix("[2001:db8::1]:1").neighbours());
    }
}
