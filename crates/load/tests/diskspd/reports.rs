//! Reports of results made by hand, as whole files: scripts read every column of them.

use std::time::{Duration, SystemTime};

use load::diskspd::machine::{Machine, Processor};
use load::diskspd::{report_text, report_xml};
use load::results::{
    ChannelResults, Counts, CpuUsage, EffectiveRange, Latency, Protected, Results, TargetResults, ThreadResults,
    TimeSpanResults,
};

use crate::profile;

fn machine() -> Machine {
    let processor = |id: u32| Processor { id, core: id, ..Processor::default() };
    Machine {
        computer_name: "client1".into(),
        power_scheme: "performance".into(),
        processors: vec![processor(0), processor(1)],
    }
}

fn latency(microseconds: impl IntoIterator<Item = u64>) -> Latency {
    let mut latency = Latency::default();
    microseconds.into_iter().for_each(|us| latency.record(Duration::from_micros(us)));
    latency
}

fn counts(requests: u64, block_bytes: u64) -> Counts {
    Counts { bytes: requests * block_bytes, requests, ..Counts::default() }
}

fn target(path: &str, file_bytes: u64, read: Counts, write: Counts) -> TargetResults {
    TargetResults { path: path.into(), file_bytes, effective: Vec::new(), read, write }
}

fn time_span(threads: Vec<Vec<TargetResults>>) -> TimeSpanResults {
    let threads = threads.into_iter().zip(0..).map(|(targets, id)| ThreadResults { id, targets }).collect();
    TimeSpanResults {
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_219_199),
        test_time: Duration::from_secs(10),
        cpus: vec![CpuUsage { user: 30.0, kernel: 25.0, idle: 45.0 }, CpuUsage { user: 0.0, kernel: 0.0, idle: 100.0 }],
        own_cpu: Duration::from_millis(1500),
        threads,
        channels: vec![ChannelResults {
            local: "192.0.2.1:50000".into(),
            remote: "192.0.2.2:445".into(),
            received_bytes: 123_456,
            sent_bytes: 7_654_321,
        }],
        protected: Protected::default(),
    }
}

/// Compares with a file beside this one, and says what the report was where they differ.
fn same(report: &str, golden: &str) {
    let difference = report.lines().zip(golden.lines()).enumerate().find(|(_, (is, was))| is != was);
    assert!(report == golden, "first difference: {difference:?}; the report is\n{report}");
}

#[test]
fn a_run_without_measurements_of_latency() {
    let profile = profile(r"-t2 -si -w30 -d10 z:\a.dat", "");
    let of_thread = || vec![target(r"z:\a.dat", 10 << 20, counts(6, 65536), counts(10, 65536))];
    let results = Results { time_spans: vec![time_span(vec![of_thread(), of_thread()])] };
    same(
        &report_text::report(r"multilane diskspd -t2 -si -w30 -d10 z:\a.dat", &profile, &machine(), &results),
        include_str!("plain.txt"),
    );
    same(&report_xml::report(&profile, &machine(), &results), include_str!("plain.xml"));
}

#[test]
fn a_run_with_latencies_and_intervals_on_two_targets() {
    let line = r"-W300 -C5 -r -w100 -b4k -o8 -Sh -d10 -L -D -c2G -Z1G z:\a.dat z:\b.dat";
    let written = |requests: u64, step: u64| Counts {
        latency: Some(latency((1..=requests).map(|index| index * step))),
        per_interval: vec![requests / 4, requests / 4 * 3],
        ..counts(requests, 4096)
    };
    let none = || Counts { latency: Some(Latency::default()), per_interval: vec![0, 0], ..Counts::default() };
    let results = Results {
        time_spans: vec![time_span(vec![
            vec![target(r"z:\a.dat", 2 << 30, none(), written(1000, 10))],
            vec![target(r"z:\b.dat", 2 << 30, none(), written(2000, 20))],
        ])],
    };
    let profile = profile(line, "");
    let text = report_text::report(&format!("multilane diskspd {line}"), &profile, &machine(), &results);
    same(&text, include_str!("latency.txt"));
    same(&report_xml::report(&profile, &machine(), &results), include_str!("latency.xml"));
}

#[test]
fn a_distribution_is_told_once_as_it_lay_over_each_file() {
    let range = |io_percent, begin, end| EffectiveRange { io_percent, begin, end };
    let of = |path| TargetResults {
        effective: vec![range(75.0, 0, 65_536), range(25.0, 65_536, 1 << 20)],
        ..target(path, 1 << 20, counts(6, 65536), counts(0, 65536))
    };
    let results = Results { time_spans: vec![time_span(vec![vec![of("a"), of("b")], vec![of("a"), of("b")]])] };
    let profile = profile("-r -rdabs60/64K:20/960K a b", "");
    let text = report_text::report("", &profile, &machine(), &results);
    let lines = "effective IO distribution: a\n    75.0% of IO => bytes [0 - 65536)\n    25.0% of IO => bytes [65536 - 1048576)\n";
    assert_eq!((text.matches(lines).count(), text.matches("effective IO").count()), (1, 2), "{text}");
    let xml = report_xml::report(&profile, &machine(), &results);
    assert_eq!(xml.matches("<Range IO=\"75.0\" Begin=\"0\" End=\"65536\"/>").count(), 2, "{xml}");
}

#[test]
fn several_time_spans_have_totals_and_one_may_have_no_results() {
    let document = include_str!("two_time_spans.xml");
    let profile = profile(r"-Xp.xml -Rtext z:\a.dat", document);
    let done = time_span(vec![vec![target(r"z:\a.dat", 1 << 30, counts(700, 8192), counts(300, 8192))]]);
    let ended = TimeSpanResults { test_time: Duration::ZERO, threads: Vec::new(), ..done.clone() };
    let results = Results { time_spans: vec![done, ended] };
    let text = report_text::report(r"multilane diskspd -Xp.xml -Rtext z:\a.dat", &profile, &machine(), &results);
    same(&text, include_str!("totals.txt"));
    let xml = report_xml::report(&profile, &machine(), &results);
    assert!(xml.contains("  <TimeSpan>\n    <Error>The run ended before measuring began"), "{xml}");
}

#[test]
fn a_run_that_ends_in_its_first_warm_up_says_so() {
    let profile = profile("-d9 -L x", "");
    let text = report_text::report("", &profile, &machine(), &Results { time_spans: Vec::new() });
    assert!(text.ends_with("*\nThe run ended before measuring began: there are no results.\n"), "{text}");
    let xml = report_xml::report(&profile, &machine(), &Results { time_spans: Vec::new() });
    assert!(xml.contains("    <Error>The run ended before measuring began: there are no results.</Error>\n"), "{xml}");
}

#[test]
fn processors_have_the_columns_that_tell_them_apart() {
    let processor =
        |id: u32| Processor { id, core: id / 2, socket: id / 4, node: id / 4, efficiency_class: u32::from(id >= 2) };
    let machine = Machine { processors: (0..8).map(processor).collect(), ..machine() };
    let mut span = time_span(vec![vec![target("x", 0, counts(1, 1), counts(0, 0))]]);
    span.cpus = vec![CpuUsage { user: 50.0, kernel: 25.0, idle: 25.0 }; 8];
    let results = Results { time_spans: vec![span] };
    let text = report_text::report("", &profile("x", ""), &machine, &results);
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Socket")).take(3).collect();
    assert_eq!(
        table,
        [
            "Socket | Node | Core | Class | CPU |  Usage |  User  | Kernel |  Idle",
            "-----------------------------------------------------------------------",
            "      0|     0|     0|     0 |    0|  75.00%|  50.00%|  25.00%|  25.00%",
        ]
    );
    assert!(text.contains("\n      1|     1|     3|     1P|    7|  75.00%|"), "{text}");
    assert!(text.contains("\theterogeneous cores:\ty\n"), "{text}");
    let xml = report_xml::report(&profile("x", ""), &machine, &results);
    for line in [
        r#"<Group Group="0" MaximumProcessors="8" ActiveProcessors="8" ActiveProcessorMask="0xff"/>"#,
        r#"<Group Group="0" Mask="0xf0"/>"#,
        r#"<Core Group="0" Core="3" Mask="0xc0" EfficiencyClass="1"/>"#,
    ] {
        assert!(xml.contains(line), "{line}: {xml}");
    }
}
