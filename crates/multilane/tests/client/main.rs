//! The client library against the server, in memory and in virtual time.

mod basics;
mod chance;
mod configuration;
mod failover;
mod frames;
mod hostile;
mod line;
mod network;
mod seeds;
mod signing;
mod spread;
mod witness;

use server::admin;
