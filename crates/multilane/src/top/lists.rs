//! What is shown of a change: a list each of shares, users, clients, sessions and channels; and of files, as far as samples tell.

use std::collections::HashMap;
use std::time::Duration;

use control::{BusyFile, Session};
use insight::{Change, Figures};
use server::admin::{Counts, Events, Scope};

/// The lists there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Shares,
    Users,
    Clients,
    Sessions,
    Channels,
    Files,
}

impl List {
    pub(super) const ALL: [List; 6] =
        [List::Shares, List::Users, List::Clients, List::Sessions, List::Channels, List::Files];

    /// What one of it is called.
    pub(super) fn heading(self) -> &'static str {
        match self {
            List::Shares => "SHARE",
            List::Users => "USER",
            List::Clients => "CLIENT",
            List::Sessions => "SESSION",
            List::Channels => "CHANNEL",
            List::Files => "FILE",
        }
    }
}

/// Somebody or something, and what it has done.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// The session that it is, or is a channel of.
    pub(super) session: Option<u64>,
    /// The time that its rates are of.
    pub(super) passed: Duration,
    pub(super) counts: Counts,
    pub(super) figures: Figures,
    /// What its figures are from.
    pub(super) source: Source,
}

/// What figures are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Each request was counted.
    Counted,
    /// Some READs and WRITEs were remembered, by chance: nothing is known of the others, of latencies and of errors.
    Sampled,
}

/// All lists of one change.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// The time that it is about.
    pub(super) passed: Duration,
    pub(super) events: Events,
    pub(super) server: Line,
    lists: [Vec<Line>; List::ALL.len()],
}

impl Lists {
    /// The lists of a change, each in no order.
    pub(super) fn of(change: &Change) -> Self {
        let mut server = Counts::default();
        let mut found: HashMap<(usize, String), (Option<u64>, Counts)> = HashMap::new();
        for row in &change.rows {
            match place(&row.scope) {
                None => server.add(&row.counts),
                Some((list, name, session)) => {
                    let line = found.entry((list as usize, name)).or_insert_with(|| (session, Counts::default()));
                    line.1.add(&row.counts);
                }
            }
        }
        let line = |name, session, counts: Counts| {
            let figures = Figures::of(&counts, change.passed);
            Line { name, session, passed: change.passed, counts, figures, source: Source::Counted }
        };
        let mut lists: [Vec<Line>; List::ALL.len()] = Default::default();
        for ((list, name), (session, counts)) in found {
            lists[list].push(line(name, session, counts));
        }
        Lists { passed: change.passed, events: change.events, server: line("all".to_owned(), None, server), lists }
    }

    /// The same of all that was counted since the server started: what sessions and channels did they did since they began.
    pub(super) fn with_ages(mut self, sessions: &[Session]) -> Self {
        let channels = |session: &Session| {
            let of = |id: u64, name: &str, seconds: u64| (format!("{id} {name}"), Duration::from_secs(seconds.max(1)));
            let own = of(session.id, &session.user, session.connected_seconds);
            let channels = session.channels.iter().map(|one| of(session.id, &one.peer, one.connected_seconds));
            std::iter::once(own).chain(channels).collect::<Vec<_>>()
        };
        let ages: HashMap<String, Duration> = sessions.iter().flat_map(channels).collect();
        for list in [List::Sessions, List::Channels] {
            for line in &mut self.lists[list as usize] {
                if let Some(age) = ages.get(&line.name) {
                    line.passed = *age;
                    line.figures = Figures::of(&line.counts, *age);
                }
            }
        }
        self
    }

    /// The same with files.
    pub(super) fn with_files(mut self, files: &[BusyFile]) -> Self {
        let line = |file: &BusyFile| {
            let mib = |bytes: f64| bytes / f64::from(1 << 20);
            let figures = Figures {
                iops: file.iops,
                read_mib_s: mib(file.read_bytes),
                written_mib_s: mib(file.written_bytes),
                ..Figures::of(&Counts::default(), self.passed)
            };
            let name = format!("{}\\{}", file.share, file.path);
            let (counts, passed) = (Counts::default(), self.passed);
            Line { name, session: None, passed, counts, figures, source: Source::Sampled }
        };
        self.lists[List::Files as usize] = files.iter().map(line).collect();
        self
    }

    /// One of the lists.
    pub(super) fn list(&self, list: List) -> &[Line] {
        &self.lists[list as usize]
    }
}

/// The list that a row belongs to, its name there and the session that it is of; `None` for the server's.
fn place(scope: &Scope) -> Option<(List, String, Option<u64>)> {
    let others = || "(others)".to_owned();
    Some(match scope {
        Scope::Server => return None,
        Scope::Share { name, .. } => (List::Shares, name.clone().unwrap_or_else(|| "(none)".to_owned()), None),
        Scope::OtherShares { .. } => (List::Shares, others(), None),
        Scope::User { name, .. } => (List::Users, name.clone(), None),
        Scope::OtherUsers => (List::Users, others(), None),
        Scope::Client(address) => {
            let name = address.map_or_else(|| "(unknown)".to_owned(), |address| address.to_string());
            (List::Clients, name, None)
        }
        Scope::OtherClients => (List::Clients, others(), None),
        Scope::Session { id, user, .. } => (List::Sessions, format!("{id} {user}"), Some(*id)),
        Scope::Channel { session, peer, .. } => (List::Channels, format!("{session} {peer}"), Some(*session)),
    })
}

#[cfg(test)]
mod tests {
    use server::admin::CountersRow;

    use super::*;

    #[test]
    fn what_a_session_did_in_all_it_did_since_it_began() {
        let counts = || Counts::from_parts(vec![(0, 600)], Vec::new()).unwrap();
        let user = || "ann".to_owned();
        let scopes = [Scope::Server, Scope::Session { id: 7, user: user(), account: user() }];
        let rows = scopes.into_iter().map(|scope| CountersRow { scope, counts: counts() }).collect();
        let change = Change { passed: Duration::from_secs(600), events: Events::default(), rows };
        let session = Session {
            id: 7,
            user: user(),
            account: user(),
            dialect: String::new(),
            cipher: None,
            signing: String::new(),
            peer: String::new(),
            connected_seconds: 10,
            idle_seconds: 0,
            opens: 0,
            channels: Vec::new(),
        };
        let lists = Lists::of(&change).with_ages(&[session]);
        assert_eq!((lists.server.figures.iops, lists.list(List::Sessions)[0].figures.iops), (1.0, 60.0));
    }
}
