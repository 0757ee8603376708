//! The way to the server that runs in this process, which needs no socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use client::{Elsewhere, Fetching, LocalInterface, Network, Opening, Piece, Pieces, Reader, Resolving, Stream};
use server::{Connector, FilePart, Incoming};

/// A network of which this server is all there is.
pub(crate) struct Inside(pub(crate) Connector);

/// What it sends.
struct Sent(Incoming);

/// The data of a READ, which nobody has read yet.
pub(crate) struct Unread(pub(crate) FilePart);

impl Elsewhere for Unread {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn fetch(self: Box<Self>) -> Fetching {
        Box::pin(self.0.read())
    }
}

impl Network for Inside {
    fn resolve<'a>(&'a self, _host: &'a str, _port: u16) -> Resolving<'a> {
        Box::pin(async { Ok(vec![self.0.address()]) })
    }

    fn connect(&self, _from: Option<IpAddr>, to: SocketAddr) -> Opening<'_> {
        Box::pin(async move {
            let (incoming, outgoing) = self.0.connect().await?.into_split();
            Ok(Stream { reader: Reader::Pieces(Box::new(Sent(incoming))), writer: Box::new(outgoing), local: to.ip() })
        })
    }

    fn interfaces(&self) -> Vec<LocalInterface> {
        Vec::new()
    }
}

impl Pieces for Sent {
    fn poll_piece(&mut self, task: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
        let piece = ready!(self.0.poll_piece(task))?;
        Poll::Ready(Ok(piece.map(|piece| match piece {
            server::Piece::Bytes(bytes) => Piece::Bytes(bytes),
            server::Piece::File(part) => Piece::Elsewhere(Box::new(Unread(part))),
        })))
    }
}
