//! Profiles in XML, after DiskSpd's schema (diskspd.xsd).

mod fields;
mod read;
mod target;
mod write;

pub use read::read;
pub use write::write;
pub(super) use write::write_into;
