//! Paths of folders in the data folder: the catalog keeps them relative to it, so that they are found where it has moved.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use crate::Error;

/// Tells an open catalog where its data folder is. It counts for this connection.
pub(super) fn tell(connection: &Connection, data: &Path) -> Result<(), Error> {
    expect(connection)?;
    connection.execute("DELETE FROM temp.data_folder", [])?;
    connection.execute("INSERT INTO temp.data_folder (path) VALUES (?1)", [data.as_os_str().as_bytes()])?;
    Ok(())
}

/// Has a step of the schema find where the data folder is, whether that was told or not.
pub(super) fn expect(connection: &Connection) -> Result<(), Error> {
    Ok(connection.execute_batch("CREATE TEMP TABLE IF NOT EXISTS data_folder (path BLOB NOT NULL)")?)
}

/// Where the data folder is; empty where that was not told.
pub(super) fn of(connection: &Connection) -> Result<PathBuf, Error> {
    let path: Option<Vec<u8>> =
        connection.query_row("SELECT path FROM temp.data_folder", [], |row| row.get(0)).optional()?;
    Ok(PathBuf::from(OsString::from_vec(path.unwrap_or_default())))
}

/// What the catalog keeps for `path`: the way from the data folder to what lies in that, else the absolute path.
pub(super) fn kept<'a>(path: &'a Path, data: &Path) -> &'a Path {
    match path.strip_prefix(data) {
        Ok(rest) if !data.as_os_str().is_empty() => rest,
        Ok(_) | Err(_) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_data_folder_is_kept_relative_to_it_and_nothing_else() {
        let data = Path::new("/srv/data");
        for (path, relative) in [
            ("/srv/data/share", "share"),
            ("/srv/data/a/b", "a/b"),
            ("/srv/database", "/srv/database"),
            ("/srv", "/srv"),
            ("/srv/other", "/srv/other"),
        ] {
            assert_eq!(kept(Path::new(path), data), Path::new(relative));
            assert_eq!(data.join(relative), Path::new(path), "and found again");
        }
        assert_eq!(kept(Path::new("/srv/data/share"), Path::new("")), Path::new("/srv/data/share"));
    }

    #[test]
    fn a_connection_knows_the_folder_that_it_was_told_last() {
        let connection = Connection::open_in_memory().unwrap();
        expect(&connection).unwrap();
        assert_eq!(of(&connection).unwrap(), Path::new(""));
        for data in ["/one", "/zw\u{f6}lf"] {
            tell(&connection, Path::new(data)).unwrap();
            assert_eq!(of(&connection).unwrap(), Path::new(data));
        }
    }
}
