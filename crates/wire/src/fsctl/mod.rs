//! The payloads of the IOCTL control codes that MS-SMB2 itself defines (2.2.31.1 to .4, 2.2.32.1 to .6): the input of a
//! request, the output of a response. Those of MS-FSCC 2.3 are in [`crate::fscc`].

pub mod copychunk;
pub mod network_interface;
pub mod resiliency;
pub mod snapshots;
pub mod validate_negotiate;
