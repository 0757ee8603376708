//! A part of a file that a READ promised, and that nobody has read yet: whoever takes it has the kernel send it from the page cache, or has it read.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fd::AsFd;
use rustix::io::Errno;
use store::{Error, Node};

use crate::net::inside::pieces::Length;
use crate::net::inside::spare::{Lent, Spare};
use crate::resource::pool::{Pool, QueueKey};

/// Bytes that one call of `sendfile` is asked for: of so many it is looked whether they are in memory.
const SENT_AT_ONCE_MAX: usize = 1 << 20;

/// Some of the bytes of a file, as the file is when they are taken.
pub struct FilePart {
    pub(super) node: Arc<dyn Node>,
    pub(super) offset: u64,
    pub(super) length: usize,
    pub(super) spare: Spare,
    pub(super) pool: Pool,
}

impl Length for FilePart {
    fn length(&self) -> usize {
        self.length
    }
}

impl FilePart {
    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True where none are.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// True where what comes next can be sent without waiting for a device, as well as can be told.
    pub fn is_in_memory(&self) -> bool {
        let next = self.length.min(SENT_AT_ONCE_MAX);
        self.node.descriptor().is_some() && self.node.try_resident(self.offset, next).is_ok()
    }

    /// Sends some of it from the page cache, `most` bytes at most, and counts that as taken. Zero where the file ends before.
    pub fn send(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let file = self.node.descriptor().ok_or(io::ErrorKind::Unsupported)?;
        let (mut offset, most) = (self.offset, self.length.min(most).min(SENT_AT_ONCE_MAX));
        let count = rustix::fs::sendfile(socket, file, Some(&mut offset), most)?;
        self.skip(count);
        Ok(count)
    }

    /// Counts bytes as taken.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.length);
        self.offset += count as u64;
        self.length -= count;
    }

    /// Reads all of it, here where it is in memory, else on a thread that may wait. Fails with `UnexpectedEof` where the file has no longer all of it.
    pub async fn read(self) -> io::Result<Bytes> {
        let mut pieces = Vec::new();
        let (mut offset, mut left) = (self.offset, self.length);
        while left > 0 {
            let lent = self.read_some(offset, left).await?;
            let count = lent.room_bytes().min(left);
            pieces.push(lent.filled(count));
            (offset, left) = (offset + count as u64, left - count);
        }
        Ok(match pieces.len() {
            1 => pieces.remove(0),
            _ => pieces.concat().into(),
        })
    }

    /// Fills a buffer.
    async fn read_some(&self, offset: u64, left: usize) -> io::Result<Lent> {
        let mut lent = self.spare.lend();
        let wanted = lent.room_bytes().min(left);
        let mut read = self.node.try_read_at(&mut lent.room()[..wanted], offset);
        if matches!(read, Err(Error::WouldBlock)) {
            let node = Arc::clone(&self.node);
            let reading = self.pool.hand_over(QueueKey::of_server(node.identity().volume), move || {
                let read = node.read_at(&mut lent.room()[..wanted], offset);
                (lent, read)
            });
            (lent, read) = reading.await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        // Whatever it is, it is the file's, and of nothing that could be told any more.
        let count = read.map_err(|_| Errno::IO)?;
        // Nobody is to take what was never in the file for what is.
        if count < wanted { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(lent) }
    }
}

impl Drop for FilePart {
    fn drop(&mut self) {
        // The last who has it closes it, which may wait.
        if Arc::strong_count(&self.node) == 1 {
            self.pool.discard(self.node.identity().volume, Box::new(Arc::clone(&self.node)));
        }
    }
}
