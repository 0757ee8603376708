//! Where `multilane serve` writes the audit log.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control::{Catalog, DataFolder, Error};
use insight::audit::{AuditLog, Destination, FileBounds, UnfitFile, check, safe_place};

use crate::arguments::Serve;
use crate::log;

/// How long the last lines may take to be written when the server ends.
pub(crate) const LAST_LINES: Duration = Duration::from_secs(3);
/// What stands for the journal where a file could be named.
const JOURNALD: &str = "journald";

/// Begins the audit log: in the data folder, unless another place is wanted. That one is looked at first, and is in no folder that is shared.
pub(crate) fn begin(folder: &DataFolder, catalog: &Catalog, arguments: &Serve) -> Result<Arc<AuditLog>, Error> {
    let unfit = |UnfitFile { what, remedy }| Error::machine(what, remedy);
    let file = match arguments.audit_log.as_deref() {
        None => Some(folder.audit_log()),
        Some(place) if place == Path::new(JOURNALD) => None,
        Some(file) => Some(safe_place(file).map_err(unfit)?),
    };
    folder.note_audit_log(catalog, file.as_deref().filter(|_| arguments.audit_log.is_some()))?;
    let destination = match file {
        None => Destination::Journal(Box::new(log::journal("--audit-log FILE")?)),
        Some(path) => {
            if arguments.audit_log.is_some() {
                check(&path).map_err(unfit)?;
            }
            let leaves_room = is_beside(&path, folder);
            Destination::File { bounds: FileBounds { bytes_max: arguments.audit_log_max.0, leaves_room }, path }
        }
    };
    AuditLog::start(destination)
        .map_err(|cause| Error::machine(format!("no thread for the audit log: {cause}"), "try again"))
}

/// Whether the audit log may lie where the options say, without making it.
pub(crate) fn look_at_place(arguments: &Serve) -> Result<(), Error> {
    match arguments.audit_log.as_deref().filter(|place| *place != Path::new(JOURNALD)) {
        Some(file) => safe_place(file).map(drop).map_err(|UnfitFile { what, remedy }| Error::machine(what, remedy)),
        None => Ok(()),
    }
}

/// True where what the log takes is taken from the data folder: they are on one file system.
fn is_beside(file: &Path, data: &DataFolder) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    file.parent().and_then(device) == device(data.path())
}
