//! What this machine's cores and this process have done so far, from the kernel's counters.

use std::fs;
use std::time::Duration;

use client::Session;
use rustix::time::{ClockId, clock_gettime};

use crate::results::{ChannelResults, CpuUsage};

/// A reading of all counters.
#[derive(Debug)]
pub(super) struct Reading {
    cores: Vec<Core>,
    own_cpu: Duration,
    channels: Vec<ChannelResults>,
}

/// Ticks of one core since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Core {
    user: u64,
    kernel: u64,
    idle: u64,
}

impl Reading {
    /// Reads them now.
    pub(super) fn take<'a>(sessions: impl Iterator<Item = &'a Session>) -> Self {
        Reading {
            cores: cores(&fs::read_to_string("/proc/stat").unwrap_or_default()),
            own_cpu: own_cpu(),
            channels: sessions.flat_map(channels).collect(),
        }
    }

    /// What each core did since `before`, in percent.
    pub(super) fn cpus_since(&self, before: &Reading) -> Vec<CpuUsage> {
        before.cores.iter().zip(&self.cores).map(|(before, after)| after.since(before)).collect()
    }

    /// CPU time of this process since `before`.
    pub(super) fn own_cpu_since(&self, before: &Reading) -> Duration {
        self.own_cpu.saturating_sub(before.own_cpu)
    }

    /// What each channel carried since `before`. A channel that was not there then began with nothing.
    pub(super) fn channels_since(&self, before: &Reading) -> Vec<ChannelResults> {
        let mut before = before.channels.clone();
        let since = |after: &ChannelResults| {
            let is_it = |other: &ChannelResults| {
                (&other.local, &other.remote) == (&after.local, &after.remote)
                    && other.received_bytes <= after.received_bytes
                    && other.sent_bytes <= after.sent_bytes
            };
            let was = before.iter().position(is_it).map(|at| before.remove(at));
            let (received, sent) = was.map_or((0, 0), |was| (was.received_bytes, was.sent_bytes));
            ChannelResults {
                received_bytes: after.received_bytes - received,
                sent_bytes: after.sent_bytes - sent,
                ..after.clone()
            }
        };
        self.channels.iter().map(since).collect()
    }
}

impl Core {
    fn since(&self, before: &Core) -> CpuUsage {
        let user = self.user.saturating_sub(before.user) as f64;
        let kernel = self.kernel.saturating_sub(before.kernel) as f64;
        let idle = self.idle.saturating_sub(before.idle) as f64;
        let percent = 100.0 / (user + kernel + idle).max(1.0);
        CpuUsage { user: user * percent, kernel: kernel * percent, idle: idle * percent }
    }
}

/// The lines `cpuN user nice system idle iowait irq softirq steal …` of `/proc/stat`. Time that a hypervisor took away counts as the
/// kernel's: it was not idle.
fn cores(stat: &str) -> Vec<Core> {
    let lines = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let core = |line: &str| {
        let ticks: Vec<u64> = line.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, waiting, hard, soft, stolen, ..] = ticks[..] else { return None };
        Some(Core { user: user + nice, kernel: system + hard + soft + stolen, idle: idle + waiting })
    };
    lines.filter_map(core).collect()
}

fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn channels(session: &Session) -> Vec<ChannelResults> {
    let channels = session.connected().channels;
    let shown = |channel: client::Counters| ChannelResults {
        local: channel.local.to_string(),
        remote: channel.remote.to_string(),
        received_bytes: channel.received_bytes,
        sent_bytes: channel.sent_bytes,
    };
    channels.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(local: &str, received_bytes: u64) -> ChannelResults {
        ChannelResults { local: local.to_owned(), remote: "10.0.0.1:445".to_owned(), received_bytes, sent_bytes: 0 }
    }

    fn reading(stat: &str, channels: Vec<ChannelResults>) -> Reading {
        Reading { cores: cores(stat), own_cpu: Duration::ZERO, channels }
    }

    #[test]
    fn what_a_core_did_is_told_in_percent() {
        let before = reading("cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 10 10 0 0 0 0 0 0\n", Vec::new());
        let after = reading("cpu  9 9 9 9 9 9 9 9\ncpu0 20 10 40 40 10 5 5 0 0 0\nintr 5\n", Vec::new());
        assert_eq!(after.cpus_since(&before), [CpuUsage { user: 20.0, kernel: 40.0, idle: 40.0 }]);
    }

    #[test]
    fn channels_of_the_same_addresses_are_told_apart_by_what_they_carried() {
        let before = reading("", vec![channel("a", 100), channel("a", 50), channel("b", 5)]);
        let after = reading("", vec![channel("a", 170), channel("a", 60), channel("b", 5), channel("b", 1)]);
        let carried: Vec<u64> = after.channels_since(&before).iter().map(|channel| channel.received_bytes).collect();
        assert_eq!(carried, [70, 10, 0, 1]);
    }
}
