//! Passwords that somebody types at a terminal: a real pseudo-terminal, which the program is the session of, as it is in a shell.

#[allow(dead_code)]
mod alice;
#[allow(dead_code)]
mod place;
mod started;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::alice::Server;
use crate::place::Place;

const PROMPTS: [&str; 2] = ["Password: ", "The same again: "];
const CTRL_C: &str = "\u{3}";
/// Longer than anything takes that is waited for.
const AN_AGE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A terminal, and the program that was started at it.
struct Terminal {
    /// The end where somebody sits.
    person: File,
    /// The end that the program has.
    program: OwnedFd,
    child: Child,
    shown: String,
}

impl Terminal {
    fn running(place: &Place, arguments: &[&str]) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = open(ptsname(&person, Vec::new()).unwrap().as_c_str(), flags, Mode::empty()).unwrap();
        let end = || program.try_clone().unwrap();
        let child = at_terminal(place, arguments).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Terminal { person: person.into(), program, child, shown: String::new() }
    }

    /// Waits until `text` is shown behind all that has been waited for before.
    fn shows(&mut self, text: &str) {
        let from = self.shown.len();
        while !self.shown[from..].ends_with(text) {
            let mut ready = [PollFd::new(&self.person, PollFlags::IN)];
            assert_eq!(poll(&mut ready, Some(&AN_AGE)), Ok(1), "{text:?} is waited for behind {:?}", self.shown);
            let mut bytes = [0; 4096];
            let count = self.person.read(&mut bytes).unwrap();
            self.shown.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
    }

    fn types(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).unwrap();
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(self.program.as_fd()).unwrap().local_modes
    }

    /// Waits until the program has ended with this exit code, and is no signal's; the terminal is as it was before. Gives all that it has shown.
    fn ended(mut self, code: i32) -> String {
        self.shows(&format!("exit {code}\r\n"));
        let modes = self.modes();
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON), "{modes:?}: {}", self.shown);
        self.types("\n");
        self.child.wait().unwrap();
        self.shown
    }
}

/// The program as a shell starts it, which has its standard input for a terminal: keys that interrupt could reach it as signals. The shell says how it has
/// ended, and waits for a line.
fn at_terminal(place: &Place, arguments: &[&str]) -> Command {
    let program = place.command(arguments);
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "sh", "-c", r#"trap : INT; "$@"; echo "exit $?"; read line"#, "sh"]);
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn names(place: &Place, of: &str) -> Vec<String> {
    let listed = place.json(&[of, "list"]);
    listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_password_is_typed_twice_and_shown_to_nobody() {
    let place = Place::new();
    let server = Server::new(&place);
    let mut terminal = Terminal::running(&place, &["user", "create", "alice"]);
    terminal.shows(PROMPTS[0]);
    assert!(!terminal.modes().intersects(LocalModes::ECHO | LocalModes::ISIG));
    // Who mistypes takes back the last key, or all of them.
    terminal.types("a secrex\u{7f}t\n");
    terminal.shows(PROMPTS[1]);
    terminal.types("wrong\u{15}a secret\r");
    let shown = terminal.ended(0);
    assert!(["secre", "wrong"].iter().all(|typed| !shown.contains(typed)), "{shown}");
    assert!(server.lets_alice_list(&place, "share"), "{shown}");
    let mut terminal = Terminal::running(&place, &["user", "passwd", "alice"]);
    for prompt in PROMPTS {
        terminal.shows(prompt);
        terminal.types("later words\n");
    }
    let shown = terminal.ended(0);
    assert!(!shown.contains("later"), "{shown}");
    assert!(!server.lets_alice_list(&place, "share"), "{shown}");
    server.end();
}

#[test]
fn two_passwords_that_differ_and_one_that_is_given_up_leave_nothing() {
    let place = Place::with_account();
    // What is typed at each prompt, and what is said of it.
    let given_up = "error: no password was given, and nothing is changed";
    let cases: [(&[&str], &str); 6] = [
        (&["secret\n", "Secret\n"], "error: these are two passwords"),
        (&["secret\n", "\n"], "error: these are two passwords"),
        (&[CTRL_C], given_up),
        (&["sec\u{3}"], given_up),
        (&["secret\n", "sec\u{3}"], given_up),
        (&["\u{4}"], given_up),
    ];
    for (of, arguments) in [("user", ["user", "create", "bob"]), ("operator", ["operator", "create", "bob"])] {
        for (typed, said) in cases {
            let mut terminal = Terminal::running(&place, &arguments);
            for (prompt, keys) in PROMPTS.iter().zip(typed) {
                terminal.shows(prompt);
                terminal.types(keys);
            }
            let shown = terminal.ended(2);
            assert!(
                shown.contains(said) && shown.contains("try again") | shown.contains("start again"),
                "{typed:?}: {shown}"
            );
            assert!(!shown.to_lowercase().contains("sec"), "{typed:?}: {shown}");
            assert!(names(&place, of).is_empty(), "{typed:?}: {shown}");
        }
    }
}

#[test]
fn no_terminal_is_no_place_to_ask_at() {
    let place = Place::with_account();
    let refused = place.refused(&["user", "create", "bob"], 2);
    assert!(refused.contains("--password-stdin"), "{refused}");
    assert!(names(&place, "user").is_empty());
}
