//! The command's side of the admin socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::{REPLY_BYTES_MAX, Reply, Request};
use crate::{DataFolder, Error, Status};

/// How long a command waits for the server: opening a share on a slow disk takes seconds, not more.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long who only looks waits for the server.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How long a server that has its folder may take until it can be reached.
const BEGINS_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether it can.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Asks the server that runs on `folder` for what it says in one line. `None` where none runs.
pub fn ask<T: DeserializeOwned>(folder: &DataFolder, request: &Request) -> Result<Option<T>, Error> {
    let Some(mut answer) = Answer::to(folder, request)? else { return Ok(None) };
    match answer.next()? {
        Part::Last(result) => Ok(Some(result)),
        Part::One(_) => Err(not_understood("it has several parts")),
    }
}

/// Asks it for a list, however long. It is taken as fast as it comes: the server waits for nobody for long.
pub fn ask_for_all<T: DeserializeOwned>(folder: &DataFolder, request: &Request) -> Result<Option<Vec<T>>, Error> {
    let Some(mut answer) = Answer::to(folder, request)? else { return Ok(None) };
    let mut all = Vec::new();
    loop {
        match answer.next::<Vec<T>>()? {
            Part::One(part) => all.extend(part),
            Part::Last(part) => {
                all.extend(part);
                return Ok(Some(all));
            }
        }
    }
}

/// What is seen of the server of a folder. The numbers are those of processes, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It answers.
    Answers(Box<Status>),
    /// It runs, and does not answer.
    Silent(Option<u32>),
    /// It has its folder, and cannot be reached yet.
    Begins(Option<u32>),
    /// It was told to end, and has not ended yet.
    Ends(Option<u32>),
    /// None runs.
    Nowhere,
}

/// Looks at the server of `folder`, and waits for it no longer than it takes to answer.
pub fn see(folder: &DataFolder) -> Result<Seen, Error> {
    let stream = match connect_within(folder.socket(), LOOK_MAX) {
        Ok(Some(stream)) => stream,
        Ok(None) => return Ok(Seen::Silent(folder.holder().and_then(|holder| holder.process))),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(match folder.holder() {
                Some(holder) if holder.is_ending => Seen::Ends(holder.process),
                Some(holder) => Seen::Begins(holder.process),
                None => Seen::Nowhere,
            });
        }
        Err(e) => return Err(Error::system("reach the server through", &folder.socket(), &e)),
    };
    let mut answer = Answer { folder, lines: BufReader::new(stream) };
    let status = answer.send_within(LOOK_MAX, &Request::Status).and_then(|()| answer.line());
    match status.map(|line| serde_json::from_slice(&line)) {
        Ok(Ok(Reply::Done { result })) => Ok(Seen::Answers(result)),
        Ok(Ok(_)) => Err(not_understood("it is not a status")),
        Ok(Err(cause)) => Err(not_understood(cause)),
        // It may have ended meanwhile.
        Err(_) => Ok(match folder.holder() {
            Some(holder) if holder.is_ending => Seen::Ends(holder.process),
            Some(holder) => Seen::Silent(holder.process),
            None => Seen::Nowhere,
        }),
    }
}

/// Connects to a server that may take no more connections; `None` where that takes longer. A thread waits for it then, until this program ends.
fn connect_within(path: PathBuf, patience: Duration) -> io::Result<Option<UnixStream>> {
    let (connected, wait) = mpsc::channel();
    thread::Builder::new().spawn(move || _ = connected.send(UnixStream::connect(path)))?;
    wait.recv_timeout(patience).ok().transpose()
}

/// What comes back, line by line.
struct Answer<'a> {
    folder: &'a DataFolder,
    lines: BufReader<UnixStream>,
}

/// What one line says.
enum Part<T> {
    /// Others follow.
    One(T),
    Last(T),
}

impl<'a> Answer<'a> {
    fn to(folder: &'a DataFolder, request: &Request) -> Result<Option<Self>, Error> {
        let Some(stream) = connect(folder)? else { return Ok(None) };
        let answer = Answer { folder, lines: BufReader::new(stream) };
        answer.send(request).map_err(|cause| answer.is_missing(&cause))?;
        Ok(Some(answer))
    }

    fn send(&self, request: &Request) -> io::Result<()> {
        self.send_within(WAIT_MAX, request)
    }

    fn send_within(&self, patience: Duration, request: &Request) -> io::Result<()> {
        let mut stream = self.lines.get_ref();
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    fn next<T: DeserializeOwned>(&mut self) -> Result<Part<T>, Error> {
        let line = self.line().map_err(|cause| self.is_missing(&cause))?;
        match serde_json::from_slice(&line) {
            Ok(Reply::More { result }) => Ok(Part::One(result)),
            Ok(Reply::Done { result }) => Ok(Part::Last(result)),
            Ok(Reply::Refused { missing: true, what, remedy }) => Err(Error::missing(what, remedy)),
            Ok(Reply::Refused { missing: false, what, remedy }) => Err(Error::machine(what, remedy)),
            Err(cause) => Err(not_understood(cause)),
        }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.lines.by_ref().take(REPLY_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.ends_with(b"\n") { Ok(line) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn is_missing(&self, cause: &io::Error) -> Error {
        let place = self.folder.path().display();
        // What a socket says whose time is over.
        if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return Error::machine(
                format!("the server on {place} has not answered for {} s", WAIT_MAX.as_secs()),
                "`multilane status` says whether it runs, and which process it is: that may be stopped, or wait for a disk",
            );
        }
        Error::machine(
            format!("the server on {place} does not answer: {cause}"),
            "see its log; what is in the catalog takes effect when it starts again",
        )
    }
}

/// The server's socket; `None` where no server runs. One that has just begun makes it a moment later.
fn connect(folder: &DataFolder) -> Result<Option<UnixStream>, Error> {
    let until = Instant::now() + BEGINS_WITHIN;
    loop {
        match UnixStream::connect(folder.socket()) {
            Ok(stream) => return Ok(Some(stream)),
            // A server that ended without cleaning up leaves a socket that refuses.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            Err(e) => return Err(Error::system("reach the server through", &folder.socket(), &e)),
        }
        let Some(server) = folder.server() else { return Ok(None) };
        if Instant::now() >= until {
            return Err(Error::machine(
                format!(
                    "the server (process {server}) cannot be told: {} is not its socket",
                    folder.socket().display()
                ),
                "restart it: what is in the catalog takes effect then, and not before",
            ));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

pub(crate) fn not_understood(cause: impl std::fmt::Display) -> Error {
    let remedy = "restart the server so that it is the same version as this program";
    Error::machine(format!("the server's answer is not understood: {cause}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_stopped_has_not_answered() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let (stream, _silent) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut answer = Answer { folder: &folder, lines: BufReader::new(stream) };
        let cause = answer.line().unwrap_err();
        let told = answer.is_missing(&cause);
        assert!(told.what().ends_with("has not answered for 30 s"), "{told}");
        assert!(told.remedy().contains("`multilane status`") && !told.remedy().contains("catalog"), "{told}");
        let ended = answer.is_missing(&ErrorKind::UnexpectedEof.into());
        assert!(ended.remedy().contains("catalog"), "{ended}");
    }
}
