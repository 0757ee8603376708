//! What was read and written through one open while that was audited.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{AuditClass, AuditClasses, AuditMoved};

/// The totals, which are told when the open ends. A READ or WRITE costs an addition here, and nothing where its share is not audited.
#[derive(Default)]
pub(crate) struct OpenTotals {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
}

impl OpenTotals {
    /// Notes that `bytes` were read where these classes are audited.
    pub(crate) fn read(&self, audited: AuditClasses, bytes: u64) {
        if audited.contains(AuditClass::Read) {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The same of bytes that were written.
    pub(crate) fn wrote(&self, audited: AuditClasses, bytes: u64) {
        if audited.contains(AuditClass::Write) {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn moved(&self) -> AuditMoved {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AuditMoved {
            reads: of(&self.reads),
            read_bytes: of(&self.read_bytes),
            writes: of(&self.writes),
            written_bytes: of(&self.written_bytes),
        }
    }
}
