//! What a file is like where an overwrite failed.

pub(crate) use store::Left;
