//! Values that several commands take.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use control::Error;

/// The most that one session may be given.
pub(super) const CHANNELS_MAX: i64 = server::admin::CHANNELS_MAX as i64;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum When {
    /// Refuse clients that cannot
    Required,
    /// Where the client asks for it
    Enabled,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WhereAnonymous {
    /// Nowhere
    Refused,
    /// Where a user has signed in before
    Reauthentication,
}

/// A switch. `true` and `false` are what some were called once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    #[value(alias = "true")]
    On,
    #[value(alias = "false")]
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// An address to listen on, with its port.
pub(super) fn place(text: &str) -> Result<SocketAddr, Error> {
    let remedy = "use an address of this machine and a port, such as 192.0.2.7:445, [2001:db8::7]:445 or localhost:4450, and no other name";
    // Whatever a resolver would say, it is this.
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| Error::argument(format!("{text:?} is no place to listen"), remedy))
}

/// The latency of a simulated store: `0.5`, `2`, at most a second.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, Error> {
    let seconds = text.parse::<f64>().ok().map(|milliseconds| milliseconds / 1e3);
    let latency = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    latency.filter(|latency| !latency.is_zero() && *latency <= Duration::from_secs(1)).ok_or_else(|| {
        Error::argument(
            format!("{text:?} is no latency in milliseconds"),
            "use a number above 0 and up to 1000, such as 2 or 0.5",
        )
    })
}
