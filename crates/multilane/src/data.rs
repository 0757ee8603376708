//! Which data folder a command is about, and telling the server that runs on it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// Has root act as the user that a data folder belongs to, as that of a package's server does: what a command makes there is the server's then, and
/// what it looks at the server may look at. The program goes on from its beginning, as that user.
pub(crate) fn act_as_owner(path: &Path) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let found = path.canonicalize().and_then(|whole| fs::metadata(&whole).map(|found| (whole, found)));
    // Whatever is wrong with the folder, who opens it says so.
    let Some((whole, found)) = found.ok().filter(|(_, found)| found.uid() != 0) else { return Ok(()) };
    let mut words = env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    // Other processes of that user may read what this one's environment is.
    again.env_clear().envs(env::vars_os().filter(|(name, _)| is_for_anybody(name)));
    // A default would be another one for another user.
    let cause = again.args(words).env("MULTILANE_DATA", whole).uid(found.uid()).gid(found.gid()).exec();
    let what = format!("cannot act as the owner of {} (uid {}): {cause}", path.display(), found.uid());
    Err(Error::machine(what, "run this as that user, from a place where that user may run it"))
}

/// True for what says how to print, and for what is the program's own.
fn is_for_anybody(name: &OsStr) -> bool {
    const NAMES: [&str; 8] = ["COLORTERM", "COLUMNS", "LANG", "LINES", "NO_COLOR", "PATH", "TERM", "TZ"];
    name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with("MULTILANE_"))
}

/// Opens the catalog of an existing data folder.
pub(crate) fn open(path: &Path) -> Result<(DataFolder, Catalog), Error> {
    let folder = DataFolder::open(path)?;
    let catalog = Catalog::open(&folder)?;
    tell(&catalog);
    Ok((folder, catalog))
}

/// Says what an operator should know of a catalog that was just opened.
pub(crate) fn tell(catalog: &Catalog) {
    catalog.notices().iter().for_each(|notice| eprintln!("warning: {notice}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_data_folder_does_not_learn_of_roots_environment() {
        let kept = ["TERM", "LC_TIME", "MULTILANE_LOG", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "HOME"];
        let kept: Vec<_> = kept.into_iter().filter(|name| is_for_anybody(OsStr::new(name))).collect();
        assert_eq!(kept, ["TERM", "LC_TIME", "MULTILANE_LOG"]);
    }
}
