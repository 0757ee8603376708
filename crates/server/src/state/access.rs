//! What an open's rights have its data be used for.

use wire::security::access::{APPEND_DATA, EXECUTE, READ_DATA, WRITE_DATA};

/// What a node's data will be used for, from the rights asked for.
pub(crate) fn usage(access: u32) -> store::Use {
    if access & (WRITE_DATA | APPEND_DATA) != 0 {
        store::Use::ReadWrite
    } else if access & (READ_DATA | EXECUTE) != 0 {
        store::Use::Read
    } else {
        store::Use::Metadata
    }
}
