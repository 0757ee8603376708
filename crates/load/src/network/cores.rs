//! The cores of two hosts: each has half of those that who built the network may use, as two machines share none.
//!
//! Where both ends share all cores the kernel now has their busiest threads beside each other and now on one core, for seconds, and nothing that is measured
//! tells of the network.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::End;

/// Those of an end, as taskset(1) lists them; `None` where there is one core for both. `owner` is the process that built the network: who runs on a
/// host has half of its cores.
pub(super) fn of(end: End, owner: u32) -> Option<String> {
    share(end, &allowed(owner))
}

fn share(end: End, all: &[usize]) -> Option<String> {
    let (server, client) = all.split_at(all.len() / 2);
    if server.is_empty() {
        return None;
    }
    let cores = match end {
        End::Server => server,
        End::Client => client,
    };
    Some(cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

fn allowed(process: u32) -> Vec<usize> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let set = process.and_then(|process| sched_getaffinity(Some(process)).ok()).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_core_is_of_both_ends_and_one_alone_is_shared() {
        let both = |all: &[usize]| [End::Server, End::Client].map(|end| share(end, all));
        let listed = |server: &str, client: &str| [Some(server.to_owned()), Some(client.to_owned())];
        assert_eq!(both(&[0, 1]), listed("0", "1"));
        assert_eq!(both(&[2, 3, 7]), listed("2", "3,7"));
        assert_eq!(both(&[0, 1, 2, 3]), listed("0,1", "2,3"));
        assert_eq!(both(&[5]), [None, None]);
        assert_eq!(both(&[]), [None, None]);
        assert!(!allowed(std::process::id()).is_empty());
        assert!(allowed(0).is_empty());
    }
}
