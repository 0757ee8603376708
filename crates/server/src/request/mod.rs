//! One frame to its answers: unsealed, taken apart, admitted, run, joined and sealed (MS-SMB2 3.3.5.2).

pub(crate) mod admission;
pub(crate) mod answer;
mod audit;
pub(crate) mod chain;
#[cfg(test)]
pub(crate) mod chain_tests;
pub(crate) mod counting;
pub(crate) mod fast_path;
#[cfg(test)]
pub(crate) mod fast_path_tests;
pub(crate) mod finding;
pub(crate) mod inbox;
pub(crate) mod opening;
#[cfg(test)]
pub(crate) mod opening_tests;
pub(crate) mod outbox;
pub(crate) mod pipeline;
#[cfg(test)]
pub(crate) mod proof_tests;
pub(crate) mod responder;
pub(crate) mod response;
pub(crate) mod slow_path;
pub(crate) mod tally;
pub(crate) mod write_batch;
