//! The machine that makes the load, as reports describe it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;

/// Processors that are told apart; what a machine has beyond is left out.
const PROCESSORS_MAX: u32 = 4096;

/// This machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name in the network.
    pub computer_name: String,
    /// What decides how fast its processors run: the frequency governor.
    pub power_scheme: String,
    /// Its processors that are online, in the order of their numbers.
    pub processors: Vec<Processor>,
}

/// A logical processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Its number.
    pub id: u32,
    /// Its core, numbered from 0 in the order of the cores' first processors.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA node.
    pub node: u32,
    /// 0 for the slowest kind of core, and so on.
    pub efficiency_class: u32,
}

impl Machine {
    /// Describes the machine that this runs on. What it does not tell is taken to be plain.
    pub fn this() -> Self {
        let scheme = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        Machine {
            computer_name: word(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default(),
            power_scheme: word(Path::new(scheme)).unwrap_or_else(|| "<unknown>".to_owned()),
            processors: processors(),
        }
    }

    /// Its cores.
    pub(super) fn core_count(&self) -> usize {
        distinct(&self.processors, |processor| processor.core)
    }

    /// Its sockets.
    pub(super) fn socket_count(&self) -> usize {
        distinct(&self.processors, |processor| processor.socket)
    }

    /// Its NUMA nodes.
    pub(super) fn node_count(&self) -> usize {
        distinct(&self.processors, |processor| processor.node)
    }

    /// The class of the fastest cores; 0 where all are alike.
    pub(super) fn best_class(&self) -> u32 {
        self.processors.iter().map(|processor| processor.efficiency_class).max().unwrap_or(0)
    }

    /// The processor that usage was measured of at this place of the list.
    pub(super) fn processor(&self, index: usize) -> Processor {
        let unknown = Processor { id: index as u32, core: index as u32, ..Processor::default() };
        self.processors.get(index).copied().unwrap_or(unknown)
    }
}

/// A time as reports show it, in UTC.
pub(super) fn time(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().strftime("%Y/%m/%d %H:%M:%S UTC").to_string()
}

fn distinct(processors: &[Processor], of: impl Fn(&Processor) -> u32) -> usize {
    processors.iter().map(of).collect::<BTreeSet<_>>().len().max(1)
}

/// What Linux tells of each processor below this folder.
struct Told {
    id: u32,
    socket: u32,
    core: u32,
    node: u32,
    capacity: u32,
}

fn processors() -> Vec<Processor> {
    let online = word(Path::new("/sys/devices/system/cpu/online")).unwrap_or_else(|| "0".to_owned());
    let told: Vec<Told> = listed(&online).into_iter().map(told).collect();
    let mut cores = Vec::new();
    let mut capacities: Vec<u32> = told.iter().map(|told| told.capacity).collect();
    capacities.sort_unstable();
    capacities.dedup();
    told.iter()
        .map(|told| {
            let core = (told.socket, told.core);
            let known = cores.iter().position(|known| *known == core);
            let core = known.unwrap_or_else(|| {
                cores.push(core);
                cores.len() - 1
            });
            let class = capacities.iter().position(|capacity| *capacity == told.capacity).unwrap_or(0);
            Processor {
                id: told.id,
                core: core as u32,
                socket: told.socket,
                node: told.node,
                efficiency_class: class as u32,
            }
        })
        .collect()
}

fn told(id: u32) -> Told {
    let folder = PathBuf::from(format!("/sys/devices/system/cpu/cpu{id}"));
    let number = |name: &str| word(&folder.join(name)).and_then(|word| word.parse::<u32>().ok());
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut nodes = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok());
    Told {
        id,
        socket: number("topology/physical_package_id").unwrap_or(0),
        core: number("topology/core_id").unwrap_or(id),
        node: nodes.next().unwrap_or(0),
        capacity: number("cpu_capacity").unwrap_or(0),
    }
}

/// The numbers of a list such as `0-3,6`.
fn listed(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last: u32 = last.parse().ok()?;
        Some(first.parse().ok()?..=last.min(PROCESSORS_MAX))
    };
    list.split(',').filter_map(range).flatten().collect()
}

fn word(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let word = text.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(listed("0-3,6"), [0, 1, 2, 3, 6]);
        assert_eq!(listed("0"), [0]);
        assert!(listed("").is_empty());
        assert_eq!(listed("x,2-1,7"), [7]);
    }

    #[test]
    fn this_machine_has_a_processor_and_a_core() {
        let machine = Machine::this();
        assert!(!machine.processors.is_empty() && machine.core_count() <= machine.processors.len());
        assert_eq!(machine.processor(1 << 20).id, 1 << 20);
    }

    #[test]
    fn times_are_in_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_219_199);
        assert_eq!(time(at), "2026/11/20 23:59:59 UTC");
    }
}
