//! Provisioned shares, and limits of the operator's own.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Barrier;
use std::{fs, thread};

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::tests::{account, at, place, ram, share};
use super::*;
use crate::provisioning::next_decrease;
use crate::{
    AccountKind, AccountPlan, Fault, LimitChanges, Provision, ProvisionChanges, ProvisionModel, ShareLimits,
    ShareProperties, Sku,
};

/// A catalog with one account, which is of `sku` or local.
fn catalog(sku: Option<Sku>) -> (TempDir, DataFolder, Catalog) {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("abc"), AccountPlan::new(None, sku, None).unwrap()).unwrap();
    (place, folder, catalog)
}

fn provisioned(name: &str, gib: u32, iops: Option<u32>, mibps: Option<u32>) -> NewShare {
    NewShare { provision: Some(Provision { gib, iops, mibps }), ..ram(name) }
}

fn change(gib: Option<u32>, iops: Option<u32>, mibps: Option<u32>) -> ShareChanges {
    let provision = Some(ProvisionUpdate::Change(ProvisionChanges { gib, iops, mibps }));
    ShareChanges { provision, ..ShareChanges::default() }
}

fn removal() -> ShareChanges {
    ShareChanges { provision: Some(ProvisionUpdate::Remove), ..ShareChanges::default() }
}

fn hours(count: i64) -> SignedDuration {
    SignedDuration::from_hours(count)
}

#[test]
fn the_skus_model_or_what_is_said_decides_how_a_share_is_provisioned() {
    use ProvisionModel::{V1, V2};
    let cases = [
        (Some(Sku::PremiumLrs), None, V1, 3_500),
        (Some(Sku::PremiumV2Lrs), None, V2, 3_500),
        (Some(Sku::PremiumV2Zrs), Some(4_000), V2, 4_000),
        (None, None, V1, 3_500),
        (None, Some(4_000), V2, 4_000),
    ];
    for (sku, iops, model, has) in cases {
        let (_place, folder, mut catalog) = catalog(sku);
        let made = catalog.create_share(&provisioned("one", 500, iops, None)).unwrap();
        let has_now = made.provisioned.map(|it| (it.model, it.gib, it.iops, it.mibps));
        assert_eq!(has_now, Some((model, 500, has, 150)), "{sku:?}");
        drop(catalog);
        assert_eq!(Catalog::open(&folder).unwrap().share(&share("one")).unwrap(), made);
    }
    let (_place, _folder, mut catalog) = catalog(Some(Sku::PremiumLrs));
    let refused = catalog.create_share(&provisioned("one", 500, Some(4_000), None)).unwrap_err();
    assert!(refused.fault() == Fault::Conflict && refused.remedy().contains("PremiumV2_LRS"), "{refused}");
    assert!(catalog.shares().unwrap().is_empty());
}

#[test]
fn some_accounts_have_provisioned_shares_alone_and_others_none() {
    for (sku, sizes) in [(Sku::PremiumLrs, "100 to 102400"), (Sku::PremiumV2Lrs, "32 to 262144")] {
        let (_place, _folder, mut catalog) = catalog(Some(sku));
        let refused = catalog.create_share(&ram("one")).unwrap_err();
        assert!(refused.fault() == Fault::Conflict && refused.remedy().contains(sizes), "{refused}");
        catalog.create_share(&provisioned("one", 100, None, None)).unwrap();
        assert_eq!(catalog.update_share(&share("one"), &removal()).unwrap_err().fault(), Fault::Conflict);
    }
    let (_place, _folder, mut catalog) = catalog(Some(Sku::StandardLrs));
    catalog.create_account(&account("general"), AccountKind::StorageV2).unwrap();
    catalog.create_share(&ram("one")).unwrap();
    for name in ["abc", "general"] {
        let new = NewShare { account: Some(account(name)), ..provisioned("two", 100, None, None) };
        let refused = catalog.create_share(&new).unwrap_err();
        assert!(refused.fault() == Fault::Conflict && refused.remedy().contains("kind FileStorage"), "{refused}");
    }
    for changes in [change(Some(100), None, None), change(None, Some(5_000), None)] {
        let refused = catalog.update_share(&share("one"), &changes).unwrap_err();
        assert!(refused.remedy().contains("kind FileStorage"), "{refused}");
    }
    catalog.update_share(&share("one"), &removal()).unwrap();
    assert_eq!(catalog.shares().unwrap().len(), 1);
}

#[test]
fn the_provisioned_size_is_the_quota_of_a_folder() {
    let (place, _folder, mut catalog) = catalog(None);
    let files = place.path().join("files");
    fs::create_dir(&files).unwrap();
    let quota = |catalog: &Catalog| catalog.share(&share("one")).unwrap().source.quota_gib().map(NonZeroU32::get);
    let both = NewShare {
        source: Source::Folder { path: files.clone(), quota_gib: NonZeroU32::new(5) },
        ..provisioned("one", 100, None, None)
    };
    assert!(catalog.create_share(&both).unwrap_err().remedy().contains("--provisioned"));
    catalog.create_share(&NewShare { provision: both.provision, ..at("one", &files) }).unwrap();
    assert_eq!(quota(&catalog), Some(100));
    catalog.update_share(&share("one"), &change(Some(200), None, None)).unwrap();
    assert_eq!(quota(&catalog), Some(200));
    let other = ShareChanges { quota_gib: Some(NonZeroU32::new(7)), ..ShareChanges::default() };
    let refused = catalog.update_share(&share("one"), &other).unwrap_err();
    assert!(refused.fault() == Fault::Conflict && refused.remedy().contains("--provisioned"), "{refused}");
    assert_eq!(quota(&catalog), Some(200));
    assert_eq!(catalog.update_share(&share("one"), &removal()).unwrap().provisioned, None);
    assert_eq!(quota(&catalog), None);
    // To provision no longer what is not provisioned changes nothing.
    catalog.update_share(&share("one"), &other).unwrap();
    catalog.update_share(&share("one"), &removal()).unwrap();
    assert_eq!(quota(&catalog), Some(7));
}

#[test]
fn a_ram_disk_fits_into_what_is_provisioned() {
    let (_place, _folder, mut catalog) = catalog(None);
    let of = |bytes: u64| Source::Ram { bytes: NonZeroU64::new(bytes).unwrap() };
    let new = |bytes| NewShare { source: of(bytes), ..provisioned("one", 100, None, None) };
    let refused = catalog.create_share(&new((100 << 30) + 1)).unwrap_err();
    assert!(refused.fault() == Fault::Argument && refused.what().contains("larger than the 100 GiB"), "{refused}");
    let made = catalog.create_share(&new(100 << 30)).unwrap();
    assert_eq!(made.source, of(100 << 30));
    let day = Timestamp::now() + hours(25);
    let more = catalog.update_share(&share("one"), &change(Some(200), None, None)).unwrap();
    let less = change(Some(99), Some(5_000), None);
    assert!(catalog.update_share_at(&share("one"), &less, day).unwrap_err().what().contains("99 GiB"));
    assert_eq!(catalog.share(&share("one")).unwrap(), more);
}

#[test]
fn a_decrease_is_refused_until_a_day_after_the_last_increase() {
    let (_place, _folder, mut catalog) = catalog(Some(Sku::PremiumV2Lrs));
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let made = catalog
        .create_share_at(&provisioned("one", 500, Some(5_000), Some(300)), &[], AzureShare::default(), now)
        .unwrap();
    let at = |catalog: &mut Catalog, hour, changes: &ShareChanges| {
        catalog.update_share_at(&share("one"), changes, now + hours(hour))
    };
    let down = change(None, Some(4_000), None);
    let refused = at(&mut catalog, 23, &down).unwrap_err();
    assert!(refused.fault() == Fault::Conflict && refused.what().contains("2026-03-02T12:00:00Z"), "{refused}");
    assert_eq!(catalog.share(&share("one")).unwrap(), made);
    at(&mut catalog, 20, &change(Some(600), None, None)).unwrap();
    // Each value has a time of its own.
    at(&mut catalog, 24, &down).unwrap();
    let refused = at(&mut catalog, 24, &change(Some(599), None, Some(200))).unwrap_err();
    assert!(refused.what().contains("2026-03-03T08:00:00Z"), "{refused}");
    let last = at(&mut catalog, 44, &change(Some(599), None, Some(200))).unwrap();
    let has = last.provisioned.unwrap();
    assert_eq!((has.gib, has.iops, has.mibps), (599, 4_000, 200));
    // A change of something else is no increase.
    let comment = ShareChanges { comment: Some("for all".to_owned()), ..ShareChanges::default() };
    assert_eq!(at(&mut catalog, 50, &comment).unwrap().provisioned, last.provisioned);
}

#[test]
fn a_local_share_is_provisioned_and_changes_its_model_as_it_is_told() {
    let (_place, _folder, mut catalog) = catalog(None);
    catalog.create_share(&ram("one")).unwrap();
    let update = |catalog: &mut Catalog, changes: &ShareChanges| catalog.update_share(&share("one"), changes);
    let refused = update(&mut catalog, &change(None, Some(5_000), None)).unwrap_err();
    assert!(refused.remedy().contains("--provisioned GIB") && refused.remedy().contains("--iops-max"), "{refused}");
    let v1 = update(&mut catalog, &change(Some(500), None, None)).unwrap().provisioned.unwrap();
    assert_eq!(v1.model, ProvisionModel::V1);
    let v2 = update(&mut catalog, &change(None, Some(5_000), None)).unwrap().provisioned.unwrap();
    assert_eq!((v2.model, v2.gib, v2.iops, v2.mibps), (ProvisionModel::V2, 500, 5_000, v1.mibps));
    // It was increased, so it may not be decreased yet.
    assert_eq!(update(&mut catalog, &change(None, Some(4_000), None)).unwrap_err().fault(), Fault::Conflict);
    update(&mut catalog, &removal()).unwrap();
    let v2 = update(&mut catalog, &change(Some(40), None, Some(200))).unwrap().provisioned.unwrap();
    assert_eq!((v2.model, v2.gib, v2.iops, v2.mibps), (ProvisionModel::V2, 40, 3_040, 200));
    // Only those of an account with a SKU share what that may have.
    for number in 0..3 {
        catalog.create_share(&provisioned(&format!("other{number}"), 102_400, None, None)).unwrap();
    }
}

#[test]
fn the_shares_of_an_account_keep_to_its_sums() {
    let (_place, _folder, mut v2) = catalog(Some(Sku::PremiumV2Lrs));
    v2.create_share(&provisioned("one", 200_000, Some(60_000), Some(6_000))).unwrap();
    v2.create_account(&account("other"), AccountPlan::new(None, Some(Sku::PremiumV2Lrs), None).unwrap()).unwrap();
    let of_other = NewShare { account: Some(account("other")), ..provisioned("big", 262_144, Some(102_400), None) };
    v2.create_share(&of_other).unwrap();
    for (new, left) in [
        (provisioned("two", 62_145, Some(3_000), Some(100)), "62144 GiB left"),
        (provisioned("two", 62_144, Some(42_401), Some(100)), "42400 IOPS left"),
        (provisioned("two", 62_144, Some(42_400), Some(4_341)), "4340 MiB/s left"),
    ] {
        let refused = v2.create_share(&new).unwrap_err();
        assert!(refused.fault() == Fault::Conflict && refused.what().contains(left), "{refused}");
    }
    v2.create_share(&provisioned("two", 62_144, Some(42_400), Some(4_340))).unwrap();
    let refused = v2.update_share(&share("ONE"), &change(None, Some(60_001), None)).unwrap_err();
    assert!(refused.what().contains("60000 IOPS left"), "{refused}");
    v2.delete_share(&share("two")).unwrap();
    v2.update_share(&share("one"), &change(None, Some(102_400), None)).unwrap();

    let (_place, _folder, mut v1) = catalog(Some(Sku::PremiumLrs));
    v1.create_share(&provisioned("one", 102_300, None, None)).unwrap();
    assert!(v1.create_share(&provisioned("two", 101, None, None)).unwrap_err().what().contains("100 GiB left"));
    v1.create_share(&provisioned("two", 100, None, None)).unwrap();
}

#[test]
fn of_two_who_take_the_rest_of_an_account_at_once_one_gets_it() {
    let (_place, folder, catalog) = catalog(Some(Sku::PremiumV2Lrs));
    drop(catalog);
    let together = Barrier::new(4);
    let won = thread::scope(|scope| {
        let take = |number: usize| {
            let (together, folder) = (&together, &folder);
            scope.spawn(move || {
                let mut catalog = Catalog::open(folder).unwrap();
                together.wait();
                catalog.create_share(&provisioned(&format!("share{number}"), 32, Some(60_000), None)).is_ok()
            })
        };
        let all: Vec<_> = (0..4).map(take).collect();
        all.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
    });
    assert_eq!(won, 1);
}

#[test]
fn a_share_has_limits_of_the_operators_own() {
    let (_place, _folder, mut catalog) = catalog(None);
    let limits = ShareLimits {
        iops_max: NonZeroU32::new(1_000),
        mibps_max: NonZeroU32::new(50),
        user_iops_max: NonZeroU32::new(100),
        user_mibps_max: NonZeroU32::new(5),
    };
    let made = catalog.create_share(&NewShare { limits, ..ram("one") }).unwrap();
    assert_eq!((made.limits, catalog.share(&share("one")).unwrap().limits), (limits, limits));
    let with = |limits| ShareChanges { limits, ..ShareChanges::default() };
    let fewer =
        LimitChanges { mibps_max: Some(None), user_iops_max: Some(NonZeroU32::new(200)), ..LimitChanges::default() };
    let changed = catalog.update_share(&share("one"), &with(fewer)).unwrap();
    assert_eq!(changed.limits, limits.changed(fewer));
    let wrong = LimitChanges { user_iops_max: Some(NonZeroU32::new(9)), ..LimitChanges::default() };
    let refused = catalog.update_share(&share("one"), &with(wrong)).unwrap_err();
    assert!(refused.fault() == Fault::Argument && refused.what().contains("--user-iops-max"), "{refused}");
    assert_eq!(catalog.share(&share("one")).unwrap(), changed);
}

#[test]
fn a_provisioned_share_limits_its_users_and_nothing_else() {
    let (_place, _folder, mut catalog) = catalog(None);
    let of_share = ShareLimits { iops_max: NonZeroU32::new(1_000), ..ShareLimits::default() };
    let of_users = ShareLimits { user_iops_max: NonZeroU32::new(1_000), ..ShareLimits::default() };
    let new = |limits| NewShare { limits, ..provisioned("one", 100, None, None) };
    let refused = catalog.create_share(&new(of_share)).unwrap_err();
    assert!(refused.fault() == Fault::Conflict && refused.remedy().contains("--iops or --mibps"), "{refused}");
    catalog.create_share(&new(of_users)).unwrap();
    let slower = LimitChanges { mibps_max: Some(NonZeroU32::new(10)), ..LimitChanges::default() };
    let slower = ShareChanges { limits: slower, ..ShareChanges::default() };
    assert_eq!(catalog.update_share(&share("one"), &slower).unwrap_err().fault(), Fault::Conflict);
    // Nor does a share with limits become provisioned, until they go.
    catalog.create_share(&NewShare { limits: of_share, ..ram("two") }).unwrap();
    let provision = change(Some(100), None, None);
    assert_eq!(catalog.update_share(&share("two"), &provision).unwrap_err().fault(), Fault::Conflict);
    let without =
        ShareChanges { limits: LimitChanges { iops_max: Some(None), ..LimitChanges::default() }, ..provision };
    assert!(catalog.update_share(&share("two"), &without).unwrap().provisioned.is_some());
}

#[test]
fn azure_has_names_for_all_of_it() {
    let (_place, _folder, mut catalog) = catalog(None);
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let next = Some(next_decrease(now));
    assert_eq!(next, "2026-03-02T12:00:00Z".parse().ok());
    let mut properties =
        |new: &NewShare| ShareProperties::from(&catalog.create_share_at(new, &[], AzureShare::default(), now).unwrap());
    let v1 = properties(&provisioned("one", 1_024, None, None));
    assert_eq!(
        (v1.share_quota, v1.provisioned_iops, v1.provisioned_bandwidth_mibps),
        (Some(1_024), Some(4_024), Some(203))
    );
    assert_eq!((v1.provisioned_ingress_mibps, v1.provisioned_egress_mibps), (Some(81), Some(122)));
    assert_eq!((v1.included_burst_iops, v1.max_burst_credits_for_iops), (Some(10_000), Some(21_513_600)));
    assert_eq!((v1.next_allowed_quota_downgrade_time, v1.access_tier), (next, Some("Premium")));
    assert_eq!(v1.next_allowed_provisioned_iops_downgrade_time, None);
    let told = serde_json::to_value(&v1).unwrap();
    assert_eq!(told["nextAllowedQuotaDowngradeTime"], "2026-03-02T12:00:00Z");
    assert!(told["nextAllowedProvisionedIopsDowngradeTime"].is_null());
    let v2 = properties(&provisioned("two", 1_024, Some(5_000), None));
    assert_eq!(
        (v2.provisioned_iops, v2.provisioned_ingress_mibps, v2.provisioned_egress_mibps),
        (Some(5_000), None, None)
    );
    assert_eq!((v2.next_allowed_provisioned_iops_downgrade_time, v2.available_burst_credits), (next, None));
    let plain = properties(&ram("three"));
    assert_eq!((plain.share_quota, plain.access_tier, plain.enabled_protocols), (None, None, "SMB"));
}

#[test]
fn a_provision_that_makes_no_sense_is_an_error_and_goes_with_its_share() {
    let (_place, _folder, mut catalog) = catalog(None);
    catalog.create_share(&provisioned("one", 100, None, None)).unwrap();
    catalog.connection.execute("UPDATE provision SET gib = 5", []).unwrap();
    assert!(catalog.snapshot().unwrap_err().what().contains("provision"));
    catalog.connection.execute("UPDATE provision SET gib = 100, gib_increased = 99999999999999", []).unwrap();
    assert!(catalog.shares().is_err());
    catalog.connection.execute("UPDATE provision SET gib_increased = 0", []).unwrap();
    catalog.delete_share(&share("one")).unwrap();
    let left: i64 = catalog.connection.query_row("SELECT count(*) FROM provision", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
