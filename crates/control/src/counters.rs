//! The server's counters, as they cross the admin socket: a part for the moment and one for each row.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use server::admin::{CountersRow, CountersView, Counts, Events, Scope};

use crate::socket::{Request, ask_for_all, not_understood};
use crate::{DataFolder, Error};

/// Asks the server that runs on `folder` what it has done since it started. `None` where none runs.
pub fn ask_for_counters(folder: &DataFolder) -> Result<Option<CountersView>, Error> {
    let Some(parts) = ask_for_all(folder, &Request::Counters)? else { return Ok(None) };
    let mut view = CountersView { at: Duration::ZERO, events: Events::default(), rows: Vec::new() };
    for part in parts {
        match part {
            Part::Moment { at_nanos, events } => {
                (view.at, view.events) = (Duration::from_nanos(at_nanos), Events::from(events));
            }
            Part::Row { scope, slots, errors } => {
                let counts = Counts::from_parts(slots, errors).map_err(|_| not_understood("numbers are malformed"))?;
                view.rows.push(CountersRow { scope: scope.into(), counts });
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
        Part::Row { scope: row.scope.into(), slots, errors }
    });
    std::iter::once(Part::Moment { at_nanos, events: view.events.into() }).chain(rows)
}

/// A part of the answer.
#[derive(Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub(crate) enum Part {
    Moment { at_nanos: u64, events: PartEvents },
    Row { scope: PartScope, slots: Vec<(u16, u64)>, errors: Vec<(u32, u64)> },
}

/// [`Events`].
#[derive(Serialize, Deserialize)]
pub(crate) struct PartEvents {
    sign_ins: u64,
    sign_ins_refused: u64,
    breaks: u64,
    channels_bound: u64,
    channels_lost: u64,
}

/// [`Scope`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartScope {
    Server,
    Share(Option<String>),
    OtherShares,
    User { name: String, account: String },
    OtherUsers,
    Client(Option<IpAddr>),
    OtherClients,
    Session { id: u64, user: String, account: String },
    Channel { session: u64, connection: u64, peer: String, local: String },
}

impl From<Events> for PartEvents {
    fn from(events: Events) -> Self {
        let Events { sign_ins, sign_ins_refused, breaks, channels_bound, channels_lost } = events;
        PartEvents { sign_ins, sign_ins_refused, breaks, channels_bound, channels_lost }
    }
}

impl From<PartEvents> for Events {
    fn from(events: PartEvents) -> Self {
        let PartEvents { sign_ins, sign_ins_refused, breaks, channels_bound, channels_lost } = events;
        Events { sign_ins, sign_ins_refused, breaks, channels_bound, channels_lost }
    }
}

impl From<Scope> for PartScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Server => PartScope::Server,
            Scope::Share(name) => PartScope::Share(name),
            Scope::OtherShares => PartScope::OtherShares,
            Scope::User { name, account } => PartScope::User { name, account },
            Scope::OtherUsers => PartScope::OtherUsers,
            Scope::Client(address) => PartScope::Client(address),
            Scope::OtherClients => PartScope::OtherClients,
            Scope::Session { id, user, account } => PartScope::Session { id, user, account },
            Scope::Channel { session, connection, peer, local } => {
                PartScope::Channel { session, connection, peer, local }
            }
        }
    }
}

impl From<PartScope> for Scope {
    fn from(scope: PartScope) -> Self {
        match scope {
            PartScope::Server => Scope::Server,
            PartScope::Share(name) => Scope::Share(name),
            PartScope::OtherShares => Scope::OtherShares,
            PartScope::User { name, account } => Scope::User { name, account },
            PartScope::OtherUsers => Scope::OtherUsers,
            PartScope::Client(address) => Scope::Client(address),
            PartScope::OtherClients => Scope::OtherClients,
            PartScope::Session { id, user, account } => Scope::Session { id, user, account },
            PartScope::Channel { session, connection, peer, local } => {
                Scope::Channel { session, connection, peer, local }
            }
        }
    }
}
