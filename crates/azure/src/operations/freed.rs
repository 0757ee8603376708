//! A read-only file that is to be written over: it is read-only no longer by then, and is so again where that fails.

use client::{Access, Basic, Facts, File, FileAttributes};

use super::opening::{Place, of_file};
use crate::failure::Failure;

/// One that was read-only.
pub(super) struct Freed {
    attributes: FileAttributes,
}

impl Freed {
    /// Has what is there be read-only no longer. `None` where it is not.
    pub(super) async fn of(place: &Place, facts: &Facts) -> Result<Option<Freed>, Failure> {
        let attributes = facts.attributes;
        if !attributes.contains(FileAttributes::READONLY) {
            return Ok(None);
        }
        set_attributes(place, attributes.without(FileAttributes::READONLY | FileAttributes::NORMAL)).await?;
        Ok(Some(Freed { attributes }))
    }

    /// Does what writes over it, or over what was never read-only. Where that fails it is read-only again.
    pub(super) async fn written_over<T>(
        freed: Option<Freed>,
        place: &Place,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let done = work.await;
        if done.is_err()
            && let Some(freed) = freed
        {
            freed.undo(place).await;
        }
        done
    }

    /// Has it be read-only again, where it is there still.
    async fn undo(self, place: &Place) {
        if let Err(failure) = set_attributes(place, self.attributes).await {
            tracing::debug!(message = failure.message, "a file that is not written over is read-only no longer");
        }
    }
}

async fn set_attributes(place: &Place, attributes: FileAttributes) -> Result<(), Failure> {
    let attributes = if attributes.is_empty() { FileAttributes::NORMAL } else { attributes };
    let work = async |file: &File| Ok(file.set_basic(Basic { attributes, ..Basic::default() }).await?);
    place.with(of_file(Access::ChangeAttributes), work).await.map(drop)
}
