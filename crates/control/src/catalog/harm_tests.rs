//! What would give the catalog away.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::backup_tests::full;
use super::*;

/// A data folder, and a backup of its catalog.
fn backed_up() -> (TempDir, DataFolder, Catalog, PathBuf) {
    let (place, folder, catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    (place, folder, catalog, file)
}

/// A folder by another name, until it is dropped.
struct Bound(PathBuf);

impl Bound {
    /// `None` where we may not mount.
    fn at(place: PathBuf, folder: &Path) -> Option<Self> {
        fs::create_dir_all(&place).unwrap();
        let mount = std::process::Command::new("mount").arg("--bind").args([folder, &place]).status();
        mount.is_ok_and(|status| status.success()).then_some(Bound(place))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn the_data_folder_is_shared_by_no_name_that_a_mount_gives_it() {
    let (place, folder, mut catalog, _file) = backed_up();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("above/below")).unwrap();
    fs::create_dir_all(folder.opens()).unwrap();
    let Some(_one) = Bound::at(at("one"), folder.path()) else { return };
    let _all = Bound::at(at("outside/all"), place.path()).unwrap();
    let _opens = Bound::at(at("opens"), &folder.opens()).unwrap();
    let _below = Bound::at(at("above/below"), folder.path()).unwrap();
    for name in [
        "one",
        "outside",
        "outside/all",
        "outside/all/data",
        "opens",
        "outside/all/data/opens",
        "above",
        "data/opens",
        "data",
    ] {
        let refused = catalog.create_share(&super::tests::at("given", &at(name))).unwrap_err();
        assert!(refused.what().contains("data folder"), "{name}: {refused}");
        // As one finds it that was made before, or under a mount that came later.
        let path = fs::canonicalize(at(name)).unwrap();
        let found = crate::served_folder::problem(&path, Changes::Refused, &folder);
        assert!(found.is_some_and(|problem| problem.contains("data folder")), "{name}");
    }
    for name in ["outside/all/files", "above/below/share"] {
        assert_eq!(crate::served_folder::problem(&at(name), Changes::Refused, &folder), None, "{name}");
    }
}

#[test]
fn no_backup_is_put_into_a_share_by_a_name_that_a_mount_gives_it() {
    let (place, _folder, catalog, _file) = backed_up();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("files/sub")).unwrap();
    let Some(_out) = Bound::at(at("out"), &at("files/sub")) else { return };
    let refused = catalog.back_up(&at("out/backup.db"), Existing::IsKept).unwrap_err();
    assert!(refused.what().contains("of share"), "{refused}");
}
