//! Leases of shares ("Lease Share").

use control::{
    AzureShare, BREAK_SECONDS_MAX, LEASE_SECONDS, LeaseAction, LeaseRefusal, LeaseTime, ShareLease, lease_by, may_use,
    refused_by_lease,
};
use hyper::StatusCode;
use jiff::Timestamp;

use super::share_properties::set_version;
use super::{Ask, Service};
use crate::answer::{Answer, empty, set};
use crate::failure::{Code, Failure};

const ID: &str = "x-ms-lease-id";
const PROPOSED: &str = "x-ms-proposed-lease-id";
const DURATION: &str = "x-ms-lease-duration";
const PERIOD: &str = "x-ms-lease-break-period";

/// Refuses who names a lease that the share has not.
pub(super) fn check(ask: &Ask, kept: &AzureShare) -> Result<(), Failure> {
    let named = may_use(kept.lease.as_ref(), ask.header(ID), LeaseTime::now());
    Ok(named.map_err(refused_by_lease)?)
}

/// Changes what is kept of a share, or of a snapshot, for who names its lease or none.
pub(super) async fn change<T: Send + 'static>(
    service: &Service,
    ask: &Ask,
    change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, control::Error> + Send + 'static,
) -> Result<(T, AzureShare), Failure> {
    let lease = ask.lease_id();
    changed(service, ask, move |kept, now| {
        may_use(kept.lease.as_ref(), lease.as_deref(), LeaseTime::now()).map_err(refused_by_lease)?;
        change(kept, now)
    })
    .await
}

async fn changed<T: Send + 'static>(
    service: &Service,
    ask: &Ask,
    change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, control::Error> + Send + 'static,
) -> Result<(T, AzureShare), Failure> {
    if let Some(at) = ask.snapshot {
        let share = service.record(ask)?;
        return service.in_catalog(move |operations| operations.change_snapshot(&share, at, change)).await;
    }
    let (account, share) = (ask.account()?, ask.share()?);
    service.in_catalog(move |operations| operations.change_azure_share(&account, &share, change)).await
}

/// Lease Share: acquires, renews, changes, releases or breaks it.
pub(super) async fn lease(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let action = action(ask)?;
    let status = match &action {
        LeaseAction::Acquire { .. } => StatusCode::CREATED,
        LeaseAction::Renew { .. } | LeaseAction::Change { .. } | LeaseAction::Release { .. } => StatusCode::OK,
        LeaseAction::Break { .. } => StatusCode::ACCEPTED,
    };
    let (is_broken, is_released) =
        (matches!(action, LeaseAction::Break { .. }), matches!(action, LeaseAction::Release { .. }));
    let named = ask.lease_id();
    let (left, kept) = changed(service, ask, move |kept, _| {
        if is_broken {
            // Whoever breaks one may say which.
            let is_other = |lease: &ShareLease| named.as_deref().is_some_and(|id| !lease.id().eq_ignore_ascii_case(id));
            if kept.lease.as_ref().is_some_and(is_other) {
                return Err(refused_by_lease(LeaseRefusal::MismatchWithLease));
            }
        }
        lease_by(&mut kept.lease, &action, LeaseTime::now()).map_err(refused_by_lease)
    })
    .await?;
    let mut answer = empty(status);
    set_version(&mut answer, &kept);
    if is_broken {
        set(&mut answer, "x-ms-lease-time", &left.to_string());
    } else if let Some(lease) = kept.lease.filter(|_| !is_released) {
        set(&mut answer, ID, lease.id());
    }
    Ok(answer)
}

/// What is asked of the lease.
fn action(ask: &Ask) -> Result<LeaseAction, Failure> {
    const ACTION: &str = "x-ms-lease-action";
    let named = |name| ask.header(name).ok_or_else(|| Failure::missing(name)).and_then(|text| guid(name, text));
    let action = ask.header(ACTION).ok_or_else(|| Failure::missing(ACTION))?;
    Ok(match action.to_ascii_lowercase().as_str() {
        "acquire" => LeaseAction::Acquire {
            id: match ask.header(PROPOSED) {
                Some(text) => guid(PROPOSED, text)?,
                None => new_guid()?,
            },
            seconds: seconds(ask.header(DURATION))?,
        },
        "renew" => LeaseAction::Renew { id: named(ID)? },
        "change" => LeaseAction::Change { id: named(ID)?, to: named(PROPOSED)? },
        "release" => LeaseAction::Release { id: named(ID)? },
        "break" => LeaseAction::Break { period: period(ask.number(PERIOD)?)? },
        _ => return Err(Failure::header(ACTION, "acquire, renew, change, release, or break")),
    })
}

/// How long a lease is to be; without end for -1.
fn seconds(text: Option<&str>) -> Result<Option<u32>, Failure> {
    let wrong = || Failure::header(DURATION, "-1, or 15 to 60 seconds");
    match text.ok_or_else(|| Failure::missing(DURATION))? {
        "-1" => Ok(None),
        text => {
            let seconds = text.parse().ok().filter(|seconds| LEASE_SECONDS.contains(seconds));
            seconds.map(Some).ok_or_else(wrong)
        }
    }
}

fn period(seconds: Option<u64>) -> Result<Option<u32>, Failure> {
    let Some(seconds) = seconds else { return Ok(None) };
    let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds <= BREAK_SECONDS_MAX);
    seconds.map(Some).ok_or_else(|| Failure::header(PERIOD, "0 to 60 seconds"))
}

/// An id of a lease, in any form that a GUID has; the same for all forms.
pub(crate) fn guid(name: &str, text: &str) -> Result<String, Failure> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let inner = inner.or_else(|| text.strip_prefix('(').and_then(|text| text.strip_suffix(')'))).unwrap_or(text);
    let digits: String = inner.chars().filter(|c| *c != '-').collect();
    let is_guid = digits.len() == 32 && inner.len() <= 36 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_guid.then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
    number.map(written).ok_or_else(|| Failure::header(name, "a GUID"))
}

fn written(number: u128) -> String {
    let digits = format!("{number:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// A new id, of the kernel's chance (RFC 9562, 5.4).
pub(crate) fn new_guid() -> Result<String, Failure> {
    let chance = control::random_number().map_err(|cause| Failure::new(Code::ServerBusy, cause.what()))?;
    Ok(written(chance & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_guids_in_any_form() {
        let id = "f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f";
        for form in [id.to_owned(), id.to_uppercase(), id.replace('-', ""), format!("{{{id}}}"), format!("({id})")] {
            assert_eq!(guid(ID, &form).unwrap(), id);
        }
        for wrong in ["", "x", "{}", &id[1..], &format!("{id}0"), &format!("{{{id}"), &"-".repeat(40), &"é".repeat(16)]
        {
            assert_eq!(guid(ID, wrong).unwrap_err().code, Code::InvalidHeaderValue, "{wrong:?}");
        }
        let new = new_guid().unwrap();
        assert_eq!(guid(ID, &new).unwrap(), new);
        assert!(new.as_bytes()[14] == b'4' && b"89ab".contains(&new.as_bytes()[19]), "{new}");
    }

    #[test]
    fn leases_are_of_15_to_60_seconds_or_without_end() {
        for (text, wanted) in [("-1", Some(None)), ("15", Some(Some(15))), ("60", Some(Some(60)))] {
            assert_eq!(seconds(Some(text)).ok(), wanted);
        }
        for wrong in ["14", "61", "0", "-2", "x", ""] {
            assert_eq!(seconds(Some(wrong)).unwrap_err().code, Code::InvalidHeaderValue, "{wrong}");
        }
        assert_eq!(seconds(None).unwrap_err().code, Code::MissingRequiredHeader);
        assert_eq!((period(Some(60)).unwrap(), period(None).unwrap()), (Some(60), None));
        assert!(period(Some(61)).is_err());
    }
}
