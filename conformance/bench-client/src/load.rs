//! The measurement: every connection on a thread of its own, all for the same time.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Mode};
use crate::connection::Fault;
use crate::content::Content;
use crate::login::connected;
use crate::{bind, list, metadata, rest, transfer};

/// What one connection did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub operations: u64,
    /// Answers with a wrong status, or wrong data.
    pub errors: u64,
    /// Time it took, preparation and verification left out.
    pub elapsed: Duration,
}

/// Between preparation, measurement and verification all connections wait for each other. Standard output says
/// `begin` and `end`, and the next phase waits for a line on standard input, so that the caller can look at the
/// server's clock at both.
pub struct Phases {
    barrier: Barrier,
}

impl Phases {
    fn new(connections: usize) -> Self {
        Phases { barrier: Barrier::new(connections) }
    }

    pub fn pass(&self, name: &str) {
        if self.barrier.wait().is_leader() {
            println!("{name}");
            let mut line = String::new();
            let _ = std::io::stdin().read_line(&mut line);
        }
        self.barrier.wait();
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Fault> {
    let content = Arc::new(Content::new());
    let phases = Arc::new(Phases::new(arguments.connections));
    let threads: Vec<_> = (0..arguments.connections)
        .map(|index| {
            let (arguments, content, phases) = (arguments.clone(), content.clone(), phases.clone());
            std::thread::spawn(move || one_connection(index, &arguments, &content, &phases))
        })
        .collect();
    let mut total = Done::default();
    for thread in threads {
        let done = thread.join().map_err(|_| Fault("a connection's thread panicked".into()))?;
        total.operations += done.operations;
        total.errors += done.errors;
        total.elapsed = total.elapsed.max(done.elapsed);
    }
    let seconds = total.elapsed.as_secs_f64();
    println!("{{\"ops\": {}, \"seconds\": {seconds:.3}, \"errors\": {}}}", total.operations, total.errors);
    Ok(())
}

/// A connection's measurement. A fault ends the whole program: the others would wait for it.
fn one_connection(index: usize, arguments: &Arguments, content: &Content, phases: &Phases) -> Done {
    let connect = || connected(&arguments.target, arguments.protection);
    let outcome = match arguments.mode {
        Mode::Bind => bind::run(arguments, phases),
        Mode::Rest => rest::run(index, arguments, content, phases),
        Mode::Read | Mode::Write => {
            connect().and_then(|mut connection| transfer::run(&mut connection, index, arguments, content, phases))
        }
        Mode::List => connect().and_then(|mut connection| list::run(&mut connection, arguments, phases)),
        Mode::Create | Mode::Open | Mode::Stat | Mode::Make | Mode::Delete | Mode::Walk | Mode::Idle | Mode::Leases => {
            connect().and_then(|mut connection| metadata::run(&mut connection, index, arguments, phases))
        }
    };
    match outcome {
        Ok(done) => done,
        Err(fault) => {
            eprintln!("connection {index}: {fault}");
            std::process::exit(1);
        }
    }
}

/// When to stop, asked once per turn.
pub struct Clock {
    began: Instant,
    duration: Duration,
}

impl Clock {
    pub fn start(duration: Duration) -> Self {
        Clock { began: Instant::now(), duration }
    }

    pub fn is_over(&self) -> bool {
        self.began.elapsed() >= self.duration
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
