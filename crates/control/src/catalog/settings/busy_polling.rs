//! Whether threads that have nothing to do look for more before they sleep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use server::admin::Polling;

use crate::Error;

/// How long a thread that has nothing to do looks for more before it sleeps and has to be woken, which takes tens of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPolling {
    /// It sleeps at once.
    Off,
    /// As long as that spares processor time, 50 us at most.
    #[default]
    Auto,
    /// So long, in microseconds, from 1 to [`BusyPolling::MICROSECONDS_MAX`], whatever it costs; but not where others want the core.
    Microseconds(u32),
}

impl BusyPolling {
    /// More than a client takes between two requests that it sends one after the other.
    pub const MICROSECONDS_MAX: u32 = 10_000;

    /// The same for the server.
    pub(crate) fn polling(self) -> Polling {
        match self {
            BusyPolling::Off => Polling::Off,
            BusyPolling::Auto => Polling::Thrifty,
            BusyPolling::Microseconds(time) => Polling::For(Duration::from_micros(time.into())),
        }
    }
}

impl fmt::Display for BusyPolling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BusyPolling::Off => f.write_str("off"),
            BusyPolling::Auto => f.write_str("auto"),
            BusyPolling::Microseconds(time) => write!(f, "{time}us"),
        }
    }
}

impl FromStr for BusyPolling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let time = |number: &str| {
            let time: u32 = number.parse().ok()?;
            (1..=BusyPolling::MICROSECONDS_MAX).contains(&time).then_some(BusyPolling::Microseconds(time))
        };
        match text {
            "off" => Ok(BusyPolling::Off),
            "auto" => Ok(BusyPolling::Auto),
            text => text.strip_suffix("us").and_then(time).ok_or_else(|| {
                let remedy =
                    format!("use off, auto, or a time from 1us to {}us, such as 200us", BusyPolling::MICROSECONDS_MAX);
                Error::argument(format!("{text:?} is no time to poll"), remedy)
            }),
        }
    }
}
