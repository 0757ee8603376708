//! The report for programs, with DiskSpd's elements in its order.

use std::time::Duration;

use super::machine::{self, Machine, Processor};
use super::profile_xml;
use super::totals::{Kind, NOT_MEASURED, Sums, begun, distributed, latency, quantile_ms, targets};
use super::xml::Writer;
use crate::profile::{Profile, TimeSpan};
use crate::results::{CpuUsage, EffectiveRange, Latency, Results, TargetResults, TimeSpanResults};

/// The version whose reports these are like, with a tag as DiskSpd's own builds have it, and its date.
const VERSION: &str = concat!("2.2.0-multilane-", env!("CARGO_PKG_VERSION"));
const VERSION_DATE: &str = "2024/6/3";

/// The three kinds, as the names of elements have them.
const KINDS: [(Kind, &str); 3] = [(Kind::Read, "Read"), (Kind::Write, "Write"), (Kind::Total, "")];

/// The report of a run.
pub fn report(profile: &Profile, machine: &Machine, results: &Results) -> String {
    let mut xml = Writer::default();
    xml.open("Results");
    system(machine, results, &mut xml);
    profile_xml::write_into(profile, &mut xml);
    for (span, results) in begun(profile, results) {
        xml.open("TimeSpan");
        match results {
            Some(results) => time_span(span, machine, results, &mut xml),
            None => xml.value("Error", NOT_MEASURED),
        }
        xml.close("TimeSpan");
    }
    xml.close("Results");
    xml.text()
}

fn system(machine: &Machine, results: &Results, xml: &mut Writer) {
    let started = results.time_spans.first().map(|results| machine::time(results.started)).unwrap_or_default();
    xml.open("System");
    xml.value("ComputerName", &machine.computer_name);
    xml.open("Tool");
    xml.value("Version", VERSION);
    xml.value("VersionDate", VERSION_DATE);
    xml.close("Tool");
    xml.value("RunTime", started);
    xml.empty("PowerScheme", &[("Name", machine.power_scheme.clone()), ("Guid", String::new())]);
    topology(machine, xml);
    xml.close("System");
}

/// Linux has no processor groups: all are in the first.
fn topology(machine: &Machine, xml: &mut Writer) {
    let processors = &machine.processors;
    let count = processors.len().to_string();
    let group = || ("Group", "0".to_owned());
    xml.open_with("ProcessorTopology", &[("Heterogeneous", (machine.best_class() > 0).to_string())]);
    xml.empty(
        "Group",
        &[
            group(),
            ("MaximumProcessors", count.clone()),
            ("ActiveProcessors", count),
            ("ActiveProcessorMask", mask(processors, |_| true)),
        ],
    );
    for (name, of) in
        [("Node", (|processor| processor.node) as fn(&Processor) -> u32), ("Socket", |processor| processor.socket)]
    {
        for number in numbers(processors, of) {
            xml.open_with(name, &[(name, number.to_string())]);
            xml.empty("Group", &[group(), ("Mask", mask(processors, |processor| of(processor) == number))]);
            xml.close(name);
        }
    }
    for number in numbers(processors, |processor| processor.core) {
        let class =
            processors.iter().find(|processor| processor.core == number).map_or(0, |core| core.efficiency_class);
        xml.empty(
            "Core",
            &[
                group(),
                ("Core", number.to_string()),
                ("Mask", mask(processors, |processor| processor.core == number)),
                ("EfficiencyClass", class.to_string()),
            ],
        );
    }
    xml.close("ProcessorTopology");
}

fn numbers(processors: &[Processor], of: fn(&Processor) -> u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = processors.iter().map(of).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The processors that are meant, as bits of a hexadecimal number of any length.
fn mask(processors: &[Processor], is_meant: impl Fn(&Processor) -> bool) -> String {
    let ids: Vec<u32> =
        processors.iter().filter(|processor| is_meant(processor)).map(|processor| processor.id).collect();
    let digits = ids.iter().max().map_or(1, |id| id / 4 + 1);
    let digit = |place: u32| {
        let bits: u32 = ids.iter().filter(|id| **id / 4 == place).map(|id| 1 << (id % 4)).sum();
        char::from_digit(bits, 16).unwrap_or('0')
    };
    format!("0x{}", (0..digits).rev().map(digit).collect::<String>())
}

fn time_span(span: &TimeSpan, machine: &Machine, results: &TimeSpanResults, xml: &mut Writer) {
    let threads = span.thread_count.map_or(results.threads.len(), |threads| threads as usize);
    xml.value("TestTimeSeconds", format!("{:.2}", results.test_time.as_secs_f64()));
    xml.value("ThreadCount", threads);
    xml.value("RequestCount", span.request_count.unwrap_or(0));
    xml.value("ProcCount", machine.processors.len());
    cpu_utilization(machine, &results.cpus, xml);
    if span.measure_latency {
        latencies(results, xml);
    }
    if let Some(interval) = span.iops_interval {
        iops(targets(results), interval, xml);
    }
    for thread in &results.threads {
        xml.open("Thread");
        xml.value("Id", thread.id);
        thread.targets.iter().for_each(|target| target_results(span, target, xml));
        xml.close("Thread");
    }
    client(results, xml);
}

fn cpu_utilization(machine: &Machine, usage: &[CpuUsage], xml: &mut Writer) {
    xml.open("CpuUtilization");
    let percentages = |usage: CpuUsage, xml: &mut Writer| {
        let CpuUsage { user, kernel, idle } = usage;
        for (name, percent) in [("Usage", user + kernel), ("User", user), ("Kernel", kernel), ("Idle", idle)] {
            xml.value(&format!("{name}Percent"), format!("{percent:.2}"));
        }
    };
    let mut sum = CpuUsage::default();
    for (index, usage) in usage.iter().enumerate() {
        let Processor { id, core, socket, node, efficiency_class } = machine.processor(index);
        xml.open("CPU");
        xml.value("Socket", socket);
        xml.value("Node", node);
        xml.value("Group", 0);
        xml.value("Core", core);
        xml.value("EfficiencyClass", efficiency_class);
        xml.value("Id", id);
        percentages(*usage, xml);
        xml.close("CPU");
        sum.user += usage.user;
        sum.kernel += usage.kernel;
        sum.idle += usage.idle;
    }
    let count = usage.len().max(1) as f64;
    xml.open("Average");
    percentages(CpuUsage { user: sum.user / count, kernel: sum.kernel / count, idle: sum.idle / count }, xml);
    xml.close("Average");
    xml.close("CpuUtilization");
}

fn latencies(results: &TimeSpanResults, xml: &mut Writer) {
    let [read, write, total] = KINDS.map(|(kind, _)| latency(kind, targets(results)));
    let buckets = |latency: &Latency| latency.nanoseconds.iter_recorded().count().to_string();
    xml.open_with(
        "Latency",
        &[
            ("ReadHistoBuckets", buckets(&read)),
            ("WriteHistoBuckets", buckets(&write)),
            ("TotalHistoBuckets", buckets(&total)),
        ],
    );
    for (kind, name) in KINDS {
        let average = if name.is_empty() { "Total" } else { name };
        averages(&Sums::of(kind, targets(results)), &format!("Average{average}Milliseconds"), name, xml);
    }
    let whole = (0..=99).map(|percent| (f64::from(percent) / 100.0, percent.to_string()));
    let nines = (1..=7).map(|nines| (1.0 - 0.1_f64.powi(nines + 2), format!("99.{}", "9".repeat(nines as usize))));
    for (share, name) in whole.chain(nines).chain([(1.0, "100".to_owned())]) {
        xml.open("Bucket");
        xml.value("Percentile", name);
        for (latency, kind) in [(&read, "Read"), (&write, "Write"), (&total, "Total")] {
            if let Some(milliseconds) = quantile_ms(latency, share) {
                xml.value(&format!("{kind}Milliseconds"), format!("{milliseconds:.3}"));
            }
        }
        xml.close("Bucket");
    }
    xml.close("Latency");
}

fn averages(sums: &Sums, average: &str, kind: &str, xml: &mut Writer) {
    if let (Some(mean), Some(deviation)) = (sums.mean_ms(), sums.deviation_ms()) {
        xml.value(average, format!("{mean:.3}"));
        xml.value(&format!("{kind}LatencyStdev"), format!("{deviation:.3}"));
    }
}

/// The deviations, and requests a second in each interval.
fn iops<'a>(results: impl Iterator<Item = &'a TargetResults> + Clone, interval: Duration, xml: &mut Writer) {
    let [read, write, total] = KINDS.map(|(kind, _)| Sums::of(kind, results.clone()));
    xml.open("Iops");
    for (sums, (_, name)) in [&read, &write, &total].into_iter().zip(KINDS) {
        if let Some(deviation) = sums.iops_deviation(interval) {
            xml.value(&format!("{name}IopsStdDev"), format!("{deviation:.3}"));
        }
    }
    for index in 0..total.per_interval().len() {
        let rate =
            |sums: &Sums| sums.per_interval().get(index).map_or(0.0, |count| *count as f64 / interval.as_secs_f64());
        xml.empty(
            "Bucket",
            &[
                ("SampleMillisecond", (interval.as_millis() * (index as u128 + 1)).to_string()),
                ("Read", format!("{:.0}", rate(&read))),
                ("Write", format!("{:.0}", rate(&write))),
                ("Total", format!("{:.0}", rate(&total))),
            ],
        );
    }
    xml.close("Iops");
}

fn target_results(span: &TimeSpan, target: &TargetResults, xml: &mut Writer) {
    let (read, write) = (&target.read, &target.write);
    xml.open("Target");
    xml.value("Path", &target.path);
    xml.value("BytesCount", read.bytes + write.bytes);
    xml.value("FileSize", target.file_bytes);
    xml.value("IOCount", read.requests + write.requests);
    xml.value("ReadBytes", read.bytes);
    xml.value("ReadCount", read.requests);
    xml.value("WriteBytes", write.bytes);
    xml.value("WriteCount", write.requests);
    if span.measure_latency {
        for (kind, name) in KINDS {
            averages(&Sums::of(kind, [target]), &format!("Average{name}LatencyMilliseconds"), name, xml);
        }
    }
    if let Some(interval) = span.iops_interval {
        iops([target].into_iter(), interval, xml);
    }
    xml.close("Target");
}

/// What DiskSpd has no elements for. It comes last, so that nobody stumbles.
fn client(results: &TimeSpanResults, xml: &mut Writer) {
    let requests = Sums::of(Kind::Total, targets(results)).requests;
    let cpu_seconds = results.own_cpu.as_secs_f64();
    xml.open("Client");
    xml.value("CpuSeconds", format!("{cpu_seconds:.3}"));
    xml.value("CpuMicrosecondsPerIO", format!("{:.3}", cpu_seconds * 1e6 / requests.max(1) as f64));
    for channel in &results.channels {
        xml.empty(
            "Channel",
            &[
                ("From", channel.local.clone()),
                ("To", channel.remote.clone()),
                ("ReceivedBytes", channel.received_bytes.to_string()),
                ("SentBytes", channel.sent_bytes.to_string()),
            ],
        );
    }
    for (path, ranges) in distributed(results) {
        xml.open_with("EffectiveDistribution", &[("Path", path.to_owned())]);
        for EffectiveRange { io_percent, begin, end } in ranges {
            let attributes =
                [("IO", format!("{io_percent:.1}")), ("Begin", begin.to_string()), ("End", end.to_string())];
            xml.empty("Range", &attributes);
        }
        xml.close("EffectiveDistribution");
    }
    xml.close("Client");
}
