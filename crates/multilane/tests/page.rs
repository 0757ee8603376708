//! Operators, and the page of a running server: who is let in is what commands say, and a server without clients is well whatever is asked there.

#[allow(dead_code)]
mod place;
mod started;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::place::Place;
use crate::started::started;

/// Longer than anything takes that a test waits for.
const AN_AGE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "correct horse battery";

/// A server with a page.
struct Served {
    place: Place,
    child: Child,
    page: SocketAddr,
}

impl Served {
    fn new() -> Self {
        let place = Place::new();
        let (child, ready) = started(&place, &["--page", "0"]);
        Served { place, child, page: ready["page"].as_str().unwrap().parse().unwrap() }
    }

    /// The status, and all that comes.
    fn exchange(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.page).unwrap();
        stream.set_read_timeout(Some(AN_AGE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    fn sign_in(&self, name: &str) -> u16 {
        let body = json!({ "name": name, "password": PASSWORD }).to_string();
        let host = format!("localhost:{}", self.page.port());
        let head = format!("POST /api/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n");
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.exchange(&(head + &kind)).0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command with a first line of standard input.
fn saying(place: &Place, arguments: &[&str], line: &str) -> Output {
    let mut command = place.command(&[arguments, &["--password-stdin"]].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn operators_are_made_changed_listed_and_deleted_and_the_page_follows() {
    let served = Served::new();
    let place = &served.place;
    let host = format!("localhost:{}", served.page.port());
    let (status, told) = served.exchange(&format!("GET /api/session HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(status == 403 && told.contains("multilane operator create NAME --data "), "{told}");
    assert_eq!(served.sign_in("ann"), 403, "there is no operator");
    let made = saying(place, &["operator", "create", "Ann"], PASSWORD);
    assert!(made.status.success(), "{made:?}");
    assert_eq!((served.sign_in("ann"), place.json(&["operator", "list"])), (200, json!([{ "name": "Ann" }])));
    let short = saying(place, &["operator", "create", "bob"], "elevenchars");
    assert!(
        short.status.code() == Some(2) && String::from_utf8_lossy(&short.stderr).contains("12 to 1024"),
        "{short:?}"
    );
    let again = saying(place, &["operator", "create", "ANN"], PASSWORD);
    assert!(
        again.status.code() == Some(1) && String::from_utf8_lossy(&again.stderr).contains("operator passwd"),
        "{again:?}"
    );
    assert!(saying(place, &["operator", "passwd", "ann"], "staple battery horse").status.success());
    assert_eq!(served.sign_in("ann"), 401);
    assert!(place.done(&["operator", "delete", "ann"]).contains("deleted operator Ann"));
    assert_eq!(served.sign_in("ann"), 403);
    assert!(place.refused(&["operator", "delete", "ann"], 1).contains("no operator"));
    assert!(place.refused(&["operator", "create", "ann"], 2).contains("--password-stdin"), "there is no terminal");
    let nowhere =
        served.place.command(&["operator", "create", "ann", "--password-stdin", "--data", "/nonexistent/data"]);
    let refused = { nowhere }.stdin(Stdio::null()).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/nonexistent/data"), "{refused:?}");
}

#[test]
fn the_page_is_shown_and_a_taken_port_or_an_address_of_others_is_refused() {
    let served = Served::new();
    assert_eq!(served.place.json(&["status"])["page"], served.page.to_string());
    let text = served.place.done(&["status"]);
    assert!(text.contains(&format!("page        http://{}/\n", served.page)), "{text}");
    let other = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = other.run(&["serve", "--json", "--listen", "127.0.0.1:0", "--page", &port]);
    let refused = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{refused}");
    assert!(refused.contains(&format!("the page cannot be had at 127.0.0.1:{port}")), "{refused}");
    if let Ok(taken) = TcpListener::bind("[::1]:0") {
        let port = taken.local_addr().unwrap().port().to_string();
        let refused = other.refused(&["serve", "--listen", "127.0.0.1:0", "--page", &port], 1);
        assert!(refused.contains(&format!("the page cannot be had at [::1]:{port}")), "{refused}");
    }
    assert!(refused.contains("choose another port with --page [ADDRESS:]PORT"), "{refused}");
    assert!(other.refused(&["serve", "--page", "192.0.2.7:9446"], 2).contains("ssh -L"));
}

#[test]
fn a_thousand_who_ask_at_once_leave_the_server_as_it_is() {
    let served = Served::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..125 {
                    let path = if number % 2 == 0 { "/" } else { "/api/read/overview" };
                    let (status, text) = served.exchange(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
                    assert!([200, 403, 503].contains(&status), "{text}");
                }
            });
        }
    });
    // Those who say nothing have places, and keep no command waiting.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(served.page).unwrap()).collect();
    assert_eq!(served.place.json(&["status"])["state"], "ready");
    drop(silent);
}
