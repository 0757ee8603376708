use std::net::IpAddr;
use std::time::Duration;

use client::{
    Agreed, Channels, Cipher, Interface, InterfaceCapability, LocalInterface, Pair, Protection, Settings,
    SigningAlgorithm,
};

use super::*;

const GMAC: Protection = Protection::Signing(SigningAlgorithm::AesGmac);
const CMAC: Protection = Protection::Signing(SigningAlgorithm::AesCmac);
const GCM: Protection = Protection::Sealing(Cipher::Aes128Gcm);
const CCM: Protection = Protection::Sealing(Cipher::Aes128Ccm);

/// 10 Gbit/s, jumbo frames, a queue for each of its channels, nothing wrong.
fn card(name: &str) -> Card {
    Card {
        name: name.to_owned(),
        is_hardware: true,
        mtu: 9000,
        link_speed: Some(10_000_000_000),
        receive_queues: 16,
        receive_queues_max: Some(QueuesMax { receiving: 0, combined: 16 }),
        receive_ring: Some(Ring { now: 4096, max: 4096 }),
        queueing_disciplines: Some(vec!["mq".into(), "pfifo_fast".into()]),
        ..Card::default()
    }
}

fn machine() -> Machine {
    Machine {
        cores: 16,
        waits_for_cores: Some(0.01),
        cards: vec![card("eth0")],
        has_ethtool: true,
        tcp_receive_max: Some(6 << 20),
        tcp_send_max: Some(4 << 20),
        asked_max: Some((212_992, 212_992)),
        congestion: Some("cubic".into()),
        governors: vec!["performance".into()],
        frequency_driver: Some("acpi-cpufreq".into()),
        protections: vec![(GMAC, 20e9), (CMAC, 1.2e9), (GCM, 8e9), (CCM, 0.9e9)],
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn interface(text: &str) -> Interface {
    let address = Some(address(text));
    Interface { index: 1, capability: InterfaceCapability::RSS_CAPABLE, link_speed: 10_000_000_000, address }
}

fn pair(connections: usize) -> Pair {
    let local = LocalInterface {
        name: "eth0".into(),
        index: 2,
        address: address("10.0.1.2"),
        prefix_bits: 24,
        link_speed: 10_000_000_000,
        has_rss: true,
    };
    Pair { local: Some(local), remote: interface("10.0.1.1"), address: address("10.0.1.1"), connections }
}

fn path(interface: &str, packet_bytes: Option<u32>) -> Path {
    Path { interface: interface.into(), address: address("10.0.1.1"), packet_bytes }
}

/// Four channels over one card, everything as it should be.
fn server() -> Server {
    Server {
        host: "nas".into(),
        port: 445,
        is_azure: false,
        settings: Settings::default(),
        agreed: Agreed {
            signing: SigningAlgorithm::AesGmac,
            cipher: Some(Cipher::Aes128Gcm),
            is_signed: true,
            has_multichannel: true,
            read_bytes_max: 8 << 20,
            write_bytes_max: 8 << 20,
        },
        is_sealed: false,
        ways: vec![Way { name: "eth0".into(), link_speed: 10_000_000_000 }],
        used: vec!["eth0".into()],
        paths: vec![path("eth0", Some(9000))],
        is_local: false,
        round_trip: Some(Duration::from_micros(150)),
        told: Told::Interfaces(vec![(interface("10.0.1.1"), Tried::Reached(Duration::from_micros(90)))]),
        pairs: vec![pair(4)],
        channels: 4,
        channels_without_maximum: 4,
        refusal: None,
        written: None,
    }
}

fn of_machine(change: impl FnOnce(&mut Machine)) -> Vec<Finding> {
    let mut machine = machine();
    change(&mut machine);
    examine(&Facts { machine, server: None })
}

fn of_card(change: impl FnOnce(&mut Card)) -> Vec<Finding> {
    of_machine(|machine| change(&mut machine.cards[0]))
}

fn of_server(change: impl FnOnce(&mut Server)) -> Vec<Finding> {
    let mut server = server();
    change(&mut server);
    examine(&Facts { machine: machine(), server: Some(server) })
}

/// The one finding that is not as it should be, of those that `check` names; `Ok` where there is none.
fn judged(findings: &[Finding], check: &str) -> (Severity, String) {
    let of_check: Vec<_> = findings.iter().filter(|finding| finding.check == check).collect();
    let worst = of_check.iter().min_by_key(|finding| finding.severity);
    let worst = worst.unwrap_or_else(|| panic!("nothing was said of {check}: {findings:#?}"));
    (worst.severity, worst.remedy.clone().unwrap_or_default())
}

#[test]
fn want_of_a_core_is_no_distance() {
    use Severity::{Note, Ok};
    let of = |part, is_local| {
        let machine = Machine { waits_for_cores: Some(part), ..machine() };
        let server = Server { round_trip: Some(Duration::from_millis(80)), is_local, ..server() };
        let findings = examine(&Facts { machine, server: Some(server) });
        ["cores", "latency", "buffers"].map(|check| judged(&findings, check).0)
    };
    assert_eq!(of(0.0, false), [Ok, Note, Severity::Problem]);
    assert_eq!(of(0.9, false), [Note, Note, Ok]);
    assert_eq!(of(0.0, true), [Ok, Ok, Ok]);
    assert_eq!(of(0.9, true), [Note, Ok, Ok]);
}

#[test]
fn a_machine_and_a_server_in_order_have_no_problem() {
    for findings in [of_machine(|_| ()), of_server(|_| ())] {
        assert!(findings.iter().all(|finding| finding.severity != Severity::Problem), "{findings:#?}");
        assert!(findings.iter().all(|finding| !finding.evidence.is_empty()), "{findings:#?}");
    }
}

#[test]
fn cards_are_judged_by_table() {
    use Severity::{Note, Ok, Problem};
    type Case = (&'static str, fn(&mut Card), &'static str, Severity, &'static str);
    let cases: [Case; 16] = [
        ("jumbo", |_| (), "mtu", Ok, ""),
        ("10 GbE with 1500", |card| card.mtu = 1500, "mtu", Note, "ip link set dev eth0 mtu 9000"),
        ("slow link with 1500", |card| (card.mtu, card.link_speed) = (1500, Some(1_000_000_000)), "mtu", Ok, ""),
        ("half duplex", |card| card.is_half_duplex = true, "duplex", Problem, "autoneg on"),
        ("one queue of 16", |card| card.receive_queues = 1, "queues", Problem, "ethtool -L eth0 combined 16"),
        (
            "one queue of 8 that only receive",
            |card| {
                (card.receive_queues, card.receive_queues_max) = (1, Some(QueuesMax { receiving: 8, combined: 0 }));
            },
            "queues",
            Problem,
            "ethtool -L eth0 rx 8",
        ),
        (
            "one queue and no more",
            |card| (card.receive_queues, card.receive_queues_max) = (1, Some(QueuesMax { receiving: 0, combined: 1 })),
            "queues",
            Note,
            "echo ffff | sudo tee /sys/class/net/eth0/queues/rx-0/rps_cpus",
        ),
        (
            "one queue, who knows",
            |card| (card.receive_queues, card.receive_queues_max) = (1, None),
            "queues",
            Note,
            "rps_cpus",
        ),
        ("four queues", |card| card.receive_queues = 4, "queues", Ok, ""),
        ("small ring", |card| card.receive_ring = Some(Ring { now: 512, max: 4096 }), "ring", Note, "-G eth0 rx 4096"),
        (
            "small ring that lost packets",
            |card| (card.receive_ring, card.missed_packets) = (Some(Ring { now: 512, max: 4096 }), 9),
            "ring",
            Problem,
            "-G eth0 rx 4096",
        ),
        ("large ring that lost packets", |card| card.missed_packets = 9, "ring", Note, "/proc/interrupts"),
        ("a ring that is not told", |card| card.receive_ring = None, "ring", Note, ""),
        (
            "offloads off",
            |card| card.offloads_off = vec![("tso".into(), true), ("gro".into(), true)],
            "offloads",
            Problem,
            "ethtool -K eth0 tso on gro on",
        ),
        ("offloads lacking", |card| card.offloads_off = vec![("rx".into(), false)], "offloads", Note, ""),
        ("offloads on", |_| (), "offloads", Ok, ""),
    ];
    for (name, change, check, severity, remedy) in cases {
        let (found, said) = judged(&of_card(change), check);
        assert_eq!(found, severity, "{name}");
        assert!(said.contains(remedy), "{name}: {said}");
    }
}

#[test]
fn machines_are_judged_by_table() {
    use Severity::{Note, Ok, Problem};
    type Case = (&'static str, fn(&mut Machine), &'static str, Severity, &'static str);
    let cases: [Case; 11] = [
        ("no ethtool", |machine| machine.has_ethtool = false, "ethtool", Note, "install ethtool"),
        ("no card", |machine| machine.cards.clear(), "links", Note, ""),
        (
            "speeds that differ",
            |machine| machine.cards.push(Card { link_speed: Some(25_000_000_000), ..card("eth1") }),
            "speed",
            Problem,
            "ethtool eth0",
        ),
        (
            "a slow one beside a fast one",
            |machine| machine.cards.push(Card { link_speed: Some(1_000_000_000), ..card("eth1") }),
            "speed",
            Note,
            "ethtool eth1",
        ),
        (
            "packets that differ",
            |machine| machine.cards.push(Card { mtu: 1500, ..card("eth1") }),
            "mtu",
            Note,
            "dev eth1 mtu 9000",
        ),
        ("reno", |machine| machine.congestion = Some("reno".into()), "congestion", Note, "=cubic"),
        ("powersave", |machine| machine.governors = vec!["powersave".into()], "governor", Problem, "-g performance"),
        (
            "powersave that is none",
            |machine| {
                machine.governors = vec!["powersave".into()];
                machine.frequency_driver = Some("intel_pstate".into());
            },
            "governor",
            Note,
            "-g performance",
        ),
        ("a virtual machine", |machine| machine.governors.clear(), "governor", Ok, ""),
        ("no AES", |machine| machine.protections = vec![(GMAC, 90e6)], "protection", Note, "/proc/cpuinfo"),
        ("not measured", |machine| machine.protections.clear(), "protection", Note, ""),
    ];
    for (name, change, check, severity, remedy) in cases {
        let (found, said) = judged(&of_machine(change), check);
        assert_eq!(found, severity, "{name}");
        assert!(said.contains(remedy), "{name}: {said}");
    }
}

/// A machine with BBR and one card of these queueing disciplines and this speed.
fn with_bbr(disciplines: &[&str], link_speed: Option<u64>) -> Machine {
    let mut machine = machine();
    machine.congestion = Some("bbr".into());
    machine.cards[0].queueing_disciplines = Some(disciplines.iter().map(|kind| (*kind).to_owned()).collect());
    machine.cards[0].link_speed = link_speed;
    machine
}

#[test]
fn a_timer_of_each_connection_is_judged_by_the_links_it_has_to_fill() {
    use Severity::{Note, Ok, Problem};
    const ONE: &str = "tc qdisc replace dev eth0 root fq";
    const EACH: &str =
        "default_qdisc=fq && sudo tc qdisc replace dev eth0 root fq && sudo tc qdisc replace dev eth0 root mq";
    for (disciplines, link_speed, severity, remedy) in [
        (&["pfifo_fast"][..], Some(10_000_000_000), Problem, ONE),
        (&["mq", "fq_codel"], Some(25_000_000_000), Problem, EACH),
        (&["noqueue"], None, Problem, ONE),
        (&["noqueue"], None, Problem, "tcp_congestion_control=cubic | sudo tee /etc/sysctl.d/"),
        (&["pfifo_fast"], Some(2_500_000_000), Note, ONE),
        (&["pfifo_fast"], Some(1_000_000_000), Ok, ""),
        (&["fq"], Some(10_000_000_000), Ok, ""),
        (&["mq", "fq"], None, Ok, ""),
    ] {
        let findings = examine(&Facts { machine: with_bbr(disciplines, link_speed), server: None });
        let (found, said) = judged(&findings, "congestion");
        assert_eq!(found, severity, "{disciplines:?} {link_speed:?}");
        assert!(said.contains(remedy), "{disciplines:?} {link_speed:?}: {said}");
    }
}

#[test]
fn slow_links_that_are_fast_together_are_judged_together() {
    let mut machine = with_bbr(&["pfifo_fast"], Some(1_000_000_000));
    machine.cards.push(Card { name: "eth1".into(), ..machine.cards[0].clone() });
    let (severity, said) = judged(&examine(&Facts { machine, server: None }), "congestion");
    assert_eq!(severity, Severity::Note);
    assert!(said.contains("dev eth0 root fq") && said.contains("dev eth1 root fq"), "{said}");
}

#[test]
fn queueing_disciplines_that_are_not_told_are_not_judged() {
    let mut unknown = with_bbr(&[], None);
    unknown.cards[0].queueing_disciplines = None;
    let mut without_cards = with_bbr(&[], None);
    without_cards.cards.clear();
    for machine in [unknown, without_cards] {
        let (severity, said) = judged(&examine(&Facts { machine, server: None }), "congestion");
        assert_eq!(severity, Severity::Note);
        assert!(said.contains("tc qdisc show"), "{said}");
    }
}

#[test]
fn a_server_elsewhere_has_a_congestion_control_of_its_own() {
    let of = |used: &str| {
        let server = Server { used: vec![used.into()], ..server() };
        examine(&Facts { machine: with_bbr(&["fq"], None), server: Some(server) })
    };
    let said = |findings: &[Finding]| findings.iter().find(|finding| finding.check == "congestion").cloned().unwrap();
    assert!(said(&of("eth0")).evidence.contains("on reads the server's own setting does"));
    let near = said(&of("lo"));
    assert!(!near.evidence.contains("server's own"));
    assert_eq!(near.severity, Severity::Note, "a card's fq paces nothing within the machine");
}

#[test]
fn servers_are_judged_by_table() {
    use Severity::{Note, Ok, Problem};
    type Case = (&'static str, fn(&mut Server), &'static str, Severity, &'static str);
    let cases: [Case; 22] = [
        ("all channels", |_| (), "multichannel", Ok, ""),
        (
            "off at the server",
            |server| server.agreed.has_multichannel = false,
            "multichannel",
            Problem,
            "--multichannel on",
        ),
        (
            "off for the account",
            |server| server.told = Told::NotSupported,
            "multichannel",
            Problem,
            "--multichannel on",
        ),
        ("off here", |server| server.settings.channels = Channels::Exactly(1), "multichannel", Problem, "--channels 1"),
        ("fewer channels", |server| server.channels = 2, "multichannel", Problem, "again"),
        (
            "fewer channels, refused",
            |server| (server.channels, server.refusal) = (2, Some("INSUFFICIENT_RESOURCES".into())),
            "multichannel",
            Problem,
            "--channels-max",
        ),
        ("no pair", |server| server.pairs.clear(), "multichannel", Problem, "client connections"),
        ("a low maximum", |server| server.channels_without_maximum = 40, "maximum", Problem, "PerServer=40"),
        (
            "too many for Azure",
            |server| (server.is_azure, server.channels, server.pairs) = (true, 8, vec![pair(4), pair(4)]),
            "maximum",
            Problem,
            "PerRssNetworkInterface=2",
        ),
        (
            "a way with small packets",
            |server| server.paths[0].packet_bytes = Some(1500),
            "mtu",
            Problem,
            "dev eth0 mtu 1500",
        ),
        ("a way that is not told", |server| server.paths[0].packet_bytes = None, "mtu", Ok, ""),
        (
            "a slower way beside",
            |server| server.ways.push(Way { name: "eth1".into(), link_speed: 5_000_000_000 }),
            "speed",
            Problem,
            "ethtool eth1",
        ),
        ("far away", |server| server.round_trip = Some(Duration::from_millis(3)), "latency", Note, "multilane advise"),
        (
            "too far for its buffers",
            |server| server.round_trip = Some(Duration::from_millis(80)),
            "buffers",
            Problem,
            "tcp_rmem='4096 131072 50331648'",
        ),
        ("near enough for its buffers", |server| server.round_trip = Some(Duration::from_millis(1)), "buffers", Ok, ""),
        (
            "CMAC",
            |server| server.agreed.signing = SigningAlgorithm::AesCmac,
            "signing",
            Note,
            "share update SHARE --seal",
        ),
        (
            "CMAC, and one channel for ever",
            |server| (server.agreed.signing, server.agreed.has_multichannel) = (SigningAlgorithm::AesCmac, false),
            "signing",
            Note,
            "AES-128-GMAC",
        ),
        (
            "CMAC, and no cipher that is faster",
            |server| {
                (server.agreed.signing, server.agreed.cipher) = (SigningAlgorithm::AesCmac, Some(Cipher::Aes128Ccm))
            },
            "signing",
            Ok,
            "",
        ),
        (
            "CCM",
            |server| (server.is_sealed, server.agreed.cipher) = (true, Some(Cipher::Aes128Ccm)),
            "sealing",
            Note,
            "AES_128_GCM",
        ),
        ("unsigned", |server| server.agreed.is_signed = false, "signing", Ok, ""),
        ("no test file", |_| (), "disk", Note, ""),
        (
            "a slow disk",
            |server| {
                server.written = Some(Written { bytes: 1 << 26, share: Rates { write: 1e8, read: 1e9 }, ram: None })
            },
            "disk",
            Problem,
            "fio",
        ),
    ];
    for (name, change, check, severity, remedy) in cases {
        let (found, said) = judged(&of_server(change), check);
        assert_eq!(found, severity, "{name}");
        assert!(said.contains(remedy), "{name}: {said}");
    }
}

#[test]
fn each_path_is_judged_by_the_card_that_it_leaves_by() {
    let of = |paths: &[Path]| {
        let mut machine = machine();
        machine.cards = vec![Card { mtu: 1500, ..card("eth0") }, card("eth1")];
        let used = ["eth0", "eth1"].map(str::to_owned).to_vec();
        let server = Server { used, paths: paths.to_vec(), ..server() };
        judged(&examine(&Facts { machine, server: Some(server) }), "mtu")
    };
    let slow = path("eth0", Some(1500));
    let (severity, said) = of(&[slow.clone(), path("eth1", Some(9000))]);
    assert_eq!(severity, Severity::Note, "the path of another card is no measure: {said}");
    let (severity, said) = of(&[slow, path("eth1", Some(9000)), path("eth1", Some(4000))]);
    assert!(severity == Severity::Problem && said.contains("dev eth1 mtu 4000") && !said.contains("eth0"), "{said}");
}

#[test]
fn a_ram_disk_tells_what_the_network_gives() {
    let slow = Rates { write: 4e8, read: 1e9 };
    let written = |ram| Some(Written { bytes: 1 << 26, share: slow, ram });
    for (ram, severity) in [(Rates { write: 1e9, read: 1e9 }, Severity::Problem), (slow, Severity::Ok)] {
        let findings = of_server(|server| server.written = written(Some(ram)));
        assert_eq!(judged(&findings, "disk").0, severity);
    }
}

#[test]
fn each_address_that_is_not_reached_is_a_problem() {
    let findings = of_server(|server| {
        server.told = Told::Interfaces(vec![
            (interface("10.0.1.1"), Tried::Reached(Duration::from_micros(90))),
            (interface("192.0.2.1"), Tried::Failed("no answer in 2 s".into())),
            (interface("192.0.2.2"), Tried::Failed("Connection refused".into())),
            (interface("fe80::1"), Tried::PassedOver("link-local")),
        ]);
    });
    let problems: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Problem).collect();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].what.contains("192.0.2.1") && problems[0].evidence.contains("no answer in 2 s"));
    assert!(problems[0].remedy.as_ref().unwrap().contains("ip route get 192.0.2.1"));
    assert!(findings.iter().any(|finding| finding.severity == Severity::Note && finding.evidence.contains("fe80::1")));
}

#[test]
fn too_few_cores_for_the_links_are_a_problem() {
    let mut machine = machine();
    machine.cores = 1;
    let mut server = server();
    server.agreed.signing = SigningAlgorithm::AesCmac;
    let findings = examine(&Facts { machine, server: Some(server) });
    assert_eq!(judged(&findings, "signing").0, Severity::Problem, "1.25 GB/s of links, 1.2 GB/s of CMAC");
}

#[test]
fn problems_come_first() {
    let findings = of_server(|server| (server.paths[0].packet_bytes, server.channels) = (Some(1500), 1));
    assert!(findings.windows(2).all(|pair| pair[0].severity <= pair[1].severity), "{findings:#?}");
}

#[test]
fn a_server_on_this_machine_has_no_links_to_look_at() {
    let findings = of_server(|server| server.used = vec!["lo".into()]);
    assert_eq!(judged(&findings, "links").0, Severity::Note);
    assert!(findings.iter().all(|finding| !matches!(finding.check, "mtu" | "queues" | "ring" | "offloads" | "speed")));
}
