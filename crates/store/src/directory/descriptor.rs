//! A descriptor of an open file. Closing one may wait for the device, whatever it was opened for: file systems write a file out that was cut
//! to nothing, and the last one of a file without a name has its space given back. A thread that must not wait has another one close it.

use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::Statx;

use crate::directory::nameless::{Closed, Hold, Nameless};
use crate::directory::stat::stat;
use crate::{Waits, waiting};

/// Bytes in a block as `stx_blocks` counts.
const BLOCK_BYTES: u64 = 512;
/// Memory that a thread gives back at once though it must not wait.
const GIVEN_BACK_MAX: u64 = 1 << 20;

/// The descriptor.
pub(super) struct Descriptor {
    /// There until it is dropped.
    fd: Option<Held>,
    closing: Closing,
}

/// A descriptor with what a quota knows of it, which ends when it is closed.
struct Held {
    fd: OwnedFd,
    hold: Option<Hold>,
    /// Behind the descriptor: it is dropped after that.
    closed: Option<Closed>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.closed = hold.end(self.fd.as_fd());
        }
    }
}

/// What closing it may have to wait for.
#[derive(Clone, Copy)]
enum Closing {
    /// Nothing.
    IsShort,
    /// Nothing, but much memory is given back where a large file has no name any more.
    TakesLongWithoutName(u64),
    /// The device.
    MayWait(u64),
}

impl Descriptor {
    /// One on a file of a volume on which calls wait like that.
    pub(super) fn new(fd: OwnedFd, (waits, volume): (Waits, u64)) -> Self {
        let closing = match waits {
            Waits::Never => Closing::TakesLongWithoutName(volume),
            Waits::ForData | Waits::Always => Closing::MayWait(volume),
        };
        Descriptor { fd: Some(Held { fd, hold: None, closed: None }), closing }
    }

    /// One on a directory of such a volume, which is small.
    pub(super) fn of_directory(fd: OwnedFd, (waits, volume): (Waits, u64)) -> Self {
        let closing = match waits {
            Waits::Never => Closing::IsShort,
            Waits::ForData | Waits::Always => Closing::MayWait(volume),
        };
        Descriptor { fd: Some(Held { fd, hold: None, closed: None }), closing }
    }

    /// The same, whose file counts for a quota as long as it is open.
    pub(super) fn counted(mut self, nameless: Option<&Arc<Nameless>>) -> Self {
        if let (Some(held), Some(nameless)) = (&mut self.fd, nameless) {
            held.hold = Hold::of(nameless, held.fd.as_fd());
        }
        self
    }

    /// The same of a file that was just made.
    pub(super) fn made(self, nameless: Option<&Arc<Nameless>>) -> Self {
        if let Some(nameless) = nameless {
            nameless.note_made(self.as_fd());
        }
        self.counted(nameless)
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Some(held) => held.fd.as_fd(),
            None => unreachable!("a descriptor is there until it is dropped"),
        }
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if waiting::is_allowed() {
            return;
        }
        let elsewhere = match self.closing {
            Closing::IsShort => None,
            Closing::TakesLongWithoutName(volume) => {
                let is_large = |stat: Statx| stat.stx_nlink == 0 && stat.stx_blocks * BLOCK_BYTES > GIVEN_BACK_MAX;
                stat(self.as_fd()).is_ok_and(is_large).then_some(volume)
            }
            Closing::MayWait(volume) => Some(volume),
        };
        if let (Some(volume), Some(held)) = (elsewhere, self.fd.take()) {
            waiting::drop_elsewhere(volume, Box::new(held));
        }
    }
}
