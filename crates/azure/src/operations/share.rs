//! A share.

use control::ShareRecord;
use hyper::StatusCode;

use super::{Ask, Service};
use crate::answer::{Answer, empty, set};
use crate::failure::Failure;

/// What a share without a quota tells, in GiB: the most that the service has.
const UNLIMITED_GIB: u64 = 102_400;

/// Get Share Properties.
pub(super) fn properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let share = service.record(ask)?;
    let mut answer = empty(StatusCode::OK);
    set(&mut answer, "etag", &etag(&share));
    set(&mut answer, "x-ms-share-quota", &quota_gib(&share).to_string());
    set(&mut answer, "x-ms-enabled-protocols", "SMB");
    set(&mut answer, "x-ms-lease-status", "unlocked");
    set(&mut answer, "x-ms-lease-state", "available");
    if let Some(of) = share.provisioned {
        set(&mut answer, "x-ms-share-provisioned-iops", &of.iops.to_string());
        set(&mut answer, "x-ms-share-provisioned-bandwidth-mibps", &of.mibps.to_string());
    }
    Ok(answer)
}

/// How large the share may become, in GiB.
pub(crate) fn quota_gib(share: &ShareRecord) -> u64 {
    let provisioned = share.provisioned.map(|of| u64::from(of.gib));
    provisioned.or_else(|| share.source.quota_gib().map(|gib| gib.get().into())).unwrap_or(UNLIMITED_GIB)
}

/// Names this share for its life.
pub(crate) fn etag(share: &ShareRecord) -> String {
    format!("\"0x{:X}\"", share.id)
}
