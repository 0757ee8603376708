//! Who may do what: security identifiers, access control lists and security descriptors (MS-DTYP 2.4).

mod acl;
mod descriptor;
mod sddl;
mod sid;

pub mod access;
pub mod evaluate;
pub mod inherit;

pub use acl::{Ace, AceBody, AceFlags, AceKind, Acl};
pub use descriptor::{Control, SecurityDescriptor, SecurityInformation};
pub use sddl::SddlText;
pub use sid::{Sid, SidText};
