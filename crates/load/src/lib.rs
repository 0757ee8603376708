//! Load: what a workload is, how it is run against a server through our own client, and what it came to.
//!
//! A [`profile::Profile`] says what to do, in DiskSpd's terms; running it gives [`results::Results`]. The DiskSpd command line and
//! reports, the comparison of channel counts, the advice and the doctor all stand on these two.
//!
//! # Example
//!
//! Reads of a file are measured for ten seconds; where its path leads, the caller says:
//!
//! ```no_run
//! use load::engine::{Failure, Phase, Places, Stop, Watch, run};
//! use load::profile::{Profile, Target, TimeSpan};
//!
//! struct Quiet;
//! impl Watch for Quiet {
//!     fn phase(&self, _: usize, _: Phase) {}
//!     fn note(&self, _: &str) {}
//! }
//!
//! /// Mebibytes that were read from `path`.
//! fn read(path: &str, places: &dyn Places) -> Result<u64, Failure> {
//!     let time_span = TimeSpan { targets: vec![Target::new(path)], ..TimeSpan::default() };
//!     let results = run(&Profile { time_spans: vec![time_span], ..Profile::default() }, places, &Quiet, &Stop::default())?;
//!     let threads = results.time_spans.iter().flat_map(|time_span| &time_span.threads);
//!     Ok(threads.flat_map(|thread| &thread.targets).map(|target| target.read.bytes).sum::<u64>() >> 20)
//! }
//! ```

pub mod advise;
pub mod compare;
pub mod diskspd;
pub mod doctor;
pub mod engine;
pub mod figures;
pub mod growth;
pub mod network;
pub mod profile;
pub mod raw;
pub mod results;
