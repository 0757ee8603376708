//! The server's counters, as they cross the admin socket: a part for the moment and one for each row.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use server::admin::{Authentication, CountersRow, CountersView, Counts, Events, Scope};

use crate::socket::{Request, ask_for_all, not_understood};
use crate::{DataFolder, Error};

/// Asks the server that runs on `folder` what it has done since it started. `None` where none runs.
pub fn ask_for_counters(folder: &DataFolder) -> Result<Option<CountersView>, Error> {
    let Some(parts) = ask_for_all(folder, &Request::Counters)? else { return Ok(None) };
    let mut view = CountersView { start: 0, at: Duration::ZERO, events: Events::default(), rows: Vec::new() };
    for part in parts {
        match part {
            Part::Moment { start, at_nanos, events } => {
                (view.start, view.at, view.events) = (start, Duration::from_nanos(at_nanos), events);
            }
            Part::Row { scope, slots, errors } => {
                let counts = Counts::from_parts(slots, errors).map_err(|_| not_understood("numbers are malformed"))?;
                view.rows.push(CountersRow { scope, counts });
            }
        }
    }
    Ok(Some(view))
}

/// What was read, in parts.
pub(crate) fn parts(view: CountersView) -> impl Iterator<Item = Part> {
    let at_nanos = u64::try_from(view.at.as_nanos()).unwrap_or(u64::MAX);
    let rows = view.rows.into_iter().map(|row| {
        let (slots, errors) = row.counts.to_parts();
        Part::Row { scope: row.scope, slots, errors }
    });
    std::iter::once(Part::Moment { start: view.start, at_nanos, events: view.events }).chain(rows)
}

/// A part of the answer.
#[derive(Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub(crate) enum Part {
    Moment {
        start: u64,
        at_nanos: u64,
        #[serde(with = "PartEvents")]
        events: Events,
    },
    Row {
        #[serde(with = "PartScope")]
        scope: Scope,
        slots: Vec<(u16, u64)>,
        errors: Vec<(u32, u64)>,
    },
}

/// How [`Events`] cross.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Events")]
struct PartEvents {
    sign_ins: u64,
    sign_ins_refused: u64,
    breaks: u64,
    channels_bound: u64,
    channels_lost: u64,
}

/// How an [`Authentication`] crosses.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Authentication", rename_all = "snake_case")]
enum PartAuthentication {
    AccountKey,
    Ntlm,
    Anonymous,
    Inside,
}

/// How a [`Scope`] crosses.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Scope", rename_all = "snake_case")]
enum PartScope {
    Server,
    Share {
        name: Option<String>,
        #[serde(with = "PartAuthentication")]
        authentication: Authentication,
    },
    OtherShares {
        #[serde(with = "PartAuthentication")]
        authentication: Authentication,
    },
    User {
        name: String,
        account: String,
    },
    OtherUsers,
    Client(Option<IpAddr>),
    OtherClients,
    Session {
        id: u64,
        user: String,
        account: String,
    },
    Channel {
        session: u64,
        connection: u64,
        peer: String,
        local: String,
    },
}
