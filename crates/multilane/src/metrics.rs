//! `multilane metrics`: what the server has done, by Azure Monitor's names.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Args, Subcommand};
use control::{DataFolder, Error};
use insight::monitor::{Aggregation, Archive, ArchiveError, Dimension, Filter, Interval, Metric, Query, Series, azure};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::output::Output;
use crate::{data, recorder};

/// Numbers of one series at most.
const POINTS_MAX: i64 = 44_640;
/// Shares that are named where one is not there; of more than these a command tells.
const NAMED_MAX: usize = 10;

#[derive(Debug, Subcommand)]
pub(crate) enum MetricsCommand {
    /// The metrics there are, with their units, aggregations and dimensions
    List,
    /// A metric's numbers, as `az monitor metrics list` prints them
    #[command(
        after_help = "Examples:\n  multilane metrics show Transactions --filter \"ApiName eq '*'\"\n  multilane metrics show FileShareMaxUsedIOPS --filter \"FileShare eq 'media'\" --interval PT1H --json"
    )]
    Show(ShowMetric),
}

#[derive(Debug, Args)]
pub(crate) struct ShowMetric {
    /// Its name
    #[arg(value_parser = metric)]
    metric: Metric,

    /// Which numbers count, and what they are told apart by: NAME eq 'VALUE', joined by `and`; '*' for each
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    filter: Option<Filter>,

    /// What each number is about: PT1M, PT5M, PT15M, PT30M, PT1H, PT6H, PT12H or P1D. Less than an hour is kept for a day, else for thirty
    #[arg(long, value_name = "INTERVAL", default_value = "PT1M", value_parser = interval)]
    interval: Interval,

    /// How numbers are made one: Total, Average, Minimum or Maximum [default: what suits the metric]
    #[arg(long, value_name = "NAME", value_parser = aggregation)]
    aggregation: Option<Aggregation>,

    /// From when, as 2026-11-29T13:00:00Z [default: an hour before the end, or a day, or thirty]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    start_time: Option<Timestamp>,

    /// Until when [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    end_time: Option<Timestamp>,
}

fn metric(text: &str) -> Result<Metric, String> {
    let names = || Metric::ALL.map(|metric| metric.definition().name).join(", ");
    Metric::of(text).ok_or_else(|| format!("there are {}", names()))
}

fn filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| error.to_string())
}

fn interval(text: &str) -> Result<Interval, String> {
    let names = || Interval::ALL.map(Interval::name).join(", ");
    Interval::of(text).ok_or_else(|| format!("there are {}", names()))
}

fn aggregation(text: &str) -> Result<Aggregation, String> {
    let names = || Aggregation::ALL.map(Aggregation::name).join(", ");
    Aggregation::of(text).ok_or_else(|| format!("there are {}", names()))
}

fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "a time is written as 2026-11-29T13:00:00Z, or as 2026-11-29T14:00:00+01:00".to_owned())
}

pub(crate) fn run(path: &Path, command: &MetricsCommand, output: Output) -> Result<(), Error> {
    match command {
        MetricsCommand::List => output.print(&definitions(), |_| definitions_text()),
        MetricsCommand::Show(asked) => show(path, asked, output),
    }
}

/// A metric as `--json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    primary_aggregation_type: &'static str,
    supported_aggregation_types: Vec<&'static str>,
    dimensions: Vec<&'static str>,
}

fn definitions() -> Vec<Shown> {
    let shown = |metric: Metric| {
        let definition = metric.definition();
        Shown {
            name: definition.name,
            description: definition.description,
            unit: definition.unit,
            primary_aggregation_type: definition.aggregations[0].name(),
            supported_aggregation_types: definition.aggregations.iter().map(|one| one.name()).collect(),
            dimensions: definition.dimensions.iter().map(|one| one.name()).collect(),
        }
    };
    Metric::ALL.map(shown).into()
}

fn definitions_text() -> String {
    let mut table = crate::table::Table::new(["NAME", "UNIT", "AGGREGATIONS", "DIMENSIONS", "WHAT IT IS"]);
    for shown in definitions() {
        table.row([
            shown.name.to_owned(),
            shown.unit.to_owned(),
            shown.supported_aggregation_types.join(","),
            shown.dimensions.join(","),
            shown.description.to_owned(),
        ]);
    }
    table.text()
}

fn show(path: &Path, asked: &ShowMetric, output: Output) -> Result<(), Error> {
    let folder = DataFolder::open(path)?;
    let query = query(asked)?;
    let archive = recorder::path(&folder);
    let Read { series, first, shares } = read(&archive, &query).map_err(|error| unread(&error, &folder))?;
    refuse_unknown(&query, &shares, path)?;
    output.print(&as_azure(&query, series.clone()), |_| text(&query, &series, first))
}

/// Why there is nothing to show, and what to do.
fn unread(error: &ArchiveError, folder: &DataFolder) -> Error {
    match error {
        ArchiveError::Nothing if folder.is_served() => {
            let what = format!("{error} in {}: the server's first minute is not over", folder.path().display());
            Error::missing(what, "look again in a minute")
        }
        ArchiveError::Nothing => {
            let remedy = "start the server with `multilane serve`, and look again after a minute";
            Error::missing(format!("{error} in {}", folder.path().display()), remedy)
        }
        ArchiveError::Link => {
            Error::machine(error.to_string(), "remove the link: a running server makes a file there within a minute")
        }
        ArchiveError::Damaged(_) => {
            let aside = Archive::aside(&recorder::path(folder));
            let remedy = format!(
                "nothing needs to be done: a running server renames it to {} within a minute, and begins a new one",
                aside.display()
            );
            Error::machine(error.to_string(), remedy)
        }
        _ => Error::machine(error.to_string(), "try again, or see whether the disk is well"),
    }
}

fn query(asked: &ShowMetric) -> Result<Query, Error> {
    let end = asked.end_time.unwrap_or_else(Timestamp::now);
    let back = match asked.interval.duration().as_secs() {
        ..3_600 => SignedDuration::from_hours(1),
        3_600 => SignedDuration::from_hours(24),
        _ => SignedDuration::from_hours(30 * 24),
    };
    let start = asked.start_time.or_else(|| end.checked_sub(back).ok()).unwrap_or(Timestamp::MIN);
    let query = Query {
        metric: asked.metric,
        aggregation: asked.aggregation.unwrap_or(asked.metric.definition().aggregations[0]),
        filter: asked.filter.clone().unwrap_or_default(),
        interval: asked.interval,
        range: asked.interval.whole(start.as_second()..end.as_second()),
    };
    if query.range.is_empty() {
        return Err(Error::argument(
            "the start is not before the end",
            "give --start-time and --end-time in their order",
        ));
    }
    let points = (query.range.end - query.range.start) / query.interval.duration().as_secs() as i64;
    if points > POINTS_MAX {
        let remedy = "ask for a longer --interval, or for less time";
        let what = format!("each series would have {points} numbers, and has {POINTS_MAX} at most");
        return Err(Error::argument(what, remedy));
    }
    query.check().map_err(|what| Error::argument(what, "`multilane metrics list` tells what each metric has"))?;
    Ok(query)
}

/// What was read.
struct Read {
    series: Vec<Series>,
    /// When the first interval begins of which anything is known.
    first: Option<i64>,
    /// The shares of which something is known.
    shares: BTreeSet<String>,
}

fn read(archive: &Path, query: &Query) -> Result<Read, ArchiveError> {
    let (mut answer, mut shares) = (query.begin(), BTreeSet::new());
    Archive::open_to_read(archive)?.read(query.kept(), &query.range, |begin, share, record| {
        if !shares.contains(share) {
            shares.insert(share.to_owned());
        }
        answer.add(begin, share, record);
    })?;
    let first = answer.first();
    Ok(Read { series: answer.series(), first, shares })
}

/// Refuses a filter by a share that there is not, and of which nothing was kept in this time.
fn refuse_unknown(query: &Query, kept: &BTreeSet<String>, path: &Path) -> Result<(), Error> {
    let is_kept = |name: &&String| kept.iter().any(|share| share.eq_ignore_ascii_case(name));
    let mut unkept = query.filter.values(Dimension::FileShare).iter().filter(|name| !is_kept(name)).peekable();
    if unkept.peek().is_none() {
        return Ok(());
    }
    let (_, catalog) = data::open(path)?;
    let shares: Vec<String> = catalog.shares()?.into_iter().map(|share| share.name).collect();
    let Some(unknown) = unkept.find(|name| !shares.iter().any(|share| share.eq_ignore_ascii_case(name))) else {
        return Ok(());
    };
    let remedy = match shares.len() {
        0 => "there are no shares".to_owned(),
        1..=NAMED_MAX => format!("the shares are {}", shares.join(", ")),
        _ => "`multilane share list` shows the shares".to_owned(),
    };
    Err(Error::missing(format!("there is no share {unknown:?}, and nothing of one was kept of this time"), remedy))
}

/// What `az monitor metrics list` prints.
fn as_azure(query: &Query, series: Vec<Series>) -> Value {
    let metric = azure::metric(query.metric, &[(query.aggregation, series)]);
    azure::answer(query.interval, &query.range, vec![metric])
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// A line for each number of each series, since anything is known.
fn text(query: &Query, series: &[Series], first: Option<i64>) -> String {
    let Some(first) = first else { return "nothing was kept of this time\n".to_owned() };
    let mut rows = 0;
    let mut table = crate::table::Table::new(["TIMESTAMP", "NAME", "OF", "VALUE"]);
    for series in series {
        let of: Vec<_> = series.of.iter().map(|(dimension, value)| format!("{}={value}", dimension.name())).collect();
        // Of an interval in which nothing was done there is no average.
        let known = series.points.iter().filter(|(begin, _)| *begin >= first);
        for (begin, number) in known.filter_map(|(begin, number)| Some((begin, (*number)?))) {
            let number = format!("{}", (number * 1e3).round() / 1e3);
            table.row([time(*begin), query.metric.definition().name.to_owned(), of.join(" "), number]);
            rows += 1;
        }
    }
    if rows == 0 { "nothing of this was done in this time\n".to_owned() } else { table.text() }
}
