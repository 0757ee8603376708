//! Multichannel: on at both sides, and as many channels as the interfaces suggest.

use client::Channels;

use super::Finding;
use super::facts::{Facts, Server, Told};
use crate::advise::share::AZURE_CHANNELS_MAX;
use crate::figures;

const CHECK: &str = "multichannel";

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let Some(server) = &facts.server else { return Vec::new() };
    let mut findings = Vec::new();
    findings.extend(off_here(server));
    findings.extend(off_there(server));
    if findings.is_empty() {
        findings.push(channels(server));
        findings.extend(maximum(server));
        findings.extend(too_many(server));
    }
    findings
}

fn off_here(server: &Server) -> Option<Finding> {
    let settings = &server.settings;
    let maximum = settings.maximum_connection_count_per_server;
    let is_off = maximum <= 1 || matches!(settings.channels, Channels::Exactly(0..=1));
    is_off.then(|| {
        Finding::problem(
            CHECK,
            "Multichannel is off at this client.",
            format!("channels {:?}, MaximumConnectionCountPerServer {maximum}", settings.channels),
            "leave out --channels 1 and --set EnableMultiChannel=False (Windows: Set-SmbClientConfiguration -EnableMultiChannel $true)",
        )
    })
}

fn off_there(server: &Server) -> Option<Finding> {
    let (what, evidence, remedy) = if !server.agreed.has_multichannel {
        (
            "The server has multichannel off.",
            "its answer to NEGOTIATE lacks SMB2_GLOBAL_CAP_MULTI_CHANNEL".to_owned(),
            "multilane account update ACCOUNT --multichannel on (Samba: server multi channel support = yes; Windows: \
             Set-SmbServerConfiguration -EnableMultiChannel $true; Azure Files: in the SMB settings of the storage account)",
        )
    } else {
        match &server.told {
            Told::NotSupported => (
                "Multichannel is off for the account of this user.",
                "the server offers it, and answers the question for its interfaces with NOT_SUPPORTED".to_owned(),
                "multilane account update ACCOUNT --multichannel on",
            ),
            Told::Refused(cause) => ("The server does not tell its interfaces.", cause.clone(), "see the server's log"),
            Told::Interfaces(_) => return None,
        }
    };
    Some(Finding::problem(CHECK, what, evidence, remedy))
}

fn channels(server: &Server) -> Finding {
    let wanted: usize = server.pairs.iter().map(|pair| pair.connections).sum();
    let addresses: Vec<String> = server.pairs.iter().map(|pair| pair.address.to_string()).collect();
    let evidence = format!(
        "{} of {wanted}, over {} of interfaces, to {}",
        figures::so_many(server.channels, "channel"),
        figures::so_many(server.pairs.len(), "pair"),
        if addresses.is_empty() { "nowhere".to_owned() } else { addresses.join(", ") }
    );
    if server.pairs.is_empty() {
        return Finding::problem(
            CHECK,
            "None of the server's addresses goes with one of this machine's.",
            evidence,
            "multilane client connections smb://SERVER/SHARE shows what is used; have the server tell addresses that this machine can reach",
        );
    }
    match &server.refusal {
        _ if server.channels >= wanted => {
            Finding::fine(CHECK, "There are as many channels as the interfaces suggest.", evidence)
        }
        Some(cause) => Finding::problem(
            CHECK,
            "There are fewer channels than the interfaces suggest.",
            format!("{evidence}; {cause}"),
            "raise the server's bound (multilane serve --channels-max N), or mend the way to the address that is named",
        ),
        None => Finding::problem(
            CHECK,
            "There are fewer channels than the interfaces suggest.",
            evidence,
            "run multilane doctor again; if it stays so, see what comes between: a firewall, or a bound on connections",
        ),
    }
}

fn maximum(server: &Server) -> Option<Finding> {
    let maximum = server.settings.maximum_connection_count_per_server;
    (server.channels_without_maximum > maximum).then(|| {
        Finding::problem(
            "maximum",
            "The client's maximum leaves out channels that the interfaces suggest.",
            format!("MaximumConnectionCountPerServer {maximum}, suggested {}", server.channels_without_maximum),
            format!("--set MaximumConnectionCountPerServer={}", server.channels_without_maximum.min(64)),
        )
    })
}

fn too_many(server: &Server) -> Option<Finding> {
    let pairs = server.pairs.len();
    (server.is_azure && server.channels > AZURE_CHANNELS_MAX).then(|| {
        Finding::problem(
            "maximum",
            "Azure Files takes four channels of a session; with more it is slower.",
            format!("{} channels over {pairs} pairs", server.channels),
            format!("--set ConnectionCountPerRssNetworkInterface={}", (AZURE_CHANNELS_MAX / pairs.max(1)).max(1)),
        )
    })
}
