//! A connection inside the process: bytes go from one end to the other as pieces, and parts of files as what they are. To the server it is a connection
//! like any other.

mod file_part;
mod pieces;
mod spare;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use store::Node;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use self::file_part::FilePart;
use self::pieces::{Giver, Length, PIECE_BYTES_MAX, Taker, direction};
pub(crate) use self::spare::Spare;
use crate::net::transport::Transport;
use crate::resource::pool::Pool;

/// From so many bytes on, what is sent is copied to a buffer that is used again.
const LENT_BYTES_MIN: usize = 64 << 10;

/// A connection's two ends.
pub(crate) fn connection(spare: &Spare, pool: &Pool) -> (ClientEnd, ServerEnd) {
    let ((to_client, from_server), (to_server, from_client)) = (direction(), direction());
    let (spare, pool, unread) = (spare.clone(), pool.clone(), Bytes::new());
    let server = ServerEnd { taker: from_client, unread, giver: to_client, spare, pool };
    (ClientEnd { incoming: Incoming(from_server), outgoing: Outgoing(to_server) }, server)
}

/// The client's end of a connection inside the process.
pub struct ClientEnd {
    incoming: Incoming,
    outgoing: Outgoing,
}

impl ClientEnd {
    /// What the server sends, and what it receives.
    pub fn into_split(self) -> (Incoming, Outgoing) {
        (self.incoming, self.outgoing)
    }
}

/// What comes from the server as a whole.
pub enum Piece {
    /// Bytes that stay where they are.
    Bytes(Bytes),
    /// The data of a READ that is in memory.
    File(FilePart),
}

impl Length for Piece {
    fn length(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File(part) => part.length(),
        }
    }
}

/// What the server sends. When it is dropped the server can send no more.
pub struct Incoming(Taker<Piece>);

impl Incoming {
    /// The next piece, which is not empty; nothing at the end. An error where the server has broken the connection off.
    pub fn poll_piece(&mut self, task: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
        self.0.poll_take(task)
    }
}

/// What the server receives. When it is dropped, what the server has not received is forgotten: it was asked elsewhere since, perhaps.
pub struct Outgoing(Giver<Bytes>);

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.0.break_off();
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(task, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.0.poll_room(task))?;
        let piece = gathered(bytes);
        let count = piece.len();
        self.0.give(piece);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The first bytes of these, as many as a piece may have.
fn gathered(bytes: &[IoSlice<'_>]) -> Bytes {
    let mut piece = Vec::with_capacity(length_of(bytes));
    for slice in bytes {
        let left = PIECE_BYTES_MAX - piece.len();
        piece.extend_from_slice(&slice[..slice.len().min(left)]);
    }
    piece.into()
}

fn length_of(bytes: &[IoSlice<'_>]) -> usize {
    bytes.iter().map(|slice| slice.len()).sum::<usize>().min(PIECE_BYTES_MAX)
}

/// The server's end.
pub(crate) struct ServerEnd {
    taker: Taker<Bytes>,
    /// Of the piece that was taken last.
    unread: Bytes,
    giver: Giver<Piece>,
    spare: Spare,
    pool: Pool,
}

impl AsyncRead for ServerEnd {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            let Some(piece) = ready!(self.taker.poll_take(task))? else { return Poll::Ready(Ok(())) };
            self.unread = piece;
        }
        loop {
            let count = self.unread.len().min(into.remaining());
            into.put_slice(&self.unread.split_to(count));
            if into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let Some(piece) = self.taker.take() else { return Poll::Ready(Ok(())) };
            self.unread = piece;
        }
    }
}

impl Transport for ServerEnd {
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[IoSlice<'_>], _more: bool) -> Poll<io::Result<usize>> {
        ready!(self.giver.poll_room(task))?;
        let length = length_of(bytes);
        let piece = if length < LENT_BYTES_MIN {
            gathered(bytes)
        } else {
            let mut piece = self.spare.lend();
            let mut room = &mut piece.room()[..length];
            for slice in bytes {
                let (now, later) = room.split_at_mut(slice.len().min(room.len()));
                now.copy_from_slice(&slice[..now.len()]);
                room = later;
            }
            piece.filled(length)
        };
        self.giver.give(Piece::Bytes(piece));
        Poll::Ready(Ok(length))
    }

    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        ready!(self.giver.poll_room(task))?;
        let (node, spare, pool) = (Arc::clone(node), self.spare.clone(), self.pool.clone());
        self.giver.give(Piece::File(FilePart { node, offset, length, spare, pool }));
        Poll::Ready(Ok(length))
    }

    fn set_patience(&mut self, _patience: Option<Duration>) {}

    fn unacknowledged(&self) -> Option<u64> {
        Some(self.giver.untaken_bytes() as u64)
    }

    fn has_hung_up(&self) -> bool {
        self.taker.has_ended()
    }

    fn give_up(&mut self) {
        self.giver.break_off();
    }
}
