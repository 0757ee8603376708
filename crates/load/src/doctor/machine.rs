//! Looks at this machine: what the kernel shows in files, and what `ethtool` and `tc` add.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use client::Protection;

use super::facts::{Card, Machine};
use super::{ethtool, queueing};

/// How long each way to protect messages is tried.
const PROTECTION_TIME: Duration = Duration::from_millis(60);
/// Network interfaces to look at: containers may have thousands.
const CARDS_MAX: usize = 64;
/// Where the kernel shows them.
const CARDS: &str = "sys/class/net";

/// Looks at this machine. Takes about half a second, most of it on one core.
pub async fn look_at_machine() -> Machine {
    let root = Path::new("/");
    let mut machine = by_files(root);
    for card in machine.cards.iter_mut().filter(|card| card.is_hardware) {
        if ethtool::describe(card).await.is_err() {
            machine.has_ethtool = false;
            break;
        }
    }
    queueing::describe(&mut machine.cards, |name| below(&root.join(CARDS).join(name))).await;
    let measured = tokio::task::spawn_blocking(|| {
        Protection::ALL.map(|protection| (protection, protection.measure(PROTECTION_TIME))).to_vec()
    });
    machine.protections = measured.await.unwrap_or_default();
    machine
}

/// What the files below `root` tell.
fn by_files(root: &Path) -> Machine {
    let kernel = root.join("proc/sys/net");
    let third = |path: PathBuf| fs::read_to_string(path).ok()?.split_whitespace().nth(2)?.parse().ok();
    let asked = |name| number(&kernel.join("core").join(name));
    let mut governors: Vec<String> = Vec::new();
    let processors = root.join("sys/devices/system/cpu");
    for core in names(&processors).iter().filter(|name| is_core(name)) {
        if let Some(governor) = text(&processors.join(core).join("cpufreq/scaling_governor"))
            && !governors.contains(&governor)
        {
            governors.push(governor);
        }
    }
    Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        waits_for_cores: text(&root.join("proc/pressure/cpu")).and_then(|text| waited(&text)),
        cards: cards(&root.join(CARDS)),
        has_ethtool: true,
        tcp_receive_max: third(kernel.join("ipv4/tcp_rmem")),
        tcp_send_max: third(kernel.join("ipv4/tcp_wmem")),
        asked_max: asked("rmem_max").zip(asked("wmem_max")),
        congestion: text(&kernel.join("ipv4/tcp_congestion_control")),
        governors,
        frequency_driver: text(&processors.join("cpu0/cpufreq/scaling_driver")),
        protections: Vec::new(),
    }
}

/// From `some avg10=89.82 avg60=94.37 avg300=93.22 total=12511888062`: percent, of the last ten seconds.
fn waited(pressure: &str) -> Option<f64> {
    let average = pressure.strip_prefix("some avg10=")?.split_whitespace().next()?;
    average.parse::<f64>().ok().map(|percent| percent / 100.0)
}

fn cards(folder: &Path) -> Vec<Card> {
    let mut names = names(folder);
    names.truncate(CARDS_MAX);
    names.into_iter().filter_map(|name| card(&folder.join(&name), name)).collect()
}

/// `None` of an interface that is down.
fn card(folder: &Path, name: String) -> Option<Card> {
    if text(&folder.join("operstate"))
        .is_some_and(|state| matches!(state.as_str(), "down" | "notpresent" | "lowerlayerdown"))
    {
        return None;
    }
    let megabits: Option<i64> = number(&folder.join("speed"));
    let queues = names_in(&folder.join("queues"), "rx-");
    let lost = |counter| number::<u64>(&folder.join("statistics").join(counter)).unwrap_or(0);
    Some(Card {
        is_hardware: folder.join("device").exists(),
        mtu: number(&folder.join("mtu")).unwrap_or(0),
        // -1 is that it does not know.
        link_speed: megabits
            .and_then(|megabits| u64::try_from(megabits).ok())
            .filter(|speed| *speed > 0)
            .map(|speed| speed * 1_000_000),
        is_half_duplex: text(&folder.join("duplex")).is_some_and(|duplex| duplex == "half"),
        receive_queues: queues,
        missed_packets: lost("rx_missed_errors").saturating_add(lost("rx_fifo_errors")),
        name,
        ..Card::default()
    })
}

/// The interfaces that one hands its packets on to: a bond's, a bridge's, a VLAN's.
fn below(folder: &Path) -> Vec<String> {
    names(folder).iter().filter_map(|name| name.strip_prefix("lower_")).map(str::to_owned).collect()
}

fn is_core(name: &str) -> bool {
    name.strip_prefix("cpu")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn names_in(folder: &Path, prefix: &str) -> usize {
    names(folder).iter().filter(|name| name.starts_with(prefix)).count()
}

/// What is in a folder, sorted; nothing where it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn number<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn the_kernels_files_are_read() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("sys/class/net/eth0/operstate", "up\n"),
                ("sys/class/net/eth0/mtu", "1500\n"),
                ("sys/class/net/eth0/speed", "10000\n"),
                ("sys/class/net/eth0/duplex", "half\n"),
                ("sys/class/net/eth0/device/vendor", "0x8086\n"),
                ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
                ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
                ("sys/class/net/eth0/queues/tx-0/tx_timeout", "0\n"),
                ("sys/class/net/eth0/statistics/rx_missed_errors", "7\n"),
                ("sys/class/net/eth0/lower_eth9/mtu", "1500\n"),
                ("sys/class/net/eth1/operstate", "down\n"),
                ("sys/class/net/veth0/operstate", "up\n"),
                ("sys/class/net/veth0/speed", "-1\n"),
                ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
                ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
                ("proc/sys/net/core/rmem_max", "212992\n"),
                (
                    "proc/pressure/cpu",
                    "some avg10=25.00 avg60=1.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
                ),
                ("proc/sys/net/core/wmem_max", "212993\n"),
                ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
            ],
        );
        let machine = by_files(root.path());
        assert_eq!(machine.cards.iter().map(|card| &card.name[..]).collect::<Vec<_>>(), ["eth0", "veth0"]);
        let card = &machine.cards[0];
        assert!(card.is_hardware && card.is_half_duplex);
        assert_eq!(
            (card.mtu, card.link_speed, card.receive_queues, card.missed_packets),
            (1500, Some(10_000_000_000), 2, 7)
        );
        assert_eq!(below(&root.path().join("sys/class/net/eth0")), ["eth9"]);
        assert!(!machine.cards[1].is_hardware && machine.cards[1].link_speed.is_none());
        assert_eq!((machine.tcp_receive_max, machine.tcp_send_max), (Some(6_291_456), Some(4_194_304)));
        assert_eq!(machine.asked_max, Some((212_992, 212_993)));
        assert_eq!(machine.waits_for_cores, Some(0.25));
        assert_eq!(
            (machine.congestion.as_deref(), &machine.governors[..]),
            (Some("cubic"), &["powersave".to_owned()][..])
        );
    }

    #[test]
    fn files_that_are_not_there_leave_things_unknown() {
        let root = tempfile::tempdir().unwrap();
        let machine = by_files(root.path());
        assert!(machine.cards.is_empty() && machine.governors.is_empty() && machine.congestion.is_none());
        assert!(machine.cores > 0 && machine.tcp_receive_max.is_none() && machine.waits_for_cores.is_none());
    }
}
