//! The command line, and where the server is.

use std::time::Duration;

/// What the requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// READs at random places of a file, each checked.
    Read,
    /// The same by REST, of the file that READs of one connection have prepared.
    Rest,
    /// WRITEs at random places of a file, which is read back at the end.
    Write,
    /// A CREATE that makes a new file, then CLOSE.
    Create,
    /// A CREATE that opens a file, then CLOSE.
    Open,
    /// CREATE, QUERY_INFO and CLOSE in one compound.
    Stat,
    /// So many new files are made, each with a CREATE and a CLOSE; afterwards they are removed.
    Make,
    /// So many files, which were made for it, are removed: a CREATE that deletes on close, then CLOSE.
    Delete,
    /// So many files that others made in a folder are opened and closed, each once.
    Walk,
    /// A folder is opened, listed to its end and closed, again and again.
    List,
    /// Another connection that becomes a channel of the session, and is closed.
    Bind,
    /// Connections that log in, connect to the share and wait until standard input ends.
    Idle,
    /// A connection that keeps files open under leases, and waits for a byte on standard input before and after opening them.
    Leases,
}

/// How messages are protected once the session and tree are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    None,
    /// Signed with AES-128-GMAC.
    Gmac,
    /// Sealed with AES-128-GCM.
    Seal,
}

/// The server, its share and who logs in.
#[derive(Clone, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub share: String,
    pub user: String,
    pub password: String,
}

/// Everything that was asked for.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub target: Target,
    pub mode: Mode,
    pub protection: Protection,
    /// Bytes a READ or WRITE carries.
    pub block_bytes: usize,
    /// Requests in flight on each connection.
    pub depth: usize,
    pub connections: usize,
    pub duration: Duration,
    /// Length of each connection's file.
    pub file_bytes: usize,
    /// Files that are kept open under leases, made, removed or walked through.
    pub files: usize,
    /// The folder that is walked through or listed.
    pub folder: String,
    /// Folders in it that a walk goes through, called 0, 1 and so on; the files in each are called so, too.
    pub folders: usize,
}

impl Arguments {
    /// From `--name value` pairs and the environment; the error is a sentence.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            target: Target::from_environment()?,
            mode: Mode::Read,
            protection: Protection::None,
            block_bytes: 4096,
            depth: 16,
            connections: 1,
            duration: Duration::from_secs(5),
            file_bytes: 64 << 20,
            files: 1000,
            folder: String::new(),
            folders: 1,
        };
        let words: Vec<String> = words.collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} has no value", pair[0])) };
            arguments.set(name, value)?;
        }
        Ok(arguments)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--mode" => self.mode = mode(value)?,
            "--protect" => self.protection = protection(value)?,
            "--block" => self.block_bytes = number(name, value)?,
            "--depth" => self.depth = number(name, value)?,
            "--connections" => self.connections = number(name, value)?,
            "--seconds" => self.duration = seconds(name, value)?,
            "--files" => self.files = number(name, value)?,
            "--folder" => value.clone_into(&mut self.folder),
            "--folders" => self.folders = number(name, value)?,
            "--file-mib" => self.file_bytes = number(name, value)? << 20,
            _ => return Err(format!("there is no {name}")),
        }
        Ok(())
    }
}

impl Target {
    fn from_environment() -> Result<Self, String> {
        let of = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        Ok(Target {
            host: of("SMB_HOST")?,
            port: of("SMB_PORT")?.parse().map_err(|_| "SMB_PORT is not a port".to_owned())?,
            share: of("SMB_SHARE")?,
            user: of("SMB_USER")?,
            password: of("SMB_PASSWORD")?,
        })
    }
}

fn number(name: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => Err(format!("{name} {value} is not a number above 0")),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|duration| !duration.is_zero()).ok_or_else(|| format!("{name} {value} is not a time"))
}

fn mode(value: &str) -> Result<Mode, String> {
    Ok(match value {
        "read" => Mode::Read,
        "rest" => Mode::Rest,
        "write" => Mode::Write,
        "create" => Mode::Create,
        "open" => Mode::Open,
        "stat" => Mode::Stat,
        "make" => Mode::Make,
        "delete" => Mode::Delete,
        "walk" => Mode::Walk,
        "list" => Mode::List,
        "bind" => Mode::Bind,
        "idle" => Mode::Idle,
        "leases" => Mode::Leases,
        _ => return Err(format!("there is no mode {value}")),
    })
}

fn protection(value: &str) -> Result<Protection, String> {
    Ok(match value {
        "none" => Protection::None,
        "gmac" => Protection::Gmac,
        "seal" => Protection::Seal,
        _ => return Err(format!("there is no protection {value}")),
    })
}
