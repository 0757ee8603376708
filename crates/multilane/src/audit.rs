//! Where `multilane serve` writes the audit log.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::{DataFolder, Error};
use insight::audit::{AuditLog, Destination, FileBounds, UnfitFile, check};

use crate::arguments::Serve;
use crate::log;

/// How long the last lines may take to be written when the server ends.
pub(crate) const LAST_LINES: Duration = Duration::from_secs(3);
/// What stands for the journal where a file could be named.
const JOURNALD: &str = "journald";

/// Begins the audit log: in the data folder, unless another place is wanted. That one is looked at first.
pub(crate) fn begin(folder: &DataFolder, arguments: &Serve) -> Result<Arc<AuditLog>, Error> {
    let in_file = |path: PathBuf| {
        let leaves_room = is_beside(&path, folder);
        Destination::File { bounds: FileBounds { bytes_max: arguments.audit_log_max.0, leaves_room }, path }
    };
    let destination = match arguments.audit_log.as_deref() {
        None => in_file(folder.audit_log()),
        Some(place) if place == Path::new(JOURNALD) => {
            Destination::Journal(Box::new(log::journal("--audit-log FILE")?))
        }
        Some(file) => {
            let unfit = |UnfitFile { what, remedy }| Error::machine(what, remedy);
            in_file(check(file).map_err(unfit)?)
        }
    };
    AuditLog::start(destination)
        .map_err(|cause| Error::machine(format!("no thread for the audit log: {cause}"), "try again"))
}

/// True where what the log takes is taken from the data folder: they are on one file system.
fn is_beside(file: &Path, data: &DataFolder) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    file.parent().and_then(device) == device(data.path())
}
