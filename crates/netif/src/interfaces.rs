//! The machine's network interfaces.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use if_addrs::{IfAddr, IfOperStatus, Interface, get_if_addrs};

/// The bits per second of an interface that does not know its own, as those of virtual machines do not: what their drivers for Windows
/// say.
pub const SPEED_UNKNOWN: u64 = 10_000_000_000;
/// Where the kernel tells of interfaces.
const SYSTEM: &str = "/sys/class/net";

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalInterface {
    /// Its name.
    pub name: String,
    /// The kernel's number, never zero.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Leading bits of the address that its network shares.
    pub prefix_bits: u8,
    /// Bits per second, never zero.
    pub link_speed: u64,
    /// It spreads what it receives over several queues.
    pub has_rss: bool,
}

/// Those that are up. Fails where the kernel does not tell.
pub fn of_this_machine() -> io::Result<Vec<LocalInterface>> {
    Ok(get_if_addrs()?.into_iter().filter_map(told).collect())
}

fn told(interface: Interface) -> Option<LocalInterface> {
    let is_up = match interface.oper_status {
        IfOperStatus::Up | IfOperStatus::Unknown | IfOperStatus::Testing | IfOperStatus::Dormant => true,
        IfOperStatus::Down | IfOperStatus::NotPresent | IfOperStatus::LowerLayerDown => false,
    };
    let index = interface.index.filter(|index| *index != 0 && is_up)?;
    let folder = Path::new(SYSTEM).join(&interface.name);
    let prefix_bits = match &interface.addr {
        IfAddr::V4(address) => address.prefixlen,
        IfAddr::V6(address) => address.prefixlen,
    };
    Some(LocalInterface {
        index,
        address: interface.ip(),
        prefix_bits,
        link_speed: speed(&folder),
        has_rss: has_rss(&folder),
        name: interface.name,
    })
}

/// The link speed, which the kernel tells in Mbit/s, and as -1 where it does not know.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_interfaces_with_a_speed() {
        let own = of_this_machine().unwrap();
        assert!(own.iter().any(|own| own.address.is_loopback()));
        assert!(own.iter().all(|own| own.index != 0 && own.link_speed > 0));
    }
}
