//! From which hosts a share may be used, as operators write it.

use server::admin::{HostsAllowed, WrongHosts};

use crate::Error;

/// Reads networks with commas between them, or `any`.
pub fn parse_hosts(text: &str) -> Result<HostsAllowed, Error> {
    let remedy = "use addresses and networks with commas between them, such as 192.0.2.0/24,2001:db8::/32, or any";
    text.parse().map_err(|wrong| match wrong {
        WrongHosts::NotOne(part) => Error::argument(format!("{part:?} is neither an address nor a network"), remedy),
        WrongHosts::NotFirst(part, network) => {
            Error::argument(format!("{part:?} is an address in a network, not the network"), format!("say {network}"))
        }
        WrongHosts::TooMany => Error::argument(
            format!("these are more than {} networks", HostsAllowed::NETWORKS_MAX),
            "name fewer and larger ones",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_network_is_refused_with_what_to_say_instead() {
        assert_eq!(parse_hosts("192.0.2.0/24,2001:db8::1").unwrap().to_string(), "192.0.2.0/24,2001:db8::1/128");
        assert_eq!(parse_hosts("192.0.2.7/24").unwrap_err().remedy(), "say 192.0.2.0/24");
        assert!(parse_hosts("example.org").unwrap_err().what().contains("\"example.org\""));
        assert!(parse_hosts(&["::1"; 65].join(",")).unwrap_err().what().contains("64"));
    }
}
