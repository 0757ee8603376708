//! What a connection runs over: a stream of bytes that can take some from a file.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use store::Node;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;

/// A connection on which nothing moves is asked for a sign of life after so many seconds, then every so many, so often: a client that is
/// gone without a word is found within half a minute, and one that has given up a connection within ten seconds. Nobody is asked while
/// something that was sent is unacknowledged: see `patience.rs`.
const SILENT_SECONDS: u64 = 10;
const ASK_EVERY_SECONDS: u64 = 3;
const ASK_TIMES: u32 = 5;

/// Sets what a client's connection is to have.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(SILENT_SECONDS))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(ASK_EVERY_SECONDS))?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
    Ok(())
}

/// A stream.
pub(crate) trait Transport: AsyncRead + Unpin {
    /// Sends some of `bytes`, one slice after the other. With `more`, the next call sends more at once: both may share a packet.
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[IoSlice<'_>], more: bool) -> Poll<io::Result<usize>>;

    /// Sends some of `length` bytes of a file at `offset`, from the page cache where there is a way. Zero where the file ends before.
    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>>;

    // Of what follows a stream in memory has nothing: it loses no bytes, and its peer is told by its end.

    /// How long sent bytes may stay unacknowledged before the stream breaks; `None` for as long as usual.
    fn set_patience(&mut self, _patience: Option<Duration>) {}

    /// Bytes that were sent and are not acknowledged; `None` where the stream does not tell.
    fn unacknowledged(&self) -> Option<u64> {
        None
    }

    /// True where the peer sends nothing more, whatever of what it has sent is still to be received.
    fn has_hung_up(&self) -> bool {
        false
    }

    /// Has the peer told, when the stream is dropped, that nothing more comes and nothing is taken: what is unsent is forgotten.
    fn give_up(&mut self) {}
}

impl Transport for TcpStream {
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[IoSlice<'_>], more: bool) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        match (bytes, more) {
            ([bytes], false) => Pin::new(self).poll_write(task, bytes),
            (_, false) => Pin::new(self).poll_write_vectored(task, bytes),
            ([bytes], true) => when_writable(self, task, || rustix::net::send(&*self, bytes, flags)),
            (_, true) => when_writable(self, task, || {
                let mut control = SendAncillaryBuffer::new(&mut []);
                rustix::net::sendmsg(&*self, bytes, &mut control, flags)
            }),
        }
    }

    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let Some(file) = node.descriptor() else { return Poll::Ready(Err(io::ErrorKind::Unsupported.into())) };
        when_writable(self, task, || rustix::fs::sendfile(&*self, file, Some(&mut { offset }), length))
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        let milliseconds = patience.map_or(0, |patience| patience.as_millis() as u32);
        if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(&*self, milliseconds) {
            tracing::debug!(%error, "TCP_USER_TIMEOUT was not set");
        }
    }

    fn unacknowledged(&self) -> Option<u64> {
        let told = self.local_addr().and_then(|local| netif::unacknowledged(local, self.peer_addr()?));
        told.inspect_err(|error| tracing::debug!(%error, "the kernel does not tell what is unacknowledged")).ok()
    }

    fn has_hung_up(&self) -> bool {
        let mut asked = [PollFd::new(self, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    fn give_up(&mut self) {
        if let Err(error) = rustix::net::sockopt::set_socket_linger(&*self, Some(Duration::ZERO)) {
            tracing::debug!(%error, "SO_LINGER was not set");
        }
    }
}

/// Makes a system call that writes to the socket, when the socket takes something.
fn when_writable(
    stream: &TcpStream,
    task: &mut Context<'_>,
    mut call: impl FnMut() -> Result<usize, Errno>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(task))?;
        match stream.try_io(Interest::WRITABLE, || Ok(call()?)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            answer => return Poll::Ready(answer),
        }
    }
}

#[cfg(any(test, feature = "in-memory"))]
impl Transport for tokio::io::DuplexStream {
    fn poll_send(&mut self, task: &mut Context<'_>, bytes: &[IoSlice<'_>], _more: bool) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(task, bytes)
    }

    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        node: &Arc<dyn Node>,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; length.min(1 << 16)];
        let count = node.read_at(&mut bytes, offset).map_err(|error| io::Error::other(format!("{error:?}")))?;
        if count == 0 { Poll::Ready(Ok(0)) } else { Pin::new(self).poll_write(task, &bytes[..count]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_is_gone_without_a_word_is_found_within_half_a_minute() {
        use rustix::net::sockopt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        prepare(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap() && stream.nodelay().unwrap());
        let asks = sockopt::tcp_keepintvl(&stream).unwrap() * sockopt::tcp_keepcnt(&stream).unwrap();
        assert!(sockopt::tcp_keepidle(&stream).unwrap() + asks <= Duration::from_secs(30));
    }
}
