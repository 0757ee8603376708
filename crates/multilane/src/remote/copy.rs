//! `cp`, `get` and `put`: whole trees, many files at once. A file has a temporary name until it is whole, and one that the target has
//! already with the same size and time is passed over, so that a copy which was interrupted goes on where it was.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ::client::{Access, Data, Disposition, File, FileTime, OpenOptions, Session, Sharing, Status, Tree};
use control::Error;
use load::figures;
use serde::Serialize;
use store::shown_name;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::arguments::{Copy, Get, How, Put};
use super::files::make_with_parents;
use super::part::{Part, part_name};
use super::place::{Either, Place};
use super::progress::Progress;
use super::tree::{self, Item, Listing, joined, shown, unreadable, unwritable};
use super::{failed, is_watched, runtime, settings, sign_in};
use crate::output::Output;
use crate::table::printable;

/// Times that differ by less are the same: file systems keep them with different precision.
const SAME_TIME: u64 = 2 * 10_000_000;
/// Files of so many bytes are worth a handle that survives the loss of every connection.
const DURABLE_BYTES_MIN: u64 = 1 << 20;
/// How often a file is begun at least where its handle did not survive.
const ATTEMPTS: usize = 3;

/// How often a file that another copy has open is asked for.
const SHARING_RETRY: Duration = Duration::from_millis(250);

/// What was copied, as `--json` prints it.
#[derive(Serialize)]
struct Copied {
    files: u64,
    passed_over: u64,
    directories: usize,
    left_out: usize,
    failed: u64,
    bytes: u64,
    seconds: f64,
    verified: bool,
    /// Files whose target differed, and was mended.
    repaired: u64,
    repaired_bytes: u64,
    channels: usize,
    lost_channels: u64,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Up,
}

/// One copy, for all of its files.
pub(super) struct Job {
    pub(super) direction: Direction,
    pub(super) tree: Tree,
    local: PathBuf,
    remote: String,
    verify: bool,
    /// Everything is copied, whatever is there.
    force: bool,
    /// For how long a file that lost its handle is begun anew: as long as a lost server is looked for.
    session_timeout: Duration,
    pub(super) progress: Progress,
}

/// What became of the directories.
#[derive(Default)]
struct Made {
    directories: usize,
    /// Those that could not be made, and the files in them.
    lost: u64,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Copied,
    PassedOver,
}

pub(crate) fn get(arguments: &Get, output: Output) -> Result<(), Error> {
    let target = arguments.target.clone().unwrap_or_else(|| arguments.source.name().into());
    run(Direction::Down, &arguments.source, &target, &arguments.how, output)
}

pub(crate) fn put(arguments: &Put, output: Output) -> Result<(), Error> {
    run(Direction::Up, &arguments.target, &arguments.source, &arguments.how, output)
}

pub(crate) fn copy(arguments: &Copy, output: Output) -> Result<(), Error> {
    match (&arguments.source, &arguments.target) {
        (Either::Remote(source), Either::Local(target)) => run(Direction::Down, source, target, &arguments.how, output),
        (Either::Local(source), Either::Remote(target)) => run(Direction::Up, target, source, &arguments.how, output),
        (Either::Local(_), Either::Local(_)) => Err(Error::argument(
            "neither place is on a server",
            r"name one as smb://HOST/SHARE/PATH or \\HOST\SHARE\PATH",
        )),
        (Either::Remote(_), Either::Remote(_)) => {
            Err(Error::argument("both places are on servers", "copy to this machine first, and from there"))
        }
    }
}

fn run(direction: Direction, place: &Place, local: &Path, how: &How, output: Output) -> Result<(), Error> {
    let started = Instant::now();
    runtime()?.block_on(async {
        let session = sign_in(place, &how.login).await?;
        let tree = session.tree(&place.share).await.map_err(failed)?;
        let (job, listing) = prepared(direction, place, local, how, tree, output).await?;
        let copied = work(Arc::new(job), listing, how, &session, started).await;
        let _ = session.close().await;
        let copied = copied?;
        output.print(&copied, summary)?;
        match copied.failed {
            0 => Ok(()),
            count => Err(Error::machine(
                format!("{count} files and directories were not copied"),
                "see above why, and give the command again: what is there is not copied twice",
            )),
        }
    })
}

/// Finds out what is to be copied where.
async fn prepared(
    direction: Direction,
    place: &Place,
    local: &Path,
    how: &How,
    tree: Tree,
    output: Output,
) -> Result<(Job, Listing), Error> {
    let mut job = Job {
        direction,
        tree,
        local: local.to_owned(),
        remote: place.path.clone(),
        verify: how.verify,
        force: how.force,
        session_timeout: settings(&how.login)?.session_timeout,
        progress: Progress::new(0, false),
    };
    let listing = match direction {
        Direction::Down => job.listing_down(place).await?,
        Direction::Up => job.listing_up(place).await?,
    };
    job.progress = Progress::new(listing.files.iter().map(|file| file.bytes).sum(), is_watched(output));
    for (path, why) in &listing.left_out {
        job.progress.say(&format!("left out: {} {why}", printable(&tree::for_people(path))));
    }
    for (path, why) in &listing.failed {
        job.say_not_copied(path, why);
    }
    Ok((job, listing))
}

/// Copies all files, so many at once.
async fn work(
    job: Arc<Job>,
    listing: Listing,
    how: &How,
    session: &Session,
    started: Instant,
) -> Result<Copied, Error> {
    let Listing { directories, mut files, left_out, failed } = listing;
    let made = job.make_directories(&directories, &mut files).await?;
    let turns = Arc::new(Semaphore::new(usize::from(how.threads)));
    let mut tasks = JoinSet::new();
    let (mut copied, mut passed_over, mut channels) = (0, 0, 0);
    let mut lost = failed.len() as u64 + made.lost;
    let (mut repaired, mut repaired_bytes) = (0, 0);
    let mut files = files.into_iter();
    loop {
        let next = match turns.clone().try_acquire_owned() {
            Ok(turn) => files.next().map(|file| (turn, file)),
            Err(_) => None,
        };
        if let Some((turn, file)) = next {
            let job = Arc::clone(&job);
            tasks.spawn(async move {
                let _turn = turn;
                let became = job.copy(&file).await;
                (file, became)
            });
            continue;
        }
        let Some(done) = tasks.join_next().await else { break };
        channels = channels.max(session.connected().channels.len());
        let (file, became) = done.map_err(|cause| Error::machine(format!("a task ended: {cause}"), "report this"))?;
        match became {
            Ok((became, bytes)) => {
                match became {
                    Became::Copied => copied += 1,
                    Became::PassedOver => passed_over += 1,
                }
                repaired += u64::from(bytes > 0);
                repaired_bytes += bytes;
            }
            Err(error) => {
                lost += 1;
                job.say_not_copied(&file.path, &error);
            }
        }
    }
    job.progress.end();
    Ok(Copied {
        files: copied,
        passed_over,
        directories: made.directories,
        left_out: left_out.len(),
        failed: lost,
        bytes: job.progress.bytes(),
        seconds: started.elapsed().as_secs_f64(),
        verified: how.verify,
        repaired,
        repaired_bytes,
        channels,
        lost_channels: session.connected().failure_count,
    })
}

fn summary(copied: &Copied) -> String {
    format!(
        "{} files, {} in {:.1} s ({}, {} channels){}{}{}\n",
        copied.files,
        figures::bytes(copied.bytes),
        copied.seconds,
        figures::rate(copied.bytes as f64 / copied.seconds.max(0.001)),
        copied.channels,
        if copied.passed_over > 0 { format!(", {} passed over", copied.passed_over) } else { String::new() },
        if copied.verified { ", verified" } else { "" },
        match copied.repaired {
            0 => String::new(),
            count => format!(", {count} mended ({})", figures::bytes(copied.repaired_bytes)),
        },
    )
}

impl Job {
    async fn listing_down(&mut self, place: &Place) -> Result<Listing, Error> {
        let facts = self.tree.facts(&place.path).await.map_err(failed)?;
        if facts.is_directory() {
            return tree::remote(&self.tree, &place.path).await;
        }
        if self.local.is_dir() {
            self.local.push(place.name());
        }
        let file = Item { path: String::new(), bytes: facts.end_of_file, written: facts.written };
        Ok(Listing { files: vec![file], ..Listing::default() })
    }

    async fn listing_up(&mut self, place: &Place) -> Result<Listing, Error> {
        let facts = fs::metadata(&self.local).map_err(|cause| unreadable(&self.local, &cause))?;
        if facts.is_dir() {
            return tree::local(&self.local);
        }
        let is_directory = match self.tree.facts(&place.path).await {
            Ok(facts) => facts.is_directory(),
            Err(_) => place.is_directory,
        };
        if is_directory {
            let name = self.local.file_name();
            let name = name.ok_or_else(|| Error::argument("the file has no name", "name the target's file"))?;
            self.remote = joined(&self.remote, &shown_name(name.as_bytes()));
        }
        Ok(Listing { files: vec![tree::item(String::new(), &facts)], ..Listing::default() })
    }

    /// What people are told of an item: its path in what is copied, or what is copied where that is one file.
    pub(super) fn name(&self, item: &str) -> String {
        match self.direction {
            _ if !item.is_empty() => tree::for_people(item),
            Direction::Up => self.local.display().to_string(),
            Direction::Down => self.remote.clone(),
        }
    }

    pub(super) fn local(&self, item: &str) -> PathBuf {
        tree::on_disk(&self.local, item)
    }

    pub(super) fn remote(&self, item: &str) -> String {
        joined(&self.remote, item)
    }

    fn say_not_copied(&self, path: &str, why: &Error) {
        let name = self.name(path);
        self.progress.say(&format!("not copied: {}: {}\nhelp: {}", printable(&name), why.what(), why.remedy()));
    }

    /// Makes the directories. Where one cannot be made, what is in it is not copied, and all else is; nothing is without the first.
    async fn make_directories(&self, directories: &[String], files: &mut Vec<Item>) -> Result<Made, Error> {
        let (mut made, mut missing) = (Made::default(), Vec::<String>::new());
        for directory in directories {
            if missing.iter().any(|above| is_below(directory, above)) {
                continue;
            }
            match self.make_directory(directory).await {
                Ok(()) => made.directories += 1,
                Err(why) if directory.is_empty() => return Err(why),
                Err(why) => {
                    self.say_not_copied(directory, &why);
                    made.lost += 1;
                    missing.push(directory.clone());
                }
            }
        }
        let all = files.len();
        files.retain(|file| !missing.iter().any(|above| is_below(&file.path, above)));
        made.lost += (all - files.len()) as u64;
        Ok(made)
    }

    async fn make_directory(&self, path: &str) -> Result<(), Error> {
        match self.direction {
            Direction::Down if path.is_empty() => {
                fs::create_dir_all(&self.local).map_err(|cause| unwritable(&self.local, &cause))
            }
            Direction::Down => make_below(&self.local(path)),
            Direction::Up if path.is_empty() => make_with_parents(&self.tree, &self.remote).await.map_err(failed),
            Direction::Up => match self.tree.make_directory(&self.remote(path)).await {
                Err(error) if error.status() == Some(Status::OBJECT_NAME_COLLISION) => {
                    match self.tree.facts(&self.remote(path)).await.map_err(failed)?.is_directory() {
                        true => Ok(()),
                        false => {
                            Err(Error::conflict("there is a file of that name", "remove it, or give it another name"))
                        }
                    }
                }
                made => made.map_err(failed),
            },
        }
    }

    /// Copies a file where it must be, and looks at it again where that is asked for; gives the bytes that were copied a second time, too.
    async fn copy(&self, item: &Item) -> Result<(Became, u64), Error> {
        let mut patience = Patience::new(self.session_timeout);
        let became = loop {
            let became = match self.direction {
                Direction::Down => self.download(item).await,
                Direction::Up => self.upload(item).await,
            };
            match became {
                Err(Stopped::Client(::client::Error::OpenLost(_))) if patience.is_left(Instant::now()) => {}
                Err(stopped) => return Err(stopped.into()),
                Ok(became) => break became,
            }
        };
        if !self.verify {
            return Ok((became, 0));
        }
        loop {
            match self.verify(item).await {
                Err(Stopped::Client(::client::Error::OpenLost(_))) if patience.is_left(Instant::now()) => {}
                Err(stopped) => return Err(stopped.into()),
                Ok(repaired) => return Ok((became, repaired)),
            }
        }
    }

    /// True where the target has the file already. One that is newer there is somebody's work, and is not replaced without being told to.
    fn is_there(&self, item: &Item, bytes: u64, written: FileTime) -> Result<bool, Error> {
        if self.force {
            return Ok(false);
        }
        if is_same(item, bytes, written) {
            self.progress.pass_over(item.bytes);
            return Ok(true);
        }
        match written.0 > item.written.0.saturating_add(SAME_TIME) {
            true => Err(newer(&item.path)),
            false => Ok(false),
        }
    }

    async fn download(&self, item: &Item) -> Result<Became, Stopped> {
        let path = self.local(&item.path);
        if let Ok(there) = fs::symlink_metadata(&path)
            && there.is_file()
            && self.is_there(item, there.len(), there.modified().unwrap_or(SystemTime::UNIX_EPOCH).into())?
        {
            return Ok(Became::PassedOver);
        }
        let part = Part::of(&path)?;
        let durable = item.bytes >= DURABLE_BYTES_MIN;
        let options = OpenOptions { directory: Some(false), durable, ..OpenOptions::default() };
        let from = self.tree.open(&self.remote(&item.path), options).await?;
        let take = |at: u64, data: &Data| {
            part.file.write_all_at(data, at).map_err(|cause| unwritable(&part.path, &cause))?;
            self.progress.add(data.len() as u64);
            Ok::<_, Stopped>(())
        };
        let read = from.read_range(0, item.bytes, take).await;
        let closed = from.close().await;
        if read? != item.bytes {
            return Err(changed(&item.path).into());
        }
        closed?;
        let (seconds, nanoseconds) = item.written.to_unix();
        let written = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        part.file.set_modified(written).map_err(|cause| unwritable(&part.path, &cause))?;
        part.rename(&path)?;
        Ok(Became::Copied)
    }

    async fn upload(&self, item: &Item) -> Result<Became, Stopped> {
        let remote = self.remote(&item.path);
        match self.tree.facts(&remote).await {
            Ok(there) if !there.is_directory() && self.is_there(item, there.end_of_file, there.written)? => {
                return Ok(Became::PassedOver);
            }
            Ok(_) => {}
            Err(error) if error.status() == Some(Status::OBJECT_NAME_NOT_FOUND) => {}
            Err(error) => return Err(error.into()),
        }
        let path = self.local(&item.path);
        let from = fs::File::open(&path).map_err(|cause| unreadable(&path, &cause))?;
        let part = remote_part_of(&remote);
        let into = self.open_part(&part, item.bytes >= DURABLE_BYTES_MIN).await?;
        let give = |at: u64, buffer: &mut [u8]| {
            let rest = usize::try_from(item.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
            let length = buffer.len().min(rest);
            let room = buffer.get_mut(..length).unwrap_or_default();
            from.read_exact_at(room, at).map_err(|cause| unreadable(&path, &cause))?;
            self.progress.add(length as u64);
            Ok::<_, Stopped>(length)
        };
        let written = async {
            let bytes = into.write_range(0, give).await?;
            into.set_written(item.written).await?;
            if into.facts_now().await?.end_of_file != bytes {
                return Err(Stopped::from(differs(&item.path)));
            }
            into.rename(&remote, true).await?;
            Ok(bytes)
        };
        let written = written.await;
        let closed = into.close_and_look().await;
        let bytes = written?;
        let there = match closed? {
            Some(there) => there,
            None => self.tree.facts(&remote).await?,
        };
        if there.end_of_file == bytes { Ok(Became::Copied) } else { Err(differs(&item.path).into()) }
    }

    /// Opens the file that a copy is written to, empty. That open alone writes it until it has its name: whatever a lost channel still delivers,
    /// it is no other's data that gets the name.
    async fn open_part(&self, part: &str, durable: bool) -> Result<File, ::client::Error> {
        let options = OpenOptions {
            access: Access::WriteAndDelete,
            disposition: Disposition::Overwrite,
            directory: Some(false),
            sharing: Sharing::Reading,
            durable,
            ..OpenOptions::default()
        };
        let began = Instant::now();
        loop {
            match self.tree.open(part, options).await {
                // Another copy, or one that was broken off and that the server has not missed yet.
                Err(error)
                    if error.status() == Some(Status::SHARING_VIOLATION) && began.elapsed() < self.session_timeout =>
                {
                    sleep(SHARING_RETRY).await;
                }
                opened => return opened,
            }
        }
    }
}

/// How often a file that lost its handle is begun anew.
struct Patience {
    session_timeout: Duration,
    losses: usize,
    first: Option<Instant>,
}

impl Patience {
    fn new(session_timeout: Duration) -> Self {
        Patience { session_timeout, losses: 0, first: None }
    }

    /// Counts a loss. The server was there again each time, so that only who is kept waiting too long in all gives up.
    fn is_left(&mut self, now: Instant) -> bool {
        self.losses += 1;
        let first = *self.first.get_or_insert(now);
        self.losses < ATTEMPTS || now.saturating_duration_since(first) < self.session_timeout
    }
}

/// Why a file was not copied.
pub(super) enum Stopped {
    Client(::client::Error),
    Machine(Error),
}

impl From<::client::Error> for Stopped {
    fn from(error: ::client::Error) -> Self {
        Stopped::Client(error)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Machine(error)
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Client(error) => failed(error),
            Stopped::Machine(error) => error,
        }
    }
}

/// True for what is in a directory, at any depth.
fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

pub(super) fn is_same(item: &Item, bytes: u64, written: FileTime) -> bool {
    item.bytes == bytes && item.written.0.abs_diff(written.0) < SAME_TIME
}

/// Makes a directory in the target. A link that somebody left there is not followed: it may lead out of the target.
fn make_below(path: &Path) -> Result<(), Error> {
    match fs::create_dir(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(there) if there.is_dir() => Ok(()),
            Ok(there) => {
                let what = if there.is_symlink() { "a link" } else { "no directory" };
                let what = format!("{} is {what}: nothing is written through it", shown(path));
                Err(Error::conflict(what, "remove it, or copy to another place"))
            }
            Err(cause) => Err(unwritable(path, &cause)),
        },
        made => made.map_err(|cause| unwritable(path, &cause)),
    }
}

/// The name that a file has on the server until it is whole.
fn remote_part_of(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((above, name)) => format!("{above}/{}", part_name(name.as_bytes())),
        None => part_name(path.as_bytes()),
    }
}

pub(super) fn changed(path: &str) -> Error {
    Error::conflict(format!("{} was changed while it was copied", printable(path)), "copy it again when it is at rest")
}

fn newer(path: &str) -> Error {
    let what = match path {
        "" => "the target is newer".to_owned(),
        path => format!("the target of {} is newer", printable(path)),
    };
    Error::conflict(what, "see which one you want; --force replaces it")
}

pub(super) fn differs(path: &str) -> Error {
    Error::machine(
        format!("{} is not the same on both sides", printable(path)),
        "copy it again; somebody may be writing it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_begun_anew_for_as_long_as_the_server_is_looked_for_however_often_it_was_lost() {
        let mut patience = Patience::new(Duration::from_secs(60));
        let first = Instant::now();
        for seconds in 0..60 {
            assert!(patience.is_left(first + Duration::from_secs(seconds)), "{seconds}");
        }
        assert!(!patience.is_left(first + Duration::from_secs(60)));
    }

    #[test]
    fn no_link_in_the_target_is_followed() {
        let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), target.path().join("link")).unwrap();
        fs::write(target.path().join("file"), "").unwrap();
        for name in ["link", "file"] {
            assert!(make_below(&target.path().join(name)).is_err(), "{name}");
        }
        for _ in 0..2 {
            make_below(&target.path().join("new")).unwrap();
        }
    }

    #[test]
    fn a_file_that_takes_longer_than_that_is_begun_a_few_times_all_the_same() {
        let mut patience = Patience::new(Duration::from_secs(60));
        let (first, apart) = (Instant::now(), Duration::from_secs(3600));
        assert_eq!([0, 1, 2].map(|loss| patience.is_left(first + apart * loss)), [true, true, false]);
    }
}
