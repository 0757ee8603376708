//! A log that takes no lines costs lines: not clients, and not an orderly end.

#[allow(dead_code)]
mod served;

use std::fs::OpenOptions;
use std::io::{Read, pipe};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::served::Served;

/// Clients work, and SIGTERM ends the server in order.
fn is_well(mut served: Served) {
    for _ in 0..3 {
        let at = format!("smb://local@127.0.0.1:{}/share", served.port);
        let listed = served.program(&["ls", &at]).env("MULTILANE_PASSWORD", &served.password).output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    }
    assert!(Command::new("kill").args(["-TERM", &served.child.id().to_string()]).status().unwrap().success());
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

/// More connections than lines fit into a pipe.
fn be_noisy(served: &Served) {
    for _ in 0..1_000 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        // Not SMB: the server ends it, and says so.
        std::io::Write::write_all(&mut stream, b"\0\0\0\x04none").unwrap();
        let _ = stream.read(&mut [0; 8]);
    }
}

#[test]
fn full_disk_under_the_log_disturbs_nobody() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    is_well(Served::logging(&[], full));
}

#[test]
fn log_whose_reader_has_gone_disturbs_nobody() {
    let (reader, writer) = pipe().unwrap();
    let served = Served::logging(&[], writer);
    drop(reader);
    is_well(served);
}

#[test]
fn log_that_nobody_reads_disturbs_nobody() {
    let (reader, writer) = pipe().unwrap();
    let served = Served::logging(&[], writer);
    be_noisy(&served);
    is_well(served);
    drop(reader);
}

#[test]
fn log_that_is_read_has_its_last_lines() {
    let (mut reader, writer) = pipe().unwrap();
    let served = Served::logging(&[], Stdio::from(writer));
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).unwrap();
        log
    });
    is_well(served);
    let log = log.join().unwrap();
    assert!(log.contains("signed in") && log.trim_end().ends_with("ended"), "{log}");
}
