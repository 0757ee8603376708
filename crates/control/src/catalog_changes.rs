//! What the catalog says otherwise than it did when it was read before, as events of the log: names, never secrets. Whoever has changed it, by a command, on the page or
//! by another program, the running server sees it here.

use std::num::NonZeroU32;

use secure::PasswordHash;
use store::Belief;
use tracing::{info, warn};

use crate::catalog::{Account, Difference, Group, ServicePrincipal, Snapshot, names};
use crate::{ShareRecord, Source, StoredSettings};

/// Members that an event names at most.
const MEMBERS_TOLD_MAX: usize = 20;
/// Rights on a share that an event names at most.
const GRANTED_TOLD_MAX: usize = 100;

/// Tells the log what has changed from one reading to the next.
pub(crate) fn tell(before: &Snapshot, now: &Snapshot) {
    accounts(before, now);
    users(before, now);
    groups(before, now);
    operators(before, now);
    service_principals(before, now);
    shares(before, now);
    settings(&before.settings, &now.settings);
    if before.features.registered_from != now.features.registered_from
        || before.features.regions() != now.features.regions()
    {
        info!(name: "features_changed", "features of the data folder, or their regions, have changed");
    }
}

/// The names of what is different.
fn named<const COUNT: usize>(parts: [(&'static str, bool); COUNT]) -> String {
    parts.iter().filter(|(_, is_different)| *is_different).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn accounts(before: &Snapshot, now: &Snapshot) {
    let found = Difference::of(&before.accounts, &now.accounts, |(account, _)| account.relative_id);
    for (Account { name, kind, .. }, _) in found.made {
        info!(name: "account_created", account = name, kind = kind.as_str(), "an account was made");
    }
    for (Account { name, .. }, _) in found.gone {
        info!(name: "account_deleted", account = name, "an account was deleted");
    }
    for ((earlier, earlier_keys), (account, keys)) in found.kept {
        let what = named([
            ("multichannel", earlier.multichannel != account.multichannel),
            ("retention of deleted shares", earlier.retention_days != account.retention_days),
            ("metadata caching", earlier.metadata_caching != account.metadata_caching),
        ]);
        let name = &account.name;
        if !what.is_empty() {
            info!(name: "account_changed", account = name, what, "an account was changed");
        }
        let what = named([("key1", earlier_keys.key1 != keys.key1), ("key2", earlier_keys.key2 != keys.key2)]);
        if !what.is_empty() {
            info!(name: "account_key_changed", account = name, what, "an account has another key");
        }
    }
}

/// Tells the log which users are damaged, of those that were not when the catalog was read before.
pub(crate) fn tell_damages(before: Option<&Snapshot>, now: &Snapshot) {
    let known = before.map_or(&[][..], |before| &before.users);
    for (user, _) in &now.users {
        let was = known.iter().find(|(one, _)| one.relative_id == user.relative_id).and_then(|(one, _)| one.damage);
        if let Some(what) = user.damage.filter(|_| was.is_none()) {
            warn!(name: "user_damaged", user = user.name, what, "what the catalog says of a user makes no sense: nobody can sign in as that user");
        }
    }
}

fn users(before: &Snapshot, now: &Snapshot) {
    let found = Difference::of(&before.users, &now.users, |(user, _)| user.relative_id);
    for (user, _) in found.made {
        info!(name: "user_created", user = user.name, account = user.account, "a user was made");
    }
    for (user, _) in found.gone {
        info!(name: "user_deleted", user = user.name, account = user.account, "a user was deleted");
    }
    for ((earlier, earlier_password), (user, password)) in found.kept {
        let what = named([
            ("name", earlier.name != user.name),
            ("disabled", earlier.disabled != user.disabled),
            ("expiry", earlier.expires != user.expires),
            ("unix-owner", earlier.unix_owner != user.unix_owner),
        ]);
        if !what.is_empty() {
            let (disabled, was) = (user.disabled, &earlier.name);
            let expires = user.expires.map_or_else(|| "never".to_owned(), |at| at.to_string());
            info!(name: "user_changed", user = user.name, account = user.account, was, what, disabled, expires, "a user was changed");
        }
        if earlier_password != password {
            info!(name: "user_password_changed", user = user.name, account = user.account, "a user has another password");
        }
    }
}

fn groups(before: &Snapshot, now: &Snapshot) {
    let found = Difference::of(&before.groups, &now.groups, |group| group.relative_id);
    for Group { name, account, .. } in found.made {
        info!(name: "group_created", group = name, account, "a group was made");
    }
    for Group { name, account, .. } in found.gone {
        info!(name: "group_deleted", group = name, account, "a group was deleted");
    }
    for (earlier, group) in found.kept {
        let only_in = |one: &Group, other: &Group| {
            let members = one.members.iter().filter(|member| !other.members.contains(member));
            members.take(MEMBERS_TOLD_MAX).cloned().collect::<Vec<_>>().join(", ")
        };
        if earlier.members != group.members || earlier.name != group.name {
            let (added, removed) = (only_in(group, earlier), only_in(earlier, group));
            info!(name: "group_changed", group = group.name, was = earlier.name, added, removed, "a group has another name or other members");
        }
    }
}

fn operators(before: &Snapshot, now: &Snapshot) {
    let found = Difference::of(&before.operators, &now.operators, |(operator, _)| store::fold(&operator.name));
    for (operator, _) in found.made {
        info!(name: "operator_created", operator = operator.name, "an operator was made");
    }
    for (operator, _) in found.gone {
        info!(name: "operator_deleted", operator = operator.name, "an operator was deleted");
    }
    for ((_, earlier), (operator, password)) in found.kept {
        if earlier != password {
            info!(name: "operator_password_changed", operator = operator.name, "an operator has another password");
        }
    }
}

fn service_principals(before: &Snapshot, now: &Snapshot) {
    let key = |(principal, kept): &(ServicePrincipal, PasswordHash)| (principal.application_id.clone(), kept.hash);
    let found = Difference::of(&before.service_principals, &now.service_principals, key);
    for (principal, _) in found.gone {
        info!(name: "service_principal_deleted", principal = principal.name, application = principal.application_id, "a service principal was deleted");
    }
    for (principal, _) in found.made {
        let roles = principal.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(",");
        info!(name: "service_principal_created", principal = principal.name, application = principal.application_id, roles, "a service principal was made");
    }
}

fn shares(before: &Snapshot, now: &Snapshot) {
    let found = Difference::of(&before.shares, &now.shares, |share| share.id);
    for ShareRecord { name, account, .. } in found.made {
        info!(name: "share_created", share = name, account, "a share was made");
    }
    for ShareRecord { name, account, .. } in found.gone {
        info!(name: "share_deleted", share = name, account, "a share was deleted");
    }
    for (earlier, share) in found.kept {
        let changed = || terms(earlier).into_iter().zip(terms(share)).filter(|(from, to)| from != to);
        let told = |terms: Vec<Term>| terms.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        let what = changed().map(|(_, (name, _))| name).collect::<Vec<_>>().join(", ");
        if !what.is_empty() {
            let [from, to] = [changed().map(|(from, _)| from).collect(), changed().map(|(_, to)| to).collect()]
                .map(|terms| told(terms).join(", "));
            info!(name: "share_changed", share = share.name, what, from, to, "a share was changed");
        }
        if before.rights.get(&share.id) != now.rights.get(&share.id) {
            let (from, to) = (rights(before, share.id), rights(now, share.id));
            info!(name: "share_rights_changed", share = share.name, from, to, "other users and groups may connect to a share, or may do something else there");
        }
        if earlier.audit != share.audit {
            let (from, to) = (earlier.audit, share.audit);
            info!(name: "share_audit_changed", share = share.name, %from, %to, "something else of a share is audited");
        }
    }
}

/// What holds of a share, and how.
type Term = (&'static str, String);

/// All that may be changed of a share, but for who may use it and what is audited.
fn terms(share: &ShareRecord) -> [Term; 15] {
    let yes = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let joined = |parts: Vec<Option<String>>| parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let gib = |gib: NonZeroU32| format!("{gib} GiB");
    let place = match &share.source {
        Source::Folder { path, .. } => path.display().to_string(),
        Source::Ram { bytes } => format!("{bytes} bytes of memory"),
    };
    let modes = &share.modes;
    let modes = joined(vec![
        modes.file.map(|mode| format!("files {mode:04o}")),
        modes.directory.map(|mode| format!("directories {mode:04o}")),
        modes.owner.map(|owner| format!("owner {}:{}", owner.uid, owner.gid)),
    ]);
    let provisioned = share
        .provisioned
        .map(|one| format!("{} GiB {} IOPS {} MiB/s by {}", one.gib, one.iops, one.mibps, one.model.as_str()));
    let limits = &share.limits;
    let limits = joined(vec![
        limits.iops_max.map(|most| format!("{most} IOPS")),
        limits.mibps_max.map(|most| format!("{most} MiB/s")),
        limits.user_iops_max.map(|most| format!("{most} IOPS a user")),
        limits.user_mibps_max.map(|most| format!("{most} MiB/s a user")),
    ]);
    let belief = match share.belief {
        Belief::Lasting => "exclusive".to_owned(),
        Belief::For(time) => format!("{time:?}"),
    };
    let text = |text: String| or_none(Some(text).filter(|text| !text.is_empty()));
    [
        ("name", share.name.clone()),
        ("account", share.account.clone()),
        ("place", place),
        ("quota", or_none(share.source.quota_gib().map(gib))),
        ("read-only", yes(share.read_only)),
        ("sealed", yes(share.seal_required)),
        ("continuous", yes(share.continuous)),
        ("access-based", yes(share.access_based)),
        ("hosts", text(share.hosts.to_string())),
        ("time-machine", yes(share.time_machine)),
        ("belief", belief),
        ("modes", text(modes)),
        ("comment", text(share.comment.clone())),
        ("provisioned", or_none(provisioned)),
        ("limits", text(limits)),
    ]
}

/// Who has which right on a share, in words.
fn rights(of: &Snapshot, share: i64) -> String {
    let Some(rights) = of.rights.get(&share) else { return "none".to_owned() };
    let (names, everyone) = (names(of), rights.everyone.map(|right| format!("everyone={right}")));
    let granted = rights.granted.iter().take(GRANTED_TOLD_MAX);
    let granted = granted.filter_map(|(who, right)| Some(format!("{}={right}", names.get(who)?)));
    let told: Vec<String> = granted.chain(everyone).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn settings(before: &StoredSettings, now: &StoredSettings) {
    let changed = now.each().into_iter().zip(before.each()).filter(|(now, before)| now != before);
    let mut what: Vec<&str> = changed.map(|(now, _)| now.name()).collect();
    if before.server_name != now.server_name {
        what.push("name");
    }
    let what = what.join(", ");
    if !what.is_empty() {
        info!(name: "settings_changed", what, "settings of the server were changed");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::catalog::tests::ram;
    use crate::{AccountKind, AccountName, Catalog, DataFolder, Key, Role, ShareChanges, ShareName, UserChanges};
    use server::admin::ShareRight;

    /// What is logged, as text.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that tell of what `change` changes.
    fn told(catalog: &mut Catalog, change: impl FnOnce(&mut Catalog)) -> Vec<String> {
        let before = catalog.snapshot().unwrap();
        change(catalog);
        let (now, lines) = (catalog.snapshot().unwrap(), Lines::default());
        let writer = lines.clone();
        let log =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).without_time().finish();
        tracing::subscriber::with_default(log, || tell(&before, &now));
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let said = |line: &str| line.split_once("control::catalog_changes: ").unwrap().1.to_owned();
        text.lines().map(said).collect()
    }

    #[test]
    fn each_change_is_told_once_by_names_and_without_secrets() {
        const SECRET: &str = "correct horse battery";
        let place = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(&DataFolder::create(place.path()).unwrap()).unwrap();
        let (abc, one): (AccountName, ShareName) = ("abc".parse().unwrap(), "one".parse().unwrap());
        let made = told(&mut catalog, |catalog| {
            catalog.create_account(&abc, AccountKind::FileStorage).unwrap();
            catalog.add_user(&"ann".parse().unwrap(), SECRET, None).unwrap();
            catalog.create_operator(&"bob".parse().unwrap(), SECRET).unwrap();
            catalog.add_service_principal(&"ci".parse().unwrap(), "id", SECRET, &[Role::Contributor]).unwrap();
            catalog.create_share(&ram("one")).unwrap();
        });
        let parts = [
            "an account was made",
            "a user was made",
            "an operator was made",
            "a service principal was made",
            "a share was made",
        ];
        assert_eq!(made.len(), parts.len(), "{made:?}");
        assert!(made.iter().zip(parts).all(|(line, part)| line.starts_with(part)), "{made:?}");
        assert!(made[3].contains("principal=\"ci\"") && made[3].contains("roles=\"contributor\""), "{made:?}");
        assert!(made[4].contains("share=\"one\"") && made[4].contains("account=\"abc\""), "{made:?}");

        let people = told(&mut catalog, |catalog| {
            catalog.create_group(&"editors".parse().unwrap(), None).unwrap();
            catalog.grant(&one, &"ann".parse().unwrap(), ShareRight::Read).unwrap();
        });
        assert_eq!(people.len(), 2, "{people:?}");
        assert!(people[0].starts_with("a group was made") && people[1].contains("may connect"), "{people:?}");
        assert!(people[1].contains("from=\"everyone=full\" to=\"ann=read\""), "{people:?}");
        let people = told(&mut catalog, |catalog| {
            catalog.add_members(&"editors".parse().unwrap(), &["ann".parse().unwrap()]).unwrap();
            let expires = Some(Some(jiff::Timestamp::from_second(1_800_000_000).unwrap()));
            let changes = UserChanges { disabled: Some(true), expires, ..UserChanges::default() };
            catalog.update_user(&"ann".parse().unwrap(), &changes).unwrap();
        });
        assert_eq!(people.len(), 2, "{people:?}");
        assert!(people[0].contains("what=\"disabled, expiry\"") && people[1].contains("added=\"ann\""), "{people:?}");
        assert!(people[0].contains("expires=\"2027-01-15T08:00:00Z\""), "{people:?}");

        let changed = told(&mut catalog, |catalog| {
            catalog.set_password(&"ann".parse().unwrap(), "another horse battery", None).unwrap();
            catalog.set_operator_password(&"bob".parse().unwrap(), "another horse battery").unwrap();
            let changes = ShareChanges {
                audit: Some("write,delete".parse().unwrap()),
                read_only: Some(true),
                ..ShareChanges::default()
            };
            catalog.update_share(&one, &changes).unwrap();
        });
        let parts =
            ["a user has another password", "an operator has", "a share was changed", "something else of a share"];
        assert_eq!(changed.len(), parts.len(), "{changed:?}");
        assert!(changed.iter().zip(parts).all(|(line, part)| line.starts_with(part)), "{changed:?}");
        assert!(changed[2].contains("what=\"read-only\" from=\"read-only=no\" to=\"read-only=yes\""), "{changed:?}");
        assert!(changed[3].contains("to=write,delete"), "{changed:?}");

        let keys = told(&mut catalog, |catalog| {
            catalog.regenerate_key(&abc, Key::Two, None).unwrap();
        });
        assert!(keys.len() == 1 && keys[0].contains("what=\"key2\""), "{keys:?}");
        let key = catalog.keys(&abc).unwrap().key2.clone();
        assert!(made.iter().chain(&changed).chain(&keys).all(|line| !line.contains("horse") && !line.contains(&key)));

        let gone = told(&mut catalog, |catalog| {
            catalog.delete_share(&one).unwrap();
            catalog.remove_user(&"ann".parse().unwrap()).unwrap();
            catalog.delete_group(&"editors".parse().unwrap()).unwrap();
            catalog.delete_operator(&"bob".parse().unwrap()).unwrap();
            catalog.delete_account(&abc).unwrap();
        });
        assert_eq!(gone.len(), 5, "{gone:?}");
        assert_eq!(told(&mut catalog, |_| ()), Vec::<String>::new());
    }
}
