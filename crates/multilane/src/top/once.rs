//! `multilane top --once`: one look, as text or as JSON.

use std::time::Duration;

use insight::Figures;
use serde::Serialize;
use server::admin::{Api, Counts, Events, ResponseType, Sum, status_name};

use crate::table::Table;
use crate::top::columns::Column;
use crate::top::lists::{Line, List, Lists};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Shown {
    /// The time that it is about.
    seconds: f64,
    events: Seldom,
    server: Numbers,
    shares: Vec<Named>,
    users: Vec<Named>,
    clients: Vec<Named>,
    sessions: Vec<Named>,
    channels: Vec<Named>,
    /// Those that are open, as far as samples tell.
    files: Vec<OfFile>,
}

/// A file.
#[derive(Serialize)]
struct OfFile {
    /// The share and the path.
    name: String,
    iops: f64,
    written_mib_s: f64,
    read_mib_s: f64,
}

/// What happens seldom, and to the server as a whole.
#[derive(Serialize)]
struct Seldom {
    sign_ins: u64,
    sign_ins_refused: u64,
    breaks: u64,
    channels_bound: u64,
    channels_lost: u64,
}

/// The figures of something.
#[derive(Serialize)]
struct Named {
    name: String,
    /// The time that its rates are of.
    seconds: f64,
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
    apis: Vec<OfApi>,
    statuses: Vec<OfStatus>,
}

/// Requests of an API.
#[derive(Serialize)]
struct OfApi {
    api: &'static str,
    responses: Vec<OfResponse>,
    /// From their SMB2 headers on.
    received_bytes: u64,
    sent_bytes: u64,
    /// Of files.
    read_bytes: u64,
    written_bytes: u64,
}

#[derive(Serialize)]
struct OfResponse {
    response: &'static str,
    requests: u64,
}

/// Responses that said that something was not done.
#[derive(Serialize)]
struct OfStatus {
    /// Its number as MS-ERREF 2.3 has it; `null` stands for all that were counted together, because there were too many different ones.
    status: Option<String>,
    name: Option<String>,
    responses: u64,
}

impl Shown {
    pub(super) fn of(lists: &Lists) -> Self {
        let named = |list| {
            let named = |line: &Line| Named {
                name: line.name.clone(),
                seconds: line.passed.as_secs_f64(),
                numbers: Numbers::of(line),
            };
            sorted(lists, list).into_iter().map(named).collect()
        };
        Shown {
            seconds: lists.passed.as_secs_f64(),
            events: Seldom::of(&lists.events),
            server: Numbers::of(&lists.server),
            shares: named(List::Shares),
            users: named(List::Users),
            clients: named(List::Clients),
            sessions: named(List::Sessions),
            channels: named(List::Channels),
            files: sorted(lists, List::Files).into_iter().map(OfFile::of).collect(),
        }
    }
}

impl OfFile {
    fn of(line: &Line) -> Self {
        let Figures { iops, written_mib_s, read_mib_s, .. } = line.figures;
        OfFile { name: line.name.clone(), iops, written_mib_s, read_mib_s }
    }
}

impl Seldom {
    fn of(events: &Events) -> Self {
        let Events { sign_ins, sign_ins_refused, breaks, channels_bound, channels_lost } = *events;
        Seldom { sign_ins, sign_ins_refused, breaks, channels_bound, channels_lost }
    }
}

impl Numbers {
    fn of(line: &Line) -> Self {
        let figures = &line.figures;
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
            apis: apis(&line.counts),
            statuses: line.counts.errors().iter().map(|error| OfStatus::of(*error)).collect(),
        }
    }
}

/// Those that were asked.
fn apis(counts: &Counts) -> Vec<OfApi> {
    let asked = Api::ALL.iter().copied().filter(|api| counts.requests_of(*api) > 0);
    let of_api = |api: Api| OfApi {
        api: api.name(),
        responses: responses(counts, api),
        received_bytes: counts.sum(api, Sum::ReceivedBytes),
        sent_bytes: counts.sum(api, Sum::SentBytes),
        read_bytes: counts.sum(api, Sum::ReadBytes),
        written_bytes: counts.sum(api, Sum::WrittenBytes),
    };
    asked.map(of_api).collect()
}

fn responses(counts: &Counts, api: Api) -> Vec<OfResponse> {
    let each = ResponseType::ALL.iter();
    let each = each.map(|response| OfResponse { response: response.name(), requests: counts.requests(api, *response) });
    each.filter(|one| one.requests > 0).collect()
}

impl OfStatus {
    fn of((status, responses): (u32, u64)) -> Self {
        let is_one = status != u32::MAX;
        let number = is_one.then(|| format!("{status:#010x}"));
        OfStatus { status: number, name: is_one.then(|| status_name(status)).flatten(), responses }
    }
}

/// A list, who does most first.
fn sorted(lists: &Lists, list: List) -> Vec<&Line> {
    let mut lines: Vec<&Line> = lists.list(list).iter().collect();
    lines.sort_by(|a, b| Column::Iops.order(a, b));
    lines
}

/// A table for each list that has something.
pub(super) fn text<const COLUMNS: usize>(lists: &Lists, columns: [Column; COLUMNS]) -> String {
    let table = |heading: &'static str, lines: &[&Line]| {
        let mut table = Table::new(columns.map(|column| column.heading(heading)));
        lines.iter().for_each(|line| table.row(columns.map(|column| column.cell(line))));
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
    use server::admin::{Authentication, CountersRow, Scope};

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
        assert!(text(&lists, Column::ALL).contains("busy"));
        let total = text(&lists, Column::TOTAL);
        assert!(total.contains("REQUESTS") && total.contains(" 100 "), "{total}");
    }
}
