//! Tests of both stores through their public face.

#[macro_use]
mod common;

mod behaviour;
mod directory;
mod extras;
mod fence;
mod model;
mod ram;
mod watch;
