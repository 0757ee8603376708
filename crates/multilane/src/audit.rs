//! Where `multilane serve` writes the audit log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control::{DataFolder, Error};
use insight::audit::{AuditLog, Destination, UnfitFile, check};

use crate::log;

/// How long the last lines may take to be written when the server ends.
pub(crate) const LAST_LINES: Duration = Duration::from_secs(3);
/// What stands for the journal where a file could be named.
const JOURNALD: &str = "journald";

/// Begins the audit log: in the data folder, unless another place is wanted. That one is looked at first.
pub(crate) fn begin(folder: &DataFolder, wanted: Option<&Path>) -> Result<Arc<AuditLog>, Error> {
    let destination = match wanted {
        None => Destination::File(folder.audit_log()),
        Some(place) if place == Path::new(JOURNALD) => {
            Destination::Journal(Box::new(log::journal("--audit-log FILE")?))
        }
        Some(file) => {
            let unfit = |UnfitFile { what, remedy }| Error::machine(what, remedy);
            Destination::File(check(file).map_err(unfit)?)
        }
    };
    AuditLog::start(destination)
        .map_err(|cause| Error::machine(format!("no thread for the audit log: {cause}"), "try again"))
}
