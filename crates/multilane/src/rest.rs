//! Azure Files' REST interface of a server, as `serve --rest` has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use azure::{Rest, Source};
use control::{Error, KnownCatalog, Operations, ShareGauges};
use tracing::info;

use crate::exposition::place_of;
use crate::listening::not_listening;

/// The port where none is named. The service's JavaScript client takes any host at it for one with accounts in its paths.
pub(crate) const PORT: &str = "10004";

/// Where to have it: a port of this machine, or a loopback address with a port.
pub(crate) fn place(text: &str) -> Result<SocketAddr, Error> {
    place_of(text, "for the REST interface", "10004, or a loopback address and a port, such as [::1]:10004")
}

/// Listens and serves, where that is wanted. The server serves SMB at these addresses.
pub(crate) fn start(
    address: Option<SocketAddr>,
    smb: &[SocketAddr],
    catalog: KnownCatalog,
    operations: Operations,
    (gauges, archive): (ShareGauges, PathBuf),
) -> Result<Option<Rest>, Error> {
    let (Some(address), Some(smb)) = (address, smb.first()) else { return Ok(None) };
    if !address.ip().is_loopback() {
        return Err(Error::argument(
            format!(
                "the REST interface cannot be had at {address}: it speaks HTTP, and what it moves would cross the network in the clear"
            ),
            "use a port of this machine, such as --rest 10004, and a tunnel from elsewhere",
        ));
    }
    let group = azure::GROUP.to_owned();
    let source = Source { catalog, operations, smb: from_here(*smb), gauges, archive, group };
    let what = format!("the REST interface cannot be had at {address}");
    let rest = Rest::start(address, source).map_err(|cause| not_listening(&what, "--rest [ADDRESS:]PORT", &cause))?;
    info!(name: "rest_served", listen = %rest.address(), "Azure Files' REST interface is served");
    Ok(Some(rest))
}

/// The address by which this machine reaches who listens there.
fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_every_address_is_reached_by_loopback() {
        for (listens, reached) in
            [("0.0.0.0:445", "127.0.0.1:445"), ("[::]:4450", "[::1]:4450"), ("192.0.2.1:445", "192.0.2.1:445")]
        {
            assert_eq!(from_here(listens.parse().unwrap()), reached.parse().unwrap());
        }
    }
}
