//! Asking by HTTP, byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything takes that a test waits for.
pub(crate) const AN_AGE: Duration = Duration::from_secs(60);

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(AN_AGE)).unwrap();
    stream.set_write_timeout(Some(AN_AGE)).unwrap();
    stream
}

/// What comes until the other side ends the connection; `None` where nothing does.
pub(crate) fn answer(mut stream: TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A reset behind the answer is an end, too.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
}

/// Sends these lines as a request.
pub(crate) fn ask(address: SocketAddr, lines: &[&str]) -> Option<Answer> {
    let mut stream = connect(address);
    // Who is refused early need not have taken all.
    let _ = stream.write_all((lines.join("\r\n") + "\r\n\r\n").as_bytes());
    answer(stream)
}
