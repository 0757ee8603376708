//! What the page shows, found out once for all browsers that ask for the same.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::StatusCode;
use control::{Account, AccountKind, AuditLines, Interface, OpenFile, Session};
use insight::Figures;
use serde::Serialize;
use serde_json::{Value, json};
use server::admin::{Counts, Multichannel, Scope, SessionView};

use crate::flight::Work;
use crate::page::answer::{Answer, Refusal, told};
use crate::page::counted;
use crate::page::list::Part;
use crate::page::recent::{LostChannel, Recent, Seen, now};
use crate::page::shares::{self, Shares};
use crate::page::source::PageSource;

/// Shares that the overview names: those that do most.
const BUSY_MAX: usize = 8;
/// Accounts that are told.
const ACCOUNTS_MAX: usize = 1_000;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// How the server does, with the points behind this time.
    Overview {
        after: u64,
    },
    /// Shares whose names have this text, behind this one.
    Shares {
        text: String,
        after: Option<String>,
    },
    Share {
        name: String,
    },
    /// Sessions that have this text in user, account or peer, behind this one.
    Sessions {
        text: String,
        after: Option<u64>,
    },
    Session {
        id: u64,
    },
    /// Opens that have this text in share, path or user, behind this one; of one session, where one is named.
    Opens {
        text: String,
        session: Option<u64>,
        after: Option<u64>,
    },
    /// What was asked of a share, or of all.
    Counted {
        share: Option<String>,
    },
    Events,
    Accounts,
}

/// Who finds out.
pub(crate) struct Readings {
    pub(crate) source: Arc<PageSource>,
    pub(crate) recent: Arc<Recent>,
}

/// A session, with the channels that it has lost.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    session: Session,
    shares: Vec<String>,
    multichannel: bool,
    lost: Vec<LostChannel>,
}

impl Work for Readings {
    type Reading = Seen;
    type Question = Question;
    type Answer = Answer;

    fn read(&mut self) -> Seen {
        self.recent.latest()
    }

    fn answer(&mut self, seen: &Seen, question: Question) -> Answer {
        match question {
            Question::Overview { after } => self.overview(seen, after),
            Question::Shares { text, after } => told(&self.shares(seen).part(&text, after.as_ref())),
            Question::Share { name } => {
                let name = self.source.share_named(&name);
                self.shares(seen).one(&name).ok_or_else(|| missing("share")).and_then(|one| told(&one))
            }
            Question::Sessions { text, after } => told(&self.sessions(&text, after)),
            Question::Session { id } => self.session(id),
            Question::Opens { text, session, after } => told(&self.opens(&text, session, after)),
            Question::Counted { share } => {
                let share = share.map(|share| self.source.share_named(&share));
                told(&counted::of(seen, share.as_deref()))
            }
            Question::Events => self.events(),
            Question::Accounts => told(&self.accounts()),
        }
    }
}

impl Readings {
    fn shares(&self, seen: &Seen) -> Shares {
        Shares::of(&self.source, seen)
    }

    fn overview(&self, seen: &Seen, after: u64) -> Answer {
        let source = &self.source;
        let memory = source.admin.memory();
        told(&json!({
            "now": now(),
            "version": source.version,
            "since": source.since,
            "sessions": source.admin.session_count(),
            "opens": source.admin.open_count(),
            "connections": source.admin.connections().iter().sum::<usize>(),
            "silent_shards": seen.silent_shards,
            "memory": { "used": memory.used_bytes, "allowed": memory.allowed_bytes },
            "points": self.recent.points(after),
            "busy": busy(seen),
            "problems": source.catalog.problems_of(&*source.admin).iter().take(BUSY_MAX).collect::<Vec<_>>(),
        }))
    }

    fn sessions(&self, text: &str, after: Option<u64>) -> Part<Listed> {
        let has = |session: &SessionView| {
            [&session.user, &session.account, &session.peer].into_iter().any(|part| part.to_lowercase().contains(text))
        };
        let sessions = self.source.admin.sessions().filter(has);
        Part::of(sessions, |session| session.id, after.as_ref()).map(|session| self.listed(session))
    }

    fn listed(&self, view: SessionView) -> Listed {
        Listed {
            shares: view.shares.clone(),
            multichannel: view.multichannel == Multichannel::On,
            lost: self.recent.lost(view.id),
            session: view.into(),
        }
    }

    fn session(&self, id: u64) -> Answer {
        let found = self.source.admin.sessions().find(|session| session.id == id);
        let session = self.listed(found.ok_or_else(|| missing("session"))?);
        let path = |channel: &control::Channel| {
            let path = (self.source.path)(&channel.local, &channel.peer)?;
            Some(json!({ "round_trip_ms": path.round_trip.as_secs_f64() * 1e3, "dead": path.is_dead() }))
        };
        let paths: Vec<Option<Value>> = session.session.channels.iter().map(path).collect();
        let interfaces: Vec<Interface> = self.source.admin.interfaces().into_iter().map(Interface::from).collect();
        told(&json!({ "session": session, "paths": paths, "interfaces": interfaces, "now": now() }))
    }

    fn opens(&self, text: &str, session: Option<u64>, after: Option<u64>) -> Part<OpenFile> {
        let opens = self.source.admin.opens().filter(|open| {
            let has =
                || [&open.share, &open.path, &open.user].into_iter().any(|part| part.to_lowercase().contains(text));
            session.is_none_or(|session| open.session == session) && (text.is_empty() || has())
        });
        Part::of(opens, |open| open.id, after.as_ref()).map(OpenFile::from)
    }

    fn events(&self) -> Answer {
        told(&json!({
            "events": (self.source.events)(),
            "filter": self.source.log_filter.now(),
            "audit": AuditLines::from(self.source.admin.audit()),
            "audit_log": self.source.audit_log,
        }))
    }

    fn accounts(&self) -> Part<Value> {
        let accounts = self.source.catalog.accounts();
        let total = accounts.len();
        let told = |account: Account| {
            json!({
                "name": account.name,
                "kind": account.kind.as_str(),
                "can_multichannel": account.kind == AccountKind::FileStorage,
                "multichannel": account.multichannel == Multichannel::On,
                "shares": account.shares,
                "users": account.users,
            })
        };
        Part { items: accounts.into_iter().take(ACCOUNTS_MAX).map(told).collect(), total, next: None }
    }
}

/// The shares that did most just now, with what they did.
fn busy(seen: &Seen) -> Vec<Value> {
    let Some(change) = &seen.change else { return Vec::new() };
    let mut all: Vec<(String, Counts)> = by_share(&change.rows).into_iter().collect();
    all.retain(|(_, counts)| counts.all_requests() > 0);
    all.sort_by_key(|(name, counts)| (std::cmp::Reverse(counts.all_requests()), name.clone()));
    all.truncate(BUSY_MAX);
    let told = |(name, counts): (String, Counts)| json!({ "name": name, "figures": shares::figures(&Figures::of(&counts, change.passed)) });
    all.into_iter().map(told).collect()
}

/// What was counted of each share that has a name, however its users had signed in.
pub(crate) fn by_share(rows: &[server::admin::CountersRow]) -> HashMap<String, Counts> {
    let mut found: HashMap<String, Counts> = HashMap::new();
    for row in rows {
        if let Scope::Share { name: Some(name), .. } = &row.scope {
            found.entry(name.clone()).or_default().add(&row.counts);
        }
    }
    found
}

fn missing(what: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("There is no such {what} any more."), "Go back to the list.")
}
