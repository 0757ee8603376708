//! What contradicts itself in a profile, and what has no effect.

use super::{distribution, wrong};
use crate::engine::Failure;
use crate::profile::{Pattern, Profile, SoftwareCache, Target, TimeSpan, WriteContent};

/// Threads of one time span: more than any client machine can use.
const THREADS_MAX: u64 = 4096;
/// Requests in flight of one time span: each takes memory for its block.
const IN_FLIGHT_MAX: u64 = 1 << 20;
/// What goes past the software cache comes in multiples of a sector.
const SECTOR_BYTES: u64 = 512;

/// Checks a profile; gives the warnings.
pub(super) fn check(profile: &Profile) -> Result<Vec<String>, Vec<Failure>> {
    let mut findings = Findings::default();
    if profile.time_spans.is_empty() {
        findings.fail("the profile has no time span", "give it one");
    }
    if profile.verbose_stats {
        findings.warn("-vs is -v: the client has no completion ports whose waits could be counted");
    }
    for span in &profile.time_spans {
        check_span(span, &mut findings);
        for target in &span.targets {
            check_threads(span, target, &mut findings);
            check_pattern(span, target, &mut findings);
            check_range(target, &mut findings);
            if target.path.starts_with('*') && !profile.profile_only {
                let what = format!("nothing stands for the target {} of the profile", target.path);
                findings.fail(what, "name files on the command line, the first for *1, the second for *2 and so on");
            }
        }
    }
    if findings.failures.is_empty() { Ok(findings.warnings) } else { Err(findings.failures) }
}

/// What was found. Targets that are alike have the same, which is told once.
#[derive(Default)]
struct Findings {
    failures: Vec<Failure>,
    warnings: Vec<String>,
}

impl Findings {
    fn fail(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(wrong(what, remedy));
    }

    fn add(&mut self, failure: Failure) {
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    fn warn(&mut self, warning: &str) {
        if !self.warnings.iter().any(|known| known == warning) {
            self.warnings.push(warning.to_owned());
        }
    }
}

fn check_span(span: &TimeSpan, findings: &mut Findings) {
    if span.targets.is_empty() {
        findings.fail("a time span has no targets", "give it one");
    }
    if span.duration.is_zero() {
        findings.fail("a time span measures for 0 seconds", "measure for a second or longer");
    }
    let (threads, in_flight) = match span.thread_count {
        Some(threads) => {
            let threads = u64::from(threads);
            let of_each = span
                .request_count
                .map_or_else(|| span.targets.iter().map(|target| u64::from(target.outstanding)).sum(), u64::from);
            (threads, threads.saturating_mul(of_each))
        }
        None => span.targets.iter().fold((0, 0), |(threads, in_flight), target| {
            let more = u64::from(target.threads_per_file);
            (threads + more, more.saturating_mul(u64::from(target.outstanding)).saturating_add(in_flight))
        }),
    };
    if threads > THREADS_MAX {
        let remedy = format!("use {THREADS_MAX} in all or fewer; -t counts for each target");
        findings.fail(format!("{threads} threads are more than one machine can use"), remedy);
    }
    if in_flight > IN_FLIGHT_MAX {
        let remedy = format!("keep threads times -o at {IN_FLIGHT_MAX} or less");
        findings.fail(format!("{in_flight} requests in flight are more than memory has room for"), remedy);
    }
    if span.request_count.is_some() && span.thread_count.is_none() {
        findings.warn("-O has no effect without -F");
    }
    if span.completion_routines {
        findings.warn("-x has no effect: there is one way in which requests complete here");
    }
}

fn check_threads(span: &TimeSpan, target: &Target, findings: &mut Findings) {
    if span.thread_count.is_some() && target.threads_per_file > 1 {
        findings.fail(
            "-F and -t contradict each other",
            "use -F for threads of all targets together, or -t for threads of each",
        );
    }
    if target.throughput.is_some() && span.completion_routines {
        findings.fail("-g and -x cannot go together", "leave -x out");
    }
    match span.thread_count.zip(span.request_count) {
        Some((threads, _)) => check_pool(threads, target, findings),
        None if !target.thread_targets.is_empty() => {
            findings.fail(
                "ThreadTargets name threads that there are not",
                "give the time span a ThreadCount and a RequestCount",
            );
        }
        None => {}
    }
}

/// With `-F` and `-O` requests choose their target, so what paces or orders one target cannot be kept.
fn check_pool(threads: u32, target: &Target, findings: &mut Findings) {
    let options = [(target.throughput.is_some(), "-g"), (target.burst.is_some(), "-j"), (target.parallel_async, "-p")];
    for (_, option) in options.iter().filter(|(is_used, _)| *is_used) {
        findings.fail(
            format!("{option} and -O cannot go together"),
            format!("leave out {option}, or use -o in place of -O"),
        );
    }
    if target.weight == 0 {
        findings.fail("a target has the Weight 0", "give it 1 or more, or leave the target out");
    }
    if let Some(named) = target.thread_targets.iter().find(|named| named.thread >= threads) {
        let what = format!("a ThreadTarget names thread {} of {threads}", named.thread);
        findings.fail(what, format!("threads have the numbers 0 to {}", threads.saturating_sub(1)));
    }
}

fn check_pattern(span: &TimeSpan, target: &Target, findings: &mut Findings) {
    let has_many_threads = span.thread_count.is_some_and(|threads| threads > 1) || target.threads_per_file > 1;
    let has_stride = target.thread_stride_bytes.is_some();
    match target.pattern {
        Pattern::Random { .. } => {
            if has_stride {
                findings.fail("-T and -r contradict each other", "leave out -T: random offsets have no first");
            }
            if target.parallel_async {
                findings.fail("-p and -r contradict each other", "leave out -p: random offsets have no order");
            }
        }
        Pattern::Interlocked { .. } => {
            if has_stride {
                findings.fail(
                    "-si and -T contradict each other",
                    "use -si for one sequence of all threads, or -T for one of each",
                );
            }
            if target.parallel_async {
                findings.fail("-si and -p contradict each other", "leave one of them out");
            }
            if !has_many_threads {
                findings.warn("-si has no effect with one thread");
            }
        }
        Pattern::Sequential { .. } if has_many_threads && !has_stride => {
            findings.warn("the threads read or write the same blocks, each from the beginning: use -si or -T for a sequence without repetition");
        }
        Pattern::Sequential { .. } if !has_many_threads && has_stride => {
            findings.fail("-T has no effect with one thread", "leave it out, or use -t or -F for more threads");
        }
        Pattern::Sequential { .. } => {}
    }
    if !matches!(target.pattern, Pattern::Random { .. }) {
        if !target.distribution.is_empty() {
            findings.fail("-rd says where random offsets go, and there are none", "add -r or -rs");
        }
        if target.parallel_async && target.outstanding == 1 {
            findings.warn("-p has no effect with -o1");
        }
    }
    for failure in distribution::complaints(target.distribution_kind, &target.distribution, target.block_bytes) {
        findings.add(failure);
    }
}

fn check_range(target: &Target, findings: &mut Findings) {
    let block_bytes = u64::from(target.block_bytes);
    if let WriteContent::Source { bytes, .. } = &target.write_content
        && *bytes < block_bytes
    {
        let what = format!("the write source of {bytes} bytes (-Z) is smaller than a block");
        findings.fail(what, format!("use -Z{block_bytes} or more"));
    }
    let end = match (target.max_file_bytes, target.file_bytes) {
        (Some(most), Some(length)) => Some(most.min(length)),
        (most, length) => most.or(length),
    };
    if let Some(end) = end {
        let room = end.saturating_sub(target.base_offset);
        if room < block_bytes {
            let what =
                format!("{room} bytes from -B to the end of the target have no room for a block of {block_bytes}");
            findings.fail(what, "make -c or -f larger, or -B or -b smaller");
        }
    }
    if target.caching.software == SoftwareCache::Off {
        let align_bytes = match target.pattern {
            Pattern::Sequential { stride_bytes } | Pattern::Interlocked { stride_bytes } => stride_bytes,
            Pattern::Random { align_bytes, .. } => align_bytes,
        };
        let parts = [block_bytes, align_bytes, target.base_offset, target.thread_stride_bytes.unwrap_or(0)];
        if let Some(odd) = parts.iter().find(|bytes| *bytes % SECTOR_BYTES != 0) {
            let what = format!("{odd} bytes are no multiple of {SECTOR_BYTES}, which goes with the cache only");
            findings.fail(what, "make block, alignment and offsets multiples of 512, or leave out -S, -Su and -Sh");
        }
    }
}
