//! From which hosts a share may be used: networks that an operator names, or any.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// From where a share may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostsAllowed {
    /// From everywhere.
    #[default]
    Any,
    /// From these networks alone.
    Only(Arc<[Network]>),
}

impl HostsAllowed {
    /// The most networks that one share may name: each request of it is looked up among them.
    pub const NETWORKS_MAX: usize = 64;

    /// True where who speaks from `host` may use the share. Who has no address may do so where everybody may.
    pub fn allow(&self, host: Option<IpAddr>) -> bool {
        match self {
            HostsAllowed::Any => true,
            HostsAllowed::Only(networks) => {
                host.is_some_and(|host| networks.iter().any(|network| network.contains(host)))
            }
        }
    }
}

impl fmt::Display for HostsAllowed {
    /// As it is read: networks with commas between them, or `any`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostsAllowed::Only(networks) = self else { return f.write_str("any") };
        for (place, network) in networks.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{network}")?;
        }
        Ok(())
    }
}

impl FromStr for HostsAllowed {
    type Err = WrongHosts;

    fn from_str(text: &str) -> Result<Self, WrongHosts> {
        if text == "any" {
            return Ok(HostsAllowed::Any);
        }
        let networks: Arc<[Network]> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if networks.len() > HostsAllowed::NETWORKS_MAX {
            return Err(WrongHosts::TooMany);
        }
        Ok(HostsAllowed::Only(networks))
    }
}

/// Why a text says no hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongHosts {
    /// This is neither an address nor a network.
    NotOne(String),
    /// This is an address in a network, which is named by its first one; here that is.
    NotFirst(String, Network),
    /// They are more than [`HostsAllowed::NETWORKS_MAX`].
    TooMany,
}

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// That of `address`, which has so many bits.
    fn of(address: IpAddr, bits: u32) -> Self {
        let first = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Network { first, bits }
    }

    /// True for an address in it. An IPv4 address is one however it is written, `::ffff:192.0.2.1` too.
    fn contains(&self, host: IpAddr) -> bool {
        let host = host.to_canonical();
        host.is_ipv4() == self.first.is_ipv4() && Network::of(host, self.bits) == *self
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl FromStr for Network {
    type Err = WrongHosts;

    /// Reads an address with its number of bits, or an address alone.
    fn from_str(text: &str) -> Result<Self, WrongHosts> {
        let wrong = || WrongHosts::NotOne(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (address, bits_max) = match address {
            IpAddr::V4(_) => (address, 32),
            // No host ever is one as it is written here.
            IpAddr::V6(mapped) if mapped.to_ipv4_mapped().is_some() => return Err(wrong()),
            IpAddr::V6(_) => (address, 128),
        };
        let is_number = |bits: &&str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => bits_max,
            Some(bits) => {
                let bits = Some(bits).filter(is_number).and_then(|bits| bits.parse().ok());
                bits.filter(|bits| *bits <= bits_max).ok_or_else(wrong)?
            }
        };
        let network = Network::of(address, bits);
        if network.first == address { Ok(network) } else { Err(WrongHosts::NotFirst(text.to_owned(), network)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(hosts: &str, host: &str) -> bool {
        hosts.parse::<HostsAllowed>().unwrap().allow(host.parse().ok())
    }

    #[test]
    fn networks_hold_the_addresses_that_begin_as_they_do() {
        for (hosts, host, is_in) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("192.0.2.6/31", "192.0.2.7", true),
            ("0.0.0.0/0", "198.51.100.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("10.0.0.0/8,2001:db8::/32", "2001:db8::1", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("any", "192.0.2.1", true),
        ] {
            assert_eq!(allows(hosts, host), is_in, "{hosts} {host}");
        }
    }

    #[test]
    fn who_has_no_address_is_in_no_network() {
        assert!(allows("any", "nowhere") && !allows("0.0.0.0/0,::/0", "nowhere"));
    }

    #[test]
    fn hosts_are_read_as_they_are_written_and_nothing_else_is() {
        for text in ["any", "10.0.0.0/8", "192.0.2.7/32,2001:db8::/32", "::/0"] {
            assert_eq!(text.parse::<HostsAllowed>().unwrap().to_string(), text);
        }
        let not_one = |text: &str| matches!(text.parse::<HostsAllowed>(), Err(WrongHosts::NotOne(_)));
        for wrong in [
            "",
            ",",
            "10.0.0.0/8,",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "host",
            "10.0.0",
            "10.0.0.0 /8",
            "::ffff:10.0.0.1",
            "ANY",
            "any,10.0.0.0/8",
            "fe80::1%eth0",
        ] {
            assert!(not_one(wrong), "{wrong:?}");
        }
        let first = "10.0.0.0/8".parse().unwrap();
        let not_first = Err(WrongHosts::NotFirst("10.0.0.1/8".to_owned(), first));
        assert_eq!("10.0.0.1/8".parse::<HostsAllowed>(), not_first);
        let many = ["192.0.2.1"; HostsAllowed::NETWORKS_MAX + 1].join(",");
        assert_eq!(many.parse::<HostsAllowed>(), Err(WrongHosts::TooMany));
    }
}
