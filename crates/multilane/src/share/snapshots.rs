//! Snapshots of a share: what commands say of them.

use control::{Catalog, Error, LeaseState, ShareName, ShareSnapshot, SnapshotTime, lease_state};
use jiff::Timestamp;
use serde::Serialize;

use crate::question;
use crate::table::Table;

/// A snapshot, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Shown {
    time: String,
    /// A client of Azure Files keeps it from being deleted.
    leased: bool,
    metadata: std::collections::BTreeMap<String, String>,
}

pub(super) fn shown(snapshots: Vec<ShareSnapshot>) -> Vec<Shown> {
    let shown = |snapshot: ShareSnapshot| Shown {
        time: snapshot.at.to_string(),
        leased: is_leased(&snapshot),
        metadata: snapshot.kept.metadata,
    };
    snapshots.into_iter().map(shown).collect()
}

pub(super) fn table(snapshots: &[Shown]) -> String {
    let mut table = Table::new(["TIME", "LEASED"]);
    for one in snapshots {
        table.row([one.time.clone(), if one.leased { "yes" } else { "no" }.to_owned()]);
    }
    table.text()
}

/// Asks whether to go on.
pub(super) fn agree(catalog: &Catalog, share: &ShareName, time: SnapshotTime) -> Result<(), Error> {
    if catalog.snapshots(share)?.iter().any(|snapshot| snapshot.at == time && is_leased(snapshot)) {
        return Err(Error::conflict(
            format!("a client of Azure Files has a lease of the snapshot {time}, so that nobody deletes it"),
            "have it released or broken, or go on with --force",
        ));
    }
    question::agree(&format!("Delete the snapshot of {time} of share {share}?"), share.as_str())
}

fn is_leased(snapshot: &ShareSnapshot) -> bool {
    matches!(lease_state(snapshot.kept.lease.as_ref(), Timestamp::now()), LeaseState::Leased | LeaseState::Breaking)
}
