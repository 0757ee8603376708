//! Shares that are deleted, had back and gone; and what clients of Azure Files keep of them.

use std::fs;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use super::tests::{account, at, place, ram, share};
use super::*;
use crate::{
    AccountKind, CorsRule, LeaseAction, LeaseRefusal, LeaseTime, Measure, Provision, Reason, ShareChanges, ShareName,
    StoredPolicy, lease_by,
};

/// A share without a folder of its own.
fn own(name: &str) -> NewShare {
    NewShare { source: Source::Folder { path: PathBuf::new(), quota_gib: None }, ..ram(name) }
}

fn folder_of(share: &ShareRecord) -> PathBuf {
    share.source.folder().unwrap().to_owned()
}

fn keeps(days: Option<u16>) -> AccountChanges {
    AccountChanges { retention_days: Some(days), ..AccountChanges::default() }
}

fn with_account(folder: &DataFolder) -> Catalog {
    let mut catalog = Catalog::open(folder).unwrap();
    catalog.create_account(&account("abc"), AccountKind::FileStorage).unwrap();
    catalog
}

#[test]
fn a_share_without_a_named_folder_has_one_that_goes_with_it() {
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    let made = catalog.create_share(&own("docs")).unwrap();
    let path = folder_of(&made);
    assert!(path.starts_with(folder.path()) && path.is_dir() && made.source.is_own(&folder));
    fs::write(path.join("file"), "text").unwrap();
    let taken = catalog.create_share(&own("docs")).unwrap_err();
    assert_eq!(taken.reason(), Reason::ShareExists);
    let folders = || fs::read_dir(folder.path().join("shares")).unwrap().count();
    assert_eq!(folders(), 1, "what was refused has left a folder");

    let Deletion::FilesGo(deleted) = catalog.delete_share(&share("docs")).unwrap() else { panic!("kept") };
    assert_eq!(deleted, made);
    assert!(catalog.shares().unwrap().is_empty() && catalog.deleted_shares().unwrap().is_empty());
    // The server may serve it still.
    assert!(path.is_dir());
    let again = catalog.create_share(&own("docs")).unwrap();
    assert_ne!(folder_of(&again), path);
    catalog.sweep().unwrap();
    assert!(!path.exists() && folder_of(&again).is_dir());
}

#[test]
fn a_folder_that_somebody_named_keeps_its_files() {
    let (place, folder) = place();
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    let mut catalog = with_account(&folder);
    catalog.create_share(&at("docs", &files)).unwrap();
    assert!(matches!(catalog.delete_share(&share("docs")).unwrap(), Deletion::FilesStay(_)));
    catalog.create_share(&at("docs", &files)).unwrap();
    catalog.update_account(&account("abc"), keeps(Some(1))).unwrap();
    let Deletion::Kept(kept) = catalog.delete_share(&share("docs")).unwrap() else { panic!("gone") };
    let gone = catalog.sweep_deleted(kept.kept_until).unwrap();
    assert_eq!((gone.len(), files.is_dir()), (1, true));
    catalog.create_share(&ram("disk")).unwrap();
    assert!(matches!(catalog.delete_share(&share("disk")).unwrap(), Deletion::FilesGo(_)), "a RAM disk cannot be kept");
}

#[test]
fn a_kept_share_is_had_back_with_all_that_was_its_own() {
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    assert!(catalog.update_account(&account("abc"), keeps(Some(366))).is_err());
    catalog.update_account(&account("abc"), keeps(Some(7))).unwrap();
    let kept = AzureShare { metadata: [("a".to_owned(), "b".to_owned())].into(), ..AzureShare::default() };
    let made = catalog.create_share_with(
        &own("docs"),
        &[("everyone".parse().unwrap(), server::admin::ShareRight::Read)],
        kept,
    );
    let made = made.unwrap();
    catalog.keep_permission(&account("abc"), &share("docs"), "1*2", b"descriptor").unwrap();
    fs::write(folder_of(&made).join("file"), "text").unwrap();
    let before = (catalog.grants(&share("docs")).unwrap(), catalog.azure_share(&share("docs")).unwrap().metadata);

    let Deletion::Kept(deleted) = catalog.delete_share(&share("docs")).unwrap() else { panic!("gone") };
    assert_eq!(deleted.days_left(Timestamp::now()), 7);
    catalog.create_share(&own("docs")).unwrap();
    let second = catalog.delete_share(&share("docs")).unwrap();
    assert_eq!(catalog.deleted_shares().unwrap().len(), 2);
    assert_eq!(catalog.account(&account("abc")).unwrap().shares, 0);
    assert!(catalog.delete_account(&account("abc")).unwrap_err().what().contains("2 deleted shares"));

    let undelete = |catalog: &mut Catalog, version: Option<&str>, name: Option<&str>| {
        let name: Option<ShareName> = name.map(|name| name.parse().unwrap());
        catalog.undelete_share(Some(&account("abc")), &share("docs"), version, name.as_ref())
    };
    assert_eq!(undelete(&mut catalog, Some("0"), None).unwrap_err().reason(), Reason::NoShare);
    let latest = undelete(&mut catalog, None, Some("second")).unwrap();
    assert_eq!((latest.id, latest.name.as_str()), (second.share().id, "second"));
    assert_eq!(undelete(&mut catalog, None, Some("SECOND")).unwrap_err().reason(), Reason::ShareExists);
    let back = undelete(&mut catalog, Some(&deleted.version()), None).unwrap();
    assert_eq!(back, made);
    assert_eq!(fs::read_to_string(folder_of(&back).join("file")).unwrap(), "text");
    assert_eq!(
        (catalog.grants(&share("docs")).unwrap(), catalog.azure_share(&share("docs")).unwrap().metadata),
        before
    );
    let permission = catalog.permission(&account("abc"), &share("docs"), "1*2").unwrap();
    assert_eq!(permission.as_deref(), Some(&b"descriptor"[..]));
    assert_eq!(undelete(&mut catalog, None, None).unwrap_err().reason(), Reason::NoShare);
}

#[test]
fn an_account_keeps_so_many_deleted_shares_and_no_more() {
    // Those who test against the service delete hundreds in a day, and it keeps them.
    const KEPT: usize = 1000;
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    catalog.update_account(&account("abc"), keeps(Some(7))).unwrap();
    catalog.create_account(&account("other"), AccountKind::FileStorage).unwrap();
    catalog.update_account(&account("other"), keeps(Some(7))).unwrap();
    let (docs, of_other) = (own("docs"), NewShare { account: Some(account("other")), ..own("docs") });
    catalog.create_share(&docs).unwrap();
    assert!(matches!(catalog.delete_share(&share("docs")).unwrap(), Deletion::Kept(_)));
    let one_more =
        "UPDATE copied SET id = id + 1, folded_name = '*' || (id + 1); INSERT INTO share SELECT * FROM copied;";
    let fill = format!("CREATE TEMP TABLE copied AS SELECT * FROM share; {}", one_more.repeat(KEPT - 1));
    catalog.connection.execute_batch(&fill).unwrap();
    catalog.create_share(&docs).unwrap();
    let refused = catalog.delete_share(&share("docs")).unwrap_err();
    assert_eq!((refused.reason(), refused.what().contains("1000 deleted shares")), (Reason::TooManyShares, true));
    assert!(refused.remedy().contains("share purge"), "{}", refused.remedy());
    assert_eq!(catalog.shares().unwrap().len(), 1, "it is there as before");
    catalog.purge_share(&share("docs"), None).unwrap();
    assert!(matches!(catalog.delete_share(&share("docs")).unwrap(), Deletion::Kept(_)));
    catalog.create_share(&of_other).unwrap();
    assert!(matches!(catalog.delete_share(&share("docs")).unwrap(), Deletion::Kept(_)), "accounts do not share that");
    // Who wants none kept deletes as many as it likes.
    catalog.update_account(&account("abc"), keeps(None)).unwrap();
    catalog.create_share(&docs).unwrap();
    assert!(matches!(catalog.delete_share(&share("docs")).unwrap(), Deletion::FilesGo(_)));
}

#[test]
fn a_kept_share_is_gone_when_its_time_is_over_or_it_is_purged() {
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    catalog.update_account(&account("abc"), keeps(Some(3))).unwrap();
    for name in ["one", "two"] {
        catalog.create_share(&own(name)).unwrap();
    }
    let deletions = ["one", "two"].map(|name| catalog.delete_share(&share(name)).unwrap());
    let folders = deletions.each_ref().map(|deletion| folder_of(deletion.share()));
    let Deletion::Kept(first) = &deletions[0] else { panic!("gone") };
    let before = first.kept_until.saturating_sub(SignedDuration::from_secs(2)).unwrap();
    assert!(catalog.sweep_deleted(before).unwrap().is_empty());
    catalog.purge_share(&share("two"), None).unwrap();
    catalog.sweep().unwrap();
    assert_eq!(folders.each_ref().map(|folder| folder.is_dir()), [true, false]);
    assert_eq!(catalog.sweep_deleted(first.kept_until).unwrap().len(), 1);
    empty(&folder);
    assert!(!folders[0].exists());
    // What was deleted before the account kept anything no longer is not kept shorter.
    catalog.update_account(&account("abc"), keeps(None)).unwrap();
    catalog.delete_account(&account("abc")).unwrap();
}

fn empty(folder: &DataFolder) {
    crate::gone::empty_gone(folder.path()).unwrap();
}

#[test]
fn what_is_kept_comes_with_a_backup() {
    let (place, folder) = place();
    let mut catalog = with_account(&folder);
    catalog.update_account(&account("abc"), keeps(Some(7))).unwrap();
    let rule = CorsRule {
        allowed_origins: vec!["*".into()],
        allowed_methods: vec!["GET".into()],
        allowed_headers: vec![],
        exposed_headers: vec![],
        max_age_seconds: 5,
    };
    let service = FileService { cors: vec![rule], ..FileService::default() };
    catalog.set_file_service(&account("abc"), &service).unwrap();
    for name in ["docs", "gone"] {
        catalog.create_share(&own(name)).unwrap();
    }
    let policy = StoredPolicy { id: "one".into(), start: None, expiry: None, permission: Some("r".into()) };
    let change = |kept: &mut AzureShare, _| {
        kept.policies = vec![policy.clone()];
        Ok(())
    };
    catalog.change_azure_share(&account("abc"), &share("docs"), change).unwrap();
    catalog.keep_permission(&account("abc"), &share("docs"), "1*2", b"descriptor").unwrap();
    catalog.delete_share(&share("gone")).unwrap();
    let backup = place.path().join("backup");
    assert_eq!(catalog.back_up(&backup, Existing::IsKept).unwrap().holds.shares, 1);

    catalog.undelete_share(None, &share("gone"), None, None).unwrap();
    catalog.delete_share(&share("docs")).unwrap();
    catalog.set_file_service(&account("abc"), &FileService::default()).unwrap();
    drop(catalog);
    restore_catalog(folder.path(), &backup, &mut |_| true).unwrap();
    let catalog = Catalog::open(&folder).unwrap();
    assert_eq!(catalog.file_service(&account("abc")).unwrap(), service);
    assert_eq!(catalog.azure_share(&share("docs")).unwrap().policies, [policy]);
    assert!(catalog.permission(&account("abc"), &share("docs"), "1*2").unwrap().is_some());
    assert_eq!(catalog.deleted_shares().unwrap()[0].share.name, "gone");
    assert_eq!(catalog.account(&account("abc")).unwrap().retention_days, Some(7));
    assert_eq!(check_catalog(&folder).unwrap().problems, []);
}

#[test]
fn a_leased_share_is_deleted_by_who_has_the_lease_or_an_operator() {
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    catalog.create_account(&account("other"), AccountKind::FileStorage).unwrap();
    let acquire = LeaseAction::Acquire { id: "a".to_owned(), seconds: None };
    let leased = |catalog: &mut Catalog, name: &str| {
        catalog.create_share(&own(name)).unwrap();
        let lease =
            |kept: &mut AzureShare, _| lease_by(&mut kept.lease, &acquire, LeaseTime::now()).map_err(refused_by_lease);
        catalog.change_azure_share(&account("abc"), &share(name), lease).unwrap();
    };
    leased(&mut catalog, "docs");
    let mut delete = |account: &str, lease| catalog.delete_share_of(&self::account(account), &share("docs"), lease);
    assert_eq!(delete("other", Some("a")).unwrap_err().reason(), Reason::NoShare);
    assert_eq!(delete("abc", None).unwrap_err().reason(), Reason::Lease(LeaseRefusal::IdMissing));
    assert_eq!(delete("abc", Some("b")).unwrap_err().reason(), Reason::Lease(LeaseRefusal::MismatchWithShare));
    delete("abc", Some("A")).unwrap();
    leased(&mut catalog, "more");
    let quota = ShareChanges { quota_gib: Some(std::num::NonZeroU32::new(5)), ..ShareChanges::default() };
    let mut update = |lease| catalog.update_share_of(&account("abc"), &share("more"), &quota, lease, |_, _| {});
    assert_eq!(update(Some("b")).unwrap_err().reason(), Reason::Lease(LeaseRefusal::MismatchWithShare));
    update(None).unwrap();
    update(Some("a")).unwrap();
    catalog.delete_share(&share("more")).unwrap();
}

#[test]
fn why_something_is_refused_is_told_apart() {
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    let provisioned =
        |name: &str, gib, iops| NewShare { provision: Some(Provision { gib, iops, mibps: None }), ..own(name) };
    let reason = |result: Result<ShareRecord, Error>| result.unwrap_err().reason();
    assert_eq!(reason(catalog.create_share(&provisioned("one", 1, None))), Reason::OutOfRange(Measure::Size));
    assert_eq!(reason(catalog.create_share(&provisioned("one", 100, Some(1)))), Reason::OutOfRange(Measure::Iops));
    catalog.create_share(&provisioned("one", 100, Some(5000))).unwrap();
    let mut change = |gib, iops| {
        let change = ProvisionUpdate::Change(crate::ProvisionChanges { gib, iops, mibps: None });
        reason(
            catalog.update_share(&share("one"), &ShareChanges { provision: Some(change), ..ShareChanges::default() }),
        )
    };
    assert_eq!(change(Some(50), None), Reason::TooSoon(Measure::Size));
    assert_eq!(change(None, Some(4000)), Reason::TooSoon(Measure::Iops));
    assert_eq!(reason(catalog.update_share(&share("two"), &ShareChanges::default())), Reason::NoShare);
}

#[test]
fn descriptors_are_kept_once_and_not_without_end() {
    let (_place, folder) = place();
    let mut catalog = with_account(&folder);
    catalog.create_account(&account("other"), AccountKind::FileStorage).unwrap();
    catalog.create_share(&own("docs")).unwrap();
    let abc = account("abc");
    for _ in 0..2 {
        catalog.keep_permission(&abc, &share("docs"), "1*2", b"text").unwrap();
    }
    assert_eq!(catalog.permission(&abc, &share("docs"), "1*2").unwrap().as_deref(), Some(&b"text"[..]));
    assert_eq!(catalog.permission(&abc, &share("docs"), "2*1").unwrap(), None);
    assert_eq!(catalog.permission(&account("other"), &share("docs"), "1*2").unwrap_err().reason(), Reason::NoShare);
    assert!(catalog.keep_permission(&abc, &share("docs"), "3*3", &[0; (64 << 10) + 1]).is_err());
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 4096)
                INSERT INTO permission SELECT 1, 'n' || i, x'00' FROM n";
    catalog.connection.execute_batch(fill).unwrap();
    let full = catalog.keep_permission(&abc, &share("docs"), "9*9", b"text").unwrap_err();
    assert_eq!(full.reason(), Reason::TooManyPermissions);
    catalog.keep_permission(&abc, &share("docs"), "1*2", b"text").unwrap();
    catalog.connection.execute_batch("DELETE FROM permission").unwrap();
    // Whatever one account has kept, another has room.
    let theirs = NewShare { account: Some(account("other")), ..own("theirs") };
    catalog.create_share(&theirs).unwrap();
    let mut fill = |of: &str, name: &str| {
        let each = |number: &u32| {
            let key = format!("{number}*1");
            catalog.keep_permission(&account(of), &share(name), &key, &[0; 64 << 10]).is_ok()
        };
        (0..600).take_while(each).count()
    };
    assert_eq!(fill("abc", "docs"), 256);
    assert_eq!(fill("other", "theirs"), 128);
}

#[test]
fn a_restore_names_the_shares_that_the_backup_does_not_have() {
    let (place, folder) = place();
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    let mut catalog = with_account(&folder);
    catalog.update_account(&account("abc"), keeps(Some(7))).unwrap();
    for name in ["stays", "later", "again"] {
        catalog.create_share(&own(name)).unwrap();
    }
    catalog.delete_share(&share("later")).unwrap();
    let backup = place.path().join("backup.db");
    catalog.back_up(&backup, Existing::IsKept).unwrap();

    catalog.undelete_share(None, &share("later"), None, None).unwrap();
    catalog.delete_share(&share("again")).unwrap();
    let made = [own("docs"), own("again"), own("gone"), at("outside", &files), ram("disk")];
    let made = made.map(|new| catalog.create_share(&new).unwrap());
    catalog.delete_share(&share("gone")).unwrap();
    for one in &made[..3] {
        fs::write(folder_of(one).join("file"), "text").unwrap();
    }
    assert_eq!(check_catalog(&folder).unwrap().unused_folders, [""; 0].map(PathBuf::from));
    drop(catalog);
    let lost = restore_catalog(folder.path(), &backup, &mut |_| true).unwrap().lost;
    let told: Vec<_> = lost.iter().map(|lost| (lost.share.as_str(), lost.deleted, lost.is_name_taken)).collect();
    let all = [
        ("again", false, true),
        ("disk", false, false),
        ("docs", false, false),
        ("outside", false, false),
        ("gone", true, false),
    ];
    assert_eq!(told, all);
    let folders: Vec<_> = lost.iter().map(|lost| lost.folder.clone()).collect();
    let [docs, again, gone] = [0, 1, 2].map(|at| folder_of(&made[at]));
    assert_eq!(folders, [Some(again.clone()), None, Some(docs.clone()), Some(files), Some(gone.clone())]);
    // Those on a folder of the server's own are found later, too, until they are shared again.
    assert_eq!(check_catalog(&folder).unwrap().unused_folders, [again.clone(), docs.clone(), gone.clone()]);
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_share(&at("docs", &docs)).unwrap();
    let checked = check_catalog(&folder).unwrap();
    assert_eq!((checked.unused_folders, checked.problems), (vec![again, gone], vec![]));
}
