//! A descriptor of an open file. Closing the last one of a file that was written to, or whose last name is gone, may wait for the device;
//! a thread that must not wait has another one close it.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::directory::folder::stat;
use crate::{Waits, waiting};

/// The descriptor.
pub(super) struct Descriptor {
    /// There until it is dropped.
    fd: Option<OwnedFd>,
    closing: Closing,
}

/// What closing it may have to wait for.
#[derive(Clone, Copy)]
enum Closing {
    /// Nothing.
    NeverWaits,
    /// The device, where the file has no name any more.
    WaitsWithoutName(u64),
    /// The device.
    MayWait(u64),
}

impl Descriptor {
    /// One on a file of a volume on which calls wait like that, which may be `written` through it or not.
    pub(super) fn new(fd: OwnedFd, (waits, volume): (Waits, u64), written: bool) -> Self {
        let closing = match waits {
            Waits::Never => Closing::NeverWaits,
            Waits::ForData if !written => Closing::WaitsWithoutName(volume),
            Waits::ForData | Waits::Always => Closing::MayWait(volume),
        };
        Descriptor { fd: Some(fd), closing }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Some(fd) => fd.as_fd(),
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
            Closing::NeverWaits => None,
            Closing::MayWait(volume) => Some(volume),
            Closing::WaitsWithoutName(volume) => {
                let is_named = stat(self.as_fd()).is_ok_and(|stat| stat.stx_nlink > 0);
                (!is_named).then_some(volume)
            }
        };
        if let (Some(volume), Some(fd)) = (elsewhere, self.fd.take()) {
            waiting::drop_elsewhere(volume, Box::new(fd));
        }
    }
}
