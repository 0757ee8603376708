//! What the server may use up, and who pays for it: memory and its buffers, budgets, threads, turns. It knows no session and no file.

pub(crate) mod address;
pub(crate) mod allowance;
pub(crate) mod budget;
pub(crate) mod budgets;
pub(crate) mod buffers;
pub(crate) mod by_id;
pub(crate) mod capacity;
#[cfg(test)]
pub(crate) mod capacity_tests;
pub(crate) mod clock;
pub(crate) mod contained;
pub(crate) mod hunger;
pub(crate) mod kept_buffers;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod pace;
pub(crate) mod payer;
pub(crate) mod pool;
pub(crate) mod rate_limit;
pub(crate) mod slice;
pub(crate) mod turns;
#[cfg(test)]
pub(crate) mod turns_tests;
pub(crate) mod usage;
