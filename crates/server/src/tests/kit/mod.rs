//! The test kit: what the servers of tests serve. The hostile tests and the simulated clients of `multilane` include it by its path.

pub(crate) mod configuration;
