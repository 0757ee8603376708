//! The create contexts of a response (MS-SMB2 2.2.14.2): the lease, maximal access and the on-disk id.

use store::Metadata;
use wire::context::create::{CreateContextsBuilder, name};
use wire::status::Status;

use super::plan::Plan;
use crate::state::caching::Granted;

/// The answer to a question for maximal access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maximal {
    /// What the user could be granted.
    Access(u32),
    /// The client knows the file as it is now.
    Known,
}

/// The contexts, to which more may be added.
pub(super) fn answer(
    plan: &Plan,
    known: &Metadata,
    maximal: Option<Maximal>,
    caching: Granted,
) -> CreateContextsBuilder {
    let mut builder = CreateContextsBuilder::new();
    if let Some(maximal) = maximal {
        let (status, access) = match maximal {
            Maximal::Access(access) => (Status::SUCCESS, access),
            Maximal::Known => (Status::NONE_MAPPED, 0),
        };
        let mut data = status.0.to_le_bytes().to_vec();
        data.extend_from_slice(&access.to_le_bytes());
        builder.add(name::QUERY_MAXIMAL_ACCESS, &data);
    }
    if let Granted::Lease(lease) = caching {
        builder.add(name::LEASE, &lease.to_bytes());
    }
    // MS-SMB2 3.3.5.9.9.
    if plan.wants_disk_id {
        let mut data = [0; 32];
        data[..8].copy_from_slice(&known.identity.file.to_le_bytes());
        data[8..16].copy_from_slice(&known.identity.volume.to_le_bytes());
        builder.add(name::QUERY_ON_DISK_ID, &data);
    }
    builder
}
