//! Shares whose folders overlap: the rights on one say nothing about what is reached through another.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use crate::catalog::{ShareRecord, Source};
use crate::look::Look;
use crate::served_folder::HANGS_AFTER;
use crate::within::holds;

/// How the folder of a share lies to that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It is the same folder.
    Is,
    /// It holds the other's.
    Holds,
    /// It lies in the other's.
    LiesIn,
}

/// The other shares whose folders overlap that of `share`, each with how its folder lies to that. A folder that does not answer is judged by its name.
pub fn overlapping(share: &ShareRecord, shares: Vec<ShareRecord>) -> Vec<(Overlap, ShareRecord)> {
    let Source::Folder { path, .. } = &share.source else { return Vec::new() };
    let until = Instant::now() + HANGS_AFTER;
    let mut looks = Vec::new();
    for other in shares.into_iter().filter(|other| other.id != share.id) {
        let Source::Folder { path: of_other, .. } = &other.source else { continue };
        let (of_other, own) = (of_other.clone(), path.clone());
        let at = of_other.clone();
        looks.push((other, of_other, Look::begin(move || overlap(&at, &own))));
    }
    let mut found = Vec::new();
    for (other, of_other, look) in looks {
        let seen = look.ok().and_then(|look| look.wait(until)).unwrap_or_else(|| by_name(&of_other, path));
        found.extend(seen.map(|overlap| (overlap, other)));
    }
    found
}

/// How `folder` lies to `other`, by whatever names: links and mounts lead to the same folder.
fn overlap(folder: &Path, other: &Path) -> Option<Overlap> {
    let key = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (folder, other) = (&*whole(folder), &*whole(other));
    match (key(folder), key(other)) {
        (Some(folder), Some(other)) if folder == other => Some(Overlap::Is),
        (Some(_), Some(_)) if holds(folder, other) => Some(Overlap::Holds),
        (Some(_), Some(_)) if holds(other, folder) => Some(Overlap::LiesIn),
        (Some(_), Some(_)) => None,
        (None, _) | (_, None) => by_name(folder, other),
    }
}

fn by_name(folder: &Path, other: &Path) -> Option<Overlap> {
    match (other.starts_with(folder), folder.starts_with(other)) {
        (true, true) => Some(Overlap::Is),
        (true, false) => Some(Overlap::Holds),
        (false, true) => Some(Overlap::LiesIn),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_overlap_by_whatever_names() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("srv/hr/2026")).unwrap();
        fs::create_dir(at("srv/hr2")).unwrap();
        symlink(at("srv/hr"), at("link")).unwrap();
        for (folder, other, how) in [
            ("srv/hr", "srv/hr", Some(Overlap::Is)),
            ("link", "srv/hr", Some(Overlap::Is)),
            ("srv", "link/2026", Some(Overlap::Holds)),
            ("srv/hr/2026", "link", Some(Overlap::LiesIn)),
            ("srv/hr2", "srv/hr", None),
            ("gone", "gone/deeper", Some(Overlap::Holds)),
            ("gone", "goner", None),
        ] {
            assert_eq!(overlap(&at(folder), &at(other)), how, "{folder} and {other}");
        }
    }
}
