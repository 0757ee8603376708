//! Looks at a server through the client, as a user of it would see it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{
    Connected, Counters, Error, Interface, LocalInterface, Network, Pair, Session, Settings, Status, Target, Tcp, pairs,
};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::facts::{LOOPBACK, Server, Told, Tried, Way};
use super::{disk, paths};

/// How long an address may take to answer.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Addresses that are tried.
const ADDRESSES_MAX: usize = 64;
/// ECHOs whose median is the round trip.
const ECHOES: usize = 21;
/// All of them together take no longer.
const ECHOES_TIME: Duration = Duration::from_secs(5);
/// The end of the names of Azure Files' servers.
const AZURE: &str = ".file.core.windows.net";

/// What to ask a server beside what every look asks.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// A share to connect to.
    pub share: Option<String>,
    /// A test file may be written to the share; it is gone afterwards.
    pub may_write: bool,
    /// A RAM disk of the same server, which gets such a file, too.
    pub ram_share: Option<String>,
}

/// Looks at a server. Must be called within a tokio runtime.
///
/// # Errors
///
/// The server cannot be reached, does not let the user in, or lacks the share.
pub async fn look_at_server(target: &Target, settings: Settings, questions: &Questions) -> Result<Server, Error> {
    let session = Session::connect(target, settings, Arc::new(Tcp)).await?;
    let looked = through(&session, target, settings, questions).await;
    let closed = session.close().await;
    if let Err(error) = closed {
        tracing::debug!(%error, "the session did not end in order");
    }
    looked
}

async fn through(
    session: &Session,
    target: &Target,
    settings: Settings,
    questions: &Questions,
) -> Result<Server, Error> {
    let tree = match &questions.share {
        Some(share) => Some(session.tree(share).await?),
        None => None,
    };
    let told = session.interfaces().await;
    let refusal = session.widen().await.err().map(|error| error.to_string());
    let connected = session.connected();
    let agreed = session.agreed().ok_or(Error::Lacking("a session"))?;
    let locals = Tcp.interfaces();
    let used = used(&connected, &locals);
    let remotes = told.as_deref().unwrap_or_default().to_vec();
    let unbounded = Settings { maximum_connection_count_per_server: usize::MAX, ..settings };
    let first = connected.channels.first().map(|channel| channel.remote);
    let told = match told {
        Ok(interfaces) => Told::Interfaces(try_all(interfaces, target.port, &locals, first).await),
        Err(error) if error.status() == Some(Status::NOT_SUPPORTED) => Told::NotSupported,
        Err(error) => Told::Refused(error.to_string()),
    };
    let paths = paths::of(&connected, &locals).await;
    let round_trip = round_trip(session).await;
    let written = match tree.filter(|_| questions.may_write) {
        Some(tree) => {
            let ram = match &questions.ram_share {
                Some(share) => Some(session.tree(share).await?),
                None => None,
            };
            Some(disk::write(&tree, ram.as_ref()).await?)
        }
        None => None,
    };
    Ok(Server {
        host: target.host.clone(),
        port: target.port,
        is_azure: is_azure(&target.host),
        settings,
        agreed,
        is_sealed: connected.is_sealed,
        ways: ways(&locals, &remotes),
        used,
        paths,
        is_local: connected.channels.iter().all(|channel| leaves_by(channel, &locals) == Some(LOOPBACK)),
        round_trip,
        told,
        channels: connected.channels.len(),
        channels_without_maximum: pairs(&locals, &remotes, &unbounded).iter().map(|pair| pair.connections).sum(),
        pairs: connected.pairs,
        refusal,
        written,
    })
}

/// True of a name of the service.
pub(crate) fn is_azure(host: &str) -> bool {
    host.to_ascii_lowercase().ends_with(AZURE)
}

/// From a question to its answer: the median of a few, of those that came in time.
pub(crate) async fn round_trip(session: &Session) -> Option<Duration> {
    let mut times = Vec::new();
    let ask = async {
        for _ in 0..ECHOES {
            let begun = Instant::now();
            if session.echo().await.is_err() {
                break;
            }
            times.push(begun.elapsed());
        }
    };
    let _ = timeout(ECHOES_TIME, ask).await;
    times.sort();
    times.get(times.len() / 2).copied()
}

/// The interfaces that the channels leave by.
fn used(connected: &Connected, locals: &[LocalInterface]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in connected.channels.iter().filter_map(|channel| leaves_by(channel, locals)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The interface that a channel leaves by.
pub(super) fn leaves_by<'a>(channel: &Counters, locals: &'a [LocalInterface]) -> Option<&'a str> {
    let is_own = |address: IpAddr| address.is_loopback() || locals.iter().any(|local| local.address == address);
    match locals.iter().find(|local| local.address == channel.local) {
        // What goes to an address of this machine never leaves it.
        _ if is_own(channel.remote.ip()) => Some(LOOPBACK),
        local => local.map(|local| local.name.as_str()),
    }
}

/// The local interfaces on a network with one of the server's, each with the best speed that it has.
fn ways(locals: &[LocalInterface], remotes: &[Interface]) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for local in locals.iter().filter(|local| !local.address.is_loopback()) {
        let of = |remote: &Interface| {
            let pair = Pair { local: Some(local.clone()), remote: *remote, address: remote.address?, connections: 0 };
            (pair.is_direct() && remote.address != Some(local.address)).then(|| pair.link_speed())
        };
        let Some(link_speed) = remotes.iter().filter_map(of).max() else { continue };
        match ways.iter_mut().find(|way| way.name == local.name) {
            Some(way) => way.link_speed = way.link_speed.max(link_speed),
            None => ways.push(Way { name: local.name.clone(), link_speed }),
        }
    }
    ways
}

/// Connects to every address at once.
async fn try_all(
    interfaces: Vec<Interface>,
    port: u16,
    locals: &[LocalInterface],
    first: Option<SocketAddr>,
) -> Vec<(Interface, Tried)> {
    let mut tries = JoinSet::new();
    for (number, interface) in interfaces.into_iter().take(ADDRESSES_MAX).enumerate() {
        let passed_over = why_passed_over(&interface, locals, first);
        tries.spawn(async move {
            let tried = match (interface.address, passed_over) {
                (_, Some(why)) => Tried::PassedOver(why),
                (Some(address), None) => try_one(SocketAddr::new(address, port)).await,
                (None, None) => Tried::PassedOver("of an unknown kind"),
            };
            (number, interface, tried)
        });
    }
    let mut tried = tries.join_all().await;
    tried.sort_by_key(|(number, ..)| *number);
    tried.into_iter().map(|(_, interface, tried)| (interface, tried)).collect()
}

/// Why a client here would not use an address (MS-SMB2 3.2.5.14.11 with note 198).
fn why_passed_over(
    interface: &Interface,
    locals: &[LocalInterface],
    first: Option<SocketAddr>,
) -> Option<&'static str> {
    let address = interface.address?;
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let has_family = |local: &LocalInterface| {
        let is_usable = match local.address {
            IpAddr::V4(address) => !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        };
        is_usable
            && local.address.is_ipv4() == address.is_ipv4()
            && local.address.is_loopback() == address.is_loopback()
    };
    match () {
        () if interface.index == 0 => Some("it has no interface index"),
        () if is_link_local => Some("link-local"),
        () if address.is_loopback() && !first.is_some_and(|first| first.ip().is_loopback()) => {
            Some("the server's own loopback")
        }
        () if !locals.iter().any(has_family) => Some("this machine has no address of its kind"),
        () => None,
    }
}

async fn try_one(address: SocketAddr) -> Tried {
    let begun = Instant::now();
    match timeout(CONNECT_MAX, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Tried::Reached(begun.elapsed()),
        Ok(Err(cause)) => Tried::Failed(cause.to_string()),
        Err(_) => Tried::Failed(format!("no answer in {} s", CONNECT_MAX.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use client::InterfaceCapability;

    use super::*;

    fn remote(index: u32, address: &str) -> Interface {
        let address = Some(address.parse().unwrap());
        Interface { index, capability: InterfaceCapability::NONE, link_speed: 10_000_000_000, address }
    }

    fn local(name: &str, address: &str, gigabits: u64) -> LocalInterface {
        let address = address.parse().unwrap();
        let link_speed = gigabits * 1_000_000_000;
        LocalInterface { name: name.to_owned(), index: 1, address, prefix_bits: 24, link_speed, has_rss: false }
    }

    #[test]
    fn addresses_that_no_client_would_use_are_passed_over() {
        let locals = [local("lo", "127.0.0.1", 10), local("eth0", "10.0.1.2", 10)];
        let first = Some("10.0.1.1:445".parse().unwrap());
        for (remote, is_tried) in [
            (remote(1, "10.0.1.1"), true),
            (remote(1, "192.0.2.1"), true),
            (remote(0, "10.0.1.1"), false),
            (remote(1, "169.254.1.1"), false),
            (remote(1, "fe80::1"), false),
            (remote(1, "2001:db8::1"), false),
            (remote(1, "127.0.0.1"), false),
        ] {
            assert_eq!(why_passed_over(&remote, &locals, first).is_none(), is_tried, "{remote:?}");
        }
        let here = Some("127.0.0.1:445".parse().unwrap());
        assert_eq!(why_passed_over(&remote(1, "127.0.0.2"), &locals, here), None);
    }

    #[test]
    fn ways_are_the_interfaces_on_a_network_with_the_server() {
        let locals = [local("eth0", "10.0.1.2", 10), local("eth1", "10.0.2.2", 1), local("eth2", "10.0.9.2", 1)];
        let ways = ways(&locals, &[remote(1, "10.0.1.1"), remote(2, "10.0.2.1")]);
        let shown: Vec<_> = ways.iter().map(|way| (way.name.as_str(), way.link_speed / 1_000_000_000)).collect();
        assert_eq!(shown, [("eth0", 10), ("eth1", 1)]);
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_told_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert!(matches!(try_one(address).await, Tried::Reached(_)));
        drop(listener);
        assert!(matches!(try_one(address).await, Tried::Failed(_)));
    }
}
