//! All rows of a catalog, put into the tables of another. What else a file says of itself (triggers, views, other tables) comes along with none of them.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement, params_from_iter};

use super::schema;
use crate::Error;

/// The table that says which steps of the schema a catalog has taken. It is the program's own in every catalog.
const MIGRATION: &str = "migration";

/// Puts all rows of `from` into `to`, which has the same tables and none of its rows.
pub(super) fn copy(from: &Connection, to: &Connection) -> Result<(), Error> {
    // The older tables first: rows lead to those.
    for table in tables(to)?.iter().filter(|table| *table != MIGRATION) {
        copy_table(from, to, table)?;
    }
    // SQLite's own, which has a row for each table whose numbers are never given twice.
    to.execute("DELETE FROM sqlite_sequence", [])?;
    copy_table(from, to, "sqlite_sequence")
}

fn copy_table(from: &Connection, to: &Connection, table: &str) -> Result<(), Error> {
    let empty: Statement<'_> = to.prepare(&format!("SELECT * FROM {}", quoted(table)))?;
    let columns: Vec<String> = empty.column_names().map(quoted).collect();
    let (names, places) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
    let mut insert = to.prepare(&format!("INSERT INTO {} ({names}) VALUES ({places})", quoted(table)))?;
    let mut select = from.prepare(&format!("SELECT {names} FROM {}", quoted(table)))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let values: Vec<ValueRef<'_>> = (0..columns.len()).map(|at| row.get_ref(at)).collect::<Result<_, _>>()?;
        insert.execute(params_from_iter(values.into_iter().map(rusqlite::types::ToSqlOutput::Borrowed)))?;
    }
    Ok(())
}

/// Has a catalog be what `from` is, which has this program's schema: whatever it was, its tables are made anew. The caller has begun a transaction in `to`, which
/// does not look at foreign keys.
pub(super) fn replace(to: &Connection, from: &Connection) -> Result<(), Error> {
    clear(to)?;
    schema::make(to, schema::latest())?;
    copy(from, to)
}

/// Takes away all that there is.
fn clear(catalog: &Connection) -> Result<(), Error> {
    // Views and triggers first, as those may be about what is gone otherwise. Indexes go with their tables.
    for kind in ["trigger", "view", "table"] {
        for name in objects(catalog, kind)? {
            catalog.execute_batch(&format!("DROP {kind} IF EXISTS {}", quoted(&name)))?;
        }
    }
    Ok(())
}

/// The tables, the oldest first.
fn tables(catalog: &Connection) -> Result<Vec<String>, Error> {
    objects(catalog, "table")
}

fn objects(catalog: &Connection, kind: &str) -> Result<Vec<String>, Error> {
    // SQLite's own cannot be made or dropped.
    let select =
        "SELECT name FROM main.sqlite_schema WHERE type = ?1 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
    let mut select = catalog.prepare(select)?;
    Ok(select.query_map([kind], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_becomes_another_whatever_it_was() {
        let said = |catalog: &Connection| -> Vec<String> {
            let mut select = catalog.prepare("SELECT name || value FROM setting ORDER BY name").unwrap();
            select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut from = Connection::open_in_memory().unwrap();
        schema::raise(&mut from).unwrap();
        from.execute_batch("INSERT INTO setting VALUES ('a', 'b'); UPDATE sqlite_sequence SET seq = 1234").unwrap();
        for before in [
            "",
            "CREATE TABLE \"a \"\"table\" (x); CREATE VIEW v AS SELECT * FROM nowhere; INSERT INTO \"a \"\"table\" VALUES (1);
             CREATE TRIGGER t AFTER DELETE ON \"a \"\"table\" BEGIN SELECT RAISE(ABORT, 'no'); END; CREATE TABLE setting (other)",
            "CREATE TABLE one (x INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO one VALUES (7)",
        ] {
            let mut to = Connection::open_in_memory().unwrap();
            to.execute_batch(before).unwrap();
            to.pragma_update(None, "foreign_keys", false).unwrap();
            crate::catalog::data_place::expect(&to).unwrap();
            for _ in 0..2 {
                let transaction = to.transaction().unwrap();
                replace(&transaction, &from).unwrap();
                transaction.commit().unwrap();
                assert_eq!((said(&to), schema::foreign(&to, schema::latest()).unwrap()), (vec!["ab".to_owned()], None));
                let next: i64 = to.query_row("SELECT seq FROM sqlite_sequence", [], |row| row.get(0)).unwrap();
                assert_eq!(next, 1234);
            }
        }
    }
}
