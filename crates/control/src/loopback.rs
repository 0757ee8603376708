//! What leads to this machine alone: loopback addresses, and the names of them.

use std::net::{IpAddr, SocketAddr};

/// True where nobody but programs of this machine can connect.
pub fn is_for_machine(address: SocketAddr) -> bool {
    is_loopback(address.ip())
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// What a program calls this machine where it means it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopbackName {
    /// A loopback address.
    Address,
    /// `localhost`.
    Localhost,
    /// A name below `localhost`, which leads nowhere else either (RFC 6761 section 6.3).
    BelowLocalhost,
}

impl LoopbackName {
    /// Reads what an HTTP request names, such as `localhost:80` or `[::1]`; `None` where that is another machine, or has anything but a name or an address
    /// and a port.
    pub fn of(host: &str) -> Option<Self> {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            // The last colon of an address in brackets.
            Some(_) | None => host,
        };
        let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(address) => address.parse().ok().map(IpAddr::V6),
            None => name.parse().ok().map(IpAddr::V4),
        };
        match address {
            Some(address) => is_loopback(address).then_some(LoopbackName::Address),
            None => LoopbackName::of_name(&name.to_ascii_lowercase()),
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match name.strip_suffix("localhost")? {
            "" => Some(LoopbackName::Localhost),
            labels => labels.strip_suffix('.')?.split('.').all(is_label).then_some(LoopbackName::BelowLocalhost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_for_this_machine_however_it_is_written() {
        for (address, expected) in [
            ("127.8.9.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
        ] {
            assert_eq!(is_for_machine(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_of_this_machine_and_a_port() {
        let below = Some(LoopbackName::BelowLocalhost);
        for host in ["127.0.0.1", "127.8.9.1:9445", "[::1]", "[::1]:9445", "[::ffff:127.0.0.1]"] {
            assert_eq!(LoopbackName::of(host), Some(LoopbackName::Address), "{host}");
        }
        for host in ["localhost", "LocalHost:9445", "localhost:"] {
            assert_eq!(LoopbackName::of(host), Some(LoopbackName::Localhost), "{host}");
        }
        assert_eq!((LoopbackName::of("work.file.core.localhost:1"), LoopbackName::of("A.LOCALHOST")), (below, below));
        for host in [
            "",
            "a b",
            "example.org",
            "localhost.example.org",
            "notlocalhost",
            "localhost.",
            ".localhost",
            "a..localhost",
            "a@b.localhost",
            "192.0.2.1",
            "[2001:db8::1]:80",
            "::1",
            "[127.0.0.1]",
            "[::1",
            "[::1]example.org",
            "127.0.0.1@example.org",
            "example.org@127.0.0.1",
            "localhost:80@example.org",
            "localhost:eighty",
            "localhost:1:2",
        ] {
            assert_eq!(LoopbackName::of(host), None, "{host:?}");
        }
    }
}
