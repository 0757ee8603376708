//! Users, groups and the rights of both on shares.

use jiff::{SignedDuration, Timestamp};
use server::admin::{HostsAllowed, ShareRight, ShareRights, Standing, nt_hash};

use super::tests::{account, place, ram, share, user};
use super::{Catalog, Grantee, NewShare, ShareChanges, UserChanges};
use crate::{Fault, Key, UserName};

/// A catalog with two accounts, `studio` with two users and `other` with one.
fn people() -> (tempfile::TempDir, Catalog) {
    let (place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    for (name, of) in [("alice", "studio"), ("bob", "studio"), ("carol", "other")] {
        if catalog.account(&account(of)).is_err() {
            catalog.create_account(&account(of), crate::AccountKind::FileStorage).unwrap();
        }
        catalog.add_user(&user(name), "secret", Some(&account(of))).unwrap();
    }
    (place, catalog)
}

fn users(names: &[&str]) -> Vec<UserName> {
    names.iter().map(|name| user(name)).collect()
}

fn named(name: &str) -> Grantee {
    name.parse().unwrap()
}

/// The rights of the share `files` as the server is given them.
fn rights(catalog: &mut Catalog) -> ShareRights {
    let snapshot = catalog.snapshot().unwrap();
    let id = snapshot.shares.iter().find(|share| share.name == "files").unwrap().id;
    snapshot.rights[&id].clone()
}

#[test]
fn a_renamed_user_keeps_the_sid_and_the_old_name_is_free() {
    let (_place, mut catalog) = people();
    let before = catalog.user(&user("alice")).unwrap();
    let to = |name: &str| UserChanges { name: Some(user(name)), ..UserChanges::default() };
    let after = catalog.update_user(&user("ALICE"), &to("Alice-Maria")).unwrap();
    assert_eq!((after.relative_id, after.name.as_str()), (before.relative_id, "Alice-Maria"));
    assert_eq!(catalog.update_user(&user("bob"), &to("alice-maria")).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.update_user(&user("bob"), &to("studio")).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.update_user(&user("bob"), &to("BOB")).unwrap().name, "BOB", "the case alone");
    let again = catalog.add_user(&user("alice"), "secret", Some(&account("studio"))).unwrap();
    assert!(again.relative_id > before.relative_id);
    assert_eq!(catalog.update_user(&user("nobody"), &to("x")).unwrap_err().fault(), Fault::Missing);
}

#[test]
fn who_is_in_a_group_already_needs_no_room_in_it() {
    let (_place, mut catalog) = people();
    catalog.create_group(&user("staff"), Some(&account("studio"))).unwrap();
    catalog.add_members(&user("staff"), &users(&["alice"])).unwrap();
    // As many as one server takes.
    let fill = "PRAGMA foreign_keys = off;
                WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 199999)
                INSERT INTO membership (user_group, member) SELECT 1000000 + n, 2000000 + n FROM number";
    catalog.connection.execute_batch(fill).unwrap();
    catalog.add_members(&user("staff"), &users(&["alice"])).unwrap();
    assert_eq!(catalog.add_members(&user("staff"), &users(&["bob"])).unwrap_err().fault(), Fault::Conflict);
}

#[test]
fn a_share_is_for_the_hosts_that_it_names_and_for_none_where_they_make_no_sense() {
    let (_place, mut catalog) = people();
    let hosts: HostsAllowed = "192.0.2.0/24,2001:db8::/32".parse().unwrap();
    catalog.create_share(&NewShare { hosts: hosts.clone(), ..ram("files") }).unwrap();
    assert_eq!(rights(&mut catalog).hosts, hosts);
    let changes = ShareChanges { read_only: Some(true), ..ShareChanges::default() };
    assert_eq!(catalog.update_share(&share("files"), &changes).unwrap().hosts, hosts, "what is not named stays");
    let changes = ShareChanges { hosts: Some(HostsAllowed::Any), ..ShareChanges::default() };
    catalog.update_share(&share("files"), &changes).unwrap();
    assert_eq!(rights(&mut catalog).hosts, HostsAllowed::Any);
    catalog.connection.execute("UPDATE share SET hosts = '192.0.2.0'", []).unwrap();
    assert_eq!(rights(&mut catalog).hosts.to_string(), "192.0.2.0/32");
    catalog.connection.execute("UPDATE share SET hosts = 'everywhere'", []).unwrap();
    assert!(catalog.snapshot().is_err() && catalog.shares().is_err());
}

#[test]
fn a_damaged_user_keeps_nobody_from_the_others_and_can_be_deleted() {
    for (damage, what) in [
        ("nt_hash = x'00'", "a password"),
        ("expires = 9000000000000000000", "a time of expiry"),
        ("disabled = 7", "whether it is disabled"),
        ("account = 77", "an account"),
        ("unix_uid = 4294967295, unix_gid = 0", "an owner on this machine"),
        ("unix_uid = 1", "an owner on this machine"),
        ("name = CAST(x'ff' AS TEXT)", "a name"),
    ] {
        let (_place, mut catalog) = people();
        let spoil = format!("UPDATE user SET {damage} WHERE name = 'alice'");
        let unchecked = "PRAGMA foreign_keys = off; PRAGMA ignore_check_constraints = on;";
        catalog.connection.execute_batch(&format!("{unchecked} {spoil}; PRAGMA foreign_keys = on")).unwrap();
        let listed: Vec<_> =
            catalog.users().unwrap().into_iter().map(|user| (user.name.to_lowercase(), user.damage)).collect();
        let [alice, bob, carol] = ["alice", "bob", "carol"].map(str::to_owned);
        assert_eq!(listed, [(alice, Some(what)), (bob, None), (carol, None)]);
        assert_eq!(catalog.user(&user("alice")).unwrap().damage, Some(what));
        let snapshot = catalog.snapshot().unwrap();
        assert!(snapshot.users[0].1.is_none() && snapshot.users[1].1.is_some());
        assert_eq!(super::check::contents(&catalog.connection).len(), 1, "{what}");
        assert_eq!(catalog.add_user(&user("alice"), "x", None).unwrap_err().fault(), Fault::Conflict);
        catalog.remove_user(&user("ALICE")).unwrap();
        assert_eq!(catalog.users().unwrap().len(), 2);
        assert!(super::check::contents(&catalog.connection).is_empty());
    }
}

#[test]
fn what_was_replaced_counts_until_its_time_is_over_or_something_is_replaced_without_one() {
    let (_place, mut catalog) = people();
    let (alice, studio) = (user("alice"), account("studio"));
    let hour = || Some("1h".parse().unwrap());
    let before = Timestamp::now();
    catalog.set_password(&alice, "second", hour()).unwrap();
    let old_key = catalog.keys(&studio).unwrap().key1.clone();
    catalog.regenerate_key(&studio, Key::One, hour()).unwrap();
    let snapshot = catalog.snapshot().unwrap();
    let hashes: Vec<_> = snapshot.former.iter().map(|former| former.nt_hash.clone()).collect();
    assert_eq!(hashes, [nt_hash("secret"), nt_hash(&old_key)]);
    let hours = |hours| before.checked_add(SignedDuration::from_hours(hours)).unwrap();
    assert!(!snapshot.is_over(before) && snapshot.is_over(hours(2)));

    catalog.set_password(&alice, "third", hour()).unwrap();
    assert_eq!(catalog.snapshot().unwrap().former.len(), 3);
    catalog.set_password(&alice, "fourth", None).unwrap();
    assert_eq!(catalog.snapshot().unwrap().former.len(), 1, "the older ones end with it");
    (0..4).for_each(|_| catalog.set_password(&alice, "again", hour()).unwrap());
    assert_eq!(catalog.set_password(&alice, "again", hour()).unwrap_err().fault(), Fault::Conflict);

    catalog.forget_former(before).unwrap();
    assert_eq!(catalog.snapshot().unwrap().former.len(), 5);
    catalog.forget_former(hours(2)).unwrap();
    assert!(catalog.snapshot().unwrap().former.is_empty());
    catalog.set_password(&alice, "again", hour()).unwrap();
    catalog.remove_user(&alice).unwrap();
    assert!(catalog.snapshot().unwrap().former.is_empty());
}

#[test]
fn users_stand_as_it_was_said_and_as_time_goes() {
    let (_place, mut catalog) = people();
    let now = Timestamp::now();
    let later = Timestamp::from_second(now.as_second() + 60).unwrap();
    let changes = UserChanges { expires: Some(Some(later)), ..UserChanges::default() };
    let alice = catalog.update_user(&user("alice"), &changes).unwrap();
    assert_eq!(alice.standing(now), Standing::Good);
    assert_eq!(alice.standing(later), Standing::Expired);
    let snapshot = catalog.snapshot().unwrap();
    assert!(!snapshot.is_over(now) && snapshot.is_over(later), "the server looks again when the time has come");
    let changes = UserChanges { disabled: Some(true), ..UserChanges::default() };
    assert_eq!(catalog.update_user(&user("alice"), &changes).unwrap().standing(later), Standing::Disabled);
    let changes = UserChanges { disabled: Some(false), expires: Some(None), ..UserChanges::default() };
    let alice = catalog.update_user(&user("alice"), &changes).unwrap();
    assert_eq!(alice.standing(later.saturating_add(SignedDuration::from_hours(9_999)).unwrap()), Standing::Good);
}

#[test]
fn nobody_new_takes_the_name_of_somebody_that_clients_know_and_who_has_one_goes_on() {
    let (_place, mut catalog) = people();
    for name in ["Domain Users", "SYSTEM", "Administrators", "Guest", "ali\u{202e}ce"] {
        let refused = [
            catalog.add_user(&user(name), "secret", None).map(drop),
            catalog.create_group(&user(name), None).map(drop),
            catalog
                .update_user(&user("alice"), &UserChanges { name: Some(user(name)), ..UserChanges::default() })
                .map(drop),
        ];
        assert!(refused.into_iter().all(|done| done.unwrap_err().fault() == Fault::Argument), "{name:?}");
    }
    catalog.connection.execute_batch(
        "UPDATE user SET name = 'Guest' WHERE name = 'bob'; UPDATE principal SET folded_name = 'GUEST' WHERE folded_name = 'BOB'",
    ).unwrap();
    let misleading = super::principals::misleading(&catalog.connection).unwrap();
    assert_eq!(misleading.len(), 1);
    assert!(misleading[0].0 == "user" && misleading[0].1.what().contains("\"Guest\""), "{:?}", misleading[0]);
    assert_eq!(catalog.users().unwrap().len(), 3);
    catalog.update_user(&user("guest"), &UserChanges { disabled: Some(true), ..UserChanges::default() }).unwrap();
}

#[test]
fn groups_hold_users_and_groups_and_count_through_others() {
    let (_place, mut catalog) = people();
    let studio = account("studio");
    let inner = catalog.create_group(&user("editors"), Some(&studio)).unwrap().relative_id;
    let outer = catalog.create_group(&user("staff"), Some(&studio)).unwrap().relative_id;
    catalog.add_members(&user("editors"), &users(&["alice", "ALICE"])).unwrap();
    let staff = catalog.add_members(&user("Staff"), &users(&["bob", "editors"])).unwrap();
    assert_eq!(staff.members, ["bob", "editors"]);
    let alice = catalog.user(&user("alice")).unwrap().relative_id;
    let snapshot = catalog.snapshot().unwrap();
    assert_eq!(snapshot.groups_of[&alice], [inner, outer]);
    assert_eq!(catalog.groups_of(&catalog.user(&user("alice")).unwrap()).unwrap(), ["editors", "staff"]);
    assert_eq!(catalog.remove_members(&user("staff"), &users(&["bob", "alice"])).unwrap_err().fault(), Fault::Missing);
    assert_eq!(catalog.group(&user("staff")).unwrap().members, ["bob", "editors"], "all or none");
    catalog.remove_members(&user("staff"), &users(&["editors"])).unwrap();
    assert_eq!(catalog.groups_of(&catalog.user(&user("alice")).unwrap()).unwrap(), ["editors"]);
    catalog.delete_group(&user("editors")).unwrap();
    assert!(catalog.groups_of(&catalog.user(&user("alice")).unwrap()).unwrap().is_empty());
    catalog.remove_user(&user("bob")).unwrap();
    assert!(catalog.group(&user("staff")).unwrap().members.is_empty());
}

#[test]
fn no_group_holds_itself_or_another_accounts_or_an_account() {
    let (_place, mut catalog) = people();
    let studio = account("studio");
    for name in ["one", "two", "three"] {
        catalog.create_group(&user(name), Some(&studio)).unwrap();
    }
    catalog.add_members(&user("one"), &users(&["two"])).unwrap();
    catalog.add_members(&user("two"), &users(&["three"])).unwrap();
    for (group, member) in [("three", "one"), ("three", "three"), ("one", "carol"), ("one", "studio")] {
        let refused = catalog.add_members(&user(group), &users(&["alice", member])).unwrap_err();
        assert!(matches!(refused.fault(), Fault::Conflict | Fault::Argument), "{group} {member}: {refused}");
        assert!(!catalog.group(&user(group)).unwrap().members.contains(&"alice".to_owned()), "all or none");
    }
    assert_eq!(catalog.add_members(&user("one"), &users(&["nobody"])).unwrap_err().fault(), Fault::Missing);
    assert_eq!(catalog.add_members(&user("alice"), &users(&["bob"])).unwrap_err().fault(), Fault::Missing);
    assert_eq!(catalog.create_group(&user("Alice"), None).unwrap_err().fault(), Fault::Conflict);
    assert_eq!(catalog.create_group(&user("Everyone"), None).unwrap_err().fault(), Fault::Argument);
    assert_eq!(catalog.delete_account(&studio).unwrap_err().fault(), Fault::Conflict);
}

#[test]
fn nobody_is_in_more_groups_than_each_open_can_ask_about() {
    let (_place, mut catalog) = people();
    let name = |number: usize| user(&format!("group-{number}"));
    for number in 0..=256 {
        catalog.create_group(&name(number), Some(&account("studio"))).unwrap();
    }
    for number in 1..256 {
        catalog.add_members(&name(number), &[name(number - 1)]).unwrap();
    }
    catalog.add_members(&name(0), &users(&["alice"])).unwrap();
    assert_eq!(catalog.groups_of(&catalog.user(&user("alice")).unwrap()).unwrap().len(), 256);
    let refused = catalog.add_members(&name(256), &[name(255)]).unwrap_err();
    assert!(refused.what().contains("256"), "{refused}");
}

#[test]
fn the_first_right_by_name_closes_a_share_and_nothing_opens_it_again_but_a_word() {
    let (_place, mut catalog) = people();
    catalog.create_share(&NewShare { account: Some(account("studio")), ..ram("files") }).unwrap();
    let files = share("files");
    assert_eq!(rights(&mut catalog), ShareRights::open());
    let granted = catalog.grant(&files, &named("alice"), ShareRight::Change).unwrap();
    assert!(granted.closed);
    let alice = catalog.user(&user("alice")).unwrap().relative_id;
    let only_alice = ShareRights { granted: vec![(alice, ShareRight::Change)], ..ShareRights::default() };
    assert_eq!(rights(&mut catalog), only_alice);
    assert!(!catalog.grant(&files, &named("ALICE"), ShareRight::Read).unwrap().closed);
    assert_eq!(rights(&mut catalog).granted, [(alice, ShareRight::Read)]);
    catalog.remove_user(&user("alice")).unwrap();
    assert_eq!(rights(&mut catalog), ShareRights::default(), "who was the last leaves it closed");
    catalog.grant(&files, &named("everyone"), ShareRight::Read).unwrap();
    assert_eq!(rights(&mut catalog), ShareRights { everyone: Some(ShareRight::Read), ..ShareRights::default() });
    let granted = catalog.grant(&files, &named("bob"), ShareRight::Full).unwrap();
    assert!(!granted.closed, "what was granted to everybody stays");
    let shown: Vec<_> = granted.grants.iter().map(|grant| (grant.who.as_str(), grant.right)).collect();
    assert_eq!(shown, [("everyone", ShareRight::Read), ("bob", ShareRight::Full)]);
    catalog.revoke(&files, &named("everyone")).unwrap();
    catalog.revoke(&files, &named("bob")).unwrap();
    assert_eq!(rights(&mut catalog), ShareRights::default());
}

#[test]
fn rights_are_for_users_and_groups_of_the_shares_account() {
    let (_place, mut catalog) = people();
    catalog.create_share(&NewShare { account: Some(account("studio")), ..ram("files") }).unwrap();
    let files = share("files");
    for (who, fault) in [("carol", Fault::Conflict), ("studio", Fault::Argument), ("nobody", Fault::Missing)] {
        assert_eq!(catalog.grant(&files, &named(who), ShareRight::Read).unwrap_err().fault(), fault, "{who}");
    }
    assert_eq!(rights(&mut catalog), ShareRights::open(), "what is refused changes nothing");
    assert_eq!(catalog.revoke(&files, &named("alice")).unwrap_err().fault(), Fault::Missing);
    assert_eq!(catalog.grant(&share("none"), &named("alice"), ShareRight::Read).unwrap_err().fault(), Fault::Missing);
    catalog.create_group(&user("editors"), Some(&account("studio"))).unwrap();
    catalog.grant(&files, &named("editors"), ShareRight::Change).unwrap();
    catalog.delete_group(&user("editors")).unwrap();
    assert_eq!(rights(&mut catalog), ShareRights::default());
    catalog.delete_share(&files).unwrap();
    assert!(catalog.snapshot().unwrap().rights.is_empty());
}

#[test]
fn a_renamed_group_keeps_its_rights_and_a_user_has_the_greatest_of_all() {
    let (_place, mut catalog) = people();
    let (alice, staff, crew) = (user("alice"), user("staff"), user("crew"));
    catalog.create_share(&NewShare { account: Some(account("studio")), ..ram("files") }).unwrap();
    catalog.create_group(&staff, Some(&account("studio"))).unwrap();
    catalog.add_members(&staff, std::slice::from_ref(&alice)).unwrap();
    let files = share("files");
    catalog.grant(&files, &named("staff"), ShareRight::Change).unwrap();
    catalog.grant(&files, &named("alice"), ShareRight::Read).unwrap();
    let before = catalog.group(&staff).unwrap();
    let renamed = catalog.rename_group(&staff, &crew).unwrap();
    assert_eq!((renamed.name.as_str(), renamed.relative_id), ("crew", before.relative_id));
    assert!(catalog.group(&staff).is_err() && catalog.rename_group(&crew, &alice).is_err());
    assert_eq!(catalog.granted_to(&crew).unwrap(), [("files".to_owned(), ShareRight::Change)]);
    assert_eq!(catalog.granted_to(&alice).unwrap(), [("files".to_owned(), ShareRight::Read)]);
    let on_share = |catalog: &Catalog| {
        let shares = catalog.shares_of(&catalog.user(&alice).unwrap()).unwrap();
        shares.into_iter().find(|(name, _)| name == "files").map(|(_, right)| right)
    };
    assert_eq!(on_share(&catalog), Some(ShareRight::Change));
    catalog.delete_group(&crew).unwrap();
    assert_eq!(on_share(&catalog), Some(ShareRight::Read));
    catalog.revoke(&files, &named("alice")).unwrap();
    assert_eq!(on_share(&catalog), None);
}

#[test]
fn nobody_has_a_name_that_means_somebody_else_or_looks_like_anothers() {
    let (_place, mut catalog) = people();
    for name in ["Domain Users", "system", "ADMINISTRATORS", "al\u{202e}ice", "alice\u{200b}", "everyone"] {
        let made = catalog.create_group(&user(name), None).unwrap_err();
        assert_eq!(
            (made.fault(), catalog.add_user(&user(name), "secret", None).is_err()),
            (Fault::Argument, true),
            "{name:?}"
        );
        let renamed = UserChanges { name: Some(user(name)), ..UserChanges::default() };
        assert!(catalog.update_user(&user("alice"), &renamed).is_err(), "{name:?}");
    }
}
