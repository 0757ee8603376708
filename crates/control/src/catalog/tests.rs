//! The catalog as its callers see it.

use std::collections::HashSet;
use std::fs;
use std::num::{NonZeroU32, NonZeroU64};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use base64::Engine;
use server::admin::{AuditClass, AuditClasses, Multichannel};
use tempfile::TempDir;

use super::*;
use crate::small_disk::SmallDisk;
use crate::{AccountKind, Belief, BeliefChanges, Control, Fault, Overrides, ShareName, UserName};

pub(super) fn place() -> (TempDir, DataFolder) {
    let place = tempfile::tempdir().unwrap();
    let folder = DataFolder::create(&place.path().join("data")).unwrap();
    (place, folder)
}

pub(super) fn account(name: &str) -> AccountName {
    name.parse().unwrap()
}

pub(super) fn user(name: &str) -> UserName {
    name.parse().unwrap()
}

/// A RAM disk of no account.
pub(crate) fn ram(name: &str) -> NewShare {
    NewShare::new(name.parse().unwrap(), Source::Ram { bytes: NonZeroU64::new(1 << 20).unwrap() })
}

pub(super) fn at(name: &str, path: &Path) -> NewShare {
    NewShare { source: Source::Folder { path: path.to_owned(), quota_gib: None }, ..ram(name) }
}

fn multichannel(to: Multichannel) -> AccountChanges {
    AccountChanges { multichannel: Some(to), ..AccountChanges::default() }
}

pub(super) fn share(name: &str) -> ShareName {
    name.parse().unwrap()
}

#[test]
fn emptied_catalog_is_no_first_start() {
    let (_place, folder) = place();
    // What a first start leaves that was cut off before anything was in the catalog is begun again.
    fs::write(folder.catalog(), "").unwrap();
    drop(Catalog::open(&folder).unwrap());
    fs::create_dir(folder.opens()).unwrap();
    drop(Catalog::open(&folder).unwrap());
    fs::write(folder.catalog(), "").unwrap();
    let error = Catalog::open(&folder).unwrap_err();
    assert!(error.what().contains("is empty") && error.remedy().contains("restore"), "{error}");
    fs::remove_file(folder.catalog()).unwrap();
    assert!(Catalog::open(&folder).unwrap().is_new().unwrap());
}

#[test]
fn a_copy_of_the_catalog_without_its_log_has_what_was_made_while_it_was_open() {
    let ((_place, folder), (_other_place, other)) = (place(), place());
    let mut catalog = Catalog::open(&folder).unwrap();
    let account: AccountName = "copied".parse().unwrap();
    catalog.create_account(&account, AccountKind::FileStorage).unwrap();
    fs::copy(folder.catalog(), other.catalog()).unwrap();
    assert_eq!(Catalog::open(&other).unwrap().account(&account).unwrap().name, "copied");
}

#[test]
fn a_catalog_that_was_closed_is_read_where_the_disk_is_full() {
    let Some(disk) = SmallDisk::new(512, 100) else { return };
    let folder = DataFolder::create(disk.path()).unwrap();
    let locked = folder.lock().unwrap();
    Catalog::open(&folder).unwrap().create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    drop(locked);
    disk.fill();

    let _locked = folder.lock().unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("lock")).unwrap().trim(), std::process::id().to_string());
    let mut catalog = Catalog::open(&folder).unwrap();
    assert_eq!(catalog.snapshot().unwrap().accounts.len(), 1);
    let refused = catalog.create_account(&account("more"), AccountKind::FileStorage).unwrap_err();
    assert!(refused.remedy().contains("free some space"), "{refused}");
    disk.give_room();
    catalog.create_account(&account("more"), AccountKind::FileStorage).unwrap();
}

#[test]
fn the_log_is_left_for_the_next_and_nothing_in_it() {
    let (_place, folder) = place();
    Catalog::open(&folder).unwrap().create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    assert_eq!(fs::metadata(folder.path().join("catalog.db-wal")).unwrap().len(), 0);
    assert!(folder.path().join("catalog.db-shm").exists());
    // A copy of catalog.db alone is the whole catalog.
    let (_place, copy) = place();
    fs::copy(folder.catalog(), copy.catalog()).unwrap();
    assert_eq!(Catalog::open(&copy).unwrap().snapshot().unwrap().accounts.len(), 1);
}

#[test]
fn files_are_for_their_owner_only() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let mut seen = 0;
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{:?}", file.path());
        seen += 1;
    }
    assert!(seen >= 2, "the catalog and its log");
}

#[test]
fn loose_catalog_is_closed_when_opened() {
    let (_place, folder) = place();
    drop(Catalog::open(&folder).unwrap());
    fs::set_permissions(folder.catalog(), fs::Permissions::from_mode(0o644)).unwrap();
    drop(Catalog::open(&folder).unwrap());
    assert_eq!(fs::metadata(folder.catalog()).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn everything_is_there_after_reopening() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::StorageV2).unwrap();
    catalog.add_user(&user("Alice"), "secret", None).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    let (keys, settings) = (catalog.keys(&account("abc")).unwrap(), catalog.settings().unwrap());
    drop(catalog);

    let mut catalog = Catalog::open(&folder).unwrap();
    assert_eq!(catalog.account(&account("abc")).unwrap().kind, AccountKind::StorageV2);
    assert!(catalog.keys(&account("abc")).unwrap() == keys);
    assert_eq!(catalog.users().unwrap()[0].name, "Alice");
    assert_eq!(catalog.shares().unwrap()[0].name, "fast");
    assert_eq!(catalog.settings().unwrap(), settings);
}

#[test]
fn file_that_is_no_catalog_is_refused_untouched() {
    let (_place, folder) = place();
    fs::write(folder.catalog(), "these are not tables ".repeat(100)).unwrap();
    let error = Catalog::open(&folder).unwrap_err();
    assert_eq!(error.fault(), Fault::Machine);
    assert!(error.remedy().contains("catalog.db"), "{error}");
    assert!(fs::read_to_string(folder.catalog()).unwrap().starts_with("these"));
}

#[test]
fn keys_are_64_random_bytes_and_change_one_at_a_time() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let old = catalog.keys(&account("abc")).unwrap();
    assert_ne!(old.key1, old.key2);
    assert_eq!(base64::prelude::BASE64_STANDARD.decode(&old.key1).unwrap().len(), 64);

    let new = catalog.regenerate_key(&account("abc"), Key::One, None).unwrap();
    assert!(new.key1 != old.key1 && new.key2 == old.key2);
    let newer = catalog.regenerate_key(&account("abc"), Key::Two, None).unwrap();
    assert!(newer.key1 == new.key1 && newer.key2 != new.key2);
    assert_eq!(catalog.regenerate_key(&account("nobody"), Key::One, None).unwrap_err().fault(), Fault::Missing);
    assert!(!format!("{newer:?}").contains(&newer.key1));
}

#[test]
fn names_are_taken_whatever_their_case_and_kind() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    catalog.add_user(&user("Jörg"), "secret", None).unwrap();
    catalog.create_share(&ram("Team")).unwrap();

    assert_eq!(catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.add_user(&user("ABC"), "x", None).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.add_user(&user("jÖRG"), "x", None).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.create_share(&ram("TEAM")).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.share(&share("tEAM")).unwrap().name, "Team");
    catalog.remove_user(&user("JÖRG")).unwrap();
    catalog.delete_share(&share("team")).unwrap();
    assert!(catalog.users().unwrap().is_empty() && catalog.shares().unwrap().is_empty());
}

#[test]
fn relative_ids_start_at_1000_and_never_return() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    assert!(catalog.is_new().unwrap());
    let first = catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    assert_eq!(first.relative_id, 1000);
    let alice = catalog.add_user(&user("alice"), "secret", None).unwrap().relative_id;
    catalog.remove_user(&user("alice")).unwrap();
    assert!(catalog.add_user(&user("alice"), "secret", None).unwrap().relative_id > alice);
    assert_eq!(catalog.remove_user(&user("bob")).unwrap_err().fault(), Fault::Missing);
    catalog.remove_user(&user("alice")).unwrap();
    catalog.delete_account(&account("abc")).unwrap();
    assert!(!catalog.is_new().unwrap());
}

#[test]
fn account_with_shares_or_users_stays() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    catalog.create_share(&ram("fast")).unwrap();
    let error = catalog.delete_account(&account("abc")).unwrap_err();
    assert_eq!((error.fault(), error.what()), (Fault::Conflict, "account \"abc\" has 1 share"));
    catalog.delete_share(&share("fast")).unwrap();
    catalog.add_user(&user("alice"), "secret", None).unwrap();
    assert_eq!(catalog.account(&account("abc")).unwrap().users, 1);
    assert_eq!(catalog.delete_account(&account("abc")).unwrap_err().fault(), Fault::Conflict);
    catalog.remove_user(&user("alice")).unwrap();
    catalog.delete_account(&account("abc")).unwrap();
    assert_eq!(catalog.delete_account(&account("abc")).unwrap_err().fault(), Fault::Missing);
    assert_eq!(catalog.keys(&account("abc")).unwrap_err().fault(), Fault::Missing);
}

#[test]
fn users_and_shares_go_to_the_oldest_account_unless_one_is_named() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    assert_eq!(catalog.add_user(&user("alice"), "secret", None).unwrap_err().fault(), Fault::Missing);
    for name in ["zzz", "aaa"] {
        catalog.create_account(&account(name), AccountKind::FileStorage).unwrap();
    }
    assert_eq!(catalog.add_user(&user("alice"), "secret", None).unwrap().account, "zzz");
    assert_eq!(catalog.add_user(&user("bob"), "secret", Some(&account("aaa"))).unwrap().account, "aaa");
    let named = NewShare { account: Some(account("aaa")), ..ram("fast") };
    assert_eq!(catalog.create_share(&named).unwrap().account, "aaa");
    let nowhere = NewShare { account: Some(account("bbb")), ..ram("other") };
    assert_eq!(catalog.create_share(&nowhere).unwrap_err().fault(), Fault::Missing);
}

#[test]
fn passwords_are_kept_as_hashes_only() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    catalog.add_user(&user("alice"), "correct horse battery", None).unwrap();
    for bad in ["", "x".repeat(1025).as_str()] {
        assert_eq!(catalog.add_user(&user("bob"), bad, None).unwrap_err().fault(), Fault::Argument);
    }
    let snapshot = catalog.snapshot().unwrap();
    assert_eq!(snapshot.users[0].1, Some(server::admin::nt_hash("correct horse battery")));
    drop(catalog);
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        for secret in [&b"correct horse"[..], &b"c\0o\0r\0r\0e\0c\0t\0"[..]] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        }
    }
}

#[test]
fn another_password_leaves_the_user_and_nothing_of_the_old_one() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let added = catalog.add_user(&user("alice"), "first", None).unwrap();
    catalog.add_user(&user("bob"), "his own", None).unwrap();
    catalog.set_password(&user("ALICE"), "second", None).unwrap();
    assert_eq!(catalog.set_password(&user("alice"), "", None).unwrap_err().fault(), Fault::Argument);
    assert_eq!(catalog.set_password(&user("carol"), "hers", None).unwrap_err().fault(), Fault::Missing);
    let users = catalog.snapshot().unwrap().users;
    assert_eq!(users[0], (added, Some(server::admin::nt_hash("second"))));
    assert_eq!(users[1].1, Some(server::admin::nt_hash("his own")));
    drop(catalog);
    let old = server::admin::nt_hash("first");
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(old.len()).any(|window| window == *old));
    }
}

#[test]
fn folders_are_kept_whole_and_must_be_folders() {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    std::os::unix::fs::symlink(&files, place.path().join("link")).unwrap();
    fs::write(place.path().join("file"), "").unwrap();

    let made = catalog.create_share(&at("one", &place.path().join("data/../link"))).unwrap();
    let whole = fs::canonicalize(&files).unwrap();
    assert_eq!(made.source, Source::Folder { path: whole, quota_gib: None });
    for wrong in ["nowhere", "file"] {
        let error = catalog.create_share(&at("two", &place.path().join(wrong))).unwrap_err();
        assert_eq!(error.fault(), Fault::Argument, "{error}");
    }
}

#[test]
fn folder_with_the_keys_in_it_is_never_shared() {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    std::os::unix::fs::symlink(folder.path(), place.path().join("link")).unwrap();
    for wrong in [folder.path(), place.path(), Path::new("/"), &place.path().join("link")] {
        let error = catalog.create_share(&at("leak", wrong)).unwrap_err();
        assert!(error.what().contains("keys"), "{error}");
    }
    fs::create_dir(folder.first_share()).unwrap();
    catalog.create_share(&at("fine", &folder.first_share())).unwrap();
}

#[test]
fn share_changes_touch_only_what_they_name() {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    let made = catalog.create_share(&at("one", &files)).unwrap();

    let quota = NonZeroU32::new(5);
    let sealed = ShareChanges { seal_required: Some(true), quota_gib: Some(quota), ..ShareChanges::default() };
    let changed = catalog.update_share(&share("ONE"), &sealed).unwrap();
    let Source::Folder { path, .. } = made.source.clone() else { panic!("a folder") };
    let source = Source::Folder { path, quota_gib: quota };
    assert_eq!(changed, ShareRecord { seal_required: true, source, ..made });
    assert_eq!(catalog.share(&share("one")).unwrap(), changed);

    let comment = ShareChanges { comment: Some("for all".to_owned()), ..ShareChanges::default() };
    assert_eq!(catalog.update_share(&share("one"), &comment).unwrap().comment, "for all");
    let classes = AuditClasses::of(AuditClass::Delete).with(AuditClass::SignIn);
    let audited = ShareChanges { audit: Some(classes), ..ShareChanges::default() };
    assert_eq!(catalog.update_share(&share("one"), &audited).unwrap().audit, classes);
    assert_eq!(catalog.update_share(&share("one"), &comment).unwrap().audit, classes);
    let unbounded = ShareChanges { quota_gib: Some(None), read_only: Some(true), ..ShareChanges::default() };
    assert!(catalog.update_share(&share("one"), &unbounded).unwrap().read_only);
    let for_backups = ShareChanges { time_machine: Some(true), ..ShareChanges::default() };
    assert!(catalog.update_share(&share("one"), &for_backups).unwrap().time_machine);
    assert!(catalog.update_share(&share("one"), &comment).unwrap().time_machine);
    for wrong in ["two\nlines".to_owned(), "x".repeat(257)] {
        let wrong = ShareChanges { comment: Some(wrong), ..ShareChanges::default() };
        assert_eq!(catalog.update_share(&share("one"), &wrong).unwrap_err().fault(), Fault::Argument);
    }
    assert_eq!(catalog.update_share(&share("two"), &comment).unwrap_err().fault(), Fault::Missing);
    catalog.create_share(&ram("fast")).unwrap();
    assert_eq!(catalog.update_share(&share("fast"), &sealed).unwrap_err().fault(), Fault::Argument);
}

#[test]
fn what_is_believed_of_a_share_is_kept_and_nothing_is_changed_by_what_is_refused() {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    let exclusive = BeliefChanges { exclusive: Some(true), believed: None };
    let shared = BeliefChanges { exclusive: Some(false), believed: None };
    let believed = |text: &str| BeliefChanges { exclusive: None, believed: Some(text.parse().unwrap()) };
    let milliseconds = |milliseconds| Belief::For(Duration::from_millis(milliseconds));

    assert_eq!(catalog.create_share(&at("usual", &files)).unwrap().belief, milliseconds(1_000));
    for (name, belief, made) in [
        ("mine", exclusive, Belief::Lasting),
        ("never", believed("0s"), milliseconds(0)),
        ("long", believed("60s"), milliseconds(60_000)),
    ] {
        let new = NewShare { belief, ..at(name, &files) };
        assert_eq!(catalog.create_share(&new).unwrap().belief, made, "{name}");
        assert_eq!(catalog.share(&share(name)).unwrap().belief, made, "{name}");
    }
    let both = BeliefChanges { exclusive: Some(true), ..believed("2s") };
    let refused = catalog.create_share(&NewShare { belief: both, ..at("both", &files) }).unwrap_err();
    assert_eq!(refused.fault(), Fault::Argument);

    let change = |belief| ShareChanges { comment: Some("changed".to_owned()), belief, ..ShareChanges::default() };
    let mut update = |name, belief| catalog.update_share(&share(name), &change(belief)).map(|share| share.belief);
    assert_eq!(update("usual", believed("500ms")), Ok(milliseconds(500)));
    assert_eq!(update("usual", BeliefChanges::default()), Ok(milliseconds(500)));
    assert_eq!(update("long", exclusive), Ok(Belief::Lasting));
    assert_eq!(update("long", shared), Ok(milliseconds(1_000)));
    assert_eq!(update("mine", believed("2s")).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(update("mine", both).unwrap_err().fault(), Fault::Argument);
    let mine = catalog.share(&share("mine")).unwrap();
    assert_eq!((mine.belief, mine.comment.as_str()), (Belief::Lasting, ""));
}

#[test]
fn nobody_else_changes_a_ram_disk_whatever_is_said() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    assert_eq!(catalog.create_share(&ram("fast")).unwrap().belief, Belief::Lasting);
    for belief in [
        BeliefChanges { exclusive: Some(true), believed: None },
        BeliefChanges { exclusive: Some(false), believed: None },
        BeliefChanges { exclusive: None, believed: Some("1s".parse().unwrap()) },
    ] {
        let new = NewShare { belief, ..ram("other") };
        let changes = ShareChanges { belief, ..ShareChanges::default() };
        for refused in [catalog.create_share(&new), catalog.update_share(&share("fast"), &changes)] {
            let error = refused.unwrap_err();
            assert!(error.fault() == Fault::Argument && error.what().contains("RAM disk"), "{error}");
        }
    }
    assert_eq!(catalog.shares().unwrap().len(), 1);
    assert_eq!(catalog.share(&share("fast")).unwrap().belief, Belief::Lasting);
}

#[test]
fn writers_at_once_all_succeed() {
    const WRITERS: usize = 4;
    const EACH: usize = 10;
    let (_place, folder) = place();
    Catalog::open(&folder).unwrap().create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let together = Barrier::new(WRITERS);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (together, folder) = (&together, &folder);
            scope.spawn(move || {
                together.wait();
                let mut catalog = Catalog::open(folder).unwrap();
                for number in 0..EACH {
                    catalog.add_user(&user(&format!("user-{writer}-{number}")), "secret", None).unwrap();
                    catalog.snapshot().unwrap();
                }
            });
        }
    });
    let users = Catalog::open(&folder).unwrap().users().unwrap();
    let ids: HashSet<u32> = users.iter().map(|user| user.relative_id).collect();
    assert_eq!((users.len(), ids.len()), (WRITERS * EACH, WRITERS * EACH));
}

#[test]
fn of_many_who_want_one_name_one_gets_it() {
    const WRITERS: usize = 8;
    let (_place, folder) = place();
    let together = Barrier::new(WRITERS);
    let won: usize = thread::scope(|scope| {
        let all: Vec<_> = (0..WRITERS)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    // The first opening raises the schema: that race is part of the test.
                    let made =
                        Catalog::open(&folder).unwrap().create_account(&account("abc"), AccountKind::FileStorage);
                    usize::from(made.is_ok())
                })
            })
            .collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn multichannel_is_off_until_switched_on_and_for_file_storage_alone() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("premium"), AccountKind::FileStorage).unwrap();
    catalog.create_account(&account("general"), AccountKind::StorageV2).unwrap();
    assert_eq!(catalog.account(&account("premium")).unwrap().multichannel, Multichannel::Off);
    catalog.update_account(&account("premium"), multichannel(Multichannel::On)).unwrap();
    assert_eq!(catalog.account(&account("premium")).unwrap().multichannel, Multichannel::On);
    let refused = catalog.update_account(&account("general"), multichannel(Multichannel::On)).unwrap_err();
    assert_eq!(refused.fault(), Fault::Conflict);
    catalog.update_account(&account("general"), multichannel(Multichannel::Off)).unwrap();
    assert_eq!(
        catalog.update_account(&account("nobody"), multichannel(Multichannel::On)).unwrap_err().fault(),
        Fault::Missing
    );
}

#[test]
fn every_data_folder_has_an_identity_of_its_own() {
    let ((_one, first), (_two, second)) = (place(), place());
    let first = Catalog::open(&first).unwrap().settings().unwrap();
    let second = Catalog::open(&second).unwrap().settings().unwrap();
    assert_ne!(first.server_guid, second.server_guid);
    assert_ne!(first.machine_sid, second.machine_sid);
}

/// True where some file of the data folder has these bytes.
fn holds(folder: &DataFolder, secret: &[u8]) -> bool {
    let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.is_file()).map(|path| fs::read(path).unwrap());
    files.any(|bytes| bytes.windows(secret.len()).any(|window| window == secret))
}

#[test]
fn nothing_of_a_secret_that_was_taken_away_stays_in_the_catalogs_files() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    let kept = catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap().name;
    catalog.create_account(&account("gone"), AccountKind::FileStorage).unwrap();
    let keys = catalog.keys(&account("gone")).unwrap();
    let old = catalog.keys(&account(&kept)).unwrap();
    catalog.add_user(&user("alice"), "correct horse battery", None).unwrap();
    let hash = server::admin::nt_hash("correct horse battery");
    let holds = |secret: &[u8]| holds(&folder, secret);
    assert!(holds(&*hash) && holds(keys.key1.as_bytes()) && holds(old.key1.as_bytes()));
    catalog.remove_user(&user("alice")).unwrap();
    assert!(!holds(&*hash));
    catalog.delete_account(&account("gone")).unwrap();
    assert!(!holds(keys.key1.as_bytes()));
    catalog.regenerate_key(&account(&kept), Key::One, None).unwrap();
    assert!(!holds(old.key1.as_bytes()) && holds(old.key2.as_bytes()));
}

#[test]
fn what_another_program_reads_as_it_is_taken_away_is_forgotten_later() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    catalog.add_user(&user("alice"), "correct horse battery", None).unwrap();
    let hash = server::admin::nt_hash("correct horse battery");
    let holds = || holds(&folder, &*hash);
    let server = Control::new(&folder, Catalog::open(&folder).unwrap(), Overrides::default());
    for later in [Later::ByTheServer, Later::ByACommand] {
        let mut reader = rusqlite::Connection::open(folder.catalog()).unwrap();
        let reading = reader.transaction().unwrap();
        reading.query_row("SELECT count(*) FROM user", [], |row| row.get::<_, i64>(0)).unwrap();
        catalog.set_password(&user("alice"), "another", None).unwrap();
        assert!(!catalog.empty_log(Duration::from_millis(10)).unwrap());
        assert!(holds(), "it is being read");
        drop(reading);
        drop(reader);
        match later {
            Later::ByTheServer => server.forget_rest(),
            Later::ByACommand => drop(Catalog::open(&folder).unwrap()),
        }
        assert!(!holds());
        catalog.set_password(&user("alice"), "correct horse battery", None).unwrap();
    }
}

enum Later {
    ByTheServer,
    ByACommand,
}

#[test]
fn a_share_in_the_data_folder_is_found_where_that_has_moved_and_others_stay() {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    let outside = place.path().join("data-not");
    fs::create_dir(&outside).unwrap();
    fs::create_dir_all(folder.path().join("in/here")).unwrap();
    catalog.create_share(&at("inside", &folder.path().join("in/here"))).unwrap();
    catalog.create_share(&at("outside", &outside)).unwrap();
    drop(catalog);
    let moved = place.path().join("moved");
    fs::rename(folder.path(), &moved).unwrap();
    let folder = DataFolder::open(&moved).unwrap();
    let path = |name: &str| match Catalog::open(&folder).unwrap().share(&share(name)).unwrap().source {
        Source::Folder { path, .. } => path,
        Source::Ram { .. } => panic!("a folder"),
    };
    assert_eq!(path("inside"), folder.path().join("in/here"));
    assert_eq!(path("outside"), fs::canonicalize(outside).unwrap());
}
