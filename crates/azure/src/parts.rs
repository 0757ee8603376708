//! Parts of files in answers. HTTP goes by bytes: in an answer as many zeros stand in the place of each part, and where they would be written to the socket,
//! the kernel sends the part instead.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use client::Fetching;
use parking_lot::Mutex;
use server::FilePart;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

/// Bytes of one part at most.
pub(crate) const PART_BYTES_MAX: usize = 1 << 20;
/// Bytes of parts that have to be taken within the time in which anything has to: a file is kept open for nobody who takes less.
const TAKEN_LEAST: u64 = 64 << 10;

/// How long what was in memory counts as being there. The kernel gives pages up that nobody uses, and not those of a moment ago.
const IN_MEMORY_FOR: Duration = Duration::from_millis(10);

/// What stands in the place of parts. It is known by where it lies.
static PLACES: LazyLock<Bytes> = LazyLock::new(|| vec![0; PART_BYTES_MAX].into());

/// True of what stands in the place of a part.
fn is_place(bytes: &[u8]) -> bool {
    PLACES.as_ptr_range().contains(&bytes.as_ptr())
}

/// A file that stays open for its parts, so many at once.
#[derive(Clone)]
pub(crate) struct KeptOpen {
    /// One for each part at a time; closed once it is no longer kept open.
    turns: Arc<Semaphore>,
    count: u32,
    /// Bytes of its parts that were taken.
    taken: Arc<AtomicU64>,
}

impl KeptOpen {
    pub(crate) fn for_parts(count: u32) -> Self {
        KeptOpen { turns: Arc::new(Semaphore::new(count as usize)), count, taken: Arc::default() }
    }

    /// Waits for something as long as parts are taken; `None` where for so long hardly anything was.
    pub(crate) async fn while_taken<T>(&self, within: Duration, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        loop {
            let before = self.taken.load(Ordering::Relaxed);
            match timeout(within, &mut what).await {
                Ok(done) => return Some(done),
                Err(_) if self.taken.load(Ordering::Relaxed) - before >= TAKEN_LEAST => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits until no part is to be sent any more, or hardly anything of them is taken: then they are not sent.
    pub(crate) async fn end(self, within: Duration) {
        if self.while_taken(within, self.turns.acquire_many(self.count)).await.is_none() {
            self.abandon();
        }
    }

    /// Its parts are not sent any more.
    pub(crate) fn abandon(&self) {
        self.turns.close();
    }
}

/// A part of a file that stays open meanwhile.
pub(crate) struct Part {
    file: FilePart,
    open: KeptOpen,
    held: OwnedSemaphorePermit,
    /// Until then it counts as in memory. To look costs as much as to send some of it.
    in_memory_until: Option<Instant>,
}

impl Part {
    /// Once there is one of the file's turns; `None` where it is no longer open, or the part is too long.
    pub(crate) async fn of(file: FilePart, open: &KeptOpen) -> Option<Part> {
        let held = Arc::clone(&open.turns).acquire_owned().await.ok().filter(|_| file.len() <= PART_BYTES_MAX)?;
        Some(Part { file, open: open.clone(), held, in_memory_until: None })
    }

    pub(crate) fn length(&self) -> usize {
        self.file.len()
    }
}

/// The parts of one connection's answers that are still to be sent, in order.
#[derive(Default)]
pub(crate) struct Parts(Mutex<VecDeque<Part>>);

impl Parts {
    /// Adds one; gives what stands in its place.
    pub(crate) fn add(&self, part: Part) -> Bytes {
        let place = PLACES.slice(..part.length());
        self.0.lock().push_back(part);
        place
    }

    /// Parts whose sending has not begun.
    fn waiting(&self) -> usize {
        self.0.lock().len()
    }
}

/// A stream that parts of files are sent to.
pub(crate) trait Outlet: AsyncWrite + Unpin {
    /// Whether it takes them.
    const TAKES_PARTS: bool;

    /// Sends some of a part, `most` bytes at most. Zero where its file ends before.
    fn poll_send(&mut self, part: &mut FilePart, context: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>>;
}

impl Outlet for TcpStream {
    const TAKES_PARTS: bool = true;

    fn poll_send(&mut self, part: &mut FilePart, context: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(context))?;
            match self.try_io(Interest::WRITABLE, || part.send(&*self, most)) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                answer => return Poll::Ready(answer),
            }
        }
    }
}

/// What is encrypted has to be read.
impl Outlet for TlsStream<TcpStream> {
    const TAKES_PARTS: bool = false;

    fn poll_send(&mut self, _: &mut FilePart, _: &mut Context<'_>, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

/// The part that is being sent.
#[derive(Default)]
pub(crate) struct Sending(Option<Stage>);

enum Stage {
    /// From where it is.
    File(Part),
    /// It is no longer in memory.
    Fetching(Fetching, OwnedSemaphorePermit),
    Fetched(Bytes, OwnedSemaphorePermit),
}

/// What comes first of that which is to be written.
pub(crate) enum First {
    /// So many slices of bytes.
    Bytes(usize),
    /// A part, in the place of so many bytes.
    Part(usize),
}

impl First {
    fn of(slices: &[io::IoSlice<'_>]) -> First {
        match slices.iter().position(|slice| is_place(slice)) {
            None => First::Bytes(slices.len()),
            Some(at) if slices[..at].iter().any(|slice| !slice.is_empty()) => First::Bytes(at),
            Some(at) => First::Part(slices[at].len()),
        }
    }
}

impl Sending {
    /// What comes first of that which is to be written. Fails unless each part has its place there: zeros that were copied out of a place would be taken for
    /// what is in the file.
    pub(crate) fn first(&self, slices: &[io::IoSlice<'_>], parts: &Parts) -> io::Result<First> {
        let places = slices.iter().filter(|slice| is_place(slice)).count();
        if places == parts.waiting() + usize::from(self.0.is_some()) {
            Ok(First::of(slices))
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    /// Sends some of the part whose turn it is, `most` bytes at most.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut impl Outlet,
        parts: &Parts,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.0.take() {
                None => {
                    let next = parts.0.lock().pop_front();
                    self.0 = Some(Stage::File(next.ok_or(io::ErrorKind::InvalidData)?));
                }
                Some(Stage::File(part)) if part.open.turns.is_closed() => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Some(Stage::File(mut part)) => {
                    if !part.is_in_memory() {
                        self.0 = Some(Stage::Fetching(Box::pin(part.file.read()), part.held));
                        continue;
                    }
                    let sent = part.poll_send(context, stream, most);
                    match sent {
                        // Nobody is to take what was never in the file for what is.
                        Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                        Poll::Ready(Ok(_)) if part.file.is_empty() => {}
                        Poll::Ready(_) | Poll::Pending => self.0 = Some(Stage::File(part)),
                    }
                    return sent;
                }
                Some(Stage::Fetching(mut fetching, held)) => match fetching.as_mut().poll(context)? {
                    Poll::Ready(bytes) => self.0 = Some(Stage::Fetched(bytes, held)),
                    Poll::Pending => {
                        self.0 = Some(Stage::Fetching(fetching, held));
                        return Poll::Pending;
                    }
                },
                Some(Stage::Fetched(mut bytes, held)) => {
                    let now = &bytes[..bytes.len().min(most)];
                    let sent = std::pin::Pin::new(&mut *stream).poll_write(context, now);
                    if let Poll::Ready(Ok(count)) = sent {
                        bytes.advance(count);
                    }
                    if !bytes.is_empty() {
                        self.0 = Some(Stage::Fetched(bytes, held));
                    }
                    return sent;
                }
            }
        }
    }
}

impl Part {
    fn is_in_memory(&mut self) -> bool {
        let now = Instant::now();
        if self.in_memory_until.is_none_or(|until| now >= until) {
            self.in_memory_until = self.file.is_in_memory().then(|| now + IN_MEMORY_FOR);
        }
        self.in_memory_until.is_some()
    }

    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut impl Outlet,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let sent = stream.poll_send(&mut self.file, context, most);
        if let Poll::Ready(Ok(count)) = sent {
            self.open.taken.fetch_add(count as u64, Ordering::Relaxed);
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    #[test]
    fn a_part_is_known_by_what_stands_in_its_place_and_comes_when_all_before_it_is_written() {
        let (zeros, place) = (vec![0; 10], PLACES.slice(..10));
        let rest = place.slice(9..);
        let first = |slices: &[&[u8]]| {
            let slices: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
            match First::of(&slices) {
                First::Bytes(count) => (count, 0),
                First::Part(length) => (0, length),
            }
        };
        assert_eq!(first(&[b"head", &zeros]), (2, 0));
        assert_eq!(first(&[b"head", &place, b"head"]), (1, 0));
        assert_eq!(first(&[&place, b"head"]), (0, 10));
        assert_eq!(first(&[b"", &rest]), (0, 1), "what is left of it");
        assert_eq!(first(&[]), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_kept_open_as_long_as_enough_of_it_is_taken() {
        let within = Duration::from_secs(30);
        for (each, is_kept) in [(TAKEN_LEAST, true), (TAKEN_LEAST - 1, false)] {
            let open = KeptOpen::for_parts(1);
            let turn = Arc::clone(&open.turns).acquire_owned().await.unwrap();
            let taker = open.clone();
            let taking = tokio::spawn(async move {
                for _ in 0..10 {
                    tokio::time::sleep(within - Duration::from_secs(1)).await;
                    taker.taken.fetch_add(each, Ordering::Relaxed);
                }
                drop(turn);
            });
            assert_eq!(open.while_taken(within, open.turns.acquire()).await.is_some(), is_kept, "{each}");
            let ended = tokio::time::Instant::now();
            open.clone().end(within).await;
            assert!(ended.elapsed() <= within, "{each}");
            assert_eq!(open.turns.is_closed(), !is_kept, "{each}");
            taking.abort();
        }
    }

    #[tokio::test]
    async fn what_stands_for_no_part_is_an_error_and_not_sent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut sending, parts) = (Sending::default(), Parts::default());
        let sent = std::future::poll_fn(|context| sending.poll(context, &mut stream, &parts, 10)).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let place = PLACES.slice(..10);
        assert!(sending.first(&[IoSlice::new(b"head"), IoSlice::new(&place)], &parts).is_err());
        assert!(sending.first(&[IoSlice::new(b"head")], &parts).is_ok());
    }
}
