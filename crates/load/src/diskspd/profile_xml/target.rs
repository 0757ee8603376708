//! From a `<Target>` to a target.

use std::time::Duration;

use super::fields::{self, Fields, at};
use super::read::refused;
use crate::diskspd::refused::Refused;
use crate::diskspd::xml::Element;
use crate::diskspd::{distribution, options};
use crate::engine::Failure;
use crate::profile::{
    Burst, Caching, DistributionKind, DistributionRange, Hints, Pattern, SoftwareCache, Target, ThreadTarget,
    Throughput, WriteContent,
};

const TARGET: [&str; 32] = [
    "Path",
    "BlockSize",
    "StrideSize",
    "InterlockedSequential",
    "BaseFileOffset",
    "SequentialScan",
    "RandomAccess",
    "TemporaryFile",
    "UseLargePages",
    "RequestCount",
    "Random",
    "RandomRatio",
    "Distribution",
    "DisableAllCache",
    "DisableLocalCache",
    "DisableOSCache",
    "WriteThrough",
    "MemoryMappedIo",
    "FlushType",
    "WriteBufferContent",
    "BurstSize",
    "ThinkTime",
    "Throughput",
    "ThreadsPerFile",
    "FileSize",
    "MaxFileSize",
    "WriteRatio",
    "ParallelAsyncIO",
    "ThreadStride",
    "IOPriority",
    "Weight",
    "ThreadTargets",
];

/// Reads a target.
pub(super) fn read(element: &Element) -> Result<Target, Failure> {
    let fields = Fields::of(element, &TARGET)?;
    refuse(&fields)?;
    let path = fields::text(fields.needed("Path")?)?;
    if path.is_empty() {
        return Err(fields.wrong("Path", "<Path> is empty", "name a file"));
    }
    let whole = Target::new(path);
    let bytes = |name: &str| fields.number(name, 0..=u64::MAX);
    let some = |name: &str, default: u32| count(&fields, name, default);
    let block_bytes = fields.number("BlockSize", 1..=u64::from(u32::MAX) - 1)?;
    let block_bytes = block_bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(whole.block_bytes);
    let (distribution_kind, distribution) = distribution(&fields)?;
    Ok(Target {
        block_bytes,
        pattern: pattern(&fields, block_bytes)?,
        distribution,
        distribution_kind,
        base_offset: bytes("BaseFileOffset")?.unwrap_or(0),
        max_file_bytes: bytes("MaxFileSize")?.filter(|bytes| *bytes > 0),
        file_bytes: bytes("FileSize")?,
        thread_stride_bytes: bytes("ThreadStride")?.filter(|bytes| *bytes > 0),
        threads_per_file: some("ThreadsPerFile", whole.threads_per_file)?,
        outstanding: some("RequestCount", whole.outstanding)?,
        parallel_async: fields.boolean("ParallelAsyncIO")?,
        write_percent: fields.number("WriteRatio", 0..=100)?.unwrap_or(0) as u8,
        caching: caching(&fields)?,
        write_content: write_content(&fields)?,
        burst: burst(&fields)?,
        throughput: throughput(&fields)?,
        io_priority: fields.number("IOPriority", 0..=3)?.filter(|priority| *priority > 0).unwrap_or(3) as u8,
        hints: Hints {
            sequential: fields.boolean("SequentialScan")?,
            random: fields.boolean("RandomAccess")?,
            temporary: fields.boolean("TemporaryFile")?,
        },
        weight: fields.number32("Weight")?.unwrap_or(whole.weight),
        thread_targets: thread_targets(&fields)?,
        ..whole
    })
}

fn refuse(fields: &Fields<'_>) -> Result<(), Failure> {
    let asked = [
        ("UseLargePages", Refused::LargePages, fields.boolean("UseLargePages")?),
        ("MemoryMappedIo", Refused::MemoryMapping, fields.boolean("MemoryMappedIo")?),
        ("FlushType", Refused::Flushing, fields.child("FlushType").is_some()),
    ];
    match asked.into_iter().find(|(_, _, is_asked)| *is_asked) {
        Some((name, what, _)) => Err(refused(fields, what, name)),
        None => Ok(()),
    }
}

fn count(fields: &Fields<'_>, name: &str, default: u32) -> Result<u32, Failure> {
    let count = fields.number(name, 1..=u64::from(u32::MAX))?;
    Ok(count.and_then(|count| u32::try_from(count).ok()).unwrap_or(default))
}

fn pattern(fields: &Fields<'_>, block_bytes: u32) -> Result<Pattern, Failure> {
    let size = |name: &str| fields.number(name, 0..=u64::MAX);
    let or_block = |bytes: Option<u64>| bytes.filter(|bytes| *bytes > 0).unwrap_or(u64::from(block_bytes));
    let (stride, random, ratio) = (size("StrideSize")?, size("Random")?, fields.number("RandomRatio", 1..=100)?);
    let is_interlocked = fields.boolean("InterlockedSequential")?;
    let is_random = random.is_some() || ratio.is_some();
    match (stride, is_interlocked) {
        (Some(_), _) if is_random => {
            Err(fields.wrong("StrideSize", "<StrideSize> and <Random> contradict each other", "keep one of them"))
        }
        (None, true) if is_random => Err(fields.wrong(
            "InterlockedSequential",
            "<InterlockedSequential> and <Random> contradict each other",
            "keep one of them",
        )),
        (None, false) if is_random => {
            Ok(Pattern::Random { align_bytes: or_block(random), random_percent: ratio.unwrap_or(100) as u8 })
        }
        (stride, true) => Ok(Pattern::Interlocked { stride_bytes: or_block(stride) }),
        (stride, false) => Ok(Pattern::Sequential { stride_bytes: or_block(stride) }),
    }
}

fn distribution(fields: &Fields<'_>) -> Result<(DistributionKind, Vec<DistributionRange>), Failure> {
    let Some(element) = fields.child("Distribution") else { return Ok((DistributionKind::Percent, Vec::new())) };
    let of_kind = Fields::of(element, &["Percent", "Absolute"])?;
    let (kind, ranges, most) = match (of_kind.child("Percent"), of_kind.child("Absolute")) {
        (Some(ranges), None) => (DistributionKind::Percent, ranges, 100),
        (None, Some(ranges)) => (DistributionKind::Absolute, ranges, u64::MAX),
        (Some(_), Some(_)) | (None, None) => {
            return Err(at(element, "<Distribution> has not one of <Percent> and <Absolute>", "give one"));
        }
    };
    let mut pairs = Vec::new();
    for range in fields::list(ranges, "Range")? {
        fields::attributes(range, &["IO"])?;
        let io_percent = fields::attribute_number(range, "IO", 0..=100)? as u8;
        pairs.push((io_percent, fields::number(range, 0..=most)?));
    }
    let placed = distribution::placed(kind, &pairs);
    Ok((kind, placed.map_err(|why| at(ranges, why.to_string(), "make the ranges shorter"))?))
}

fn caching(fields: &Fields<'_>) -> Result<Caching, Failure> {
    let none = fields.boolean("DisableAllCache")?;
    let (none_local, none_at_all) = (fields.boolean("DisableLocalCache")?, fields.boolean("DisableOSCache")? || none);
    let software = match (none_local, none_at_all) {
        (true, true) => {
            let what = "<DisableLocalCache> contradicts what disables the server's cache, too";
            return Err(fields.wrong("DisableLocalCache", what, "keep one of them"));
        }
        (true, false) => SoftwareCache::LocalOff,
        (false, true) => SoftwareCache::Off,
        (false, false) => SoftwareCache::On,
    };
    Ok(Caching { software, write_through: none || fields.boolean("WriteThrough")? })
}

fn write_content(fields: &Fields<'_>) -> Result<WriteContent, Failure> {
    let Some(element) = fields.child("WriteBufferContent") else { return Ok(WriteContent::Sequence) };
    let content = Fields::of(element, &["Pattern", "RandomDataSource"])?;
    match fields::text(content.needed("Pattern")?)? {
        "sequential" => Ok(WriteContent::Sequence),
        "zero" => Ok(WriteContent::Zeros),
        "random" => {
            let source = Fields::of(content.needed("RandomDataSource")?, &["SizeInBytes", "FilePath"])?;
            let bytes = fields::number(source.needed("SizeInBytes")?, 1..=u64::MAX)?;
            let file = source.text("FilePath")?.filter(|path| !path.is_empty()).map(str::to_owned);
            Ok(WriteContent::Source { bytes, file })
        }
        other => Err(content.wrong("Pattern", format!("<Pattern> is {other:?}"), "write sequential, zero or random")),
    }
}

fn burst(fields: &Fields<'_>) -> Result<Option<Burst>, Failure> {
    let some = |name: &str| Ok::<_, Failure>(fields.number32(name)?.filter(|count| *count > 0));
    let think_time = some("ThinkTime")?.map(|milliseconds| Duration::from_millis(u64::from(milliseconds)));
    options::burst(some("BurstSize")?, think_time)
}

fn throughput(fields: &Fields<'_>) -> Result<Option<Throughput>, Failure> {
    let Some(element) = fields.child("Throughput") else { return Ok(None) };
    fields::attributes(element, &["unit"])?;
    let rate = fields::number(element, 0..=u64::from(u32::MAX))? as u32;
    match (rate, fields::attribute(element, "unit")) {
        (0, _) => Ok(None),
        (rate, Some("IOPS")) => Ok(Some(Throughput::Iops(rate))),
        (rate, Some("BPMS") | None) => Ok(Some(Throughput::BytesPerMillisecond(rate))),
        (_, Some(other)) => Err(at(element, format!("<Throughput> is in {other:?}"), "write IOPS, or leave unit out")),
    }
}

fn thread_targets(fields: &Fields<'_>) -> Result<Vec<ThreadTarget>, Failure> {
    let Some(element) = fields.child("ThreadTargets") else { return Ok(Vec::new()) };
    let weight = fields.number32("Weight")?.unwrap_or(1);
    let each = fields::list(element, "ThreadTarget")?.iter().map(|element| {
        let of_thread = Fields::of(element, &["Thread", "Weight"])?;
        let thread = fields::number(of_thread.needed("Thread")?, 0..=u64::from(u32::MAX))? as u32;
        // Without a weight of its own it has the target's.
        let own = of_thread.number32("Weight")?.filter(|weight| *weight > 0);
        Ok(ThreadTarget { thread, weight: own.unwrap_or(weight) })
    });
    each.collect()
}
