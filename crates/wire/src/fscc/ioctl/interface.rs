//! The server's network interfaces (MS-SMB2 2.2.32.5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codec::{Malformed, Reader, Writer};
use crate::fscc::chain::{Chain, ChainWriter};

/// Entries are aligned on eight bytes; they are 152 bytes long.
const ALIGNMENT: usize = 8;
const ENTRY_BYTES: usize = 152;
const SOCKADDR_BYTES: usize = 128;
/// InterNetwork.
const FAMILY_IPV4: u16 = 0x0002;
/// InterNetworkV6.
const FAMILY_IPV6: u16 = 0x0017;

flags! {
    /// What an interface can do (MS-SMB2 2.2.32.5).
    InterfaceCapability(u32) {
        /// Spreads what it receives over processors.
        RSS_CAPABLE = 0x01,
        /// Remote direct memory access.
        RDMA_CAPABLE = 0x02,
    }
}

/// One address of one interface (NETWORK_INTERFACE_INFO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's number; its addresses share it.
    pub index: u32,
    /// What it can do.
    pub capability: InterfaceCapability,
    /// Bits per second.
    pub link_speed: u64,
    /// The address; `None` for a family that is neither IPv4 nor IPv6.
    pub address: Option<IpAddr>,
}

/// Walks an answer to FSCTL_QUERY_NETWORK_INTERFACE_INFO.
pub fn interfaces(bytes: &[u8]) -> impl Iterator<Item = Result<Interface, Malformed>> + '_ {
    Chain::new(bytes, ALIGNMENT).map(|entry| {
        let mut reader = Reader::at(entry?, 4);
        let index = reader.u32()?;
        let capability = InterfaceCapability(reader.u32()?);
        reader.skip(4)?;
        let link_speed = reader.u64()?;
        Ok(Interface { index, capability, link_speed, address: read_address(reader.bytes(SOCKADDR_BYTES)?)? })
    })
}

/// SOCKADDR_STORAGE (MS-SMB2 2.2.32.5.1): the family is little-endian, the rest in network order.
fn read_address(bytes: &[u8]) -> Result<Option<IpAddr>, Malformed> {
    let mut reader = Reader::new(bytes);
    let family = reader.u16()?;
    reader.skip(2)?;
    Ok(match family {
        FAMILY_IPV4 => Some(IpAddr::from(reader.array::<4>()?)),
        FAMILY_IPV6 => {
            reader.skip(4)?;
            Some(IpAddr::from(reader.array::<16>()?))
        }
        _ => None,
    })
}

/// Writes an answer to FSCTL_QUERY_NETWORK_INTERFACE_INFO.
#[derive(Debug)]
pub struct InterfaceWriter<'a>(ChainWriter<'a>);

impl<'a> InterfaceWriter<'a> {
    /// Appends to `out` at most `limit_bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit_bytes: usize) -> Self {
        InterfaceWriter(ChainWriter::new(out, limit_bytes, ALIGNMENT))
    }

    /// Appends one interface. False, and nothing is written, where it does not fit.
    pub fn push(&mut self, interface: &Interface) -> bool {
        let Some(writer) = self.0.entry(ENTRY_BYTES) else { return false };
        writer.u32(0);
        writer.u32(interface.index);
        writer.u32(interface.capability.0);
        writer.u32(0);
        writer.u64(interface.link_speed);
        let start = writer.position();
        match interface.address {
            Some(IpAddr::V4(address)) => write_ipv4(writer, address),
            Some(IpAddr::V6(address)) => write_ipv6(writer, address),
            None => {}
        }
        writer.zeros(SOCKADDR_BYTES - (writer.position() - start));
        true
    }
}

fn write_ipv4(writer: &mut Writer<'_>, address: Ipv4Addr) {
    writer.u16(FAMILY_IPV4);
    writer.u16(0);
    writer.bytes(&address.octets());
}

fn write_ipv6(writer: &mut Writer<'_>, address: Ipv6Addr) {
    writer.u16(FAMILY_IPV6);
    writer.u16(0);
    writer.u32(0);
    writer.bytes(&address.octets());
}
