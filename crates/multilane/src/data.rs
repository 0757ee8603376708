//! Which data folder a command is about, and telling the server that runs on it.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Catalog, DataFolder, Error, Problem, Request, ask};

/// How long a command waits for programs that read the catalog.
const READERS_WAIT: Duration = Duration::from_secs(1);
/// The folder of a server that root runs.
const OF_ROOT: &str = "/var/lib/multilane";

/// The folder that was named, or the default one.
pub(crate) fn path(named: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) {
        return Ok(path.to_owned());
    }
    default_path().ok_or_else(|| {
        Error::argument("there is no data folder: neither XDG_DATA_HOME nor HOME is set", "name one with --data")
    })
}

/// True where `path` is the one that commands take without `--data`.
pub(crate) fn is_default(path: &Path) -> bool {
    let same = |default: PathBuf| default.canonicalize().is_ok_and(|default| default == path);
    env::var_os("MULTILANE_DATA").is_none() && default_path().is_some_and(same)
}

fn default_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(OF_ROOT.into());
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(shared?.join("multilane"))
}

/// Opens the catalog of an existing data folder.
pub(crate) fn open(path: &Path) -> Result<(DataFolder, Catalog), Error> {
    let folder = DataFolder::open(path)?;
    let catalog = Catalog::open(&folder)?;
    Ok((folder, catalog))
}

/// Has the server take up that something secret was taken away, and says so where that stays in the catalog's files for now.
pub(crate) fn forget(folder: &DataFolder, catalog: &Catalog) -> Result<(), Error> {
    reload(folder)?;
    if !catalog.empty_log(READERS_WAIT)? {
        eprintln!(
            "warning: another program reads the catalog: what was taken away stays in its files until that ends; \
             a running server, or the next command, takes it out then"
        );
    }
    Ok(())
}

/// Has the server that runs on `folder`, if one does, take up a change; gives the shares that it does not serve. `None` where none
/// runs.
pub(crate) fn reload(folder: &DataFolder) -> Result<Option<Vec<Problem>>, Error> {
    ask(folder, &Request::Reload).map_err(|error| {
        Error::machine(
            format!("the change is kept, but the server has not taken it up: {}", error.what()),
            error.remedy(),
        )
    })
}
