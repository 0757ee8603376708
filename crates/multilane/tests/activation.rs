//! Sockets that a service manager passes to the server. The shell stands for the manager: what a test hands it as standard input becomes
//! descriptor 3.

#[allow(dead_code)]
mod place;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::place::Place;

/// Runs the program behind it with descriptor 3, as the process that `LISTEN_PID` names.
const OURS: &str = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\" 3<&0 0</dev/null";

/// `serve` with these words and a descriptor that it is passed by this line of the shell.
fn serve(place: &Place, pass: &str, descriptor: impl Into<OwnedFd>, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", pass, "sh", env!("CARGO_BIN_EXE_multilane"), "serve", "--json"]).args(words);
    command.env("MULTILANE_DATA", &place.data).env_remove("MULTILANE_LOG").stdin(Stdio::from(descriptor.into()));
    command
}

/// A running server, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server once it serves, and where it says it does.
fn started(mut command: Command) -> (Server, Vec<SocketAddr>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let server = Server(child);
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let listen = ready["listen"].as_array().unwrap();
    (server, listen.iter().map(|address| address.as_str().unwrap().parse().unwrap()).collect())
}

fn complaint(place: &Place, descriptor: impl Into<OwnedFd>) -> String {
    let output = serve(place, OURS, descriptor, &["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_socket_that_is_passed_is_served() {
    let place = Place::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    // Who connects before the server is there waits for it.
    let early = TcpStream::connect(at).unwrap();
    let (_server, listen) = started(serve(&place, OURS, socket, &[]));
    assert_eq!(listen, [at]);
    drop(early);
    let keys = place.json(&["account", "keys", "local"]);
    let listed = place
        .command(&["ls", &format!("smb://local@{at}/share")])
        .env("MULTILANE_PASSWORD", keys["key1"].as_str().unwrap())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[test]
fn addresses_that_are_named_are_served_beside_a_socket_that_is_passed() {
    let place = Place::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let (_server, listen) = started(serve(&place, OURS, socket, &["--listen", "127.0.0.1:0"]));
    assert_eq!(listen.len(), 2);
    assert_eq!(listen[0], at);
    assert!(listen.iter().all(|address| TcpStream::connect(address).is_ok()), "{listen:?}");
}

#[test]
fn what_is_passed_and_does_not_listen_for_tcp_is_refused() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let complaints = [
        complaint(&place, File::open("/dev/null").unwrap()),
        complaint(&place, UdpSocket::bind("127.0.0.1:0").unwrap()),
        complaint(&place, UnixListener::bind(place.place.path().join("socket")).unwrap()),
        complaint(&place, TcpStream::connect(listener.local_addr().unwrap()).unwrap()),
    ];
    for complaint in complaints {
        let what = "error: the server did not start: descriptor 3, which was passed to it, is no socket that listens for TCP\n";
        assert!(complaint.starts_with(what) && complaint.contains("ListenStream="), "{complaint}");
    }
    assert!(!place.data.exists(), "nothing was made");
}

#[test]
fn sockets_that_were_passed_to_another_process_are_left_alone() {
    for pass in ["LISTEN_FDS=1 exec \"$@\" 3<&0 0</dev/null", "LISTEN_FDS=1 LISTEN_PID=1 exec \"$@\" 3<&0 0</dev/null"]
    {
        let place = Place::new();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let (_server, listen) = started(serve(&place, pass, socket, &["--listen", "127.0.0.1:0"]));
        assert_eq!(listen.len(), 1, "{pass}");
        assert_ne!(listen[0], at, "{pass}");
    }
}

#[test]
fn more_sockets_than_a_server_takes_are_refused() {
    let place = Place::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let many = OURS.replace("LISTEN_FDS=1", "LISTEN_FDS=4000000000");
    let output = serve(&place, &many, socket, &[]).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("4000000000 sockets were passed to it, and it takes 64"), "{complaint}");
}
