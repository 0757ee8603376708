//! Accounts with SKUs, features and provisioned shares, as an operator and a script see them.

mod place;

use std::fs;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::place::Place;

const CACHE: &str = "AzurePremiumFilesMetadataCacheFeature";
const HANDLES: &str = "HigherHandlesCountOnSmb";
const REFUSED: i32 = 1;
const WRONG: i32 = 2;

/// A data folder with an account of each billing: `abc`, which is local, `vone`, `vtwo` and `general`.
fn place() -> Place {
    let place = Place::with_account();
    for (name, sku) in [("vone", "Premium_LRS"), ("vtwo", "PremiumV2_LRS"), ("general", "Standard_LRS")] {
        place.done(&["account", "create", name, "--sku", sku]);
    }
    place
}

/// Has a command refused that names what is `allowed` instead, and changes nothing.
fn refused(place: &Place, arguments: &[&str], code: i32, allowed: &str) {
    let all = || {
        [["account", "list"], ["share", "list"], ["features", "list"], ["features", "regions"]]
            .map(|list| place.json(&list))
    };
    let before = all();
    let complaint = place.refused(arguments, code);
    assert!(complaint.contains(allowed), "{arguments:?}: {complaint}");
    assert_eq!(all(), before, "{arguments:?}");
}

/// The arguments with which `line` makes a share `x` in memory.
fn create(line: &str) -> Vec<&str> {
    ["share", "create", "x", "--ram", "1M"].into_iter().chain(line.split_whitespace()).collect()
}

fn update(line: &str) -> Vec<&str> {
    ["share", "update"].into_iter().chain(line.split_whitespace()).collect()
}

fn azure(share: &Value, names: [&str; 5]) -> [Value; 5] {
    names.map(|name| share["azure"][name].clone())
}

#[test]
fn accounts_have_a_sku_that_goes_with_their_kind() {
    let place = Place::new();
    let made = place.json(&["account", "create", "fast", "--sku", "premiumv2_zrs", "--location", "West Europe"]);
    let said = ["kind", "sku", "location", "multichannel", "metadata_caching"].map(|name| made[name].clone());
    assert_eq!(said, [json!("FileStorage"), json!("PremiumV2_ZRS"), json!("westeurope"), json!("off"), json!("off")]);
    assert!(made["metadata_caching_problem"].as_str().unwrap().contains(CACHE));
    assert_eq!(place.json(&["account", "show", "fast"]), made);
    assert!(place.done(&["account", "show", "fast"]).contains("no metadata caching: "));

    assert_eq!(place.json(&["account", "create", "slow", "--sku", "Standard_GZRS"])["kind"], "StorageV2");
    let local = place.json(&["account", "create", "local"]);
    assert_eq!(
        (&local["kind"], &local["sku"], &local["location"]),
        (&json!("FileStorage"), &json!(null), &json!(null))
    );
    assert_eq!((&local["metadata_caching"], &local["metadata_caching_problem"]), (&json!("on"), &json!(null)));
    let off = place.json(&["account", "update", "local", "--metadata-caching", "off"]);
    assert!(off["metadata_caching_problem"].as_str().unwrap().contains("--metadata-caching on"));
    let list = place.done(&["account", "list"]);
    assert!(["PremiumV2_ZRS", "Standard_GZRS", "westeurope"].iter().all(|text| list.contains(text)), "{list}");

    let together = "PremiumV2_ZRS with kind FileStorage, or Standard_LRS";
    for line in [
        "--sku Standard_LRS --kind FileStorage",
        "--sku Premium_LRS --kind StorageV2",
        "--sku PremiumV2_LRS --kind storagev2",
        "--sku Premium_GRS",
        "--sku StandardV2_LRS",
    ] {
        let arguments: Vec<&str> = ["account", "create", "other"].into_iter().chain(line.split(' ')).collect();
        refused(&place, &arguments, WRONG, together);
    }
    for region in ["", "west-europe", "küste", &"x".repeat(65)] {
        let arguments = ["account", "create", "other", "--location", region];
        refused(&place, &arguments, WRONG, "1 to 64 letters and digits");
    }
}

#[test]
fn what_standard_accounts_have_not_is_refused() {
    let place = place();
    for option in ["--multichannel", "--metadata-caching"] {
        refused(&place, &["account", "update", "general", option, "on"], REFUSED, "kind FileStorage");
        place.done(&["account", "update", "general", option, "off"]);
    }
    refused(&place, &create("--account general --provisioned 100"), REFUSED, "kind FileStorage");
    refused(&place, &["account", "update", "vone"], WRONG, "--metadata-caching");
    refused(&place, &["account", "update", "vone", "--metadata-caching", "perhaps"], WRONG, "on, off");
}

#[test]
fn features_are_registered_for_the_whole_data_folder() {
    let place = place();
    let listed = place.json(&["features", "list"]);
    let names = [&listed[0]["name"], &listed[0]["state"], &listed[1]["name"], &listed[1]["state"]];
    assert_eq!(names, [CACHE, "NotRegistered", HANDLES, "NotRegistered"]);
    refused(&place, &["account", "update", "vone", "--metadata-caching", "on"], REFUSED, "features register");
    assert_eq!(place.json(&["account", "update", "abc", "--metadata-caching", "on"])["metadata_caching"], "on");

    let slow = place.json(&["features", "register", HANDLES, "--delay", "86400"]);
    assert_eq!(slow["state"], "Registering");
    let from: Timestamp = slow["registered_from"].as_str().unwrap().parse().unwrap();
    assert!(from > Timestamp::now() + SignedDuration::from_hours(23));
    assert_eq!(place.json(&["features", "register", &CACHE.to_lowercase()])["state"], "Registered");
    let listed = place.json(&["features", "list"]);
    assert!(listed[0]["registered_from"].is_string(), "it is registered: {listed}");
    assert!(place.done(&["features", "list"]).contains("Registering"));
    assert_eq!(place.json(&["account", "show", "vone"])["metadata_caching"], "on");
    assert_eq!(place.json(&["account", "update", "vone", "--metadata-caching", "off"])["metadata_caching"], "off");
    assert_eq!(place.json(&["account", "update", "vone", "--metadata-caching", "on"])["metadata_caching"], "on");
    assert_eq!(place.json(&["features", "unregister", CACHE])["state"], "NotRegistered");
    assert_eq!(place.json(&["account", "show", "vone"])["metadata_caching"], "off");

    for name in ["Metadata", ""] {
        for verb in ["register", "unregister"] {
            refused(&place, &["features", verb, name], WRONG, &format!("use {CACHE} or {HANDLES}"));
        }
    }
    for delay in ["-1", "soon", "2592001"] {
        refused(&place, &["features", "register", CACHE, &format!("--delay={delay}")], WRONG, "--delay");
    }
}

#[test]
fn metadata_caching_keeps_to_its_regions() {
    let place = place();
    place.done(&["features", "register", CACHE]);
    place.done(&["account", "create", "here", "--sku", "Premium_LRS", "--location", "Australia East"]);
    place.done(&["account", "create", "there", "--sku", "Premium_LRS", "--location", "westeurope"]);
    let has = |name: &str| place.json(&["account", "show", name])["metadata_caching"].clone();
    assert_eq!([has("here"), has("there"), has("vone")], ["on", "off", "on"]);
    refused(&place, &["account", "update", "there", "--metadata-caching", "on"], REFUSED, "features regions");

    let first = place.json(&["features", "regions"]);
    assert_eq!((&first["any"], first["regions"].as_array().unwrap().len()), (&json!(false), 8));
    let registered = place.json(&["features", "register", CACHE]);
    assert_eq!(registered["accounts_elsewhere"], json!([{"account": "there", "region": "westeurope"}]));
    let said = place.done(&["features", "register", CACHE]);
    assert!(said.contains("account there goes without it: westeurope is not among the regions"), "{said}");
    assert_eq!(place.json(&["features", "register", HANDLES])["accounts_elsewhere"], json!([]));
    place.done(&["features", "unregister", HANDLES]);

    let set = place.json(&["features", "regions", "--set", "West Europe,northeurope"]);
    assert_eq!(set["regions"], json!(["northeurope", "westeurope"]));
    assert_eq!([has("here"), has("there")], ["off", "on"]);
    refused(&place, &["features", "regions", "--set", ""], WRONG, "letters and digits");
    refused(&place, &["features", "regions", "--set", "a,b-c"], WRONG, "letters and digits");
    refused(&place, &["features", "regions", "--set", "a", "--any"], WRONG, "--any");
    refused(&place, &["features", "regions", "--any", "--default"], WRONG, "--default");
    assert_eq!(place.json(&["features", "regions", "--default"]), first, "what there was at first");
    place.done(&["features", "regions", "--set", "West Europe,northeurope"]);
    assert_eq!(place.json(&["features", "regions", "--any"]), json!({"any": true, "regions": []}));
    assert!(place.done(&["features", "regions"]).contains("all regions"));
    assert_eq!([has("here"), has("there")], ["on", "on"]);
}

#[test]
fn a_provisioned_share_has_azures_names_and_numbers() {
    let place = place();
    let files = place.place.path().join("files");
    fs::create_dir(&files).unwrap();
    let path = files.to_str().unwrap();
    let made = place.json(&["share", "create", "One", "--path", path, "--account", "vone", "--provisioned", "1024"]);
    assert_eq!((&made["quota_gib"], &made["account"]), (&json!(1024), &json!("vone")));
    let names =
        ["shareQuota", "provisionedIops", "includedBurstIops", "maxBurstCreditsForIops", "provisionedBandwidthMibps"];
    assert_eq!(azure(&made, names), [json!(1024), json!(4024), json!(10_000), json!(21_513_600), json!(203)]);
    let names = [
        "enabledProtocols",
        "accessTier",
        "provisionedIngressMBps",
        "provisionedEgressMBps",
        "nextAllowedProvisionedIopsDowngradeTime",
    ];
    assert_eq!(azure(&made, names), [json!("SMB"), json!("Premium"), json!(81), json!(122), json!(null)]);
    let next: Timestamp = made["azure"]["nextAllowedQuotaDowngradeTime"].as_str().unwrap().parse().unwrap();
    let in_hours = |hours| Timestamp::now() + SignedDuration::from_hours(hours);
    assert!(next > in_hours(23) && next <= in_hours(24));
    let mut told = place.json(&["share", "show", "one"]);
    let who = told.as_object_mut().unwrap().remove("may_connect");
    assert_eq!(who, Some(json!([{ "who": "everyone", "right": "full" }])));
    assert_eq!(told, made);
    let shown = place.done(&["share", "show", "one"]);
    assert!(shown.contains("v1, 1024 GiB, 4024 IOPS, 203 MiB/s, bursts of 10000 IOPS"), "{shown}");
    assert!(shown.contains(&next.to_string()), "{shown}");
    assert!(place.done(&["share", "list"]).contains("provisioned"));

    let two = place.json(&create("--account vtwo --provisioned 64 --iops 5000"));
    let names = [
        "shareQuota",
        "provisionedIops",
        "provisionedBandwidthMibps",
        "provisionedIngressMBps",
        "availableBurstCredits",
    ];
    assert_eq!(azure(&two, names), [json!(64), json!(5000), json!(107), json!(null), json!(null)]);
    assert!(two["azure"]["nextAllowedProvisionedBandwidthDowngradeTime"].is_string());
    assert_eq!(two["quota_gib"], json!(null));
}

#[test]
fn provisioned_values_go_up_at_once_and_down_a_day_later() {
    let place = place();
    place.done(&create("--account vtwo --provisioned 64 --iops 5000 --mibps 200"));
    for (option, decrease) in [("--provisioned", "63"), ("--iops", "4999"), ("--mibps", "199")] {
        let arguments = ["share", "update", "x", option, decrease];
        let complaint = place.refused(&arguments, REFUSED);
        let until: Timestamp = complaint.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(until > Timestamp::now() + SignedDuration::from_hours(23), "{complaint}");
        refused(&place, &arguments, REFUSED, "try again from ");
    }
    let raised = place.json(&update("x --provisioned 65 --iops 6000 --mibps 300"));
    let names = ["shareQuota", "provisionedIops", "provisionedBandwidthMibps", "includedBurstIops", "accessTier"];
    assert_eq!(azure(&raised, names), [json!(65), json!(6000), json!(300), json!(18_000), json!("Premium")]);
    refused(&place, &update("x --iops 7000 --mibps 299"), REFUSED, "299");
}

#[test]
fn values_that_cannot_be_provisioned_are_refused_with_those_that_can() {
    let place = place();
    for (line, allowed) in [
        ("--account vone --provisioned 99", "100 to 102400 GiB"),
        ("--account vone --provisioned 102401", "100 to 102400 GiB"),
        ("--provisioned 99", "100 to 102400 GiB"),
        ("--account vtwo --provisioned 31", "32 to 262144 GiB"),
        ("--account vtwo --provisioned 262145", "32 to 262144 GiB"),
        ("--provisioned 32 --iops 2999", "3000 to 102400 IOPS"),
        ("--provisioned 32 --iops 102401", "3000 to 102400 IOPS"),
        ("--provisioned 32 --mibps 99", "100 to 10340 MiB/s"),
        ("--provisioned 32 --mibps 10341", "100 to 10340 MiB/s"),
        ("--provisioned much", "100 to 102400"),
        ("--provisioned 0", "100 to 102400"),
        ("--provisioned +100", "100 to 102400"),
        ("--provisioned 99999999999", "100 to 102400"),
        ("--provisioned none", "100 to 102400"),
        ("--provisioned 100 --iops many", "3000 to 102400"),
        ("--provisioned 100 --mibps=-1", "100 to 10340"),
        ("--iops 5000", "--provisioned"),
        ("--mibps 500", "--provisioned"),
        ("--protocol NFS", "use SMB"),
        ("--protocol FTP", "use SMB"),
    ] {
        refused(&place, &create(line), WRONG, allowed);
    }
    place.done(&create("--protocol smb"));
    place.done(&["share", "delete", "x"]);
    let folder = ["share", "create", "x", "--path", "/nowhere", "--provisioned", "100", "--quota", "5"];
    refused(&place, &folder, WRONG, "--quota");
    let large = ["share", "create", "x", "--ram", "33G", "--provisioned", "32", "--iops", "3000"];
    refused(&place, &large, WRONG, "at least the size that --ram says");
}

#[test]
fn accounts_say_what_their_shares_may_be() {
    let place = place();
    refused(&place, &create("--account vone"), REFUSED, "from 100 to 102400");
    refused(&place, &create("--account vtwo"), REFUSED, "from 32 to 262144");
    refused(&place, &create("--account vone --provisioned 100 --iops 5000"), REFUSED, "PremiumV2_LRS");
    place.done(&create("--account vtwo --provisioned 200000 --iops 100000 --mibps 10000"));
    for (line, left) in [
        ("--provisioned 62145 --iops 3000 --mibps 100", "62144 GiB left"),
        ("--provisioned 32 --iops 3000 --mibps 100", "2400 IOPS left"),
    ] {
        let arguments: Vec<&str> =
            ["share", "create", "y", "--ram", "1M", "--account", "vtwo"].into_iter().chain(line.split(' ')).collect();
        refused(&place, &arguments, REFUSED, left);
    }
    place.done(&["share", "delete", "x"]);

    place.done(&create("--account vone --provisioned 100"));
    refused(&place, &update("x --iops 5000"), REFUSED, "PremiumV2_LRS");
    refused(&place, &update("x --provisioned none"), REFUSED, "from 100 to 102400");
    refused(&place, &update("x --provisioned none --iops 5000"), WRONG, "--provisioned GIB");
    refused(&place, &update("x --provisioned 99"), WRONG, "100 to 102400 GiB");
    refused(&place, &update("x --provisioned 200 --quota 5"), WRONG, "--quota");
}

#[test]
fn shares_of_local_accounts_are_provisioned_or_not_as_they_are_told() {
    let place = place();
    place.done(&create(""));
    refused(&place, &update("x --iops 5000"), REFUSED, "--iops-max");
    let names = ["shareQuota", "provisionedIops", "provisionedBandwidthMibps", "provisionedEgressMBps", "accessTier"];
    let v1 = place.json(&update("x --provisioned 500"));
    assert_eq!(azure(&v1, names), [json!(500), json!(3500), json!(150), json!(90), json!("Premium")]);
    let v2 = place.json(&update("x --iops 4000"));
    assert_eq!(azure(&v2, names), [json!(500), json!(4000), json!(150), json!(null), json!("Premium")]);
    let none = place.json(&update("x --provisioned none"));
    assert_eq!(azure(&none, names), [json!(null), json!(null), json!(null), json!(null), json!(null)]);
}

#[test]
fn a_share_is_limited_as_a_whole_and_for_each_user() {
    let place = place();
    let made = place.json(&create("--iops-max 1000 --mibps-max 50 --user-iops-max 100 --user-mibps-max 5"));
    let limits = json!({"iops_max": 1000, "mibps_max": 50, "user_iops_max": 100, "user_mibps_max": 5});
    assert_eq!(made["limits"], limits);
    assert!(place.done(&["share", "list"]).contains("limited"));
    let shown = place.done(&["share", "show", "x"]);
    let waited = shown.lines().find(|line| line.starts_with("waited")).unwrap();
    assert!(waited.ends_with(" -"), "no server says whether anybody has waited: {waited}");
    let fewer = place.json(&update("x --iops-max none --user-mibps-max 6"));
    let limits = json!({"iops_max": null, "mibps_max": 50, "user_iops_max": 100, "user_mibps_max": 6});
    assert_eq!(fewer["limits"], limits);
    let shown = place.done(&["share", "show", "x"]);
    assert!(shown.contains("all users together 50 MiB/s, each user 100 IOPS, each user 6 MiB/s"), "{shown}");

    for option in ["--iops-max", "--user-iops-max"] {
        for wrong in ["9", "10000001", "0", "few"] {
            refused(&place, &["share", "update", "x", option, wrong], WRONG, "10 to 10000000");
        }
    }
    for option in ["--mibps-max", "--user-mibps-max"] {
        for wrong in ["0", "1000001", "1.5"] {
            refused(&place, &["share", "update", "x", option, wrong], WRONG, "1 to 1000000");
        }
    }
    refused(&place, &update("x --provisioned 100"), REFUSED, "--iops or --mibps");
    place.done(&update("x --provisioned 100 --mibps-max none"));
    for option in ["--iops-max", "--mibps-max"] {
        refused(&place, &["share", "update", "x", option, "50"], REFUSED, "--iops or --mibps");
    }
    place.done(&update("x --user-iops-max 200 --user-mibps-max none"));
    refused(&place, &update("x --quota 5"), WRONG, "--ram");
}

#[test]
fn a_share_is_the_servers_alone_or_is_believed_for_a_time() {
    let place = Place::with_account();
    let folder = place.data.join("far");
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let made = place.json(&["share", "create", "far", "--path", folder]);
    assert_eq!((&made["exclusive"], &made["believed_ms"]), (&json!(false), &json!(1000)));
    let said = |line: &str| {
        let share = place.json(&update(line));
        assert_eq!(place.json(&["share", "show", "far"])["believed_ms"], share["believed_ms"]);
        (share["exclusive"].clone(), share["believed_ms"].clone())
    };
    assert_eq!(said("far --believed 500ms"), (json!(false), json!(500)));
    assert_eq!(said("far --exclusive"), (json!(true), Value::Null));
    refused(&place, &update("far --believed 2s"), REFUSED, "--exclusive false");
    assert_eq!(said("far --exclusive false --believed 0s"), (json!(false), json!(0)));
    refused(&place, &update("far --exclusive --believed 2s"), WRONG, "leave out --exclusive or --believed");
    for (time, code) in [("61s", WRONG), ("soon", WRONG), ("1us", WRONG)] {
        refused(&place, &["share", "update", "far", "--believed", time], code, "0s to 60s");
    }
    refused(&place, &create("--exclusive"), WRONG, "leave out --exclusive and --believed");
}

#[test]
fn a_share_that_is_promised_more_than_its_disk_has_is_noted() {
    let place = Place::with_account();
    let folder = place.place.path().join("large");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.to_str().unwrap();
    let made = place.run(&["share", "create", "large", "--path", path, "--provisioned", "102400"]);
    let said = String::from_utf8(made.stderr).unwrap();
    assert!(
        made.status.success() && said.contains("note: share large is provisioned with 100 TiB, and the disk of"),
        "{said}"
    );
    let changed = place.run(&["share", "update", "large", "--iops", "102400"]);
    assert!(String::from_utf8(changed.stderr).unwrap().contains("note: share large"));
    assert_eq!(place.done(&["share", "update", "large", "--comment", "all"]), "changed share large\n");
}
