//! How much of a RAM disk is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// The bytes of one RAM disk.
pub(super) struct Ledger {
    capacity_bytes: u64,
    used_bytes: AtomicU64,
    all: &'static All,
}

/// The bytes of all RAM disks of a process.
struct All {
    limit: AtomicU64,
    used: AtomicU64,
}

static ALL: All = All { limit: AtomicU64::new(u64::MAX), used: AtomicU64::new(0) };

/// Lets all RAM disks of this process hold no more than so many bytes, whatever their capacities.
pub fn limit_ram_disks(bytes: u64) {
    ALL.limit.store(bytes, Ordering::Relaxed);
}

impl All {
    fn take(&self, bytes: u64) -> Result<(), Error> {
        take(&self.used, bytes, self.limit.load(Ordering::Relaxed))
    }

    fn left(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// Uses `bytes` more where that is no more than `most`.
fn take(used: &AtomicU64, bytes: u64, most: u64) -> Result<(), Error> {
    let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).map(drop).map_err(|_| Error::Full)
}

impl Ledger {
    pub(super) fn new(capacity_bytes: u64) -> Arc<Self> {
        Ledger::among(&ALL, capacity_bytes)
    }

    fn among(all: &'static All, capacity_bytes: u64) -> Arc<Self> {
        Arc::new(Ledger { capacity_bytes, used_bytes: AtomicU64::new(0), all })
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes.load(Ordering::Relaxed)).min(self.all.left())
    }

    fn take(&self, bytes: u64) -> Result<(), Error> {
        take(&self.used_bytes, bytes, self.capacity_bytes)?;
        let taken = self.all.take(bytes);
        if taken.is_err() {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.all.used.fetch_sub(bytes, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ram_disks_together_hold_no_more_than_the_process_has_memory_for() {
        static FEW: All = All { limit: AtomicU64::new(100), used: AtomicU64::new(0) };
        let (one, other) = (Ledger::among(&FEW, 80), Ledger::among(&FEW, 80));
        let mut held = Charge::new(&one, 80).unwrap();
        assert!(Charge::new(&one, 1).is_err() && Charge::new(&other, 21).is_err());
        assert_eq!((one.free_bytes(), other.free_bytes()), (0, 20));
        held.shrink(30);
        let rest = Charge::new(&other, 50).unwrap();
        assert_eq!((one.free_bytes(), other.free_bytes()), (0, 0));
        assert_eq!(one.used_bytes() + other.used_bytes(), 100, "what is not left is not used");
        drop((held, rest));
        assert_eq!((FEW.used.load(Ordering::Relaxed), other.free_bytes()), (0, 80));
    }
}
