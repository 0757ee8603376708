//! The properties of a share: how large and how fast it may be, its tier, its metadata.

use control::{
    AccessTier, AccountKind, AzureShare, By, LeaseState, LeaseTime, ProvisionChanges, ProvisionUpdate, Provisioned,
    ShareChanges, ShareProperties, ShareRecord, ShareSnapshot, Source, lease_state,
};
use hyper::StatusCode;

use super::kept::metadata;
use super::share::is_premium;
use super::{Ask, Service, share_lease};
use crate::answer::{Answer, empty, http_date, set as set_header};
use crate::failure::Failure;

/// What a share without a quota tells, in GiB: the most that the service has.
const UNLIMITED_GIB: u64 = 102_400;

/// What a request says of a share's size, speed and tier.
pub(super) struct Wanted {
    pub(super) gib: Option<u32>,
    pub(super) iops: Option<u32>,
    pub(super) mibps: Option<u32>,
    pub(super) tier: Option<AccessTier>,
}

impl Wanted {
    /// Reads it. What the service has and this server has not is refused where it is wanted, and taken where it is declined.
    pub(super) fn of_share(ask: &Ask, kind: AccountKind) -> Result<Self, Failure> {
        let number = |name: &str| match ask.number(name)? {
            None => Ok(None),
            Some(0) => Err(Failure::header(name, "a number from 1 on")),
            Some(number) => u32::try_from(number).map(Some).map_err(|_| Failure::header(name, "a smaller number")),
        };
        let of_words = |name: &str, allowed: &[&str]| match ask.header(name) {
            Some(word) if !allowed.iter().any(|known| word.eq_ignore_ascii_case(known)) => {
                Err(Failure::header(name, &allowed.join(", or ")))
            }
            Some(_) | None => Ok(()),
        };
        of_words("x-ms-enabled-protocols", &["SMB"])?;
        of_words("x-ms-share-paid-bursting-enabled", &["false"])?;
        of_words("x-ms-enable-smb-directory-lease", &["true"])?;
        // Of NFS.
        of_words("x-ms-root-squash", &[])?;
        of_words("x-ms-enable-snapshot-virtual-directory-access", &["false"])?;
        for name in ["x-ms-share-paid-bursting-max-iops", "x-ms-share-paid-bursting-max-bandwidth-mibps"] {
            of_words(name, &[])?;
        }
        Ok(Wanted {
            gib: number("x-ms-share-quota")?,
            iops: number("x-ms-share-provisioned-iops")?,
            mibps: number("x-ms-share-provisioned-bandwidth-mibps")?,
            tier: tier(ask.header("x-ms-access-tier"), kind)?,
        })
    }

    /// The changes to a share that is there.
    fn changes(&self, share: &ShareRecord, is_provisioned: bool) -> ShareChanges {
        let Wanted { gib, iops, mibps, .. } = *self;
        let values = gib.or(iops).or(mibps);
        if share.provisioned.is_some() || is_provisioned || iops.is_some() || mibps.is_some() {
            let change = ProvisionUpdate::Change(ProvisionChanges { gib, iops, mibps });
            return ShareChanges { provision: values.map(|_| change), ..ShareChanges::default() };
        }
        ShareChanges { quota_gib: gib.map(std::num::NonZeroU32::new), ..ShareChanges::default() }
    }
}

/// The tier that is named. Shares of file storage have one, and others have three to choose from.
fn tier(name: Option<&str>, kind: AccountKind) -> Result<Option<AccessTier>, Failure> {
    const NAME: &str = "x-ms-access-tier";
    let Some(name) = name else { return Ok(None) };
    match (name.to_ascii_lowercase().as_str(), is_premium(kind)) {
        ("premium", true) => Ok(None),
        ("transactionoptimized", false) => Ok(Some(AccessTier::TransactionOptimized)),
        ("hot", false) => Ok(Some(AccessTier::Hot)),
        ("cool", false) => Ok(Some(AccessTier::Cool)),
        (_, true) => Err(Failure::header(NAME, "Premium, in an account of kind FileStorage")),
        (_, false) => Err(Failure::header(NAME, "TransactionOptimized, Hot, or Cool, in an account of kind StorageV2")),
    }
}

/// The tier that a share is told to have.
pub(crate) fn tier_name(kept: &AzureShare, kind: AccountKind) -> &'static str {
    match kept.tier() {
        _ if is_premium(kind) => "Premium",
        None | Some((AccessTier::TransactionOptimized, _)) => "TransactionOptimized",
        Some((AccessTier::Hot, _)) => "Hot",
        Some((AccessTier::Cool, _)) => "Cool",
    }
}

/// Get Share Properties, which is Get Share Metadata, too. Of a snapshot it is told what it has of its own: its metadata, its size, its lease.
pub(super) async fn get(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let mut share = service.record(ask)?;
    let kept = match ask.snapshot {
        None => service.catalog.azure_share(&share),
        Some(at) => {
            let of = share.clone();
            let snapshot = service.in_catalog(move |operations| operations.snapshot(&of, at)).await?;
            share = of_snapshot(share, &snapshot);
            snapshot.kept
        }
    };
    share_lease::check(ask, &kept)?;
    let mut answer = empty(StatusCode::OK);
    set_version(&mut answer, &kept);
    for (name, value) in &kept.metadata {
        set_header(&mut answer, &format!("x-ms-meta-{name}"), value);
    }
    set_quota(&mut answer, &share);
    let properties = ShareProperties::from(&share);
    let numbers = [
        ("x-ms-share-provisioned-ingress-mbps", properties.provisioned_ingress_mibps),
        ("x-ms-share-provisioned-egress-mbps", properties.provisioned_egress_mibps),
    ];
    for (name, number) in numbers {
        number.into_iter().for_each(|number| set_header(&mut answer, name, &number.to_string()));
    }
    set_downgrades(&mut answer, &properties);
    let kind = service.kind(ask.by.account());
    set_header(&mut answer, "x-ms-access-tier", tier_name(&kept, kind));
    if let Some((_, since)) = kept.tier() {
        set_header(&mut answer, "x-ms-access-tier-change-time", &http_date(since));
    }
    set_header(&mut answer, "x-ms-enabled-protocols", "SMB");
    set_header(&mut answer, "x-ms-share-paid-bursting-enabled", "false");
    set_header(&mut answer, "x-ms-enable-smb-directory-lease", "true");
    let lease = LeaseTold::of(&kept);
    set_header(&mut answer, "x-ms-lease-status", lease.status);
    set_header(&mut answer, "x-ms-lease-state", lease.state);
    lease.duration.into_iter().for_each(|duration| set_header(&mut answer, "x-ms-lease-duration", duration));
    Ok(answer)
}

/// The share as it was told to be then.
pub(crate) fn of_snapshot(share: ShareRecord, snapshot: &ShareSnapshot) -> ShareRecord {
    let quota_gib = snapshot.quota_gib;
    let provisioned =
        share.provisioned.map(|provisioned| Provisioned { gib: quota_gib.unwrap_or(provisioned.gib), ..provisioned });
    let source = match share.source {
        Source::Folder { path, .. } => {
            Source::Folder { path, quota_gib: quota_gib.and_then(std::num::NonZeroU32::new) }
        }
        source @ Source::Ram { .. } => source,
    };
    ShareRecord { provisioned, source, ..share }
}

/// What is told of a share's lease, in the data plane's words.
pub(crate) struct LeaseTold {
    pub(crate) status: &'static str,
    pub(crate) state: &'static str,
    pub(super) duration: Option<&'static str>,
}

impl LeaseTold {
    pub(crate) fn of(kept: &AzureShare) -> Self {
        let lease = kept.lease.as_ref();
        let (status, state) = match lease_state(lease, LeaseTime::now()) {
            LeaseState::Available => ("unlocked", "available"),
            LeaseState::Leased => ("locked", "leased"),
            LeaseState::Expired => ("unlocked", "expired"),
            LeaseState::Breaking => ("locked", "breaking"),
            LeaseState::Broken => ("unlocked", "broken"),
        };
        let infinite = lease.filter(|_| state == "leased").map(|lease| lease.is_infinite());
        let duration = infinite.map(|is_infinite| if is_infinite { "infinite" } else { "fixed" });
        LeaseTold { status, state, duration }
    }
}

/// Set Share Properties.
pub(super) async fn set(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let (account, name, lease) = (ask.account()?, ask.share()?, ask.lease_id());
    let record = service.record(ask)?;
    let wanted = Wanted::of_share(ask, service.kind(ask.by.account()))?;
    let changes = wanted.changes(&record, service.is_provisioned(ask.by.account()));
    let keep = move |kept: &mut AzureShare, now| wanted.tier.into_iter().for_each(|tier| kept.set_tier(tier, now));
    let by = ask.requester(&service.catalog);
    let share = service
        .in_catalog(move |operations| {
            operations.update_share(By::Requester(&by), &account, &name, &changes, lease.as_deref(), keep)
        })
        .await?;
    let mut answer = empty(StatusCode::OK);
    set_version(&mut answer, &service.catalog.azure_share(&share));
    set_quota(&mut answer, &share);
    set_downgrades(&mut answer, &ShareProperties::from(&share));
    Ok(answer)
}

/// Set Share Metadata: all of it.
pub(super) async fn set_metadata(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let metadata = metadata(&ask.parts.headers)?;
    let kept = share_lease::change(service, ask, move |kept, now| {
        kept.metadata = metadata;
        kept.touch(now);
        Ok(())
    })
    .await?
    .1;
    let mut answer = empty(StatusCode::OK);
    set_version(&mut answer, &kept);
    Ok(answer)
}

/// When a share was changed last.
pub(super) fn set_version(answer: &mut Answer, kept: &AzureShare) {
    set_header(answer, "etag", &etag(kept));
    set_header(answer, "last-modified", &http_date(kept.modified()));
}

/// How large a share may become, and how fast it is, where that is provisioned.
pub(super) fn set_quota(answer: &mut Answer, share: &ShareRecord) {
    set_header(answer, "x-ms-share-quota", &quota_gib(share).to_string());
    let Some(of) = share.provisioned else { return };
    set_header(answer, "x-ms-share-provisioned-iops", &of.iops.to_string());
    set_header(answer, "x-ms-share-provisioned-bandwidth-mibps", &of.mibps.to_string());
    set_header(answer, "x-ms-share-included-burst-iops", &of.burst_iops.to_string());
    set_header(answer, "x-ms-share-max-burst-credits-for-iops", &of.burst_credits_max.to_string());
}

/// From when on what is provisioned may be decreased.
fn set_downgrades(answer: &mut Answer, properties: &ShareProperties) {
    let times = [
        ("x-ms-share-next-allowed-quota-downgrade-time", properties.next_allowed_quota_downgrade_time),
        (
            "x-ms-share-next-allowed-provisioned-iops-downgrade-time",
            properties.next_allowed_provisioned_iops_downgrade_time,
        ),
        (
            "x-ms-share-next-allowed-provisioned-bandwidth-downgrade-time",
            properties.next_allowed_provisioned_bandwidth_downgrade_time,
        ),
    ];
    for (name, time) in times {
        time.into_iter().for_each(|time| set_header(answer, name, &http_date(time)));
    }
}

/// How large the share may become, in GiB.
pub(crate) fn quota_gib(share: &ShareRecord) -> u64 {
    let provisioned = share.provisioned.map(|of| u64::from(of.gib));
    provisioned.or_else(|| share.source.quota_gib().map(|gib| gib.get().into())).unwrap_or(UNLIMITED_GIB)
}

/// Another one after each change.
pub(crate) fn etag(kept: &AzureShare) -> String {
    format!("\"0x{:X}\"", kept.modified().as_millisecond())
}

impl Service {
    /// What an account is for.
    pub(super) fn kind(&self, account: &str) -> AccountKind {
        let mut accounts = self.catalog.accounts().into_iter();
        accounts.find(|known| known.name == account).map_or(AccountKind::FileStorage, |known| known.kind)
    }

    /// Whether each share of an account is provisioned.
    fn is_provisioned(&self, account: &str) -> bool {
        let mut accounts = self.catalog.accounts().into_iter();
        let known = accounts.find(|known| known.name == account);
        known.is_some_and(|known| matches!(known.billing(), control::Billing::Provisioned(_)))
    }
}
