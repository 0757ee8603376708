//! Who said that a file is to go: it goes later, and maybe with another's open.

use parking_lot::Mutex;

use super::AuditArming;

/// So many are remembered of a file. Each has a line of its own in the log anyway.
const ARMINGS_MAX: usize = 8;

/// Who armed the deletion of names of a file, or of streams of it, while that is audited; of most files nobody. `T` says which name or stream.
pub(crate) struct Armings<T>(Mutex<Vec<(T, AuditArming)>>);

impl<T> Default for Armings<T> {
    fn default() -> Self {
        Armings(Mutex::default())
    }
}

impl<T: PartialEq> Armings<T> {
    /// Somebody says that it is to go. Who said so before, by the same open, is forgotten.
    pub(crate) fn note(&self, what: T, who: AuditArming) {
        let mut armings = self.0.lock();
        armings.retain(|(known, by)| *known != what || by.open != who.open);
        if armings.len() < ARMINGS_MAX {
            armings.push((what, who));
        }
    }

    /// What this is true of has gone, or stays. Gives who said that it was to go.
    pub(crate) fn take(&self, mut is_meant: impl FnMut(&T) -> bool) -> Vec<AuditArming> {
        let mut armings = self.0.lock();
        if armings.is_empty() {
            return Vec::new();
        }
        armings.extract_if(.., |(known, _)| is_meant(known)).map(|(_, who)| who).collect()
    }

    /// What was armed by one name goes by another now.
    pub(crate) fn rename(&self, change: impl FnMut(&mut T)) {
        self.0.lock().iter_mut().map(|(known, _)| known).for_each(change);
    }
}
