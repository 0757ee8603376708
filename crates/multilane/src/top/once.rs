//! `multilane top --once`: one look, as text or as JSON.

use std::time::Duration;

use insight::Figures;
use serde::Serialize;

use crate::table::Table;
use crate::top::columns::Column;
use crate::top::lists::{Line, List, Lists};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Shown {
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

impl Shown {
    pub(super) fn of(lists: &Lists) -> Self {
        let named = |list| {
            let named = |line: &Line| Named { name: line.name.clone(), numbers: Numbers::of(&line.figures) };
            sorted(lists, list).into_iter().map(named).collect()
        };
        Shown {
            seconds: lists.passed.as_secs_f64(),
            server: Numbers::of(&lists.server.figures),
            shares: named(List::Shares),
            users: named(List::Users),
            clients: named(List::Clients),
            sessions: named(List::Sessions),
            channels: named(List::Channels),
        }
    }
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
}

/// A list, who does most first.
fn sorted(lists: &Lists, list: List) -> Vec<&Line> {
    let mut lines: Vec<&Line> = lists.list(list).iter().collect();
    lines.sort_by(|a, b| Column::Iops.order(a, b));
    lines
}

/// A table for each list that has something.
pub(super) fn text(lists: &Lists) -> String {
    let table = |heading: &'static str, lines: &[&Line]| {
        let mut table = Table::new(Column::ALL.map(|column| column.heading(heading)));
        lines.iter().for_each(|line| table.row(Column::ALL.map(|column| column.cell(line))));
        table.text()
    };
    let server = table("SERVER", &[&lists.server]);
    let filled = List::ALL.into_iter().filter(|list| !lists.list(*list).is_empty());
    let tables = filled.map(|list| table(list.heading(), &sorted(lists, list)));
    std::iter::once(server).chain(tables).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use insight::Change;
    use server::admin::{Authentication, CountersRow, Counts, Scope};

    use super::*;

    #[test]
    fn who_does_most_comes_first() {
        let row = |share: &str, requests| CountersRow {
            scope: Scope::Share { name: Some(share.to_owned()), authentication: Authentication::Ntlm },
            counts: Counts::from_parts(vec![(0, requests)], Vec::new()).unwrap(),
        };
        let rows = vec![row("idle", 0), row("busy", 100)];
        let change = Change { passed: Duration::from_secs(2), events: Default::default(), rows };
        let lists = Lists::of(&change);
        let shown = Shown::of(&lists);
        assert_eq!((shown.shares[0].name.as_str(), shown.shares[0].numbers.iops), ("busy", 50.0));
        assert!(text(&lists).contains("busy"));
    }
}
