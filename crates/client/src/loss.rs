//! Why a connection ended.

/// What came between: a clause for the log, and for who asked where there is no other connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss(pub(crate) &'static str);
