//! Tests of both stores through their public face.

#[macro_use]
mod common;
mod copies;

mod append;
mod behaviour;
mod cached;
mod cached_apart;
mod cached_listed;
mod cached_listed_apart;
mod cached_listed_bounds;
mod cached_listed_pieces;
mod cached_listed_races;
mod cached_listed_storms;
mod clones;
mod delayed;
mod directory;
mod extras;
mod fence;
mod handles;
mod model;
mod nested;
mod quota;
mod ram;
mod replace;
mod served;
mod stress;
mod watch;
