//! The client library against the server, in memory and in virtual time.

mod basics;
mod failover;
mod hostile;
mod network;
mod signing;
