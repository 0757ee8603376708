//! What is asked of servers, a file for each command.

pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod flush;
pub(crate) mod ioctl;
pub(crate) mod query_directory;
pub(crate) mod query_info;
pub(crate) mod read;
pub(crate) mod set_info;
pub(crate) mod tree_connect;
pub(crate) mod tree_disconnect;
pub(crate) mod write;
