//! Profiles in XML.

use std::time::Duration;

use load::diskspd::profile_xml::{read, write};
use load::profile::{
    Burst, Caching, DistributionKind, Hints, Pattern, PrecreateFiles, Profile, ResultFormat, SoftwareCache, Target,
    ThreadTarget, Throughput, TimeSpan, WriteContent,
};
use proptest::prelude::*;

use crate::{asked, profile};

/// A profile with one target that holds these elements.
fn with_target(elements: &str) -> String {
    format!(
        "<Profile>\n<TimeSpans>\n<TimeSpan>\n<Targets>\n<Target>\n<Path>x</Path>{elements}\n</Target>\n</Targets>\n</TimeSpan>\n\
         </TimeSpans>\n</Profile>"
    )
}

fn target(elements: &str) -> Target {
    read(with_target(elements).as_bytes()).unwrap().time_spans.remove(0).targets.remove(0)
}

#[test]
fn a_profile_with_a_path_alone_has_the_defaults() {
    let read = read(with_target("").as_bytes()).unwrap();
    let span = TimeSpan { targets: vec![Target::new("x")], ..TimeSpan::default() };
    assert_eq!(read, Profile { time_spans: vec![span], ..Profile::default() });
}

#[test]
fn what_other_versions_write_is_read() {
    let document = include_str!("two_time_spans.xml");
    let profile = read(document.as_bytes()).unwrap();
    let [first, second] = &profile.time_spans[..] else { panic!("{profile:?}") };
    assert_eq!((profile.result_format, profile.precreate_files), (ResultFormat::Xml, PrecreateFiles::UseMaxSize));
    assert!(profile.verbose && first.measure_latency && !second.measure_latency);
    assert_eq!((first.duration, second.warmup), (Duration::from_secs(20), Duration::ZERO));
    assert_eq!((first.iops_interval, second.iops_interval), (Some(Duration::from_millis(500)), None));
    assert_eq!((second.thread_count, second.request_count), (Some(4), Some(16)));
    let [a, b] = &second.targets[..] else { panic!("{second:?}") };
    assert_eq!((a.weight, b.weight), (3, 1));
    assert_eq!(b.thread_targets, [ThreadTarget { thread: 0, weight: 5 }, ThreadTarget { thread: 3, weight: 1 }]);
    let one = &first.targets[0];
    assert_eq!(one.path, "*1");
    assert_eq!(one.pattern, Pattern::Random { align_bytes: 8192, random_percent: 70 });
    assert_eq!((one.distribution_kind, one.distribution.len()), (DistributionKind::Absolute, 3));
    assert_eq!(one.throughput, Some(Throughput::Iops(1000)));
    assert_eq!(one.caching, Caching { software: SoftwareCache::Off, write_through: true });
    assert_eq!(one.write_content, WriteContent::Source { bytes: 1 << 20, file: Some("C:\\a & b.bin".into()) });
    assert_eq!(one.burst, Some(Burst { requests: 10, think_time: Duration::from_millis(5) }));
    assert_eq!(one.hints, Hints { sequential: false, random: true, temporary: false });
}

#[test]
fn wrong_documents_are_refused_with_the_line() {
    for (elements, line, words) in [
        ("\n<Foo/>", 7, "<Foo> is no part of <Target>"),
        ("\n\n<BlockSize>4K</BlockSize>", 8, "\"4K\""),
        ("<BlockSize>0</BlockSize>", 6, "\"0\""),
        ("<BlockSize>4096</BlockSize>\n<BlockSize>1</BlockSize>", 7, "second time"),
        ("<WriteRatio>101</WriteRatio>", 6, "\"101\""),
        ("<WriteRatio>-1</WriteRatio>", 6, "\"-1\""),
        ("<RequestCount>0</RequestCount>", 6, "\"0\""),
        ("<FileSize>18446744073709551616</FileSize>", 6, "FileSize"),
        ("<ParallelAsyncIO>yes</ParallelAsyncIO>", 6, "\"yes\""),
        ("<Random>4096</Random>\n<StrideSize>1</StrideSize>", 7, "contradict"),
        ("<Random>4096</Random>\n<InterlockedSequential>true</InterlockedSequential>", 7, "contradict"),
        ("<RandomRatio>0</RandomRatio>", 6, "RandomRatio"),
        ("\n<UseLargePages>true</UseLargePages>", 7, "<UseLargePages>"),
        ("\n<MemoryMappedIo>true</MemoryMappedIo>", 7, "<MemoryMappedIo>"),
        ("\n<FlushType>ViewOfFile</FlushType>", 7, "<FlushType>"),
        ("<DisableOSCache>true</DisableOSCache>\n<DisableLocalCache>true</DisableLocalCache>", 7, "contradict"),
        ("<WriteBufferContent>\n<Pattern>x</Pattern></WriteBufferContent>", 7, "\"x\""),
        ("<WriteBufferContent>\n</WriteBufferContent>", 6, "<Pattern>"),
        ("<WriteBufferContent><Pattern>random</Pattern></WriteBufferContent>", 6, "<RandomDataSource>"),
        ("<Throughput unit=\"x\">5</Throughput>", 6, "\"x\""),
        ("<Throughput per=\"x\">5</Throughput>", 6, "per"),
        ("<Distribution/>", 6, "<Distribution>"),
        ("<Distribution><Percent><Range>5</Range></Percent></Distribution>", 6, "IO of <Range>"),
        ("<ThreadTargets><Thread/></ThreadTargets>", 6, "<Thread>"),
        ("<IOPriority>4</IOPriority>", 6, "IOPriority"),
        ("<Path>y</Path>", 6, "second time"),
        ("<Weight><Weight/></Weight>", 6, "<Weight>"),
    ] {
        let failure = read(with_target(elements).as_bytes()).expect_err(elements);
        assert!(failure.what.starts_with(&format!("line {line}: ")), "{elements}: {}", failure.what);
        assert!(failure.what.contains(words) && !failure.remedy.is_empty(), "{elements}: {failure:?}");
    }
    for document in [
        "<Results/>",
        "<Profile/>",
        "<Profile><TimeSpans><TimeSpan/></TimeSpans></Profile>",
        "<Profile><TimeSpans/><ETW><DiskIO>true</DiskIO></ETW></Profile>",
        "<Profile><TimeSpans/><ExperimentFlags>2</ExperimentFlags></Profile>",
        "<Profile><TimeSpans/><ResultFormat>json</ResultFormat></Profile>",
        "<Profile><TimeSpans><TimeSpan><Targets/><Affinity><AffinityAssignment>1</AffinityAssignment></Affinity></TimeSpan></TimeSpans></Profile>",
    ] {
        assert!(read(document.as_bytes()).is_err(), "{document}");
    }
}

#[test]
fn what_is_off_may_be_said() {
    let none = "<UseLargePages>false</UseLargePages><MemoryMappedIo>false</MemoryMappedIo><MaxFileSize>0</MaxFileSize>\
                <ThreadStride>0</ThreadStride><Throughput>0</Throughput><StrideSize>0</StrideSize><BurstSize>0</BurstSize>";
    assert_eq!(target(none), Target::new("x"));
    let tracing = "<Profile><TimeSpans/><ETW><DiskIO>false</DiskIO></ETW></Profile>";
    assert!(read(tracing.as_bytes()).unwrap().time_spans.is_empty());
}

#[test]
fn truncated_documents_are_refused() {
    let document = include_str!("two_time_spans.xml").trim_end();
    for end in (0..document.len()).filter(|end| document.is_char_boundary(*end)) {
        assert!(read(&document.as_bytes()[..end]).is_err(), "{end}");
    }
}

#[test]
fn few_options_go_with_a_profile() {
    let document = include_str!("two_time_spans.xml");
    let changed = profile(r"-Xp.xml -d7 -W8 -C9 -z11 -Rtext -vs z:\a", document);
    assert_eq!(changed.result_format, ResultFormat::Text);
    assert!(changed.verbose && changed.verbose_stats);
    for span in &changed.time_spans {
        let seconds = [span.duration, span.warmup, span.cooldown].map(|time| time.as_secs());
        assert_eq!((seconds, span.random_seed), ([7, 8, 9], 11));
    }
    assert_eq!(changed.time_spans[0].targets[0].path, r"z:\a");
    assert_eq!(changed.time_spans[1].targets[0].path, r"\\nas\media\b.dat");
    for line in ["-Xp.xml -b4K z:\\a", "-t8 -Xp.xml z:\\a", "-Xp.xml -Xq.xml z:\\a", "-X z:\\a", "-Xp.xml -r z:\\a"] {
        assert!(asked(line, document).is_err(), "{line}");
    }
}

#[test]
fn every_template_needs_a_target_and_every_target_a_template() {
    let document = include_str!("two_time_spans.xml");
    for line in ["-Xp.xml", "-Xp.xml z:\\a z:\\b"] {
        assert!(asked(line, document).is_err(), "{line}");
    }
    assert_eq!(profile("-Xp.xml -Rpxml", document).time_spans[0].targets[0].path, "*1");
    for path in ["*", "*0", "*x", "*-1", "*99999999999999999999"] {
        let document = document.replace("<Path>*1</Path>", &format!("<Path>{path}</Path>"));
        assert!(asked("-Xp.xml z:\\a", &document).is_err(), "{path}");
        assert!(asked("-Xp.xml -Rp", &document).is_err() || path.len() > 10, "{path}");
    }
    let second = document.replace("<Path>*1</Path>", "<Path>*2</Path>");
    assert!(asked("-Xp.xml z:\\a", &second).is_err());
    assert!(asked("-Xp.xml z:\\a z:\\b", &second).is_err(), "nothing uses *1");
}

#[test]
fn profiles_are_checked_as_command_lines_are() {
    let document = with_target("<ThreadStride>4096</ThreadStride><Random>4096</Random>");
    assert!(asked("-Xp.xml", &document).is_err());
    assert!(asked("-Xp.xml", "<Profile><TimeSpans/></Profile>").is_err());
    assert!(asked("-Xp.xml", &with_target("<BlockSize>1000</BlockSize><DisableOSCache>1</DisableOSCache>")).is_err());
}

fn targets() -> impl Strategy<Value = Target> {
    let sizes = || prop_oneof![Just(0_u64), 1..=u64::MAX];
    let patterns = (1..=u64::MAX, 1_u8..=100).prop_flat_map(|(bytes, percent)| {
        prop_oneof![
            Just(Pattern::Sequential { stride_bytes: bytes }),
            Just(Pattern::Interlocked { stride_bytes: bytes }),
            Just(Pattern::Random { align_bytes: bytes, random_percent: percent }),
        ]
    });
    let software = prop_oneof![Just(SoftwareCache::On), Just(SoftwareCache::LocalOff), Just(SoftwareCache::Off)];
    let content = prop_oneof![
        Just(WriteContent::Sequence),
        Just(WriteContent::Zeros),
        (1..=u64::MAX, proptest::option::of("[a-z<&>\"' ]{0,8}x"))
            .prop_map(|(bytes, file)| WriteContent::Source { bytes, file: file.map(|file| file.trim().to_owned()) }),
    ];
    let paces =
        (proptest::option::of((1_u32.., 1_u64..=u64::from(u32::MAX))), proptest::option::of((any::<bool>(), 1_u32..)));
    let flags = any::<[bool; 5]>();
    let counts = (1_u32..u32::MAX, 1_u32.., 1_u32.., 0_u8..=100, 1_u8..=3);
    (patterns, software, content, paces, flags, counts, [sizes(), sizes(), sizes()], proptest::option::of(sizes()))
        .prop_map(
            |(pattern, software, write_content, (burst, rate), flags, counts, [base, most, stride], file_bytes)| {
                Target {
                    pattern,
                    caching: Caching { software, write_through: flags[0] },
                    write_content,
                    burst: burst.map(|(requests, pause)| Burst { requests, think_time: Duration::from_millis(pause) }),
                    throughput: rate.map(|(is_iops, rate)| match is_iops {
                        true => Throughput::Iops(rate),
                        false => Throughput::BytesPerMillisecond(rate),
                    }),
                    parallel_async: flags[1],
                    hints: Hints { sequential: flags[2], random: flags[3], temporary: flags[4] },
                    block_bytes: counts.0,
                    threads_per_file: counts.1,
                    outstanding: counts.2,
                    write_percent: counts.3,
                    io_priority: counts.4,
                    base_offset: base,
                    max_file_bytes: Some(most).filter(|bytes| *bytes > 0),
                    thread_stride_bytes: Some(stride).filter(|bytes| *bytes > 0),
                    file_bytes,
                    ..Target::new("\\\\nas\\a & b\\<x>.dat")
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(targets in proptest::collection::vec(targets(), 1..4), seed: u32, pool: Option<(u16, u16)>) {
        let span = TimeSpan {
            targets,
            random_seed: u64::from(seed),
            thread_count: pool.map(|(threads, _)| u32::from(threads) + 1),
            request_count: pool.map(|(_, requests)| u32::from(requests) + 1),
            random_write_data: seed % 2 == 0,
            iops_interval: (seed % 3 == 0).then(|| Duration::from_millis(u64::from(seed) + 1)).filter(|_| seed < u32::MAX),
            ..TimeSpan::default()
        };
        let profile = Profile { time_spans: vec![span.clone(), span], verbose_stats: seed % 5 == 0, ..Profile::default() };
        prop_assert_eq!(read(write(&profile).as_bytes()), Ok(profile));
    }
}

#[test]
fn command_lines_survive_as_profiles() {
    for line in [
        r"-W300 -C5 -r -w100 -b4k -t8 -o8 -Sh -d60 -L -c2G -Z1G z:\write0.dat z:\write1.dat",
        r"-rs60 -r512 -rdpct90/10:0/10:5/20 z:\a",
        r"-r -rdabs50/1M:30/1G z:\a",
        r"-F4 -O8 -D250 -n -x z:\a z:\b",
    ] {
        let before = profile(line, "");
        assert_eq!(read(write(&before).as_bytes()).unwrap(), before, "{line}");
    }
}
