//! The catalog's tables, as steps that each raise the schema by one version.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, TransactionBehavior};

use super::data_place;
use crate::Error;

/// Every step ever taken. A published step never changes; what is new is a step at the end.
const STEPS: [&str; 17] = [
    "
    CREATE TABLE setting (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT;

    -- One row for everybody who can sign in: the names of accounts and users share one space, and AUTOINCREMENT
    -- never gives a relative id a second time.
    CREATE TABLE principal (
        relative_id INTEGER PRIMARY KEY AUTOINCREMENT,
        folded_name TEXT NOT NULL UNIQUE
    ) STRICT;
    INSERT INTO sqlite_sequence (name, seq) VALUES ('principal', 999);

    CREATE TABLE account (
        relative_id INTEGER PRIMARY KEY REFERENCES principal ON DELETE CASCADE,
        name TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL CHECK (kind IN ('FileStorage', 'StorageV2')),
        key1 TEXT NOT NULL,
        key2 TEXT NOT NULL
    ) STRICT;

    CREATE TABLE user (
        relative_id INTEGER PRIMARY KEY REFERENCES principal ON DELETE CASCADE,
        name TEXT NOT NULL,
        account INTEGER NOT NULL REFERENCES account,
        nt_hash BLOB NOT NULL CHECK (length(nt_hash) = 16)
    ) STRICT;

    CREATE TABLE share (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        folded_name TEXT NOT NULL UNIQUE,
        account INTEGER NOT NULL REFERENCES account,
        folder TEXT,
        ram_bytes INTEGER CHECK (ram_bytes > 0),
        quota_gib INTEGER CHECK (quota_gib > 0),
        read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
        seal_required INTEGER NOT NULL CHECK (seal_required IN (0, 1)),
        comment TEXT NOT NULL,
        CHECK ((folder IS NULL) <> (ram_bytes IS NULL))
    ) STRICT;
",
    // Several connections a session, off unless somebody asks for it.
    "ALTER TABLE account ADD COLUMN multichannel INTEGER NOT NULL DEFAULT 0 CHECK (multichannel IN (0, 1))",
    // Opens that survive the server.
    "ALTER TABLE share ADD COLUMN continuous INTEGER NOT NULL DEFAULT 0 CHECK (continuous IN (0, 1))",
    // Listings without what the reader may not read.
    "ALTER TABLE share ADD COLUMN access_based INTEGER NOT NULL DEFAULT 0 CHECK (access_based IN (0, 1))",
    // Who on the machine may use new files past the server; nobody where nothing is said.
    "ALTER TABLE share ADD COLUMN file_mode INTEGER CHECK (file_mode BETWEEN 0 AND 511);
     ALTER TABLE share ADD COLUMN directory_mode INTEGER CHECK (directory_mode BETWEEN 0 AND 511)",
    // What an account is billed as, and where it is; local and nowhere where nothing is said. Times are seconds since 1970.
    "ALTER TABLE account ADD COLUMN sku TEXT;
     ALTER TABLE account ADD COLUMN location TEXT;
     ALTER TABLE account ADD COLUMN metadata_caching INTEGER NOT NULL DEFAULT 1 CHECK (metadata_caching IN (0, 1));
     CREATE TABLE feature (
         name TEXT PRIMARY KEY,
         registered_from INTEGER NOT NULL
     ) STRICT",
    // What shares are provisioned with, and the operator's own limits. What follows from the size in v1 is not kept.
    "CREATE TABLE provision (
         share INTEGER PRIMARY KEY REFERENCES share ON DELETE CASCADE,
         model TEXT NOT NULL CHECK (model IN ('v1', 'v2')),
         gib INTEGER NOT NULL CHECK (gib > 0),
         iops INTEGER CHECK (iops > 0),
         mibps INTEGER CHECK (mibps > 0),
         gib_increased INTEGER NOT NULL,
         iops_increased INTEGER NOT NULL,
         mibps_increased INTEGER NOT NULL,
         CHECK ((model = 'v2') = (iops IS NOT NULL) AND (model = 'v2') = (mibps IS NOT NULL))
     ) STRICT;
     ALTER TABLE share ADD COLUMN iops_max INTEGER CHECK (iops_max > 0);
     ALTER TABLE share ADD COLUMN mibps_max INTEGER CHECK (mibps_max > 0);
     ALTER TABLE share ADD COLUMN user_iops_max INTEGER CHECK (user_iops_max > 0);
     ALTER TABLE share ADD COLUMN user_mibps_max INTEGER CHECK (user_mibps_max > 0)",
    // How long is believed what nobody tells changes of; NULL where nobody else makes any, as on a RAM disk.
    "ALTER TABLE share ADD COLUMN believed_ms INTEGER DEFAULT 1000 CHECK (believed_ms BETWEEN 0 AND 60000);
     UPDATE share SET believed_ms = NULL WHERE folder IS NULL",
    // What of a share is audited: names of classes with commas between them.
    "ALTER TABLE share ADD COLUMN audit TEXT NOT NULL DEFAULT 'none'",
    // Who may sign in to the page. The names are none of those that sign in to shares.
    "CREATE TABLE operator (
         folded_name TEXT PRIMARY KEY,
         name TEXT NOT NULL,
         rounds INTEGER NOT NULL CHECK (rounds > 0),
         salt BLOB NOT NULL CHECK (length(salt) = 16),
         hash BLOB NOT NULL CHECK (length(hash) = 32)
     ) STRICT",
    // How users stand, the groups they are in, and who may connect to shares. What everybody may do there was never said until it is.
    "ALTER TABLE user ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1));
     ALTER TABLE user ADD COLUMN expires INTEGER;
     CREATE TABLE user_group (
         relative_id INTEGER PRIMARY KEY REFERENCES principal ON DELETE CASCADE,
         name TEXT NOT NULL,
         account INTEGER NOT NULL REFERENCES account
     ) STRICT;
     CREATE TABLE membership (
         user_group INTEGER NOT NULL REFERENCES user_group ON DELETE CASCADE,
         member INTEGER NOT NULL REFERENCES principal ON DELETE CASCADE,
         PRIMARY KEY (user_group, member)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX membership_of ON membership (member);
     CREATE TABLE share_right (
         share INTEGER NOT NULL REFERENCES share ON DELETE CASCADE,
         principal INTEGER NOT NULL REFERENCES principal ON DELETE CASCADE,
         granted TEXT NOT NULL CHECK (granted IN ('read', 'change', 'full')),
         PRIMARY KEY (share, principal)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX share_right_of ON share_right (principal);
     ALTER TABLE share ADD COLUMN everyone TEXT CHECK (everyone IN ('none', 'read', 'change', 'full'))",
    // Whose new files are on this machine; the server's own user's where nothing is said.
    "ALTER TABLE share ADD COLUMN unix_uid INTEGER CHECK (unix_uid >= 0);
     ALTER TABLE share ADD COLUMN unix_gid INTEGER CHECK ((unix_gid IS NULL) = (unix_uid IS NULL))",
    // Folders of shares in the data folder are found where that has moved: their paths begin there.
    "UPDATE share SET folder = substr(folder, length(data.path) + 2)
     FROM (SELECT CAST(path AS TEXT) AS path FROM temp.data_folder) AS data
     WHERE substr(share.folder, 1, length(data.path) + 1) = data.path || '/'",
    // From where a share may be used; from everywhere where nothing is said.
    //
    // Passwords and keys that were replaced, with the time that they have left: those of users keep what they signed in, those of accounts sign in, too.
    //
    // Whose the files of a user are on this machine; as the share says where nothing is said.
    "ALTER TABLE share ADD COLUMN hosts TEXT;
     CREATE TABLE former_secret (
         principal INTEGER NOT NULL REFERENCES principal ON DELETE CASCADE,
         -- The number of an account's key; 0 for a user's password.
         slot INTEGER NOT NULL CHECK (slot IN (0, 1, 2)),
         nt_hash BLOB NOT NULL CHECK (length(nt_hash) = 16),
         until INTEGER NOT NULL
     ) STRICT;
     CREATE INDEX former_secret_of ON former_secret (principal);
     ALTER TABLE user ADD COLUMN unix_uid INTEGER CHECK (unix_uid BETWEEN 0 AND 4294967294);
     ALTER TABLE user ADD COLUMN unix_gid INTEGER
         CHECK (unix_gid BETWEEN 0 AND 4294967294 AND (unix_gid IS NULL) = (unix_uid IS NULL))",
    // Macs may back up to a share.
    "ALTER TABLE share ADD COLUMN time_machine INTEGER NOT NULL DEFAULT 0 CHECK (time_machine IN (0, 1))",
    // Programs that sign in to Azure's interfaces: names of roles with commas between them.
    "CREATE TABLE service_principal (
         application_id TEXT PRIMARY KEY,
         folded_name TEXT NOT NULL UNIQUE,
         name TEXT NOT NULL,
         roles TEXT NOT NULL,
         rounds INTEGER NOT NULL CHECK (rounds > 0),
         salt BLOB NOT NULL CHECK (length(salt) = 16),
         hash BLOB NOT NULL CHECK (length(hash) = 32)
     ) STRICT",
    // Shares that are deleted and kept for days, if their account wants that: they have no name by which they would be found.
    //
    // What clients of Azure Files keep of accounts and shares, in JSON, and descriptors that they name by keys.
    "ALTER TABLE account ADD COLUMN retention_days INTEGER CHECK (retention_days BETWEEN 1 AND 365);
     ALTER TABLE account ADD COLUMN file_service TEXT NOT NULL DEFAULT '{}';
     ALTER TABLE share ADD COLUMN deleted INTEGER;
     ALTER TABLE share ADD COLUMN kept_until INTEGER CHECK ((kept_until IS NULL) = (deleted IS NULL));
     CREATE TABLE azure_share (
         share INTEGER PRIMARY KEY REFERENCES share ON DELETE CASCADE,
         kept TEXT NOT NULL
     ) STRICT;
     INSERT INTO azure_share (share, kept) SELECT id, '{\"modified\":' || (unixepoch() * 1000) || '}' FROM share;
     CREATE TABLE permission (
         share INTEGER NOT NULL REFERENCES share ON DELETE CASCADE,
         name TEXT NOT NULL,
         descriptor BLOB NOT NULL,
         PRIMARY KEY (share, name)
     ) STRICT, WITHOUT ROWID",
];

/// The version that this program's catalogs have.
pub(super) fn latest() -> usize {
    STEPS.len()
}

/// Raises the schema to this program's version. A catalog of a newer program is refused and left as it is.
pub(super) fn raise(connection: &mut Connection) -> Result<(), Error> {
    raise_after(connection, |_| Ok(()))
}

/// The same; `before` is told the version of a catalog that is going to be raised, which nobody changes meanwhile. Where it fails nothing is raised.
pub(super) fn raise_after(
    connection: &mut Connection,
    before: impl FnOnce(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    data_place::expect(connection)?;
    if version(connection)? == STEPS.len() {
        return Ok(());
    }
    // Another process may be doing the same: what is missing is only known once the write lock is held.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch("CREATE TABLE IF NOT EXISTS migration (version INTEGER PRIMARY KEY) STRICT")?;
    let have = version(&transaction)?;
    if have > STEPS.len() {
        return Err(Error::machine(
            format!("the catalog has schema {have}, and this program knows none above {}", STEPS.len()),
            "use the newer multilane that wrote it",
        ));
    }
    if (1..STEPS.len()).contains(&have) {
        before(have)?;
    }
    for (done, step) in STEPS.iter().enumerate().skip(have) {
        transaction.execute_batch(step)?;
        transaction
            .execute("INSERT INTO migration (version) VALUES (?1)", [i64::try_from(done + 1).unwrap_or(i64::MAX)])?;
    }
    Ok(transaction.commit()?)
}

/// Makes all tables as they were after so many steps, in a database that has none.
pub(super) fn make(connection: &Connection, steps: usize) -> Result<(), Error> {
    data_place::expect(connection)?;
    connection.execute_batch("CREATE TABLE migration (version INTEGER PRIMARY KEY) STRICT")?;
    for (done, step) in STEPS.iter().enumerate().take(steps) {
        connection.execute_batch(step)?;
        let done = i64::try_from(done + 1).unwrap_or(i64::MAX);
        connection.execute("INSERT INTO migration (version) VALUES (?1)", [done])?;
    }
    Ok(())
}

/// What tells the tables of a catalog from those that so many steps make: a trigger, a view, a table or an index that this program never made, or that is
/// missing. `None` where nothing does.
pub(super) fn foreign(connection: &Connection, steps: usize) -> Result<Option<String>, Error> {
    let own = Connection::open_in_memory()?;
    make(&own, steps)?;
    let (own, found) = (objects(&own)?, objects(connection)?);
    let is_other = |(object, made): &(&Object, &Option<String>)| own.get(*object) != Some(*made);
    if let Some((Object { kind, name, .. }, _)) = found.iter().find(is_other) {
        return Ok(Some(format!("it has the {} {name:?}, which no multilane made", kind.escape_debug())));
    }
    let lost = own.keys().find(|object| !found.contains_key(*object));
    Ok(lost.map(|Object { kind, name, .. }| format!("it lacks the {kind} {name:?}")))
}

/// Something that a file has by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: String,
    name: String,
    table: String,
}

/// All of a file, with how each was made, however that is laid out in lines; nothing is said of what SQLite makes by itself.
fn objects(connection: &Connection) -> Result<BTreeMap<Object, Option<String>>, Error> {
    let mut select = connection.prepare("SELECT type, name, tbl_name, sql FROM main.sqlite_schema")?;
    let object = |row: &Row<'_>| {
        let made: Option<String> = row.get(3)?;
        let made = made.map(|made| made.split_whitespace().collect::<Vec<_>>().join(" "));
        Ok((Object { kind: row.get(0)?, name: row.get(1)?, table: row.get(2)? }, made))
    };
    Ok(select.query_map([], object)?.collect::<Result<_, _>>()?)
}

/// The schema's version; 0 for a file that holds no catalog.
pub(super) fn version(connection: &Connection) -> Result<usize, Error> {
    if !connection.table_exists(None, "migration")? {
        return Ok(0);
    }
    let version: i64 = connection.query_row("SELECT coalesce(max(version), 0) FROM migration", [], |row| row.get(0))?;
    usize::try_from(version).map_err(|_| {
        Error::machine(format!("the catalog claims schema {version}"), "it is damaged: restore catalog.db from a copy")
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use store::Belief;

    use super::*;
    use crate::catalog::{ShareRecord, Source};

    #[test]
    fn raising_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        raise(&mut connection).unwrap();
        raise(&mut connection).unwrap();
        assert_eq!(version(&connection).unwrap(), STEPS.len());
    }

    #[test]
    fn what_an_older_catalog_holds_is_local_and_not_provisioned() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..5] {
            connection.execute_batch(step).unwrap();
        }
        let made = "CREATE TABLE migration (version INTEGER PRIMARY KEY) STRICT;
             INSERT INTO migration (version) VALUES (5);
             INSERT INTO principal (relative_id, folded_name) VALUES (1000, 'abc');
             INSERT INTO account (relative_id, name, kind, key1, key2) VALUES (1000, 'abc', 'FileStorage', '', '');
             INSERT INTO share (name, folded_name, account, ram_bytes, read_only, seal_required, comment)
             VALUES ('fast', 'fast', 1000, 1048576, 0, 0, '');
             INSERT INTO share (name, folded_name, account, folder, read_only, seal_required, comment)
             VALUES ('files', 'files', 1000, '/files', 0, 0, ''),
                    ('here', 'here', 1000, '/data/a/share', 0, 0, ''),
                    ('near', 'near', 1000, '/data-not', 0, 0, '')";
        connection.execute_batch(made).unwrap();
        data_place::tell(&connection, Path::new("/data")).unwrap();
        raise(&mut connection).unwrap();
        let accounts = crate::catalog::accounts::all_with_keys(&connection).unwrap();
        assert_eq!(accounts[0].0.billing(), crate::Billing::Local);
        assert_eq!((accounts[0].0.shares, accounts[0].0.metadata_caching), (4, crate::MetadataCaching::On));
        let shares = crate::catalog::share_rows::all(&connection).unwrap();
        assert_eq!((shares[0].provisioned, shares[0].limits), (None, crate::ShareLimits::default()));
        assert_eq!((shares[0].belief, shares[1].belief), (Belief::Lasting, Belief::default()));
        assert!(shares.iter().all(|share| share.audit.is_empty()));
        let folders = |connection: &Connection| -> Vec<Option<PathBuf>> {
            let folder = |share: ShareRecord| match share.source {
                Source::Folder { path, .. } => Some(path),
                Source::Ram { .. } => None,
            };
            crate::catalog::share_rows::all(connection).unwrap().into_iter().map(folder).collect()
        };
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(folders(&connection), [None, at("/files"), at("/data/a/share"), at("/data-not")]);
        data_place::tell(&connection, Path::new("/moved")).unwrap();
        assert_eq!(folders(&connection), [None, at("/files"), at("/moved/a/share"), at("/data-not")]);
    }

    #[test]
    fn newer_schema_is_refused_untouched() {
        let mut connection = Connection::open_in_memory().unwrap();
        raise(&mut connection).unwrap();
        connection.execute("INSERT INTO migration (version) VALUES (99)", []).unwrap();
        let error = raise(&mut connection).unwrap_err();
        assert!(error.what().contains("99"), "{error}");
        assert_eq!(version(&connection).unwrap(), 99);
    }
}
