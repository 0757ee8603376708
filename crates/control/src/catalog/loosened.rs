//! What a catalog allows that another does not, in sentences for operators: what a restore would open that was closed since the backup.

use std::collections::{BTreeMap, BTreeSet};

use server::admin::{AuditClass, Sealing, ShareRight, ShareRights, Signing, Standing};

use super::{Difference, Group, ShareRecord, Snapshot, StoredSettings, User, names};
use crate::published_key::is_published;

/// What `now` allows and `before` does not, a sentence for each.
pub(super) fn loosened(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    accounts(before, now, &mut found);
    users(before, now, &mut found);
    groups(before, now, &mut found);
    operators(before, now, &mut found);
    service_principals(before, now, &mut found);
    shares(before, now, &mut found);
    settings(&before.settings, &now.settings, &mut found);
    found
}

fn accounts(before: &Snapshot, now: &Snapshot, found: &mut Vec<String>) {
    let accounts = Difference::of(&before.accounts, &now.accounts, |(account, _)| account.relative_id);
    for (account, keys) in accounts.made {
        let is_known = is_published(&keys.key1) || is_published(&keys.key2);
        let known = if is_known { ", one of which everybody knows" } else { "" };
        found.push(format!("account {} is there again, and its keys sign in{known}", account.name));
    }
    for ((_, earlier), (account, keys)) in accounts.kept {
        for (name, earlier, key) in [("key1", &earlier.key1, &keys.key1), ("key2", &earlier.key2, &keys.key2)] {
            if earlier != key {
                let known = if is_published(key) { ", and everybody knows it" } else { "" };
                found.push(format!("{name} of account {} is another one, and signs in{known}", account.name));
            }
        }
    }
}

fn users(before: &Snapshot, now: &Snapshot, found: &mut Vec<String>) {
    let standing = |user: &User| user.standing(now.read_at);
    let users = Difference::of(&before.users, &now.users, |(user, _)| user.relative_id);
    for (user, _) in users.made {
        let name = &user.name;
        let made_anew = before.users.iter().any(|(other, _)| store::fold(&other.name) == store::fold(name));
        match (made_anew, standing(user)) {
            (true, _) => {
                found.push(format!("user {name} is the one before who was made anew, with that one's SID and password"))
            }
            (false, Standing::Good) => found.push(format!("user {name} is there again, and may sign in")),
            (false, Standing::Disabled | Standing::Expired) => {}
        }
    }
    for ((earlier, earlier_password), (user, password)) in users.kept {
        let name = &user.name;
        if standing(user) != Standing::Good {
            continue;
        }
        match standing(earlier) {
            Standing::Disabled => found.push(format!("user {name} is no longer disabled, and may sign in")),
            Standing::Expired => found.push(format!("user {name} has no longer expired, and may sign in")),
            Standing::Good => match (earlier.expires, user.expires) {
                (Some(_), None) => found.push(format!("user {name} no longer expires")),
                (Some(earlier), Some(later)) if later > earlier => {
                    found.push(format!("user {name} may sign in until {later}, and not only until {earlier}"));
                }
                (Some(_) | None, Some(_)) | (None, None) => {}
            },
        }
        if earlier_password != password {
            found.push(format!("user {name} has another password"));
        }
    }
}

/// The relative ids of those that a group of `snapshot` holds by itself.
fn members(of: &Snapshot, group: &Group) -> BTreeSet<u32> {
    let held: BTreeSet<&str> = group.members.iter().map(String::as_str).collect();
    names(of).into_iter().filter(|(_, name)| held.contains(name)).map(|(relative_id, _)| relative_id).collect()
}

fn groups(before: &Snapshot, now: &Snapshot, found: &mut Vec<String>) {
    let groups = Difference::of(&before.groups, &now.groups, |group| group.relative_id);
    for group in groups.made.into_iter().filter(|group| !group.members.is_empty()) {
        found.push(format!("group {} is there again, and holds {}", group.name, group.members.join(", ")));
    }
    let names = names(now);
    for (earlier, group) in groups.kept.into_iter().filter(|(earlier, group)| earlier.members != group.members) {
        let held = members(before, earlier);
        let come: Vec<&str> =
            members(now, group).difference(&held).filter_map(|member| names.get(member).copied()).collect();
        if !come.is_empty() {
            found.push(format!("group {} holds {} again", group.name, come.join(", ")));
        }
    }
}

fn operators(before: &Snapshot, now: &Snapshot, found: &mut Vec<String>) {
    let operators = Difference::of(&before.operators, &now.operators, |(operator, _)| store::fold(&operator.name));
    for (operator, _) in operators.made {
        found.push(format!("operator {} is there again, and may sign in to the page", operator.name));
    }
    for ((_, earlier), (operator, password)) in operators.kept {
        if earlier != password {
            found.push(format!("operator {} has another password", operator.name));
        }
    }
}

fn service_principals(before: &Snapshot, now: &Snapshot, found: &mut Vec<String>) {
    let principals = Difference::of(&before.service_principals, &now.service_principals, |(principal, _)| {
        principal.application_id.clone()
    });
    for (principal, _) in principals.made {
        found.push(format!("service principal {} is there again, with its secret", principal.name));
    }
    for ((earlier, kept), (principal, secret)) in principals.kept {
        if kept != secret {
            found.push(format!("service principal {} has another secret", principal.name));
        }
        for role in principal.roles.iter().filter(|role| !earlier.roles.contains(role)) {
            found.push(format!("service principal {} is {role} again", principal.name));
        }
    }
}

fn shares(before: &Snapshot, now: &Snapshot, found: &mut Vec<String>) {
    let (nobodys, names) = (ShareRights::default(), names(now));
    let rights = |of: &'_ Snapshot, share: &ShareRecord| of.rights.get(&share.id).cloned().unwrap_or_default();
    let shares = Difference::of(&before.shares, &now.shares, |share| share.id);
    for share in shares.made {
        let mut who = wider(&nobodys, &rights(now, share), &names);
        who.insert(0, format!("the keys of account {}", share.account));
        found.push(format!("share {} is there again, for {}", share.name, who.join(", ")));
    }
    for (earlier, share) in shares.kept {
        for who in wider(&rights(before, earlier), &rights(now, share), &names) {
            found.push(format!("share {} lets in {who}", share.name));
        }
        for what in opened(earlier, share) {
            found.push(format!("share {} {what}", share.name));
        }
        let policies = |of: &Snapshot| of.azure_shares.get(&share.id).map(|kept| kept.policies.clone());
        let had = policies(before).unwrap_or_default();
        let others = policies(now).unwrap_or_default().into_iter().filter(|policy| !had.contains(policy));
        for policy in others {
            found.push(format!("share {} has the stored access policy {:?} again", share.name, policy.id));
        }
    }
}

/// Who may do more by the second rights, such as `alice: full`.
fn wider(before: &ShareRights, now: &ShareRights, names: &BTreeMap<u32, &str>) -> Vec<String> {
    let had = |who: u32| {
        let granted = before.granted.iter().filter(|(other, _)| *other == who).map(|(_, right)| *right);
        granted.max().max(before.everyone)
    };
    let everyone = now.everyone.filter(|right| Some(*right) > before.everyone);
    let everyone = everyone.map(|right: ShareRight| format!("everyone of the account: {right}"));
    let granted = now.granted.iter().filter(|(who, right)| Some(*right) > had(*who));
    // Whoever has no name is in no snapshot any more.
    let granted = granted.filter_map(|(who, right)| Some(format!("{}: {right}", names.get(who)?)));
    everyone.into_iter().chain(granted).collect()
}

/// What of a share is less guarded.
fn opened(before: &ShareRecord, now: &ShareRecord) -> Vec<String> {
    let no_longer = [
        (before.seal_required && !now.seal_required, "no longer wants encryption"),
        (before.read_only && !now.read_only, "is no longer read-only"),
        (before.access_based && !now.access_based, "lists again what a user may not read"),
        (before.account != now.account, "belongs to another account"),
        (before.source != now.source, "has another folder or quota"),
        (before.modes != now.modes, "gives new files other permissions on this machine"),
    ];
    let lost: Vec<&str> = AuditClass::ALL
        .into_iter()
        .filter(|class| before.audit.contains(*class) && !now.audit.contains(*class))
        .map(AuditClass::name)
        .collect();
    let unaudited = (!lost.is_empty()).then(|| format!("is no longer audited for {}", lost.join(", ")));
    no_longer.into_iter().filter(|(is, _)| *is).map(|(_, what)| what.to_owned()).chain(unaudited).collect()
}

fn settings(before: &StoredSettings, now: &StoredSettings, found: &mut Vec<String>) {
    let (is_signed, is_sealed) = (before.signing == Signing::Required, before.sealing == Sealing::Required);
    for (is_looser, what) in [
        (is_signed && now.signing != Signing::Required, "signing is no longer required"),
        (is_sealed && now.sealing != Sealing::Required, "encryption is no longer required"),
        (now.dialect_min < before.dialect_min, "older dialects are accepted"),
        (now.listen != before.listen, "the server listens on other addresses"),
    ] {
        if is_looser {
            found.push(format!("setting: {what}"));
        }
    }
}
