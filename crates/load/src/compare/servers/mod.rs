//! The servers that are compared: our own and Samba, started for it, and those that run already.

mod own;
pub(super) mod process;
mod samba;

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use ::client::{Settings, Target};
use serde::Serialize;

use self::own::Operator;
use self::process::Process;
use crate::engine::{Failure, Mount, Stop};
use crate::network::Sides;

/// Which server.
#[derive(Clone)]
pub enum Choice {
    /// Our own, started for the comparison.
    Own {
        /// The program that has the command `serve`.
        program: PathBuf,
    },
    /// Debian's smbd, started for the comparison with a configuration of its own.
    Samba,
    /// One that runs.
    Running {
        /// What reports call it.
        name: String,
        /// Where it is, and who signs in.
        target: Target,
        /// A share that may be written to.
        share: String,
        /// A directory of the share that exists, with `\` between its parts; empty for the share's root.
        folder: String,
    },
}

impl Choice {
    /// What reports call it.
    pub fn name(&self) -> &str {
        match self {
            Choice::Own { .. } => "multilane",
            Choice::Samba => "samba",
            Choice::Running { name, .. } => name,
        }
    }
}

/// What a server that is started has to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Channels that one session may have.
    pub(crate) channels: usize,
    /// Where it runs.
    pub(crate) sides: Sides,
    /// How far away the store of our own server is made to be.
    pub(crate) store_latency: Option<Duration>,
}

/// A server that answers.
pub(crate) struct Server {
    /// What reports call it.
    pub(crate) name: String,
    /// What stands behind it, for reports.
    pub(crate) about: String,
    /// How to sign in. Channels and protection are chosen for each run.
    pub(crate) mount: Mount,
    /// Where in the share its files are; empty for the root.
    pub(crate) folder: String,
    /// Where it was started for the comparison.
    process: Option<Process>,
    /// Changes the account of our own.
    operator: Option<Operator>,
}

/// A server as the report tells of it.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// As in the cases.
    pub name: String,
    /// What it is and where its files are.
    pub about: String,
    /// Its address and port.
    pub address: String,
    /// Its CPU time is known.
    pub is_ours: bool,
}

impl Server {
    /// Starts a server, or takes one that runs.
    pub(crate) fn start(choice: &Choice, wanted: Wanted, stop: &Stop) -> Result<Self, Failure> {
        match choice {
            Choice::Own { program } => own::start(program, wanted),
            Choice::Samba => samba::start(wanted.sides, stop),
            Choice::Running { name, target, share, folder } => Ok(Server {
                name: name.clone(),
                about: format!("runs already; files in {share}\\{folder}"),
                mount: Mount { server: target.clone(), settings: Settings::default(), share: share.clone() },
                folder: folder.clone(),
                process: None,
                operator: None,
            }),
        }
    }

    /// True where it was there before and will be after.
    pub(crate) fn stays(&self) -> bool {
        self.process.is_none()
    }

    /// True where its account is ours to change.
    pub(crate) fn has_operator(&self) -> bool {
        self.operator.is_some()
    }

    /// Switches metadata caching `on` or `off` for sessions that begin after this, where the account is ours.
    pub(crate) fn cache_metadata(&self, switch: &str) -> Result<(), Failure> {
        self.operator.as_ref().map_or(Ok(()), |operator| operator.cache_metadata(switch))
    }

    /// CPU time of all its processes so far; `None` where it is not ours.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.process.as_ref().map(Process::cpu)
    }

    /// Memory of all its processes, pages that several have counted by their share (PSS); `None` where it is not ours.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.process.as_ref().map(Process::memory_bytes)
    }

    /// For the report.
    pub(crate) fn description(&self) -> Description {
        Description {
            name: self.name.clone(),
            about: self.about.clone(),
            address: format!("{}:{}", self.mount.server.host, self.mount.server.port),
            is_ours: self.process.is_some(),
        }
    }
}

/// The address that a client of these hosts begins with.
fn first_address(sides: Sides) -> IpAddr {
    sides.server_addresses().first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// A port of the loopback address that nobody listens on.
fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|cause| Failure {
        what: format!("no port is free: {cause}"),
        remedy: "see what this machine lacks".to_owned(),
    })
}
