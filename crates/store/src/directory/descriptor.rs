//! A descriptor of an open file. Closing the last one of a file that was written to, or whose last name is gone, may wait for the device;
//! a thread that must not wait has another one close it.

use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::Statx;

use crate::directory::folder::stat;
use crate::directory::nameless::{Hold, Nameless};
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
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.end(self.fd.as_fd());
        }
    }
}

/// What closing it may have to wait for.
#[derive(Clone, Copy)]
enum Closing {
    /// Nothing, but much memory is given back where a large file has no name any more.
    TakesLongWithoutName(u64),
    /// The device, where the file has no name any more.
    WaitsWithoutName(u64),
    /// The device.
    MayWait(u64),
}

impl Descriptor {
    /// One on a file of a volume on which calls wait like that, which may be `written` through it or not.
    pub(super) fn new(fd: OwnedFd, (waits, volume): (Waits, u64), written: bool) -> Self {
        let closing = match waits {
            Waits::Never => Closing::TakesLongWithoutName(volume),
            Waits::ForData if !written => Closing::WaitsWithoutName(volume),
            Waits::ForData | Waits::Always => Closing::MayWait(volume),
        };
        Descriptor { fd: Some(Held { fd, hold: None }), closing }
    }

    /// The same, whose file counts for a quota as long as it is open.
    pub(super) fn counted(mut self, nameless: Option<&Arc<Nameless>>) -> Self {
        if let (Some(held), Some(nameless)) = (&mut self.fd, nameless) {
            held.hold = Hold::of(nameless, held.fd.as_fd());
        }
        self
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
            Closing::TakesLongWithoutName(volume) => {
                let is_large = |stat: Statx| stat.stx_nlink == 0 && stat.stx_blocks * BLOCK_BYTES > GIVEN_BACK_MAX;
                stat(self.as_fd()).is_ok_and(is_large).then_some(volume)
            }
            Closing::MayWait(volume) => Some(volume),
            Closing::WaitsWithoutName(volume) => {
                let is_named = stat(self.as_fd()).is_ok_and(|stat| stat.stx_nlink > 0);
                (!is_named).then_some(volume)
            }
        };
        if let (Some(volume), Some(held)) = (elsewhere, self.fd.take()) {
            waiting::drop_elsewhere(volume, Box::new(held));
        }
    }
}
