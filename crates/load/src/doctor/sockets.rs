//! What TCP and the cores are set to: buffers, frequency, whether cores are free, and how far away the server is.

use std::time::Duration;

use super::Finding;
use super::facts::{Facts, Machine, Server};
use crate::figures;

/// A longer way than this is told of.
const NEAR: Duration = Duration::from_millis(1);
/// Where programs wait for a core in more than this part of the time, short times tell of nothing else.
const BUSY: f64 = 0.3;
/// Requests in flight of a busy program, to show what a latency comes to.
const IN_FLIGHT: f64 = 64.0;
/// Of a buffer, what is left for data once the kernel's own bookkeeping is taken off (tcp_adv_win_scale 1).
const WINDOW_OF_BUFFER: f64 = 0.5;

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let machine = &facts.machine;
    // What waits for a core takes longer, however near the server is; and nothing is far away on the same machine.
    let told = facts.server.as_ref().filter(|server| !server.is_local && !is_busy(machine));
    let mut findings = vec![buffers(machine, told), cores(machine)];
    findings.extend(facts.server.as_ref().map(|server| latency(machine, server)));
    findings.push(governor(&facts.machine));
    findings
}

fn is_busy(machine: &Machine) -> bool {
    machine.waits_for_cores.is_some_and(|part| part > BUSY)
}

fn cores(machine: &Machine) -> Finding {
    const CHECK: &str = "cores";
    let Some(part) = machine.waits_for_cores else {
        let what = "Whether programs wait for cores is not told.";
        return Finding::remark(CHECK, what, "no /proc/pressure/cpu".into());
    };
    let evidence =
        format!("of the last 10 s, programs waited for one of {} cores in {:.0} %", machine.cores, part * 100.0);
    if is_busy(machine) {
        return Finding::note(
            CHECK,
            "The cores are busy: what takes long here may wait for one.",
            evidence,
            "look again when less runs on this machine (`top` shows what does)",
        );
    }
    Finding::fine(CHECK, "There are cores free.", evidence)
}

/// A connection has at most one window on its way in a round trip.
fn buffers(machine: &Machine, server: Option<&Server>) -> Finding {
    const CHECK: &str = "buffers";
    let (Some(receive), Some(send)) = (machine.tcp_receive_max, machine.tcp_send_max) else {
        return Finding::remark(
            CHECK,
            "The kernel does not tell how large TCP's buffers get.",
            "no net.ipv4.tcp_rmem".into(),
        );
    };
    let smaller = receive.min(send);
    let asked = machine.asked_max.map_or_else(String::new, |(receive, send)| {
        format!("; a program may ask for {} and {}", figures::bytes(receive), figures::bytes(send))
    });
    let sizes = format!("to receive {}, to send {}{asked}", figures::bytes(receive), figures::bytes(send));
    let Some((server, round_trip)) = server.and_then(|server| Some((server, server.round_trip?))) else {
        let far = smaller as f64 * WINDOW_OF_BUFFER / 0.010;
        return Finding::fine(
            CHECK,
            "TCP's buffers grow as needed.",
            format!("{sizes}; over 10 ms a connection carries {}", figures::rate(far)),
        );
    };
    let one = smaller as f64 * WINDOW_OF_BUFFER / round_trip.as_secs_f64().max(1e-6);
    let all = one * server.channels.max(1) as f64;
    let link = server.link_bytes_per_second();
    let evidence = format!(
        "{sizes}; over {} a connection carries {}, {} of them {}; the links {}",
        figures::milliseconds(round_trip),
        figures::rate(one),
        server.channels,
        figures::rate(all),
        figures::rate(link)
    );
    if all >= link {
        return Finding::fine(CHECK, "TCP's buffers hold what is on its way.", evidence);
    }
    let wanted = (link / server.channels.max(1) as f64 * round_trip.as_secs_f64() / WINDOW_OF_BUFFER).ceil() as u64;
    let wanted = wanted.next_multiple_of(1 << 20);
    Finding::problem(
        CHECK,
        "TCP's buffers are too small for the way to the server: connections wait for what could be on its way.",
        evidence,
        format!(
            "sudo sysctl -w net.ipv4.tcp_rmem='4096 131072 {wanted}' net.ipv4.tcp_wmem='4096 65536 {wanted}', here and on the server"
        ),
    )
}

fn latency(machine: &Machine, server: &Server) -> Finding {
    const CHECK: &str = "latency";
    let Some(round_trip) = server.round_trip else {
        return Finding::remark(CHECK, "How far away the server is could not be told.", "no ECHO was answered".into());
    };
    let most = figures::count(IN_FLIGHT / round_trip.as_secs_f64().max(1e-9));
    let evidence = format!(
        "an ECHO takes {}: at most {most} requests a second with {IN_FLIGHT} in flight",
        figures::milliseconds(round_trip)
    );
    if server.is_local {
        return Finding::fine(CHECK, "The server is on this machine.", evidence);
    }
    match round_trip > NEAR {
        true if is_busy(machine) => Finding::remark(
            CHECK,
            "How far away the server is cannot be told: the cores are busy, and an answer waits for one, too.",
            evidence,
        ),
        true => Finding::note(
            CHECK,
            "The server is far away: programs that wait for each answer are slow.",
            evidence,
            "bring machine and server together, or have more requests in flight (`multilane advise` reckons it out)",
        ),
        false => Finding::fine(CHECK, "The server is near.", evidence),
    }
}

fn governor(machine: &Machine) -> Finding {
    const CHECK: &str = "governor";
    if machine.governors.is_empty() {
        return Finding::fine(
            CHECK,
            "This machine does not choose its cores' frequency.",
            "no cpufreq, as in most virtual machines".into(),
        );
    }
    let driver = machine.frequency_driver.as_deref().unwrap_or("unknown");
    let evidence = format!("{} (driver {driver})", machine.governors.join(", "));
    let has = |names: &[&str]| machine.governors.iter().any(|governor| names.contains(&governor.as_str()));
    // Those of intel_pstate and amd-pstate-epp that are called powersave do raise the frequency under load.
    let is_active = driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate");
    let remedy = "sudo cpupower frequency-set -g performance";
    if has(&["powersave"]) && !is_active {
        return Finding::problem(CHECK, "The cores are kept slow to save power.", evidence, remedy);
    }
    match has(&["powersave", "ondemand", "conservative"]) {
        true => Finding::note(
            CHECK,
            "The cores raise their frequency only under load, which short requests hardly are.",
            evidence,
            remedy,
        ),
        false => Finding::fine(CHECK, "The cores run as fast as they may.", evidence),
    }
}
