//! A share: made, deleted, had back, and how full it is.

use control::{
    AccountKind, AccountName, AzureShare, Billing, By, Deletion, LeaseNamed, NewShare, Provision, ShareName, Source,
    WithSnapshots,
};
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

use super::asked::check_hosts;
use super::kept::metadata;
use super::share_properties::{Wanted, set_quota, set_version};
use super::{Ask, Service, accepted};
use crate::answer::{Answer, empty, set, xml};
use crate::failure::{Code, Failure};

/// Characters of a share's name.
const NAME: std::ops::RangeInclusive<usize> = 3..=63;

impl Ask {
    /// The account that is asked.
    pub(super) fn account(&self) -> Result<AccountName, Failure> {
        Ok(self.by.account().parse::<AccountName>()?)
    }

    /// The share that is named. One that there is may have a name that the service gives none.
    pub(super) fn share(&self) -> Result<ShareName, Failure> {
        let name = self.target.share.as_deref().unwrap_or_default();
        name.parse().map_err(|_| Failure::no_share(name))
    }

    /// The lease that who asks claims to have.
    pub(super) fn lease_id(&self) -> Option<String> {
        self.header("x-ms-lease-id").map(str::to_owned)
    }
}

/// A name that the service takes for a new share: 3 to 63 lower-case letters, digits and hyphens, no hyphen at an end or beside another.
pub(crate) fn new_name(name: &str) -> Result<ShareName, Failure> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(is_part) || name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(Failure::new(
            Code::InvalidResourceName,
            "The specified resource name contains invalid characters.",
        ));
    }
    if !NAME.contains(&name.len()) {
        let message = format!("The name of a share has {} to {} characters.", NAME.start(), NAME.end());
        return Err(Failure::new(Code::OutOfRangeInput, message));
    }
    Ok(name.parse::<ShareName>()?)
}

/// Create Share. Its files live in a folder that is made for it.
pub(super) async fn create(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let (account, name) = (ask.account()?, new_name(ask.target.share.as_deref().unwrap_or_default())?);
    let metadata = metadata(&ask.parts.headers)?;
    let accounts = service.catalog.accounts();
    let known = accounts.iter().find(|known| known.name == account.as_str());
    let known = known.ok_or_else(|| Failure::new(Code::ResourceNotFound, "There is no such account."))?;
    let wanted = Wanted::of_share(ask, known.kind)?;
    let (provision, quota_gib) = provision_of(known.billing(), &wanted)?;
    let source = Source::Folder { path: std::path::PathBuf::new(), quota_gib };
    let new = NewShare { account: Some(account.clone()), provision, ..NewShare::new(name.clone(), source) };
    let mut kept = AzureShare::default();
    kept.metadata = metadata;
    wanted.tier.into_iter().for_each(|tier| kept.set_tier(tier, Timestamp::now()));
    let by = ask.requester(&service.catalog);
    let share = service.in_catalog(move |operations| operations.create_share(By::Requester(&by), &new, kept)).await?;
    let mut answer = empty(StatusCode::CREATED);
    set_version(&mut answer, &service.catalog.azure_share(&share));
    set_quota(&mut answer, &share);
    Ok(answer)
}

/// What a new share is provisioned with, or else its quota.
fn provision_of(
    billing: Billing,
    wanted: &Wanted,
) -> Result<(Option<Provision>, Option<std::num::NonZeroU32>), Failure> {
    let Wanted { gib, iops, mibps, .. } = *wanted;
    let is_provisioned = iops.is_some() || mibps.is_some();
    match (billing, gib) {
        (Billing::Provisioned(model), gib) => {
            // Somebody who says nothing is given the least.
            let gib = gib.unwrap_or(*model.gib().start());
            Ok((Some(Provision { gib, iops, mibps }), None))
        }
        (Billing::Local | Billing::PayAsYouGo, Some(gib)) if is_provisioned => {
            Ok((Some(Provision { gib, iops, mibps }), None))
        }
        (Billing::Local | Billing::PayAsYouGo, None) if is_provisioned => Err(Failure::missing("x-ms-share-quota")),
        (Billing::Local | Billing::PayAsYouGo, gib) => Ok((None, gib.and_then(std::num::NonZeroU32::new))),
    }
}

/// Delete Share, or a snapshot of one. What clients have open on it is closed, and nobody is asked.
pub(super) async fn delete(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    const SNAPSHOTS: &str = "x-ms-delete-snapshots";
    let snapshots = match ask.header(SNAPSHOTS).map(str::to_ascii_lowercase).as_deref() {
        None => WithSnapshots::Refused,
        Some("include") => WithSnapshots::Unleased,
        Some("include-leased") => WithSnapshots::All,
        Some(_) => return Err(Failure::header(SNAPSHOTS, "include, or include-leased")),
    };
    let by = ask.requester(&service.catalog);
    if let Some(at) = ask.snapshot {
        if snapshots != WithSnapshots::Refused {
            return Err(Failure::header(SNAPSHOTS, "none, where one snapshot is deleted"));
        }
        let (share, lease) = (service.record(ask)?, ask.lease_id());
        service
            .in_catalog(move |operations| {
                operations.delete_snapshot(By::Requester(&by), &share, at, LeaseNamed::This(lease.as_deref()))
            })
            .await?;
        return Ok(accepted());
    }
    let (account, share, lease) = (ask.account()?, ask.share()?, ask.lease_id());
    let used = service
        .in_catalog(move |operations| {
            // How full it was is told where it is known.
            let used = operations.used_bytes(&account, &share)?;
            let _: Deletion =
                operations.delete_share(By::Requester(&by), &account, &share, lease.as_deref(), snapshots)?;
            Ok(used)
        })
        .await?;
    let mut answer = empty(StatusCode::ACCEPTED);
    used.into_iter().for_each(|used| set(&mut answer, "x-ms-file-share-usage-bytes", &used.to_string()));
    Ok(answer)
}

/// Undelete Share ("Restore Share").
pub(super) async fn undelete(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    const NAME: &str = "x-ms-deleted-share-name";
    const VERSION: &str = "x-ms-deleted-share-version";
    let (account, share) = (ask.account()?, ask.share()?);
    let named = |name| ask.header(name).filter(|value| !value.is_empty()).ok_or_else(|| Failure::missing(name));
    let (deleted, version) = (named(NAME)?, named(VERSION)?.to_owned());
    let deleted: ShareName = deleted.parse().map_err(|_| Failure::no_share(deleted))?;
    let kept = service.catalog.deleted_shares(account.as_str());
    if let Some(kept) = kept.iter().find(|kept| kept.version().eq_ignore_ascii_case(&version)) {
        check_hosts(&kept.share, ask.peer.ip())?;
    }
    let by = ask.requester(&service.catalog);
    let share = service
        .in_catalog(move |operations| {
            operations.undelete_share(By::Requester(&by), &account, &deleted, Some(&version), &share)
        })
        .await?;
    let mut answer = empty(StatusCode::CREATED);
    set_version(&mut answer, &service.catalog.azure_share(&share));
    set_quota(&mut answer, &share);
    Ok(answer)
}

/// Snapshot Share. It has metadata of its own where some are sent, and those of the share otherwise.
pub(super) async fn snapshot(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let (account, share, sent) = (ask.account()?, ask.share()?, metadata(&ask.parts.headers)?);
    let kept = service.catalog.azure_share(&service.record(ask)?);
    super::share_lease::check(ask, &kept)?;
    let sent = Some(sent).filter(|sent| !sent.is_empty());
    let by = ask.requester(&service.catalog);
    let snapshot = service
        .in_catalog(move |operations| operations.take_snapshot(By::Requester(&by), &account, &share, sent))
        .await?;
    let mut answer = empty(StatusCode::CREATED);
    set_version(&mut answer, &snapshot.kept);
    set(&mut answer, "x-ms-snapshot", &snapshot.at.to_string());
    Ok(answer)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Stats {
    share_usage_bytes: u64,
}

/// Get Share Stats.
pub(super) async fn stats(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let (account, name) = (ask.account()?, ask.share()?);
    let share = service.record(ask)?;
    let kept = service.catalog.azure_share(&share);
    super::share_lease::check(ask, &kept)?;
    let share_usage_bytes = service.in_catalog(move |operations| operations.count_used_bytes(&account, &name)).await?;
    let mut answer = xml("ShareStats", &Stats { share_usage_bytes })?;
    set_version(&mut answer, &kept);
    Ok(answer)
}

/// The tier of a share of a provisioned account.
pub(super) fn is_premium(kind: AccountKind) -> bool {
    kind == AccountKind::FileStorage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_shares_have_the_names_that_the_service_gives() {
        for name in ["abc", "a-b-c", "000", "share1", &"x".repeat(63)] {
            assert_eq!(new_name(name).unwrap().as_str(), name);
        }
        for (name, code) in [
            ("ab", Code::OutOfRangeInput),
            (&*"x".repeat(64), Code::OutOfRangeInput),
            ("Abc", Code::InvalidResourceName),
            ("-abc", Code::InvalidResourceName),
            ("abc-", Code::InvalidResourceName),
            ("a--b", Code::InvalidResourceName),
            ("a b", Code::InvalidResourceName),
            ("a.b", Code::InvalidResourceName),
            ("äöü", Code::InvalidResourceName),
            ("$root", Code::InvalidResourceName),
        ] {
            assert_eq!(new_name(name).map_err(|failure| failure.code), Err(code), "{name}");
        }
    }
}
