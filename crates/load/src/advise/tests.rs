use std::time::Duration;

use super::*;

const WORK: Workload = Workload { threads: 8, files: 10, block_bytes: 65_536, write_percent: 0, outstanding: 8 };

/// A machine with a card of 10 Gbit/s with several receive queues, near the server.
fn around() -> Surroundings {
    Surroundings {
        cores: 16,
        clients: 1,
        multichannel: Offer::On,
        channels: 4,
        pairs: 1,
        link_bits_per_second: 100_000_000_000,
        latency: Duration::from_micros(200),
        is_azure: false,
        provisioned_gib: None,
        measured: None,
        assumed: Vec::new(),
    }
}

fn four_links() -> Surroundings {
    Surroundings { pairs: 4, link_bits_per_second: 1_000_000_000, ..around() }
}

fn measured(ratio: f64, ratio_low: f64, ratio_high: f64) -> Surroundings {
    let measured = Measured {
        one_channel_iops: 10_000.0,
        several_channels_iops: 10_000.0 * ratio,
        channels: 4,
        ratio,
        ratio_low,
        ratio_high,
        rounds: 5,
        run: Duration::from_secs(1),
    };
    Surroundings { measured: Some(measured), ..around() }
}

fn of_channels(workload: &Workload, around: &Surroundings) -> (Verdict, Gain) {
    let advice = advise(workload, around);
    let found = advice.iter().find_map(|advice| match advice.subject {
        Subject::Multichannel(verdict) => Some((verdict, advice.gain)),
        _ => None,
    });
    found.unwrap()
}

fn find(workload: &Workload, around: &Surroundings, subject: Subject) -> Option<Advice> {
    advise(workload, around).into_iter().find(|advice| advice.subject == subject)
}

#[test]
fn whether_multichannel_should_be_on_follows_from_workload_and_ways() {
    let lone = Workload { threads: 1, files: 1, outstanding: 1, ..WORK };
    let small_on_one = Workload { files: 1, block_bytes: 4096, ..WORK };
    let one_way = Surroundings { channels: 1, ..around() };
    let far = Surroundings { latency: Duration::from_millis(20), ..around() };
    for (name, workload, around, verdict, low, high) in [
        ("four links, large", WORK, four_links(), Verdict::On, 3.0, 4.0),
        ("one card with queues", WORK, around(), Verdict::On, 2.0, 4.0),
        ("small to one file", small_on_one, around(), Verdict::On, 0.9, 4.0),
        ("one request at a time", lone, around(), Verdict::Either, 0.9, 1.0),
        ("one link", WORK, one_way, Verdict::Either, 1.0, 1.0),
        ("far away", WORK, far, Verdict::Either, 1.0, 1.0),
        ("faster in every round", WORK, measured(3.1, 2.9, 3.3), Verdict::On, 2.9, 3.3),
        ("slower in every round", WORK, measured(0.9, 0.88, 0.94), Verdict::Off, 0.88, 0.94),
        ("now faster, now slower", WORK, measured(1.1, 0.9, 1.2), Verdict::Either, 0.9, 1.2),
    ] {
        let (found, gain) = of_channels(&workload, &around);
        assert_eq!(found, verdict, "{name}: {gain:?}");
        assert!(gain.low >= low - 0.01 && gain.high <= high + 0.01, "{name}: {gain:?}");
        assert!(gain.low <= gain.high, "{name}: {gain:?}");
    }
}

#[test]
fn four_equal_links_are_worth_nearly_four() {
    let (_, gain) = of_channels(&Workload { block_bytes: 1 << 20, ..WORK }, &four_links());
    assert!(gain.high > 3.5, "{gain:?}");
}

#[test]
fn what_is_off_at_the_server_is_to_be_switched_on_there() {
    let off = Surroundings { multichannel: Offer::OffAtServer, ..four_links() };
    let advice = advise(&WORK, &off);
    assert_eq!(advice[0].subject, Subject::Multichannel(Verdict::On));
    assert!(advice[0].action.contains("--multichannel on"), "{}", advice[0].action);
}

#[test]
fn more_in_flight_helps_those_who_wait() {
    let lone = Workload { threads: 1, outstanding: 1, ..WORK };
    let far = Surroundings { latency: Duration::from_millis(2), ..around() };
    let advice = find(&lone, &far, Subject::InFlight).unwrap();
    assert!(advice.action.contains("64 requests in flight instead of 1"), "{}", advice.action);
    assert!(advice.gain.low > 20.0 && advice.gain.high <= 64.0, "{:?}", advice.gain);
    assert!(find(&WORK, &around(), Subject::InFlight).is_none(), "64 are in flight already");
    let near = find(&lone, &far, Subject::Distance).unwrap();
    assert!(near.gain.high > 5.0 && near.evidence[0].contains("2 ms"), "{near:?}");
    assert!(find(&lone, &around(), Subject::Distance).is_none(), "it is near");
}

#[test]
fn larger_requests_carry_more_until_the_link_is_full() {
    let small = Workload { block_bytes: 4096, ..WORK };
    let advice = find(&small, &around(), Subject::BlockSize).unwrap();
    assert!(advice.gain.of == Quantity::Bytes && advice.gain.high > 5.0, "{advice:?}");
    let slow = Surroundings { link_bits_per_second: 1_000_000_000, ..around() };
    assert!(find(&WORK, &slow, Subject::BlockSize).is_none(), "64 KiB fill 1 Gbit/s");
}

#[test]
fn a_share_that_is_too_small_is_to_be_larger() {
    let small = Workload { block_bytes: 4096, ..WORK };
    let azure = Surroundings { is_azure: true, provisioned_gib: Some(100), channels: 8, ..around() };
    let advice = advise(&small, &azure);
    assert_eq!(advice[0].subject, Subject::ShareSize, "{advice:#?}");
    assert!(advice[0].gain.high > 20.0, "{:?}", advice[0].gain);
    assert!(advice[0].evidence[0].contains("3,100 requests a second, 110 MiB/s"), "{:?}", advice[0].evidence);
    assert_eq!(of_channels(&small, &azure).0, Verdict::Either, "the share holds it back");
    assert!(find(&small, &azure, Subject::Clients).is_none(), "more machines share the same limit");
}

#[test]
fn one_file_of_the_service_has_its_limit() {
    let one = Workload { files: 1, block_bytes: 4096, ..WORK };
    let azure = Surroundings { is_azure: true, provisioned_gib: Some(50_000), ..around() };
    let advice = find(&one, &azure, Subject::Files).unwrap();
    assert!((advice.gain.high - 2.0).abs() < 0.01, "{:?}", advice.gain);
    assert!(advice.reason.contains("8,000"));
}

#[test]
fn what_one_channel_was_measured_to_reach_takes_the_place_of_the_models_servers() {
    let advice = find(&WORK, &measured(3.0, 2.9, 3.1), Subject::BlockSize).unwrap();
    assert!(advice.gain.low < 1.1, "its time may go into bytes: {:?}", advice.gain);
    assert!(advice.gain.high > 4.0, "its time may go into requests: {:?}", advice.gain);
    assert!(advice.evidence[0].contains("40,000 a second"), "four channels of 10,000: {:?}", advice.evidence);
    let waiting = Workload { threads: 1, outstanding: 1, ..WORK };
    let far = Surroundings { latency: Duration::from_millis(20), ..measured(1.0, 0.9, 1.1) };
    let advice = find(&waiting, &far, Subject::InFlight).unwrap();
    assert!(advice.evidence[0].contains("1 request in flight"), "{:?}", advice.evidence);
}

#[test]
fn what_gives_most_comes_first() {
    for workload in [WORK, Workload { threads: 1, files: 1, outstanding: 1, block_bytes: 4096, ..WORK }] {
        for around in [around(), four_links(), Surroundings { latency: Duration::from_millis(5), ..around() }] {
            let advice = advise(&workload, &around);
            assert!(advice.windows(2).all(|pair| pair[0].gain.middle() >= pair[1].gain.middle()), "{advice:#?}");
            assert!(
                advice.iter().all(|advice| !advice.evidence.is_empty() && !advice.source.is_empty()),
                "{advice:#?}"
            );
        }
    }
}

#[test]
fn reads_and_writes_together_use_both_directions_of_a_link() {
    let slow = Surroundings { link_bits_per_second: 1_000_000_000, ..around() };
    let reached = |write_percent| {
        let bound = bound(&Workload { write_percent, ..WORK }, &slow, 1, CHEAP);
        assert_eq!(bound.limit, model::Limit::Links, "{write_percent} % of writes");
        (bound.iops, bound.text(&Workload { write_percent, ..WORK }, &slow))
    };
    let (reads, words) = reached(0);
    assert!(!words.contains("each way"), "{words}");
    assert_eq!(reached(100).0, reads);
    let (mixed, words) = reached(25);
    assert!((mixed / reads - 1.0 / 0.75).abs() < 1e-9 && words.contains("each way"), "{mixed}, {reads}: {words}");
}

#[test]
fn nothing_asked_for_is_beyond_reckoning() {
    let extreme = Workload {
        threads: u32::MAX,
        files: u32::MAX,
        block_bytes: u32::MAX,
        write_percent: 100,
        outstanding: u32::MAX,
    };
    let nothing =
        Surroundings { cores: 0, channels: 0, pairs: 0, link_bits_per_second: 0, latency: Duration::ZERO, ..around() };
    for (workload, around) in [(extreme, around()), (extreme, nothing.clone()), (WORK, nothing)] {
        let advice = advise(&workload, &around);
        assert!(advice.iter().all(|advice| advice.gain.low.is_finite() && advice.gain.high.is_finite()), "{advice:#?}");
    }
}
