//! What a catalog says that no program wrote.

use crate::Error;

/// The setting of this name makes no sense.
pub(super) fn wrong(name: &str) -> Error {
    let what = format!("the catalog's setting {name} makes no sense");
    Error::machine(what, "correct it in the table `setting` of catalog.db, or restore that file from a copy")
}

/// A row of `table` says in `column` what no program wrote.
pub(super) fn wrong_in(table: &str, column: &str) -> Error {
    let what = format!("the catalog's table {table} has a row with a {column} that makes no sense");
    Error::machine(what, "correct it in catalog.db, or restore that file from a copy")
}
