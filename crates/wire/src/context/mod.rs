//! The contexts of CREATE and of NEGOTIATE: a list of named or numbered blobs, and the types of the known ones.

pub mod app_instance;
pub mod apple;
pub mod create;
pub mod durable;
pub mod lease;
pub mod negotiate;
pub mod posix;
pub mod query;
