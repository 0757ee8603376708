//! Where the audit log is, for who shares folders: a share that holds it would let its users change what tells of them. The data folder, which has the log
//! where nothing else is said, is never shared.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::catalog::{ShareRecord, Source};
use crate::folder::private_file;
use crate::look::Look;
use crate::served_folder::HANGS_AFTER;
use crate::within::holds;
use crate::{Catalog, DataFolder, Error};

/// The file in the data folder that has the path of the audit log.
const NOTE: &str = "audit-log.path";

impl DataFolder {
    /// Notes that the audit log is at `file`, an absolute path, or in no file outside this folder. Refused where a share holds it. Shares that are made from then
    /// on will not.
    pub fn note_audit_log(&self, catalog: &Catalog, file: Option<&Path>) -> Result<(), Error> {
        let note = self.path().join(NOTE);
        let Some(file) = file else { return forget(&note) };
        // Before shares are looked at: who makes one meanwhile sees the note, or is seen.
        keep(&note, file)?;
        let Some(share) = share_with(catalog.shares()?, file)? else { return Ok(()) };
        forget(&note)?;
        Err(Error::argument(
            format!(
                "the audit log {} would be in the folder of share {share:?}, whose users could change it",
                file.display()
            ),
            "choose a folder that is not shared with --audit-log, or delete the share",
        ))
    }
}

/// The audit log of the server of `data`, where it is noted and lies in `folder`. May wait for the devices of both.
pub(crate) fn audit_log_in(folder: &Path, data: &Path) -> Option<PathBuf> {
    let file = PathBuf::from(OsString::from_vec(fs::read(data.join(NOTE)).ok()?));
    holds(folder, &file).then_some(file)
}

/// Keeps the note whole, whatever happens meanwhile.
fn keep(note: &Path, file: &Path) -> Result<(), Error> {
    let new = note.with_extension("new");
    let kept = private_file(&new).and_then(|mut out| {
        out.set_len(0)?;
        out.write_all(file.as_os_str().as_bytes())?;
        fs::rename(&new, note)
    });
    kept.map_err(|cause| Error::system("note where the audit log is at", note, &cause))
}

fn forget(note: &Path) -> Result<(), Error> {
    match fs::remove_file(note) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(Error::system("take away the note of the audit log at", note, &cause))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The first of these shares whose folder holds `file`. A folder that does not answer is judged by its name.
pub(crate) fn share_with(shares: Vec<ShareRecord>, file: &Path) -> Result<Option<String>, Error> {
    let until = Instant::now() + HANGS_AFTER;
    let begin = |share: ShareRecord| {
        let Source::Folder { path, .. } = share.source else { return None };
        let (folder, log) = (path.clone(), file.to_owned());
        Some((share.name, path, Look::begin(move || holds(&folder, &log))))
    };
    let looks: Vec<_> = shares.into_iter().filter_map(begin).collect();
    for (share, path, look) in looks {
        let look = look
            .map_err(|cause| Error::machine(format!("there is no thread to look at a folder: {cause}"), "try again"))?;
        if look.wait(until).unwrap_or_else(|| file.starts_with(&path)) {
            return Ok(Some(share));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_kept_whole_and_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let data = DataFolder::create(&place.path().join("data")).unwrap();
        let catalog = Catalog::open(&data).unwrap();
        let logs = place.path().join("logs");
        fs::create_dir(&logs).unwrap();
        let file = logs.join("audit.log");
        for _ in 0..2 {
            data.note_audit_log(&catalog, Some(&file)).unwrap();
        }
        assert_eq!(audit_log_in(place.path(), data.path()), Some(file));
        assert_eq!(audit_log_in(data.path(), data.path()), None);
        for _ in 0..2 {
            data.note_audit_log(&catalog, None).unwrap();
        }
        assert_eq!(audit_log_in(place.path(), data.path()), None);
    }
}
