//! A client that keeps its queue full and sends together all that is due, for measuring what an operation costs a server.
//!
//! Prints one line of JSON: operations, errors and seconds. Every byte read is compared with what was written.

mod connection;
mod load;

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use connection::{Connection, Protection, Target};
use load::{Amount, Load, Operation};

const USAGE: &str = "usage: bench-client ADDRESS:PORT SHARE USER PASSWORD \
read|write|create|open|idle BLOCK_BYTES DEPTH CONNECTIONS SECONDS plain|sign|seal

idle opens CONNECTIONS signed-in connections, prints a line and holds them for SECONDS.
The loop waits for a line on standard input after its preparation where BENCH_WAIT is set, so that the preparation is not measured.";

fn main() {
    if let Err(message) = run() {
        eprintln!("bench-client: {message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, share, user, password, operation, block, depth, connections, seconds, protection] = words.as_slice()
    else {
        return Err(USAGE.into());
    };
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is no number\n{USAGE}"));
    let protection = match protection.as_str() {
        "plain" => Protection::Plain,
        "sign" => Protection::Sign,
        "seal" => Protection::Seal,
        _ => return Err(USAGE.into()),
    };
    let target = Target {
        address: address.clone(),
        share: share.clone(),
        user: user.clone(),
        password: password.clone(),
        protection,
    };
    let time = Duration::from_secs(number(seconds)? as u64);
    let connections = number(connections)?;
    let operation = match operation.as_str() {
        "read" => Operation::Read,
        "write" => Operation::Write,
        "create" => Operation::Create,
        "open" => Operation::Open,
        "idle" => return idle(&target, connections, time),
        _ => return Err(USAGE.into()),
    };
    measure(Arc::new(target), operation, Amount { block: number(block)?, depth: number(depth)?, time }, connections)
}

fn measure(target: Arc<Target>, operation: Operation, amount: Amount, connections: usize) -> Result<(), String> {
    let ready = Arc::new(Barrier::new(connections + 1));
    let go = Arc::new(Barrier::new(connections + 1));
    let threads: Vec<_> = (0..connections)
        .map(|index| {
            let (target, ready, go) = (Arc::clone(&target), Arc::clone(&ready), Arc::clone(&go));
            std::thread::spawn(move || {
                let mut connection = Connection::open(&target);
                let number = u64::from(std::process::id()) << 8 | index as u64;
                let load = match &mut connection {
                    Ok(connection) => Load::prepare(connection, operation, amount, number),
                    Err(message) => Err(message.clone()),
                };
                ready.wait();
                go.wait();
                load?.run()
            })
        })
        .collect();
    ready.wait();
    if std::env::var_os("BENCH_WAIT").is_some() {
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    }
    let started = Instant::now();
    go.wait();
    let mut total = load::Result::default();
    for thread in threads {
        let result = thread.join().map_err(|_| "a connection panicked")??;
        total.operations += result.operations;
        total.errors += result.errors;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(r#"{{"operations": {}, "errors": {}, "seconds": {seconds:.3}}}"#, total.operations, total.errors);
    if total.errors > 0 { Err(format!("{} operations went wrong", total.errors)) } else { Ok(()) }
}

fn idle(target: &Target, connections: usize, time: Duration) -> Result<(), String> {
    let held: Result<Vec<_>, _> = (0..connections).map(|_| Connection::open(target)).collect();
    println!(r#"{{"connections": {}}}"#, held?.len());
    std::thread::sleep(time);
    Ok(())
}
