//! What connections run over: TCP, or a network in memory with its own rules.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use netif::{LocalInterface, Pacing};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, lookup_host};

/// A connection on its way.
pub type Opening<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + 'a>>;
/// Addresses on their way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Where connections come from.
pub trait Network: Send + Sync + 'static {
    /// The addresses of a host, best first.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;

    /// Connects, from an address of this machine where one is given.
    fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> Opening<'_>;

    /// This machine's network interfaces.
    fn interfaces(&self) -> Vec<LocalInterface>;
}

/// A connection's two directions.
pub struct Stream {
    /// What the server sends.
    pub reader: Reader,
    /// What the server receives.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// This end's address.
    pub local: IpAddr,
}

/// How what the server sends arrives.
pub enum Reader {
    /// As bytes, which are copied to where they are to be.
    Bytes(Box<dyn AsyncRead + Send + Unpin>),
    /// In pieces, which stay where they are.
    Pieces(Box<dyn Pieces>),
}

impl Reader {
    /// As bytes.
    pub fn of(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Reader::Bytes(Box::new(reader))
    }
}

/// What arrives in pieces.
pub trait Pieces: Send {
    /// The next piece, which is not empty; nothing at the end.
    fn poll_piece(&mut self, task: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>>;
}

/// What arrives as a whole. The data of a READ is given to who asked as the piece that it is, where it is one.
pub enum Piece {
    /// Bytes that stay where they are.
    Bytes(Bytes),
    /// All data of one READ that nobody has fetched yet.
    Elsewhere(Box<dyn Elsewhere>),
}

impl Piece {
    /// In bytes.
    pub fn length(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Elsewhere(data) => data.length(),
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.length())
    }
}

/// Data on its way.
pub type Fetching = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

/// Data of a READ that is not here. Who knows where it is may take it from there.
pub trait Elsewhere: Any + Send + Sync {
    /// In bytes.
    fn length(&self) -> usize;

    /// Has it come here: all of it, or an error, which is `UnexpectedEof` where it is no longer all there.
    fn fetch(self: Box<Self>) -> Fetching;
}

/// This machine's TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Network for Tcp {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> Opening<'_> {
        Box::pin(async move {
            let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(from) = from {
                socket.bind(SocketAddr::new(from, 0))?;
            }
            let pacing = Pacing::lift(&socket);
            let stream = socket.connect(to).await?;
            stream.set_nodelay(true)?;
            // What a connection that was given up has not delivered must never arrive: it was asked again elsewhere, and a CREATE that
            // comes late is done a second time.
            stream.set_zero_linger()?;
            let local = stream.local_addr()?.ip();
            pacing.restore(&stream);
            let (reader, writer) = stream.into_split();
            Ok(Stream { reader: Reader::of(reader), writer: Box::new(writer), local })
        })
    }

    fn interfaces(&self) -> Vec<LocalInterface> {
        // Without them the routes decide.
        netif::of_this_machine().unwrap_or_else(|error| {
            tracing::debug!(%error, "the network interfaces cannot be read");
            Vec::new()
        })
    }
}
