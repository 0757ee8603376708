//! A network that is there until its guard goes, and networks whose guards never went.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use super::tools::{need_root, run};
use super::{End, Network, Sides, links};
use crate::engine::{Failure, Stop};

/// Where iproute2 keeps the names of namespaces.
const NAMED: &str = "/run/netns";
/// How often a command that runs inside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A network. It is removed when this goes, and whatever runs in it is killed.
#[derive(Debug)]
pub struct Built {
    sides: Sides,
}

/// Builds a network, after removing those that are left of processes which are no more. [`Network::Plain`] needs nothing; the others need
/// root and iproute2.
pub fn build(network: Network) -> Result<Built, Failure> {
    if network == Network::Plain {
        return Ok(Built { sides: Sides::plain() });
    }
    need_root()?;
    remove_leftovers(Path::new(NAMED));
    // Tells apart what one process builds. Should it ever fail to, the second network is not made.
    let number = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let sides = Sides { network, owner: std::process::id(), number };
    let built = Built { sides };
    links::make(&built.sides)?;
    Ok(built)
}

impl Built {
    /// Its two hosts.
    pub fn sides(&self) -> Sides {
        self.sides
    }

    /// Runs a command to its end. When `stop` is asked for, the command is asked to end with SIGTERM, and waited for.
    pub fn run(&self, mut command: Command, stop: &Stop) -> Result<ExitStatus, Failure> {
        let program = command.get_program().to_string_lossy().into_owned();
        let unable = |cause: std::io::Error| Failure {
            what: format!("cannot run {program}: {cause}"),
            remedy: "check that the program is there and may be run".to_owned(),
        };
        // Ctrl-C at a terminal is for whoever holds the guard.
        let mut child = command.process_group(0).spawn().map_err(unable)?;
        let mut is_told = false;
        loop {
            if let Some(status) = child.try_wait().map_err(unable)? {
                return Ok(status);
            }
            if stop.is_asked() && !is_told {
                signal(child.id(), Signal::TERM);
                is_told = true;
            }
            sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        if self.sides.network != Network::Plain {
            for end in [End::Client, End::Server] {
                remove(&self.sides.namespace(end));
            }
        }
    }
}

/// Removes a namespace with all that is in it. One that is not there is no failure.
fn remove(namespace: &str) {
    let inside = run("ip", &["netns", "pids", namespace], &[]).unwrap_or_default();
    inside.split_whitespace().filter_map(|pid| pid.parse().ok()).for_each(|pid| signal(pid, Signal::KILL));
    // It may be gone already, or never have been made.
    let _ = run("ip", &["netns", "delete", namespace], &[]);
}

/// Removes the networks of processes that were killed before they could.
fn remove_leftovers(named: &Path) {
    for entry in fs::read_dir(named).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if owner_of(name).is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            remove(name);
        }
    }
}

/// The process that made the namespace, if it is one of ours: `multilane-4242.0-server`.
fn owner_of(namespace: &str) -> Option<u32> {
    let rest = namespace.strip_prefix("multilane-")?;
    let place = rest.strip_suffix("-server").or_else(|| rest.strip_suffix("-client"))?;
    let (owner, number) = place.split_once('.')?;
    number.parse::<u32>().ok()?;
    owner.parse().ok()
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that has ended since needs none.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn is_named(sides: Sides, end: End) -> bool {
        Path::new(NAMED).join(sides.namespace(end)).exists()
    }

    /// A network, or `None` where this process may not make one.
    fn built(network: Network) -> Option<Built> {
        let built = build(network);
        if let Err(failure) = &built {
            eprintln!("not tried: {}", failure.what);
        }
        built.ok()
    }

    #[test]
    fn a_network_goes_with_its_guard_and_takes_what_runs_in_it() {
        for network in [Network::Quad, Network::Rss, Network::D32sV3] {
            let Some(built) = built(network) else { return };
            let sides = built.sides();
            assert!(is_named(sides, End::Server) && is_named(sides, End::Client));
            let mut sleeping = sides.on_server("sleep").arg("1000").spawn().unwrap();
            // It is inside once it can be seen there.
            while run("ip", &["netns", "pids", &sides.namespace(End::Server)], &[]).unwrap().trim().is_empty() {
                std::thread::yield_now();
            }
            drop(built);
            assert!(!sleeping.wait().unwrap().success());
            assert!(!is_named(sides, End::Server) && !is_named(sides, End::Client));
        }
    }

    #[test]
    fn the_client_reaches_every_address_of_the_server() {
        let Some(built) = built(Network::Quad) else { return };
        let sides = built.sides();
        for address in sides.server_addresses() {
            let routed = sides.on_client("ip").args(["route", "get", &address.to_string()]).output().unwrap();
            let said = String::from_utf8_lossy(&routed.stdout).into_owned();
            assert!(said.contains(" dev c"), "{address}: {said}");
        }
    }

    #[test]
    fn both_ends_of_a_link_with_queues_show_them() {
        let Some(built) = built(Network::Rss) else { return };
        let sides = built.sides();
        for (mut command, device) in [(sides.on_server("ls"), "s1"), (sides.on_client("ls"), "c1")] {
            let listed = command.arg(format!("/sys/class/net/{device}/queues")).output().unwrap();
            assert!(String::from_utf8_lossy(&listed.stdout).contains("rx-1"), "{device}");
        }
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next() {
        if need_root().is_err() {
            return;
        }
        // Nobody has its number any more, or for a while.
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = Sides { network: Network::Rss, owner: ended.id(), number: 0 };
        if run("ip", &["netns", "add", &left.namespace(End::Server)], &[]).is_err() {
            return;
        }
        let ours = Sides { network: Network::Rss, owner: std::process::id(), number: u32::MAX };
        run("ip", &["netns", "add", &ours.namespace(End::Client)], &[]).unwrap();
        remove_leftovers(Path::new(NAMED));
        let stays = is_named(ours, End::Client);
        remove(&ours.namespace(End::Client));
        assert!(stays && !is_named(left, End::Server));
    }

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(owner_of("multilane-42.0-server"), Some(42));
        for name in ["multilane-42-server", "multilane-x.0-client", "multilane-42.0", "blue", "multilane-42.x-server"] {
            assert_eq!(owner_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_command_is_asked_to_end_when_the_run_is() {
        let built = build(Network::Plain).unwrap();
        let stop = Stop::default();
        stop.now();
        let mut command = built.sides().on_client("sleep");
        command.arg("1000").stdin(Stdio::null());
        assert!(!built.run(command, &stop).unwrap().success());
    }
}
