//! Where the server listens for SMB.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;

use control::{DataFolder, Error, is_for_machine};
use insight::audit::AuditLog;
use server::admin::{AuditSink, Configuration};
use server::{Config, Server};
use tracing::warn;

use super::unable;
use crate::arguments::Serve;
use crate::listening::not_listening;

/// The port that clients use unless told otherwise; only root may take it.
const PORT: u16 = 445;
/// The port that everybody may take.
const PORT_FREE_FOR_ALL: u16 = 4450;

/// Where the server listens.
pub(super) struct Sockets {
    /// What the service manager listens on for it.
    passed: Vec<TcpListener>,
    /// What was asked for by address.
    listen: Vec<SocketAddr>,
}

impl Sockets {
    /// Those that are passed, and others at the addresses asked for. `published` is an account whose key everybody knows, if there is one.
    pub(super) fn of(
        passed: Vec<TcpListener>,
        listen: Vec<SocketAddr>,
        arguments: &Serve,
        published: Option<&str>,
    ) -> Result<Self, Error> {
        let mut sockets = Sockets { passed, listen };
        if arguments.dev && sockets.passed.is_empty() && sockets.listen.is_empty() {
            sockets.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_FREE_FOR_ALL))];
        }
        if let Some(account) = published {
            keep_to_this_machine(&sockets.passed, &sockets.listen, account)?;
        }
        Ok(sockets)
    }

    /// Starts the server there; where nothing was passed or asked for, on port 445 for root where it is free, else on 4450.
    pub(super) fn start(
        self,
        folder: &DataFolder,
        arguments: &Serve,
        configuration: &Configuration,
        audit_log: &Arc<AuditLog>,
    ) -> Result<Server, Error> {
        let shards = arguments.threads.map_or(0, usize::from);
        let metadata_cache_bytes = arguments.metadata_cache.map(NonZeroU64::get);
        let on = |listen: Vec<SocketAddr>| {
            let config = Config { listen, shards, opens: Some(folder.opens()), metadata_cache_bytes };
            let sink: Arc<dyn AuditSink> = Arc::<AuditLog>::clone(audit_log);
            let passed = self.passed.iter().map(TcpListener::try_clone).collect::<io::Result<_>>()?;
            Server::start_on(passed, &config, configuration.clone(), sink)
        };
        if !self.passed.is_empty() || !self.listen.is_empty() {
            return on(self.listen.clone()).map_err(|cause| not_started(&cause));
        }
        if rustix::process::geteuid().is_root() {
            match on(everywhere(PORT)) {
                Err(cause) if matches!(cause.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {
                    warn!(name: "port_taken", error = %cause, "port {PORT} cannot be had, so clients need to name port {PORT_FREE_FOR_ALL}");
                }
                started => return started.map_err(|cause| not_started(&cause)),
            }
        }
        on(everywhere(PORT_FREE_FOR_ALL)).map_err(|cause| not_started(&cause))
    }
}

/// Refuses to listen where others than this machine could use a key that everybody knows.
pub(super) fn keep_to_this_machine(passed: &[TcpListener], listen: &[SocketAddr], account: &str) -> Result<(), Error> {
    let passed = passed.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    let passed = passed.map_err(|cause| unable("ask where the service manager listens", &cause))?;
    let all: Vec<_> = passed.into_iter().chain(listen.iter().copied()).collect();
    match all.iter().find(|address| !is_for_machine(**address)) {
        None if !all.is_empty() => Ok(()),
        other => Err(Error::argument(
            format!(
                "the server would listen on {}, and everybody knows the key of the account {account}",
                other.map_or("every address".to_owned(), SocketAddr::to_string)
            ),
            format!(
                "listen on this machine alone, with --listen 127.0.0.1:4450, or give the account other keys: `multilane account keys {account} --regenerate 1`"
            ),
        )),
    }
}

/// All addresses of the machine: one socket for both protocols where the kernel allows that.
fn everywhere(port: u16) -> Vec<SocketAddr> {
    let (v4, v6) = (SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_err() {
        return vec![v4];
    }
    let apart = fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "1");
    if apart { vec![v4, v6] } else { vec![v6] }
}

fn not_started(cause: &io::Error) -> Error {
    not_listening("the server did not start", "--listen ADDRESS:PORT", cause)
}
