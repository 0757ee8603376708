//! When a comparison was made, and on what.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::machine::Machine;
use crate::network::Sides;

/// When it was made, and on what.
#[derive(Clone, Debug, Serialize)]
pub struct Occasion {
    /// This program's version.
    pub version: &'static str,
    /// When it began: seconds since 1970.
    pub began: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// All rounds were done. Where not, what is here stands on the rounds that were.
    pub is_complete: bool,
    /// What it ran on.
    pub machine: Machine,
    /// What lay between client and server.
    pub network: Network,
}

/// What lay between client and server.
#[derive(Clone, Debug, Serialize)]
pub struct Network {
    /// `plain` or the name of a simulated network.
    pub name: String,
    /// What is simulated, and at which scale.
    pub description: String,
}

/// A comparison that has begun.
pub(super) struct Beginning {
    began: u64,
    clock: Instant,
    machine: Machine,
}

impl Beginning {
    /// One that begins now.
    pub(super) fn now() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Beginning { began, clock: Instant::now(), machine: Machine::this() }
    }

    /// It ends now.
    pub(super) fn end(self, sides: Sides, is_complete: bool) -> Occasion {
        let network = sides.network();
        Occasion {
            version: env!("CARGO_PKG_VERSION"),
            began: self.began,
            seconds: self.clock.elapsed().as_secs_f64(),
            is_complete,
            machine: self.machine,
            network: Network { name: network.name().to_owned(), description: network.description() },
        }
    }
}
