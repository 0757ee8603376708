//! This machine's network interfaces, for pairing with the server's.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use if_addrs::{IfOperStatus, get_if_addrs};

/// The speed of an interface that does not know its own, as those of virtual machines do not.
const SPEED_UNKNOWN: u64 = 10_000_000_000;
/// Where the kernel tells of interfaces.
const SYSTEM: &str = "/sys/class/net";

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalInterface {
    /// Its name.
    pub name: String,
    /// The kernel's number.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Leading bits of the address that its network shares.
    pub prefix_bits: u8,
    /// Bits per second.
    pub link_speed: u64,
    /// It spreads what it receives over several queues.
    pub has_rss: bool,
}

/// Those that are up. Empty where they cannot be read: the routes then decide.
pub(crate) fn of_this_machine() -> Vec<LocalInterface> {
    let all = get_if_addrs().unwrap_or_else(|error| {
        tracing::debug!(%error, "the network interfaces cannot be read");
        Vec::new()
    });
    let up = all.into_iter().filter_map(|interface| {
        let is_up = match interface.oper_status {
            IfOperStatus::Up | IfOperStatus::Unknown | IfOperStatus::Testing | IfOperStatus::Dormant => true,
            IfOperStatus::Down | IfOperStatus::NotPresent | IfOperStatus::LowerLayerDown => false,
        };
        let index = interface.index.filter(|index| *index != 0 && is_up)?;
        let folder = Path::new(SYSTEM).join(&interface.name);
        let prefix_bits = match &interface.addr {
            if_addrs::IfAddr::V4(address) => address.prefixlen,
            if_addrs::IfAddr::V6(address) => address.prefixlen,
        };
        Some(LocalInterface {
            index,
            address: interface.ip(),
            prefix_bits,
            link_speed: speed(&folder),
            has_rss: has_rss(&folder),
            name: interface.name,
        })
    });
    up.collect()
}

/// The kernel tells Mbit/s, and -1 where it does not know.
fn speed(folder: &Path) -> u64 {
    let told = fs::read_to_string(folder.join("speed")).ok().and_then(|text| text.trim().parse::<u32>().ok());
    told.filter(|megabits| *megabits > 0 && *megabits < u32::MAX)
        .map_or(SPEED_UNKNOWN, |speed| u64::from(speed) * 1_000_000)
}

/// True where there is more than one receive queue.
fn has_rss(folder: &Path) -> bool {
    let is_receiving = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("rx-");
    let queues = fs::read_dir(folder.join("queues")).ok();
    queues.is_some_and(|queues| queues.flatten().filter(|queue| is_receiving(&queue.file_name())).nth(1).is_some())
}
