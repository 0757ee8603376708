//! Shares that a restore loses: those that the backup does not have. Their files stay where they are.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{ShareRecord, Snapshot};
use crate::own_folder::is_own;

/// A share that was there before a restore and is not in the backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostShare {
    /// Its name.
    pub share: String,
    /// Its account.
    pub account: String,
    /// It was deleted and kept.
    pub deleted: bool,
    /// Where its files still are. Those of a RAM disk are gone.
    pub folder: Option<PathBuf>,
    /// The backup has another share of this name.
    pub is_name_taken: bool,
}

/// The shares of `before` that `now` does not have: no share of it is on the same folder, and none has the name, or one has it and the server made the folder
/// in `data` for this share alone.
pub(super) fn lost(before: &Snapshot, now: &Snapshot, data: &Path) -> Vec<LostShare> {
    let is_taken = |share: &ShareRecord| {
        let folded = store::fold(&share.name);
        now.shares.iter().any(|other| store::fold(&other.name) == folded)
    };
    let is_there = |share: &ShareRecord| match share.source.folder() {
        Some(folder) => {
            let mut all = now.shares.iter().chain(now.deleted.iter().map(|deleted| &deleted.share));
            all.any(|other| other.source.is_at(folder)) || (is_taken(share) && !is_own(folder, data))
        }
        None => is_taken(share),
    };
    let live = before.shares.iter().map(|share| (share, false));
    let kept = before.deleted.iter().map(|deleted| (&deleted.share, true));
    let lost = |(share, deleted): (&ShareRecord, bool)| LostShare {
        share: share.name.clone(),
        account: share.account.clone(),
        deleted,
        folder: share.source.folder().map(Path::to_owned),
        is_name_taken: is_taken(share),
    };
    live.chain(kept).filter(|(share, _)| !is_there(share)).map(lost).collect()
}
