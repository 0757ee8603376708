//! A network in memory: links that are cut, hold back what is on its way, go dead or break, between the real client and the real server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use client::{LocalInterface, Network, Opening, Reader, Resolving, Stream};
use server::in_memory::{FarEnd, InMemory};
use tokio::io::{AsyncWrite, WriteHalf, duplex, split};
use tokio::sync::{mpsc, oneshot};

use crate::chance::Chance;
use crate::line::{Line, Link, Relay};
use crate::witness::Witness;

pub(crate) const PORT: u16 = 445;
/// What a stream holds on its way.
const STREAM_BYTES: usize = 256 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Milliseconds that a piece of work of the server's pool takes at most.
const WORK_MAX: u64 = 3;

/// Links between one client and one server, each a network of its own: 10.0.N.2 and 10.0.N.1.
pub(crate) struct Links {
    lines: Vec<Arc<Line>>,
    door: mpsc::UnboundedSender<(FarEnd, SocketAddr, SocketAddr)>,
    chance: Chance,
    connections: AtomicU64,
    pub(crate) witness: Arc<Witness>,
}

impl Links {
    /// A server behind `count` links. Must be called within a LocalSet.
    pub(crate) fn new(count: u8, seed: u64, server: InMemory) -> Arc<Self> {
        let chance = Chance::new(seed);
        let (door, mut arrivals) = mpsc::unbounded_channel();
        let takes = chance.branch();
        tokio::task::spawn_local(server.work(move || Duration::from_millis(takes.below(WORK_MAX))));
        tokio::task::spawn_local(async move {
            while let Some((stream, local, peer)) = arrivals.recv().await {
                tokio::task::spawn_local(server.serve(stream, local, peer));
            }
        });
        let turn = Arc::default();
        let lines = (0..usize::from(count)).map(|number| Arc::new(Line::new(number, &turn))).collect();
        Arc::new(Links { lines, door, chance, connections: AtomicU64::new(0), witness: Arc::default() })
    }

    pub(crate) fn set(&self, link: usize, state: Link) {
        self.lines[link].set(state);
    }

    /// See [`Line::forget`].
    pub(crate) fn forget(&self, link: usize) {
        self.lines[link].forget();
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

    async fn open(&self, to: SocketAddr) -> io::Result<Stream> {
        let index = Links::index(to.ip()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let line = Arc::clone(&self.lines[index]);
        let answer = |link| match link {
            Link::Up(_) | Link::Slow { .. } | Link::Shared { .. } => Some(Ok(())),
            Link::Broken => Some(Err(io::Error::from(io::ErrorKind::ConnectionRefused))),
            Link::Held => None,
        };
        tokio::time::timeout(CONNECT_MAX, line.wait(answer)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let (near, near_relay) = duplex(STREAM_BYTES);
        let (far_relay, far) = duplex(STREAM_BYTES);
        let (alive, given_up) = oneshot::channel();
        let (far, patience) = FarEnd::new(far);
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let tap = Witness::tap(&self.witness, number, index);
        let relay = Relay { line, chance: self.chance.branch(), tap, given_up, patience };
        tokio::spawn(relay.run(near_relay, far_relay));
        let local = client_address(index);
        let peer = SocketAddr::new(local, 1024 + number as u16);
        self.door.send((far, to, peer)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        let (reader, writer) = split(near);
        Ok(Stream { reader: Reader::of(reader), writer: Box::new(Near { writer, _alive: alive }), local })
    }
}

/// The client's end of a connection. Once it is dropped what is on its way is reset, as TCP does.
struct Near {
    writer: WriteHalf<tokio::io::DuplexStream>,
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

/// Some of the links, as one client has them.
pub(crate) struct Reach {
    pub(crate) links: Arc<Links>,
    pub(crate) of: std::ops::Range<usize>,
}

impl Network for Reach {
    fn resolve<'a>(&'a self, _host: &'a str, port: u16) -> Resolving<'a> {
        let all = self.of.clone().map(|index| SocketAddr::new(server_address(index), port)).collect();
        Box::pin(async move { Ok(all) })
    }

    fn connect(&self, _from: Option<IpAddr>, to: SocketAddr) -> Opening<'_> {
        Box::pin(self.links.open(to))
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
        self.of.clone().map(interface).collect()
    }
}

pub(crate) fn reach_all(links: &Arc<Links>) -> Arc<dyn Network> {
    Arc::new(Reach { links: Arc::clone(links), of: 0..links.lines.len() })
}

pub(crate) fn server_address(index: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, index as u8, 1).into()
}

fn client_address(index: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, index as u8, 2).into()
}
