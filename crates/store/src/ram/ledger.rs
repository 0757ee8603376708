//! How much of a RAM disk is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// The bytes of one RAM disk.
pub(super) struct Ledger {
    capacity_bytes: u64,
    used_bytes: AtomicU64,
}

impl Ledger {
    pub(super) fn new(capacity_bytes: u64) -> Arc<Self> {
        Arc::new(Ledger { capacity_bytes, used_bytes: AtomicU64::new(0) })
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes.load(Ordering::Relaxed))
    }

    fn take(&self, bytes: u64) -> Result<(), Error> {
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.capacity_bytes);
        match self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Full),
        }
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A part of the bytes, given back when it is dropped.
pub(super) struct Charge {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Charge {
    /// [`Error::Full`] where the disk has fewer bytes left.
    pub(super) fn new(ledger: &Arc<Ledger>, bytes: u64) -> Result<Self, Error> {
        ledger.take(bytes)?;
        Ok(Charge { ledger: Arc::clone(ledger), bytes })
    }

    pub(super) fn none(ledger: &Arc<Ledger>) -> Self {
        Charge { ledger: Arc::clone(ledger), bytes: 0 }
    }

    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes another part one with this.
    pub(super) fn absorb(&mut self, mut other: Charge) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Cuts a part off, as much as there is at most.
    pub(super) fn split(&mut self, bytes: u64) -> Charge {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Charge { ledger: Arc::clone(&self.ledger), bytes }
    }

    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), Error> {
        self.ledger.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.ledger.give_back(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.give_back(self.bytes);
    }
}
