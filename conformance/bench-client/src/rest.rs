//! Downloads by Azure Files' REST interface: ranges at random places of the file that READs have prepared, all checked.
//!
//! `REST_FILE_URL` is the file's URL, `http://HOST:PORT/PATH?SIGNATURE`. A connection asks for one range after the other.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::arguments::Arguments;
use crate::connection::{Fault, SILENCE_MAX};
use crate::content::{Content, next_random};
use crate::load::{Clock, Done, Phases};
use crate::transfer::BEFORE;

/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;

pub fn run(index: usize, arguments: &Arguments, content: &Content, phases: &Phases) -> Result<Done, Fault> {
    let url = std::env::var("REST_FILE_URL").map_err(|_| Fault("REST_FILE_URL is not set".into()))?;
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(|| Fault("REST_FILE_URL is no http://HOST:PORT/PATH".into()))?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut received = vec![0; HEAD_BYTES_MAX + arguments.block_bytes];
    phases.pass("begin");

    let clock = Clock::start(arguments.duration);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (index as u64 + 1);
    let blocks = (arguments.file_bytes / arguments.block_bytes) as u64;
    let mut done = Done::default();
    while !clock.is_over() {
        let place = next_random(&mut state) % blocks * arguments.block_bytes as u64;
        let last = place + arguments.block_bytes as u64 - 1;
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: {host}\r\nx-ms-version: 2026-06-06\r\nx-ms-range: bytes={place}-{last}\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let body = answer(&mut stream, &mut received, arguments.block_bytes)?;
        done.errors += u64::from(!content.matches(place, BEFORE, body));
        done.operations += 1;
    }
    done.elapsed = clock.elapsed();
    phases.pass("end");
    Ok(done)
}

/// Receives one answer; gives its body of so many bytes.
fn answer<'a>(stream: &mut TcpStream, received: &'a mut [u8], length: usize) -> Result<&'a [u8], Fault> {
    let mut count = 0;
    let end = loop {
        if let Some(end) = received[..count.min(HEAD_BYTES_MAX)].windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if count >= HEAD_BYTES_MAX {
            return Err(Fault("an answer has no head".into()));
        }
        count += some(stream, &mut received[count..])?;
    };
    let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
    if !head.starts_with("http/1.1 206 ") || !head.contains(&format!("\r\ncontent-length: {length}\r\n")) {
        return Err(Fault(format!("a range was answered with {head}")));
    }
    while count < end + length {
        count += some(stream, &mut received[count..end + length])?;
    }
    Ok(&received[end..end + length])
}

fn some(stream: &mut TcpStream, into: &mut [u8]) -> Result<usize, Fault> {
    match stream.read(into)? {
        0 => Err(Fault("the server closed the connection".into())),
        count => Ok(count),
    }
}
