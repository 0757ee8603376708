//! Who said that a file is to go: it goes later, and maybe with another's open.

use parking_lot::Mutex;
use store::fold;

use super::AuditArming;

/// So many are remembered of a file. Each has a line of its own in the log anyway.
const ARMINGS_MAX: usize = 8;

/// Who armed the deletion of a file or of streams of it, while that is audited; of most files nobody.
#[derive(Default)]
pub(crate) struct Armings(Mutex<Vec<Arming>>);

struct Arming {
    /// The folded name; empty for the file.
    stream: String,
    who: AuditArming,
}

impl Armings {
    /// Somebody says that a stream, or the file where its name is empty, is to go. Who said so before, by the same open, is forgotten.
    pub(crate) fn note(&self, stream: &str, who: AuditArming) {
        let (mut armings, stream) = (self.0.lock(), fold(stream));
        armings.retain(|known| known.stream != stream || known.who.open != who.open);
        if armings.len() < ARMINGS_MAX {
            armings.push(Arming { stream, who });
        }
    }

    /// It stays, or has gone. Gives who said that it was to go.
    pub(crate) fn take(&self, stream: &str) -> Vec<AuditArming> {
        let mut armings = self.0.lock();
        if armings.is_empty() {
            return Vec::new();
        }
        let stream = fold(stream);
        let taken = armings.extract_if(.., |known| known.stream == stream);
        taken.map(|known| known.who).collect()
    }
}
