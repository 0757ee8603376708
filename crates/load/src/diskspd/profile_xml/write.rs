//! From a profile to a document, with the elements that DiskSpd writes, in its order.

use std::time::Duration;

use crate::diskspd::xml::Writer;
use crate::profile::{
    DistributionKind, Pattern, PrecreateFiles, Profile, ResultFormat, SoftwareCache, Target, Throughput, TimeSpan,
    WriteContent,
};

/// The document, as `-Rpxml` prints it.
pub fn write(profile: &Profile) -> String {
    let mut xml = Writer::default();
    write_into(profile, &mut xml);
    xml.text()
}

/// Writes the profile as an element.
pub(crate) fn write_into(profile: &Profile, xml: &mut Writer) {
    xml.open("Profile");
    xml.value("Progress", profile.progress);
    xml.value(
        "ResultFormat",
        match profile.result_format {
            ResultFormat::Text => "text",
            ResultFormat::Xml => "xml",
        },
    );
    xml.value("Verbose", profile.verbose);
    if profile.verbose_stats {
        xml.value("VerboseStats", true);
    }
    match profile.precreate_files {
        PrecreateFiles::None => {}
        PrecreateFiles::UseMaxSize => xml.value("PrecreateFiles", "UseMaxSize"),
        PrecreateFiles::OnlyFilesWithConstantSizes => xml.value("PrecreateFiles", "CreateOnlyFilesWithConstantSizes"),
        PrecreateFiles::OnlyFilesWithConstantOrZeroSizes => {
            xml.value("PrecreateFiles", "CreateOnlyFilesWithConstantOrZeroSizes");
        }
    }
    xml.open("TimeSpans");
    profile.time_spans.iter().for_each(|span| time_span(span, xml));
    xml.close("TimeSpans");
    xml.close("Profile");
}

fn time_span(span: &TimeSpan, xml: &mut Writer) {
    xml.open("TimeSpan");
    xml.value("CompletionRoutines", span.completion_routines);
    xml.value("MeasureLatency", span.measure_latency);
    xml.value("CalculateIopsStdDev", span.iops_interval.is_some());
    xml.value("DisableAffinity", span.disable_affinity);
    xml.value("Duration", span.duration.as_secs());
    xml.value("Warmup", span.warmup.as_secs());
    xml.value("Cooldown", span.cooldown.as_secs());
    xml.value("ThreadCount", span.thread_count.unwrap_or(0));
    xml.value("RequestCount", span.request_count.unwrap_or(0));
    xml.value("IoBucketDuration", span.iops_interval.unwrap_or(Duration::from_secs(1)).as_millis());
    xml.value("RandSeed", span.random_seed);
    if span.random_write_data {
        xml.value("RandomWriteData", true);
    }
    xml.open("Targets");
    span.targets.iter().for_each(|one| target(one, xml));
    xml.close("Targets");
    xml.close("TimeSpan");
}

fn target(target: &Target, xml: &mut Writer) {
    xml.open("Target");
    xml.value("Path", &target.path);
    xml.value("BlockSize", target.block_bytes);
    xml.value("BaseFileOffset", target.base_offset);
    xml.value("SequentialScan", target.hints.sequential);
    xml.value("RandomAccess", target.hints.random);
    xml.value("TemporaryFile", target.hints.temporary);
    xml.value("UseLargePages", false);
    match target.caching.software {
        SoftwareCache::On => {}
        SoftwareCache::LocalOff => xml.value("DisableLocalCache", true),
        SoftwareCache::Off => xml.value("DisableOSCache", true),
    }
    if target.caching.write_through {
        xml.value("WriteThrough", true);
    }
    write_content(&target.write_content, xml);
    xml.value("ParallelAsyncIO", target.parallel_async);
    if let Some(burst) = target.burst {
        xml.value("BurstSize", burst.requests);
        xml.value("ThinkTime", burst.think_time.as_millis());
    }
    if let Some(bytes) = target.file_bytes {
        xml.value("FileSize", bytes);
    }
    pattern(target, xml);
    xml.value("ThreadStride", target.thread_stride_bytes.unwrap_or(0));
    xml.value("MaxFileSize", target.max_file_bytes.unwrap_or(0));
    xml.value("RequestCount", target.outstanding);
    xml.value("WriteRatio", target.write_percent);
    match target.throughput {
        None => xml.value("Throughput", 0),
        Some(Throughput::BytesPerMillisecond(rate)) => xml.value("Throughput", rate),
        Some(Throughput::Iops(rate)) => xml.value_with("Throughput", &[("unit", "IOPS".to_owned())], rate),
    }
    xml.value("ThreadsPerFile", target.threads_per_file);
    xml.value("IOPriority", target.io_priority);
    xml.value("Weight", target.weight);
    if !target.thread_targets.is_empty() {
        xml.open("ThreadTargets");
        for named in &target.thread_targets {
            xml.open("ThreadTarget");
            xml.value("Thread", named.thread);
            xml.value("Weight", named.weight);
            xml.close("ThreadTarget");
        }
        xml.close("ThreadTargets");
    }
    xml.close("Target");
}

fn write_content(content: &WriteContent, xml: &mut Writer) {
    xml.open("WriteBufferContent");
    match content {
        WriteContent::Sequence => xml.value("Pattern", "sequential"),
        WriteContent::Zeros => xml.value("Pattern", "zero"),
        WriteContent::Source { bytes, file } => {
            xml.value("Pattern", "random");
            xml.open("RandomDataSource");
            xml.value("SizeInBytes", bytes);
            if let Some(file) = file {
                xml.value("FilePath", file);
            }
            xml.close("RandomDataSource");
        }
    }
    xml.close("WriteBufferContent");
}

fn pattern(target: &Target, xml: &mut Writer) {
    match target.pattern {
        Pattern::Random { align_bytes, random_percent } => {
            xml.value("Random", align_bytes);
            if random_percent < 100 {
                xml.value("RandomRatio", random_percent);
            }
            distribution(target, xml);
        }
        Pattern::Sequential { stride_bytes } | Pattern::Interlocked { stride_bytes } => {
            xml.value("StrideSize", stride_bytes);
            xml.value("InterlockedSequential", matches!(target.pattern, Pattern::Interlocked { .. }));
        }
    }
}

fn distribution(target: &Target, xml: &mut Writer) {
    if target.distribution.is_empty() {
        return;
    }
    let kind = match target.distribution_kind {
        DistributionKind::Percent => "Percent",
        DistributionKind::Absolute => "Absolute",
    };
    xml.open("Distribution");
    xml.open(kind);
    for range in &target.distribution {
        xml.value_with("Range", &[("IO", range.io_percent.to_string())], range.length);
    }
    xml.close(kind);
    xml.close("Distribution");
}
