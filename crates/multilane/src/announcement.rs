//! Announces the server by mDNS (Bonjour), so that people find it without its name, and Macs its shares for Time Machine.
//!
//! That is left to Avahi, which has the machine's one responder, and is asked over the system bus. It withdraws what it announces when the connection
//! ends, however the server ends. Where there is no bus or no Avahi the server runs without being announced, and they are looked for now and then.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use control::{KnownCatalog, ShareRecord};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use zbus::zvariant::OwnedObjectPath;
use zbus::{Connection, Proxy, connection};

/// Avahi on the system bus.
const AVAHI: &str = "org.freedesktop.Avahi";
const SERVER: &str = "org.freedesktop.Avahi.Server";
const GROUP: &str = "org.freedesktop.Avahi.EntryGroup";
/// Any network and any protocol of it, as Avahi says it.
const ANY: i32 = -1;
/// States of a group of services: another host has the name, and something went wrong.
const COLLISION: i32 = 3;
const FAILURE: i32 = 4;

/// How long Avahi has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long the bus has to let the server in. What is read until then has no bound of its own.
const LET_IN_WITHIN: Duration = Duration::from_secs(2);
/// How long the thread has to end.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
/// How often it is looked whether shares have changed, or Avahi has gone.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long until Avahi is looked for again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// A model, by which Macs choose an icon: the same that they are told by SMB.
const MODEL: &str = "model=PowerMac";
/// The ports of services that are only told of, as Apple has them.
const DEVICE_PORT: u16 = 0;
const DISK_PORT: u16 = 9;
/// The disks of an `_adisk` service: its system, and then one for each share. 0x82: by SMB, for Time Machine.
const SYSTEM: &str = "sys=waMa=0,adVF=0x100";
/// The most shares that are told of, so that a record stays within a packet.
const SHARES_MAX: usize = 32;
/// The most bytes of a share's name in a text, which has 255 at the most (RFC 6763 6.1).
const NAME_BYTES_MAX: usize = 255 - "dk31=adVN=,adVF=0x82".len();

/// The thread that has the server announced. It ends with this.
pub(crate) struct Announcement {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<(JoinHandle<()>, mpsc::Receiver<Infallible>)>,
}

impl Announcement {
    /// Begins to announce a server of this name that listens there. Nothing waits for Avahi.
    pub(crate) fn start(catalog: KnownCatalog, name: String, listen: &[SocketAddr]) -> io::Result<Self> {
        let Some(port) = reachable(listen) else {
            warn!(name: "not_announced", error = "the server listens on loopback addresses alone", "the server is not announced by mDNS");
            return Ok(Announcement { stop: None, thread: None });
        };
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let announcer = Announcer { catalog, name, port };
        let (ends, ended) = mpsc::channel::<Infallible>();
        let run = move || {
            let _ends = ends;
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = announcer.run() => {}
                }
            });
        };
        let thread = thread::Builder::new().name("announcement".to_owned()).spawn(run)?;
        Ok(Announcement { stop: Some(stop), thread: Some((thread, ended)) })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.stop.take();
        // Whoever is at the bus's other end may keep it busy: then it ends with the process.
        if let Some((thread, ended)) = self.thread.take()
            && ended.recv_timeout(ENDS_WITHIN) == Err(RecvTimeoutError::Disconnected)
        {
            // What it panicked with is in the log.
            let _ = thread.join();
        }
    }
}

/// A port at which other machines reach the server.
fn reachable(listen: &[SocketAddr]) -> Option<u16> {
    listen.iter().find(|address| !address.ip().is_loopback()).map(SocketAddr::port)
}

struct Announcer {
    catalog: KnownCatalog,
    name: String,
    port: u16,
}

impl Announcer {
    async fn run(&self) -> Infallible {
        let mut is_told = false;
        loop {
            let Err(cause) = self.announce(&mut is_told).await;
            // Once, however often Avahi is looked for.
            if !std::mem::replace(&mut is_told, true) {
                warn!(name: "not_announced", error = %cause, "the server is not announced by mDNS");
            }
            sleep(TRY_AGAIN_AFTER).await;
        }
    }

    /// Announces for as long as Avahi is there. `is_told` says whether the log has that it was not; it is false again once something is announced.
    async fn announce(&self, is_told: &mut bool) -> zbus::Result<Infallible> {
        let bus = connection::Builder::system()?.method_timeout(ANSWER_WITHIN).build();
        let late = |_| zbus::Error::Failure("the system bus does not let the server in in time".to_owned());
        let bus = timeout(LET_IN_WITHIN, bus).await.map_err(late)??;
        let avahi = Proxy::new(&bus, AVAHI, "/", SERVER).await?;
        let group = new_group(&bus, &avahi).await?;
        let (mut name, mut announced) = (self.name.clone(), Vec::new());
        loop {
            match group.call("GetState", &()).await? {
                COLLISION => {
                    name = avahi.call("GetAlternativeServiceName", &(name,)).await?;
                    announced.clear();
                }
                FAILURE => return Err(zbus::Error::Failure("Avahi failed to announce it".to_owned())),
                _ => {}
            }
            let wanted = services(self.port, &self.catalog.shares());
            if wanted != announced {
                let () = group.call("Reset", &()).await?;
                for Service { kind, port, texts } in &wanted {
                    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
                    let service = (ANY, ANY, 0_u32, &name, kind, "", "", port, texts);
                    let () = group.call("AddService", &service).await?;
                }
                let () = group.call("Commit", &()).await?;
                let shares =
                    wanted.iter().map(|service| service.texts.len().saturating_sub(1)).max().unwrap_or_default();
                info!(name: "announced", service = name, port = self.port, time_machine_shares = shares, "the server is announced by mDNS");
                (announced, *is_told) = (wanted, false);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

async fn new_group<'a>(bus: &'a Connection, avahi: &Proxy<'_>) -> zbus::Result<Proxy<'a>> {
    let path: OwnedObjectPath = avahi.call("EntryGroupNew", &()).await?;
    Proxy::new(bus, AVAHI, path, GROUP).await
}

/// Something that is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    kind: &'static str,
    port: u16,
    /// The texts of its record.
    texts: Vec<String>,
}

/// What is announced of a server at `port` that has these shares.
fn services(port: u16, shares: &[ShareRecord]) -> Vec<Service> {
    let mut services = vec![
        Service { kind: "_smb._tcp", port, texts: Vec::new() },
        Service { kind: "_device-info._tcp", port: DEVICE_PORT, texts: vec![MODEL.to_owned()] },
    ];
    let names = shares.iter().filter(|share| share.time_machine).map(|share| share.name.as_str());
    let disks: Vec<String> = disks(names).collect();
    if !disks.is_empty() {
        let texts = [SYSTEM.to_owned()].into_iter().chain(disks).collect();
        services.push(Service { kind: "_adisk._tcp", port: DISK_PORT, texts });
    }
    services
}

/// The texts that tell of shares for Time Machine. One whose name has a comma, or is too long for a text, cannot be told of.
fn disks<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let can_be_told = |name: &&str| !name.contains(',') && name.len() <= NAME_BYTES_MAX;
    let disk = |(number, name): (usize, &str)| format!("dk{number}=adVN={name},adVF=0x82");
    names.filter(can_be_told).take(SHARES_MAX).enumerate().map(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_reach_is_announced() {
        let at = |address: &str| address.parse().unwrap();
        assert_eq!(reachable(&[at("127.0.0.1:4450"), at("[::1]:4450")]), None);
        assert_eq!(reachable(&[at("127.0.0.1:4450"), at("0.0.0.0:445")]), Some(445));
        assert_eq!(reachable(&[at("[::]:4451")]), Some(4451));
    }

    #[test]
    fn shares_for_time_machine_are_told_of_one_by_one() {
        let long = "x".repeat(240);
        let told: Vec<String> = disks(["macs", "a,b", &long, "more"].into_iter()).collect();
        assert_eq!(told, ["dk0=adVN=macs,adVF=0x82", "dk1=adVN=more,adVF=0x82"]);
        assert_eq!(disks(std::iter::repeat_n("macs", 99)).count(), SHARES_MAX);
    }

    #[test]
    fn a_server_without_such_shares_says_nothing_of_them() {
        let services = services(445, &[]);
        let kinds: Vec<&str> = services.iter().map(|service| service.kind).collect();
        assert_eq!(kinds, ["_smb._tcp", "_device-info._tcp"]);
        assert_eq!(services[0].port, 445);
    }
}
