//! What the rules judge.

use std::net::IpAddr;
use std::time::Duration;

use client::{Agreed, Interface, Pair, Protection, Settings};

/// The interface that leads nowhere.
pub(crate) const LOOPBACK: &str = "lo";

/// All that was seen.
#[derive(Clone, Debug)]
pub struct Facts {
    /// This machine.
    pub machine: Machine,
    /// The server, where one was named.
    pub server: Option<Server>,
}

/// This machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// The part of the last ten seconds in which something waited for a core, from 0 to 1; `None` where the kernel does not tell.
    pub waits_for_cores: Option<f64>,
    /// Network interfaces that are up.
    pub cards: Vec<Card>,
    /// `ethtool` is installed.
    pub has_ethtool: bool,
    /// The greatest receive buffer that TCP takes by itself, in bytes.
    pub tcp_receive_max: Option<u64>,
    /// The greatest send buffer that TCP takes by itself, in bytes.
    pub tcp_send_max: Option<u64>,
    /// The greatest buffers that a program may ask for, to receive and to send, in bytes.
    pub asked_max: Option<(u64, u64)>,
    /// How TCP finds its speed.
    pub congestion: Option<String>,
    /// How the cores choose their frequency, each way once; empty where they do not or do not tell.
    pub governors: Vec<String>,
    /// What sets the frequency.
    pub frequency_driver: Option<String>,
    /// What each way to protect messages does on one core, in bytes per second.
    pub protections: Vec<(Protection, f64)>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// There is a device behind it, a virtual machine's included.
    pub is_hardware: bool,
    /// The largest packet, in bytes.
    pub mtu: u32,
    /// Bits per second; `None` where it does not know.
    pub link_speed: Option<u64>,
    /// It sends or receives, but not both at once.
    pub is_half_duplex: bool,
    /// Receive queues in use.
    pub receive_queues: usize,
    /// Receive queues that it could have; `None` where it does not tell.
    pub receive_queues_max: Option<QueuesMax>,
    /// The receive ring; `None` where it does not tell.
    pub receive_ring: Option<Ring>,
    /// Packets that were lost because there was no room.
    pub missed_packets: u64,
    /// Offloads that are off: the short name for `ethtool -K`, and whether it can be switched on.
    pub offloads_off: Vec<(String, bool)>,
    /// The kinds of queueing disciplines that what it sends passes, those of the interfaces below it included; `None` where `tc` does not
    /// tell.
    pub queueing_disciplines: Option<Vec<String>>,
}

/// Queues that a card could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuesMax {
    /// Those that only receive.
    pub receiving: usize,
    /// Those that receive and send.
    pub combined: usize,
}

impl QueuesMax {
    /// All that receive.
    pub fn total(self) -> usize {
        self.receiving.saturating_add(self.combined)
    }
}

/// Packets that a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Now.
    pub now: u32,
    /// At most.
    pub max: u32,
}

/// A server, and the way to it.
#[derive(Clone, Debug)]
pub struct Server {
    /// As the user called it.
    pub host: String,
    /// The port.
    pub port: u16,
    /// It is a server of Azure Files.
    pub is_azure: bool,
    /// How this client behaves.
    pub settings: Settings,
    /// What was agreed on.
    pub agreed: Agreed,
    /// Everything is encrypted.
    pub is_sealed: bool,
    /// The ways that could be used, one for each local interface that shares a network with the server.
    pub ways: Vec<Way>,
    /// The names of the interfaces that are used.
    pub used: Vec<String>,
    /// The paths that its channels go, each once; none where it is on this machine.
    pub paths: Vec<Path>,
    /// It is on this machine.
    pub is_local: bool,
    /// From a request to its answer; the median of several.
    pub round_trip: Option<Duration>,
    /// What it tells of its interfaces.
    pub told: Told,
    /// The pairs of interfaces that were chosen.
    pub pairs: Vec<Pair>,
    /// Channels that there are.
    pub channels: usize,
    /// Channels that the interfaces suggest, were there no maximum.
    pub channels_without_maximum: usize,
    /// Why there are no more.
    pub refusal: Option<String>,
    /// What writing a file came to, where that was allowed.
    pub written: Option<Written>,
}

/// A local interface from which the server can be reached without a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The interface.
    pub name: String,
    /// The slower side's, in bits per second.
    pub link_speed: u64,
}

/// A path that a channel goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The interface here.
    pub interface: String,
    /// The server's address.
    pub address: IpAddr,
    /// The largest packet that gets through, in bytes; `None` where it could not be told.
    pub packet_bytes: Option<u32>,
}

/// What a server tells of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// These, each with how it went to connect to it.
    Interfaces(Vec<(Interface, Tried)>),
    /// It has no multichannel, or it is not for this user's account.
    NotSupported,
    /// Something else.
    Refused(String),
}

/// How it went to connect to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It answered after so long.
    Reached(Duration),
    /// It did not.
    Failed(String),
    /// No client from here would use it, for this reason.
    PassedOver(&'static str),
}

/// Speeds of a test file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Its length.
    pub bytes: u64,
    /// On the share.
    pub share: Rates,
    /// On a RAM disk of the same server, where one was named.
    pub ram: Option<Rates>,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Writing, until the server had it on its disk.
    pub write: f64,
    /// Reading it back, most likely from the server's memory.
    pub read: f64,
}

impl Facts {
    /// The cards that matter: those on the way to the server, or all that are hardware. Loopback is none of them.
    pub(crate) fn cards(&self) -> Vec<&Card> {
        let is_used = |card: &&Card| match &self.server {
            Some(server) => server.used.contains(&card.name),
            None => card.is_hardware,
        };
        self.machine.cards.iter().filter(is_used).filter(|card| card.name != LOOPBACK).collect()
    }
}

impl Server {
    /// Bytes per second of all pairs together; of one link of 10 Gbit/s where nobody knows.
    pub(crate) fn link_bytes_per_second(&self) -> f64 {
        let bits: u64 = self.pairs.iter().map(|pair| pair.link_speed()).fold(0, u64::saturating_add);
        (if bits == 0 { 10_000_000_000 } else { bits }) as f64 / 8.0
    }

    /// The server is this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.used.iter().all(|name| name == LOOPBACK)
    }
}
