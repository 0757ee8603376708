//! What was done between two looks at the counters.

use std::collections::HashMap;
use std::time::Duration;

use server::admin::{CountersRow, CountersView, Counts, Events, Scope};

/// What was done between two looks.
#[derive(Clone, Debug)]
pub struct Change {
    /// The time between them.
    pub passed: Duration,
    /// What has happened seldom.
    pub events: Events,
    /// Each of the later look's rows, without what the earlier one had.
    pub rows: Vec<CountersRow>,
}

impl Change {
    /// What the later look has more than the earlier one. They must be of the same server, in this order: where it has started
    /// anew meanwhile, all that the later one has counts.
    pub fn between(earlier: &CountersView, later: &CountersView) -> Change {
        if later.start != earlier.start {
            return Change::until(later.clone());
        }
        let known: HashMap<&Scope, &Counts> = earlier.rows.iter().map(|row| (&row.scope, &row.counts)).collect();
        let change = |row: &CountersRow| {
            let before = known.get(&row.scope);
            let counts = before.map_or_else(|| row.counts.clone(), |before| row.counts.since(before));
            CountersRow { scope: row.scope.clone(), counts }
        };
        Change {
            passed: later.at.saturating_sub(earlier.at),
            events: events_since(&later.events, &earlier.events),
            rows: later.rows.iter().map(change).collect(),
        }
    }

    /// All that was counted until a look: since the server started, and for sessions and channels since each began.
    pub fn until(look: CountersView) -> Change {
        Change { passed: look.at, events: look.events, rows: look.rows }
    }
}

fn events_since(now: &Events, before: &Events) -> Events {
    Events {
        sign_ins: now.sign_ins.saturating_sub(before.sign_ins),
        sign_ins_refused: now.sign_ins_refused.saturating_sub(before.sign_ins_refused),
        breaks: now.breaks.saturating_sub(before.breaks),
        channels_bound: now.channels_bound.saturating_sub(before.channels_bound),
        channels_lost: now.channels_lost.saturating_sub(before.channels_lost),
    }
}

#[cfg(test)]
mod tests {
    use server::admin::Authentication;

    use super::*;

    fn view(start: u64, seconds: u64, rows: &[(&str, u64)]) -> CountersView {
        let row = |(share, number): &(&str, u64)| CountersRow {
            scope: Scope::Share { name: Some((*share).to_owned()), authentication: Authentication::Ntlm },
            counts: Counts::from_parts(vec![(0, *number)], Vec::new()).unwrap(),
        };
        let events = Events { sign_ins: seconds, ..Events::default() };
        CountersView { start, at: Duration::from_secs(seconds), events, rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn what_is_new_counts_from_its_begin_and_what_is_gone_not_at_all() {
        let change = Change::between(&view(1, 10, &[("a", 5), ("b", 1)]), &view(1, 12, &[("a", 9), ("c", 3)]));
        assert_eq!((change.passed, change.events.sign_ins), (Duration::from_secs(2), 2));
        assert_eq!(change.rows, view(1, 0, &[("a", 4), ("c", 3)]).rows);
    }

    #[test]
    fn a_server_that_has_started_anew_has_done_all_that_it_counts() {
        let change = Change::between(&view(1, 2, &[("a", 5)]), &view(2, 3, &[("a", 7)]));
        assert_eq!((change.passed, change.events.sign_ins), (Duration::from_secs(3), 3));
        assert_eq!(change.rows, view(1, 0, &[("a", 7)]).rows);
    }
}
