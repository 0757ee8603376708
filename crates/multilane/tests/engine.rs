//! The engine of the load tool against the built server on a loopback port.

mod served;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::{OpenOptions, Session, Settings, Target as Server, Tcp};
use load::engine::{self, Failure, Mount, Phase, Place, Places, Stop, Watch};
use load::profile::{Pattern, Profile, Target, TimeSpan, WriteContent};
use load::results::{Counts, Results, TimeSpanResults};
use parking_lot::Mutex;

use crate::served::Served;

const BLOCK: u32 = 4096;
const MIB: u64 = 1 << 20;

struct Share(Arc<Mount>);

impl Share {
    fn of(served: &Served, share: &str) -> Self {
        let (user, password) = ("local".to_owned(), served.password.clone());
        let server = Server { host: "127.0.0.1".to_owned(), port: served.port, user, password };
        Share(Arc::new(Mount { server, settings: Settings::default(), share: share.to_owned() }))
    }

    fn with_ram() -> (Served, Self) {
        let served = Served::new();
        let create = ["share", "create", "ram", "--ram", "64M"];
        assert!(served.program(&create).stdout(Stdio::null()).status().unwrap().success());
        let share = Share::of(&served, "ram");
        (served, share)
    }

    /// A file of the share as another client sees it.
    fn content(&self, name: &str) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let session = Session::connect(&self.0.server, Settings::default(), Arc::new(Tcp)).await.unwrap();
            let file = session.tree(&self.0.share).await.unwrap().open(name, OpenOptions::default()).await.unwrap();
            let mut content = vec![0; file.facts().end_of_file as usize];
            let take = |at: u64, data: &client::Data| -> Result<(), client::Error> {
                content[at as usize..at as usize + data.len()].copy_from_slice(data);
                Ok(())
            };
            file.read_range(0, file.facts().end_of_file, take).await.unwrap();
            session.close().await.unwrap();
            content
        })
    }
}

impl Places for Share {
    fn place(&self, path: &str) -> Result<Place, Failure> {
        match path.strip_prefix(r"z:\") {
            Some(name) => Ok(Place { mount: Arc::clone(&self.0), name: name.to_owned() }),
            None => Err(Failure { what: format!("{path} is on no share"), remedy: "map its drive".to_owned() }),
        }
    }
}

/// What was told, and who is to be told of it.
#[derive(Default)]
struct Told {
    phases: Mutex<Vec<Phase>>,
    stop_when_measuring: Option<Stop>,
}

impl Watch for Told {
    fn phase(&self, _time_span: usize, phase: Phase) {
        self.phases.lock().push(phase);
        if let (Phase::Measuring, Some(stop)) = (phase, &self.stop_when_measuring) {
            stop.now();
        }
    }

    fn note(&self, _line: &str) {}
}

fn span(targets: Vec<Target>) -> TimeSpan {
    let (duration, warmup) = (Duration::from_millis(300), Duration::from_millis(50));
    TimeSpan { duration, warmup, measure_latency: true, targets, ..TimeSpan::default() }
}

fn target(path: &str) -> Target {
    let pattern = Pattern::Random { align_bytes: BLOCK.into(), random_percent: 100 };
    Target { pattern, block_bytes: BLOCK, file_bytes: Some(MIB), ..Target::new(path) }
}

fn run(share: &Share, spans: Vec<TimeSpan>) -> Result<Results, Failure> {
    let profile = Profile { time_spans: spans, ..Profile::default() };
    engine::run(&profile, share, &Told::default(), &Stop::default())
}

fn totals(results: &TimeSpanResults) -> (Counts, Counts) {
    let (mut read, mut write) = (Counts::default(), Counts::default());
    for target in results.threads.iter().flat_map(|thread| &thread.targets) {
        read.merge(&target.read);
        write.merge(&target.write);
    }
    (read, write)
}

fn is_consistent(counts: &Counts, block: u32) -> bool {
    let latency = counts.latency.as_ref().map_or(0, |latency| latency.nanoseconds.len());
    counts.bytes == counts.requests * u64::from(block) && latency == counts.requests
}

#[test]
fn reads_and_writes_are_counted_by_thread_target_and_kind() {
    let (_served, share) = Share::with_ram();
    let targets = [r"z:\one", r"z:\two"].map(|path| Target { threads_per_file: 2, write_percent: 30, ..target(path) });
    let iops_interval = Some(Duration::from_millis(100));
    let results = run(&share, vec![TimeSpan { iops_interval, ..span(targets.to_vec()) }]).unwrap();
    let results = &results.time_spans[0];
    let ids: Vec<_> = results.threads.iter().map(|thread| (thread.id, &thread.targets[0].path[..])).collect();
    assert_eq!(ids, [(0, r"z:\one"), (1, r"z:\one"), (2, r"z:\two"), (3, r"z:\two")]);
    assert!(results.threads.iter().all(|thread| thread.targets.len() == 1 && thread.targets[0].file_bytes == MIB));
    let (read, write) = totals(results);
    assert!(is_consistent(&read, BLOCK) && is_consistent(&write, BLOCK));
    assert!(read.requests > write.requests && write.requests > 0, "{} reads, {} writes", read.requests, write.requests);
    assert_eq!((read.per_interval.len(), read.per_interval.iter().sum::<u64>()), (3, read.requests));
    assert_eq!(results.test_time, Duration::from_millis(300));
    let carried: u64 = results.channels.iter().map(|channel| channel.received_bytes).sum();
    assert!(carried > read.bytes / 2, "{carried} bytes arrived for {} of reads", read.bytes);
    assert!(!results.cpus.is_empty() && results.own_cpu > Duration::ZERO);
}

#[test]
fn writes_reach_the_file() {
    let (_served, share) = Share::with_ram();
    let pattern = Pattern::Sequential { stride_bytes: BLOCK.into() };
    let write = |content| Target {
        write_percent: 100,
        write_content: content,
        file_bytes: Some(64 << 10),
        pattern,
        ..target(r"z:\written")
    };
    let zeros = run(&share, vec![span(vec![write(WriteContent::Zeros)])]).unwrap();
    assert!(totals(&zeros.time_spans[0]).1.requests >= 16, "the file was gone through");
    assert!(share.content("written") == vec![0; 64 << 10]);
    run(&share, vec![span(vec![write(WriteContent::Sequence)])]).unwrap();
    let counting: Vec<u8> = (0..64 << 10).map(|at: u32| at as u8).collect();
    assert!(share.content("written") == counting);
}

#[test]
fn files_are_made_with_data_in_all_of_their_blocks() {
    let (_served, share) = Share::with_ram();
    let file_bytes = Some(3 * MIB + 5);
    run(&share, vec![span(vec![Target { file_bytes, ..target(r"z:\made") }])]).unwrap();
    let content = share.content("made");
    assert_eq!(content.len() as u64, 3 * MIB + 5);
    let blocks = content.chunks(4096);
    assert!(blocks.filter(|block| block.len() == 4096).all(|block| block.iter().any(|byte| *byte != 0)));
}

#[test]
fn a_file_of_another_length_is_made_anew() {
    let (_served, share) = Share::with_ram();
    let pattern = Pattern::Sequential { stride_bytes: BLOCK.into() };
    let of = |file_bytes| Target { file_bytes: Some(file_bytes), ..target(r"z:\made") };
    let zeros = Target { pattern, write_percent: 100, write_content: WriteContent::Zeros, ..of(64 << 10) };
    for (bytes, is_new) in [(48 << 10, true), (128 << 10, true), (64 << 10, false)] {
        run(&share, vec![span(vec![zeros.clone()])]).unwrap();
        run(&share, vec![span(vec![of(bytes)])]).unwrap();
        let content = share.content("made");
        assert_eq!(content.len() as u64, bytes);
        let has_data = content.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0));
        assert_eq!(has_data, is_new, "{bytes} bytes");
    }
}

#[test]
fn threads_that_share_all_targets_count_each_apart() {
    let (_served, share) = Share::with_ram();
    let targets = vec![Target { weight: 3, ..target(r"z:\one") }, target(r"z:\two")];
    let shared = TimeSpan { thread_count: Some(2), request_count: Some(4), ..span(targets) };
    let results = run(&share, vec![shared]).unwrap();
    let threads = &results.time_spans[0].threads;
    assert_eq!(threads.len(), 2);
    for thread in threads {
        let [one, two] = &thread.targets[..] else { panic!("two targets") };
        assert!(one.read.requests > two.read.requests && two.read.requests > 0, "three of four go to the first");
    }
}

#[test]
fn a_rate_is_kept() {
    let (_served, share) = Share::with_ram();
    let throughput = Some(load::profile::Throughput::Iops(200));
    let results = run(&share, vec![span(vec![Target { throughput, ..target(r"z:\slow") }])]).unwrap();
    let read = totals(&results.time_spans[0]).0.requests;
    // Those of the warm-up may be late.
    assert!((1..=71).contains(&read), "{read} reads in 0.35 s at 200 a second");
}

#[test]
fn time_spans_follow_each_other_in_their_phases() {
    let (_served, share) = Share::with_ram();
    let cooldown = Duration::from_millis(20);
    let spans = vec![span(vec![target(r"z:\x")]), TimeSpan { cooldown, ..span(vec![target(r"z:\x")]) }];
    let told = Told::default();
    let profile = Profile { time_spans: spans, ..Profile::default() };
    let results = engine::run(&profile, &share, &told, &Stop::default()).unwrap();
    assert_eq!(results.time_spans.len(), 2);
    let one = [Phase::Preparing, Phase::WarmingUp, Phase::Measuring];
    assert_eq!(*told.phases.lock(), [&one[..], &one[..], &[Phase::CoolingDown]].concat());
}

#[test]
fn a_run_that_is_stopped_gives_what_was_measured_by_then() {
    let (_served, share) = Share::with_ram();
    let stop = Stop::default();
    let told = Told { stop_when_measuring: Some(stop.clone()), ..Told::default() };
    let hour = TimeSpan { duration: Duration::from_secs(3600), ..span(vec![target(r"z:\x")]) };
    let profile = Profile { time_spans: vec![hour.clone(), hour], ..Profile::default() };
    let results = engine::run(&profile, &share, &told, &stop).unwrap();
    assert_eq!(results.time_spans.len(), 1);
    assert!(results.time_spans[0].test_time < Duration::from_secs(60));
}

#[test]
fn bad_targets_are_told_with_what_to_change() {
    let (served, share) = Share::with_ram();
    let failure = |share: &Share, target: Target| run(share, vec![span(vec![target])]).unwrap_err();
    let missing = failure(&share, Target { file_bytes: None, ..target(r"z:\missing") });
    assert!(missing.what.contains("no such file") && missing.remedy.contains("-c<size>"), "{missing:?}");
    let short = failure(&share, Target { file_bytes: Some(100), ..target(r"z:\short") });
    assert!(short.what.contains("less than a block") && short.remedy.contains("-b<size>"), "{short:?}");
    let full = failure(&share, Target { file_bytes: Some(1 << 30), ..target(r"z:\full") });
    assert!(full.remedy.contains("make room"), "{full:?}");
    let nowhere = failure(&share, target(r"y:\x"));
    assert!(nowhere.what.contains("on no share"), "{nowhere:?}");
    let no_share = failure(&Share::of(&served, "nothing"), target(r"z:\x"));
    assert!(no_share.remedy.contains("name of the share"), "{no_share:?}");
    let mut stranger = Mount::clone(&share.0);
    stranger.server.password = "wrong".to_owned();
    let stranger = failure(&Share(Arc::new(stranger)), target(r"z:\x"));
    assert!(stranger.remedy.contains("password"), "{stranger:?}");
    let read_only = served.folder.path().join("fixed");
    std::fs::create_dir(&read_only).unwrap();
    share_read_only(&served, &read_only);
    let refused = failure(&Share::of(&served, "fixed"), target(r"z:\x"));
    assert!(!refused.remedy.is_empty(), "{refused:?}");
}

fn share_read_only(served: &Served, folder: &Path) {
    let create = ["share", "create", "fixed", "--read-only", "--path", folder.to_str().unwrap()];
    assert!(served.program(&create).stdout(Stdio::null()).status().unwrap().success());
}

/// How a run of an hour ends whose server gets a signal in the middle.
fn signalled(signal: &str, session_timeout: Duration) -> Failure {
    let (served, share) = Share::with_ram();
    let mut mount = Mount::clone(&share.0);
    mount.settings.session_timeout = session_timeout;
    let share = Share(Arc::new(mount));
    let hour = TimeSpan { duration: Duration::from_secs(3600), ..span(vec![target(r"z:\x")]) };
    let run = thread::spawn(move || run(&share, vec![hour]));
    let is_busy = |served: &Served| {
        let listed = served.program(&["open-files", "--json"]).output().unwrap().stdout;
        String::from_utf8(listed).unwrap().contains('x')
    };
    while !is_busy(&served) {}
    assert!(Command::new("kill").args([signal, &served.child.id().to_string()]).status().unwrap().success());
    run.join().unwrap().unwrap_err()
}

#[test]
fn a_server_that_stops_in_the_middle_ends_the_run() {
    let began = Instant::now();
    let failure = signalled("-KILL", Duration::from_secs(2));
    assert!(!failure.what.is_empty() && !failure.remedy.is_empty(), "{failure:?}");
    assert!(began.elapsed() < Duration::from_secs(120), "it ends in bounded time");
}

#[test]
fn a_server_that_falls_silent_in_the_middle_ends_the_run() {
    // The client itself would wait for an answer as long as SessionTimeout, and then look for the server as long again.
    let failure = signalled("-STOP", Duration::from_secs(30));
    assert!(failure.what.contains("has not said anything for 10 s"), "{failure:?}");
}
