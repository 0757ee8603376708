//! Tells the audit log of opens and sessions, whoever ends them, of shares that are audited otherwise, and of what other interfaces refuse ([`crate::state::audit`]).

pub(crate) mod of_open;
pub(crate) mod of_request;
pub(crate) mod of_session;
pub(crate) mod of_share;
