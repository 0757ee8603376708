//! Snapshots of a share: what commands say of them.

use control::{Catalog, Error, ShareName, ShareSnapshot, SnapshotTime};
use serde::Serialize;

use crate::question;
use crate::table::{Table, printable};

/// A snapshot that was made just now, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Made {
    pub(super) time: String,
}

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
        leased: snapshot.is_leased(),
        metadata: snapshot.kept.metadata,
    };
    snapshots.into_iter().map(shown).collect()
}

/// They, or that there are none, and whether any can be made: `refused` says why not.
pub(super) fn text(snapshots: &[Shown], refused: Option<&Error>) -> String {
    let none = if snapshots.is_empty() { "The share has no snapshots.\n" } else { "" };
    let why = refused.map(|refused| {
        let (what, remedy) = (printable(refused.what()), printable(refused.remedy()));
        format!("No snapshot of it can be made: {what}; {remedy}.\n")
    });
    let table = if snapshots.is_empty() { String::new() } else { table(snapshots) };
    format!("{table}{none}{}", why.unwrap_or_default())
}

fn table(snapshots: &[Shown]) -> String {
    let mut table = Table::new(["TIME", "LEASED"]);
    for one in snapshots {
        table.row([one.time.clone(), if one.leased { "yes" } else { "no" }.to_owned()]);
    }
    table.text()
}

/// Refuses to delete a snapshot that a client has a lease of.
pub(super) fn refuse_leased(catalog: &Catalog, share: &ShareName, time: SnapshotTime) -> Result<(), Error> {
    if catalog.snapshots(share)?.iter().any(|snapshot| snapshot.at == time && snapshot.is_leased()) {
        return Err(Error::conflict(
            format!("a client of Azure Files has a lease of the snapshot {time}, so that nobody deletes it"),
            "have it released or broken, or go on with --force",
        ));
    }
    Ok(())
}

/// Asks whether to go on.
pub(super) fn agree(share: &ShareName, time: SnapshotTime) -> Result<(), Error> {
    let time = time.to_string();
    question::agree_or(&format!("Delete the snapshot {time} of share {share}?"), &time, "--yes")
}

/// Refuses to give a share another folder where it has snapshots, which stay with the one that it has.
pub(super) fn refuse_to_leave(catalog: &Catalog, share: &ShareName) -> Result<(), Error> {
    let what = match catalog.snapshots(share)?.len() {
        0 => return Ok(()),
        1 => "a snapshot".to_owned(),
        count => format!("{count} snapshots"),
    };
    Err(Error::conflict(
        format!("the share {:?} has {what}, which would no longer be its own on another folder", share.as_str()),
        "delete them first, or go on with --force: they stay, and take room, until the share is on its folder again",
    ))
}
