//! Subvolumes of btrfs, which snapshots are made of: by its own program, `btrfs` of btrfs-progs.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use store::FileSystem;

use crate::gone;

/// The inode of each subvolume's root.
const ROOT_INODE: u64 = 256;
/// Where the program is: not every user's PATH has the folders of those for administrators.
const PROGRAMS: [&str; 4] = ["btrfs", "/usr/sbin/btrfs", "/sbin/btrfs", "/usr/local/sbin/btrfs"];
/// How long it may take: the file system writes what is to be written first.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it is done.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Bytes of what it says that are read.
const SAID_MAX: u64 = 2 << 10;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("there is no program `btrfs` here, which the package btrfs-progs has")]
    NoProgram,
    #[error("`btrfs` has not ended within {0} seconds")]
    TookTooLong(u64),
    #[error("`btrfs` says: {0}")]
    Refused(String),
}

/// True of a folder that is a subvolume of its own.
pub(crate) fn is_subvolume(folder: &Path) -> bool {
    let is_root = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.ino() == ROOT_INODE);
    is_root && is_btrfs(folder)
}

/// True of what lies on btrfs.
pub(crate) fn is_btrfs(folder: &Path) -> bool {
    FileSystem::at(folder).is_ok_and(|system| system == FileSystem::BTRFS)
}

/// Makes an empty subvolume.
pub(crate) fn create(folder: &Path) -> Result<(), Failed> {
    // Who makes a share can do without.
    run_within(PATIENCE / 10, &["subvolume", "create"], &[folder])
}

/// Makes a read-only snapshot of the subvolume `of`. It is on the disk when this is done.
pub(crate) fn snapshot(of: &Path, at: &Path) -> Result<(), Failed> {
    run(&["subvolume", "snapshot", "-r"], &[of, at])?;
    if is_subvolume(at) { Ok(()) } else { Err(Failed::Refused("nothing, and has made none".to_owned())) }
}

/// Deletes a subvolume, be it read-only. May take long.
pub(crate) fn delete(folder: &Path) -> Result<(), Failed> {
    match run(&["subvolume", "delete", "--commit-after"], &[folder]) {
        // Only root may, unless the file system is mounted with `user_subvol_rm_allowed`. Its owner may empty it.
        Err(Failed::Refused(said)) if said.contains("not permitted") => {}
        done => return done,
    }
    run(&["property", "set", "-t", "subvol"], &[folder, Path::new("ro"), Path::new("false")])?;
    gone::remove_all(folder).map_err(|cause| Failed::Refused(cause.to_string()))
}

fn run(words: &[&str], operands: &[&Path]) -> Result<(), Failed> {
    run_within(PATIENCE, words, operands)
}

fn run_within(patience: Duration, words: &[&str], operands: &[&Path]) -> Result<(), Failed> {
    for program in PROGRAMS {
        let mut command = Command::new(program);
        command.args(words).args(operands).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => return ended(child, patience),
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(Failed::Refused(cause.to_string())),
        }
    }
    Err(Failed::NoProgram)
}

fn ended(mut child: Child, patience: Duration) -> Result<(), Failed> {
    let until = Instant::now() + patience;
    // However much it says, it does not wait for who reads that.
    let stderr = child.stderr.take();
    let said = thread::Builder::new().name("multilane-btrfs".to_owned()).spawn(|| {
        let mut said = Vec::new();
        if let Some(mut from) = stderr {
            // Without its words the refusal is one all the same.
            let _ = from.by_ref().take(SAID_MAX).read_to_end(&mut said);
            let _ = io::copy(&mut from, &mut io::sink());
        }
        said
    });
    let status: ExitStatus = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => thread::sleep(LOOK_AGAIN),
            Ok(None) => {
                // One that hangs in the kernel ends when that goes on.
                let _ = child.kill();
                let _ = thread::Builder::new().name("multilane-btrfs".to_owned()).spawn(move || child.wait());
                return Err(Failed::TookTooLong(patience.as_secs()));
            }
            Err(cause) => return Err(Failed::Refused(cause.to_string())),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = said.ok().and_then(|said| said.join().ok()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let said = said.trim().trim_start_matches("ERROR: ").replace('\n', "; ");
    Err(Failed::Refused(if said.is_empty() { status.to_string() } else { said }))
}
