//! A limit of the share, its account, a file or a user is used up; or memory is.

use std::time::Duration;

use server::admin::{Delayed, LimitOf, Rate, Sum, UsedUp};

use super::evidence::{Evidence, ProvisionedBy, SessionFacts, ShareFacts};
use super::time::{COUNTED, Time, seconds};
use super::{Found, Kind, percent, quoted};

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let each = evidence.shares.iter().flat_map(|share| share.delayed.iter().map(move |delayed| (share, *delayed)));
    // What is waited for now comes before what was.
    let lately = |share: &ShareFacts, of: &Delayed| {
        let same = share.delayed_lately.iter().find(|one| one.by == of.by && one.used_up == of.used_up);
        same.map_or(0, |one| one.requests)
    };
    match each.max_by_key(|(share, delayed)| (lately(share, delayed), delayed.requests)) {
        Some((share, delayed)) => Some(of_limit(evidence, time, share, delayed)),
        None => of_memory(time),
    }
}

fn of_limit(evidence: &Evidence, time: &Time, share: &ShareFacts, delayed: Delayed) -> Found {
    let rate = rate(share, delayed.by);
    let has_bursts = rate.requests.is_some_and(|requests| requests.burst > requests.baseline);
    let is_out_of_credits = delayed.by == LimitOf::Share
        && delayed.used_up == UsedUp::Requests
        && has_bursts
        && rate.requests.is_some_and(|requests| share.view.credits < u64::from(requests.burst));
    let kind = match (delayed.by, delayed.used_up) {
        _ if is_out_of_credits => Kind::BurstCredits,
        (LimitOf::Metadata, _) => Kind::MetadataLimit,
        (_, UsedUp::Requests) => Kind::IopsLimit,
        (_, UsedUp::Reads | UsedUp::Writes) => Kind::ThroughputLimit,
    };
    let bursting = match (delayed.by, delayed.used_up, rate.requests) {
        (LimitOf::Share, UsedUp::Requests, Some(requests)) if has_bursts && !is_out_of_credits => Some(requests),
        _ => None,
    };
    let (limit, number) = said(&rate, delayed.used_up, is_out_of_credits);
    let limit = if bursting.is_some() { format!("{limit} in bursts") } else { limit };
    let way = match delayed.used_up {
        UsedUp::Requests if delayed.by == LimitOf::Metadata => ", for what neither reads nor writes,",
        UsedUp::Requests => "",
        UsedUp::Reads => ", by reading,",
        UsedUp::Writes => ", by writing,",
    };
    let whose = whose(evidence, share, delayed.by);
    let is_now = share.delayed_lately.iter().any(|one| one.by == delayed.by && one.used_up == delayed.used_up);
    let at_limit = match (share.throttled_for, is_now) {
        (Some(ago), true) => {
            format!("{whose} has been at its limit of {limit}{way} since {}.", evidence.ends.before(ago))
        }
        (None, true) => format!("{whose} is at its limit of {limit}{}.", way.trim_end_matches(',')),
        (_, false) => format!("{whose} was at its limit of {limit}{way} in this minute, and is not just now."),
    };
    let found = Found::new(kind, time.budget).says(at_limit).says(format!(
        "{} requests had to wait for it, and waiting is {} of the time that all requests took.",
        delayed.requests,
        percent(time.budget / time.total())
    ));
    let found = match is_out_of_credits {
        true => found.says(format!("Its credits for bursts have run out: {} are left.", share.view.credits)),
        false => found,
    };
    let found = match bursting {
        Some(requests) => found.says(format!(
            "Once its {} credits for bursts are used up, its limit is {} requests a second.",
            share.view.credits, requests.baseline
        )),
        None => found,
    };
    found
        .shows("requests_delayed", delayed.requests as f64)
        .shows("waited_seconds", time.budget)
        .shows("limit", number)
        .shows("throttled_seconds", share.throttled_for.unwrap_or(Duration::ZERO).as_secs_f64())
        .shows("credits", share.view.credits as f64)
        .mended_by(command(share, delayed))
}

fn of_memory(time: &Time) -> Option<Found> {
    let found = Found::new(Kind::Memory, time.budget)
        .says("Requests wait for memory that their user, or all users together, may have, and for no limit of a share.")
        .shows("waited_seconds", time.budget)
        .mended_by(
            "multilane sessions   # who has most open and in flight; docs/MEMORY.md says what is charged to whom",
        );
    (time.budget > 0.0).then_some(found)
}

fn rate(share: &ShareFacts, by: LimitOf) -> Rate {
    match by {
        LimitOf::Metadata => share.view.rates.metadata,
        LimitOf::File => share.view.rates.file,
        LimitOf::User => share.view.rates.user,
        LimitOf::Share => share.view.rates.share,
        LimitOf::Account => share.view.account_rate,
    }
}

/// Whose limit it is.
fn whose(evidence: &Evidence, share: &ShareFacts, by: LimitOf) -> String {
    let name = &share.view.name;
    match by {
        LimitOf::Share | LimitOf::Metadata => format!("The share {name}"),
        LimitOf::File => format!("A file of the share {name}"),
        LimitOf::Account => format!("The account {}, with {name} among its shares,", share.view.account),
        LimitOf::User => match most_delayed(evidence) {
            Some(session) => format!("The user {} of the share {name}", session.view.user),
            None => format!("A user of the share {name}"),
        },
    }
}

fn most_delayed(evidence: &Evidence) -> Option<&SessionFacts> {
    let waited = |session: &SessionFacts| seconds(&session.counts, &COUNTED, Sum::BudgetNanos);
    evidence.sessions.iter().max_by(|a, b| waited(a).total_cmp(&waited(b)))
}

fn said(rate: &Rate, used_up: UsedUp, is_out_of_credits: bool) -> (String, f64) {
    match (used_up, rate.requests, rate.mib) {
        (UsedUp::Requests, Some(requests), _) => {
            let number = if is_out_of_credits { requests.baseline } else { requests.burst.max(requests.baseline) };
            (format!("{number} requests a second"), number.into())
        }
        (UsedUp::Reads | UsedUp::Writes, _, Some(mib)) => (format!("{mib} MiB a second"), mib.into()),
        // It was changed meanwhile.
        (UsedUp::Requests, ..) => ("requests a second".to_owned(), 0.0),
        (UsedUp::Reads | UsedUp::Writes, ..) => ("bytes a second".to_owned(), 0.0),
    }
}

fn command(share: &ShareFacts, delayed: Delayed) -> String {
    let name = quoted(&share.view.name);
    let is_bytes = delayed.used_up != UsedUp::Requests;
    match (delayed.by, share.plan.provisioned) {
        (LimitOf::Share, Some(ProvisionedBy::Size)) => {
            format!("multilane share update {name} --provisioned GIB   # IOPS and MiB/s follow the size")
        }
        (LimitOf::Share, Some(ProvisionedBy::Parts)) => {
            let option = if is_bytes { "--mibps" } else { "--iops" };
            format!("multilane share update {name} {option} N")
        }
        (LimitOf::Share, None) => {
            let option = if is_bytes { "--mibps-max" } else { "--iops-max" };
            format!("multilane share update {name} {option} N   # or none")
        }
        (LimitOf::User, _) => {
            let option = if is_bytes { "--user-mibps-max" } else { "--user-iops-max" };
            format!("multilane share update {name} {option} N   # or none")
        }
        (LimitOf::Metadata, _) if share.plan.caches_metadata => {
            "spread the files over several shares: each has this limit, and metadata caching, which raises it, is on"
                .to_owned()
        }
        (LimitOf::Metadata, _) => {
            format!(
                "multilane account update {} --metadata-caching on   # has more of them",
                quoted(&share.view.account)
            )
        }
        (LimitOf::File, _) => {
            "spread the load over several files: each has this limit, and it cannot be changed".to_owned()
        }
        (LimitOf::Account, _) => "move a share to another account: this limit is that of the account's SKU".to_owned(),
    }
}
