//! The formulas against the documented tables, and the rules against their ends.

use super::*;
use crate::{Fault, Increases, Provision, ProvisionChanges};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    at("2026-03-01T12:00:00Z")
}

fn v2(gib: u32, iops: u32, mibps: u32) -> Provisioned {
    Provision { gib, iops: Some(iops), mibps: Some(mibps) }.by(ProvisionModel::V2, noon()).unwrap()
}

#[test]
fn v1_gives_what_the_documented_table_says() {
    // GiB, IOPS, IOPS in a burst, credits, MiB/s.
    let rows = [
        (100, 3_100, 10_000, 24_840_000, 110),
        (500, 3_500, 10_000, 23_400_000, 150),
        (1_024, 4_024, 10_000, 21_513_600, 203),
        (5_120, 8_120, 15_360, 26_064_000, 613),
        (10_240, 13_240, 30_720, 62_928_000, 1_125),
        (33_792, 36_792, 101_376, 232_502_400, 3_480),
        (51_200, 54_200, 102_400, 173_520_000, 5_220),
        (102_400, 102_400, 102_400, 0, 10_340),
    ];
    for (gib, iops, burst, credits, mibps) in rows {
        let share = Provisioned::v1(gib, noon()).unwrap();
        let has = (share.iops, share.burst_iops, share.burst_credits_max, share.mibps);
        assert_eq!(has, (iops, burst, credits, mibps), "{gib} GiB");
        assert_eq!(v1_ingress_mibps(gib) + v1_egress_mibps(gib), mibps, "{gib} GiB");
    }
    assert_eq!((v1_ingress_mibps(1_024), v1_egress_mibps(1_024)), (81, 122));
}

#[test]
fn v2_recommends_by_size_and_bursts_by_iops() {
    let rows = [(32, 3_032, 104), (1_024, 4_024, 203), (99_400, 102_400, 10_040), (262_144, 102_400, 10_340)];
    for (gib, iops, mibps) in rows {
        let share = Provision { gib, iops: None, mibps: None }.by(ProvisionModel::V2, noon()).unwrap();
        assert_eq!((share.iops, share.mibps), (iops, mibps), "{gib} GiB");
    }
    let rows = [
        (3_000, 10_000, 25_200_000),
        (3_334, 10_002, 24_004_800),
        (50_000, 102_400, 188_640_000),
        (102_400, 102_400, 0),
    ];
    for (iops, burst, credits) in rows {
        let share = v2(32, iops, 100);
        assert_eq!((share.burst_iops, share.burst_credits_max), (burst, credits), "{iops} IOPS");
    }
    let one = Provision { gib: 64, iops: None, mibps: Some(500) }.by(ProvisionModel::V2, noon()).unwrap();
    assert_eq!((one.iops, one.mibps), (3_064, 500));
}

#[test]
fn formulas_hold_for_any_number() {
    for number in [0, 1, u32::MAX] {
        assert!(v1_iops(number) <= IOPS_MAX && v2_recommended_iops(number) <= IOPS_MAX);
        assert!(v1_mibps(number) <= MIBPS_MAX && v2_recommended_mibps(number) <= MIBPS_MAX);
        assert!((BURST_IOPS_MIN..=IOPS_MAX).contains(&v1_burst_iops(number)));
    }
    assert_eq!(burst_credits_max(5, 4), 0);
}

#[test]
fn values_out_of_their_range_are_refused_with_the_range() {
    let v1 = |gib| Provision { gib, iops: None, mibps: None }.by(ProvisionModel::V1, noon());
    let v2 = |gib, iops, mibps| Provision { gib, iops: Some(iops), mibps: Some(mibps) }.by(ProvisionModel::V2, noon());
    let cases = [
        (v1(99), "100 to 102400 GiB, or have it provisioned v2"),
        (v1(102_401), "100 to 102400 GiB"),
        (v1(u32::MAX), "100 to 102400 GiB"),
        (v2(31, 3_000, 100), "32 to 262144 GiB"),
        (v2(262_145, 3_000, 100), "32 to 262144 GiB"),
        (v2(32, 2_999, 100), "3000 to 102400 IOPS"),
        (v2(32, 102_401, 100), "3000 to 102400 IOPS"),
        (v2(32, 3_000, 99), "100 to 10340 MiB/s"),
        (v2(32, 3_000, 10_341), "100 to 10340 MiB/s"),
    ];
    for (refused, range) in cases {
        let error = refused.unwrap_err();
        assert!(error.fault() == Fault::Argument && error.remedy().contains(range), "{error}");
    }
    assert!(v1(100).is_ok() && v1(102_400).is_ok());
    assert!(v2(32, 3_000, 100).is_ok() && v2(262_144, 102_400, 10_340).is_ok());
    let error = Provision { gib: 100, iops: Some(4_000), mibps: None }.by(ProvisionModel::V1, noon()).unwrap_err();
    assert!(error.fault() == Fault::Conflict && error.remedy().contains("PremiumV2_LRS"), "{error}");
}

#[test]
fn a_decrease_waits_for_24_hours_after_the_last_increase() {
    let share = Provision { gib: 500, iops: None, mibps: None }.by(ProvisionModel::V1, noon()).unwrap();
    let to = |gib| ProvisionChanges { gib: Some(gib), ..ProvisionChanges::default() };
    let error = share.changed(to(499), at("2026-03-02T11:59:59Z")).unwrap_err();
    assert!(error.fault() == Fault::Conflict && error.what().contains("before 2026-03-02T12:00:00Z"), "{error}");
    let less = share.changed(to(499), at("2026-03-02T12:00:00Z")).unwrap();
    assert_eq!((less.gib, less.iops, less.increased.gib), (499, 3_499, noon()));
    // Once it may be decreased it may be again.
    assert_eq!(less.changed(to(100), at("2026-03-02T12:00:01Z")).unwrap().gib, 100);

    let evening = at("2026-03-02T18:30:00.75Z");
    let more = less.changed(to(600), evening).unwrap();
    assert_eq!(more.increased.gib, at("2026-03-02T18:30:00Z"));
    assert!(more.changed(to(599), at("2026-03-03T18:29:59Z")).unwrap_err().what().contains("2026-03-03T18:30:00Z"));
    assert_eq!(more.changed(to(600), at("2026-03-03T18:00:00Z")).unwrap(), more);
    // A size that can never be is the first to be told.
    assert_eq!(more.changed(to(99), evening).unwrap_err().fault(), Fault::Argument);
}

#[test]
fn each_value_of_v2_has_a_time_of_its_own() {
    let day = |day: u32| at(&format!("2026-03-{day:02}T12:00:00Z"));
    let share = v2(500, 5_000, 300);
    let raised = share.changed(ProvisionChanges { iops: Some(6_000), ..ProvisionChanges::default() }, day(3)).unwrap();
    assert_eq!(raised.increased, Increases { gib: day(1), iops: day(3), mibps: day(1) });
    assert_eq!((raised.gib, raised.mibps, raised.burst_iops), (500, 300, 18_000));

    let lower = |iops| ProvisionChanges { gib: Some(100), iops, mibps: Some(100) };
    assert!(raised.changed(lower(Some(5_999)), at("2026-03-04T11:00:00Z")).unwrap_err().what().contains("IOPS"));
    let lowered = raised.changed(lower(None), at("2026-03-03T12:00:01Z")).unwrap();
    assert_eq!((lowered.gib, lowered.iops, lowered.mibps), (100, 6_000, 100));
    assert_eq!(lowered.increased, raised.increased);
    // One value goes up while another comes down.
    let both = ProvisionChanges { gib: Some(900), iops: Some(3_000), mibps: None };
    assert_eq!(raised.changed(both, day(4)).unwrap().increased, Increases { gib: day(4), iops: day(3), mibps: day(1) });
}

#[test]
fn an_account_of_v2_says_what_it_has_left() {
    let room = |sum: ProvisionedSum, share| sum.room_for(&share, ProvisionModel::V2);
    let sum = ProvisionedSum { shares: 49, gib: 262_000, iops: 99_000, mibps: 10_000 };
    assert!(room(sum, v2(144, 3_400, 340)).is_ok());
    for (share, left) in [
        (v2(145, 3_000, 100), "has 144 GiB left"),
        (v2(144, 3_401, 100), "has 3400 IOPS left"),
        (v2(144, 3_000, 341), "has 340 MiB/s left"),
    ] {
        let error = room(sum, share).unwrap_err();
        assert!(error.fault() == Fault::Conflict && error.what().contains(left), "{error}");
    }
    let full = ProvisionedSum { shares: 50, ..ProvisionedSum::default() };
    assert!(room(full, v2(32, 3_000, 100)).unwrap_err().what().contains("50 shares"));
}

#[test]
fn an_account_of_v1_bounds_sizes_alone() {
    let share = Provisioned::v1(51_200, noon()).unwrap();
    let sum = ProvisionedSum { shares: 1, gib: 51_200, iops: 102_400, mibps: 10_340 };
    assert!(sum.room_for(&share, ProvisionModel::V1).is_ok());
    let more = ProvisionedSum { gib: 51_201, ..sum };
    assert!(more.room_for(&share, ProvisionModel::V1).unwrap_err().what().contains("has 51199 GiB left"));
}
