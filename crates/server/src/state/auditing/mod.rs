//! Tells the audit log of opens and sessions, whoever ends them, and of shares that are audited otherwise ([`crate::state::audit`]).

pub(crate) mod of_open;
pub(crate) mod of_session;
pub(crate) mod of_share;
