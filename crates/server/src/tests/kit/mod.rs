//! The test kit: what the servers of tests serve, and how clients of tests speak. The hostile tests include it by its path, and those of the
//! simulated network in `multilane` its configuration.

pub(crate) mod client;
pub(crate) mod configuration;
pub(crate) mod frames;
