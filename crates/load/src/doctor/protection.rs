//! What signing and sealing cost here, beside what the links carry.

use client::{Protection, SigningAlgorithm};

use super::Finding;
use super::facts::{Facts, Machine, Server};
use crate::figures;

/// A core that protects less lacks instructions for AES.
const SLOW: f64 = 500e6;
/// How much faster another way has to be to be worth a word.
const MUCH: f64 = 2.0;

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    if facts.machine.protections.is_empty() {
        return vec![Finding::remark(
            "protection",
            "What signing and sealing cost here was not measured.",
            "no result".into(),
        )];
    }
    match &facts.server {
        None => vec![in_general(&facts.machine)],
        Some(server) => in_use(&facts.machine, server),
    }
}

fn shown(machine: &Machine) -> String {
    let each = machine.protections.iter().map(|(protection, speed)| format!("{protection} {}", figures::rate(*speed)));
    format!("one core: {}", each.collect::<Vec<_>>().join(", "))
}

fn speed(machine: &Machine, of: Protection) -> Option<f64> {
    machine.protections.iter().find(|(protection, _)| *protection == of).map(|(_, speed)| *speed)
}

fn in_general(machine: &Machine) -> Finding {
    const CHECK: &str = "protection";
    let fastest = machine.protections.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    match fastest < SLOW {
        true => Finding::note(
            CHECK,
            "Signing and sealing are slow here: the processor lacks instructions for AES, or a virtual machine hides them.",
            shown(machine),
            "grep -m1 -o -w aes /proc/cpuinfo, and have the host pass the processor through",
        ),
        false => Finding::fine(CHECK, "What one core signs and seals, in messages of 1 MiB.", shown(machine)),
    }
}

fn in_use(machine: &Machine, server: &Server) -> Vec<Finding> {
    let signing = Protection::Signing(server.agreed.signing);
    let sealing = server.agreed.cipher.map(Protection::Sealing);
    let mut findings = Vec::new();
    match sealing.filter(|_| server.is_sealed) {
        Some(sealing) => findings.push(judge(machine, server, "sealing", sealing)),
        None if server.agreed.is_signed => findings.push(judge(machine, server, "signing", signing)),
        None => findings.push(Finding::fine("signing", "Messages are neither signed nor sealed.", shown(machine))),
    }
    if !server.is_sealed {
        findings.push(match sealing {
            Some(sealing) => {
                let speed = speed(machine, sealing).map_or_else(|| "unknown".to_owned(), figures::rate);
                Finding::fine(
                    "sealing",
                    format!("Nothing is sealed; {sealing} would be used."),
                    format!("one core: {speed}"),
                )
            }
            None => Finding::remark(
                "sealing",
                "Nothing could be sealed: server and client have no cipher in common.",
                "no cipher in NEGOTIATE".into(),
            ),
        });
    }
    findings
}

/// One way that is in use: can the cores keep up with the links, and is there a much faster one?
fn judge(machine: &Machine, server: &Server, check: &'static str, used: Protection) -> Finding {
    let Some(speed) = speed(machine, used) else {
        return Finding::remark(check, format!("{used} is in use; what it costs was not measured."), shown(machine));
    };
    let others = machine.protections.iter().filter(|(other, _)| could_replace(*other, used, server));
    let best = others.max_by(|a, b| a.1.total_cmp(&b.1));
    let link = server.link_bytes_per_second();
    let evidence = format!(
        "{used} in use; {}; the links carry {}: {:.1} of {} cores for that alone",
        shown(machine),
        figures::rate(link),
        link / speed,
        machine.cores
    );
    let better = best.filter(|(_, of_best)| *of_best > speed * MUCH).map(|(best, _)| best);
    let is_too_slow = link > speed * machine.cores as f64;
    match (is_too_slow, better) {
        (true, Some(better)) => Finding::problem(
            check,
            format!("{used} is slower here than the links, and {better} is not in use."),
            evidence,
            remedy(*better, used),
        ),
        (true, None) => Finding::problem(
            check,
            format!("All cores together do not protect as fast as the links carry: {used} is what holds them back."),
            evidence,
            "more cores; or, where the network is trusted, no more protection than needed: multilane server set signing enabled; multilane server set sealing enabled",
        ),
        (false, Some(better)) => Finding::note(
            check,
            format!("{used} takes more of the cores than {better} would."),
            evidence,
            remedy(*better, used),
        ),
        (false, None) => {
            Finding::fine(check, format!("{used} is in use, and the cores keep up with the links."), evidence)
        }
    }
}

/// What protects as much as `used` does, and could be in use instead. GMAC is none of these where there are several
/// channels: the legs of their binds repeat its nonces under the session's key.
fn could_replace(other: Protection, used: Protection, server: &Server) -> bool {
    match (used, other) {
        (Protection::Signing(_), Protection::Signing(SigningAlgorithm::AesGmac)) => !server.agreed.has_multichannel,
        (Protection::Signing(_), Protection::Sealing(cipher)) => server.agreed.cipher == Some(cipher),
        (Protection::Signing(_), Protection::Signing(_)) | (Protection::Sealing(_), Protection::Sealing(_)) => true,
        (Protection::Sealing(_), Protection::Signing(_)) => false,
    }
}

/// How one comes from what is used to something better.
fn remedy(better: Protection, used: Protection) -> String {
    let wire = better.to_string();
    match (used, better) {
        (_, Protection::Signing(_)) => {
            format!("have the server take {wire} (Samba: server smb3 signing algorithms = {wire})")
        }
        (Protection::Signing(_), Protection::Sealing(_)) => format!(
            "seal with {wire}, which protects more and costs less: --seal here, or multilane share update SHARE --seal (Samba: \
             server smb encrypt = desired; Windows: Set-SmbShare -EncryptData $true)"
        ),
        (Protection::Sealing(_), Protection::Sealing(_)) => format!(
            "have the server take {wire} (Samba: server smb3 encryption algorithms = {wire}; Windows: Set-SmbServerConfiguration \
             -EncryptionCiphers {})",
            wire.replace('-', "_")
        ),
    }
}
