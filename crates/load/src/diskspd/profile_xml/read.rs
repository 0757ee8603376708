//! From a document to a profile.

use std::time::Duration;

use super::fields::{self, Fields};
use super::target;
use crate::diskspd::refused::Refused;
use crate::diskspd::{wrong, xml};
use crate::engine::Failure;
use crate::profile::{PrecreateFiles, Profile, ResultFormat, TimeSpan};

const PROFILE: [&str; 8] =
    ["Verbose", "VerboseStats", "Progress", "ExperimentFlags", "ResultFormat", "ETW", "PrecreateFiles", "TimeSpans"];
const TIME_SPAN: [&str; 15] = [
    "Targets",
    "Duration",
    "Warmup",
    "Cooldown",
    "RandSeed",
    "RandomWriteData",
    "ThreadCount",
    "RequestCount",
    "GroupAffinity",
    "Affinity",
    "DisableAffinity",
    "CompletionRoutines",
    "MeasureLatency",
    "CalculateIopsStdDev",
    "IoBucketDuration",
];
const EVENT_TRACING: [&str; 12] = [
    "Process",
    "Thread",
    "ImageLoad",
    "DiskIO",
    "MemoryPageFaults",
    "MemoryHardFaults",
    "Network",
    "Registry",
    "UsePagedMemory",
    "UsePerfTimer",
    "UseSystemTimer",
    "UseCyclesCounter",
];
/// Milliseconds of an interval where none is given.
const INTERVAL_MS: u32 = 1000;

/// Reads a profile. Elements may come in any order, as the schema has it.
///
/// # Errors
///
/// The first thing that is wrong, with its line.
pub fn read(document: &[u8]) -> Result<Profile, Failure> {
    let root = xml::read(document)
        .map_err(|fault| wrong(format!("line {}: {}", fault.line, fault.what), "give a profile as -Rpxml prints it"))?;
    if root.name != "Profile" {
        return Err(fields::at(&root, format!("the document is a <{}>", root.name), "give a <Profile>"));
    }
    let fields = Fields::of(&root, &PROFILE)?;
    if let Some(tracing) = fields.child("ETW") {
        event_tracing(tracing)?;
    }
    if fields.number32("ExperimentFlags")?.is_some_and(|flags| flags > 0) {
        return Err(refused(&fields, Refused::Experiments, "ExperimentFlags"));
    }
    let spans = fields::list(fields.needed("TimeSpans")?, "TimeSpan")?;
    Ok(Profile {
        verbose: fields.boolean("Verbose")?,
        verbose_stats: fields.boolean("VerboseStats")?,
        progress: fields.number32("Progress")?.unwrap_or(0),
        result_format: result_format(&fields)?,
        profile_only: false,
        precreate_files: precreate_files(&fields)?,
        time_spans: spans.iter().map(time_span).collect::<Result<_, _>>()?,
    })
}

/// What is refused by name, with its line.
pub(super) fn refused(fields: &Fields<'_>, refused: Refused, name: &str) -> Failure {
    let Failure { what, remedy } = refused.failure(&format!("<{name}>"));
    fields.wrong(name, what, remedy)
}

fn result_format(fields: &Fields<'_>) -> Result<ResultFormat, Failure> {
    match fields.text("ResultFormat")? {
        None | Some("text") => Ok(ResultFormat::Text),
        Some("xml") => Ok(ResultFormat::Xml),
        Some(other) => Err(fields.wrong("ResultFormat", format!("<ResultFormat> is {other:?}"), "write text or xml")),
    }
}

fn precreate_files(fields: &Fields<'_>) -> Result<PrecreateFiles, Failure> {
    match fields.text("PrecreateFiles")? {
        None => Ok(PrecreateFiles::None),
        Some("UseMaxSize") => Ok(PrecreateFiles::UseMaxSize),
        Some("CreateOnlyFilesWithConstantSizes") => Ok(PrecreateFiles::OnlyFilesWithConstantSizes),
        Some("CreateOnlyFilesWithConstantOrZeroSizes") => Ok(PrecreateFiles::OnlyFilesWithConstantOrZeroSizes),
        Some(other) => Err(fields.wrong(
            "PrecreateFiles",
            format!("<PrecreateFiles> is {other:?}"),
            "write UseMaxSize, CreateOnlyFilesWithConstantSizes or CreateOnlyFilesWithConstantOrZeroSizes",
        )),
    }
}

/// DiskSpd writes the element out with what is off, too.
fn event_tracing(element: &xml::Element) -> Result<(), Failure> {
    let fields = Fields::of(element, &EVENT_TRACING)?;
    for name in EVENT_TRACING {
        if fields.boolean(name)? {
            return Err(refused(&fields, Refused::EventTracing, name));
        }
    }
    Ok(())
}

fn time_span(element: &xml::Element) -> Result<TimeSpan, Failure> {
    let fields = Fields::of(element, &TIME_SPAN)?;
    let is_tied = fields.child("Affinity").is_some_and(|affinity| !affinity.children.is_empty());
    for (name, is_asked) in [("Affinity", is_tied), ("GroupAffinity", fields.boolean("GroupAffinity")?)] {
        if is_asked {
            return Err(refused(&fields, Refused::Affinity, name));
        }
    }
    let defaults = TimeSpan::default();
    let seconds = |name: &str, default: Duration| {
        Ok::<_, Failure>(fields.number32(name)?.map_or(default, |seconds| Duration::from_secs(u64::from(seconds))))
    };
    let some = |name: &str| Ok::<_, Failure>(fields.number32(name)?.filter(|count| *count > 0));
    let interval_ms = some("IoBucketDuration")?.unwrap_or(INTERVAL_MS);
    let interval = Duration::from_millis(u64::from(interval_ms));
    let targets = fields::list(fields.needed("Targets")?, "Target")?;
    Ok(TimeSpan {
        duration: seconds("Duration", defaults.duration)?,
        warmup: seconds("Warmup", defaults.warmup)?,
        cooldown: seconds("Cooldown", defaults.cooldown)?,
        random_seed: u64::from(fields.number32("RandSeed")?.unwrap_or(0)),
        random_write_data: fields.boolean("RandomWriteData")?,
        thread_count: some("ThreadCount")?,
        request_count: some("RequestCount")?,
        completion_routines: fields.boolean("CompletionRoutines")?,
        disable_affinity: fields.boolean("DisableAffinity")?,
        measure_latency: fields.boolean("MeasureLatency")?,
        iops_interval: fields.boolean("CalculateIopsStdDev")?.then_some(interval),
        targets: targets.iter().map(target::read).collect::<Result<_, _>>()?,
    })
}
