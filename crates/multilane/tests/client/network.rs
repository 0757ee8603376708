//! A network in memory: links that are cut, hold back what is on its way, or break, between the real client and the real server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use client::{LocalInterface, Network, Opening, Resolving, Session, Settings, Stream, Target};
use server::admin::{
    Account, Advertise, AdvertisedAddress, Estate, Multichannel, OwnAddresses, Principal, PrincipalKind, Sealing,
    Share, Signing,
};
use server::in_memory::InMemory;
use store::RamStore;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

pub(crate) const PORT: u16 = 445;
/// What a stream holds on its way, and what a relay moves at once.
const STREAM_BYTES: usize = 256 << 10;
const STEP_BYTES: usize = 32 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// What a link does with what is sent over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It arrives, after a delay of at most so many microseconds.
    Up { delay_max: u64 },
    /// It arrives, so many bytes a second and connection.
    Slow { bytes_per_second: u64 },
    /// It is held back until the link is up again.
    Held,
    /// Connections break.
    Broken,
}

/// Links between one client and one server, each a network of its own: 10.0.N.2 and 10.0.N.1.
pub(crate) struct Links {
    links: Vec<watch::Sender<Link>>,
    door: mpsc::UnboundedSender<(DuplexStream, SocketAddr, SocketAddr)>,
    chance: Chance,
    connections: AtomicU64,
}

/// Numbers that follow from a seed.
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        let step = |state: u64| {
            let mut state = state;
            state ^= state << 13;
            state ^= state >> 7;
            state ^ (state << 17)
        };
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(step(before), Ordering::Relaxed);
        step(before).wrapping_mul(0x2545_f491_4f6c_dd1d) % bound.max(1)
    }
}

impl Links {
    /// A server of `estate` behind `count` links. Must be called within a LocalSet.
    pub(crate) fn new(count: u8, seed: u64, server: InMemory) -> Arc<Self> {
        let (door, mut arrivals) = mpsc::unbounded_channel();
        tokio::task::spawn_local(async move {
            while let Some((stream, local, peer)) = arrivals.recv().await {
                tokio::task::spawn_local(server.serve(stream, local, peer));
            }
        });
        let links = (0..count).map(|_| watch::Sender::new(Link::Up { delay_max: 200 })).collect();
        Arc::new(Links { links, door, chance: Chance::new(seed), connections: AtomicU64::new(0) })
    }

    pub(crate) fn set(&self, link: usize, state: Link) {
        self.links[link].send_replace(state);
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn index(address: IpAddr) -> Option<usize> {
        match address {
            IpAddr::V4(address) if address.octets()[..2] == [10, 0] => Some(usize::from(address.octets()[2])),
            _ => None,
        }
    }

    fn relay(
        &self,
        from: DuplexStream,
        to: DuplexStream,
        mut link: watch::Receiver<Link>,
        mut given_up: oneshot::Receiver<()>,
    ) {
        let (from_reader, from_writer) = split(from);
        let (to_reader, to_writer) = split(to);
        let (there, back) = (Chance::new(self.chance.below(u64::MAX)), Chance::new(self.chance.below(u64::MAX)));
        let there = carry(from_reader, to_writer, link.clone(), there);
        let back = carry(to_reader, from_writer, link.clone(), back);
        tokio::spawn(async move {
            let (mut there, mut back) = (Box::pin(there), Box::pin(back));
            let mut broken = link.clone();
            tokio::select! {
                () = &mut there => {}
                () = &mut back => {}
                _ = &mut given_up => {}
                _ = broken.wait_for(|link| *link == Link::Broken) => {}
            }
            // The other end learns of it over the same link.
            let _ = link.wait_for(|link| *link != Link::Held).await;
        });
    }
}

/// Moves bytes one way, as the link has it.
async fn carry(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    mut link: watch::Receiver<Link>,
    chance: Chance,
) {
    let mut step = vec![0; STEP_BYTES];
    while let Ok(count @ 1..) = from.read(&mut step).await {
        let state = link.wait_for(|link| *link != Link::Held).await.map(|state| *state);
        match state {
            Ok(Link::Up { delay_max }) => sleep(Duration::from_micros(chance.below(delay_max))).await,
            Ok(Link::Slow { bytes_per_second }) => {
                sleep(Duration::from_micros(count as u64 * 1_000_000 / bytes_per_second)).await;
            }
            Ok(Link::Held | Link::Broken) | Err(_) => return,
        }
        if to.write_all(&step[..count]).await.is_err() {
            return;
        }
    }
}

/// The client's end of a connection. Once it is dropped nothing of what is on its way arrives, as after a TCP reset.
struct Near {
    writer: WriteHalf<DuplexStream>,
    _alive: oneshot::Sender<()>,
}

impl AsyncWrite for Near {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(task)
    }
}

impl Network for Links {
    fn resolve<'a>(&'a self, _host: &'a str, port: u16) -> Resolving<'a> {
        let all = (0..self.links.len()).map(|index| SocketAddr::new(server_address(index), port)).collect();
        Box::pin(async move { Ok(all) })
    }

    fn connect(&self, _from: Option<IpAddr>, to: SocketAddr) -> Opening<'_> {
        Box::pin(async move {
            let index = Links::index(to.ip()).ok_or(io::ErrorKind::AddrNotAvailable)?;
            let link = self.links[index].subscribe();
            if *link.borrow() == Link::Broken {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let is_up =
                tokio::time::timeout(CONNECT_MAX, link.clone().wait_for(|link| *link != Link::Held)).await.is_ok();
            if !is_up {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (near, near_relay) = duplex(STREAM_BYTES);
            let (far_relay, far) = duplex(STREAM_BYTES);
            let (alive, given_up) = oneshot::channel();
            self.relay(near_relay, far_relay, link, given_up);
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let local = client_address(index);
            let peer = SocketAddr::new(local, 1024 + number as u16);
            self.door.send((far, to, peer)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            let (reader, writer) = split(near);
            let writer = Near { writer, _alive: alive };
            Ok(Stream { reader: Box::new(reader), writer: Box::new(writer), local })
        })
    }

    fn interfaces(&self) -> Vec<LocalInterface> {
        let interface = |index| LocalInterface {
            name: format!("c{index}"),
            index: index as u32 + 1,
            address: client_address(index),
            prefix_bits: 24,
            link_speed: 1_000_000_000,
            has_rss: false,
        };
        (0..self.links.len()).map(interface).collect()
    }
}

fn server_address(index: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, index as u8, 1).into()
}

fn client_address(index: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, index as u8, 2).into()
}

/// A server with one RAM disk, `ram`, that tells of `count` addresses; multichannel as `multichannel` has it.
pub(crate) fn server(count: u8, multichannel: Multichannel, sealing: Sealing) -> InMemory {
    InMemory::new(estate(count, multichannel, sealing))
}

/// What such a server serves.
pub(crate) fn estate(count: u8, multichannel: Multichannel, sealing: Sealing) -> Estate {
    let principal = Principal {
        name: "tester".into(),
        account: "local".into(),
        kind: PrincipalKind::User,
        relative_id: 1001,
        secrets: vec![server::admin::nt_hash("secret")],
    };
    let share = Share {
        name: "ram".into(),
        account: "local".into(),
        comment: String::new(),
        store: Arc::new(RamStore::new(256 << 20)),
        read_only: false,
        seal_required: false,
        continuously_available: false,
        access_based: false,
    };
    let address = |index| AdvertisedAddress {
        address: server_address(usize::from(index)),
        bits_per_second: Some(1_000_000_000),
        rss: false,
    };
    let settings = server::admin::Settings {
        server_name: "server".into(),
        machine_sid: [1, 2, 3],
        server_guid: [7; 16],
        dialect_min: 0x0300,
        signing: Signing::Required,
        sealing,
        channels_max: 4,
        advertise: Advertise { addresses: (0..count).map(address).collect(), own: OwnAddresses::LeftOut },
    };
    let accounts = vec![Account { name: "local".into(), multichannel }];
    Estate { principals: vec![principal], accounts, shares: vec![share], settings }
}

/// Who signs in.
pub(crate) fn target(password: &str) -> Target {
    Target { host: "server".into(), port: PORT, user: "tester".into(), password: password.into() }
}

/// Signs in over `links`.
pub(crate) async fn session(links: &Arc<Links>, settings: Settings) -> Session {
    Session::connect(&target("secret"), settings, Arc::clone(links) as Arc<dyn Network>).await.unwrap()
}

/// How far virtual time may run ahead before as much real time as `PACE_REAL` has passed.
const PACE_VIRTUAL: Duration = Duration::from_millis(10);
const PACE_REAL: Duration = Duration::from_micros(100);

/// Runs a test on one thread with virtual time.
pub(crate) fn simulate(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        // The server's pool works in real time, of which the clock knows nothing: minutes would pass while a thread waits for a busy
        // processor. Time stands still while something blocks, so something does now and then.
        let pace = tokio::spawn(async {
            while tokio::task::spawn_blocking(|| std::thread::sleep(PACE_REAL)).await.is_ok() {
                sleep(PACE_VIRTUAL).await;
            }
        });
        test.await;
        pace.abort();
    });
}
