//! The limits that the system has for a process: what the server does where they are low, and what it sets itself.

#[allow(dead_code)]
mod served;

use std::net::TcpStream;

use crate::served::Served;

#[test]
fn silent_connections_leave_room_for_who_signs_in_and_for_operators() {
    let served = Served::with_limit("-n", 256);
    let connect = |_| TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let silent: Vec<TcpStream> = (0..600).map(connect).collect();
    let at = format!("smb://local@127.0.0.1:{}/share", served.port);
    let listed = served.program(&["ls", &at]).env("MULTILANE_PASSWORD", &served.password).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(served.program(&["sessions"]).output().unwrap().status.success());
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", served.child.id())).unwrap().count();
    assert!(descriptors < 200, "{descriptors}");
    drop(silent);
}

#[test]
fn a_crash_writes_no_memory_to_a_disk_and_hands_it_to_no_program() {
    let served = Served::new();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", served.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(4).take(2).collect();
    let expected = if numbers[1] == "0" { "0" } else { "1" };
    assert_eq!(numbers[0], expected, "{line}");
}

#[test]
fn a_write_beyond_the_longest_file_that_the_server_may_have_fails_and_the_server_goes_on() {
    // In units of 512 bytes.
    let served = Served::with_limit("-f", 8 << 11);
    let at = |name: &str| format!("smb://local@127.0.0.1:{}/share/{name}", served.port);
    let put = |mib: usize, name: &str| {
        let file = served.folder.path().join(name);
        std::fs::write(&file, vec![1; mib << 20]).unwrap();
        let mut put = served.program(&["put", file.to_str().unwrap(), &at(name)]);
        put.env("MULTILANE_PASSWORD", &served.password).output().unwrap()
    };
    assert!(!put(12, "long").status.success());
    let short = put(4, "short");
    assert!(short.status.success(), "{}", String::from_utf8_lossy(&short.stderr));
}
