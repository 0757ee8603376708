//! Tests of several modules together, and what they are written with.

pub(crate) mod audit_tests;
pub(crate) mod busy_files_tests;
pub(crate) mod channel_tests;
pub(crate) mod coherence_tests;
pub(crate) mod counters_tests;
pub(crate) mod counters_time_tests;
pub(crate) mod device_tests;
pub(crate) mod ended_tests;
pub(crate) mod failed_change_tests;
pub(crate) mod failover_tests;
pub(crate) mod file_tests;
pub(crate) mod flight_tests;
pub(crate) mod folder_tests;
pub(crate) mod holding_tests;
pub(crate) mod interrupted;
pub(crate) mod kit;
pub(crate) mod lease_tests;
pub(crate) mod limit_tests;
pub(crate) mod names_tests;
pub(crate) mod race_tests;
pub(crate) mod random;
pub(crate) mod rights_tests;
pub(crate) mod testing;
pub(crate) mod undone_tests;
pub(crate) mod virtual_time;
pub(crate) mod waiting_tests;
