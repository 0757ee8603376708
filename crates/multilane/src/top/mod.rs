//! `multilane top`: what the running server does just now, and for whom.

use std::path::Path;
use std::thread;
use std::time::Duration;

use control::{DataFolder, Error, ask_for_counters};
use insight::{Change, Figures};
use serde::Serialize;
use server::admin::{CountersView, Scope};

use crate::arguments::Top;
use crate::live::runs_nowhere;
use crate::output::Output;
use crate::table::Table;

/// What `--json` prints.
#[derive(Serialize)]
struct Shown {
    /// The time that it is about.
    seconds: f64,
    server: Numbers,
    shares: Vec<Named>,
    users: Vec<Named>,
    clients: Vec<Named>,
    sessions: Vec<Named>,
    channels: Vec<Named>,
}

/// The figures of something.
#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    numbers: Numbers,
}

/// Figures, with their units in their names.
#[derive(Serialize)]
struct Numbers {
    requests: u64,
    iops: f64,
    written_mib_s: f64,
    read_mib_s: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    errors: u64,
    throttled: u64,
    time_ms: f64,
    waited_for_budget_ms: f64,
    waited_for_store_ms: f64,
    waited_for_other_client_ms: f64,
}

pub(crate) fn run(path: &Path, arguments: &Top, output: Output) -> Result<(), Error> {
    let folder = DataFolder::open(path)?;
    let look = || -> Result<CountersView, Error> { ask_for_counters(&folder)?.ok_or_else(|| runs_nowhere(&folder)) };
    let earlier = look()?;
    thread::sleep(Duration::from_secs(arguments.seconds.into()));
    let shown = shown(&Change::between(&earlier, &look()?));
    output.print(&shown, text)
}

fn shown(change: &Change) -> Shown {
    let mut shown = Shown {
        seconds: change.passed.as_secs_f64(),
        server: Numbers::of(&Figures::of(&Default::default(), change.passed)),
        shares: Vec::new(),
        users: Vec::new(),
        clients: Vec::new(),
        sessions: Vec::new(),
        channels: Vec::new(),
    };
    for row in &change.rows {
        let numbers = Numbers::of(&Figures::of(&row.counts, change.passed));
        let others = || "(others)".to_owned();
        let (list, name) = match &row.scope {
            Scope::Server => {
                shown.server = numbers;
                continue;
            }
            Scope::Share(share) => (&mut shown.shares, share.clone().unwrap_or_else(|| "(none)".to_owned())),
            Scope::OtherShares => (&mut shown.shares, others()),
            Scope::User { name, .. } => (&mut shown.users, name.clone()),
            Scope::OtherUsers => (&mut shown.users, others()),
            Scope::Client(address) => {
                (&mut shown.clients, address.map_or_else(|| "(unknown)".to_owned(), |address| address.to_string()))
            }
            Scope::OtherClients => (&mut shown.clients, others()),
            Scope::Session { id, user, .. } => (&mut shown.sessions, format!("{id} {user}")),
            Scope::Channel { session, peer, .. } => (&mut shown.channels, format!("{session} {peer}")),
        };
        list.push(Named { name, numbers });
    }
    for list in [&mut shown.shares, &mut shown.users, &mut shown.clients, &mut shown.sessions, &mut shown.channels] {
        list.sort_by(|a, b| b.numbers.iops.total_cmp(&a.numbers.iops));
    }
    shown
}

impl Numbers {
    fn of(figures: &Figures) -> Self {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Numbers {
            requests: figures.requests,
            iops: figures.iops,
            written_mib_s: figures.written_mib_s,
            read_mib_s: figures.read_mib_s,
            p50_us: figures.p50.map(micros),
            p99_us: figures.p99.map(micros),
            errors: figures.errors,
            throttled: figures.throttled,
            time_ms: millis(figures.time),
            waited_for_budget_ms: millis(figures.waited.budget),
            waited_for_store_ms: millis(figures.waited.store),
            waited_for_other_client_ms: millis(figures.waited.other_client),
        }
    }

    fn cells(&self, name: &str) -> [String; 8] {
        let throttled = if self.time_ms > 0.0 { 100.0 * self.waited_for_budget_ms / self.time_ms } else { 0.0 };
        [
            name.to_owned(),
            format!("{:.0}", self.iops),
            format!("{:.1}", self.written_mib_s),
            format!("{:.1}", self.read_mib_s),
            self.p50_us.map(latency).unwrap_or_default(),
            self.p99_us.map(latency).unwrap_or_default(),
            format!("{throttled:.0}%"),
            self.errors.to_string(),
        ]
    }
}

/// Microseconds as people say them.
fn latency(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.0}us"),
        ..1e6 => format!("{:.1}ms", micros / 1e3),
        _ => format!("{:.1}s", micros / 1e6),
    }
}

fn text(shown: &Shown) -> String {
    let lists = [
        ("SHARE", &shown.shares),
        ("USER", &shown.users),
        ("CLIENT", &shown.clients),
        ("SESSION", &shown.sessions),
        ("CHANNEL", &shown.channels),
    ];
    let heading = |name| Table::new([name, "IOPS", "IN MiB/s", "OUT MiB/s", "P50", "P99", "THROTTLED", "ERRORS"]);
    let mut server = heading("SERVER");
    server.row(shown.server.cells("all"));
    let tables = lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| {
        let mut table = heading(name);
        list.iter().for_each(|named| table.row(named.numbers.cells(&named.name)));
        table.text()
    });
    std::iter::once(server.text()).chain(tables).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_short() {
        let texts = [(0.4, "0us"), (999.0, "999us"), (1_250.0, "1.2ms"), (2_500_000.0, "2.5s")];
        for (micros, text) in texts {
            assert_eq!(latency(micros), text);
        }
    }

    #[test]
    fn who_does_most_comes_first() {
        let row = |share: &str, requests| server::admin::CountersRow {
            scope: Scope::Share(Some(share.to_owned())),
            counts: server::admin::Counts::from_parts(vec![(0, requests)], Vec::new()).unwrap(),
        };
        let rows = vec![row("idle", 0), row("busy", 100)];
        let change = Change { passed: Duration::from_secs(2), events: Default::default(), rows };
        let shown = shown(&change);
        assert_eq!((shown.shares[0].name.as_str(), shown.shares[0].numbers.iops), ("busy", 50.0));
        assert!(text(&shown).contains("busy"));
    }
}
