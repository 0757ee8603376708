//! The command's side of the admin socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{REPLY_BYTES_MAX, Reply, Request};
use crate::{DataFolder, Error};

/// How long a command waits for the server: opening a share on a slow disk takes seconds, not more.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Asks the server that runs on `folder`. `None` where none runs.
pub fn ask<T: DeserializeOwned>(folder: &DataFolder, request: &Request) -> Result<Option<T>, Error> {
    let stream = match UnixStream::connect(folder.socket()) {
        Ok(stream) => stream,
        // A server that ended without cleaning up leaves a socket that refuses.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(None),
        Err(e) => return Err(Error::system("reach the server through", &folder.socket(), &e)),
    };
    let line = exchange(stream, request).map_err(|cause| {
        Error::machine(
            format!("the server on {} does not answer: {cause}", folder.path().display()),
            "see its log; what is in the catalog takes effect when it starts again",
        )
    })?;
    match serde_json::from_str(&line) {
        Ok(Reply::Done { result }) => serde_json::from_value(result).map(Some).map_err(|e| not_understood(&e)),
        Ok(Reply::Refused { missing: true, what, remedy }) => Err(Error::missing(what, remedy)),
        Ok(Reply::Refused { missing: false, what, remedy }) => Err(Error::machine(what, remedy)),
        Err(e) => Err(not_understood(&e)),
    }
}

fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<String> {
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(stream).take(REPLY_BYTES_MAX).read_line(&mut reply)?;
    if reply.ends_with('\n') { Ok(reply) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn not_understood(cause: &serde_json::Error) -> Error {
    let remedy = "restart the server so that it is the same version as this program";
    Error::machine(format!("the server's answer is not understood: {cause}"), remedy)
}
