//! Accounts with SKUs, and features.

use jiff::{SignedDuration, Timestamp};
use server::admin::Multichannel;

use super::tests::{account, place};
use super::*;
use crate::{AccountKind, AccountPlan, Billing, Fault, Feature, FeatureState, ProvisionModel, Regions, Sku};

fn plan(sku: Sku, location: Option<&str>) -> AccountPlan {
    AccountPlan::new(None, Some(sku), location.map(|name| name.parse().unwrap())).unwrap()
}

fn caching(to: MetadataCaching) -> AccountChanges {
    AccountChanges { metadata_caching: Some(to), ..AccountChanges::default() }
}

/// How the catalog says that `name` has metadata caching.
fn caching_of(catalog: &Catalog, name: &str) -> MetadataCaching {
    catalog.account(&account(name)).unwrap().metadata_caching
}

#[test]
fn accounts_keep_their_sku_and_location() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("local"), AccountKind::FileStorage).unwrap();
    let made = catalog.create_account(&account("fast"), plan(Sku::PremiumV2Zrs, Some("West Europe"))).unwrap();
    catalog.create_account(&account("slow"), plan(Sku::StandardRagrs, None)).unwrap();
    drop(catalog);
    let mut catalog = Catalog::open(&folder).unwrap();
    let accounts = catalog.accounts().unwrap();
    assert_eq!(accounts[1], made);
    assert_eq!((made.sku, made.location.unwrap().as_str()), (Some(Sku::PremiumV2Zrs), "westeurope"));
    assert_eq!((accounts[2].kind, accounts[2].sku), (AccountKind::StorageV2, Some(Sku::StandardRagrs)));
    let billing: Vec<Billing> = accounts.iter().map(Account::billing).collect();
    assert_eq!(billing, [Billing::Local, Billing::Provisioned(ProvisionModel::V2), Billing::PayAsYouGo]);

    for (column, text) in [("sku", "Gold_LRS"), ("location", "a b-c")] {
        let update = format!("UPDATE account SET {column} = ?1 WHERE name = 'fast'");
        catalog.connection.execute(&update, [text]).unwrap();
        assert!(catalog.snapshot().unwrap_err().what().contains(column));
        catalog.connection.execute(&update, [None::<&str>]).unwrap();
    }
}

#[test]
fn metadata_caching_is_on_wherever_an_account_has_it() {
    use MetadataCaching::{Off, On};
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    catalog.create_account(&account("local"), AccountKind::FileStorage).unwrap();
    catalog.create_account(&account("general"), AccountKind::StorageV2).unwrap();
    catalog.create_account(&account("premium"), plan(Sku::PremiumLrs, Some("France South"))).unwrap();
    catalog.create_account(&account("elsewhere"), plan(Sku::PremiumLrs, Some("West Europe"))).unwrap();
    let all = |catalog: &Catalog| ["local", "general", "premium", "elsewhere"].map(|name| caching_of(catalog, name));
    assert_eq!(all(&catalog), [On, Off, Off, Off]);
    for (name, remedy) in [("premium", "features register"), ("general", "FileStorage")] {
        let refused = catalog.update_account(&account(name), caching(On)).unwrap_err();
        assert!(refused.fault() == Fault::Conflict && refused.remedy().contains(remedy), "{refused}");
    }
    let now = Timestamp::now();
    catalog.register_feature(Feature::MetadataCache, SignedDuration::ZERO, now).unwrap();
    assert_eq!(all(&catalog), [On, Off, On, Off]);
    let refused = catalog.update_account(&account("elsewhere"), caching(On)).unwrap_err();
    assert!(refused.what().contains("westeurope") && refused.remedy().contains("features regions"), "{refused}");
    catalog.set_regions(&Regions::Any).unwrap();
    assert_eq!(all(&catalog), [On, Off, On, On]);
    // What is switched off stays so, whatever is registered.
    for name in ["local", "premium", "general"] {
        assert_eq!(catalog.update_account(&account(name), caching(Off)).unwrap().metadata_caching, Off);
    }
    assert_eq!(all(&catalog), [Off, Off, Off, On]);
    assert_eq!(catalog.update_account(&account("premium"), caching(On)).unwrap().metadata_caching, On);
    catalog.unregister_feature(Feature::MetadataCache).unwrap();
    assert_eq!(all(&catalog), [Off, Off, Off, Off]);
    assert_eq!(catalog.update_account(&account("local"), caching(On)).unwrap().metadata_caching, On);
}

#[test]
fn of_two_changes_to_an_account_both_are_made_or_none() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    let before = catalog.create_account(&account("premium"), plan(Sku::PremiumLrs, None)).unwrap();
    let both = AccountChanges {
        multichannel: Some(Multichannel::On),
        metadata_caching: Some(MetadataCaching::On),
        retention_days: None,
    };
    catalog.update_account(&account("premium"), both).unwrap_err();
    assert_eq!(catalog.account(&account("premium")).unwrap(), before);
    catalog.register_feature(Feature::MetadataCache, SignedDuration::ZERO, Timestamp::now()).unwrap();
    let after = catalog.update_account(&account("premium"), both).unwrap();
    assert_eq!((after.multichannel, after.metadata_caching), (Multichannel::On, MetadataCaching::On));
}

#[test]
fn features_are_registered_after_their_delay_and_stay_so() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    let at = |second| Timestamp::from_second(second).unwrap();
    let (cache, delay) = (Feature::MetadataCache, SignedDuration::from_secs(60));
    assert_eq!(catalog.features().unwrap().state(cache, at(0)), FeatureState::NotRegistered);
    let features = catalog.register_feature(cache, delay, at(1_000)).unwrap();
    assert_eq!(features.state(cache, at(1_059)), FeatureState::Registering { until: at(1_060) });
    assert_eq!(features.state(cache, at(1_060)), FeatureState::Registered);
    assert_eq!(features.state(Feature::HigherHandlesCount, at(1_060)), FeatureState::NotRegistered);
    // Another delay takes the first one's place, until that is over.
    let sooner = catalog.register_feature(cache, SignedDuration::ZERO, at(1_010)).unwrap();
    assert_eq!(sooner.state(cache, at(1_010)), FeatureState::Registered);
    let again = catalog.register_feature(cache, delay, at(1_020)).unwrap();
    assert_eq!(again.state(cache, at(1_020)), FeatureState::Registered);
    drop(catalog);
    let mut catalog = Catalog::open(&folder).unwrap();
    assert_eq!(catalog.features().unwrap(), again);
    let none = catalog.unregister_feature(cache).unwrap();
    assert_eq!(none.state(cache, at(2_000)), FeatureState::NotRegistered);
}

#[test]
fn regions_are_those_of_the_first_preview_until_others_are_set() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    let Regions::Only(first) = catalog.features().unwrap().regions().clone() else { panic!("some regions") };
    assert_eq!(first.len(), 8);
    let region = |name: &str| name.parse().unwrap();
    catalog.set_regions(&Regions::Only(vec![region("b"), region("A"), region("b")])).unwrap();
    let wanted = Regions::Only(vec![region("a"), region("b")]);
    assert_eq!(*catalog.features().unwrap().regions(), wanted);
    let many = (0..201).map(|number| region(&format!("r{number}"))).collect();
    for wrong in [Vec::new(), many] {
        assert_eq!(catalog.set_regions(&Regions::Only(wrong)).unwrap_err().fault(), Fault::Argument);
        assert_eq!(*catalog.features().unwrap().regions(), wanted);
    }
    catalog.connection.execute("UPDATE setting SET value = 'a  b' WHERE name LIKE '%regions'", []).unwrap();
    assert!(catalog.features().is_err());
}

#[test]
fn a_server_reads_the_catalog_again_once_a_feature_is_registered() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    let hour = SignedDuration::from_hours(1);
    catalog.register_feature(Feature::MetadataCache, hour, Timestamp::now()).unwrap();
    let snapshot = catalog.snapshot().unwrap();
    assert!(!snapshot.is_over(Timestamp::now()) && snapshot.is_over(Timestamp::now() + hour));
    catalog.register_feature(Feature::MetadataCache, SignedDuration::ZERO, Timestamp::now()).unwrap();
    assert!(!catalog.snapshot().unwrap().is_over(Timestamp::now() + hour));
}

#[test]
fn no_account_is_called_as_the_management_interface_is_reached() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    for name in ["subscriptions", "metadata"] {
        let refused = catalog.create_account(&account(name), AccountKind::FileStorage).unwrap_err();
        assert_eq!((refused.fault(), refused.remedy()), (Fault::Argument, "choose another name"));
        assert!(refused.what().contains(name) && refused.what().contains("management interface"), "{}", refused.what());
        // One from before is served as it was.
        catalog
            .write(|transaction| {
                let id = principals::add(transaction, name)?;
                let insert = "INSERT INTO account (relative_id, name, kind, key1, key2) VALUES (?1, ?2, 'FileStorage', 'a', 'b')";
                transaction.execute(insert, rusqlite::params![id, name])?;
                Ok(())
            })
            .unwrap();
        assert_eq!(catalog.account(&account(name)).unwrap().name, name);
    }
}
