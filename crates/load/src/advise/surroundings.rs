//! What the advice needs to know of a server and the way to it, and what it assumes where no server is named.

use std::time::Duration;

use client::{LocalInterface, Network, Session, Settings, Tcp};

use super::{LATENCY_ASSUMED, Offer, Surroundings};
use crate::doctor::server::{is_azure, round_trip};
use crate::figures;

/// The speed of a link that nobody knows: that of most machines in data centres.
const SPEED_ASSUMED: u64 = 10_000_000_000;

impl Surroundings {
    /// Of this machine and a server like it, in the same data centre.
    pub fn assumed() -> Self {
        let settings = Settings::default();
        let locals: Vec<LocalInterface> =
            Tcp.interfaces().into_iter().filter(|local| !local.address.is_loopback()).collect();
        let link_speed = locals.iter().map(|local| local.link_speed).max().unwrap_or(SPEED_ASSUMED);
        let mut fastest: Vec<&LocalInterface> = locals.iter().filter(|local| local.link_speed == link_speed).collect();
        fastest.dedup_by_key(|local| local.index);
        let has_rss = fastest.iter().any(|local| local.has_rss);
        let pairs = fastest.len().max(1);
        let each = match has_rss {
            true => settings.connection_count_per_rss_network_interface,
            false => settings.connection_count_per_network_interface,
        };
        Surroundings {
            cores: cores(),
            clients: 1,
            multichannel: Offer::Unknown,
            channels: pairs * each,
            pairs,
            link_bits_per_second: link_speed,
            latency: LATENCY_ASSUMED,
            is_azure: false,
            provisioned_gib: None,
            measured: None,
            assumed: vec![
                format!("no server was named: a latency of {} is assumed", figures::milliseconds(LATENCY_ASSUMED)),
                "the server's interfaces are assumed to be like this machine's".into(),
            ],
        }
    }

    /// Of the server of a session. Opens all channels that there may be.
    ///
    /// # Errors
    ///
    /// The session was lost.
    pub async fn of(session: &Session) -> Result<Self, client::Error> {
        let agreed = session.agreed().ok_or(client::Error::Lacking("a session"))?;
        let is_told = session.interfaces().await.is_ok();
        // Fewer channels than hoped for are what there is.
        let _ = session.widen().await;
        let connected = session.connected();
        let multichannel = if agreed.has_multichannel && is_told { Offer::On } else { Offer::OffAtServer };
        let mut surroundings = Surroundings::assumed();
        surroundings.multichannel = multichannel;
        surroundings.is_azure = is_azure(&connected.server);
        surroundings.assumed.clear();
        if let Some(fastest) = connected.pairs.iter().map(|pair| pair.link_speed()).max() {
            surroundings.link_bits_per_second = fastest;
            surroundings.pairs = connected.pairs.len();
            surroundings.channels = connected.channels.len();
        } else {
            surroundings
                .assumed
                .push("the server does not tell its interfaces: they are assumed to be like this machine's".into());
        }
        match round_trip(session).await {
            Some(latency) => surroundings.latency = latency.max(Duration::from_nanos(1)),
            None => surroundings.assumed.push(format!(
                "no ECHO was answered: a latency of {} is assumed",
                figures::milliseconds(LATENCY_ASSUMED)
            )),
        }
        Ok(surroundings)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
