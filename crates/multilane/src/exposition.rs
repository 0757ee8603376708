//! Metrics of a server, as `serve --metrics` has them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use control::{Error, ServerHealth, ShareGauges};
use insight::exposition::Sender;
use insight::monitor::Tally;
use jiff::Timestamp;
use server::admin::Admin;
use tracing::info;
use web::{Collector, Metrics, Push, Source};

use crate::listening::not_listening;
use crate::log::Log;

/// What is known of the shares without asking anybody, what REST is asked of them, and how the server is.
pub(crate) type Shares = (ShareGauges, Arc<Tally>, ServerHealth);

/// Listens, where that is wanted.
pub(crate) fn listen(address: Option<SocketAddr>) -> Result<Option<Metrics>, Error> {
    let Some(address) = address else { return Ok(None) };
    let what = || format!("metrics cannot be told at {address}");
    let metrics =
        Metrics::listen(address).map_err(|cause| not_listening(&what(), "--metrics [ADDRESS:]PORT", &cause))?;
    info!(name: "metrics_served", listen = %metrics.address(), "metrics are told by HTTP, at /metrics");
    Ok(Some(metrics))
}

/// The server that they are about serves.
pub(crate) fn serve(metrics: &Metrics, admin: Arc<dyn Admin>, shares: Shares, since: Timestamp, log: &Log) {
    metrics.serve(source(admin, shares, since, log));
}

/// Sends the same to a collector.
pub(crate) fn push(
    (collector, seconds): (&Collector, u16),
    admin: Arc<dyn Admin>,
    shares: Shares,
    (since, server_guid): (Timestamp, [u8; 16]),
    log: &Log,
) -> std::io::Result<Push> {
    info!(name: "metrics_pushed", %collector, seconds, "metrics are sent to a collector");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let sender = Sender { instance: guid(server_guid), host };
    Push::start(collector.clone(), Duration::from_secs(seconds.into()), source(admin, shares, since, log), sender)
}

/// As GUIDs are written: the numbers of their first three parts have their lowest byte first on the wire (MS-DTYP 2.3.4).
fn guid(bytes: [u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&[d, c, b, a][..], &[f, e], &[h, g], &rest[..2], &rest[2..]];
    parts.map(hex).join("-")
}

fn source(admin: Arc<dyn Admin>, (shares, rest, health): Shares, since: Timestamp, log: &Log) -> Source {
    let loss = log.loss();
    Source {
        admin,
        shares,
        rest,
        health,
        log: Box::new(move || loss.so_far()),
        version: env!("CARGO_PKG_VERSION"),
        since: Duration::from_millis(since.as_millisecond().try_into().unwrap_or(0)),
    }
}

/// Reads `[ADDRESS:]PORT`; a port alone is one of a loopback address.
pub(crate) fn place(text: &str) -> Result<SocketAddr, Error> {
    let examples = "9445, or an address of this machine and a port, such as 192.0.2.7:9445 or [2001:db8::7]:9445";
    place_of(text, "to tell metrics", examples)
}

/// The same for something else, of which there are these examples.
pub(crate) fn place_of(text: &str, what: &str, examples: &str) -> Result<SocketAddr, Error> {
    let port_alone = || text.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let place = text.parse().ok().or_else(port_alone);
    place.ok_or_else(|| {
        Error::argument(format!("{text:?} is no place {what}"), format!("use a port, such as {examples}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_written_as_windows_writes_it() {
        let bytes = std::array::from_fn(|at| at as u8);
        assert_eq!(guid(bytes), "03020100-0504-0706-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(place("9445").unwrap().to_string(), "127.0.0.1:9445");
        assert_eq!(place("0.0.0.0:9445").unwrap().to_string(), "0.0.0.0:9445");
        assert_eq!(place("[::1]:1").unwrap().to_string(), "[::1]:1");
        for wrong in ["", "x", "65536", "localhost:9445", "192.0.2.7", ":9445", "-1"] {
            assert!(place(wrong).unwrap_err().remedy().contains("9445"), "{wrong}");
        }
    }
}
