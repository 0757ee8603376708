//! Which data folder a command is about, and telling the server that runs on it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, io};

use control::{Catalog, DEVELOPMENT_FOLDER, DataFolder, Error, Problem, Request, ask};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

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

/// The same for a server; one for development has a default of its own, beside it.
pub(crate) fn path_to_serve(named: Option<&Path>, is_for_development: bool) -> Result<PathBuf, Error> {
    let path = path(named)?;
    let is_named = named.is_some_and(|path| !path.as_os_str().is_empty());
    Ok(if is_for_development && !is_named { path.with_file_name(DEVELOPMENT_FOLDER) } else { path })
}

/// True where `path` is the one that commands take without `--data`.
pub(crate) fn is_default(path: &Path) -> bool {
    let same = |default: PathBuf| default.canonicalize().is_ok_and(|default| default == path);
    env::var_os("MULTILANE_DATA").is_none_or(|data| data.is_empty()) && default_path().is_some_and(same)
}

fn default_path() -> Option<PathBuf> {
    static DEFAULT: OnceLock<Option<PathBuf>> = OnceLock::new();
    DEFAULT.get_or_init(find_default_path).clone()
}

fn find_default_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(OF_ROOT.into());
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(shared?.join("multilane"))
}

/// Has root act from now on as the user that a data folder belongs to, as that of a package's server does: what a command makes there is the server's
/// then, and what it looks at the server may look at. No other process of that user may look into this one, which still has what root gave it: its
/// terminal, its environment, its memory. To be called before there are threads, as each has a user of its own.
pub(crate) fn act_as_owner(path: &Path) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // Whatever is wrong with the folder, who opens it says so.
    let Some(found) = fs::metadata(path).ok().filter(|found| found.uid() != 0) else { return Ok(()) };
    // That of root, as long as this is root.
    default_path();
    become_user(found.uid(), found.gid()).map_err(|cause| {
        let what = format!("cannot act as the owner of {} (uid {}): {cause}", path.display(), found.uid());
        Error::machine(what, "run this as that user")
    })
}

fn become_user(user: u32, group: u32) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads would go on as root"));
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_thread_groups(&[])?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    // A change of user may have set it to what the machine wants for programs that change theirs.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
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
