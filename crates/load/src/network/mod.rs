//! Networks to measure over: this machine's loopback, or two hosts in network namespaces, joined by links that are shaped.
//!
//! [`build`] makes one and gives the guard that removes it. Who runs inside knows it by its [`Sides`], which travel as text:
//!
//! ```text
//! NAME-client                      NAME-server
//!   c1  10.99.1.2 ---- link 1 ---- 10.99.1.1  s1     each end shapes what it sends
//!   c2  10.99.2.2 ---- link 2 ---- 10.99.2.1  s2     (four links on `quad`, else one)
//! ```

mod built;
mod cores;
mod links;
mod shape;
mod tools;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

pub use self::built::{Built, build};

/// What two hosts are, in a report.
const HOSTS: &str =
    "client and server in network namespaces of one machine, each with cores of its own where there are several";
/// What one link of `quad` carries in each direction.
const LINK_MBIT: u32 = 1000;
/// What one receive queue of `rss` takes.
const FLOW_MBIT: u32 = 500;
/// What a D32s v3 may send in Azure, all its flows together.
const METERED_MBIT: u32 = 16_000;
/// Of that, one part in so many is simulated: little enough that two cores reach it with room to spare.
const METERED_SCALE: u32 = 10;

/// What lies between client and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing: the loopback of this machine.
    #[default]
    Plain,
    /// Four links of the same speed.
    Quad,
    /// One link, each flow of which gets what one receive queue takes.
    Rss,
    /// One link from a virtual machine whose sending is metered and whose receiving is not.
    D32sV3,
}

impl Network {
    /// All there are.
    pub const ALL: [Network; 4] = [Network::Plain, Network::Quad, Network::Rss, Network::D32sV3];

    /// As it is chosen.
    pub fn name(self) -> &'static str {
        match self {
            Network::Plain => "plain",
            Network::Quad => "quad",
            Network::Rss => "rss",
            Network::D32sV3 => "d32s-v3",
        }
    }

    /// What is simulated and at which scale, in sentences for a report.
    pub fn description(self) -> String {
        match self {
            Network::Plain => "Nothing is simulated: the way to the servers is as it is.".to_owned(),
            Network::Quad => format!(
                "Simulated: {HOSTS}, joined by four links of {LINK_MBIT} Mbit/s in each direction, as between two hosts with four \
                 network cards each. The scale is 1:1; the links have no latency of their own beside the queues of their shapers."
            ),
            Network::Rss => format!(
                "Simulated: {HOSTS}, joined by one link. Each TCP connection is held to {FLOW_MBIT} Mbit/s in each direction, as \
                 one receive queue served by one core is on a fast network card with Receive Side Scaling; no two connections \
                 share a queue. A real queue takes some Gbit/s: this is about 1:10."
            ),
            Network::D32sV3 => format!(
                "Simulated: {HOSTS}, joined by one link. What the client sends, all connections together, is held to {} Mbit/s; \
                 what it receives is not held. This stands for a virtual machine of size D32s v3, whose sending is metered at \
                 {METERED_MBIT} Mbit/s and whose receiving is not, at a scale of 1:{METERED_SCALE}: writes meet the limit \
                 whatever the channels, reads go beyond it as far as the machine's cores do, which are not scaled.",
                METERED_MBIT / METERED_SCALE,
            ),
        }
    }

    fn links(self) -> u8 {
        match self {
            Network::Plain => 0,
            Network::Quad => 4,
            Network::Rss | Network::D32sV3 => 1,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that nothing has; it says which names there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use one of {0}")]
pub struct UnknownName(pub(crate) String);

impl FromStr for Network {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Network::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| UnknownName(Network::ALL.map(Network::name).join(", ")))
    }
}

/// One end of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Server,
    Client,
}

/// The two hosts of a network that is built. As text it is `rss:4242.17`: the network, the process that built it, and a number that tells
/// it from others of that process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    network: Network,
    owner: u32,
    number: u32,
}

impl Sides {
    /// Those of [`Network::Plain`]: this machine.
    pub fn plain() -> Self {
        Sides { network: Network::Plain, owner: 0, number: 0 }
    }

    /// The network between them.
    pub fn network(&self) -> Network {
        self.network
    }

    /// A command that will run on the server's host.
    pub fn on_server(&self, program: impl AsRef<Path>) -> Command {
        self.on(End::Server, program.as_ref())
    }

    /// A command that will run on the client's host.
    pub fn on_client(&self, program: impl AsRef<Path>) -> Command {
        self.on(End::Client, program.as_ref())
    }

    /// The server's addresses, one a link. A client needs the first only: the server tells of the others, and of queues.
    pub fn server_addresses(&self) -> Vec<IpAddr> {
        match self.network.links() {
            0 => vec![Ipv4Addr::LOCALHOST.into()],
            links => (1..=links).map(|link| address(link, End::Server).into()).collect(),
        }
    }

    /// Where the server has to listen so that every link leads to it.
    pub fn listen(&self) -> IpAddr {
        match self.network {
            Network::Plain => Ipv4Addr::LOCALHOST.into(),
            Network::Quad | Network::Rss | Network::D32sV3 => Ipv4Addr::UNSPECIFIED.into(),
        }
    }

    fn on(&self, end: End, program: &Path) -> Command {
        if self.network == Network::Plain {
            return Command::new(program);
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(end)]);
        if let Some(cores) = cores::of(end, self.owner) {
            command.args(["taskset", "-c", &cores]);
        }
        command.arg(program);
        command
    }

    fn namespace(&self, end: End) -> String {
        let end = match end {
            End::Server => "server",
            End::Client => "client",
        };
        format!("multilane-{}.{}-{end}", self.owner, self.number)
    }
}

impl fmt::Display for Sides {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}.{}", self.network, self.owner, self.number)
    }
}

/// Why a text names no hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSides {
    /// Its parts are others.
    #[error("use NETWORK:PROCESS.NUMBER")]
    OtherForm,
    /// The process, or what follows it, is no number.
    #[error("{0:?} is no number")]
    NoNumber(String),
    /// No network has that name.
    #[error(transparent)]
    NoNetwork(#[from] UnknownName),
}

impl FromStr for Sides {
    type Err = NoSides;

    fn from_str(text: &str) -> Result<Self, NoSides> {
        let parts = text.split_once(':').and_then(|(network, place)| Some((network, place.split_once('.')?)));
        let (network, (owner, number)) = parts.ok_or(NoSides::OtherForm)?;
        let number_of = |text: &str| text.parse().map_err(|_| NoSides::NoNumber(text.to_owned()));
        Ok(Sides { network: network.parse()?, owner: number_of(owner)?, number: number_of(number)? })
    }
}

/// An end's address on a link.
fn address(link: u8, end: End) -> Ipv4Addr {
    let last = match end {
        End::Server => 1,
        End::Client => 2,
    };
    Ipv4Addr::new(10, 99, link, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_is_found_by_its_name_and_says_what_it_is() {
        for network in Network::ALL {
            assert_eq!(network.name().parse(), Ok(network));
            assert!(!network.description().is_empty());
        }
        assert_eq!("ring".parse::<Network>().unwrap_err().to_string(), "use one of plain, quad, rss, d32s-v3");
    }

    #[test]
    fn sides_travel_as_text() {
        let sides = Sides { network: Network::D32sV3, owner: 4242, number: 7 };
        assert_eq!(sides.to_string(), "d32s-v3:4242.7");
        assert_eq!(sides.to_string().parse(), Ok(sides));
        for text in ["", "rss", "rss:1", "rss:x.1", "ring:1.1", "rss:1.-1"] {
            assert!(text.parse::<Sides>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn commands_run_in_the_namespace_of_their_end() {
        let words = |command: Command| {
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let owner = std::process::id();
        let quad = Sides { network: Network::Quad, owner, number: 0 };
        let on = |end| cores::of(end, quad.owner).map_or(String::new(), |cores| format!("taskset -c {cores} "));
        let (server, client) = (on(End::Server), on(End::Client));
        assert_eq!(words(quad.on_server("smbd")), format!("ip netns exec multilane-{owner}.0-server {server}smbd"));
        assert_eq!(words(quad.on_client("tool")), format!("ip netns exec multilane-{owner}.0-client {client}tool"));
        assert_eq!(words(Sides::plain().on_server("smbd")), "smbd");
        let addresses: Vec<String> = quad.server_addresses().iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["10.99.1.1", "10.99.2.1", "10.99.3.1", "10.99.4.1"]);
    }
}
