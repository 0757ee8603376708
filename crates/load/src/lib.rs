//! Load: what a workload is, how it is run against a server through our own client, and what it came to.
//!
//! A [`profile::Profile`] says what to do, in DiskSpd's terms; running it gives [`results::Results`]. The DiskSpd command line and
//! reports, the comparison of channel counts, the advice and the doctor all stand on these two.

pub mod advise;
pub mod compare;
pub mod diskspd;
pub mod doctor;
pub mod engine;
mod figures;
pub mod growth;
pub mod network;
pub mod profile;
pub mod raw;
pub mod results;
