//! Backups and catalogs that somebody made to harm, and what happens where a restore is cut.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use super::backup_tests::full;
use super::tests::{account, ram};
use super::*;

fn restore(data: &Path, file: &Path) -> Result<Restored, Error> {
    restore_catalog(data, file, &mut |_| true)
}

/// A data folder, and a backup of its catalog.
fn backed_up() -> (TempDir, DataFolder, Catalog, PathBuf) {
    let (place, folder, catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    (place, folder, catalog, file)
}

/// A copy of a backup that somebody has changed who knows how.
fn changed(file: &Path, change: &str) -> PathBuf {
    let path = file.with_extension("changed");
    fs::copy(file, &path).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA user_version = 0; PRAGMA foreign_keys = off").unwrap();
    connection.execute_batch(change).unwrap_or_else(|cause| panic!("{change}: {cause}"));
    path
}

fn beside(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn a_restore_is_one_change_of_the_catalog_that_others_have_open() {
    let (_place, folder, mut catalog, file) = backed_up();
    let files = ["", "-wal", "-shm"].map(|end| inode(&beside(&folder.catalog(), end)));
    catalog.add_user(&"bob".parse().unwrap(), "secret", None).unwrap();
    let version = catalog.version().unwrap();
    restore(folder.path(), &file).unwrap();
    assert!(!catalog.is_replaced(&folder));
    assert_eq!(files, ["", "-wal", "-shm"].map(|end| inode(&beside(&folder.catalog(), end))));
    assert_ne!(catalog.version().unwrap(), version, "who has it open is told");
    let users = |catalog: &Catalog| catalog.users().unwrap().into_iter().map(|user| user.name).collect::<Vec<_>>();
    assert_eq!(users(&catalog), ["alice"]);
    catalog.add_user(&"carol".parse().unwrap(), "secret", None).unwrap();
    assert_eq!(users(&Catalog::open(&folder).unwrap()), ["alice", "carol"]);
}

#[test]
fn a_catalog_whose_log_or_index_is_another_or_gone_is_open_anew() {
    for ends in [&["-wal", "-shm"][..], &["-wal"], &["-shm"]] {
        let (_place, folder, catalog, _file) = backed_up();
        assert!(!catalog.is_replaced(&folder));
        for end in ends {
            fs::remove_file(beside(&folder.catalog(), end)).unwrap();
        }
        assert!(catalog.is_replaced(&folder), "{ends:?}");
        let mut other = Catalog::open(&folder).unwrap();
        other.add_user(&"bob".parse().unwrap(), "secret", None).unwrap();
        assert!(catalog.is_replaced(&folder), "{ends:?}");
        // Its log is that of a catalog that is no more, and is not written into this one.
        drop(catalog);
        drop(other);
        let names: Vec<_> = Catalog::open(&folder).unwrap().users().unwrap().into_iter().map(|u| u.name).collect();
        assert_eq!(names, ["alice", "bob"]);
        assert_eq!(check_catalog(&folder).unwrap().problems, []);
    }
}

/// A log that changes what a file says, made beside a copy of it.
fn log_beside(file: &Path) -> PathBuf {
    let other = file.with_extension("other");
    fs::copy(file, &other).unwrap();
    let connection = Connection::open(&other).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
    connection.execute("UPDATE user SET name = 'evil'", []).unwrap();
    let log = beside(file, "-wal");
    fs::copy(beside(&other, "-wal"), &log).unwrap();
    log
}

#[test]
fn a_log_beside_a_backup_is_not_believed() {
    let (place, folder, catalog, file) = backed_up();
    let log = log_beside(&file);
    let refused = restore(&place.path().join("elsewhere"), &file).unwrap_err();
    assert!(refused.what().contains("-wal") && !refused.remedy().is_empty(), "{refused}");
    for existing in [Existing::IsReplaced, Existing::IsKept] {
        let refused = catalog.back_up(&file, existing).unwrap_err();
        assert!(existing == Existing::IsKept || refused.what().contains("-wal"), "{refused}");
    }
    fs::remove_file(log).unwrap();
    restore(folder.path(), &file).unwrap();
}

#[test]
fn what_no_catalog_has_is_neither_restored_nor_let_pass() {
    for change in [
        "CREATE TRIGGER keep AFTER UPDATE OF key1 ON account BEGIN UPDATE account SET key1 = old.key1; END",
        "CREATE TRIGGER stay BEFORE DELETE ON principal BEGIN SELECT RAISE(IGNORE); END",
        "CREATE VIEW more AS SELECT * FROM user",
        "CREATE TABLE more (x)",
        "CREATE INDEX more ON user (name)",
        "DROP INDEX membership_of",
        "ALTER TABLE user ADD COLUMN more TEXT",
        "ALTER TABLE setting RENAME TO setting_; CREATE VIEW setting AS WITH RECURSIVE c(name, value) AS
         (SELECT name, value FROM setting_ UNION ALL SELECT name || 'x', value FROM c) SELECT * FROM c",
        "ALTER TABLE migration RENAME TO migration_; CREATE VIEW migration AS WITH RECURSIVE c(version) AS
         (SELECT version FROM migration_ UNION ALL SELECT version FROM c) SELECT * FROM c",
    ] {
        let (place, folder, catalog, file) = backed_up();
        let elsewhere = place.path().join("elsewhere");
        let refused = restore(&elsewhere, &changed(&file, change)).unwrap_err();
        assert!(!refused.remedy().is_empty() && !elsewhere.join("catalog.db").exists(), "{change}: {refused}");
        if change.contains("migration") {
            continue;
        }
        catalog.connection.execute_batch(change).unwrap();
        let found = check_catalog(&folder).unwrap();
        assert!(!found.problems.is_empty(), "{change}: {found:?}");
        // What the catalog had is gone once another is restored.
        restore(folder.path(), &file).unwrap();
        assert_eq!(check_catalog(&folder).unwrap().problems, [], "{change}");
    }
}

#[test]
fn rows_that_make_no_sense_are_named_and_not_restored() {
    for (change, word) in [
        ("UPDATE account SET key1 = ''", "key"),
        ("UPDATE account SET key2 = 'not base64'", "key"),
        ("UPDATE account SET name = 'LOCAL'", "account"),
        ("UPDATE user SET name = 'al' || char(27) || 'ice'", "user"),
        ("UPDATE user SET name = printf('%.*c', 4000000, 'x')", ""),
        ("UPDATE share SET name = 'IPC$', folded_name = 'IPC$' WHERE name = 'fast'", "share"),
        ("UPDATE share SET name = 'a\\b' WHERE name = 'fast'", "share"),
        ("UPDATE share SET name = 'a/b' WHERE name = 'fast'", "share"),
        ("UPDATE share SET name = 'a' || char(27) WHERE name = 'fast'", "share"),
        ("UPDATE share SET folded_name = 'OTHER' WHERE name = 'fast'", "share"),
        ("UPDATE share SET comment = printf('%.*c', 4000000, 'x')", ""),
        ("UPDATE share SET folder = '../elsewhere' WHERE name = 'inside'", "share"),
        ("UPDATE share SET folder = '' WHERE name = 'inside'", "share"),
        ("UPDATE share SET folder = 'opens' WHERE name = 'inside'", "share"),
        (
            "UPDATE principal SET relative_id = 513 WHERE folded_name = 'ALICE'; UPDATE user SET relative_id = 513",
            "513",
        ),
        ("UPDATE principal SET relative_id = -5 WHERE folded_name = 'ALICE'; UPDATE user SET relative_id = -5", ""),
        ("UPDATE principal SET folded_name = 'OTHER' WHERE folded_name = 'ALICE'", "user"),
        ("INSERT INTO principal (folded_name) VALUES ('NOBODY')", "NOBODY"),
        ("INSERT OR REPLACE INTO setting VALUES ('server_name', 'x' || char(27))", "server"),
        ("INSERT INTO operator VALUES ('OLGA', 'olga', 4000000000, zeroblob(16), zeroblob(32))", "rounds"),
        ("INSERT INTO operator VALUES ('A/B', 'a/b', 1, zeroblob(16), zeroblob(32))", "operator"),
        ("DELETE FROM sqlite_sequence", "number"),
        ("UPDATE sqlite_sequence SET seq = 1000 WHERE name = 'principal'", "number"),
        ("UPDATE sqlite_sequence SET seq = 4294967000 WHERE name = 'principal'", "number"),
        ("UPDATE sqlite_sequence SET seq = 9223372036854775800", "number"),
    ] {
        let (place, folder, catalog, file) = backed_up();
        let elsewhere = place.path().join("elsewhere");
        let refused = restore(&elsewhere, &changed(&file, change)).unwrap_err();
        assert!(refused.what().contains(word) && !refused.remedy().is_empty(), "{change}: {refused}");
        assert!(!refused.to_string().contains('\u{1b}') && refused.to_string().len() < 2000, "{change}");
        assert!(!elsewhere.join("catalog.db").exists(), "{change}");
        catalog.connection.execute_batch("PRAGMA foreign_keys = off").unwrap();
        catalog.connection.execute_batch(change).unwrap();
        let found = check_catalog(&folder).unwrap();
        assert!(found.problems.iter().any(|one| one.problem.contains(word)), "{change}: {found:?}");
    }
}

#[test]
fn a_check_does_not_write_a_log_into_the_catalog() {
    let (place, folder, mut catalog, _file) = backed_up();
    let mut reader = Connection::open(folder.catalog()).unwrap();
    let reading = reader.transaction().unwrap();
    let _: i64 = reading.query_row("SELECT count(*) FROM user", [], |row| row.get(0)).unwrap();
    catalog.create_share(&ram("later")).unwrap();
    let other = DataFolder::create(&place.path().join("copied")).unwrap();
    fs::copy(folder.catalog(), other.catalog()).unwrap();
    fs::copy(log_of(&folder.catalog()), log_of(&other.catalog())).unwrap();
    let said = || [other.catalog(), log_of(&other.catalog())].map(|file| fs::read(file).unwrap());
    let before = said();
    assert_eq!(check_catalog(&other).unwrap().holds.unwrap().shares, 4);
    assert!(said() == before, "nothing is changed");
    drop(reading);
    assert!(Catalog::open(&other).unwrap().account(&account("abc")).is_ok());
}

#[test]
fn what_a_restore_that_was_cut_left_is_gone_once_the_catalog_is_opened() {
    let (_place, folder, catalog, _file) = backed_up();
    drop(catalog);
    let left = ["catalog.db.restoring", "catalog.db.restoring-wal", ".multilane-aBc123.new"];
    for name in left {
        fs::write(folder.path().join(name), "secrets").unwrap();
        let file = fs::File::open(folder.path().join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(7200)).unwrap();
    }
    drop(Catalog::open(&folder).unwrap());
    for name in left {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_catalog_of_another_version_is_not_replaced_where_its_server_runs() {
    let (_place, folder, catalog, file) = backed_up();
    catalog.connection.execute("INSERT INTO migration (version) VALUES (9999)", []).unwrap();
    drop(catalog);
    let lock = folder.lock().unwrap();
    fs::write(folder.path().join("lock"), "1\n").unwrap();
    let refused = restore(folder.path(), &file).unwrap_err();
    assert!(refused.what().contains("newer server (process 1)") && refused.remedy().contains("stop"), "{refused}");
    assert!(check_catalog(&folder).unwrap().problems[0].problem.contains("9999"), "it is left as it was");
    drop(lock);
    restore(folder.path(), &file).unwrap();
    assert_eq!(check_catalog(&folder).unwrap().problems, []);
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
