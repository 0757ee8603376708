//! Tells the audit log of opens and sessions, whoever ends them ([`crate::state::audit`]).

pub(crate) mod of_open;
pub(crate) mod of_session;
