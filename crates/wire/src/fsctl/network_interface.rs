//! QUERY_NETWORK_INTERFACE_INFO: the server's addresses, to which a client opens further channels (MS-SMB2 2.2.32.5).
//!
//! ```text
//! offset size  field
//!      0    4  Next             to the next interface; 0 in the last
//!      4    4  IfIndex
//!      8    4  Capability
//!     12    4  Reserved
//!     16    8  LinkSpeed
//!     24  128  SockAddr_Storage Family (2), Port (2), then
//!                               IPv4: address (4); IPv6: FlowInfo (4), address (16), ScopeId (4)
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codec::{Malformed, Reader, Writer};

const LENGTH: usize = 152;
const FAMILY_IPV4: u16 = 0x0002;
const FAMILY_IPV6: u16 = 0x0017;

/// The most interfaces read from one response; a server with more has them cut off.
pub const NETWORK_INTERFACES_MAX: usize = 256;

flags! {
    /// What an interface can do.
    InterfaceCapability(u32) {
        /// Receive side scaling: several connections are worth while.
        RSS_CAPABLE = 0x0000_0001,
        /// RDMA.
        RDMA_CAPABLE = 0x0000_0002,
    }
}

/// NETWORK_INTERFACE_INFO (2.2.32.5). An interface with several addresses is listed with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Names the interface.
    pub index: u32,
    /// What it can do.
    pub capability: InterfaceCapability,
    /// Bits per second.
    pub link_speed: u64,
    /// Its address.
    pub address: IpAddr,
}

impl NetworkInterface {
    /// Appends the output that lists `interfaces`.
    pub fn encode_all(interfaces: &[NetworkInterface], out: &mut Vec<u8>) {
        for (position, interface) in interfaces.iter().enumerate() {
            let last = position + 1 == interfaces.len();
            interface.encode(if last { 0 } else { LENGTH as u32 }, out);
        }
    }

    /// Decodes the output. Interfaces of an unknown address family are left out.
    pub fn decode_all(output: &[u8]) -> Result<Vec<NetworkInterface>, Malformed> {
        let mut interfaces = Vec::new();
        let mut rest = output;
        while !rest.is_empty() && interfaces.len() < NETWORK_INTERFACES_MAX {
            let next = Reader::new(rest).u32()? as usize;
            interfaces.extend(NetworkInterface::decode(rest)?);
            rest = match next {
                0 => &[],
                _ if next < LENGTH => return Err(Malformed("Next of a network interface")),
                _ => rest.get(next..).ok_or(Malformed("Next of a network interface"))?,
            };
        }
        Ok(interfaces)
    }

    fn encode(&self, next: u32, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u32(next);
        writer.u32(self.index);
        writer.u32(self.capability.0);
        writer.u32(0);
        writer.u64(self.link_speed);
        match self.address {
            IpAddr::V4(address) => {
                writer.u16(FAMILY_IPV4);
                writer.u16(0);
                writer.bytes(&address.octets());
            }
            IpAddr::V6(address) => {
                writer.u16(FAMILY_IPV6);
                writer.zeros(6);
                writer.bytes(&address.octets());
            }
        }
        writer.zeros(LENGTH - writer.position());
    }

    fn decode(element: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut reader = Reader::new(element.get(..LENGTH).ok_or(Malformed("length of a network interface"))?);
        reader.skip(4)?;
        let index = reader.u32()?;
        let capability = InterfaceCapability(reader.u32()?);
        reader.skip(4)?;
        let link_speed = reader.u64()?;
        let family = reader.u16()?;
        reader.skip(2)?;
        let address = match family {
            FAMILY_IPV4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
            FAMILY_IPV6 => {
                reader.skip(4)?;
                IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?))
            }
            _ => return Ok(None),
        };
        Ok(Some(NetworkInterface { index, capability, link_speed, address }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> [NetworkInterface; 2] {
        let capability = InterfaceCapability::RSS_CAPABLE;
        [
            NetworkInterface { index: 2, capability, link_speed: 10_000_000_000, address: [192, 0, 2, 1].into() },
            NetworkInterface { index: 3, capability, link_speed: 1, address: Ipv6Addr::LOCALHOST.into() },
        ]
    }

    fn output() -> Vec<u8> {
        let mut output = Vec::new();
        NetworkInterface::encode_all(&interfaces(), &mut output);
        output
    }

    #[test]
    fn interfaces_round_trip() {
        assert_eq!(output().len(), 2 * LENGTH);
        assert_eq!(NetworkInterface::decode_all(&output()), Ok(interfaces().to_vec()));
        assert_eq!(NetworkInterface::decode_all(&[]), Ok(Vec::new()));
    }

    #[test]
    fn truncated_lists_are_malformed() {
        for length in 1..output().len() {
            let whole = length == LENGTH;
            assert_eq!(NetworkInterface::decode_all(&output()[..length]).is_ok(), whole, "{length}");
        }
    }

    #[test]
    fn unknown_families_are_left_out() {
        let mut output = output();
        output[24] = 0x99;
        assert_eq!(NetworkInterface::decode_all(&output), Ok(interfaces()[1..].to_vec()));
    }

    #[test]
    fn a_next_inside_the_interface_is_malformed() {
        let mut output = output();
        output[0] = 8;
        assert!(NetworkInterface::decode_all(&output).is_err());
    }
}
