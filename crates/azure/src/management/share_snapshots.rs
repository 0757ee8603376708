//! Snapshots of shares: made where a share is put with `$expand=snapshots`, and named by the header `x-ms-snapshot`.

use control::{
    AccountName, By, LeaseNamed, NoSnapshotTime, ShareName, ShareRecord, ShareSnapshot, SnapshotTime, WithSnapshots,
};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::answer::json as answered;
use super::call::{Call, OfShare};
use super::shares::told_as;
use super::{Ask, Failure, Management};
use crate::answer::{Answer, empty};
use crate::operations::of_snapshot;
use crate::query::Query;

const HEADER: &str = "x-ms-snapshot";

/// The snapshot that a call names. Fails where it is none that there can be, or where the call cannot be one of a snapshot: what is asked of that is never done
/// to its share.
pub(super) fn named(call: &Call, headers: &HeaderMap, query: &Query) -> Result<Option<SnapshotTime>, Failure> {
    let refused = |message: &str| Failure::bad("InvalidRequestParameter", message);
    // Who means something else than the share and says it otherwise does not have it done to the share.
    if ["sharesnapshot", "snapshot", HEADER, "include", "expand"].iter().any(|name| query.get(name).is_some()) {
        return Err(refused("A snapshot is named by the header x-ms-snapshot; parameters are $include and $expand."));
    }
    if ["$include", "$expand"].iter().any(|name| query.count(name) > 1) {
        return Err(refused("$include, or $expand, is given twice."));
    }
    let expanded = query.get("$expand").unwrap_or_default().to_ascii_lowercase();
    let can_be = match call {
        Call::GetShare(_) => ["", "stats"],
        Call::PutShare(_) => ["", "snapshots"],
        _ => ["", ""],
    };
    if !can_be.contains(&expanded.trim()) {
        return Err(refused("$expand is stats where a share is told, and snapshots where a snapshot is made."));
    }
    let mut given = headers.get_all(HEADER).iter();
    let Some(text) = given.next() else { return Ok(None) };
    let time = text.to_str().ok().and_then(|text| text.parse().ok()).filter(|_| given.next().is_none());
    let time = time.ok_or_else(|| refused(&format!("{HEADER} is not one snapshot's time: {NoSnapshotTime}.")))?;
    match call {
        Call::GetShare(_) | Call::DeleteShare(_) | Call::LeaseShare(_) => Ok(Some(time)),
        _ => Err(refused("This cannot be done with a snapshot.")),
    }
}

/// Makes a snapshot, with its own metadata where some are wanted.
pub(super) async fn put(management: &Management, ask: &Ask, of: &OfShare) -> Result<Answer, Failure> {
    let metadata = super::shares::wanted_metadata(ask)?;
    let (account, share) = management.share(of)?;
    let by = ask.requester()?;
    let (of_account, name): (AccountName, ShareName) = (account.name.parse()?, share.name.parse()?);
    let made = management
        .changed(move |operations| operations.take_snapshot(By::Requester(&by), &of_account, &name, metadata));
    Ok(answered(StatusCode::CREATED, &told(management, &account, share, &made.await?)))
}

/// Tells one.
pub(super) async fn get(management: &Management, of: &OfShare, at: SnapshotTime) -> Result<Answer, Failure> {
    let (account, share) = management.share(of)?;
    let of = share.clone();
    let snapshot = management.changed(move |operations| operations.snapshot(&of, at)).await?;
    Ok(answered(StatusCode::OK, &told(management, &account, share, &snapshot)))
}

/// All of an account's shares, each with its share's name.
pub(super) async fn all(management: &Management, account: &control::Account) -> Result<Vec<(String, Value)>, Failure> {
    let mut shares = management.catalog.shares();
    shares.retain(|share| share.account == account.name);
    let snapshots = management.changed(move |operations| operations.snapshots_of_all(&shares)).await?;
    let told = |(share, snapshot): (ShareRecord, ShareSnapshot)| {
        (share.name.clone(), told(management, account, share, &snapshot))
    };
    Ok(snapshots.into_iter().map(told).collect())
}

/// Deletes one.
pub(super) async fn delete(
    management: &Management,
    ask: &Ask,
    share: ShareRecord,
    at: SnapshotTime,
) -> Result<Answer, Failure> {
    let by = ask.requester()?;
    let deleted = management
        .changed(move |operations| operations.delete_snapshot(By::Requester(&by), &share, at, LeaseNamed::This(None)));
    deleted.await?;
    Ok(empty(StatusCode::OK))
}

/// What becomes of the snapshots of a share that is deleted: they go with it where nothing is said.
pub(super) fn deleted_with(query: &Query) -> Result<WithSnapshots, Failure> {
    match query.get("$include").map(str::to_ascii_lowercase).as_deref() {
        None | Some("snapshots") => Ok(WithSnapshots::Unleased),
        Some("leased-snapshots") => Ok(WithSnapshots::All),
        Some("none") => Ok(WithSnapshots::Refused),
        Some(other) => {
            let message = format!("$include is {other:?}; allowed: snapshots, leased-snapshots, none.");
            Err(Failure::bad("InvalidRequestParameter", message))
        }
    }
}

fn told(management: &Management, account: &control::Account, share: ShareRecord, snapshot: &ShareSnapshot) -> Value {
    let mut told = told_as(management, account, &of_snapshot(share, snapshot), &snapshot.kept);
    told["properties"]["snapshotTime"] = snapshot.at.to_string().into();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_by_one_header_where_one_can_be_meant() {
        const TIME: &str = "2026-11-30T20:14:15.1234567Z";
        let share = || OfShare { account: "work".into(), share: "docs".into() };
        let asked = |call: Call, times: &[&str], query: &str| {
            let headers = times.iter().map(|time| (HEADER.parse().unwrap(), time.parse().unwrap())).collect();
            named(&call, &headers, &Query::parse(query).unwrap()).map_err(|failure| failure.code.into_owned())
        };
        assert_eq!(asked(Call::DeleteShare(share()), &[], ""), Ok(None));
        for call in [Call::GetShare(share()), Call::DeleteShare(share()), Call::LeaseShare(share())] {
            assert_eq!(asked(call, &[TIME], "").unwrap().unwrap().to_string(), TIME);
        }
        let wrong = Err("InvalidRequestParameter".to_owned());
        for call in [Call::PutShare(share()), Call::PatchShare(share()), Call::RestoreShare(share())] {
            assert_eq!(asked(call, &[TIME], ""), wrong);
        }
        for times in [&[""][..], &["now"], &[TIME, TIME]] {
            assert_eq!(asked(Call::DeleteShare(share()), times, ""), wrong, "{times:?}");
        }
        for query in
            ["sharesnapshot", "snapshot", "x-ms-snapshot", "X-MS-Snapshot"].map(|name| format!("{name}={TIME}"))
        {
            assert_eq!(asked(Call::DeleteShare(share()), &[], &query), wrong, "{query}");
        }
        for query in ["include=none", "$include=none&$include=snapshots", "$expand=snapshots", "expand=snapshots"] {
            assert_eq!(asked(Call::DeleteShare(share()), &[], query), wrong, "{query}");
        }
        for query in ["$expand=stats&$expand=snapshots", "$expand=stats,snapshots", "$expand=snapshot"] {
            assert_eq!(asked(Call::PutShare(share()), &[], query), wrong, "{query}");
        }
        assert_eq!(asked(Call::PatchShare(share()), &[], "$expand=snapshots"), wrong);
        assert_eq!(asked(Call::PutShare(share()), &[], "$expand=Snapshots"), Ok(None));
        assert_eq!(asked(Call::GetShare(share()), &[], "$expand=stats"), Ok(None));
    }

    #[test]
    fn snapshots_go_with_a_share_where_nothing_else_is_said() {
        let with =
            |query: &str| deleted_with(&Query::parse(query).unwrap()).map_err(|failure| failure.code.into_owned());
        assert_eq!(with(""), Ok(WithSnapshots::Unleased));
        assert_eq!(with("$include=leased-snapshots"), Ok(WithSnapshots::All));
        assert_eq!(with("$include=none"), Ok(WithSnapshots::Refused));
        assert_eq!(with("$include=all"), Err("InvalidRequestParameter".to_owned()));
    }
}
