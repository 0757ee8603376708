//! The contexts of CREATE and of NEGOTIATE: a list of named or numbered blobs, and the types of the known ones.

pub mod create;
pub mod negotiate;
