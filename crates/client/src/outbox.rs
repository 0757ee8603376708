//! What is to be sent on one connection: small requests side by side in one buffer, large ones each in its own. All that was asked until
//! the task that sends has its turn goes out with one call.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::connection::Core;
use crate::loss::Loss;
use crate::send_load::SendLoad;

/// Requests of so many bytes at most are small: copying them together costs less than telling the kernel of each.
pub(crate) const SMALL_BYTES_MAX: usize = 16 << 10;
/// Large requests sent with one call.
const LARGE_MAX: usize = 64;
/// Buffers of large requests that are kept, and their bytes in all.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 16 << 20;
/// A buffer of small requests that once had to be larger than this is not kept.
const SMALL_KEPT_BYTES_MAX: usize = 1 << 20;
/// A send that took so long has waited for the server to take something.
const WAITED_MIN: Duration = Duration::from_millis(2);

/// Frames that wait to be sent.
#[derive(Default)]
pub(crate) struct Outbox {
    next: Batch,
    /// Buffers of large requests, to be used again.
    spare: Vec<Vec<u8>>,
    /// The task that sends, while it has nothing to do.
    idle: Option<Waker>,
}

/// Frames that go out together.
#[derive(Default)]
pub(crate) struct Batch {
    small: Vec<u8>,
    large: Vec<Large>,
}

/// A large frame.
struct Large {
    frame: Vec<u8>,
    /// The end of the frame, where that is sent from where it lies.
    apart: Option<Bytes>,
}

impl Large {
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.frame.as_slice()).chain(self.apart.as_deref())
    }
}

impl Outbox {
    /// Small frames are appended here.
    pub(crate) fn small(&mut self) -> &mut Vec<u8> {
        &mut self.next.small
    }

    /// An empty buffer for a large frame, which [`Outbox::add`] then takes.
    pub(crate) fn large(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Adds a large frame, and what of it is apart.
    pub(crate) fn add(&mut self, frame: Vec<u8>, apart: Option<Bytes>) {
        self.next.large.push(Large { frame, apart });
    }

    /// Who is to be woken because there is something to send.
    pub(crate) fn call(&mut self) -> Option<Waker> {
        self.idle.take()
    }

    /// Exchanges a batch that was sent for the next one, once there is one.
    fn poll(&mut self, batch: &mut Batch, task: &Context<'_>) -> Poll<()> {
        self.reclaim(batch);
        if self.next.small.is_empty() && self.next.large.is_empty() {
            self.idle = Some(task.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut self.next.small, &mut batch.small);
        let count = self.next.large.len().min(LARGE_MAX);
        batch.large.extend(self.next.large.drain(..count));
        Poll::Ready(())
    }

    fn reclaim(&mut self, batch: &mut Batch) {
        batch.small.clear();
        if batch.small.capacity() > SMALL_KEPT_BYTES_MAX {
            batch.small = Vec::new();
        }
        let mut kept = self.spare.iter().map(Vec::capacity).sum::<usize>();
        for Large { mut frame, .. } in batch.large.drain(..) {
            kept += frame.capacity();
            if self.spare.len() < SPARE_MAX && kept <= SPARE_BYTES_MAX {
                frame.clear();
                self.spare.push(frame);
            }
        }
    }
}

impl Core {
    /// Sends what there is until the connection ends; gives the reason.
    pub(crate) async fn send(&self, mut writer: impl AsyncWrite + Unpin) -> Loss {
        let mut batch = Batch::default();
        loop {
            poll_fn(|task| self.desk.lock().outbox.poll(&mut batch, task)).await;
            let sent = if batch.large.is_empty() {
                self.send_slices(&mut writer, &mut [IoSlice::new(&batch.small)], None).await
            } else {
                let frames = batch.large.iter().flat_map(Large::parts);
                let mut slices: Vec<_> =
                    std::iter::once(batch.small.as_slice()).chain(frames).map(IoSlice::new).collect();
                // The first may be empty, and a stream without vectored writes takes one at a time.
                let mut rest = &mut slices[..];
                IoSlice::advance_slices(&mut rest, 0);
                self.send_slices(&mut writer, rest, Some(&self.send_load)).await
            };
            if let Err(loss) = sent {
                return loss;
            }
        }
    }

    /// Sends all of `rest`; what large frames cost is counted.
    async fn send_slices(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        mut rest: &mut [IoSlice<'_>],
        send_load: Option<&SendLoad>,
    ) -> Result<(), Loss> {
        while !rest.is_empty() {
            let mut waits_since = None;
            let write = poll_fn(|task| {
                let mut write = || Pin::new(&mut writer).poll_write_vectored(task, rest);
                let write = match send_load {
                    Some(send_load) => send_load.spend(write),
                    None => write(),
                };
                if write.is_pending() {
                    waits_since.get_or_insert_with(Instant::now);
                }
                write
            });
            match write.await {
                Ok(0) | Err(_) => return Err(Loss("the server takes no more")),
                Ok(count) => {
                    self.sent.fetch_add(count as u64, Ordering::Relaxed);
                    // What only fills a buffer of ours is no sign of life; that there is room again is one.
                    if waits_since.is_some_and(|since| since.elapsed() >= WAITED_MIN) {
                        self.moved.store(self.tick(), Ordering::Relaxed);
                    }
                    IoSlice::advance_slices(&mut rest, count);
                }
            }
        }
        Ok(())
    }
}
