//! Whether a catalog is as it should be: its file, what its tables say, the folders of its shares.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::backup::Holds;
use super::{
    RESTORE, ShareRecord, StoredSettings, WAIT_MAX, accounts, believed, copies, data_place, features, groups,
    holds_nothing, keep_log, kept, log_of, operators, principals, schema, sense, service_principals, settings,
    share_rights, share_rows, users,
};
use crate::{DataFolder, Error, Problem, look_for_problems, own_folder};

/// The most damages that are told one by one.
const DAMAGES_MAX: usize = 100;

/// What was found of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The file.
    pub catalog: PathBuf,
    /// What it holds; nothing is known of one that cannot be read.
    pub holds: Option<Holds>,
    /// What is wrong with it.
    pub problems: Vec<CatalogProblem>,
    /// Folders in the data folder that were made for shares and hold something, and belong to no share, be it deleted and kept. Nothing is wrong with the
    /// catalog by that.
    pub unused_folders: Vec<PathBuf>,
}

/// Something that is wrong with a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CatalogProblem {
    /// What it is.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl From<Error> for CatalogProblem {
    fn from(error: Error) -> Self {
        CatalogProblem { problem: error.what().to_owned(), remedy: error.remedy().to_owned() }
    }
}

/// Looks at the catalog of `folder` while others use it, and changes nothing. An error says that it could not be looked at.
pub fn check_catalog(folder: &DataFolder) -> Result<Checked, Error> {
    let catalog = folder.catalog();
    if holds_nothing(&catalog) && holds_nothing(&log_of(&catalog)) {
        let problem = format!("the catalog {} is empty", catalog.display());
        return Ok(Checked { problems: vec![lost(problem)], ..Checked::nothing_of(catalog) });
    }
    let mut found = Checked::nothing_of(catalog);
    match in_memory(folder) {
        Ok(mut copy) => found.look(folder, &mut copy)?,
        Err(error) if error.is_damage() => found.problems.push(lost(error.what())),
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// The settings that the catalog of `folder` keeps, as a start there would have them. Others may use it, and nothing is changed or raised.
pub fn kept_settings(folder: &DataFolder) -> Result<StoredSettings, Error> {
    let mut copy = in_memory(folder)?;
    if schema::version(&copy)? == 0 {
        return Err(Error::machine(format!("{} holds no catalog", folder.catalog().display()), RESTORE));
    }
    schema::raise(&mut copy)?;
    settings::read(&copy)
}

/// What is wrong with the file, and nothing of what it says. The caller has no other catalog open at this path than the one that is there now.
pub(crate) fn damages(folder: &DataFolder) -> Result<Vec<String>, Error> {
    let catalog = folder.catalog();
    if holds_nothing(&catalog) && holds_nothing(&log_of(&catalog)) {
        return Ok(vec![format!("the catalog {} is empty", catalog.display())]);
    }
    match in_memory(folder).and_then(|copy| damage(&copy)) {
        Err(error) if error.is_damage() => Ok(vec![error.what().to_owned()]),
        found => found,
    }
}

/// A copy of the catalog that may be raised and looked at as one likes.
fn in_memory(folder: &DataFolder) -> Result<Connection, Error> {
    let turn = folder.turn_to_open(WAIT_MAX)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(folder.catalog(), flags)?;
    connection.busy_timeout(WAIT_MAX)?;
    keep_log(&connection)?;
    // Where nobody else has it open the log stays one.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let mut memory = copies::in_memory(&connection)?;
    believed::guard(&mut memory)?;
    drop(turn);
    Ok(memory)
}

impl Checked {
    fn nothing_of(catalog: PathBuf) -> Self {
        Checked { catalog, holds: None, problems: Vec::new(), unused_folders: Vec::new() }
    }

    fn look(&mut self, folder: &DataFolder, copy: &mut Connection) -> Result<(), Error> {
        match schema::version(copy) {
            Ok(0) => self.problems.push(lost("the file holds no catalog")),
            Ok(schema) => match refuse_foreign(copy, schema).and_then(|()| Ok((damage(copy)?, Holds::read(copy)?))) {
                Ok((damages, holds)) => {
                    self.problems.extend(damages.into_iter().map(lost));
                    self.holds = Some(holds);
                }
                Err(error) => self.problems.push(lost(error.what())),
            },
            Err(error) => self.problems.push(error.into()),
        }
        if self.problems.is_empty() {
            data_place::tell(copy, folder.path())?;
            match schema::raise(copy) {
                Ok(()) => self.problems.extend(contents(copy).into_iter().map(CatalogProblem::from)),
                Err(error) => self.problems.push(error.into()),
            }
        }
        if self.problems.is_empty() {
            self.problems.extend(principals::misleading(copy)?.into_iter().map(|(kind, why)| misnamed(kind, &why)));
            let of_share = |found: Problem| CatalogProblem {
                problem: format!("share {:?}: {}", found.share, found.problem),
                remedy: "mend that, or give the share another folder with `multilane share update NAME --path FOLDER`"
                    .to_owned(),
            };
            let shares = share_rows::all(copy)?;
            self.problems.extend(look_for_problems(&shares, folder).into_iter().map(of_share));
            let kept = share_rows::deleted(copy)?.into_iter().map(|deleted| deleted.share);
            let shares: Vec<ShareRecord> = shares.into_iter().chain(kept).collect();
            let used: Vec<&Path> = shares.iter().filter_map(|share| share.source.folder()).collect();
            self.unused_folders = own_folder::unused(folder.path(), &used)?;
        }
        Ok(())
    }
}

/// A user or group from before, which goes on.
fn misnamed(kind: &str, why: &Error) -> CatalogProblem {
    let remedy = match kind {
        "user" => "give the user another name with `multilane user rename NAME OTHER`",
        _ => "make a group with another name, and delete this one with `multilane group delete NAME`",
    };
    CatalogProblem { problem: why.what().to_owned(), remedy: remedy.to_owned() }
}

/// Refuses to look at tables that are not the program's own. Of those of a newer program nothing is known.
pub(super) fn refuse_foreign(copy: &Connection, schema: usize) -> Result<(), Error> {
    if schema > schema::latest() {
        return Ok(());
    }
    let odd = schema::foreign(copy, schema)?;
    odd.map_or(Ok(()), |odd| Err(Error::machine(format!("the catalog is not as it was made: {odd}"), super::RESTORE)))
}

/// A damage, which only a backup mends.
fn lost(problem: impl Into<String>) -> CatalogProblem {
    let remedy = "restore a backup with `multilane restore FILE`; what is there now is kept".to_owned();
    CatalogProblem { problem: problem.into(), remedy }
}

/// What SQLite finds wrong with the file, and rows that lead to none.
pub(super) fn damage(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({DAMAGES_MAX})"))?;
    for line in check.query_map([], |row| row.get::<_, String>(0))? {
        match line.map_err(Error::from) {
            Ok(line) if line == "ok" => {}
            Ok(line) => found.push(line.trim().to_owned()),
            Err(error) if error.is_damage() => found.push(error.what().to_owned()),
            Err(error) => return Err(error),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let mut check = connection.prepare("SELECT DISTINCT \"table\", parent FROM pragma_foreign_key_check")?;
    let astray = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
        Ok(format!(
            "table {} has rows that lead to none in table {}",
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?
        ))
    };
    for line in check.query_map([], astray)? {
        found.push(line?);
    }
    Ok(found)
}

/// What the tables say that makes no sense. The schema is this program's.
pub(super) fn contents(connection: &Connection) -> Vec<Error> {
    let damaged_users = users::damages(connection).unwrap_or_else(|error| vec![error]);
    let unread: Vec<Error> = damaged_users.into_iter().chain(unread(connection)).collect();
    if !unread.is_empty() {
        return unread;
    }
    let of_sentence = |sentence| Error::machine(sentence, super::RESTORE);
    sense::nonsense(connection).map_or_else(|error| vec![error], |found| found.into_iter().map(of_sentence).collect())
}

/// What in the tables cannot be read.
fn unread(connection: &Connection) -> Vec<Error> {
    [
        accounts::all_with_keys(connection).err(),
        operators::all_with_hashes(connection).err(),
        service_principals::all_with_hashes(connection).err(),
        groups::all(connection).err(),
        groups::memberships(connection).err(),
        share_rows::all(connection).err(),
        share_rows::deleted(connection).err(),
        kept::of_accounts(connection).err(),
        kept::of_shares(connection).err(),
        share_rights::all(connection).err(),
        settings::read(connection).err(),
        features::read(connection).err(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
