//! What a connection arrives by: a socket, or from inside the process.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use store::Node;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::net::inside::ServerEnd;
use crate::net::transport::Transport;

/// A connection's stream, on its shard.
pub(crate) enum Line {
    Tcp(TcpStream),
    Inside(Box<ServerEnd>),
}

/// The same on its way to another shard.
pub(crate) enum Detached {
    Tcp(std::net::TcpStream),
    Inside(Box<ServerEnd>),
}

impl Line {
    /// Takes it from its shard.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        Ok(match self {
            Line::Tcp(stream) => Detached::Tcp(stream.into_std()?),
            Line::Inside(end) => Detached::Inside(end),
        })
    }
}

impl Detached {
    /// Gives it to this thread's shard.
    pub(crate) fn attach(self) -> io::Result<Line> {
        Ok(match self {
            Detached::Tcp(stream) => Line::Tcp(TcpStream::from_std(stream)?),
            Detached::Inside(end) => Line::Inside(end),
        })
    }
}

impl AsyncRead for Line {
    fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Line::Tcp(stream) => Pin::new(stream).poll_read(task, into),
            Line::Inside(end) => Pin::new(&mut **end).poll_read(task, into),
        }
    }
}

impl Transport for Line {
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[IoSlice<'_>], more: bool) -> Poll<io::Result<usize>> {
        match self {
            Line::Tcp(stream) => stream.poll_send(task, bytes, more),
            Line::Inside(end) => end.poll_send(task, bytes, more),
        }
    }

    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Line::Tcp(stream) => stream.poll_send_file(task, node, offset, length),
            Line::Inside(end) => end.poll_send_file(task, node, offset, length),
        }
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        match self {
            Line::Tcp(stream) => stream.set_patience(patience),
            Line::Inside(end) => end.set_patience(patience),
        }
    }

    fn unacknowledged(&self) -> Option<u64> {
        match self {
            Line::Tcp(stream) => stream.unacknowledged(),
            Line::Inside(end) => end.unacknowledged(),
        }
    }

    fn has_hung_up(&self) -> bool {
        match self {
            Line::Tcp(stream) => stream.has_hung_up(),
            Line::Inside(end) => end.has_hung_up(),
        }
    }

    fn give_up(&mut self) {
        match self {
            Line::Tcp(stream) => stream.give_up(),
            Line::Inside(end) => end.give_up(),
        }
    }
}
