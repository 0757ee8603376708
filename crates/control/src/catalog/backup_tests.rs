//! Backups, their restoring, and what is kept when a catalog becomes another.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rusqlite::Connection;
use tempfile::TempDir;

use super::tests::{account, at, place, ram, share};
use super::*;
use crate::small_disk::SmallDisk;
use crate::{AccountKind, Fault};

/// Restores, whatever that allows.
fn restore(data: &Path, file: &Path) -> Result<Restored, Error> {
    restore_catalog(data, file, &mut |_| true)
}

/// A data folder with something of everything in its catalog.
pub(super) fn full() -> (TempDir, DataFolder, Catalog) {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    catalog.add_user(&"alice".parse().unwrap(), "secret", None).unwrap();
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::create_dir(folder.first_share()).unwrap();
    catalog.create_share(&at("outside", &files)).unwrap();
    catalog.create_share(&at("inside", &folder.first_share())).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    (place, folder, catalog)
}

/// All rows of a catalog, as a text.
fn said(folder: &DataFolder) -> String {
    let connection = copies::open(&folder.catalog()).unwrap();
    keep_log(&connection).unwrap();
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut said = String::new();
    // What numbers are given next is not what it says.
    for table in tables.iter().filter(|table| *table != "sqlite_sequence") {
        let mut rows = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let row: Vec<rusqlite::types::Value> = (0..columns).map(|column| row.get(column).unwrap()).collect();
            said.push_str(&format!("{table} {row:?}\n"));
        }
    }
    said
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn has_user(folder: &DataFolder, name: &str) -> bool {
    Catalog::open(folder).unwrap().users().unwrap().iter().any(|user| user.name == name)
}

#[test]
fn a_backup_has_everything_and_its_owner_alone_may_read_it() {
    let (place, folder, mut catalog) = full();
    catalog.create_operator(&"olga".parse().unwrap(), "long enough a secret").unwrap();
    let file = place.path().join("backup.db");
    let made = catalog.back_up(&file, Existing::IsKept).unwrap();
    let holds = Holds { schema: schema::latest(), accounts: 1, users: 1, groups: 0, operators: 1, shares: 3 };
    assert_eq!((made.holds, made.bytes), (holds, fs::metadata(&file).unwrap().len()));
    assert_eq!(mode(&file), 0o600);
    let elsewhere = place.path().join("elsewhere");
    let restored = restore(&elsewhere, &file).unwrap();
    assert_eq!((restored.holds, restored.kept, restored.back.len()), (holds, None, 0));
    let other = DataFolder::open(&elsewhere).unwrap();
    assert_eq!(said(&other), said(&folder));
    assert_eq!(restored.problems.len(), 1, "its folder is not there: {:?}", restored.problems);
    assert!(restored.problems[0].share == "inside" && restored.problems[0].problem.contains("is gone"));
    assert_eq!(mode(&other.catalog()), 0o600);
    let opened = Catalog::open(&other).unwrap();
    assert_eq!(opened.notices(), []);
    assert_eq!(
        opened.share(&share("inside")).unwrap().source.folder(),
        Some(other.first_share().as_path()),
        "in the new folder"
    );
    // A copy of the backup under the catalog's name does as well.
    let third = DataFolder::create(&place.path().join("third")).unwrap();
    fs::copy(&file, third.catalog()).unwrap();
    assert!(has_user(&third, "alice"));
}

#[test]
fn a_backup_replaces_a_backup_where_that_is_wanted_and_nothing_else() {
    let (place, folder, catalog) = full();
    let path = |name: &str| place.path().join(name);
    let file = path("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    let refused = catalog.back_up(&file, Existing::IsKept).unwrap_err();
    assert!(refused.fault() == Fault::Conflict && refused.remedy().contains("--force"), "{refused}");
    catalog.back_up(&file, Existing::IsReplaced).unwrap();

    fs::write(path("text"), "mine").unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::hard_link(folder.catalog(), path("hard")).unwrap();
    symlink(&file, path("link")).unwrap();
    let before = names(place.path());
    for other in [path("text"), path("empty"), path("hard"), path("link"), path("files"), folder.catalog()] {
        for existing in [Existing::IsKept, Existing::IsReplaced] {
            assert!(catalog.back_up(&other, existing).unwrap_err().fault() == Fault::Conflict, "{}", other.display());
        }
    }
    for wrong in [path("nowhere/backup.db"), PathBuf::from("/"), PathBuf::from("..")] {
        assert_eq!(catalog.back_up(&wrong, Existing::IsReplaced).unwrap_err().fault(), Fault::Argument);
    }
    assert_eq!((fs::read_to_string(path("text")).unwrap().as_str(), names(place.path())), ("mine", before));
    assert!(has_user(&folder, "alice"));
}

#[test]
fn no_backup_is_put_where_users_of_a_share_could_read_it() {
    let (place, folder, catalog) = full();
    fs::create_dir(place.path().join("files/below")).unwrap();
    symlink(place.path().join("files"), place.path().join("link")).unwrap();
    for shared in ["files/backup.db", "files/below/backup.db", "link/backup.db", "data/share/backup.db"] {
        let refused = catalog.back_up(&place.path().join(shared), Existing::IsKept).unwrap_err();
        assert!(refused.what().contains("of share"), "{shared}: {refused}");
    }
    catalog.back_up(&folder.path().join("backup.db"), Existing::IsKept).unwrap();
}

#[test]
fn a_backup_without_room_leaves_nothing_and_says_so() {
    let Some(disk) = SmallDisk::new(64, 100) else { return };
    let (_place, _folder, catalog) = full();
    disk.fill();
    let before = names(disk.path());
    let refused = catalog.back_up(&disk.path().join("backup.db"), Existing::IsKept).unwrap_err();
    assert!(refused.remedy().contains("free some space"), "{refused}");
    assert_eq!(names(disk.path()), before);
}

#[test]
fn a_restore_keeps_what_was_there_and_that_can_be_restored() {
    let (place, folder, mut catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    let at_backup = said(&folder);
    catalog.add_user(&"bob".parse().unwrap(), "secret", None).unwrap();
    catalog.remove_user(&"alice".parse().unwrap()).unwrap();
    let before = said(&folder);
    let restored = restore(folder.path(), &file).unwrap();
    assert_eq!(
        (restored.back.as_slice(), restored.gone.as_slice()),
        (&["alice".to_owned()][..], &["bob".to_owned()][..])
    );
    assert_eq!(said(&folder), at_backup);
    let kept = restored.kept.unwrap();
    assert_eq!((kept.parent(), mode(&kept)), (Some(folder.path()), 0o600));
    let again = restore(folder.path(), &kept).unwrap();
    assert_eq!(said(&folder), before);
    assert_ne!(again.kept.unwrap(), kept, "each has a name of its own");
}

#[test]
fn a_restore_names_everything_that_it_opens_and_opens_nothing_where_nobody_agrees() {
    let (place, folder, mut catalog) = full();
    let (alice, bob, carl): (crate::UserName, crate::UserName, crate::UserName) =
        ("alice".parse().unwrap(), "bob".parse().unwrap(), "carl".parse().unwrap());
    let staff = "staff".parse().unwrap();
    for name in [&bob, &carl, &"dora".parse().unwrap(), &"eve".parse().unwrap()] {
        catalog.add_user(name, "secret", None).unwrap();
    }
    catalog.create_group(&staff, None).unwrap();
    catalog.add_members(&staff, std::slice::from_ref(&bob)).unwrap();
    catalog.create_operator(&"olga".parse().unwrap(), "correct horse battery").unwrap();
    let file = place.path().join("backup.db");
    assert_eq!(catalog.back_up(&file, Existing::IsKept).unwrap().holds.groups, 1);

    let disable = UserChanges { disabled: Some(true), ..UserChanges::default() };
    catalog.update_user(&bob, &disable).unwrap();
    let expire = UserChanges { expires: Some(Some(Timestamp::UNIX_EPOCH)), ..UserChanges::default() };
    catalog.update_user(&"dora".parse().unwrap(), &expire).unwrap();
    let rename = UserChanges { name: Some("evelyn".parse().unwrap()), ..UserChanges::default() };
    catalog.update_user(&"eve".parse().unwrap(), &rename).unwrap();
    catalog.set_password(&carl, "another", None).unwrap();
    catalog.remove_user(&alice).unwrap();
    catalog.add_user(&alice, "secret", None).unwrap();
    catalog.remove_members(&staff, std::slice::from_ref(&bob)).unwrap();
    catalog.regenerate_key(&account("abc"), Key::One, None).unwrap();
    catalog.delete_operator(&"olga".parse().unwrap()).unwrap();
    catalog.grant(&share("outside"), &Grantee::Named(carl.clone()), server::admin::ShareRight::Read).unwrap();
    catalog.delete_share(&share("fast")).unwrap();
    let guarded = ShareChanges {
        seal_required: Some(true),
        audit: Some(server::admin::AuditClasses::ALL),
        ..ShareChanges::default()
    };
    catalog.update_share(&share("inside"), &guarded).unwrap();
    catalog.set(&crate::Setting::Sealing(server::admin::Sealing::Required)).unwrap();
    let before = said(&folder);

    let mut told = Vec::new();
    let refused = restore_catalog(folder.path(), &file, &mut |loosened| {
        told = loosened.to_vec();
        false
    });
    assert_eq!(
        told,
        [
            "key1 of account abc is another one, and signs in",
            "user alice is the one before who was made anew, with that one's SID and password",
            "user bob is no longer disabled, and may sign in",
            "user carl has another password",
            "user dora has no longer expired, and may sign in",
            "group staff holds bob again",
            "operator olga is there again, and may sign in to the page",
            "share fast is there again, for the keys of account abc, everyone of the account: full",
            "share inside no longer wants encryption",
            "share inside is no longer audited for read, write, delete, security, sign-in",
            "share outside lets in everyone of the account: full",
            "setting: encryption is no longer required",
        ]
    );
    let refused = refused.unwrap_err();
    assert!(refused.remedy().contains("--force"), "{refused}");
    assert_eq!(said(&folder), before, "nothing is changed");

    let restored = restore(folder.path(), &file).unwrap();
    assert_eq!((restored.loosened, restored.is_unknown), (told, false));
    assert_eq!((restored.back, restored.gone), (vec!["alice".to_owned()], vec!["alice".to_owned()]));
    let again = restore_catalog(folder.path(), &file, &mut |_| false).unwrap();
    assert_eq!(again.loosened, Vec::<String>::new(), "what is the same opens nothing");
}

#[test]
fn a_number_that_was_given_behind_the_backup_is_given_to_nobody_else() {
    let (place, folder, mut catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    let bob = catalog.add_user(&"bob".parse().unwrap(), "secret", None).unwrap();
    catalog.create_share(&ram("later")).unwrap();
    let later = catalog.share(&share("later")).unwrap();
    drop(catalog);
    let elsewhere = place.path().join("elsewhere");
    for data in [folder.path(), &elsewhere] {
        restore(data, &file).unwrap();
        let mut catalog = Catalog::open(&DataFolder::open(data).unwrap()).unwrap();
        let carol = catalog.add_user(&"carol".parse().unwrap(), "secret", None).unwrap();
        assert!(carol.relative_id > bob.relative_id, "whether what was made since is known or not");
        assert!(catalog.create_share(&ram("other")).unwrap().id > later.id);
    }
}

/// Everything that is no backup, cut short, damaged or of another version, and a word of why.
fn unfit(place: &Path, good: &[u8]) -> Vec<(PathBuf, &'static str)> {
    let file = |name: &str, bytes: &[u8]| {
        fs::write(place.join(name), bytes).unwrap();
        place.join(name)
    };
    let mut all = vec![
        (place.join("nowhere"), "there is no file"),
        (place.to_owned(), "no file"),
        (file("empty", b""), "empty"),
        (file("text", b"accounts: none\n"), "SQLite did not write it"),
    ];
    // Within SQLite's mark and its header, within a page, at the end of each and beside it.
    let pages = (1..good.len() / 4096).flat_map(|page| [page * 4096 - 1, page * 4096, page * 4096 + 1]);
    let others = [1, 15, 16, 17, 99, 100, 101, 511, 512, 513, good.len() / 2, good.len() - 1];
    for length in others.into_iter().chain(pages) {
        let why = if length < 16 { "SQLite did not write it" } else { "" };
        all.push((file(&format!("cut-{length}"), &good[..length]), why));
    }
    for page in 0..good.len() / 4096 {
        let mut bytes = good.to_vec();
        bytes[page * 4096 + 16..(page + 1) * 4096].fill(0xA5);
        bytes[page * 4096..page * 4096 + 16].copy_from_slice(if page == 0 {
            b"SQLite format 3\0"
        } else {
            &[0xA5; 16]
        });
        all.push((file(&format!("damaged-{page}"), &bytes), "damaged"));
    }
    all.push((file("longer", &[good, &[0; 4096]].concat()), "not those that were written"));
    let mut bytes = good.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    all.push((file("bit", &bytes), "not those that were written"));
    let changed = |name: &str, change: &str| {
        let path = file(name, good);
        let connection = Connection::open(&path).unwrap();
        // Somebody has changed it who knows how.
        connection.execute_batch("PRAGMA user_version = 0").unwrap();
        connection.execute_batch(change).unwrap();
        path
    };
    let foreign = place.join("foreign");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    all.push((foreign, "none of a catalog's tables"));
    all.push((changed("newer", "INSERT INTO migration (version) VALUES (9999)"), "newer"));
    all.push((changed("negative", "UPDATE migration SET version = version - 1000"), ""));
    all.push((changed("nonsense", "UPDATE setting SET value = 'x' WHERE name = 'server_guid'"), "server_guid"));
    all.push((changed("audit", "UPDATE share SET audit = 'x'"), "audit"));
    all.push((changed("astray", "PRAGMA foreign_keys = off; UPDATE user SET account = 77"), "lead to none"));
    all.push((changed("torn", "DROP TABLE share"), ""));
    all
}

#[test]
fn what_is_no_whole_backup_of_this_version_is_refused_and_nothing_is_changed() {
    let (place, folder, catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    drop(catalog);
    let before = (said(&folder), names(folder.path()));
    let (broken, nowhere) = (place.path().join("broken"), place.path().join("no data"));
    fs::create_dir(&broken).unwrap();
    for (wrong, why) in unfit(&broken, &fs::read(&file).unwrap()) {
        let refused = restore(folder.path(), &wrong).unwrap_err();
        assert!(refused.to_string().contains(why) && !refused.remedy().is_empty(), "{}: {refused}", wrong.display());
        assert!(refused.what().contains(wrong.to_str().unwrap()), "{}: {refused}", wrong.display());
        assert_eq!((said(&folder), names(folder.path())), before, "{}", wrong.display());
        assert!(restore(&nowhere, &wrong).is_err());
        assert!(!nowhere.join("catalog.db").exists());
    }
    let refused = restore(folder.path(), &folder.catalog()).unwrap_err();
    assert!(refused.what().contains("the catalog itself"), "{refused}");
    restore(folder.path(), &file).unwrap();
}

#[test]
fn a_restore_without_room_changes_nothing() {
    let Some(disk) = SmallDisk::new(512, 100) else { return };
    let (_place, _folder, catalog) = full();
    let backup = tempfile::tempdir().unwrap();
    let file = backup.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    let folder = DataFolder::create(disk.path()).unwrap();
    Catalog::open(&folder).unwrap().create_account(&account("here"), AccountKind::FileStorage).unwrap();
    disk.fill();
    let filling = fs::OpenOptions::new().write(true).open(disk.path().join("filling 0")).unwrap();
    let before = names(folder.path());
    // There is less and less in the way, so that each step comes to be the first without room.
    let mut refused = 0;
    while let Err(cause) = restore(folder.path(), &file) {
        assert!(cause.remedy().contains("space"), "{cause}");
        assert_eq!(names(folder.path()), before);
        assert_eq!(Catalog::open(&folder).unwrap().account(&account("here")).unwrap().name, "here");
        filling.set_len(filling.metadata().unwrap().len() - (8 << 10)).unwrap();
        refused += 1;
    }
    assert!(refused > 10 && has_user(&folder, "alice"), "{refused}");
}

#[test]
fn a_broken_catalog_is_kept_as_it_is_and_replaced() {
    for bytes in [&b"no catalog"[..], &[0xA5; 40_000], b""] {
        let (place, folder, catalog) = full();
        let file = place.path().join("backup.db");
        catalog.back_up(&file, Existing::IsKept).unwrap();
        drop(catalog);
        fs::write(folder.catalog(), bytes).unwrap();
        let restored = restore(folder.path(), &file).unwrap();
        match restored.kept {
            Some(kept) => assert_eq!((fs::read(&kept).unwrap().as_slice(), mode(&kept)), (bytes, 0o600)),
            None => assert!(bytes.is_empty()),
        }
        assert!(has_user(&folder, "alice") && restored.gone.is_empty());
    }
}

#[test]
fn a_catalog_with_a_page_that_is_damaged_is_found_and_replaced() {
    let (place, folder, catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    drop(catalog);
    assert_eq!(check_catalog(&folder).unwrap().problems, []);
    let mut bytes = fs::read(folder.catalog()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xA5);
    fs::write(folder.catalog(), &bytes).unwrap();
    let found = check_catalog(&folder).unwrap();
    assert!(!found.problems.is_empty() && found.problems[0].remedy.contains("multilane restore"), "{found:?}");
    if let Ok(catalog) = Catalog::open(&folder) {
        assert!(catalog.back_up(&place.path().join("bad.db"), Existing::IsKept).is_err(), "no backup is made of it");
    }
    restore(folder.path(), &file).unwrap();
    assert_eq!(check_catalog(&folder).unwrap().problems, []);
}

#[test]
fn a_change_that_waited_for_a_restore_is_made_in_what_was_restored() {
    let (place, folder, mut catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    restore(folder.path(), &file).unwrap();
    catalog.add_user(&"bob".parse().unwrap(), "secret", None).unwrap();
    assert!(has_user(&folder, "bob"));
}

#[test]
fn each_of_many_backups_made_while_the_catalog_changes_restores() {
    let (place, folder, _catalog) = full();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut catalog = Catalog::open(&folder).unwrap();
            for number in 0.. {
                let name: crate::UserName = format!("user{number}").parse().unwrap();
                catalog.add_user(&name, "secret", None).unwrap();
                catalog.create_share(&ram(&format!("ram{number}"))).unwrap();
                if number % 3 == 0 {
                    catalog.remove_user(&name).unwrap();
                    catalog.delete_share(&share(&format!("ram{number}"))).unwrap();
                }
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut most = 0;
        for number in 0..20 {
            let file = place.path().join(format!("backup-{number}.db"));
            let made = Catalog::open(&folder).unwrap().back_up(&file, Existing::IsKept).unwrap();
            let data = place.path().join(format!("data-{number}"));
            let restored = restore(&data, &file).unwrap();
            assert_eq!(restored.holds, made.holds);
            let restored = Catalog::open(&DataFolder::open(&data).unwrap()).unwrap().snapshot().unwrap();
            // A user is made before its share, and both go before the next.
            assert!(restored.users.len().abs_diff(restored.shares.len() - 2) <= 1, "of one moment");
            most = most.max(restored.users.len());
        }
        ended.store(true, Ordering::Relaxed);
        assert!(most > 1, "the catalog changed meanwhile");
    });
}

/// A catalog as an older program left it.
fn older(folder: &DataFolder, steps: usize) {
    let connection = Connection::open(folder.catalog()).unwrap();
    schema::make(&connection, steps).unwrap();
    let made = "INSERT INTO principal (relative_id, folded_name) VALUES (1000, 'ABC');
         INSERT INTO account (relative_id, name, kind, key1, key2) VALUES (1000, 'abc', 'FileStorage', 'KEY', 'KEY');
         INSERT INTO setting (name, value) VALUES ('machine_sid', '1-2-3'), ('server_guid', '00112233445566778899aabbccddeeff')";
    connection.execute_batch(&made.replace("KEY", &format!("{}==", "A".repeat(86)))).unwrap();
}

#[test]
fn an_older_catalog_is_raised_and_what_it_was_is_kept() {
    let (_place, folder) = place();
    older(&folder, 5);
    fs::set_permissions(folder.catalog(), Permissions::from_mode(0o600)).unwrap();
    let catalog = Catalog::open(&folder).unwrap();
    let kept = folder.path().join("catalog.db.schema-5");
    assert_eq!(
        catalog.notices(),
        [Notice::Raised { from: 5, to: schema::latest(), kept: kept.clone() }],
        "{:?}",
        catalog.notices()
    );
    assert_eq!(mode(&kept), 0o600);
    assert_eq!(schema::version(&copies::open(&kept).unwrap()).unwrap(), 5);
    assert!(Catalog::open(&folder).unwrap().notices().is_empty(), "it is told once");
    drop(catalog);
    // It is a backup, too, and raised once more.
    let restored = restore(folder.path(), &kept).unwrap();
    assert_eq!((restored.schema_of_backup, restored.holds.schema, restored.holds.accounts), (5, schema::latest(), 1));
}

#[test]
fn an_older_catalog_is_not_raised_where_its_server_runs_or_no_copy_can_be_kept() {
    let (_place, folder) = place();
    older(&folder, 5);
    let lock = folder.lock().unwrap();
    fs::write(folder.path().join("lock"), "1\n").unwrap();
    let refused = Catalog::open(&folder).unwrap_err();
    assert!(refused.what().contains("older server (process 1)") && refused.remedy().contains("restart"), "{refused}");
    drop(lock);
    assert_eq!(schema::version(&copies::open(&folder.catalog()).unwrap()).unwrap(), 5, "it is left as it was");
    drop(Catalog::open(&folder).unwrap());

    let Some(disk) = SmallDisk::new(512, 100) else { return };
    let folder = DataFolder::create(disk.path()).unwrap();
    older(&folder, 5);
    drop(Connection::open(folder.catalog()).unwrap());
    disk.fill();
    assert!(Catalog::open(&folder).is_err());
    disk.give_room();
    assert_eq!(schema::version(&copies::open(&folder.catalog()).unwrap()).unwrap(), 5);
}

#[test]
fn a_newer_catalog_is_refused_untouched_and_an_older_backup_takes_its_place() {
    let (place, folder, catalog) = full();
    let file = place.path().join("backup.db");
    catalog.back_up(&file, Existing::IsKept).unwrap();
    catalog.connection.execute("INSERT INTO migration (version) VALUES (9999)", []).unwrap();
    drop(catalog);
    let refused = Catalog::open(&folder).unwrap_err();
    assert!(refused.what().contains("9999") && refused.remedy().contains("newer"), "{refused}");
    let found = check_catalog(&folder).unwrap();
    assert!(found.problems.len() == 1 && found.problems[0].problem.contains("9999"), "{found:?}");
    let kept = restore(folder.path(), &file).unwrap().kept.unwrap();
    assert!(has_user(&folder, "alice"));
    assert_eq!(schema::version(&copies::open(&kept).unwrap()).unwrap(), 9999);
}

#[test]
fn a_copy_without_its_log_is_told_and_one_with_it_has_everything() {
    let (place, folder, mut catalog) = full();
    // A reader keeps the last change in the log.
    let mut reader = Connection::open(folder.catalog()).unwrap();
    let reading = reader.transaction().unwrap();
    let _: i64 = reading.query_row("SELECT count(*) FROM user", [], |row| row.get(0)).unwrap();
    catalog.add_user(&"bob".parse().unwrap(), "secret", None).unwrap();
    let copied = |name: &str, with_log: bool| {
        let other = DataFolder::create(&place.path().join(name)).unwrap();
        fs::copy(folder.catalog(), other.catalog()).unwrap();
        if with_log {
            fs::copy(log_of(&folder.catalog()), log_of(&other.catalog())).unwrap();
        }
        other
    };
    let without = copied("without", false);
    let opened = Catalog::open(&without).unwrap();
    assert_eq!(opened.notices(), [Notice::WithoutLog { catalog: without.catalog() }]);
    drop(opened);
    assert!(Catalog::open(&without).unwrap().notices().is_empty());
    assert!(!has_user(&without, "bob"));
    let with = copied("with", true);
    assert!(Catalog::open(&with).unwrap().notices().is_empty() && has_user(&with, "bob"));

    let (fourth, fifth) = (copied("fourth", false), copied("fifth", true));
    let target = place.path().join("target");
    assert!(restore(&target, &fourth.catalog()).unwrap().is_without_log);
    assert!(!has_user(&DataFolder::open(&target).unwrap(), "bob"));
    assert!(!restore(&target, &fifth.catalog()).unwrap().is_without_log);
    assert!(has_user(&DataFolder::open(&target).unwrap(), "bob"));
    assert!(!restore(&target, &folder.catalog()).unwrap().is_without_log, "of a catalog in use, too");
}

#[test]
fn a_check_names_what_is_wrong_and_changes_nothing() {
    let (place, folder, catalog) = full();
    assert_eq!(check_catalog(&folder).unwrap().holds.unwrap().shares, 3);
    fs::remove_dir(place.path().join("files")).unwrap();
    let found = check_catalog(&folder).unwrap();
    assert!(found.problems.len() == 1 && found.problems[0].problem.contains("\"outside\""), "{found:?}");
    for (change, word) in [
        ("UPDATE share SET audit = 'x' WHERE name = 'fast'", "audit"),
        ("PRAGMA foreign_keys = off; UPDATE user SET account = 77", "lead to none"),
    ] {
        catalog.connection.execute_batch(change).unwrap();
        let found = check_catalog(&folder).unwrap();
        assert!(found.problems.iter().any(|one| one.problem.contains(word)), "{found:?}");
    }
    let _ = catalog.empty_log(Duration::ZERO).unwrap();
    drop(catalog);
    let bytes = fs::read(folder.catalog()).unwrap();
    check_catalog(&folder).unwrap();
    assert_eq!(fs::read(folder.catalog()).unwrap(), bytes);
    for (bytes, word) in [(&b"none"[..], "not a database"), (b"", "empty")] {
        fs::write(folder.catalog(), bytes).unwrap();
        let found = check_catalog(&folder).unwrap();
        assert!(found.problems[0].problem.contains(word) && found.holds.is_none(), "{found:?}");
    }
}
