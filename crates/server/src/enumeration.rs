//! Where a QUERY_DIRECTORY stands on one open.

/// The names that are left.
pub(crate) struct Enumeration {}
