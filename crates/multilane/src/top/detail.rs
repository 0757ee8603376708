//! One line in detail: what was done, how it ended and where the time went.

use std::time::Duration;

use insight::Figures;
use server::admin::{Api, Counts, ResponseType, Sum};
use wire::status::Status;

use crate::table::Table;
use crate::top::columns::latency;
use crate::top::lists::Line;

/// The text for a line of which this time is shown.
pub(super) fn text(line: &Line, passed: Duration) -> String {
    let Line { counts, figures, .. } = line;
    if figures.requests == 0 {
        return "No request in this time.\n".to_owned();
    }
    [time(figures), apis(counts, passed), responses(counts), errors(counts)].concat()
}

/// Where the time of all requests went.
fn time(figures: &Figures) -> String {
    let Figures { time, waited, .. } = figures;
    let worked = time.saturating_sub(waited.budget + waited.store + waited.other_client);
    let mut table = Table::new(["TIME IN THE SERVER", "EACH", "PART"]);
    let parts = [
        ("waiting for a limit", waited.budget),
        ("waiting for the store", waited.store),
        ("waiting for another client", waited.other_client),
        ("the server's own work", worked),
    ];
    for (name, part) in parts {
        let of_all = if time.is_zero() { 0.0 } else { 100.0 * part.as_secs_f64() / time.as_secs_f64() };
        table.row([name.to_owned(), latency(part.div_f64(figures.requests as f64)), format!("{of_all:.0}%")]);
    }
    table.text() + "\n"
}

fn apis(counts: &Counts, passed: Duration) -> String {
    let mut table = Table::new(["API", "IOPS", "MEAN", "RECEIVED", "SENT"]);
    for api in Api::ALL {
        let requests = counts.requests_of(*api);
        if requests == 0 {
            continue;
        }
        let mean = Duration::from_nanos(counts.sum(*api, Sum::TotalNanos)).div_f64(requests as f64);
        table.row([
            api.name().to_owned(),
            format!("{:.0}", requests as f64 / passed.as_secs_f64().max(f64::MIN_POSITIVE)),
            latency(mean),
            load::figures::bytes(counts.sum(*api, Sum::ReceivedBytes)),
            load::figures::bytes(counts.sum(*api, Sum::SentBytes)),
        ]);
    }
    table.text() + "\n"
}

fn responses(counts: &Counts) -> String {
    let mut table = Table::new(["RESPONSE", "REQUESTS"]);
    for response in ResponseType::ALL {
        let requests = counts.requests_with(*response);
        if requests > 0 {
            table.row([response.name().to_owned(), requests.to_string()]);
        }
    }
    table.text() + "\n"
}

/// Nothing where there are none.
fn errors(counts: &Counts) -> String {
    if counts.errors().is_empty() {
        return String::new();
    }
    let mut table = Table::new(["ERROR", "RESPONSES"]);
    let mut errors = counts.errors().to_vec();
    errors.sort_by_key(|(_, responses)| std::cmp::Reverse(*responses));
    for (status, responses) in errors {
        // The counters have no place for more statuses than some.
        let name = if status == u32::MAX { "(others)".to_owned() } else { Status(status).to_string() };
        table.row([name, responses.to_string()]);
    }
    table.text()
}
