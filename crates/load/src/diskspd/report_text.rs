//! The report for people, in DiskSpd's layout.

use std::time::Duration;

use super::distribution;
use super::machine::{self, Machine};
use super::size::shown;
use super::totals::{Kind, NOT_MEASURED, Sums, begun, distributed, latency, quantile_ms, targets, was_measured};
use crate::profile::{Pattern, Profile, SoftwareCache, Target, Throughput, TimeSpan, WriteContent};
use crate::results::{CpuUsage, EffectiveRange, Latency, Results, TargetResults, TimeSpanResults};

const STARS: &str = "*******************************************************************************\n";
const MEBIBYTE: f64 = 1_048_576.0;

/// The percentiles of the latency table, by the names they have in it.
const PERCENTILES: [(&str, f64); 15] = [
    ("min", 0.0),
    ("25th", 0.25),
    ("50th", 0.50),
    ("75th", 0.75),
    ("90th", 0.90),
    ("95th", 0.95),
    ("99th", 0.99),
    ("3-nines", 0.999),
    ("4-nines", 0.9999),
    ("5-nines", 0.99999),
    ("6-nines", 0.999999),
    ("7-nines", 0.9999999),
    ("8-nines", 0.99999999),
    ("9-nines", 0.999999999),
    ("max", 1.0),
];

/// The report of a run that `command_line` asked for.
pub fn report(command_line: &str, profile: &Profile, machine: &Machine, results: &Results) -> String {
    let mut text = profile_text(command_line, profile);
    text += &system(machine, results);
    for (index, (span, results)) in begun(profile, results).enumerate() {
        text += &format!("\nResults for timespan {}:\n{STARS}", index + 1);
        text += &match results {
            Some(results) => time_span_results(span, machine, results),
            None => format!("{NOT_MEASURED}\n"),
        };
    }
    if results.time_spans.len() > 1 {
        text += &grand_totals(results);
    }
    text
}

/// What is to be done, as `-Rptext` prints it and a report begins.
pub fn profile_text(command_line: &str, profile: &Profile) -> String {
    let mut text = format!("\nCommand Line: {command_line}\n\nInput parameters:\n\n");
    if profile.verbose {
        text += "\tusing verbose mode\n";
    }
    for (index, span) in profile.time_spans.iter().enumerate() {
        text += &format!("\ttimespan: {:3}\n\t-------------\n", index + 1);
        text += &time_span_text(span);
        text += &span.targets.iter().map(|target| target_text(span, target)).collect::<String>();
        text += "\n";
    }
    text
}

fn time_span_text(span: &TimeSpan) -> String {
    let mut text = format!(
        "\tduration: {}s\n\twarm up time: {}s\n\tcool down time: {}s\n",
        span.duration.as_secs(),
        span.warmup.as_secs(),
        span.cooldown.as_secs()
    );
    if span.disable_affinity {
        text += "\taffinity disabled\n";
    }
    if span.measure_latency {
        text += "\tmeasuring latency\n";
    }
    if let Some(interval) = span.iops_interval {
        text += &format!("\tgathering IOPS at intervals of {}ms\n", interval.as_millis());
    }
    text += &format!("\trandom seed: {}\n", span.random_seed);
    if let Some(threads) = span.thread_count {
        text += &format!("\tthread pool with {threads} threads\n");
        text += &format!("\tnumber of outstanding I/O operations per thread: {}\n", span.request_count.unwrap_or(0));
    }
    if span.random_write_data {
        text += "\tgenerating random data for each write IO\n";
        text += "\t  WARNING: making it takes CPU time, so compare with runs that use -Zr only\n";
    }
    text
}

fn target_text(span: &TimeSpan, target: &Target) -> String {
    let mut lines = vec![match target.path.strip_prefix('*') {
        Some(number) => format!("\tpath: template target '{number}'"),
        None => format!("\tpath: '{}'", target.path),
    }];
    let mut line = |text: String| lines.push(format!("\t\t{text}"));
    let burst = target.burst;
    line(format!("think time: {}ms", burst.map_or(0, |burst| burst.think_time.as_millis())));
    line(format!("burst size: {}", burst.map_or(0, |burst| burst.requests)));
    caching_lines(target).into_iter().for_each(|text| line(text.to_owned()));
    content_lines(target).into_iter().for_each(&mut line);
    if target.parallel_async {
        line("using parallel async I/O".to_owned());
    }
    line(match target.write_percent {
        0 => "performing read test".to_owned(),
        100 => "performing write test".to_owned(),
        writes => format!("performing mix test (read/write ratio: {}/{writes})", 100 - writes.min(100)),
    });
    line(format!("block size: {}", shown(u64::from(target.block_bytes))));
    line(pattern_line(target));
    line(match span.thread_count.and(span.request_count) {
        None => format!("number of outstanding I/O operations per thread: {}", target.outstanding),
        Some(_) => format!("relative IO weight in thread pool: {}", target.weight),
    });
    range_lines(target).into_iter().for_each(&mut line);
    thread_lines(span, target).into_iter().for_each(&mut line);
    pace_lines(target).into_iter().for_each(&mut line);
    let mut text = lines.join("\n") + "\n";
    if !target.distribution.is_empty() {
        text += "\t\tIO Distribution:\n";
        text += &distribution::lines(target.distribution_kind, &target.distribution, "\t\t");
    }
    text
}

fn caching_lines(target: &Target) -> [&'static str; 2] {
    let software = match target.caching.software {
        SoftwareCache::On => "using software cache",
        SoftwareCache::LocalOff => "local software cache disabled, remote cache enabled",
        SoftwareCache::Off => "software cache disabled",
    };
    let hardware = match (target.caching.write_through, target.caching.software) {
        (false, _) => "using hardware write cache, writethrough off",
        (true, SoftwareCache::Off) => "hardware write cache disabled, writethrough on",
        (true, SoftwareCache::On | SoftwareCache::LocalOff) => {
            "hardware and software write caches disabled, writethrough on"
        }
    };
    [software, hardware]
}

fn content_lines(target: &Target) -> Vec<String> {
    match &target.write_content {
        WriteContent::Sequence => Vec::new(),
        WriteContent::Zeros => vec!["zeroing write buffers".to_owned()],
        WriteContent::Source { bytes, file } => vec![
            format!("write buffer size: {}", shown(*bytes)),
            match file {
                Some(file) => format!("write buffer source: '{file}'"),
                None => "write buffer source: random fill".to_owned(),
            },
        ],
    }
}

fn pattern_line(target: &Target) -> String {
    match target.pattern {
        Pattern::Sequential { stride_bytes } => format!("using sequential I/O (stride: {})", shown(stride_bytes)),
        Pattern::Interlocked { stride_bytes } => {
            format!("using interlocked sequential I/O (stride: {})", shown(stride_bytes))
        }
        Pattern::Random { align_bytes, random_percent: 100 } => {
            format!("using random I/O (alignment: {})", shown(align_bytes))
        }
        Pattern::Random { align_bytes, random_percent } => format!(
            "using mixed random/sequential I/O ({random_percent}% random) (alignment/stride: {})",
            shown(align_bytes)
        ),
    }
}

fn range_lines(target: &Target) -> Vec<String> {
    let sizes = [
        ("base file offset", Some(target.base_offset)),
        ("max file size", target.max_file_bytes),
        ("thread stride size", target.thread_stride_bytes),
    ];
    let given =
        sizes.into_iter().filter_map(|(name, bytes)| bytes.filter(|bytes| *bytes > 0).map(|bytes| (name, bytes)));
    let mut lines: Vec<String> = given.map(|(name, bytes)| format!("{name}: {}", shown(bytes))).collect();
    let hints = [
        (target.hints.sequential, "FILE_FLAG_SEQUENTIAL_SCAN"),
        (target.hints.random, "FILE_FLAG_RANDOM_ACCESS"),
        (target.hints.temporary, "FILE_ATTRIBUTE_TEMPORARY"),
    ];
    lines.extend(hints.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| format!("using {name} hint")));
    lines
}

fn thread_lines(span: &TimeSpan, target: &Target) -> Vec<String> {
    let mut lines = Vec::new();
    if span.thread_count.is_none() {
        lines.push(format!("threads per file: {}", target.threads_per_file));
        if target.outstanding > 1 {
            lines.push(match span.completion_routines {
                true => "using completion routines (ReadFileEx/WriteFileEx)".to_owned(),
                false => "using I/O Completion Ports".to_owned(),
            });
        }
    }
    lines
}

fn pace_lines(target: &Target) -> Vec<String> {
    let priority = match target.io_priority {
        1 => "very low",
        2 => "low",
        _ => "normal",
    };
    let mut lines = vec![format!("IO priority: {priority}")];
    match target.throughput {
        Some(Throughput::Iops(rate)) => lines.push(format!("throughput rate-limited to {rate} IOPS")),
        Some(Throughput::BytesPerMillisecond(rate)) => lines.push(format!("throughput rate-limited to {rate} B/ms")),
        None => {}
    }
    lines
}

fn system(machine: &Machine, results: &Results) -> String {
    let started = results.time_spans.first().map(|results| machine::time(results.started)).unwrap_or_default();
    format!(
        "System information:\n\n\tcomputer name: {}\n\tstart time: {started}\n\n\tcpu count:\t\t{}\n\tcore count:\t\t{}\n\
         \tgroup count:\t\t1\n\tnode count:\t\t{}\n\tsocket count:\t\t{}\n\theterogeneous cores:\t{}\n\n\
         \tactive power scheme:\t{}\n",
        machine.computer_name,
        machine.processors.len(),
        machine.core_count(),
        machine.node_count(),
        machine.socket_count(),
        if machine.best_class() > 0 { 'y' } else { 'n' },
        machine.power_scheme,
    )
}

fn time_span_results(span: &TimeSpan, machine: &Machine, results: &TimeSpanResults) -> String {
    let seconds = results.test_time.as_secs_f64();
    let threads = span.thread_count.map_or(results.threads.len(), |threads| threads as usize);
    let mut text = format!("\nactual test time:\t{seconds:.2}s\nthread count:\t\t{threads}\n");
    if let Some(requests) = span.thread_count.and(span.request_count) {
        text += &format!("request count:\t\t{requests}\n");
    }
    text += &cpu_table(machine, &results.cpus);
    for (title, kind) in [("Total", Kind::Total), ("Read", Kind::Read), ("Write", Kind::Write)] {
        text += &format!("\n{title} IO\n");
        text += &section(kind, span, results);
    }
    if span.measure_latency {
        text += &latency_tables(results);
    }
    text += &client(results);
    text
}

/// The columns before CPU are there where the machine has more than one of what they tell.
fn cpu_table(machine: &Machine, usage: &[CpuUsage]) -> String {
    let has_nodes = machine.node_count() > 1;
    let has_sockets = machine.socket_count() > 1;
    let has_threads = machine.core_count() < machine.processors.len();
    let has_classes = machine.best_class() > 0;
    let columns =
        [(has_sockets, "Socket | "), (has_nodes, "Node | "), (has_threads, "Core | "), (has_classes, "Class | ")];
    let heading: String = columns.iter().filter(|(is_shown, _)| *is_shown).map(|(_, name)| *name).collect();
    let border = format!("{}----------------------------------------\n", "-".repeat(heading.len()));
    let mut text = format!("\n{heading}CPU |  Usage |  User  | Kernel |  Idle\n{border}");
    let percentages = |usage: &CpuUsage| {
        let CpuUsage { user, kernel, idle } = usage;
        format!("{:6.2}%| {user:6.2}%| {kernel:6.2}%| {idle:6.2}%\n", user + kernel)
    };
    let mut sum = CpuUsage::default();
    for (index, usage) in usage.iter().enumerate() {
        let processor = machine.processor(index);
        let class = processor.efficiency_class;
        let best = if class == machine.best_class() { 'P' } else { ' ' };
        text += &if has_sockets { format!("{:7}| ", processor.socket) } else { String::new() };
        text += &if has_nodes { format!("{:5}| ", processor.node) } else { String::new() };
        text += &if has_threads { format!("{:5}| ", processor.core) } else { String::new() };
        text += &if has_classes { format!("{class:5}{best}| ") } else { String::new() };
        text += &format!("{:4}| {}", processor.id, percentages(usage));
        sum.user += usage.user;
        sum.kernel += usage.kernel;
        sum.idle += usage.idle;
    }
    let count = usage.len().max(1) as f64;
    let mean = CpuUsage { user: sum.user / count, kernel: sum.kernel / count, idle: sum.idle / count };
    text + &format!("{border}{}avg.| {}", " ".repeat(heading.len()), percentages(&mean))
}

fn section(kind: Kind, span: &TimeSpan, results: &TimeSpanResults) -> String {
    let seconds = results.test_time.as_secs_f64();
    let (has_latency, interval) = (span.measure_latency, span.iops_interval);
    let mut heading = "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s ".to_owned();
    let mut border = "-".repeat(66);
    for (is_shown, name, width) in
        [(has_latency, "|  AvgLat  ", 11), (interval.is_some(), "| IopsStdDev ", 13), (has_latency, "| LatStdDev ", 12)]
    {
        if is_shown {
            heading += name;
            border += &"-".repeat(width);
        }
    }
    border += "------------\n";
    let mut text = format!("{heading}|  file\n{border}");
    for thread in &results.threads {
        for target in &thread.targets {
            let numbers = row(&Sums::of(kind, [target]), seconds, has_latency, interval);
            text += &format!("{:6} | {numbers} | {} ({})\n", thread.id, target.path, shown(target.file_bytes));
        }
    }
    let all = Sums::of(kind, targets(results));
    text + &format!("{border}total:   {}\n", row(&all, seconds, has_latency, interval))
}

fn row(sums: &Sums, seconds: f64, has_latency: bool, interval: Option<Duration>) -> String {
    let mut row = format!(
        "{:15} | {:12} | {:10.2} | {:10.2}",
        sums.bytes,
        sums.requests,
        sums.bytes as f64 / MEBIBYTE / seconds,
        sums.requests as f64 / seconds
    );
    if has_latency {
        row += &format!(" | {:8.3}", sums.mean_ms().unwrap_or(0.0));
    }
    if let Some(interval) = interval {
        row += &format!(" | {:10.2}", sums.iops_deviation(interval).unwrap_or(0.0));
    }
    if has_latency {
        row += &match sums.deviation_ms() {
            Some(deviation) => format!(" |  {deviation:8.3}"),
            None => " |       N/A".to_owned(),
        };
    }
    row
}

/// A table for each target where there are several, and one for all.
fn latency_tables(results: &TimeSpanResults) -> String {
    let mut paths: Vec<&str> = Vec::new();
    for target in targets(results) {
        if !paths.contains(&target.path.as_str()) {
            paths.push(&target.path);
        }
    }
    let mut text = String::new();
    if paths.len() > 1 {
        for path in paths {
            let of_path: Vec<&TargetResults> = targets(results).filter(|target| target.path == path).collect();
            text += &format!("\nLatency distribution: {path}\n{}", latency_table(&of_path));
        }
    }
    let all: Vec<&TargetResults> = targets(results).collect();
    text + &format!("\nTotal latency distribution:\n{}", latency_table(&all))
}

fn latency_table(results: &[&TargetResults]) -> String {
    let [read, write, total] =
        [Kind::Read, Kind::Write, Kind::Total].map(|kind| latency(kind, results.iter().copied()));
    let cell = |latency: &Latency, share| match quantile_ms(latency, share) {
        Some(milliseconds) => format!("{milliseconds:10.3}"),
        None => format!("{:>10}", "N/A"),
    };
    let mut text = format!("  %-ile |  Read (ms) | Write (ms) | Total (ms)\n{}\n", "-".repeat(46));
    for (name, share) in PERCENTILES {
        let total = quantile_ms(&total, share).unwrap_or(0.0);
        text += &format!("{name:>7} | {} | {} | {total:10.3}\n", cell(&read, share), cell(&write, share));
    }
    text
}

/// What DiskSpd has no words for: what the client itself took, and what each channel carried. It comes last, so that nobody stumbles.
fn client(results: &TimeSpanResults) -> String {
    let requests = Sums::of(Kind::Total, targets(results)).requests;
    let each_us = results.own_cpu.as_secs_f64() * 1e6 / requests.max(1) as f64;
    let mut text = format!(
        "\nClient\nown CPU time:\t\t{:.2}s ({each_us:.2}us per I/O)\n\n\
         channel |        received |            sent | from -> to\n{}\n",
        results.own_cpu.as_secs_f64(),
        "-".repeat(79)
    );
    for (index, channel) in results.channels.iter().enumerate() {
        let (received, sent) = (channel.received_bytes, channel.sent_bytes);
        text += &format!("{index:7} | {received:15} | {sent:15} | {} -> {}\n", channel.local, channel.remote);
    }
    for (path, ranges) in distributed(results) {
        text += &format!("\neffective IO distribution: {path}\n");
        for EffectiveRange { io_percent, begin, end } in ranges {
            text += &format!("   {io_percent:5.1}% of IO => bytes [{begin} - {end})\n");
        }
    }
    text
}

fn grand_totals(results: &Results) -> String {
    let measured: Vec<&TimeSpanResults> = results.time_spans.iter().filter(|results| was_measured(results)).collect();
    let time: Duration = measured.iter().map(|results| results.test_time).sum();
    let seconds = time.as_secs_f64();
    let line = |name, kind| {
        let sums = Sums::of(kind, measured.iter().flat_map(|results| targets(results)));
        let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        format!(
            "{name:6} | {:15} | {:12} | {:10.2} | {:10.2}\n",
            sums.bytes,
            sums.requests,
            rate(sums.bytes as f64 / MEBIBYTE),
            rate(sums.requests as f64)
        )
    };
    let border = "-".repeat(79);
    format!(
        "\n\nTotals:\n{STARS}\ntype   |       bytes     |     I/Os     |    MiB/s   |  I/O per s\n{border}\n{}{}{border}\n{}\n\
         total test time:\t{seconds:.2}s\n",
        line("write", Kind::Write),
        line("read", Kind::Read),
        line("total", Kind::Total)
    )
}
