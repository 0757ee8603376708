//! A connection inside the process: bytes go from one end to the other as pieces, and what is read of a file stays where it was read. To the server it
//! is a connection like any other.

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
use rustix::io::Errno;
use store::{Error, Node};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use self::pieces::{Giver, PIECE_BYTES_MAX, Taker, direction};
use self::spare::Lent;
pub(crate) use self::spare::Spare;
use crate::net::transport::Transport;
use crate::resource::pool::{Pool, QueueKey};

/// From so many bytes on, what is sent is copied to a buffer that is used again.
const LENT_BYTES_MIN: usize = 64 << 10;

/// A connection's two ends.
pub(crate) fn connection(spare: &Spare, pool: &Pool) -> (ClientEnd, ServerEnd) {
    let ((to_client, from_server), (to_server, from_client)) = (direction(), direction());
    let server =
        ServerEnd { taker: from_client, giver: to_client, spare: spare.clone(), pool: pool.clone(), reading: None };
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

/// What the server sends. When it is dropped the server can send no more.
pub struct Incoming(Taker);

impl Incoming {
    /// The next piece, nothing at the end. A READ's data that lies in memory is a piece of its own, of one megabyte at most. An error where the
    /// server has broken the connection off.
    pub fn poll_piece(&mut self, task: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.0.poll_take(task, usize::MAX)
    }
}

/// What the server receives. When it is dropped, what the server has not received is forgotten: it was asked elsewhere since, perhaps.
pub struct Outgoing(Giver);

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
    taker: Taker,
    giver: Giver,
    spare: Spare,
    pool: Pool,
    /// A part of a file that is no longer in memory as it was when it was promised, and is read by the pool.
    reading: Option<oneshot::Receiver<Read>>,
}

/// What was read, and how much it is.
type Read = (Lent, Result<usize, Error>);

impl ServerEnd {
    /// Reads a part of a file, here where it is in memory.
    fn poll_read_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<Read>> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let mut piece = self.spare.lend();
                let wanted = length.min(PIECE_BYTES_MAX);
                let read = node.try_read_at(&mut piece.room()[..wanted], offset);
                if !matches!(read, Err(Error::WouldBlock)) {
                    return Poll::Ready(Ok((piece, read)));
                }
                let node = Arc::clone(node);
                let key = QueueKey::of_server(node.identity().volume);
                none.insert(self.pool.hand_over(key, move || {
                    let read = node.read_at(&mut piece.room()[..wanted], offset);
                    (piece, read)
                }))
            }
        };
        let read = ready!(Pin::new(reading).poll(task));
        self.reading = None;
        Poll::Ready(read.map_err(|_| io::ErrorKind::BrokenPipe.into()))
    }
}

impl AsyncRead for ServerEnd {
    fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(first) = ready!(self.taker.poll_take(task, into.remaining()))? else { return Poll::Ready(Ok(())) };
        into.put_slice(&first);
        while into.remaining() > 0
            && let Some(piece) = self.taker.take(into.remaining())
        {
            into.put_slice(&piece);
        }
        Poll::Ready(Ok(()))
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
        self.giver.give(piece);
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
        let (piece, read) = ready!(self.poll_read_file(task, node, offset, length))?;
        // Whatever it is, it is the file's, and of nothing that could be told any more.
        let count = read.map_err(|_| io::Error::from(Errno::IO))?;
        self.giver.give(piece.filled(count));
        Poll::Ready(Ok(count))
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
